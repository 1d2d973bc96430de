"""The lab: what is learned from runs and what is promised of them: fits, certificates, replay, training data.

A name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftverify.lab.calibrated import Calibrated
    from draftverify.lab.certificate import Certificate, Promise, certify
    from draftverify.lab.certified_threshold import CertifiedThreshold
    from draftverify.lab.choosing import choose
    from draftverify.lab.expectation import expected_acceptance
    from draftverify.lab.fit import fit_verifier
    from draftverify.lab.operating_point import fit_blocks, fit_recorded_blocks
    from draftverify.lab.recording import RecordedPipeline, Recording
    from draftverify.lab.scores import LabelledScore, ScoreFit, fit_scores, reliability

__all__ = [
    "Calibrated",
    "Certificate",
    "CertifiedThreshold",
    "LabelledScore",
    "Promise",
    "RecordedPipeline",
    "Recording",
    "ScoreFit",
    "fit_blocks",
    "fit_recorded_blocks",
    "certify",
    "choose",
    "expected_acceptance",
    "fit_scores",
    "fit_verifier",
    "reliability",
]

_MODULES = {
    "calibrated": {"Calibrated"},
    "certificate": {"Certificate", "Promise", "certify"},
    "certified_threshold": {"CertifiedThreshold"},
    "choosing": {"choose"},
    "expectation": {"expected_acceptance"},
    "fit": {"fit_verifier"},
    "operating_point": {"fit_blocks", "fit_recorded_blocks"},
    "recording": {"RecordedPipeline", "Recording"},
    "scores": {"LabelledScore", "ScoreFit", "fit_scores", "reliability"},
}


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
