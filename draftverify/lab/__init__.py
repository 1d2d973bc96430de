"""The lab: what is learned from runs and what is promised of them: fits, certificates, replay, monitors, training data.

A name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftverify.lab.best_of import BestOfN, best_of_n
    from draftverify.lab.calibrated import Calibrated
    from draftverify.lab.calibration import OperatingPoint, calibrate
    from draftverify.lab.certified_threshold import CertifiedThreshold
    from draftverify.lab.choice import Choice, choose
    from draftverify.lab.expected_acceptance import ExpectedBlock, expected_acceptance
    from draftverify.lab.fit import fit_verifier
    from draftverify.lab.recording import RecordedPipeline, Recording
    from draftverify.lab.scores import Reliability, ScoreFit, fit_scores, reliability
    from draftverify.lab.thresholds import (
        Beforehand,
        Judged,
        beforehand,
        certified,
        certified_rejection,
        least_abstained,
    )

__all__ = [
    "Beforehand",
    "BestOfN",
    "Calibrated",
    "OperatingPoint",
    "CertifiedThreshold",
    "Choice",
    "ExpectedBlock",
    "Judged",
    "RecordedPipeline",
    "Recording",
    "Reliability",
    "ScoreFit",
    "beforehand",
    "best_of_n",
    "calibrate",
    "certified",
    "certified_rejection",
    "choose",
    "expected_acceptance",
    "fit_scores",
    "fit_verifier",
    "least_abstained",
    "reliability",
]

_SOURCES = {
    "Beforehand": "draftverify.lab.thresholds",
    "BestOfN": "draftverify.lab.best_of",
    "Calibrated": "draftverify.lab.calibrated",
    "OperatingPoint": "draftverify.lab.calibration",
    "CertifiedThreshold": "draftverify.lab.certified_threshold",
    "Choice": "draftverify.lab.choice",
    "ExpectedBlock": "draftverify.lab.expected_acceptance",
    "Judged": "draftverify.lab.thresholds",
    "RecordedPipeline": "draftverify.lab.recording",
    "Recording": "draftverify.lab.recording",
    "Reliability": "draftverify.lab.scores",
    "ScoreFit": "draftverify.lab.scores",
    "beforehand": "draftverify.lab.thresholds",
    "best_of_n": "draftverify.lab.best_of",
    "calibrate": "draftverify.lab.calibration",
    "certified": "draftverify.lab.thresholds",
    "certified_rejection": "draftverify.lab.thresholds",
    "choose": "draftverify.lab.choice",
    "expected_acceptance": "draftverify.lab.expected_acceptance",
    "fit_scores": "draftverify.lab.scores",
    "fit_verifier": "draftverify.lab.fit",
    "least_abstained": "draftverify.lab.thresholds",
    "reliability": "draftverify.lab.scores",
}


def __getattr__(name: str) -> object:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_SOURCES[name]), name)
