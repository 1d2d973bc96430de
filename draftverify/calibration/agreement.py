"""How far verdicts agree with labels beyond chance, what labels and a judge say together, how many labels that takes.

Verdicts and labels are words (nominal categories). Every figure takes weights, how often each unit counts, so that
`bootstrap` can draw whole clusters anew; a category is any hashable value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from draftverify.calibration.intervals import Estimate
from draftverify.calibration.selective import bootstrap
from draftverify.errors import ConfigError

__all__ = [
    "alpha_of_counts",
    "assisted_rate",
    "cohen_kappa",
    "kappa_of_places",
    "krippendorff_alpha",
    "labels_needed",
]

Z = 1.959963984540054
"""The normal distribution's 97.5 % quantile."""


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


def assisted_rate(
    labels: Sequence[float],
    judged: Sequence[float],
    unlabelled: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
) -> Estimate:
    """A mean by few labels and many verdicts of a judge, without the judge's bias (PPI++), with its 95 % interval.

    θ = λ · mean_U(j) + mean_L(y − λ j), with L the n labelled units, U the N others, and λ = Cov_L(y, j) / (Var(j)
    (1 + n / N)), within 0 to 1: 0 is the labels alone, and that is what a judge who knows nothing leads to. λ is fitted
    anew in every redraw of the bootstrap.

    Args:
        labels: [n], what the labels say of each labelled unit, such as 1 for a win.
        judged: [n], what the judge says of the same units.
        unlabelled: [N], what the judge says of the others; none leave the labels' own mean.
        clusters: [n + N], what each unit belongs to, the labelled ones first; each is its own when None.

    Raises:
        ConfigError: there is no label, or the lengths differ.

    References:
        Angelopoulos, Duchi and Zrnic, PPI++: efficient prediction-powered inference, arXiv 2311.01453.
    """
    y, j, u = (np.asarray(each, dtype=float) for each in (labels, judged, unlabelled))
    if not len(y) or len(y) != len(j):
        raise ConfigError(
            f"there are {len(y)} labels and {len(j)} verdicts on them; as many, and some, are needed"
        )
    n = len(y)

    def mean(weights: Any) -> float:
        own, others = weights[:n], weights[n:]
        if not own.sum() > 0:
            return math.nan
        plain = float(own @ y / own.sum())
        if not others.sum() > 0:
            return plain
        centre, spread = own @ j / own.sum(), _spread(np.concatenate([j, u]), weights)
        if not spread > 0:
            return plain
        covariance = float(own @ ((y - plain) * (j - centre)) / own.sum())
        tuned = min(max(covariance / (spread * (1.0 + own.sum() / others.sum())), 0.0), 1.0)
        return float(tuned * (others @ u / others.sum() - centre) + plain)

    return bootstrap(mean, range(n + len(u)) if clusters is None else clusters)


def labels_needed(width: float, variance: float, *, correlation: float = 0.0, unlabelled: int = 0) -> int:
    """How many labels give a mean a 95 % interval of this width, by the normal approximation.

    The smallest n with 2 z sqrt(v / n · (1 − ρ² N / (n + N))) ≤ width; the last factor is what `assisted_rate` gains
    from a judge. For units that are independent: of several to a question more are needed.

    Args:
        width: of the whole interval, from its lower to its upper end.
        variance: of one unit: p (1 − p) for a share, at most ¼; p_o (1 − p_o) / (1 − p_e)² for Cohen's κ.
        correlation: ρ of a label and the judge's verdict on the same unit.
        unlabelled: N, how many units the judge judges besides.

    Raises:
        ConfigError: the width is not above 0.
    """
    if not width > 0:
        raise ConfigError(f"a width of {width} cannot be reached; it is above 0", path="width")

    def wide(n: int) -> bool:
        share = unlabelled / (n + unlabelled)
        return 2.0 * Z * math.sqrt(variance / n * (1.0 - correlation**2 * share)) > width * (1.0 + 1e-12)

    low, high = 0, 1
    while wide(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high


def _spread(values: Any, weights: Any) -> float:
    centre = weights @ values / weights.sum()
    return float(weights @ (values - centre) ** 2 / weights.sum())
