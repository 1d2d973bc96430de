"""From which score items may be accepted, and below which they may be rejected, each with a guarantee.

Both are learned from items that were judged and whose rightness is known. A task's items resemble each other, so whole
tasks are drawn anew. Thresholds are tried in a fixed order, from the one that takes fewest items on, until the bound of
one fails: the chance that the last that held does not deserve it is about 1 − confidence (fixed-sequence testing).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify.errors import ConfigError

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

REDRAWS = 2000
CANDIDATES = 200
"""Thresholds that are tried at most, at equal steps of how many items they let through."""


FIRST = 20
"""Tasks, a quarter of all at most, that the first threshold takes items of. Of fewer the bound is mostly noise, and the
first that fails ends the sequence. It depends on no label, so it costs no certainty."""
FEW = 3
"""Tasks that fall short, from which on bootstrap-t has an error to measure by."""


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

    Of n tasks that are all right the bootstrap knows of no wrong one. What they say is what n right trials say: that at
    least (1 − confidence)^(1/n) are right.

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

    The bound is the lesser of two over bootstrap samples of whole tasks: the quantile of the precision, and
    bootstrap-t, which knows that a sample with few hard tasks looks surer than it is. Samples of tasks that were all
    right know of no other, so a threshold is tried only where it trusts items of so many tasks that right ones alone
    could certify it: log(1 − confidence) / log(precision).

    Returns:
        The score, or None, and why, in words.

    References:
        Bauer, Multiple testing in clinical trials, Statistics in Medicine 10 (1991), for the fixed sequence; Field and
        Welsh, Bootstrapping clustered data, JRSS B 69 (2007); Hall, Theoretical comparison of bootstrap confidence
        intervals, Annals of Statistics 16 (1988), for bootstrap-t; Angelopoulos et al., Learn then test, 2110.01052,
        for thresholds whose risk is controlled.
    """
    scores, right, groups = columns(judged)
    alpha, tasks = 1.0 - confidence, int(groups.max()) + 1
    needed = _needed(precision, confidence)
    if tasks < needed:
        why = f"{tasks} tasks can certify nothing: all right, {needed} are needed for {precision:g} at {confidence:g}"
        return None, why
    order = np.argsort(-scores, kind="stable")
    cuts = _cuts(scores[order])
    trusted, hits = (_by_task(each, groups, order, cuts) for each in (np.ones_like(right), right))
    drawn = _redrawn(tasks)
    best, bound = None, math.nan
    first = max(needed, min(FIRST, tasks // 4))
    for place in map(int, np.flatnonzero((trusted > 0).sum(axis=0) >= first)):
        bound = _lower(drawn, hits[:, place], trusted[:, place], alpha)
        if bound < precision:
            break
        best = place
    if best is None:
        sure = "" if math.isnan(bound) else f"; of the highest scores {bound:.3f} are surely right"
        return None, f"no score is high enough for a precision of {precision:g} at {confidence:g}{sure}"
    end = cuts[best]
    share = hits[:, best].sum() / end
    why = f"{end / len(scores):.0%} of the items lie at or above it, {share:.3f} of them right"
    return float(scores[order[end - 1]]), why


def certified_rejection(
    judged: Sequence[Judged], *, lost: float = 0.1, confidence: float = 0.9
) -> tuple[float | None, str]:
    """The highest score below which at most `lost` of the right items lie, with this confidence.

    As `certified`, from the lowest score up, by the same bound of the share of right items that do not lie below. Where
    none lies below, samples know of none: so log(1 − confidence) / log(1 − lost) tasks must have a right item.

    Returns:
        The score, or None, and why, in words. Items that score less may be rejected.
    """
    scores, right, groups = columns(judged)
    tasks = int(groups.max()) + 1
    of = np.bincount(groups, right, tasks)
    needed, have = _needed(1.0 - lost, confidence), int((of > 0).sum())
    if have < needed:
        return None, (
            f"{have} tasks with a right item can certify nothing: {needed} are needed to lose {lost:g} of the right "
            f"items at most, at {confidence:g}"
        )
    order = np.argsort(scores, kind="stable")
    cuts = _cuts(scores[order])[:-1]  # what lies below the highest score at most
    below = _by_task(right, groups, order, cuts)
    drawn = _redrawn(tasks)
    best = None
    for place in range(len(cuts)):
        if _lower(drawn, of - below[:, place], of, 1.0 - confidence) < 1.0 - lost:
            break
        best = place
    if best is None:
        return None, f"more than {lost:g} of the right items may have the lowest score, at {confidence:g}"
    end = cuts[best]
    share = below[:, best].sum() / of.sum()
    why = f"{end / len(scores):.0%} of the items lie below it, with {share:.3f} of the right ones"
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


def _by_task(marks: Any, groups: Any, order: Any, cuts: Sequence[int]) -> Any:
    """[tasks, cuts]: the sum of each task's marks among the items that each cut takes."""
    found = np.zeros((int(groups.max()) + 1, len(cuts)))
    for place, (begin, end) in enumerate(zip([0, *cuts][:-1], cuts, strict=True)):
        at = order[begin:end]
        np.add.at(found[:, place], groups[at], marks[at])
    return found.cumsum(axis=1)


def _redrawn(tasks: int) -> Any:
    """[REDRAWS, tasks]: how often each task is drawn; the seed is fixed, so the same items give the same threshold."""
    drawn = np.random.default_rng(7).multinomial(tasks, np.full(tasks, 1.0 / tasks), size=REDRAWS)
    return drawn.astype(float)  # once, rather than in every product


def _lower(drawn: Any, some: Any, of: Any, alpha: float) -> float:
    """A lower bound of Σ some / Σ of at level α: the α quantile over samples, or bootstrap-t's where that is less.

    Bootstrap-t measures how far each sample's share lies from the share at hand in its own standard error, linearised
    (Σ (some − share · of)² over tasks). Of one or two tasks that fall short many samples have none, and no error to
    measure by, so it is asked where there are three.

    Args:
        drawn: [samples, tasks], how often each task is drawn.
        some, of: [tasks], counts.
    """
    share = some.sum() / of.sum()
    sums = drawn @ np.stack([some, of, some * some, some * of, of * of], axis=1)
    whole = np.maximum(sums[:, 1], 1e-12)
    shares = np.where(sums[:, 1] > 0, sums[:, 0] / whole, 0.0)
    quantile = float(np.quantile(shares, alpha))
    if (some < of).sum() < FEW:
        return quantile
    squares = sums[:, 2] - 2.0 * shares * sums[:, 3] + shares**2 * sums[:, 4]
    errors = np.sqrt(np.maximum(squares, 0.0)) / whole
    away = np.where(
        errors > 1e-12, (shares - share) / np.maximum(errors, 1e-12), np.sign(shares - share) * 1e12
    )
    error = math.sqrt(float(((some - share * of) ** 2).sum())) / float(of.sum())
    return min(quantile, float(share - np.quantile(away, 1.0 - alpha, method="lower") * error))
