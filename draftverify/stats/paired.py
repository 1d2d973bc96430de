"""Whether two pipelines differ on the same tasks: tests and intervals of paired outcomes, and what looking often costs.

The task is the unit of sampling: each gives one pair, and pairs of different tasks are taken to be independent. Under
the null hypothesis a task's two outcomes could change places. Yes-or-no outcomes get McNemar's exact test, numbers a
permutation test that lets each pair change places; neither assumes anything of how the numbers are distributed.
Intervals are of one comparison alone; p-values of many are corrected together by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.stats.intervals import TAIL, Estimate, binomial_cdf, bootstrap, log_mean, over, ratio

EXACT = 14
"""Pairs that differ; up to so many, all 2^n ways to change places are counted."""
DRAWS = 9_999
AT_ONCE = 1_000_000
"""Pairs in the ways that are held at a time."""


class PairedTest(msgspec.Struct, frozen=True, kw_only=True):
    """A paired comparison of `other` with `base`.

    Args:
        base, other: the figure of each side, over the pairs; NaN without any.
        effect: other − base, or other / base of a ratio.
        low, high: its 95 % interval.
        p: of the null hypothesis that the two sides of each pair could change places; NaN where there is no test.
        pairs: how many.
        higher, lower: in how many of them `other` has more, or less, than `base`.
    """

    base: float = math.nan
    other: float = math.nan
    effect: float = math.nan
    low: float = -math.inf
    high: float = math.inf
    p: float = math.nan
    pairs: int = 0
    higher: int = 0
    lower: int = 0


def paired_shares(base: Sequence[bool], other: Sequence[bool]) -> PairedTest:
    """The difference of two shares of the same n tasks, and McNemar's exact test.

    Of the b + c tasks on which the sides disagree, b went `other`'s way. p = P(|B − (b+c)/2| ≥ |b − (b+c)/2|) for
    B ~ Binomial(b + c, ½). The interval is Bonett and Price's: with p₁ = (b+1)/(n+2) and p₂ = (c+1)/(n+2),
    p₁ − p₂ ± z · sqrt((p₁ + p₂ − (p₁ − p₂)²) / (n + 2)). It has a width where the sides never disagree too.

    Args:
        base, other: [n], yes or no of each task.

    References:
        McNemar, Note on the sampling error of the difference between correlated proportions, Psychometrika 12 (1947).
        Bonett and Price, Adjusted Wald confidence interval for a difference of binomial proportions based on paired
        data, Journal of Educational and Behavioral Statistics 37 (2012); recommended by Fagerland, Lydersen and Laake,
        Statistics in Medicine 33 (2014).
    """
    base_values, other_values = _sides(base, other)
    n = len(base_values)
    if not np.isin((base_values, other_values), (0.0, 1.0)).all():
        raise ConfigError("a share is of yes and no; numbers have paired_difference")
    b, c = int((other_values > base_values).sum()), int((other_values < base_values).sum())
    if not n:
        return PairedTest()
    p1, p2 = (b + 1) / (n + 2), (c + 1) / (n + 2)
    reach = NormalDist().inv_cdf(TAIL) * math.sqrt((p1 + p2 - (p1 - p2) ** 2) / (n + 2))
    return PairedTest(
        base=float(base_values.mean()),
        other=float(other_values.mean()),
        effect=(b - c) / n,
        low=max(p1 - p2 - reach, -1.0),
        high=min(p1 - p2 + reach, 1.0),
        p=min(1.0, 2.0 * binomial_cdf(min(b, c), b + c, 0.5)),
        pairs=n,
        higher=b,
        lower=c,
    )


def paired_difference(base: Sequence[float], other: Sequence[float]) -> PairedTest:
    """The mean difference of numbers on the same n tasks.

    p is that of the permutation test on the mean: each task's difference keeps or changes its sign. The interval draws
    tasks anew (`bootstrap`, the expanded percentile interval).

    Args:
        base, other: [n], one finite number of each task.

    References:
        Fisher, The design of experiments (1935), section 21.
        Phipson and Smyth, Permutation p-values should never be zero, Statistical Applications in Genetics and
        Molecular Biology 9 (2010), for the one that is added to both counts where not all ways are counted.
    """
    base_values, other_values = _sides(base, other)
    if not len(base_values):
        return PairedTest()
    difference = other_values - base_values
    redrawn = bootstrap(
        lambda weights: float((weights * difference).sum() / weights.sum()), range(len(difference))
    )
    return _of_differences(float(base_values.mean()), float(other_values.mean()), difference, redrawn)


def paired_ratio(base: Sequence[float], other: Sequence[float]) -> PairedTest:
    """The geometric mean of the ratios of positive numbers on the same n tasks: seconds, costs, speed-ups.

    p is that of `paired_difference` on logarithms, the interval the t interval of the mean log ratio.

    Args:
        base, other: [n], one positive number of each task.

    Returns:
        `base` and `other` are geometric means too.
    """
    base_values, other_values = _sides(base, other)
    if not (base_values > 0).all() or not (other_values > 0).all():
        raise ConfigError("a ratio is of numbers above 0")
    if not len(base_values):
        return PairedTest()
    base_logs, other_logs = np.log(base_values), np.log(other_values)
    logs = other_logs - base_logs
    means = math.exp(float(base_logs.mean())), math.exp(float(other_logs.mean()))
    return _of_differences(*means, logs, log_mean(logs))


def paired_total_ratio(
    base_cost: Sequence[float],
    base_gain: Sequence[float],
    other_cost: Sequence[float],
    other_gain: Sequence[float],
) -> PairedTest:
    """The ratio of (Σ cost / Σ gain) on the same n tasks: what a solved task costs.

    p is that of the permutation test on the logarithm of the ratio: in each way some tasks' sides, cost and gain
    together, have changed places. Ways in which one side gains nothing count as more extreme. The interval is the
    delete-one-cluster jackknife's on the log scale, as of `solved_ratio`.

    Args:
        base_cost, other_cost: [n], at least 0.
        base_gain, other_gain: [n], at least 0: how much of each task was solved.

    Returns:
        `higher` counts the tasks that cost `other` more. NaN, and no test, where a side gains or costs nothing.
    """
    sides = [np.asarray(side, dtype=float) for side in (base_cost, base_gain, other_cost, other_gain)]
    if len({len(side) for side in sides}) != 1:
        raise ConfigError("as many costs and gains are needed of both sides")
    a, v, b, w = sides
    n = len(a)
    if not (a.sum() > 0 and v.sum() > 0 and b.sum() > 0 and w.sum() > 0):
        return PairedTest()
    effect = ratio(np.stack([a, v, b, w], axis=1), lambda sums: over(sums[2] * sums[1], sums[3] * sums[0]))

    def statistic(signs: Any, axis: int) -> Any:
        costs, gains = ((signs * (one - other)).sum(axis) for one, other in ((a, b), (v, w)))
        cost, gain = (a + b).sum(), (v + w).sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log((cost - costs) * (gain + gains)) - np.log((gain - gains) * (cost + costs))
        return np.nan_to_num(np.abs(logs), nan=math.inf, posinf=math.inf)

    return PairedTest(
        base=float(a.sum() / v.sum()),
        other=float(b.sum() / w.sum()),
        effect=effect.value,
        low=effect.low,
        high=effect.high,
        p=_permuted(statistic, (a != b) | (v != w)),
        pairs=n,
        higher=int((b > a).sum()),
        lower=int((b < a).sum()),
    )


def holm(p: Sequence[float]) -> list[float]:
    """P-values corrected for being looked at together: the chance of one false finding among them stays below α.

    In ascending order p₍ᵢ₎ becomes max over j ≤ i of min(1, (m − j + 1) · p₍ⱼ₎). It holds however the comparisons
    depend on each other. NaN stands for a comparison without a test and stays; it is not counted.

    References:
        Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    tested = sorted((value, place) for place, value in enumerate(p) if not math.isnan(value))
    corrected = [math.nan] * len(p)
    least = 0.0
    for rank, (value, place) in enumerate(tested):
        least = max(least, min(1.0, (len(tested) - rank) * value))
        corrected[place] = least
    return corrected


