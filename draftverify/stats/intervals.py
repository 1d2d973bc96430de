"""The statistics that the rest of the room stands on: two quantiles, and intervals of figures clustered by task.

Rounds of one task resemble each other, so the task is the unit of sampling everywhere. A rate gets the interval of
Korn and Graubard (Clopper–Pearson at the effective number of trials); a positive ratio gets a t interval on the log
scale; what has no formula gets a delete-one-cluster jackknife.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

__all__ = ["Estimate", "beta_quantile", "binomial_cdf", "log_interval", "log_jackknife", "rate", "t_quantile"]

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


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _beta_cdf(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun 26.5.8)."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _beta_cdf(b, a, 1.0 - x)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b)) / a
    tiny = 1e-300
    c, d = 1.0, 1.0 / ((1.0 - (a + b) * x / (a + 1.0)) or tiny)
    fraction = d
    for m in range(1, 10_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / ((1.0 + term * d) or tiny)
            c = (1.0 + term / c) or tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return front * fraction


def beta_quantile(p: float, a: float, b: float) -> float:
    """The x with P(Beta(a, b) <= x) = p: Newton's steps, halving the bracket where one would leave it."""
    scale = _log_beta(a, b)
    low, high, x = 0.0, 1.0, min(max(a / (a + b), 1e-9), 1.0 - 1e-9)
    for _ in range(200):
        error = _beta_cdf(a, b, x) - p
        low, high = (x, high) if error < 0 else (low, x)
        slope = (a - 1.0) * math.log(x) + (b - 1.0) * math.log1p(-x) - scale
        guess = x - error * math.exp(-slope) if slope > -600.0 else low
        before, x = x, guess if low < guess < high else 0.5 * (low + high)
        if abs(x - before) <= 1e-14 * x or x in (0.0, 1.0):
            break
    return x


def binomial_cdf(k: int, n: int, share: float) -> float:
    """P(X ≤ k) for a binomial X: n trials, each a hit with this chance."""
    return 1.0 if k >= n else _beta_cdf(n - k, k + 1, 1.0 - share)


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """The x with P(T <= x) = p for Student's t with `df` degrees of freedom, p > ½; infinite without any."""
    if df <= 0:
        return math.inf
    x = beta_quantile(2.0 * (1.0 - p), df / 2.0, 0.5)
    return math.sqrt(df * (1.0 / x - 1.0))


def rate(accepted: Sequence[float], trials: Sequence[float]) -> Estimate:
    """A rate pooled over clusters, Σ accepted / Σ trials, with an interval that knows of the clusters.

    n* = p(1 − p) / V, V the delete-one-cluster jackknife variance, at most the number of trials; times
    (t_{N−1} / t_{G*−1})² with G* = (Σ n)² / Σ n², the number of equal clusters that these are worth; then
    Clopper–Pearson with n* trials. One cluster, or a rate of 0 or 1, says nothing of the variance between clusters,
    so then each cluster counts as one trial (the worst case).

    Args:
        accepted: one count per cluster (a fraction will do).
        trials: one count per cluster; clusters without trials are left out.

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


def log_interval(mean: float, error: float, df: float) -> tuple[float, float]:
    """exp(mean ± t_df · error); (0, inf) when there are no degrees of freedom."""
    if df <= 0 or not math.isfinite(error):
        return 0.0, math.inf
    reach = t_quantile(TAIL, df) * error
    return math.exp(max(mean - reach, -700.0)), math.exp(min(mean + reach, 700.0))


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
