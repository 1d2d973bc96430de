"""How far verdicts agree with labels beyond chance.

Verdicts and labels are words (nominal categories). Every figure takes weights, how often each unit counts, so that
`bootstrap` can draw whole clusters anew; a category is any hashable value.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from draftverify.stats.intervals import numbered


def cohen_kappa(labels_a: Sequence[Hashable], labels_b: Sequence[Hashable], weights: Any = None) -> float:
    """κ = (p_o − p_e) / (1 − p_e): agreement beyond what two raters with these frequencies reach by chance.

    p_o is the share of units on which both raters say the same, p_e = Σ_c p(a says c) · p(b says c).

    Args:
        labels_a, labels_b: [n], a category for each unit.
        weights: [n], how often each unit counts; once when None.

    Returns:
        NaN where there is no unit, or both always say the one same thing.

    References:
        Cohen, A coefficient of agreement for nominal scales, Educational and Psychological Measurement 20 (1960).
    """
    places, kinds = numbered([*labels_a, *labels_b])
    a, b = places[: len(labels_a)], places[len(labels_a) :]
    return kappa_of_places(a, b, kinds, np.ones(len(a)) if weights is None else weights)


def kappa_of_places(labels_a: Any, labels_b: Any, kinds: int, weights: Any) -> float:
    """`cohen_kappa` of categories given as places 0 … kinds − 1, which a bootstrap need not look up again."""
    total = weights.sum()
    if not total > 0:
        return math.nan
    agreed = float((weights * (labels_a == labels_b)).sum() / total)
    chance = float(np.bincount(labels_a, weights, kinds) @ np.bincount(labels_b, weights, kinds) / total**2)
    return (agreed - chance) / (1.0 - chance) if chance < 1.0 else math.nan


def krippendorff_alpha(counts: Any, weights: Any = None) -> float:
    """α = 1 − D_o / D_e for nominal categories and any number of raters, who need not have rated every unit.

    With o_ck the coincidences (each pair of ratings of a unit with m ratings counts 1 / (m − 1)), n_c = Σ_k o_ck and
    n = Σ n_c: D_o = Σ_{c≠k} o_ck / n, D_e = Σ_{c≠k} n_c n_k / (n (n − 1)).

    Args:
        counts: [units, categories], how many raters gave each. Units with fewer than two ratings count for nothing.
        weights: how often each unit counts; once when None.

    Returns:
        NaN where no unit has two ratings, or all ratings are the one same category.

    References:
        Krippendorff, Computing Krippendorff's alpha-reliability (2011).
    """
    rated = np.asarray(counts, dtype=float)
    ratings = rated.sum(axis=1)
    use = (ratings > 1) * (1.0 if weights is None else np.asarray(weights, dtype=float))
    disagreeing = (ratings**2 - (rated**2).sum(axis=1)) / np.maximum(ratings - 1.0, 1.0)
    of_category = use @ rated
    total = float(of_category.sum())
    pairs = total**2 - float((of_category**2).sum())
    if total < 2 or not pairs > 0:
        return math.nan
    return 1.0 - float(use @ disagreeing) / total * (total * (total - 1.0)) / pairs
