"""What a solved task costs: the share that a metric calls right, how far the verifier's word can be taken, and ratios.

A task that was not solved has cost something too, so costs are summed over all tasks and shared out over the solved
ones: a pipeline that gives up fast is not fast. What a metric calls partly right counts as that much of a task.

Of what is measured per task in a unit of its own, a score or seconds saved, there are means: several values of a task
are averaged first. Both are t intervals over tasks, of an arithmetic mean on the values, of a geometric one on
their logarithms, which suits ratios, of which one half and two are equally far from no change. A bootstrap over a dozen
tasks would be too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import replace

from draftverify.stats.intervals import (
    TAIL,
    Estimate,
    log_jackknife,
    log_mean,
    over,
    pooled_rate,
    rate,
    ratio,
    t_quantile,
    task_sums,
    widened,
)
from draftverify.stats.prediction import SpeedupPrediction
from draftverify.values import TaskRecord

Scored: TypeAlias = "Sequence[tuple[TaskRecord, float]]"
"""Records, each with what a metric said of its outcome, 0 to 1; those of which it said nothing are left out."""


def seconds(record: TaskRecord) -> float:
    """A task's latency."""
    return record.outcome.seconds


def charged(scored: Scored) -> list[tuple[TaskRecord, float]]:
    """The records with their cost where these functions look for seconds."""
    return [
        (replace(record, outcome=replace(record.outcome, seconds=record.outcome.cost)), value)
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
    return Estimate(*log_jackknife(len(array), lambda use: float(array[use].mean())), len(array), len(array))


def solved_rate(scored: Scored) -> Estimate:
    """The share of tasks that are solved, each task one cluster."""
    return pooled_rate((record.task, value, 1.0) for record, value in scored)


def precision(scored: Scored) -> Estimate:
    """The share of accepted outcomes that are right; the rest are the verifier's false passes."""
    return solved_rate([pair for pair in scored if pair[0].outcome.status == "accepted"])


def cost_per_solved(scored: Scored, cost: Callable[[TaskRecord], float] = seconds) -> Estimate:
    """The cost of all tasks over how many were solved, clustered by task; NaN when none was."""
    return ratio(task_sums(((record.task, cost(record), value) for record, value in scored), 2))


def solved_ratio(pipeline: Scored, base: Scored) -> Estimate:
    """The speed-up over the baseline: seconds per solved task of `base` over those of `pipeline`, on the tasks of both.

    Returns:
        `trials` and `clusters` are the number of common tasks; NaN when one side solved none of them.
    """
    return ratio(_paired(pipeline, base), _speedup)


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
        gain = solved_ratio(_of(pipeline, group), _of(base, group))
        if math.isnan(gain.value):
            gain, basis = solved_ratio(pipeline, base), "tasks of all groups"
        if math.isnan(gain.value):
            continue
        low, high = widened(gain, max(m, 1))
        predictions[group] = SpeedupPrediction(
            gain.value, low, high, f"{gain.trials} {basis}, seconds per solved task"
        )
    return predictions


def _of(scored: Scored, group: str) -> Scored:
    return [pair for pair in scored if not group or pair[0].group == group]


def _paired(pipeline: Scored, base: Scored) -> Any:
    """[tasks of both, 4]: the pipeline's seconds and solved, the baseline's seconds and solved."""
    common = {record.task for record, _ in pipeline} & {record.task for record, _ in base}
    rows = [(record.task, record.outcome.seconds, value, 0.0, 0.0) for record, value in pipeline]
    rows += [(record.task, 0.0, 0.0, record.outcome.seconds, value) for record, value in base]
    return task_sums((row for row in rows if row[0] in common), 4)


def _speedup(sums: Any) -> float:
    return over(over(sums[2], sums[3]), over(sums[0], sums[1]))


def arithmetic_mean(scored: Scored) -> Estimate:
    """mean ± t_{n−1} · s/√n over n tasks.

    Args:
        scored: records, each with its value, any finite number.

    Returns:
        `trials` counts values, `clusters` tasks; NaN without any, and no bounds with a single task.
    """
    means = _by_task([(record.task, value) for record, value in scored])
    if not len(means):
        return Estimate(math.nan, -math.inf, math.inf, 0, 0)
    value, reach = float(means.mean()), math.inf
    if len(means) > 1:
        reach = t_quantile(TAIL, len(means) - 1) * float(np.std(means, ddof=1)) / math.sqrt(len(means))
    return Estimate(value, value - reach, value + reach, len(scored), len(means))


def geometric_mean(scored: Scored) -> Estimate:
    """exp(mean ± t_{n−1} · s/√n) of the logarithms over n tasks.

    Args:
        scored: records, each with its value, above 0.

    Returns:
        `trials` counts values, `clusters` tasks; NaN without any, and an interval of (0, inf) with a single task.
    """
    logs = _by_task([(record.task, math.log(value)) for record, value in scored])
    return replace(log_mean(logs), trials=len(scored))


def _by_task(values: Sequence[tuple[str, float]]) -> Any:
    """[tasks]: each task's mean."""
    sums = task_sums(((task, value, 1.0) for task, value in values), 2)
    return sums[:, 0] / sums[:, 1]
