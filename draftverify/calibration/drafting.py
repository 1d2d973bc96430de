"""What drafting has won or lost against not drafting, by a pipeline's own records, and when it was stopped.

Not drafting is a plain step where the pipeline took some, and else its fallback alone. The records say what either
costs: empty blocks that brought a value, and tasks in which nothing but the fallback was of use. So whatever controller
chose, and in however many processes, what it has cost can be told afterwards, of fixed blocks too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from draftverify.calibration.block_costs import FIRST_GAP
from draftverify.calibration.block_fallback import task_costs
from draftverify.values import Round, TaskRecord

__all__ = ["Drafting", "drafting"]


class Drafting(msgspec.Struct, frozen=True, kw_only=True):
    """An account of drafting.

    Args:
        of: what is counted: "rounds", where plain steps could be taken, else "tasks".
        drafted, plain: how many were drafted for, and how many were not.
        stopped: after how many of them drafting first rested, for four or more; None when it never did.
        again: how often it was tried again after a rest.
        back: whether it goes on at the end.
        lost: machine seconds beyond what all of them would have taken undrafted; negative when it has won.
        share: `lost` of all that the pipeline took.
        plainly: `lost` in plain steps, or in tasks by the fallback.
        said: all this in words.
    """

    of: Literal["rounds", "tasks"]
    drafted: int
    plain: int
    stopped: int | None
    again: int
    back: bool
    lost: float
    share: float
    plainly: float
    said: str


def drafting(records: Sequence[TaskRecord]) -> Drafting | None:
    """The account of one pipeline's records, in the order in which the tasks ran.

    A round that drafted has won what its values would have taken in plain steps at their mean, less what it took; of a
    task's first, which reads the prompt, the draft alone counts. A task that was drafted for has won what the fallback
    takes on average, less what it took; one in which no draft was of use has lost what its drafting took. Each
    session's share of a pass that was shared counts.

    Returns:
        None where nothing was drafted, or it cannot be told what not drafting takes.
    """
    rounds = [
        round
        for record in records
        for round in record.rounds
        if round.source == "generator" and round.timing.passes and round.failure is None
    ]
    if any(not round.asked and round.decision.emitted for round in rounds):
        return _of_rounds(rounds)
    return _of_tasks(records)


def _of_rounds(rounds: Sequence[Round]) -> Drafting | None:
    empty = [each for each in rounds if not each.asked and each.decision.emitted]
    timed = [each for each in empty if each.index] or empty
    unit = math.fsum(each.timing.busy / len(each.decision.emitted) for each in timed) / len(timed)
    lost = [
        (_draft(each) if not each.index else each.timing.busy)
        - unit * (len(each.decision.emitted) - (not each.index))
        for each in rounds
        if each.asked
    ]
    took = math.fsum(each.timing.busy for each in rounds)
    return _account("rounds", [each.asked > 0 for each in rounds], math.fsum(lost), unit, took)


def _of_tasks(records: Sequence[TaskRecord]) -> Drafting | None:
    found = [task_costs(record.rounds, record.outcome) for record in records]
    tasks = [each for each in found if each is not None]
    alone = [each.others for each in tasks if each.alone]
    if not alone:
        return None
    unit = math.fsum(alone) / len(alone)
    lost = math.fsum(each.lost(unit) for each in tasks if each.drafted)
    took = math.fsum(each.drafting + each.others for each in tasks)
    return _account("tasks", [each.drafted for each in tasks], lost, unit, took)


def _account(
    of: Literal["rounds", "tasks"], asked: Sequence[bool], lost: float, unit: float, took: float
) -> Drafting | None:
    if not any(asked) or not unit:
        return None
    stopped, again, idle = None, 0, 0
    for place, each in enumerate(asked[asked.index(True) :], start=asked.index(True)):
        if each and idle >= FIRST_GAP:
            again += 1
        idle = 0 if each else idle + 1
        if idle == FIRST_GAP and stopped is None:
            stopped = place + 1 - FIRST_GAP
    back = idle < FIRST_GAP
    share = lost / took
    plain = "plain steps" if of == "rounds" else "the fallback alone"
    said = "drafting never stopped" if stopped is None else f"drafting stopped after {stopped} {of}"
    said += f"; it {'lost' if lost > 0.0 else 'won'} {abs(lost):.3g} s ({abs(share):.2%} of the run) "
    said += f"{'beyond' if lost > 0.0 else 'over'} {plain}"
    if again:
        said += (
            f"; tried again {again} {'time' if again == 1 else 'times'}{', and back since' if back else ''}"
        )
    return Drafting(
        of=of,
        drafted=sum(asked),
        plain=len(asked) - sum(asked),
        stopped=stopped,
        again=again,
        back=back,
        lost=lost,
        share=share,
        plainly=lost / unit,
        said=said,
    )


def _draft(round: Round) -> float:
    """The part of a round's machine time that went into drafting."""
    timing = round.timing
    return timing.busy * timing.draft / timing.total if timing.total else 0.0
