"""Paired tests: reference values, the error rates that they promise, and what they do where there is little to count.

Simulations have a fixed seed; where one could fail by chance, the chance is said.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from draftverify.errors import ConfigError
from draftverify.stats import holm, paired_difference, paired_ratio, paired_shares, paired_total_ratio

RECORDED = Path(__file__).parents[2] / "examples" / "reasoning" / "solutions.jsonl"


def shares(both: int, base: int, other: int, neither: int) -> tuple[list[bool], list[bool]]:
    """Pairs by how many both, only `base`, only `other`, or neither solved."""
    first = [True] * (both + base) + [False] * (other + neither)
    second = [True] * both + [False] * base + [True] * other + [False] * neither
    return first, second


@pytest.mark.parametrize(
    ("counts", "p"),
    [
        ((1, 1, 7, 12), 0.0703125),
        ((59, 6, 16, 80), 0.052478790283203125),
        ((101, 121, 59, 33), 4.4344492637551645e-06),
        ((5, 0, 0, 5), 1.0),
    ],
)
def test_mcnemar_agrees_with_statsmodels(counts: tuple[int, ...], p: float) -> None:
    """What `mcnemar(table, exact=True)` of statsmodels 0.15.0 gave, and scipy's binomial test of who disagree."""
    found = paired_shares(*shares(*counts))
    assert found.p == pytest.approx(p, rel=1e-9)
    disagree = counts[1] + counts[2]
    assert found.p == pytest.approx(
        stats.binomtest(counts[1], disagree).pvalue if disagree else 1.0, rel=1e-9
    )
    assert (found.higher, found.lower, found.pairs) == (counts[2], counts[1], sum(counts))


def test_the_interval_of_two_shares_is_bonett_and_price_s() -> None:
    """The worked example of Fagerland, Lydersen and Laake (2014): (−.508, −.013), there with the signs turned."""
    found = paired_shares(*shares(1, 1, 7, 12))
    assert found.effect == pytest.approx(6 / 21)
    assert (found.low, found.high) == pytest.approx((0.0134, 0.5084), abs=5e-4)


def test_sides_that_never_disagree_still_have_an_interval() -> None:
    """Ten tasks that both solved do not show that the pipelines are the same."""
    found = paired_shares([True] * 10, [True] * 10)
    assert found.p == 1.0
    assert found.effect == 0.0
    assert found.low < -0.15
    assert found.high > 0.15


@pytest.mark.parametrize("n", [2, 9, 14])
def test_the_permutation_test_counts_all_ways_as_scipy_does(n: int) -> None:
    """Up to 14 pairs that differ; pairs that do not differ change nothing."""
    difference = np.random.default_rng(n).normal(0.4, 1.0, n)
    base = np.arange(n + 3.0)
    other = base + np.concatenate([difference, [0.0, 0.0, 0.0]])
    expected = stats.permutation_test(
        (other[:n] - base[:n],), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert paired_difference(base, other).p == pytest.approx(expected)


def test_one_pair_that_differs_shows_nothing() -> None:
    """Its two ways are each other's mirror image, whatever is compared."""
    assert paired_difference([1.0, 2.0], [1.0, 3.0]).p == 1.0
    assert paired_ratio([1.0], [2.0]).p == 1.0
    assert paired_total_ratio([1.0, 2.0], [1.0, 1.0], [1.0, 5.0], [1.0, 1.0]).p == 1.0


def test_ways_that_differ_by_rounding_alone_are_as_extreme() -> None:
    """In tenths 3 − 1 − 4 + 2 + 3 − 3 is 0, and so is every way as far from it or farther."""
    other = [0.3, -0.1, -0.4, 0.2, 0.3, -0.3]
    for scale in (1e-200, 1.0, 1e200):
        assert paired_difference([0.0] * 6, [scale * each for each in other]).p == 1.0


def test_many_pairs_are_drawn_and_agree_with_scipy_s_t_test() -> None:
    """9,999 draws: within four standard errors of the t test's p at 400 pairs, which is near exact there."""
    difference = np.random.default_rng(5).normal(0.08, 1.0, 400)
    found = paired_difference(np.zeros(400), difference)
    expected = stats.ttest_1samp(difference, 0.0).pvalue
    assert abs(found.p - expected) < 4 * math.sqrt(expected * (1 - expected) / 9_999) + 0.005
    low, high = stats.ttest_1samp(difference, 0.0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.02)


def test_a_ratio_is_geometric_and_has_scipy_s_t_interval() -> None:
    """Twice as slow here and twice as fast there is no difference."""
    assert paired_ratio([1.0, 1.0], [2.0, 0.5]).effect == pytest.approx(1.0)
    rng = np.random.default_rng(2)
    base, other = rng.lognormal(size=30), rng.lognormal(-0.2, size=30)
    found = paired_ratio(base, other)
    low, high = stats.ttest_rel(np.log(other), np.log(base)).confidence_interval()
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))


