"""ROC curves of a verifier's score: T and F at every threshold, over all items and within tasks.

`auroc` and `auroc_within` are the areas under them, with their intervals; the points say where to put a threshold.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.stats.intervals import members

MOST = 101
"""Points of a curve that are kept."""


class RocPoint(msgspec.Struct, frozen=True):
    """A point of a curve.

    Args:
        false_pass, true_pass: F and T, the shares of wrong and of right items that pass.
        threshold: items at or above it pass. None at (0, 0), which no threshold need reach, and within tasks, where one
            F is another threshold in each task.
    """

    false_pass: float
    true_pass: float
    threshold: float | None = None


class Roc(msgspec.Struct, frozen=True):
    """The curves of one score; () where there are not both right and wrong items (of one task).

    Args:
        points: over all items, from (0, 0) to (1, 1), one for each score that occurs; of more than 101 some are left
            out. Between two points the curve is a straight line, which counts equal scores half.
        within: the mean of the tasks' own curves, each with the weight of its pairs of a right and a wrong item. A step
            has two points. Its area is `auroc_within`, where no more than 101 values of F occur.
    """

    points: tuple[RocPoint, ...]
    within: tuple[RocPoint, ...]


def roc(scores: Sequence[float], right: Sequence[bool], tasks: Sequence[Hashable]) -> Roc:
    """The curves of a score.

    Args:
        scores: [n], finite; higher is surer.
        right: [n], whether each item is right.
        tasks: [n], whose item each is.

    Raises:
        ConfigError: the lengths differ, or a score is not finite.
    """
    score, good = np.asarray(scores, dtype=float), np.asarray(right, dtype=bool)
    if not len(score) == len(good) == len(tasks):
        raise ConfigError(
            f"{len(score)} scores, {len(good)} labels and {len(tasks)} tasks; as many are needed"
        )
    if not np.isfinite(score).all():
        raise ConfigError("a score is not a finite number; items without one are left out")
    points: tuple[RocPoint, ...] = ()
    if good.any() and not good.all():
        wrong_share, right_share, levels = _curve(score, good)
        shown_points = np.unique(np.linspace(0, len(levels), min(len(levels) + 1, MOST)).round().astype(int))
        points = tuple(
            RocPoint(float(wrong_share[at]), float(right_share[at]), float(levels[at - 1]) if at else None)
            for at in shown_points
        )
    tasks_scored = [(score[own], good[own]) for own in members(tasks)]
    return Roc(points, _within([(s, g) for s, g in tasks_scored if g.any() and not g.all()]))


def _curve(score: Any, good: Any) -> tuple[Any, Any, Any]:
    """F and T [k + 1] from (0, 0) on, and the k scores, highest first."""
    levels, place = np.unique(-score, return_inverse=True)
    rights = np.bincount(place, good, len(levels)).cumsum()
    wrongs = np.bincount(place, ~good, len(levels)).cumsum()
    return np.append(0.0, wrongs / wrongs[-1]), np.append(0.0, rights / rights[-1]), -levels


def _within(tasks: Sequence[tuple[Any, Any]]) -> tuple[RocPoint, ...]:
    if not tasks:
        return ()
    curves = [_curve(*scored)[:2] for scored in tasks]
    pairs = [float(good.sum() * (~good).sum()) for _, good in tasks]
    grid = np.unique(np.concatenate([wrong for wrong, _ in curves]))
    if len(grid) > MOST:
        grid = np.linspace(0.0, 1.0, MOST)
    ends = np.zeros((2, len(grid)))  # T where the curve comes to each F, and where it goes on from there
    for (wrong, right_shares), weight in zip(curves, pairs, strict=True):
        line = np.interp(grid, wrong, right_shares)
        left_end = np.searchsorted(wrong, grid, side="left")
        right_end = np.searchsorted(wrong, grid, side="right") - 1
        ends[0] += weight * np.where(wrong[left_end] == grid, right_shares[left_end], line)
        ends[1] += weight * np.where(wrong[right_end] == grid, right_shares[right_end], line)
    points = []
    for at, low, high in zip(grid.tolist(), *(ends / sum(pairs)).tolist(), strict=True):
        points.append(RocPoint(at, low))
        if high > low:
            points.append(RocPoint(at, high))
    return tuple(points)
