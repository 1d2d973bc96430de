"""How far a score tells right from wrong: the ROC curve's area, over all items and within their clusters.

Items of one cluster (the questions about one paragraph, the candidates of one task) resemble each other, so intervals
come from drawing whole clusters anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from draftverify.errors import ConfigError
from draftverify.stats.intervals import TAIL, Estimate, bootstrap, members, numbered, over, within


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
        return over((good * (lower + wrong / 2.0)).sum(), good.sum() * wrong.sum())

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
    of_cluster = members(clusters)
    pairs, won = np.zeros((2, len(of_cluster)))
    for cluster, own in enumerate(of_cluster):
        right_places, wrong_places = (items.place[own[items.right[own] == value]] for value in (1.0, 0.0))
        ahead = np.sign(wrong_places[None, :] - right_places[:, None])  # places count from the highest score
        pairs[cluster], won[cluster] = ahead.size, (ahead + 1.0).sum() / 2.0
    heads = [own[0] for own in of_cluster]

    def share(weights: Any) -> float:
        return over(weights[heads] @ won, weights[heads] @ pairs)

    return items.estimate(share, pairs[numbered(clusters)[0]] > 0)


class _Items:
    """Scored items, by score from the highest."""

    def __init__(
        self, scores: Sequence[float], right: Sequence[float], clusters: Sequence[Hashable] | None = None
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
        redrawn = within(bootstrap(share, self.clusters), 0.0, 1.0)
        if redrawn.value not in (0.0, 1.0):
            return redrawn
        of_item, _ = numbered(self.clusters)
        reach = (1.0 - TAIL) ** (1.0 / min(len(np.unique(of_item[kind])) for kind in counted))
        low, high = (0.0, 1.0 - reach) if redrawn.value == 0.0 else (reach, 1.0)
        return replace(redrawn, low=min(redrawn.low, low), high=max(redrawn.high, high))
