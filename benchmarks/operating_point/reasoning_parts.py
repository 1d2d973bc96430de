"""Recorded solutions and their recorded scores, at the price of making and reading them: what was timed, declared.

A block of n solutions is written side by side, so it takes as many steps as its longest has tokens, and a step at batch
n what a step of SmolLM2-135M at batch n took on the machine of the run; reading n solutions takes what a pass over n
rows as long as the longest took. So no clock is read while the recording is replayed, and the costs do not drift.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from draftverify import Context, Cost, Proposal, Verification
from draftverify_reasoning import Recorded, RecordedScore


class Prices:
    """What was timed.

    Args:
        path: JSON of `step` and `read`, seconds by batch size: of a decoding step, and of a position that is read;
            and `tokens_per_character`.
    """

    def __init__(self, path: Path) -> None:
        self._said = json.loads(path.read_text())

    def of(self, what: str, items: Sequence[Any]) -> Cost:
        """The price of a block: its longest text, at its batch size."""
        if not items:
            return Cost(0.0)
        by_size = {int(size): seconds for size, seconds in self._said[what].items()}
        size = min(each for each in by_size if each >= len(items))
        longest = max(len(item["text"]) for item in items) * self._said["tokens_per_character"]
        return Cost(longest * by_size[size])


class Priced(Recorded):
    """`reasoning.recorded`, with the time that writing a block takes.

    Args:
        path: of the recording.
        seconds: of what was timed.
        fields: as of `reasoning.recorded`.
    """

    def __init__(self, path: Path, seconds: Path, fields: Mapping[str, str] = {}) -> None:
        super().__init__(path, fields)
        self.seconds = seconds

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n solutions."""
        made = super().propose(context, n)
        return replace(made, cost=Prices(self.seconds).of("step", made.items))


class PricedScore(RecordedScore):
    """`reasoning.recorded_score`, with the time that reading a block takes; a solution passes from a score on.

    Args:
        seconds: of what was timed.
        least: the score.
    """

    def __init__(self, seconds: Path, least: float) -> None:
        self.seconds = seconds
        self.least = least

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One score a solution."""
        made = super().verify(context, proposal)
        checks = tuple(
            check if check.score is None or check.score >= self.least else replace(check, verdict="reject")
            for check in made.checks
        )
        return replace(made, checks=checks, cost=Prices(self.seconds).of("read", proposal.items))
