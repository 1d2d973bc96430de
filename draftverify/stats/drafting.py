"""What drafting has won or lost against not drafting, by a pipeline's own records, and when it was stopped.

Not drafting is a plain step where the pipeline took some, and else its fallback alone. The records say what either
costs: empty blocks that brought a value, and tasks in which nothing but the fallback was of use. So whatever controller
chose, and in however many processes, what it has cost can be told afterwards, of fixed blocks too.

Tasks differ in what they take, and drafts stand mostly in the first ones. So a task's drafts are held against its own
plain steps where it has enough of them, and the figure has an interval over tasks: won or lost is said only where that
excludes 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from draftverify.stats.intervals import TAIL, t_quantile
from draftverify.stats.task_costs import FIRST_GAP, SHARED, WARM_UP, task_costs
from draftverify.values import Round, TaskRecord


class DraftingAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account of drafting.

    Args:
        of: what is counted: "rounds", where plain steps could be taken, else "tasks".
        drafted, plain: how many were drafted for, and how many were not.
        stopped: after how many of them drafting first rested, for four or more; None when it never did.
        again: how often it was tried again after a rest.
        back: whether it goes on at the end.
        lost: machine seconds beyond what all of them would have taken undrafted; negative when it has won.
        low, high: the 95 % interval of `lost`; None where the tasks are too few for one.
        reads: "loss" or "gain" where that interval excludes 0, else "unclear".
        share: `lost` of all that the pipeline took.
        plainly: `lost` in plain steps, or in tasks by the fallback, at their mean.
    """

    of: Literal["rounds", "tasks"]
    drafted: int
    plain: int
    stopped: int | None
    again: int
    back: bool
    lost: float
    low: float | None
    high: float | None
    reads: Literal["gain", "loss", "unclear"]
    share: float
    plainly: float


def drafting(records: Sequence[TaskRecord]) -> DraftingAccount | None:
    """The account of one pipeline's records, in the order in which the tasks ran.

    A round that drafted has won what its values would have taken in plain steps, less what it took; of a task's first,
    which reads the prompt, the draft alone counts. A plain step takes the mean of the task's own at this batch size,
    where it has three or more (batch sizes within a quarter of each other are one); else the mean of all tasks' at the
    batch size that is nearest. A task that was drafted for has won what the fallback takes on average, less what it
    took; one in which no draft was of use has lost what its drafting took. Each session's share of a pass that was
    shared counts.

    The interval is a jackknife over tasks of what was lost per drafted round (task), with Student's t of as many tasks
    as the drafted ones, or those that tell what plain takes, are worth: (Σ n)² / Σ n² of their counts n, less one.

    Returns:
        None where nothing was drafted, or it cannot be told what not drafting takes.
    """
    tasks = [
        [
            round
            for round in record.rounds
            if round.source == "generator" and round.timing.passes and round.failure is None
        ]
        for record in records
    ]
    if any(map(_is_plain, (round for rounds in tasks for round in rounds))):
        return _of_rounds(tasks)
    return _of_tasks(records)


class _Task(NamedTuple):
    """A task's part in the loss.

    Args:
        drafted: how many of its rounds (or itself) were drafted for.
        spent: what they took, less what they would have taken plain where the task knows that itself.
        owed: by group, the plain steps (tasks) that they stood for where it does not.
        plain, steps: by group, what its plain ones took, and how many they were.
    """

    drafted: int
    spent: float
    owed: Sequence[float]
    plain: Sequence[float]
    steps: Sequence[float]


def _of_rounds(tasks: Sequence[Sequence[Round]]) -> DraftingAccount | None:
    empty = [[entry for entry in rounds if _is_plain(entry)] for rounds in tasks]
    # A first round reads the prompt: it is taken for a plain step only where there are no others.
    later = [[entry for entry in rounds if entry.index] for rounds in empty]
    timed = later if any(later) else empty
    sizes = sorted({entry.timing.batch for rounds in timed for entry in rounds})
    totals = []
    for rounds, plain_rounds in zip(tasks, timed, strict=True):
        drafted, spent, owed = 0, 0.0, [0.0] * len(sizes)
        for entry in rounds:
            if not entry.asked:
                continue
            drafted += 1
            values = len(entry.decision.emitted) - (not entry.index)
            spent += entry.timing.busy if entry.index else _draft(entry)
            batch = entry.timing.batch
            plain_seconds = [
                _step(plain) for plain in plain_rounds if _apart(plain.timing.batch, batch) <= SHARED
            ]
            if len(plain_seconds) >= WARM_UP:
                spent -= values * math.fsum(plain_seconds) / len(plain_seconds)
            else:
                owed[min(range(len(sizes)), key=lambda at: _apart(sizes[at], batch))] += values
        plain = [[_step(entry) for entry in plain_rounds if entry.timing.batch == size] for size in sizes]
        totals.append(_Task(drafted, spent, owed, list(map(math.fsum, plain)), list(map(len, plain))))
    flags = [entry.asked > 0 for rounds in tasks for entry in rounds]
    return _account(
        "rounds", flags, totals, math.fsum(entry.timing.busy for rounds in tasks for entry in rounds)
    )


