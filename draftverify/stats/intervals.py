"""The statistics that the rest of the room stands on: quantiles, and intervals of figures clustered by task.

Rounds of one task resemble each other, so the task is the unit of sampling everywhere. A rate gets the interval of
Korn and Graubard (Clopper–Pearson at the effective number of trials); a positive ratio gets a t interval on the log
scale; what has no formula gets a delete-one-cluster jackknife. SciPy is loaded at the first interval, not before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

TAIL = 0.975
"""Of an interval of 95 %, the upper end."""
BLOCKS = 40


class Estimate(msgspec.Struct, frozen=True):
    """A figure and its 95 % interval.

    Args:
        value: the estimate; NaN when there was nothing to count.
        low, high: the interval; as wide as the figure's range when one cluster is all there is.
        trials: what was counted (checked items, verifier passes, pairs of records).
        clusters: how many tasks they came from.
    """

    value: float
    low: float
    high: float
    trials: int
    clusters: int


def beta_quantile(p: float, a: float, b: float) -> float:
    """The x with P(Beta(a, b) <= x) = p."""
    from scipy.special import betaincinv

    return float(betaincinv(a, b, p))


def t_quantile(p: float, df: float) -> float:
    """The x with P(T <= x) = p for Student's t with `df` degrees of freedom, p > ½; infinite without any."""
    from scipy.special import stdtrit

    return float(stdtrit(df, p)) if df > 0 else math.inf


def binomial_cdf(k: int, n: int, share: float) -> float:
    """P(X ≤ k) for a binomial X: n trials, each a hit with this chance."""
    from scipy.special import bdtr

    return float(bdtr(k, n, share))


def rate(accepted: Any, trials: Any) -> Estimate:
    """A rate pooled over clusters, Σ accepted / Σ trials, with an interval that knows of the clusters.

    n* = p(1 − p) / V, V the delete-one-cluster jackknife variance, at most the number of trials; times
    (t_{N−1} / t_{G*−1})² with G* = (Σ n)² / Σ n², the number of equal clusters that these are worth; then
    Clopper–Pearson with n* trials. One cluster, or a rate of 0 or 1, says nothing of the variance between clusters,
    so then each cluster counts as one trial (the worst case).

    Args:
        accepted: [clusters], counts (a fraction will do).
        trials: [clusters]; clusters without trials are left out.

    References:
        Korn and Graubard, Confidence intervals for proportions with small expected number of positive counts
        estimated from survey data, Survey Methodology 24 (1998).
    """
    t = np.asarray(trials, dtype=float)
    a = np.asarray(accepted, dtype=float)[t > 0]
    t = t[t > 0]
    clusters, total = len(t), float(t.sum())
    if not clusters:
        return Estimate(math.nan, 0.0, 1.0, 0, 0)
    p = float(a.sum()) / total
    effective = float(clusters)
    if clusters > 1 and 0.0 < p < 1.0:
        without = (a.sum() - a) / (total - t)
        variance = (clusters - 1) / clusters * float(((without - p) ** 2).sum())
        effective = min(total, p * (1.0 - p) / variance) if variance > 0 else total
        worth = total**2 / float((t**2).sum())
        effective *= (t_quantile(TAIL, max(total - 1.0, 1.0)) / t_quantile(TAIL, worth - 1.0)) ** 2
    hits, misses = p * effective, (1.0 - p) * effective
    low = beta_quantile(1.0 - TAIL, hits, misses + 1.0) if p > 0.0 else 0.0
    high = beta_quantile(TAIL, hits + 1.0, misses) if p < 1.0 else 1.0
    return Estimate(p, low, high, round(total), clusters)


def task_sums(rows: Iterable[tuple[Any, ...]], width: int) -> Any:
    """[tasks, width]: what rows of a task and `width` numbers sum to by task, in the order of their first rows."""
    sums: dict[Hashable, list[float]] = {}
    for task, *numbers in rows:
        total = sums.setdefault(task, [0.0] * width)
        for place, number in enumerate(numbers):
            total[place] += number
    return np.array(list(sums.values())).reshape(-1, width)


def pooled_rate(rows: Iterable[tuple[Any, float, float]]) -> Estimate:
    """The `rate` of rows of a task, its accepted and its trials; rows of one task are one cluster."""
    return rate(*task_sums(rows, 2).T)


def numbered(keys: Iterable[Hashable]) -> tuple[Any, int]:
    """[n]: the number of each one's key among the keys, in the order of their first; and how many keys there are."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=int), len(numbers)


def members(keys: Iterable[Hashable]) -> list[Any]:
    """The places of each key's items, [own], the keys in the order of their first."""
    of_item, _ = numbered(keys)
    return np.split(np.argsort(of_item, kind="stable"), np.cumsum(np.bincount(of_item))[:-1])


