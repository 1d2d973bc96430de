"""How far a score tells right from wrong: selective risk and coverage, the ROC curve's area, and what a floor refuses.

Accepting what scores at least a threshold covers a share of the items (coverage), of which a share is wrong (selective
risk). Items with equal scores are accepted together or not at all: no threshold lies between them. Items of one cluster
(the questions about one paragraph, the candidates of one task) resemble each other, so intervals come from drawing
whole clusters anew.

References:
    El-Yaniv and Wiener, On the foundations of noise-free selective classification, JMLR 11 (2010).
    Geifman, Uziel and El-Yaniv, Bias-reduced uncertainty estimation for deep neural classifiers, ICLR 2019 (AURC).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.stats.intervals import TAIL, Estimate, t_quantile

__all__ = [
    "RiskCoverage",
    "auroc",
    "auroc_within",
    "aurc",
    "bootstrap",
    "risk_coverage",
    "selective_risk",
    "specificity",
]

REDRAWS = 2000


class RiskCoverage(msgspec.Struct, frozen=True):
    """A risk–coverage curve: a point for each threshold that accepts something, the highest threshold first.

    Args:
        thresholds: the distinct scores, from the highest.
        coverage: the share of items that score at least as much.
        risk: the share of those that is wrong.
        area: the mean risk over coverages of 1/n, 2/n, …, 1, with equal scores in random order (AURC).
    """

    thresholds: tuple[float, ...]
    coverage: tuple[float, ...]
    risk: tuple[float, ...]
    area: float


def risk_coverage(scores: Sequence[float], right: Sequence[float]) -> RiskCoverage:
    """The risk–coverage curve of scored items.

    Args:
        scores: [n], higher is surer; −inf of items that were never answered.
        right: [n], whether each is right, or how far, from 0 to 1.

    Raises:
        ConfigError: there is no item, a score is NaN, `right` is not from 0 to 1, or the lengths differ.
    """
    items = _Items(scores, right)
    count, wrong = items.by_score(np.ones(len(items.right)))
    accepted = count.cumsum()
    return RiskCoverage(
        thresholds=tuple(items.distinct.tolist()),
        coverage=tuple((accepted / accepted[-1]).tolist()),
        risk=tuple((wrong.cumsum() / accepted).tolist()),
        area=_area(count, wrong),
    )


def aurc(
    scores: Sequence[float], right: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> Estimate:
    """The area under the risk–coverage curve, with its interval. The arguments are `selective_risk`'s."""
    items = _Items(scores, right, clusters)
    return items.estimate(lambda weights: _area(*items.by_score(weights)), items.right >= 0.0)