def test_what_a_solved_task_costs_counts_those_that_were_given_up() -> None:
    """Giving up fast does not make a solved task cheaper; changing places by hand gives the same p."""
    base = [4.0, 4.0, 4.0], [1.0, 1.0, 1.0]
    other = [1.0, 1.0, 4.0], [0.0, 0.0, 1.0]
    found = paired_total_ratio(*base, *other)
    assert (found.base, found.other, found.effect) == pytest.approx((4.0, 6.0, 1.5))
    # The third pair is the same on both sides; of the other two none, one (twice) or both change places.
    statistic = {0: math.log(6 / 4), 1: 0.0, 2: math.log(6 / 4)}
    extreme = sum(statistic[k] * (2 if k == 1 else 1) > 0 for k in statistic)
    assert found.p == pytest.approx(extreme / 4)


def test_a_way_in_which_a_side_solves_nothing_is_more_extreme() -> None:
    """Each side solves one task alone; in half of the ways one side solves both, and nothing is less extreme than 2."""
    found = paired_total_ratio([1.0, 1.0], [1.0, 0.0], [1.0, 3.0], [0.0, 1.0])
    assert (found.effect, found.p) == (pytest.approx(2.0), 1.0)


def test_holm_agrees_with_statsmodels() -> None:
    """multipletests([.01, .04, .03, .005], method="holm") of 0.15.0 gave this; what has no test is not counted."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    found = holm([0.02, math.nan, 0.9])
    assert found[0] == pytest.approx(0.04)
    assert math.isnan(found[1])
    assert holm([]) == []


@pytest.mark.parametrize(
    "call",
    [
        lambda: paired_shares([0.5], [1.0]),
        lambda: paired_difference([1.0], [1.0, 2.0]),
        lambda: paired_difference([1.0], [math.nan]),
        lambda: paired_ratio([0.0], [1.0]),
        lambda: paired_total_ratio([1.0], [1.0], [1.0], []),
    ],
)
def test_what_are_no_pairs_is_refused(call: object) -> None:
    """Lengths that differ, numbers that are none, shares that are no shares, ratios of nothing."""
    with pytest.raises(ConfigError):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("tested", [paired_shares, paired_difference, paired_ratio])
def test_no_pair_is_no_test(tested: object) -> None:
    """And no error either."""
    found = tested([], [])  # type: ignore[operator]
    assert found.pairs == 0
    assert math.isnan(found.p)


def test_the_error_rate_of_twelve_comparisons_is_what_holm_promises() -> None:
    """Tables of 12 comparisons between pipelines that differ in nothing: at most 5 of 100 say otherwise.

    40 tables; tasks differ in difficulty and the numbers are heavy-tailed. Were the rate .05, more than 7 would come up
    with probability .0007; without the correction about half of them would.
    """
    rng = np.random.default_rng(18)
    false = uncorrected = 0
    for _ in range(40):
        found = []
        for cell in range(12):
            if cell % 2:
                chance = rng.beta(0.6, 0.6, 40)
                found.append(paired_shares(*(rng.random((2, 40)) < chance)).p)
            else:
                level = rng.normal(size=12)
                sides = level + rng.standard_t(2, (2, 12))
                found.append(_p_alone(*sides))
        false += min(holm(found)) < 0.05
        uncorrected += min(found) < 0.05
    assert false <= 7
    assert uncorrected > 10


def _p_alone(base: np.ndarray, other: np.ndarray) -> float:
    """p of numbers: the ratio's is that of the logarithms, without the drawn interval that takes the time."""
    return paired_ratio(*np.exp(np.clip((base, other), -300.0, 300.0))).p


def test_the_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Of two shares, 40 tasks of uneven difficulty: 95 % of 2,000 intervals, at least 93.6 (below by chance: .002)."""
    rng = np.random.default_rng(7)
    easy = rng.beta(0.7, 0.7, 40)
    better = easy + (1 - easy) * 0.25
    expected = float((better - easy).mean())
    held = 0
    for _ in range(2000):
        found = paired_shares(rng.random(40) < easy, rng.random(40) < better)
        held += found.low <= expected <= found.high
    assert held >= 1872


def test_one_pipeline_against_itself_on_recorded_solutions() -> None:
    """Real recordings: two halves of one model's samples of each problem are said to differ in at most 5 of 100 ways.

    200 ways to split; what is compared is whether the first sample of a half is right, and the share of right ones.
    Were the rate .05, more than 21 would come up with probability .0005.
    """
    tasks = [json.loads(line)["solutions"] for line in RECORDED.read_text().splitlines()]
    right = [[bool(each["correct"]) for each in samples] for samples in tasks if len(samples) >= 4]
    assert len(right) >= 10
    rng = np.random.default_rng(3)
    false = [0, 0]
    for _ in range(200):
        halves = [np.array_split(rng.permutation(samples), 2) for samples in right]
        first = paired_shares([half[0][0] for half in halves], [half[1][0] for half in halves])
        share = _p_alone(*(np.array([half[side].mean() for half in halves]) for side in (0, 1)))
        false[0] += first.p < 0.05
        false[1] += share < 0.05
    assert max(false) <= 21