def over(part: float, whole: float) -> float:
    """Their quotient; NaN over nothing."""
    return float(part / whole) if whole > 0.0 else math.nan


def ratio(rows: Any, statistic: Callable[[Any], float] = lambda sums: over(sums[0], sums[1])) -> Estimate:
    """A positive figure of what rows sum to, the first column over the second, with the interval of `log_jackknife`.

    Args:
        rows: [clusters, k].
        statistic: the figure, given the sums [k].

    Returns:
        `trials` and `clusters` are the number of rows; NaN where the figure is not positive.
    """
    n = len(rows)
    if not n or not statistic(rows.sum(axis=0)) > 0.0:
        return Estimate(math.nan, 0.0, math.inf, n, n)
    return Estimate(*log_jackknife(n, lambda use: statistic(rows[use].sum(axis=0))), n, n)


def log_mean(logs: Any) -> Estimate:
    """exp(mean ± t_{n−1} · s/√n) of [n] logarithms; NaN of none, (0, inf) of a single one."""
    n = len(logs)
    if not n:
        return Estimate(math.nan, 0.0, math.inf, 0, 0)
    mean = float(np.mean(logs))
    error = float(np.std(logs, ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return Estimate(math.exp(mean), *log_interval(mean, error, n - 1), n, n)


def within(estimate: Estimate, least: float, most: float) -> Estimate:
    """An estimate whose interval keeps to the figure's range."""
    return replace(estimate, low=max(estimate.low, least), high=min(estimate.high, most))


def log_interval(mean: float, error: float, df: float) -> tuple[float, float]:
    """exp(mean ± t_df · error); (0, inf) when there are no degrees of freedom."""
    if df <= 0 or not math.isfinite(error):
        return 0.0, math.inf
    reach = t_quantile(TAIL, df) * error
    return math.exp(max(mean - reach, -700.0)), math.exp(min(mean + reach, 700.0))


def widened(estimate: Estimate, new: int) -> tuple[float, float]:
    """The interval of a positive figure on so many other tasks: wider by √(1 + clusters / new) on the log scale."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if not (low > 0.0 and math.isfinite(high)):
        return low, high
    reach = math.sqrt(1.0 + estimate.clusters / new) * math.log(high / value)
    return value * math.exp(-reach), value * math.exp(min(reach, 700.0))


def log_jackknife(clusters: int, statistic: Callable[[Any], float]) -> tuple[float, float, float]:
    """A positive figure and its interval: delete-one-cluster jackknife of its logarithm, t with blocks − 1.

    Args:
        clusters: how many there are; more than 40 are put into 40 blocks, one after the other.
        statistic: the figure, given a boolean array [clusters] of those to use.

    Returns:
        value, low, high; an interval of (0, inf) when fewer than two clusters are there.
    """
    everyone = np.ones(clusters, dtype=bool)
    value = statistic(everyone)
    blocks = min(clusters, BLOCKS)
    if blocks < 2 or not (value > 0 and math.isfinite(value)):
        return value, 0.0, math.inf
    place = np.arange(clusters) % blocks
    left_out = np.array([statistic(place != block) for block in range(blocks)])
    if not (np.isfinite(left_out).all() and (left_out > 0).all()):
        return value, 0.0, math.inf
    logs = np.log(left_out)
    error = math.sqrt((blocks - 1) / blocks * float(((logs - logs.mean()) ** 2).sum()))
    return (value, *log_interval(math.log(value), error, blocks - 1))


def bootstrap(
    statistic: Callable[[Any], float], clusters: Sequence[Hashable], *, redraws: int = 2000
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
    of_item, size = numbered(clusters)
    value = statistic(np.ones(len(of_item)))
    low, high = -math.inf, math.inf
    if size > 1 and not math.isnan(value):
        rng, equal = np.random.default_rng(0), np.full(size, 1.0 / size)
        drawn = [statistic(rng.multinomial(size, equal)[of_item].astype(float)) for _ in range(redraws)]
        reach = math.sqrt(size / (size - 1)) * t_quantile(TAIL, size - 1)
        tail = math.erfc(reach / math.sqrt(2.0)) / 2.0
        if not np.isnan(drawn).all():
            low, high = np.nanquantile(drawn, [tail, 1.0 - tail]).tolist()
    return Estimate(value, low, high, len(of_item), size)
