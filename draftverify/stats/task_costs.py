"""What single tasks cost, drafted for or not, and how often what has stopped paying is looked at again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from draftverify.values import Outcome, Round

SHARED = 1.25
"""Batch sizes up to this factor apart are one in the table."""
WARM_UP = 3
"""Plain steps timed before a batch size may draft."""
FIRST_GAP, LAST_GAP = 4, 64
"""Plain steps between two probes, doubled after each one in vain."""


class TaskCosts(NamedTuple):
    """What a task cost, and by what it was done.

    Args:
        drafted: whether it was drafted for.
        drafting, others: cost of the rounds that the pipeline's own generator drafted, and of those of fallbacks.
        fell: whether a fallback drafted.
        solved: whether drafts came into the answer.
    """

    drafted: bool
    drafting: float
    others: float
    fell: bool
    solved: bool

    @property
    def alone(self) -> bool:
        """Whether a fallback did it all, and `others` is what the task takes undrafted."""
        return self.fell and not self.solved

    def lost(self, unit: float) -> float:
        """The cost of a drafted task beyond the plain way, which takes `unit` on average."""
        return self.drafting + self.others - unit if self.solved else self.drafting


def task_costs(rounds: Iterable[Round], outcome: Outcome, *, paid: bool = False) -> TaskCosts | None:
    """What a task cost by its rounds: machine seconds, or with `paid` what its parts say that they cost.

    Returns:
        None for one that says nothing of it: it failed, or has no round. One that waits for a person has cost what it
        has so far, and no draft has come into an answer.
    """
    drafting = undrafted = 0.0
    drafted = fell = useful = False
    for round in rounds:
        cost = round.timing.cost if paid else round.timing.busy
        if round.source == "generator":
            drafting += cost
            drafted = drafted or not round.undrafted
            useful = useful or bool(round.decision.emitted or round.decision.held)
        elif round.source != "person":
            undrafted += cost
            fell = True
    if outcome.status == "failed" or not outcome.rounds:
        return None
    return TaskCosts(
        drafted, drafting, undrafted, fell, useful and outcome.status in ("accepted", "abstained")
    )
