"""Recorded answers of several models, at a declared price: what writing and reading them would take.

An answer takes its characters times its model's billions of parameters; a pass that reads answers takes the same,
however many they are. So no clock is read while the recording is replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from draftverify import Context, Cost, Proposal, Verification
from draftverify_reasoning import Answered, RecordedSolutions

PER_CHARACTER = 1e-4
"""Seconds per character and billion of parameters."""


class Priced(RecordedSolutions):
    """`reasoning.recorded`, with the time that writing a block's answers takes, one after the other.

    Args:
        path: of the recording.
        billions: of parameters, by the system that gave an answer.
    """

    def __init__(self, path: Path, billions: Mapping[str, float]) -> None:
        super().__init__(path)
        self.billions = billions

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n answers."""
        made = super().propose(context, n)
        weight = sum(self.billions[item["system"]] * len(item["text"]) for item in made.items)
        return replace(made, cost=Cost(PER_CHARACTER * weight))


class Read(Answered):
    """`reasoning.answered`, with the time that a pass takes.

    Args:
        seconds: of a pass.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check an answer."""
        return replace(super().verify(context, proposal), cost=Cost(self.seconds))