def selective_risk(
    scores: Sequence[float],
    right: Sequence[float],
    coverage: float,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """The risk at the highest threshold that covers at least so many of the items, with its interval.

    The threshold is chosen anew in every redraw, so the interval knows that it was chosen on these items.

    Args:
        scores: [n], higher is surer; −inf of items that were never answered.
        right: [n], whether each is right, or how far, from 0 to 1.
        coverage: above 0, up to 1.
        clusters: [n], what each item belongs to; each is its own when None.

    Raises:
        ConfigError: as of `risk_coverage`, or `coverage` is no such share.
    """
    items = _Items(scores, right, clusters)
    _share("coverage", coverage)

    def last_accepted(weights: Any) -> int:
        return _first_with(items.by_score(weights)[0].cumsum(), coverage)

    def risk(weights: Any) -> float:
        count, wrong = items.by_score(weights)
        last = last_accepted(weights)
        return float(wrong[: last + 1].sum() / count[: last + 1].sum())

    return items.estimate(risk, items.place <= last_accepted(np.ones(len(items.right))))


def auroc(
    scores: Sequence[float], right: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> Estimate:
    """The chance that a right item scores more than a wrong one, equal scores counting half, with its interval.

    Args:
        scores: [n], higher is surer.
        right: [n], whether each is right.
        clusters: [n], what each item belongs to; each is its own when None.

    Returns:
        NaN, and an interval of (0, 1), where all items are right, or all are wrong.

    Raises:
        ConfigError: as of `risk_coverage`, or `right` is neither 0 nor 1.
    """
    items = _Items(scores, right, clusters, binary=True)

    def area(weights: Any) -> float:
        count, wrong = items.by_score(weights)
        good = count - wrong
        lower = wrong.sum() - wrong.cumsum()
        return _over(float((good * (lower + wrong / 2.0)).sum()), float(good.sum() * wrong.sum()))

    return items.estimate(area, items.right == 1.0, items.right == 0.0)


def auroc_within(scores: Sequence[float], right: Sequence[float], clusters: Sequence[Hashable]) -> Estimate:
    """The chance that a right item scores more than a wrong one of its own cluster, with its interval.

    What counts where one of a task's candidates is chosen: a score that only tells easy tasks from hard ones has a high
    `auroc`, and ½ here. Every pair counts the same, so a task with more pairs counts for more.

    Args:
        scores: [n], higher is surer.
        right: [n], whether each is right.
        clusters: [n], what each item belongs to.

    Returns:
        NaN, and an interval of (0, 1), where no cluster has a right item and a wrong one.

    Raises:
        ConfigError: as of `auroc`.
    """
    items = _Items(scores, right, clusters, binary=True)
    members: dict[Hashable, list[int]] = {}
    for index, cluster in enumerate(clusters):
        members.setdefault(cluster, []).append(index)
    heads = np.array([of[0] for of in members.values()])
    pairs, won = np.zeros((2, len(heads)))
    for place, of in enumerate(members.values()):
        good = items.right[of] == 1.0
        # Places count from the highest score.
        over = np.sign(items.place[of][~good][None, :] - items.place[of][good][:, None])
        pairs[place], won[place] = over.size, (over + 1.0).sum() / 2.0
    compared = np.zeros(len(items.right), dtype=bool)
    for of, count in zip(members.values(), pairs, strict=True):
        compared[of] = count > 0

    def share(weights: Any) -> float:
        return _over(float(weights[heads] @ won), float(weights[heads] @ pairs))

    return items.estimate(share, compared)


def specificity(
    scores: Sequence[float],
    right: Sequence[float],
    sensitivity: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """The share of wrong items below the highest threshold that keeps so many of the right ones, with its interval.

    Args:
        scores: [n], higher is surer.
        right: [n], whether each is right.
        sensitivity: the share of the right ones to keep, above 0, up to 1.
        clusters: [n], what each item belongs to; each is its own when None.

    Returns:
        NaN, and an interval of (0, 1), where all items are right, or all are wrong.

    Raises:
        ConfigError: as of `auroc`, or `sensitivity` is no such share.
    """
    items = _Items(scores, right, clusters, binary=True)
    _share("sensitivity", sensitivity)

    def refused(weights: Any) -> float:
        count, wrong = items.by_score(weights)
        kept = (count - wrong).cumsum()
        last = _first_with(kept, sensitivity)
        return _over(float(wrong[last + 1 :].sum()), float(wrong.sum())) if kept[-1] > 0 else math.nan

    return items.estimate(refused, items.right == 0.0)


def bootstrap(
    statistic: Callable[[Any], float], clusters: Sequence[Hashable], *, redraws: int = REDRAWS
) -> Estimate:
    """A figure of items, and a 95 % interval of what it is when whole clusters are drawn anew.

    The interval is the expanded percentile one: with few clusters, G, its tails are those beyond
    sqrt(G / (G − 1)) · t_{G−1} standard deviations of a normal distribution.

    The draws are the same each time, so that two figures of the same clusters are drawn together: a difference of two
    scores' figures on the same items is a statistic too.

    Args:
        statistic: the figure, given how often each item counts, [n]; NaN where it has none. Redraws without one are
            left out.
        clusters: [n], what each item belongs to.
        redraws: how many.

    Returns:
        `trials` is n; NaN and (−inf, inf) where the items have no figure; the interval is that wide too with one
        cluster.

    References:
        Hesterberg, What teachers should know about the bootstrap, The American Statistician 69 (2015), section 5.3.
    """
    places: dict[Hashable, int] = {}
    of_item = np.array([places.setdefault(cluster, len(places)) for cluster in clusters], dtype=int)
    value = statistic(np.ones(len(of_item)))
    if len(places) < 2 or math.isnan(value):
        return Estimate(value, -math.inf, math.inf, len(of_item), len(places))
    rng = np.random.default_rng(0)
    chances = np.full(len(places), 1.0 / len(places))
    drawn = [statistic(rng.multinomial(len(places), chances)[of_item].astype(float)) for _ in range(redraws)]
    known = np.array(drawn)[~np.isnan(drawn)]
    if not len(known):
        return Estimate(value, -math.inf, math.inf, len(of_item), len(places))
    reach = math.sqrt(len(places) / (len(places) - 1)) * t_quantile(TAIL, len(places) - 1)
    tail = math.erfc(reach / math.sqrt(2.0)) / 2.0
    low, high = np.quantile(known, [tail, 1.0 - tail])
    return Estimate(value, float(low), float(high), len(of_item), len(places))


class _Items:
    """Scored items, by score from the highest."""

    def __init__(
        self,
        scores: Sequence[float],
        right: Sequence[float],
        clusters: Sequence[Hashable] | None = None,
        *,
        binary: bool = False,
    ) -> None:
        values, self.right = np.asarray(scores, dtype=float), np.asarray(right, dtype=float)
        self.clusters = range(len(values)) if clusters is None else clusters
        if values.ndim != 1 or not len(values) == len(self.right) == len(self.clusters):
            raise ConfigError(
                f"there are {len(values)} scores, {len(self.right)} that are right or wrong, and "
                f"{len(self.clusters)} clusters; as many of each are needed"
            )
        if not len(values):
            raise ConfigError("there is no item to judge the scores by")
        if np.isnan(values).any():
            raise ConfigError("a score is NaN; items that were never answered have −inf")
        if not ((self.right >= 0) & (self.right <= 1)).all():
            raise ConfigError("whether an item is right is said from 0 to 1")
        if binary and not np.isin(self.right, (0.0, 1.0)).all():
            raise ConfigError("an item is right or wrong here, and nothing between")
        distinct, self.place = np.unique(-values, return_inverse=True)
        self.distinct = -distinct

    def by_score(self, weights: Any) -> tuple[Any, Any]:
        """For each distinct score, the highest first, how many items have it and how many of them are wrong."""
        size = len(self.distinct)
        return (
            np.bincount(self.place, weights, size),
            np.bincount(self.place, weights * (1.0 - self.right), size),
        )

    def estimate(self, share: Callable[[Any], float], *counted: Any) -> Estimate:
        """A share with its interval within 0 and 1.

        One that is 0 or 1 may be so in every redraw, which says nothing of how sure it is: then each cluster counts as
        one trial (Clopper–Pearson), which is the worst case.

        Args:
            share: the figure of weights.
            counted: [n] booleans, the kinds of items that it compares; the one of the fewest clusters counts.
        """
        found = bootstrap(share, self.clusters)
        low, high = max(found.low, 0.0), min(found.high, 1.0)
        if found.value in (0.0, 1.0):
            kinds = ({c for c, one in zip(self.clusters, kind, strict=True) if one} for kind in counted)
            trials = min(map(len, kinds))
            reach = (1.0 - TAIL) ** (1.0 / trials)
            low, high = (min(low, reach), 1.0) if found.value == 1.0 else (0.0, max(high, 1.0 - reach))
        return Estimate(found.value, float(low), float(high), found.trials, found.clusters)


def _area(count: Any, wrong: Any) -> float:
    """The mean over k = 1 … n of the expected risk among the first k, with equal scores in random order."""
    numbers = count.astype(int)
    before = np.repeat(count.cumsum() - count, numbers)
    wrong_before = np.repeat(wrong.cumsum() - wrong, numbers)
    share = np.repeat(wrong / np.maximum(count, 1.0), numbers)
    k = np.arange(1, len(before) + 1)
    return float(((wrong_before + share * (k - before)) / k).mean())


def _first_with(running: Any, share: float) -> int:
    """The first place at which a running sum has this share of its last; rounding does not count."""
    return int(np.searchsorted(running, share * running[-1] * (1.0 - 1e-12)))


def _share(name: str, value: float) -> None:
    if not 0.0 < value <= 1.0:
        raise ConfigError(f"{name} is {value}; it is above 0 and up to 1", path=name)


def _over(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan
