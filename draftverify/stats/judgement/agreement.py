"""How far verdicts agree with labels beyond chance.

Verdicts and labels are words (nominal categories). Every figure takes weights, how often each unit counts, so that
`bootstrap` can draw whole clusters anew; a category is any hashable value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

__all__ = [
    "alpha_of_counts",
    "cohen_kappa",
    "kappa_of_places",
    "krippendorff_alpha",
]


def cohen_kappa(one: Sequence[Hashable], other: Sequence[Hashable], weights: Any = None) -> float:
    """κ = (p_o − p_e) / (1 − p_e): agreement beyond what two raters with these frequencies reach by chance.

    p_o is the share of units on which both say the same, p_e = Σ_c p(one says c) · p(other says c).

    Args:
        one, other: [n], a category for each unit.
        weights: [n], how often each unit counts; once when None.

    Returns:
        NaN where there is no unit, or both always say the one same thing.

    References:
        Cohen, A coefficient of agreement for nominal scales, Educational and Psychological Measurement 20 (1960).
    """
    kinds = {kind: place for place, kind in enumerate(dict.fromkeys([*one, *other]))}
    a = np.array([kinds[each] for each in one], dtype=int)
    b = np.array([kinds[each] for each in other], dtype=int)
    return kappa_of_places(a, b, len(kinds), np.ones(len(a)) if weights is None else weights)


def kappa_of_places(one: Any, other: Any, kinds: int, weights: Any) -> float:
    """`cohen_kappa` of categories given as places 0 … kinds − 1, which a bootstrap need not look up again."""
    total = weights.sum()
    if not total > 0:
        return math.nan
    agreed = float((weights * (one == other)).sum() / total)
    chance = float(np.bincount(one, weights, kinds) @ np.bincount(other, weights, kinds) / total**2)
    return (agreed - chance) / (1.0 - chance) if chance < 1.0 else math.nan


def krippendorff_alpha(units: Sequence[Sequence[Hashable]], weights: Any = None) -> float:
    """α = 1 − D_o / D_e for nominal categories and any number of raters, who need not have rated every unit.

    With o_ck the coincidences (each pair of ratings of a unit with m ratings counts 1 / (m − 1)), n_c = Σ_k o_ck and
    n = Σ n_c: D_o = Σ_{c≠k} o_ck / n, D_e = Σ_{c≠k} n_c n_k / (n (n − 1)).

    Args:
        units: the ratings of each unit; None is one that is missing. Units with fewer than two count for nothing.
        weights: how often each unit counts; once when None.

    Returns:
        NaN where no unit has two ratings, or all ratings are the one same category.

    References:
        Krippendorff, Computing Krippendorff's alpha-reliability (2011).
    """
    rated = [[each for each in unit if each is not None] for unit in units]
    kinds = {kind: place for place, kind in enumerate(dict.fromkeys(each for unit in rated for each in unit))}
    # Of each unit: its counts per category, and its disagreeing pairs over m − 1.
    counts = np.zeros((len(rated), len(kinds)))
    disagreeing = np.zeros(len(rated))
    for place, unit in enumerate(rated):
        if len(unit) > 1:
            for kind, count in Counter(unit).items():
                counts[place, kinds[kind]] = count
            disagreeing[place] = (len(unit) ** 2 - (counts[place] ** 2).sum()) / (len(unit) - 1)
    return alpha_of_counts(counts, disagreeing, np.ones(len(rated)) if weights is None else weights)


def alpha_of_counts(counts: Any, disagreeing: Any, weights: Any) -> float:
    """`krippendorff_alpha` of units [n, categories] that have been counted."""
    each = weights @ counts
    total = float(each.sum())
    pairs = total**2 - float((each**2).sum())
    if total < 2 or not pairs > 0:
        return math.nan
    return 1.0 - float(weights @ disagreeing) / total * (total * (total - 1.0)) / pairs
