"""The lab: what is learned from runs and what is promised of them: fits, certificates, replay, monitors, training data.

A name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftverify.lab.calibrated import Calibrated
    from draftverify.lab.certificate import Certificate, Promise, certify
    from draftverify.lab.certified_threshold import CertifiedThreshold
    from draftverify.lab.choice import BlockChoice, choose
    from draftverify.lab.expectation import ExpectedBlock, expected_acceptance
    from draftverify.lab.fit import fit_verifier
    from draftverify.lab.operating_point import OperatingPoint, fit_blocks
    from draftverify.lab.recording import RecordedPipeline, Recording
    from draftverify.lab.scores import LabelledScore, Reliability, ScoreFit, fit_scores, reliability

__all__ = [
    "Calibrated",
    "OperatingPoint",
    "Certificate",
    "CertifiedThreshold",
    "BlockChoice",
    "ExpectedBlock",
    "LabelledScore",
    "Promise",
    "RecordedPipeline",
    "Recording",
    "Reliability",
    "ScoreFit",
    "fit_blocks",
    "certify",
    "choose",
    "expected_acceptance",
    "fit_scores",
    "fit_verifier",
    "reliability",
]

_SOURCES = {
    "Calibrated": "draftverify.lab.calibrated",
    "OperatingPoint": "draftverify.lab.operating_point",
    "Certificate": "draftverify.lab.certificate",
    "CertifiedThreshold": "draftverify.lab.certified_threshold",
    "BlockChoice": "draftverify.lab.choice",
    "ExpectedBlock": "draftverify.lab.expectation",
    "LabelledScore": "draftverify.lab.scores",
    "Promise": "draftverify.lab.certificate",
    "RecordedPipeline": "draftverify.lab.recording",
    "Recording": "draftverify.lab.recording",
    "Reliability": "draftverify.lab.scores",
    "ScoreFit": "draftverify.lab.scores",
    "fit_blocks": "draftverify.lab.operating_point",
    "certify": "draftverify.lab.certificate",
    "choose": "draftverify.lab.choice",
    "expected_acceptance": "draftverify.lab.expectation",
    "fit_scores": "draftverify.lab.scores",
    "fit_verifier": "draftverify.lab.fit",
    "reliability": "draftverify.lab.scores",
}


def __getattr__(name: str) -> object:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_SOURCES[name]), name)