def _sides(base: Sequence[float], other: Sequence[float]) -> tuple[Any, Any]:
    base_values, other_values = np.asarray(base, dtype=float), np.asarray(other, dtype=float)
    if base_values.shape != other_values.shape or base_values.ndim != 1:
        raise ConfigError(f"pairs are needed: there are {base_values.size} and {other_values.size}")
    if not (np.isfinite(base_values).all() and np.isfinite(other_values).all()):
        raise ConfigError("paired numbers are finite")
    return base_values, other_values


def _of_differences(base: float, other: float, difference: Any, effect: Estimate) -> PairedTest:
    """The test of [n] differences, whose p is that of the permutation test on their mean."""
    scale = max(float(np.abs(difference).sum()), 1e-300)
    return PairedTest(
        base=base,
        other=other,
        effect=effect.value,
        low=effect.low,
        high=effect.high,
        p=_permuted(lambda signs, axis: np.abs((signs * (difference / scale)).sum(axis)), difference != 0.0),
        pairs=len(difference),
        higher=int((difference > 0).sum()),
        lower=int((difference < 0).sum()),
    )


def _permuted(statistic: Callable[[Any, int], Any], differs: Any) -> float:
    """The share of the ways to let pairs change places whose statistic is at least the observed one.

    Args:
        statistic: of signs [ways, n], −1 where a pair has changed places, and their last axis: how extreme each way is,
            [ways]; of the order of 1, or infinite.
        differs: [n], whether a pair's sides do; the others stay.
    """
    from scipy.stats import permutation_test

    k = int(differs.sum())
    if k < 2:  # a way and its mirror image are as extreme
        return 1.0

    def extremity(signs: Any, axis: int) -> Any:
        places = np.ones((*signs.shape[:-1], len(differs)))
        places[..., differs] = signs
        return np.round(statistic(places, axis), 12)  # what differs by rounding alone is as extreme

    test = permutation_test(
        (np.ones(k),),
        extremity,
        permutation_type="samples",
        alternative="greater",
        n_resamples=2**k if k <= EXACT else DRAWS,
        batch=max(1, AT_ONCE // len(differs)),
        vectorized=True,
        random_state=0,
    )
    return float(test.pvalue)
