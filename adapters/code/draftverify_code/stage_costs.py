"""What stages cost: of a pass and of each item in it, and of an accepted item, predicted for new tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from draftverify import ConfigError
from draftverify.calibration import Estimate, log_interval

__all__ = ["fit_pass_cost", "predict_cost"]


def fit_pass_cost(
    passes: Sequence[tuple[int, float]], surplus: Sequence[float]
) -> tuple[float, tuple[float, ...]]:
    """What a stage's passes cost: a + b·n, where b may differ from pass to pass.

    Two passes over the parts of a block take a more than one pass over the whole, whatever its items cost: a is the
    median of such surpluses (0 without any: all blocks had one item, or were equal programs), at most the shortest
    pass. What is left of a pass is shared out to its items.

    Args:
        passes: (items, seconds) of each.
        surplus: seconds by which the passes over a block's parts exceeded that over the whole.

    Returns:
        a, and for each pass the seconds of one of its items.
    """
    least = min(seconds for _, seconds in passes)
    fixed = float(np.clip(np.median(surplus), 0.0, least)) if len(surplus) else 0.0
    return fixed, tuple((seconds - fixed) / items for items, seconds in passes)


def predict_cost(seconds: Sequence[float], accepted: Sequence[float], new_tasks: int) -> Estimate:
    """The cost of an accepted item over tasks that have not run yet, predicted from others.

    log R ± t_{c−1} · √(V · (1 + c/m)), R = Σ seconds / Σ accepted over c calibration tasks, V the delete-one-task
    jackknife variance of log R, m new tasks: the interval is for the ratio that will be measured on those, whose own
    sampling error is V·c/m, so that it can be found wrong.

    Args:
        seconds, accepted: one per calibration task.
        new_tasks: m, drawn like the calibration's and with as many items each.

    Returns:
        `trials` are the accepted items of the calibration; the interval is open where fewer than two tasks had any.

    Raises:
        ConfigError: when nothing was accepted, or there are no new tasks.
    """
    s, a = np.asarray(seconds, dtype=float), np.asarray(accepted, dtype=float)
    c = len(s)
    if new_tasks < 1 or not a.sum() > 0.0:
        raise ConfigError(
            f"nothing can be said of {new_tasks} new tasks from {c} tasks with {a.sum():.0f} accepted items; "
            "calibrate on more"
        )
    value = float(s.sum() / a.sum())
    low, high = 0.0, math.inf
    if value > 0.0 and (s.sum() > s).all() and (a.sum() > a).all():
        logs = np.log(s.sum() - s) - np.log(a.sum() - a)
        variance = (c - 1) / c * float(((logs - logs.mean()) ** 2).sum())
        low, high = log_interval(math.log(value), math.sqrt(variance * (1.0 + c / new_tasks)), c - 1)
    return Estimate(value, low, high, round(float(a.sum())), c)
