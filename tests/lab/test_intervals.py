"""Quantiles and clustered intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from draftverify.stats.intervals import beta_quantile, log_jackknife, rate, t_quantile


@pytest.mark.parametrize("df", [1, 2, 3.5, 10, 100, 10_000])
@pytest.mark.parametrize("p", [0.6, 0.9, 0.975, 0.999])
def test_t_quantiles_are_students(p: float, df: float) -> None:
    """The t quantile agrees with SciPy's to nine digits."""
    assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9)


@given(
    p=st.floats(0.01, 0.99),
    a=st.floats(0.05, 500.0),
    b=st.floats(0.05, 500.0),
)
def test_beta_quantiles_invert_the_distribution(p: float, a: float, b: float) -> None:
    """P(Beta <= quantile(p)) is p again, by SciPy's distribution function."""
    x = beta_quantile(p, a, b)
    # Where the density is infinite at an end, one float may span a range of p.
    below, above = stats.beta.cdf(
        [np.nextafter(x, 0) * (1 - 1e-12), min(1.0, x * (1 + 1e-12) + 1e-300)], a, b
    )
    assert below - 1e-8 <= p <= above + 1e-8


@given(
    st.lists(
        st.integers(1, 50).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
        min_size=1,
        max_size=12,
    )
)
def test_a_rate_lies_in_its_interval(counts: list[tuple[int, int]]) -> None:
    """Whatever the counts, 0 <= low <= value <= high <= 1 and the value is the pooled rate."""
    accepted, trials = zip(*counts, strict=True)
    found = rate(accepted, trials)
    assert found.value == pytest.approx(sum(accepted) / sum(trials))
    assert 0.0 <= found.low <= found.value + 1e-12
    assert found.value <= found.high + 1e-12 <= 1.0 + 2e-12


def test_one_cluster_says_little() -> None:
    """A single task, however long, leaves the rate nearly open; an empty sample leaves it open."""
    found = rate([700], [1000])
    assert found.low < 0.05
    assert found.high > 0.99
    assert rate([], []).clusters == 0
    assert math.isnan(rate([0], [0]).value)


def test_a_spotless_record_is_not_certain() -> None:
    """All accepted in five tasks bounds the rate as five trials would, not as five hundred."""
    found = rate([100] * 5, [100] * 5)
    assert found.low == pytest.approx(0.025 ** (1 / 5))
    assert found.high == 1.0


@pytest.mark.parametrize("clusters", [2, 3, 5, 8, 12, 40])
@pytest.mark.parametrize(
    ("mean", "correlation", "floor"), [(0.5, 0.02, 0.93), (0.5, 0.3, 0.93), (0.8, 0.1, 0.92)]
)
def test_rates_of_clustered_trials_are_covered(
    clusters: int, mean: float, correlation: float, floor: float
) -> None:
    """The 95 % interval covers the expected, for 2 to 40 beta-binomial tasks of unequal length.

    400 samples: a true coverage of .95 falls below .92 with probability .004, below .93 with .04; the seed is fixed.
    """
    rng = np.random.default_rng(7)
    weight = (1 - correlation) / correlation
    inside = 0
    for _ in range(400):
        trials = rng.integers(3, 80, clusters)
        accepted = rng.binomial(trials, rng.beta(mean * weight, (1 - mean) * weight, clusters))
        found = rate(accepted, trials)
        inside += found.low <= mean <= found.high
    assert inside / 400 >= floor


def test_an_interval_that_ignores_the_clusters_would_fail() -> None:
    """The same samples with each trial its own cluster cover far less often: the clusters matter."""
    rng = np.random.default_rng(7)
    inside = 0
    for _ in range(200):
        trials = rng.integers(3, 80, 12)
        accepted = rng.binomial(trials, rng.beta(2.0, 2.0, 12))
        n, p = trials.sum(), accepted.sum() / trials.sum()
        inside += abs(p - 0.5) <= 1.96 * math.sqrt(p * (1 - p) / n)
    assert inside / 200 < 0.7


def test_the_jackknife_of_a_mean_is_its_t_interval() -> None:
    """For the geometric mean the delete-one jackknife gives the textbook t interval of the logs."""
    logs = np.random.default_rng(3).normal(0.2, 0.1, 10)
    value, low, high = log_jackknife(10, lambda use: math.exp(logs[use].mean()))
    reach = stats.t.ppf(0.975, 9) * logs.std(ddof=1) / math.sqrt(10)
    assert math.log(value) == pytest.approx(logs.mean())
    assert [math.log(low), math.log(high)] == pytest.approx([logs.mean() - reach, logs.mean() + reach])
    assert log_jackknife(1, lambda use: 2.0) == (2.0, 0.0, math.inf)
