"""From which score items may be accepted, with a guarantee.

It is learned from items that were judged and whose rightness is known, one item of each task. Items of one task
resemble each other, so where a task has several nothing is certified. Thresholds are tried in a fixed order, from the
one that takes fewest items on, until one fails: the chance that the last that held does not deserve it is
1 − confidence at most (fixed-sequence testing).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.stats.intervals import binomial_cdf

__all__ = ["LabelledScore", "certified", "columns", "inside", "tasks_needed"]

CANDIDATES = 200
"""Thresholds that are tried at most, at equal steps of how many items they let through."""

FIRST = 20
"""Items, a quarter of all at most, that the first threshold takes. What fewer say is mostly noise, and the first that
fails ends the sequence. It depends on no label, so it costs no certainty."""


class LabelledScore(msgspec.Struct, frozen=True):
    """An item that was judged, and what it turned out to be.

    Args:
        task: whose item it is.
        score: the verifier's; higher is better.
        right: whether it was right.
    """

    task: str
    score: float
    right: bool


def tasks_needed(precision: float, confidence: float) -> int:
    """How many tasks certify a precision where all of their items are right: n with precision^n ≤ 1 − confidence.

    Raises:
        ConfigError: precision or confidence lies outside (0, 1).
    """
    inside(precision=precision, confidence=confidence)
    return math.ceil(math.log(1.0 - confidence) / math.log(precision))


def certified(
    judged: Sequence[LabelledScore], *, precision: float = 0.9, confidence: float = 0.9
) -> tuple[float | None, str]:
    """The lowest score from which at least `precision` of the items are right, with this confidence.

    Each threshold is tested by the exact binomial test of the items at or above it, one item a task. The first one is
    such that its items would certify it, were they all right.

    Returns:
        The score, or None, and why, in words. None where a task has several items.

    Raises:
        ConfigError: precision or confidence lies outside (0, 1); or as `columns` says.

    References:
        Bauer, Multiple testing in clinical trials, Statistics in Medicine 10 (1991), for the fixed sequence;
        Angelopoulos et al., Learn then test, 2110.01052, for thresholds whose risk is controlled.
    """
    fewest = tasks_needed(precision, confidence)
    scores, right, groups = columns(judged)
    most = int(np.bincount(groups).max())
    if most > 1:
        return None, (
            f"a task has {most} items, and a threshold is certified of one item a task only: fit with --best for the "
            "rule best, or a block of 1 and one block"
        )
    tasks = len(scores)
    if tasks < fewest:
        why = f"{tasks} tasks can certify nothing: all right, {fewest} are needed for {precision:g} at {confidence:g}"
        return None, why
    order = np.argsort(-scores, kind="stable")
    hits = right[order].cumsum()
    cuts = [end for end in _cuts(scores[order]) if end >= max(fewest, min(FIRST, tasks // 4))]
    lowest = None
    for end in cuts:
        if binomial_cdf(end - round(hits[end - 1]), end, 1.0 - precision) > 1.0 - confidence:
            break
        lowest = end
    if lowest is None:
        return None, (
            f"no score is high enough for a precision of {precision:g} at {confidence:g}; of the {cuts[0]} highest "
            f"{hits[cuts[0] - 1]:.0f} are right"
        )
    why = (
        f"{lowest / tasks:.0%} of the items lie at or above it, {hits[lowest - 1] / lowest:.3f} of them right"
    )
    return float(scores[order[lowest - 1]]), why


def columns(judged: Sequence[LabelledScore]) -> tuple[Any, Any, Any]:
    """Scores, rightness and the number of the task of each item, [n] each.

    Raises:
        ConfigError: there is no item, a score is not finite, or all items are of one task.
    """
    if not judged:
        raise ConfigError("no judged item is there: nothing says what a score means")
    scores = np.array([item.score for item in judged], dtype=float)
    if not np.isfinite(scores).all():
        bad = judged[int(np.argmin(np.isfinite(scores)))]
        raise ConfigError(f"an item of task {bad.task} has the score {bad.score}; scores are finite numbers")
    numbers: dict[str, int] = {}
    groups = np.array([numbers.setdefault(item.task, len(numbers)) for item in judged])
    if len(numbers) < 2:
        raise ConfigError("all judged items are of one task; what holds for others needs two at least")
    return scores, np.array([item.right for item in judged], dtype=float), groups


def inside(**shares: float) -> None:
    """Refuse shares outside (0, 1), by their names.

    Raises:
        ConfigError: something does.
    """
    for name, value in shares.items():
        if not 0 < value < 1:
            raise ConfigError(f"{name} is {value}; it lies between 0 and 1", path=name)


def _cuts(ordered: Any) -> list[int]:
    """How many items each threshold takes, of scores in order: equal scores go together."""
    ends = [*(np.flatnonzero(np.diff(ordered)) + 1), len(ordered)]
    step = max(len(ends) // CANDIDATES, 1)
    return sorted({int(end) for end in ends[::step]} | {len(ordered)})
