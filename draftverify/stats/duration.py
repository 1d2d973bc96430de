"""What the tasks still to come will take, from those that were done: the forecast before a long run.

The figure is Σ over pipelines and groups of (tasks left) × (mean of the tasks done there); where a group has none done
yet the pipeline's mean stands in, and where a pipeline has none that of all. Tasks are the clusters: one that is long
is long in every pipeline. The interval is the delete-one-task jackknife of the figure's logarithm, a t interval, wider
by sqrt(1 + n/m) for the m new tasks' own spread beside that of the n done (as predictions of speed-ups are).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from draftverify.stats.intervals import Estimate, log_jackknife, numbered, widened


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
