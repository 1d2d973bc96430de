"""What a solved task costs: the share that a metric calls right, how far the verifier's word can be taken, and ratios.

A task that was not solved has cost something too, so costs are summed over all tasks and shared out over the solved
ones: a pipeline that gives up fast is not fast. What a metric calls partly right counts as that much of a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np

from draftverify.stats.intervals import Estimate, log_jackknife, rate
from draftverify.stats.prediction import SpeedupPrediction
from draftverify.values import TaskRecord

__all__ = [
    "Scored",
    "accepted_rate",
    "charged",
    "cost_per_solved",
    "mean_cost",
    "precision",
    "predict_solved",
    "solved_rate",
    "solved_ratio",
]

Scored: TypeAlias = "Sequence[tuple[TaskRecord, float]]"
"""Records, each with what a metric said of its outcome, 0 to 1; those of which it said nothing are left out."""


def seconds(record: TaskRecord) -> float:
    """A task's latency."""
    return record.outcome.seconds


def charged(scored: Scored) -> list[tuple[TaskRecord, float]]:
    """The records with their cost where these functions look for seconds."""
    set_ = msgspec.structs.replace
    return [
        (set_(record, outcome=set_(record.outcome, seconds=record.outcome.cost)), value)
        for record, value in scored
    ]


def accepted_rate(statuses: Iterable[str]) -> Estimate:
    """The share of tasks that ended as accepted, of all that began: the verifier's word, each task one trial.

    Args:
        statuses: how each task ended. One that failed or waits has not been accepted.
    """
    accepted = [float(status == "accepted") for status in statuses]
    return rate(accepted, [1.0] * len(accepted))


def mean_cost(costs: Sequence[float]) -> Estimate:
    """The mean cost of a task, whatever became of it, with a jackknife interval on the log scale.

    Args:
        costs: one per task, in seconds or in the parts' cost.
    """
    array = np.asarray(costs, dtype=float)
    if not len(array):
        return Estimate(math.nan, 0.0, math.inf, 0, 0)
    value, low, high = log_jackknife(len(array), lambda use: float(array[use].mean()))
    return Estimate(value, low, high, len(array), len(array))


def solved_rate(scored: Scored) -> Estimate:
    """The share of tasks that are solved, each task one cluster."""
    counts: dict[str, list[float]] = {}
    for record, value in scored:
        cluster = counts.setdefault(record.task, [0.0, 0.0])
        cluster[0] += value
        cluster[1] += 1.0
    return rate([pair[0] for pair in counts.values()], [pair[1] for pair in counts.values()])


def precision(scored: Scored) -> Estimate:
    """The share of accepted outcomes that are right; the rest are the verifier's false passes."""
    return solved_rate([pair for pair in scored if pair[0].outcome.status == "accepted"])


def cost_per_solved(scored: Scored, cost: Callable[[TaskRecord], float] = seconds) -> Estimate:
    """The cost of all tasks over how many were solved, clustered by task; NaN when none was."""
    sums = _sums(scored, cost)
    return _ratio(np.array(list(sums.values())).reshape(-1, 2), lambda total: _over(total[0], total[1]))


def solved_ratio(pipeline: Scored, base: Scored) -> Estimate:
    """The speed-up over the baseline: seconds per solved task of `base` over those of `pipeline`, on the tasks of both.

    Returns:
        `trials` and `clusters` are the number of common tasks; NaN when one side solved none of them.
    """
    return _ratio(_paired(pipeline, base), _speedup)


def predict_solved(pipeline: Scored, base: Scored, groups: Mapping[str, int]) -> dict[str, SpeedupPrediction]:
    """Predict each group's `solved_ratio` on tasks that have not run yet.

    The ratio on the group's c tasks that predict; the interval is wider than theirs by sqrt(1 + c/m) on the log scale,
    for the spread of the m new tasks' own ratio. A group without tasks that predict that tell is predicted from all.

    Args:
        pipeline, base: the pipeline's and the baseline's records of the tasks that predict.
        groups: which to predict, each with how many new tasks there will be; "" for all together.

    Returns:
        One SpeedupPrediction per group; none at all where one side solved no task.
    """
    predictions = {}
    for group, m in groups.items():
        basis = f"tasks of {group}" if group else "tasks"
        pairs = _paired(_of(pipeline, group), _of(base, group))
        ratio = _ratio(pairs, _speedup)
        if math.isnan(ratio.value):
            pairs, basis = _paired(pipeline, base), "tasks of all groups"
            ratio = _ratio(pairs, _speedup)
        if math.isnan(ratio.value):
            continue
        low, high = 0.0, math.inf
        if ratio.low > 0.0:
            wider = math.sqrt(1.0 + len(pairs) / max(m, 1))
            reach = wider * math.log(ratio.high / ratio.value)
            low, high = ratio.value * math.exp(-reach), ratio.value * math.exp(min(reach, 700.0))
        predictions[group] = SpeedupPrediction(
            ratio.value, low, high, f"{len(pairs)} {basis}, seconds per solved task"
        )
    return predictions


def _of(scored: Scored, group: str) -> Scored:
    return [pair for pair in scored if not group or pair[0].group == group]


def _sums(
    scored: Iterable[tuple[TaskRecord, float]], cost: Callable[[TaskRecord], float]
) -> dict[str, tuple[float, float]]:
    """Each task's cost and how much of it was solved, over its records."""
    sums: dict[str, tuple[float, float]] = {}
    for record, value in scored:
        cost_and_solved = sums.get(record.task, (0.0, 0.0))
        sums[record.task] = cost_and_solved[0] + cost(record), cost_and_solved[1] + value
    return sums


def _paired(pipeline: Scored, base: Scored) -> Any:
    """[tasks, 4]: the pipeline's seconds and solved, the baseline's seconds and solved."""
    pipeline_sums, base_sums = _sums(pipeline, seconds), _sums(base, seconds)
    rows = [[*pipeline_sums[task], *base_sums[task]] for task in pipeline_sums if task in base_sums]
    return np.array(rows).reshape(-1, 4)


def _speedup(total: Any) -> float:
    return _over(_over(total[2], total[3]), _over(total[0], total[1]))


def _over(cost: float, solved: float) -> float:
    return float(cost / solved) if solved > 0.0 else math.nan


def _ratio(rows: Any, statistic: Callable[[Any], float]) -> Estimate:
    """A figure of the rows' sums, with an interval by the jackknife over rows."""
    if not len(rows) or not statistic(rows.sum(axis=0)) > 0.0:
        return Estimate(math.nan, 0.0, math.inf, len(rows), len(rows))
    value, low, high = log_jackknife(len(rows), lambda use: statistic(rows[use].sum(axis=0)))
    return Estimate(value, low, high, len(rows), len(rows))
