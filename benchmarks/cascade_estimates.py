"""What `benchmarks.cascades` says of answers: costs and qualities of the ways to answer, and their intervals.

A way is a row of figures per prompt. Prompts are the unit of sampling, every comparison is of the same prompts, and
every interval is the delete-one-prompt jackknife of `draftverify.stats`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from draftverify.stats.intervals import BLOCKS, log_jackknife, t_quantile

__all__ = [
    "Interval",
    "Way",
    "cost_ratio",
    "deferred",
    "mixture_gap",
    "quality_gap",
    "sequential",
    "sequential_gap",
    "verdict",
]

Verdict: TypeAlias = Literal["dominates", "dominated", "trades", "undecided"]


@dataclass(frozen=True)
class Way:
    """One way to answer, per prompt.

    Args:
        log_likelihood: [prompts], the target's log-probability of the answer, in nats, at temperature 1.
        tokens: [prompts], tokens in the answer.
        seconds: [prompts], what the answer took.
        passes: [prompts], target passes that it took.
    """

    log_likelihood: Any
    tokens: Any
    seconds: Any
    passes: Any

    def quality(self, of: Any = slice(None)) -> float:
        """Mean log-likelihood per token of these prompts, pooled."""
        return float(self.log_likelihood[of].sum() / self.tokens[of].sum())

    def cost(self, of: Any = slice(None)) -> float:
        """Seconds per token of these prompts, pooled."""
        return float(self.seconds[of].sum() / self.tokens[of].sum())

    def passes_per_token(self, of: Any = slice(None)) -> float:
        """Target passes per token of these prompts, pooled."""
        return float(self.passes[of].sum() / self.tokens[of].sum())


@dataclass(frozen=True)
class Interval:
    """A figure and its interval."""

    value: float
    low: float
    high: float


def deferred(draft: Way, target: Way, defer: Any) -> Way:
    """The sequential cascade: the draft's answer, or where `defer` [prompts] is true the target's, written after it."""
    return Way(
        np.where(defer, target.log_likelihood, draft.log_likelihood),
        np.where(defer, target.tokens, draft.tokens),
        draft.seconds + np.where(defer, target.seconds, 0.0),
        np.where(defer, target.passes, 0),
    )


def sequential(draft: Way, target: Way, confidence: Any, share: float) -> Way:
    """The sequential cascade whose threshold defers this share of the prompts, those of the least confidence.

    Args:
        draft, target: either model alone.
        confidence: [prompts], the draft's mean log-probability of its own answer.
        share: of the prompts, rounded to a whole number of them.
    """
    rank = np.argsort(np.argsort(confidence, kind="stable"), kind="stable")
    return deferred(draft, target, rank < round(share * len(rank)))


def quality_gap(a: Way, b: Way, *, comparisons: int = 1) -> Interval:
    """Quality of a less that of b, in nats per token."""
    return _difference(len(a.tokens), lambda of: a.quality(of) - b.quality(of), comparisons)


def cost_ratio(a: Way, b: Way, *, comparisons: int = 1) -> Interval:
    """Seconds per token of a over those of b."""
    found = _difference(len(a.tokens), lambda of: math.log(a.cost(of) / b.cost(of)), comparisons)
    return Interval(math.exp(found.value), math.exp(found.low), math.exp(min(found.high, 700.0)))


def sequential_gap(way: Way, draft: Way, target: Way, confidence: Any, *, comparisons: int = 1) -> Interval:
    """Quality of the way less that of the sequential cascade at the same seconds per token.

    The cascade's threshold is the one that makes the costs equal; between two thresholds the story that they differ in
    is deferred with the probability that does. A way that costs more than deferring everything is compared with that.
    """

    def gap(of: Any) -> float:
        order = np.argsort(confidence[of], kind="stable")
        first, then = (Way(*(getattr(way, name)[of][order] for name in _FIELDS)) for way in (draft, target))
        n = len(order)
        points = [deferred(first, then, np.arange(n) < k) for k in range(n + 1)]
        return way.quality(of) - _on_curve(points, way.cost(of))

    return _difference(len(way.tokens), gap, comparisons)


def mixture_gap(way: Way, draft: Way, other: Way, *, comparisons: int = 1) -> Interval:
    """Quality of the way less that of answering by `other` on a random share of the prompts and by the draft elsewhere.

    The share is the one that makes the seconds per token equal; at a higher cost than the other's, or where the draft
    is the dearer one, it is all.
    """

    def gap(of: Any) -> float:
        reach = other.cost(of) - draft.cost(of)
        share = min(1.0, max(0.0, (way.cost(of) - draft.cost(of)) / reach)) if reach > 0 else 1.0
        return way.quality(of) - (1 - share) * draft.quality(of) - share * other.quality(of)

    return _difference(len(way.tokens), gap, comparisons)


def verdict(quality: Interval, cost: Interval) -> Verdict:
    """How a way stands to a rival, from the interval of its quality gap and that of its cost ratio.

    "dominates": better and cheaper; "dominated": worse and dearer; "trades": better and dearer, or worse and cheaper,
    each with its interval clear of no difference; else "undecided".
    """
    better = (quality.low > 0) - (quality.high < 0)
    cheaper = (cost.high < 1) - (cost.low > 1)
    if not better or not cheaper:
        return "undecided"
    if better != cheaper:
        return "trades"
    return "dominates" if better > 0 else "dominated"


_FIELDS = ("log_likelihood", "tokens", "seconds", "passes")


def _on_curve(points: Sequence[Way], cost: float) -> float:
    """The quality at that cost, piecewise linear through the points; beyond the ends it is theirs."""
    costs = np.maximum.accumulate([point.cost() for point in points])
    return float(np.interp(cost, costs, [point.quality() for point in points]))


def _difference(prompts: int, statistic: Callable[[Any], float], comparisons: int) -> Interval:
    """A figure that may be negative: the jackknife of its exponential, brought back.

    With several comparisons the interval is widened (Bonferroni), so that all of them hold together at 95 %.
    """
    value, low, high = log_jackknife(prompts, lambda of: math.exp(statistic(of)))
    if low == 0.0:
        return Interval(math.log(value), -math.inf, math.inf)
    degrees = min(prompts, BLOCKS) - 1
    wider = t_quantile(1 - 0.025 / comparisons, degrees) / t_quantile(0.975, degrees)
    middle, reach = math.log(value), 0.5 * (math.log(high) - math.log(low)) * wider
    return Interval(middle, middle - reach, middle + reach)
