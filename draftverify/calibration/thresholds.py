"""From which score items may be accepted, and below which they may be rejected, each with a guarantee.

Both are learned from items that were judged and whose rightness is known. A task's items resemble each other, so whole
tasks are what is counted. Thresholds are tried in a fixed order, from the one that takes fewest items on, until one
fails: the chance that the last that held does not deserve it is 1 − confidence at most (fixed-sequence testing).
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

CANDIDATES = 200
"""Thresholds that are tried at most, at equal steps of how many items they let through."""

FIRST = 20
"""Tasks, a quarter of all at most, that the first threshold takes items of. What fewer say is mostly noise, and the
first that fails ends the sequence. It depends on no label, so it costs no certainty."""
FEW = 10
"""Tasks below the share that is asked for, from which on the worst of them stands for those that nobody saw."""
STEPS = 256
"""Of the integral in `_not_above_zero`: of ten thousand tasks five digits are right, of a thousand twelve."""


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

    Each threshold is tested on whole tasks, by Gaffke's test: beside those at hand stands one more that nobody saw. It
    is as bad as the worst at hand, or all wrong where few of these are bad. Of tasks of one item each that is the
    binomial test, exact for any number of them. Of tasks of more items it holds as far as simulations show, where a
    task that nobody saw is about as large as the others.

    The first threshold is one that its items would certify, were they all right.

    Returns:
        The score, or None, and why, in words.

    References:
        Bauer, Multiple testing in clinical trials, Statistics in Medicine 10 (1991), for the fixed sequence; Gaffke,
        Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative variable,
        Mathematical Methods of Statistics 13 (2004); Learned-Miller and Thomas, A new confidence interval for the mean
        of a bounded random variable, 1905.06208, for how it compares; Angelopoulos et al., Learn then test, 2110.01052,
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
    many = (trusted > 0).sum(axis=0) >= max(needed, min(FIRST, tasks // 4))
    best = begun = None
    for place in map(int, np.flatnonzero(many)):
        if begun is None and not _holds(trusted[:, place], trusted[:, place], precision, alpha):
            continue
        begun = place if begun is None else begun
        if not _holds(hits[:, place], trusted[:, place], precision, alpha):
            break
        best = place
    if best is None:
        known = (
            "" if begun is None else f"; of the {cuts[begun]} highest {hits[:, begun].sum():.0f} are right"
        )
        return None, f"no score is high enough for a precision of {precision:g} at {confidence:g}{known}"
    end = cuts[best]
    share = hits[:, best].sum() / end
    why = f"{end / len(scores):.0%} of the items lie at or above it, {share:.3f} of them right"
    return float(scores[order[end - 1]]), why


def certified_rejection(
    judged: Sequence[Judged], *, lost: float = 0.1, confidence: float = 0.9
) -> tuple[float | None, str]:
    """The highest score below which at most `lost` of the right items lie, with this confidence.

    As `certified`, from the lowest score up, by the same test of the share of right items that do not lie below. So
    log(1 − confidence) / log(1 − lost) tasks must have a right item.

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
    best = None
    for place in range(len(cuts)):
        if not _holds(of - below[:, place], of, 1.0 - lost, 1.0 - confidence):
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


def _holds(some: Any, of: Any, share: float, alpha: float) -> bool:
    """Whether at least this share of `of` is `some` on other tasks too, at level α: Gaffke's test, on whole tasks.

    Each task weighs y = some − share · of, and one more that nobody saw weighs −share · worst. With weights drawn
    evenly from all that add up to 1, the chance that the sum is not above 0 is the p-value. Of tasks of one item it is
    the exact binomial one.

    Args:
        some, of: [tasks], counts.
    """
    weights = some - share * of
    sizes = of[of > 0]
    # A task that nobody saw is as bad as the worst one of many; of few it may be all wrong, as large as an item's task.
    worst = (
        float(weights.min()) if (weights < 0).sum() >= FEW else -share * float((sizes**2).sum() / sizes.sum())
    )
    return _not_above_zero(np.append(weights, worst)) <= alpha


def _not_above_zero(weights: Any) -> float:
    """P(S ≤ 0) for S = Σ weight · E and independent standard exponential E.

    S has the transform M(s) = E[exp(−s · S)] = Π 1/(1 + s · weight), and the chance is the integral of M(s) / (2πi · s)
    along λ + it, at the λ > 0 where M is least on the real line. With t = τ / tan(φ/2) the midpoint rule in φ gives a
    rational function's integral to many digits.

    References:
        Lugannani and Rice, Saddle point approximation for the distribution of the sum of independent random variables,
        Advances in Applied Probability 12 (1980), section 2, for the path.
    """
    if weights.sum() < 0:
        return 1.0 - _not_above_zero(-weights)
    if weights.min() >= 0:
        return 0.0
    each, times = np.unique(weights, return_counts=True)
    low, high = 0.0, -1.0 / float(each[0])
    for _ in range(40):
        middle = 0.5 * (low + high)
        falls = times @ (each / (1.0 + middle * each)) > 0
        low, high = (middle, high) if falls else (low, middle)
    # Not at 0, where the integrand has a pole.
    at = max(low, 1e-3 / float(times @ np.abs(each)))
    tilted = each / (1.0 + at * each)
    scale = 1.0 / math.sqrt(float(np.abs(tilted).max() * (times @ np.abs(tilted)) / len(weights)))
    half = (np.arange(STEPS) + 0.5) * math.pi / (2 * STEPS)
    t = scale / np.tan(half)
    over = t[:, None] * tilted
    logs = -0.5 * np.log1p(over**2) @ times - 1j * (np.arctan(over) @ times)
    parts = (np.exp(logs) / (at + 1j * t)).real / np.sin(half) ** 2
    return math.exp(-float(times @ np.log1p(at * each))) * float(parts.sum()) * scale / (2 * STEPS)
