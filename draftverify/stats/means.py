"""Means of what is measured per task in a unit of its own: seconds saved, a speed-up, a score.

The task is the unit of sampling: several values of one are averaged first. Both intervals are t intervals over tasks:
of an arithmetic mean on the values, of a geometric one on their logarithms (log-t), which suits ratios, of which one
half and two are equally far from no change. A bootstrap over a dozen tasks would be too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from draftverify.stats.intervals import TAIL, Estimate, log_mean, t_quantile, task_sums
from draftverify.stats.solved import Scored


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
