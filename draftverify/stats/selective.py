"""How far a score tells right from wrong: the ROC curve's area, over all items and within their clusters.

Items of one cluster (the questions about one paragraph, the candidates of one task) resemble each other, so intervals
come from drawing whole clusters anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from draftverify.errors import ConfigError
from draftverify.stats.intervals import TAIL, Estimate, t_quantile

__all__ = [
    "auroc",
    "auroc_within",
    "bootstrap",
]

REDRAWS = 2000


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
        ConfigError: there is no item, a score is NaN, `right` is neither 0 nor 1, or the lengths differ.
    """
    items = _Items(scores, right, clusters)

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
    items = _Items(scores, right, clusters)
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
    figures = np.array(drawn)[~np.isnan(drawn)]
    if not len(figures):
        return Estimate(value, -math.inf, math.inf, len(of_item), len(places))
    reach = math.sqrt(len(places) / (len(places) - 1)) * t_quantile(TAIL, len(places) - 1)
    tail = math.erfc(reach / math.sqrt(2.0)) / 2.0
    low, high = np.quantile(figures, [tail, 1.0 - tail])
    return Estimate(value, float(low), float(high), len(of_item), len(places))


class _Items:
    """Scored items, by score from the highest."""

    def __init__(
        self,
        scores: Sequence[float],
        right: Sequence[float],
        clusters: Sequence[Hashable] | None = None,
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
        if not np.isin(self.right, (0.0, 1.0)).all():
            raise ConfigError("an item is right or wrong here, and nothing between")
        distinct, self.place = np.unique(-values, return_inverse=True)
        self.distinct = len(distinct)

    def by_score(self, weights: Any) -> tuple[Any, Any]:
        """For each distinct score, the highest first, how many items have it and how many of them are wrong."""
        return (
            np.bincount(self.place, weights, self.distinct),
            np.bincount(self.place, weights * (1.0 - self.right), self.distinct),
        )

    def estimate(self, share: Callable[[Any], float], *counted: Any) -> Estimate:
        """A share with its interval within 0 and 1.

        One that is 0 or 1 may be so in every redraw, which says nothing of how sure it is: then each cluster counts as
        one trial (Clopper–Pearson), which is the worst case.

        Args:
            share: the figure of weights.
            counted: [n] booleans, the kinds of items that it compares; the one of the fewest clusters counts.
        """
        redrawn = bootstrap(share, self.clusters)
        low, high = max(redrawn.low, 0.0), min(redrawn.high, 1.0)
        if redrawn.value in (0.0, 1.0):
            kinds = ({c for c, counts in zip(self.clusters, kind, strict=True) if counts} for kind in counted)
            trials = min(map(len, kinds))
            reach = (1.0 - TAIL) ** (1.0 / trials)
            low, high = (min(low, reach), 1.0) if redrawn.value == 1.0 else (0.0, max(high, 1.0 - reach))
        return Estimate(redrawn.value, float(low), float(high), redrawn.trials, redrawn.clusters)


def _over(part: float, total: float) -> float:
    return part / total if total > 0 else math.nan
