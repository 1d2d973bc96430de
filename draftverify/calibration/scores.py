"""What a verifier's score means: the probability that an item is right, and the score from which items may be trusted.

Both are learned from items that were judged and whose rightness is known. A task's items resemble each other, so the
task is the unit of sampling: whole tasks are left out when the probabilities are tried on data that they were not
fitted on, and whole tasks are drawn anew when a threshold is certified.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify.calibration.intervals import Estimate, rate
from draftverify.errors import ConfigError

__all__ = ["Judged", "Reliability", "ScoreFit", "certified", "fit_scores", "reliability"]

FOLDS = 10
BINS = 10
REDRAWS = 2000
CANDIDATES = 200
"""Thresholds that are tried at most, at equal steps of how many items they let through."""


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


class Reliability(msgspec.Struct, frozen=True):
    """Of some items together, what was promised and what came; each item's probability was fitted on other tasks.

    Args:
        promised: their mean probability.
        right: the share that was right, with its interval.
    """

    promised: float
    right: Estimate


class ScoreFit(msgspec.Struct, frozen=True, kw_only=True):
    """What a score means: P(right | score) = 1 / (1 + exp(−(slope · score + intercept))).

    Args:
        slope, intercept: of the log odds.
        threshold: the lowest score to trust; None where none could be certified.
        precision: the share of trusted items that is to be right.
        confidence: how sure that is: over fits to other tasks like these, in so many of them the precision holds.
        trusted: of the items that it was fitted on, the share at or above the threshold; 0 without one.
        found: of these, the share that was right; None without a threshold.
        why: the threshold in words, or why there is none.
        reliability: by score, in up to ten parts of equal size.
        error: the expected calibration error over these parts, Σ share · |promised − right|.
        tasks, items, right: how many it was fitted on.
    """

    slope: float
    intercept: float
    threshold: float | None
    precision: float
    confidence: float
    trusted: float
    found: Estimate | None
    why: str
    reliability: tuple[Reliability, ...]
    error: float
    tasks: int
    items: int
    right: int

    def probability(self, score: float) -> float:
        """Of being right, at this score."""
        return float(_logistic(np.asarray([score]), self.slope, self.intercept)[0])


def fit_scores(judged: Iterable[Judged], *, precision: float = 0.9, confidence: float = 0.9) -> ScoreFit:
    """Learn what a score means.

    The probability is Platt's: logistic in the score, towards (n + 1) / (n + 2) and 1 / (m + 2) in place of 1 and 0 for
    n right and m wrong items, so that few labels promise no certainty.

    Args:
        judged: the items; of one task as many as there are.
        precision: see `certified`.
        confidence: see `certified`.

    Raises:
        ConfigError: no item is there, a score is not finite, or all items are of one task; or precision or confidence
            lies outside (0, 1).

    References:
        Platt, Probabilistic outputs for support vector machines (1999); Lin, Lin and Weng, A note on Platt's
        probabilistic outputs, Machine Learning 68 (2007).
    """
    for name, value in (("precision", precision), ("confidence", confidence)):
        if not 0 < value < 1:
            raise ConfigError(f"{name} is {value}; it lies between 0 and 1", path=name)
    items = list(judged)
    scores, right, groups = _columns(items)
    slope, intercept = _platt(scores, right)
    promised = _out_of_fold(scores, right, groups)
    parts = _reliability(promised, right, groups)
    error = sum(part.right.trials * abs(part.promised - part.right.value) for part in parts) / len(items)
    threshold, why = certified(items, precision=precision, confidence=confidence)
    chosen = scores >= (math.inf if threshold is None else threshold)
    return ScoreFit(
        slope=slope,
        intercept=intercept,
        threshold=threshold,
        precision=precision,
        confidence=confidence,
        trusted=float(chosen.mean()),
        found=None if threshold is None else _share(right[chosen], groups[chosen]),
        why=why,
        reliability=tuple(parts),
        error=error,
        tasks=int(groups.max()) + 1,
        items=len(items),
        right=int(right.sum()),
    )


def certified(
    judged: Sequence[Judged], *, precision: float = 0.9, confidence: float = 0.9
) -> tuple[float | None, str]:
    """The lowest score from which at least `precision` of the items are right, with this confidence.

    Thresholds are tried from the strictest down, each by a lower bound of its precision, until one fails: the chance
    that the last that held does not deserve it is about 1 − confidence (fixed-sequence testing). The bound is the
    quantile of the precision over bootstrap samples of whole tasks. Such samples of tasks that were all right know of
    no other, so a threshold is tried only where it trusts items of so many tasks that right ones alone could certify
    it: log(1 − confidence) / log(precision).

    Returns:
        The score, or None, and why, in words.

    References:
        Bauer, Multiple testing in clinical trials, Statistics in Medicine 10 (1991), for the fixed sequence; Field and
        Welsh, Bootstrapping clustered data, JRSS B 69 (2007).
    """
    scores, right, groups = _columns(judged)
    alpha, tasks = 1.0 - confidence, int(groups.max()) + 1
    needed = math.ceil(math.log(alpha) / math.log(precision))
    if tasks < needed:
        why = f"{tasks} tasks can certify nothing: all right, {needed} are needed for {precision:g} at {confidence:g}"
        return None, why
    order = np.argsort(-scores, kind="stable")
    cuts = _cuts(scores[order])
    trusted, hits = np.zeros((2, tasks, len(cuts)))
    for place, (begin, end) in enumerate(zip([0, *cuts[:-1]], cuts, strict=True)):
        at = order[begin:end]
        np.add.at(trusted[:, place], groups[at], 1.0)
        np.add.at(hits[:, place], groups[at], right[at])
    trusted, hits = trusted.cumsum(axis=1), hits.cumsum(axis=1)
    # How often each task is drawn; the seed is fixed, so the same items give the same threshold.
    drawn = np.random.default_rng(7).multinomial(tasks, np.full(tasks, 1.0 / tasks), size=REDRAWS)
    best, bound = None, math.nan
    for place in map(int, np.flatnonzero((trusted > 0).sum(axis=0) >= needed)):
        right_of, all_of = drawn @ hits[:, place], drawn @ trusted[:, place]
        shares = np.divide(right_of, all_of, out=np.zeros(REDRAWS), where=all_of > 0)
        bound = float(np.quantile(shares, alpha))
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


def reliability(
    promised: Sequence[float], right: Sequence[bool], tasks: Sequence[Hashable]
) -> tuple[Reliability, ...]:
    """What was promised and what came, by probability in up to ten parts of equal size.

    Args:
        promised: [n], the probability of being right that each item was given by what was not fitted on it.
        right: [n], whether it was.
        tasks: [n], whose item it is.
    """
    numbers: dict[Hashable, int] = {}
    groups = np.array([numbers.setdefault(task, len(numbers)) for task in tasks])
    return tuple(_reliability(np.asarray(promised, dtype=float), np.asarray(right, dtype=float), groups))


def _columns(judged: Sequence[Judged]) -> tuple[Any, Any, Any]:
    """Scores, rightness and the number of the task of each item."""
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


def _cuts(ordered: Any) -> list[int]:
    """How many items each threshold lets through, of scores from high to low: equal scores go together."""
    ends = [*(np.flatnonzero(np.diff(ordered)) + 1), len(ordered)]
    step = max(len(ends) // CANDIDATES, 1)
    return sorted({int(end) for end in ends[::step]} | {len(ordered)})


def _platt(scores: Any, right: Any) -> tuple[float, float]:
    """Slope and intercept of the log odds, by Newton's method on standardised scores."""
    n, m = right.sum(), len(right) - right.sum()
    aims = np.where(right > 0, (n + 1) / (n + 2), 1 / (m + 2))
    mean, spread = scores.mean(), scores.std() or 1.0
    x = np.stack([(scores - mean) / spread, np.ones_like(scores)], axis=1)
    found = np.array([0.0, math.log((n + 1) / (m + 1))])

    def loss(w: Any) -> float:
        z = x @ w
        return float((np.logaddexp(0.0, z) - aims * z).sum())

    for _ in range(100):
        p = _logistic(x[:, 0], *found)
        gradient = x.T @ (p - aims)
        # As Lin et al.: a hair on the diagonal, for scores that are all alike.
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + 1e-12 * np.eye(2)
        step, size, before = np.linalg.solve(hessian, gradient), 1.0, loss(found)
        while size > 1e-10 and loss(found - size * step) > before:
            size /= 2
        found = found - size * step
        if np.abs(size * step).max() < 1e-10:
            break
    slope = found[0] / spread
    return float(slope), float(found[1] - slope * mean)


def _logistic(scores: Any, slope: float, intercept: float) -> Any:
    z = slope * scores + intercept
    return np.exp(-np.logaddexp(0.0, -z))


def _out_of_fold(scores: Any, right: Any, groups: Any) -> Any:
    """Each item's probability, fitted on the tasks of other folds."""
    fold = groups % min(FOLDS, int(groups.max()) + 1)
    promised = np.empty_like(scores)
    for each in range(int(fold.max()) + 1):
        out = fold == each
        promised[out] = _logistic(scores[out], *_platt(scores[~out], right[~out]))
    return promised


def _reliability(promised: Any, right: Any, groups: Any) -> list[Reliability]:
    order = np.argsort(promised, kind="stable")
    parts = np.array_split(order, min(BINS, max(len(order) // 20, 1)))
    return [Reliability(float(promised[at].mean()), _share(right[at], groups[at])) for at in parts]


def _share(right: Any, groups: Any) -> Estimate:
    _, place = np.unique(groups, return_inverse=True)
    return rate(np.bincount(place, right).tolist(), np.bincount(place).tolist())
