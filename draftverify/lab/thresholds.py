"""From which score items may be accepted, and below which they may be rejected, each with a guarantee.

Both are learned from items that were judged and whose rightness is known, one item of each task. Items of one task
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

__all__ = [
    "Beforehand",
    "Judged",
    "beforehand",
    "certified",
    "certified_rejection",
    "columns",
    "inside",
    "least_abstained",
]

CANDIDATES = 200
"""Thresholds that are tried at most, at equal steps of how many items they let through."""

FIRST = 20
"""Items, a quarter of all at most, that the first threshold takes. What fewer say is mostly noise, and the first that
fails ends the sequence. It depends on no label, so it costs no certainty."""


class Judged(msgspec.Struct, frozen=True):
    """An item that was judged, and what it turned out to be.

    Args:
        task: whose item it is.
        score: the verifier's; higher is better.
        right: whether it was right.
    """

    task: str
    score: float
    right: bool


class Beforehand(msgspec.Struct, frozen=True):
    """What so many labelled tasks can certify at best, before any item is drafted or judged.

    Args:
        tasks: how many there are.
        needed: how many are needed, were every item right: log(1 − confidence) / log(precision).
        needed_to_reject: of how many a right item is needed, were none of these rejected.
        best: the highest precision that so many tasks can certify, were every item right.
    """

    tasks: int
    needed: int
    needed_to_reject: int
    best: float

    @property
    def can_accept(self) -> bool:
        """Whether a threshold to accept from can come of these tasks."""
        return self.tasks >= self.needed

    @property
    def can_reject(self) -> bool:
        """Whether a threshold to reject below can come of these tasks."""
        return self.tasks >= self.needed_to_reject


def beforehand(
    tasks: int, *, precision: float = 0.9, lost: float = 0.1, confidence: float = 0.9
) -> Beforehand:
    """Whether so many labelled tasks can certify anything.

    n tasks that are all right say what n right trials say: that at least (1 − confidence)^(1/n) are right.

    Args:
        tasks: how many have labels.
        precision, lost, confidence: as for `certified` and `certified_rejection`.

    Raises:
        ConfigError: precision, lost or confidence lies outside (0, 1).
    """
    inside(precision=precision, lost=lost, confidence=confidence)
    return Beforehand(
        tasks=tasks,
        needed=_needed(precision, confidence),
        needed_to_reject=_needed(1.0 - lost, confidence),
        best=(1.0 - confidence) ** (1.0 / tasks) if tasks else 0.0,
    )


def least_abstained(wrong: float, precision: float) -> float:
    """The least share of items that any method must leave unaccepted, for so many of the accepted to be right.

    With a share μ of wrong items and α = 1 − precision, accepting a share c takes c · (1 − α) right ones, of which
    there are 1 − μ. So 1 − c is (μ − α) / (1 − α) at least, however well the scores order the items.

    Args:
        wrong: μ, the share of all items that is wrong.
        precision: 1 − α, the share of accepted items that is to be right.
    """
    return max((wrong - (1.0 - precision)) / precision, 0.0)


def certified(
    judged: Sequence[Judged], *, precision: float = 0.9, confidence: float = 0.9
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
    inside(precision=precision, confidence=confidence)
    scores, right, groups = columns(judged)
    if several := _several(groups):
        return None, several
    tasks, needed = len(scores), _needed(precision, confidence)
    if tasks < needed:
        why = f"{tasks} tasks can certify nothing: all right, {needed} are needed for {precision:g} at {confidence:g}"
        return None, why
    order = np.argsort(-scores, kind="stable")
    hits = right[order].cumsum()
    cuts = [end for end in _cuts(scores[order]) if end >= max(needed, min(FIRST, tasks // 4))]
    end = _last(cuts, [end - round(hits[end - 1]) for end in cuts], cuts, 1.0 - precision, 1.0 - confidence)
    if end is None:
        return None, (
            f"no score is high enough for a precision of {precision:g} at {confidence:g}; of the {cuts[0]} highest "
            f"{hits[cuts[0] - 1]:.0f} are right"
        )
    why = f"{end / tasks:.0%} of the items lie at or above it, {hits[end - 1] / end:.3f} of them right"
    return float(scores[order[end - 1]]), why


def certified_rejection(
    judged: Sequence[Judged], *, lost: float = 0.1, confidence: float = 0.9
) -> tuple[float | None, str]:
    """The highest score below which at most `lost` of the right items lie, with this confidence.

    As `certified`, from the lowest score up: each threshold is tested by the right items below it, of all right items.
    So log(1 − confidence) / log(1 − lost) tasks must have a right item.

    Returns:
        The score, or None, and why, in words. Items that score less may be rejected. None where a task has several.

    Raises:
        ConfigError: lost or confidence lies outside (0, 1); or as `columns` says.
    """
    inside(lost=lost, confidence=confidence)
    scores, right, groups = columns(judged)
    if several := _several(groups):
        return None, several
    needed, have = _needed(1.0 - lost, confidence), round(right.sum())
    if have < needed:
        return None, (
            f"{have} tasks with a right item can certify nothing: {needed} are needed to lose {lost:g} of the right "
            f"items at most, at {confidence:g}"
        )
    order = np.argsort(scores, kind="stable")
    below = right[order].cumsum()
    cuts = _cuts(scores[order])[:-1]  # what lies below the highest score at most
    end = _last(cuts, [round(below[end - 1]) for end in cuts], [have] * len(cuts), lost, 1.0 - confidence)
    if end is None:
        return None, f"more than {lost:g} of the right items may have the lowest score, at {confidence:g}"
    why = f"{end / len(scores):.0%} of the items lie below it, with {below[end - 1] / have:.3f} of the right ones"
    return float(scores[order[end]]), why


def columns(judged: Sequence[Judged]) -> tuple[Any, Any, Any]:
    """Scores, rightness and the number of the task of each item, [n] each.

    Raises:
        ConfigError: there is no item, a score is not finite, or all items are of one task.
    """
    if not judged:
        raise ConfigError("no judged item is there: nothing says what a score means")
    scores = np.array([each.score for each in judged], dtype=float)
    if not np.isfinite(scores).all():
        bad = judged[int(np.argmin(np.isfinite(scores)))]
        raise ConfigError(f"an item of task {bad.task} has the score {bad.score}; scores are finite numbers")
    numbers: dict[str, int] = {}
    groups = np.array([numbers.setdefault(each.task, len(numbers)) for each in judged])
    if len(numbers) < 2:
        raise ConfigError("all judged items are of one task; what holds for others needs two at least")
    return scores, np.array([each.right for each in judged], dtype=float), groups


def inside(**given: float) -> None:
    """Refuse what lies outside (0, 1), by its name.

    Raises:
        ConfigError: something does.
    """
    for name, value in given.items():
        if not 0 < value < 1:
            raise ConfigError(f"{name} is {value}; it lies between 0 and 1", path=name)


def _needed(share: float, confidence: float) -> int:
    """How many tasks, all as they should be, certify that at least this share is."""
    return math.ceil(math.log(1.0 - confidence) / math.log(share))


def _cuts(ordered: Any) -> list[int]:
    """How many items each threshold takes, of scores in order: equal scores go together."""
    ends = [*(np.flatnonzero(np.diff(ordered)) + 1), len(ordered)]
    step = max(len(ends) // CANDIDATES, 1)
    return sorted({int(end) for end in ends[::step]} | {len(ordered)})


def _several(groups: Any) -> str | None:
    """Why nothing is certified, where a task has several items."""
    most = int(np.bincount(groups).max())
    if most == 1:
        return None
    return (
        f"a task has {most} items, and a threshold is certified of one item a task only: fit with --best for the rule "
        "best, or a block of 1 and one block"
    )


def _last(
    cuts: Sequence[int], bad: Sequence[int], of: Sequence[int], share: float, alpha: float
) -> int | None:
    """The last cut, from the first on, before one where `bad` in `of` does not show a lower rate than `share`."""
    best = None
    for cut, k, n in zip(cuts, bad, of, strict=True):
        if binomial_cdf(k, n, share) > alpha:
            break
        best = cut
    return best
