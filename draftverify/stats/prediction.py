"""What drafting will be worth on new tasks, said before they run, and what it was worth, measured after.

Speed is seconds per finished task; speed-ups are ratios of those, pooled on the log scale with the task as the unit. A
prediction's interval is for the mean over the new tasks, so that it can be found wrong. Where a metric says which tasks
are solved, `solved` has the figures instead.

Before a long run stands the forecast of what is left of it, from the tasks that were done: Σ over pipelines and groups
of (tasks left) × (mean of the tasks done there); where a group has none done yet the pipeline's mean stands in, and
where a pipeline has none that of all. A task that is long is long in every pipeline, so tasks are the clusters. The
interval is the jackknife's, wider by √(1 + n/m) for the m new tasks' own spread beside that of the n done.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.stats.intervals import (
    Estimate,
    log_interval,
    log_jackknife,
    log_mean,
    numbered,
    rate,
    widened,
)
from draftverify.values import TaskRecord


class SpeedupPrediction(msgspec.Struct, frozen=True):
    """A predicted speed-up over the baseline: the new tasks' geometric mean, its 95 % interval, what it rests on."""

    value: float
    low: float
    high: float
    basis: str


def _log_seconds(records: Iterable[TaskRecord]) -> dict[str, float]:
    """Per accepted task the mean log of its seconds over its records (repeats of one task are one observation)."""
    logs_of: dict[str, list[float]] = {}
    for record in records:
        # One that gave up has no speed.
        if record.outcome.status == "accepted" and record.outcome.seconds > 0.0:
            logs_of.setdefault(record.task, []).append(math.log(record.outcome.seconds))
    return {task: sum(logs) / len(logs) for task, logs in logs_of.items()}


def measured_ratio(records_a: Iterable[TaskRecord], records_b: Iterable[TaskRecord]) -> Estimate:
    """The speed-up of a over the baseline b: seconds of b over those of a, paired by task, of tasks that both finished.

    The geometric mean over those tasks, with a t interval of the paired log ratios; (0, inf) for a single task.

    Returns:
        `trials` and `clusters` are the number of pairs; NaN without any.
    """
    a, b = _log_seconds(records_a), _log_seconds(records_b)
    return log_mean([b[task] - a[task] for task in a if task in b])


def predict(
    records: Sequence[TaskRecord], plain: Sequence[TaskRecord], new_tasks: Mapping[str, int]
) -> dict[str, SpeedupPrediction]:
    """Predict each group's speed-up over plain decoding on tasks that have not run yet.

    The observations are log ratios of the seconds of tasks that both finished, paired by task.

    Group g with c tasks predicts the mean of m new ones as mean_g ± t · s · sqrt(1/c + 1/m), s pooled within groups
    with Σ(c − 1) degrees of freedom. When every group has one task, the spread between groups stands in for the
    spread within (too wide rather than too narrow); a group without tasks that predict is predicted from all others.

    Args:
        records: of the pipeline, of the tasks that predict.
        plain: of the baseline, of the same tasks.
        new_tasks: the groups to predict, and how many new tasks each one's measured figure will be the mean of.

    Returns:
        One SpeedupPrediction per group; an interval of (0, inf) where one task is all there is.

    Raises:
        ConfigError: when no task can be compared with plain decoding.
    """
    base = _log_seconds(plain)
    logs = {task: base[task] - log for task, log in _log_seconds(records).items() if task in base}
    if not logs:
        raise ConfigError(
            "no task that predicts can be compared with plain decoding: record some with both pipelines"
        )
    of_task = {record.task: record.group for record in records}
    logs_of_group: dict[str, list[float]] = {}
    for task, log in logs.items():
        logs_of_group.setdefault(of_task[task], []).append(log)
    freedom = sum(len(values) - 1 for values in logs_of_group.values())
    everything = list(logs.values())
    overall = float(np.var(everything, ddof=1)) if len(everything) > 1 else math.inf
    spread, df = overall, float(len(everything) - 1)
    if freedom:
        spread, df = sum(float(np.var(v)) * len(v) for v in logs_of_group.values()) / freedom, float(freedom)
    predictions = {}
    for group, count in new_tasks.items():
        group_logs, m = logs_of_group.get(group, []), max(1, count)
        if group_logs:
            mean, c = sum(group_logs) / len(group_logs), len(group_logs)
            low, high = log_interval(mean, math.sqrt(spread * (1.0 / c + 1.0 / m)), df)
            note = f"{c} task{'s' * (c > 1)}"
            if not freedom:
                note += "; one task per group, so the spread between groups stands in for the spread within"
        else:
            mean, c = sum(everything) / len(everything), len(everything)
            low, high = log_interval(mean, math.sqrt(overall * (1.0 / c + 1.0)), c - 1)
            note = f"no task of this group; from all {c} others"
        predictions[group] = SpeedupPrediction(math.exp(mean), low, high, note)
    return predictions


def coverage(predictions: Mapping[str, SpeedupPrediction], measured: Mapping[str, Estimate]) -> Estimate:
    """The share of predicted intervals that hold the measured value, over the groups that have both."""
    inside = [
        float(predictions[group].low <= measured[group].value <= predictions[group].high)
        for group in predictions
        if group in measured and math.isfinite(measured[group].value)
    ]
    return rate(inside, [1.0] * len(inside))


class Spent(NamedTuple):
    """What one task took in one pipeline: seconds, or cost."""

    task: str
    pipeline: str
    group: str
    cost: float


def remaining(done: Iterable[Spent], tasks_left: Mapping[tuple[str, str], int]) -> Estimate:
    """What is still to be spent, with its 95 % interval.

    Args:
        done: at least one; not those of `tasks_left`.
        tasks_left: how many tasks there still are, by (pipeline, group).

    Returns:
        `trials` is what was counted, `clusters` from how many tasks. 0 without a spread where nothing is left or
        nothing was spent; NaN where nothing is done; an interval of (0, inf) from a single task.
    """
    rows = list(done)
    todo = {place: count for place, count in tasks_left.items() if count > 0}
    if not rows and todo:
        return Estimate(math.nan, 0.0, math.inf, 0, 0)
    cluster, tasks = numbered(row.task for row in rows)
    if not todo or not any(row.cost for row in rows):
        return Estimate(0.0, 0.0, 0.0, len(rows), tasks)
    cost = np.array([row.cost for row in rows], dtype=float)
    pipelines = np.array([row.pipeline for row in rows])
    groups = np.array([row.group for row in rows])
    # For each place where tasks are left, the rows that tell of it, the nearest first.
    open_places = [
        (count, (pipelines == pipeline) & (groups == group), pipelines == pipeline)
        for (pipeline, group), count in todo.items()
    ]

    def total(use: Any) -> float:
        used = use[cluster]
        spent = 0.0
        for count, *choices in open_places:
            nearest = next((rows_near & used for rows_near in choices if (rows_near & used).any()), used)
            spent += count * float(cost[nearest].mean())
        return spent

    whole = Estimate(*log_jackknife(tasks, total), len(rows), tasks)
    new = max(sum(count for (name, _), count in todo.items() if name == pipeline) for pipeline, _ in todo)
    return Estimate(whole.value, *widened(whole, new), whole.trials, whole.clusters)