def _of_tasks(records: Sequence[TaskRecord]) -> DraftingAccount | None:
    costs = [task_costs(record.rounds, record.outcome) for record in records]
    tasks = [cost for cost in costs if cost is not None]
    if not any(cost.alone for cost in tasks):
        return None
    totals = [
        _Task(
            cost.drafted,
            cost.lost(0.0) if cost.drafted else 0.0,
            [float(cost.drafted and cost.solved)],
            [cost.others if cost.alone else 0.0],
            [float(cost.alone)],
        )
        for cost in tasks
    ]
    took = math.fsum(cost.drafting + cost.others for cost in tasks)
    return _account("tasks", [cost.drafted for cost in tasks], totals, took)


def _account(
    of: Literal["rounds", "tasks"], flags: Sequence[bool], tasks: Sequence[_Task], took: float
) -> DraftingAccount | None:
    unit = math.fsum(sum(task.plain) for task in tasks) / math.fsum(sum(task.steps) for task in tasks)
    if not any(flags) or not unit:
        return None
    lost, reach = _loss(tasks)
    finite = math.isfinite(reach)
    reads: Literal["gain", "loss", "unclear"] = "unclear"
    if abs(lost) > reach:
        reads = "loss" if lost > 0.0 else "gain"
    stopped, returns, idle, since = None, 0, 0, 0
    for place, drafted in enumerate(flags[flags.index(True) :], start=flags.index(True)):
        if drafted and idle >= FIRST_GAP:
            returns, since = returns + 1, 0
        idle = 0 if drafted else idle + 1
        since += drafted
        if idle == FIRST_GAP and stopped is None:
            stopped = place + 1 - FIRST_GAP
    # A probe at the end is not yet a return.
    back = idle < FIRST_GAP and (not returns or since >= FIRST_GAP)
    return DraftingAccount(
        of=of,
        drafted=sum(flags),
        plain=len(flags) - sum(flags),
        stopped=stopped,
        again=returns,
        back=back,
        lost=lost,
        low=lost - reach if finite else None,
        high=lost + reach if finite else None,
        reads=reads,
        share=lost / took,
        plainly=lost / unit,
    )


def _loss(tasks: Sequence[_Task]) -> tuple[float, float]:
    """The whole loss, and how far its interval reaches to either side; infinite where it has none."""
    drafted = np.array([task.drafted for task in tasks], dtype=float)
    spent = np.array([task.spent for task in tasks])
    owed = np.array([task.owed for task in tasks], dtype=float)
    plain = np.array([task.plain for task in tasks], dtype=float)
    steps = np.array([task.steps for task in tasks], dtype=float)

    def lost(spent: Any, owed: Any, plain: Any, steps: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return spent - np.where(owed != 0.0, owed * plain / steps, 0.0).sum(axis=-1)

    columns = spent, owed, plain, steps
    sums = [column.sum(axis=0) for column in columns]
    value = float(lost(*sums))
    least = _worth(drafted)
    for at in np.flatnonzero(sums[1]):
        least = min(least, _worth(steps[:, at]))
    if least <= 1.0 + 1e-9:
        return value, math.inf
    remaining = drafted.sum() - drafted
    estimates = lost(*(total - part for total, part in zip(sums, columns, strict=True))) / remaining
    estimates = estimates[(drafted > 0) | (steps.sum(axis=1) > 0)]  # the others say nothing
    variance = (len(estimates) - 1) / len(estimates) * float(((estimates - estimates.mean()) ** 2).sum())
    reach = t_quantile(TAIL, least - 1.0) * math.sqrt(variance) * float(drafted.sum())
    return value, reach if math.isfinite(reach) else math.inf


def _worth(counts: Any) -> float:
    """How many tasks of equal counts these are worth."""
    return float(counts.sum() ** 2 / (counts**2).sum())


def _is_plain(round: Round) -> bool:
    """Whether it is a plain step."""
    return not round.asked and bool(round.decision.emitted)


def _step(round: Round) -> float:
    """What a plain round took for each of its values."""
    return round.timing.busy / len(round.decision.emitted)


def _apart(size: int, other_size: int) -> float:
    """The factor between two batch sizes."""
    return max(size, other_size) / min(size, other_size)


def _draft(round: Round) -> float:
    """The part of a round's machine time that went into drafting."""
    timing = round.timing
    return timing.busy * timing.draft / timing.total if timing.total else 0.0
