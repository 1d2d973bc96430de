"""The lab: what is learned from runs and what is promised of them: fits, certificates, replay, monitors, training data.

A name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftverify.lab.calibrated import Calibrated
    from draftverify.lab.calibration import OperatingPoint, calibrate
    from draftverify.lab.certified_threshold import CertifiedThreshold
    from draftverify.lab.choice import Choice, choose
    from draftverify.lab.expected_acceptance import ExpectedBlock, expected_acceptance
    from draftverify.lab.fit import fit_verifier
    from draftverify.lab.monitor import RateMonitor
    from draftverify.lab.recording import RecordedPipeline, Recording
    from draftverify.lab.scores import Reliability, ScoreFit, fit_scores, reliability
    from draftverify.lab.summarised import Summarised
    from draftverify.lab.thresholds import Judged, certified, tasks_needed
    from draftverify.lab.watch import RATES, Alarm, Monitor, Shares, Watched, part_of, shares_of

__all__ = [
    "Alarm",
    "Calibrated",
    "OperatingPoint",
    "CertifiedThreshold",
    "Choice",
    "ExpectedBlock",
    "Judged",
    "Monitor",
    "RATES",
    "RateMonitor",
    "RecordedPipeline",
    "Recording",
    "Reliability",
    "ScoreFit",
    "Shares",
    "Summarised",
    "Watched",
    "calibrate",
    "certified",
    "choose",
    "expected_acceptance",
    "fit_scores",
    "fit_verifier",
    "part_of",
    "reliability",
    "shares_of",
    "tasks_needed",
]

_SOURCES = {
    "Alarm": "draftverify.lab.watch",
    "Calibrated": "draftverify.lab.calibrated",
    "OperatingPoint": "draftverify.lab.calibration",
    "CertifiedThreshold": "draftverify.lab.certified_threshold",
    "Choice": "draftverify.lab.choice",
    "ExpectedBlock": "draftverify.lab.expected_acceptance",
    "Judged": "draftverify.lab.thresholds",
    "Monitor": "draftverify.lab.watch",
    "RATES": "draftverify.lab.watch",
    "RateMonitor": "draftverify.lab.monitor",
    "RecordedPipeline": "draftverify.lab.recording",
    "Recording": "draftverify.lab.recording",
    "Reliability": "draftverify.lab.scores",
    "ScoreFit": "draftverify.lab.scores",
    "Shares": "draftverify.lab.watch",
    "Summarised": "draftverify.lab.summarised",
    "Watched": "draftverify.lab.watch",
    "calibrate": "draftverify.lab.calibration",
    "certified": "draftverify.lab.thresholds",
    "choose": "draftverify.lab.choice",
    "expected_acceptance": "draftverify.lab.expected_acceptance",
    "fit_scores": "draftverify.lab.scores",
    "fit_verifier": "draftverify.lab.fit",
    "part_of": "draftverify.lab.watch",
    "reliability": "draftverify.lab.scores",
    "shares_of": "draftverify.lab.watch",
    "tasks_needed": "draftverify.lab.thresholds",
}


def __getattr__(name: str) -> object:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_SOURCES[name]), name)
