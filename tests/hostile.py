"""Drafts that are always wrong, and right after the turn: what the measured controller must make of them in any domain.

Costs are declared, so that no clock decides: a pass takes a second, and a tenth more for each drafted item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from draftverify import Context, Cost, Pipeline, Proposal, Task, TaskRecord, Verification
from draftverify.stats import drafting
from draftverify.stats.block import Measured
from draftverify.stats.block.fallback import CREDIT
from draftverify.traits import GeneratorTraits

ALLOWANCE = 0.005
"""The controller's own."""
ROUNDS, GOAL = 50, 0.02
"""After so many rounds drafting may lose that share of what plain steps take."""


@dataclass
class Drafts:
    """Drafts what comes next by the tasks' plain answers, or something wrong in its place.

    Args:
        answers: of each task, by its id without what follows a "+".
        spoil: makes of a value one that is refused.
    """

    answers: Mapping[str, Sequence[Any]]
    spoil: Callable[[Any], Any]
    traits: ClassVar[GeneratorTraits] = GeneratorTraits(shape="chain")

    def propose(self, context: Context, n: int) -> Proposal:
        name, right, _ = context.task.id.partition("+")
        coming = self.answers[name][len(context.accepted) :][:n]
        items = tuple(coming if right else map(self.spoil, coming))
        return Proposal.chain(items, cost=Cost(0.01 * len(items)))


def priced(verification: Verification, proposal: Proposal) -> Verification:
    """What a verifier found, at the declared cost."""
    return msgspec.structs.replace(verification, cost=Cost(1.0 + 0.1 * len(proposal.items)))


def must_stop_and_come_back(
    build: Callable[[Any], Pipeline], wrong: Sequence[Task], right: Sequence[Task]
) -> None:
    """Drafting stops within its bound, the account says what was lost, and it goes on when the traffic turns."""
    pipeline = build(Measured())
    before = [pipeline.record(task) for task in wrong]
    rounds = [round for record in before for round in record.rounds]
    assert len(rounds) > 1.5 * ROUNDS
    drafted = [round.asked > 0 for round in rounds]
    assert 1 <= sum(drafted) <= 0.1 * len(rounds)
    beyond = [round.timing.busy - 1.0 for round in rounds]  # a plain step takes a second
    lost = sum(beyond)
    assert lost <= CREDIT + ALLOWANCE * len(rounds) + 0.3
    assert sum(beyond[ROUNDS:]) <= GOAL * len(rounds[ROUNDS:])
    account = drafting(before)
    assert account is not None
    assert account.stopped is not None
    assert account.stopped <= ROUNDS
    counted = lost - sum(record.rounds[0].timing.busy - 1.0 for record in before)
    counted += sum(
        record.rounds[0].timing.draft for record in before
    )  # of a task's first round the draft alone
    assert abs(account.lost - counted) < 0.2
    assert account.reads != "gain"
    after = [pipeline.record(task) for task in right]
    assert all(round.asked for round in after[-1].rounds)
    assert seconds(after[-1]) < 0.5 * len(after[-1].outcome.value)


def seconds(record: TaskRecord) -> float:
    """Machine seconds of a task."""
    return sum(round.timing.busy for round in record.rounds)
