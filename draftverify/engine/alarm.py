"""What the alarm of a pipeline's monitor changes in a session, which knows no more of monitors."""

from __future__ import annotations

from draftverify.engine.parts import Parts
from draftverify.lab.alarms import doubted, tightened
from draftverify.values import Verification

__all__ = ["Alarm"]


class Alarm:
    """The action of a monitor that has alarmed.

    Args:
        pipeline: whose monitor has alarmed.

    Attributes:
        stops: whether nothing is drafted or learned any more.
        tightens: whether passes of low scores are rejections.
        is_doubt: whether the last verification passed items that a person is to judge.
    """

    def __init__(self, pipeline: Parts) -> None:
        assert pipeline.monitor is not None
        action = pipeline.monitor.on_alarm
        self.stops = action == "stop"
        self.tightens = action == "tighten"
        self.is_doubt = False
        self._doubts = action == "escalate"
        self._threshold = pipeline.monitor.threshold

    def heard(self, verification: Verification, source: str) -> Verification:
        """A verification as the rule is shown it."""
        self.is_doubt = False
        if source == "person":
            return verification
        if self._doubts:
            self.is_doubt = any(check.verdict == "pass" for check in verification.checks)
            return doubted(verification)
        if self.tightens and verification.by == "verifier" and self._threshold is not None:
            return tightened(verification, self._threshold)
        return verification
