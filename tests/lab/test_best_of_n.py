"""The accuracy of the best-scored of n samples: exact, with bounds that hold, and silent beyond the n that was seen."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.best_of_n import best_of_n
from draftverify import ConfigError
from draftverify.stats import pass_at_k

POOL = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=5)


def by_counting(pool: Sequence[tuple[int, bool]], n: int) -> float:
    """The mean over all subsets of n, in all orders, of whether the first of the best-scored is right."""
    found = [
        max(order, key=lambda sample: sample[0])[1]
        for each in combinations(pool, n)
        for order in permutations(each)
    ]
    return float(np.mean(found))


@given(st.lists(POOL, min_size=1, max_size=3))
def test_it_is_the_mean_over_all_subsets(pools: list[list[tuple[int, bool]]]) -> None:
    """Order statistics give what counting every subset in every order gives, equal scores included."""
    curve = best_of_n([[s for s, _ in pool] for pool in pools], [[r for _, r in pool] for pool in pools])
    assert len(curve.accuracy) == min(map(len, pools))
    for n, found in enumerate(curve.accuracy, 1):
        assert found.value == pytest.approx(np.mean([by_counting(pool, n) for pool in pools]))
        assert -1e-12 <= found.low <= found.value + 1e-12
        assert found.value <= found.high + 1e-12


def test_the_ends_of_the_curve() -> None:
    """With one sample it is the share that is right; with all, whether the best-scored is."""
    curve = best_of_n([[1, 3, 2], [5, 4, 6]], [[1, 0, 1], [0, 0, 1]])
    assert curve.at(1).value == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert curve.at(3).value == pytest.approx((0 + 1) / 2)


def test_where_none_of_the_drawn_can_be_chosen_nothing_is_right() -> None:
    """A sample that cannot be chosen does not count, whatever it would have been."""
    curve = best_of_n([[-np.inf, 1.0, -np.inf]], [[1, 1, 1]])
    assert [each.value for each in curve.accuracy] == pytest.approx([1 / 3, 2 / 3, 1.0])


@given(st.lists(st.booleans(), min_size=3, max_size=8))
def test_a_perfect_score_gives_pass_at_n(right: list[bool]) -> None:
    """The best of n by an oracle is right whenever any of n is."""
    curve = best_of_n([[float(each) for each in right]], [right])
    for n, found in enumerate(curve.accuracy, 1):
        assert found.value == pytest.approx(pass_at_k(len(right), sum(right), n))


def test_only_the_order_of_scores_counts() -> None:
    """A rising function of the scores changes nothing; equal scores choose at random, at every n."""
    rng = np.random.default_rng(0)
    scores, right = rng.normal(size=(20, 6)), rng.random((20, 6)) < 0.5
    curve, other = (
        best_of_n(scores.tolist(), right.tolist()),
        best_of_n(np.exp(3 * scores).tolist(), right.tolist()),
    )
    assert curve == other
    flat = best_of_n(np.zeros((20, 6)).tolist(), right.tolist())
    assert {round(each.value, 9) for each in flat.accuracy} == {round(float(right.mean()), 9)}


def test_it_does_not_extrapolate() -> None:
    """What was not seen of every problem is refused."""
    curve = best_of_n([[1, 2, 3], [1, 2]], [[0, 1, 1], [0, 1]])
    assert curve.at(2).value == 1.0
    for n in (0, 3, 100):
        with pytest.raises(ConfigError, match=f"with {n} samples cannot be told from pools of 2"):
            curve.at(n)


def drawn(
    problems: int, samples: int, rng: np.random.Generator, fooled: float = 0.0
) -> tuple[list[list[float]], list[list[float]]]:
    """Pools of a tenth of hard problems and a score that is some use; of a share of them a wrong sample scores highest
    that is the rarer the larger the pool.
    """
    hard = rng.random(problems) < 0.1
    right = rng.random((problems, samples)) < np.where(hard, 0.4, 1.0)[:, None]
    scores = rng.normal(size=(problems, samples)) + right
    trap = (rng.random(problems) < fooled)[:, None] & (rng.random((problems, samples)) < 1 / samples)
    right &= ~trap
    return np.where(trap, 9.0, scores).tolist(), right.tolist()


def test_it_says_where_more_samples_stop_helping() -> None:
    """With many problems the first n whose remaining gain is below the margin is found; a wider margin comes sooner."""
    scores, right = drawn(2000, 6, np.random.default_rng(0))
    narrow, wide = (best_of_n(scores, right, margin=margin) for margin in (0.01, 0.05))
    assert narrow.hurts is None
    assert wide.enough is not None
    assert narrow.enough is not None
    assert wide.enough < narrow.enough < 6
    gains = [
        max(later.value - now.value for later in narrow.accuracy[n:])
        for n, now in enumerate(narrow.accuracy[:-1], 1)
    ]
    assert [each.value for each in narrow.gain] == pytest.approx(gains)
    assert narrow.gain[narrow.enough - 1].high < 0.01 <= narrow.gain[narrow.enough - 2].high


def test_it_says_where_more_samples_hurt() -> None:
    """A score that a rare wrong sample fools is worse with more samples, and the loss is certain where it is said."""
    curve = best_of_n(*drawn(1000, 6, np.random.default_rng(0), fooled=0.5))
    assert curve.hurts is not None
    assert curve.loss[curve.hurts - 1].low > 0
    assert curve.at(curve.hurts).value > curve.at(6).value


def test_few_problems_say_nothing() -> None:
    """Ten problems of which all are right do not show that the next would not gain."""
    curve = best_of_n([[1, 2]] * 10, [[1, 1]] * 10)
    assert (curve.enough, curve.hurts) == (None, None)
    assert curve.gain[0].value == 0
    assert curve.gain[0].high > 0.05
    one = best_of_n([[1, 2]], [[0, 1]])
    assert (one.enough, one.gain[0].high) == (None, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fooled", "problems", "sets"),
    [
        (0.05, 5_000, 20),
        *(pytest.param(fooled, 20_000, 50, marks=pytest.mark.exhaustive) for fooled in (0.0, 0.05)),
    ],
)
def test_the_bounds_hold(fooled: float, problems: int, sets: int) -> None:
    """Of sets of 100 problems hardly any has a bound that the truth (thousands of problems) breaks, whatever the n."""
    rng = np.random.default_rng(1)
    expected = best_of_n(*drawn(problems, 5, rng, fooled))
    broken = sum(
        any(
            not found.low - 1e-9 <= true.value <= found.high + 1e-9
            for found, true in zip((*set.gain, *set.loss), (*expected.gain, *expected.loss), strict=True)
        )
        for set in (best_of_n(*drawn(100, 5, rng, fooled)) for _ in range(sets))
    )
    assert broken <= sets / 10


@pytest.mark.parametrize(
    ("scores", "right", "margin", "message"),
    [
        ([], [], 0.01, "there are 0 pools"),
        ([[1]], [[1], [0]], 0.01, "there are 1 pools of scores and 2"),
        ([[1, 2]], [[1]], 0.01, "pool 0 should have a score and a right or wrong of each"),
        ([[1], []], [[1], []], 0.01, "pool 1 should have"),
        ([[float("nan")]], [[1]], 0.01, "pool 0 has a score that is NaN"),
        ([[1]], [[2]], 0.01, "said from 0 to 1"),
        ([[1]], [[1]], 0, "margin is 0"),
    ],
)
def test_wrong_pools_are_refused(
    scores: list[list[float]], right: list[list[float]], margin: float, message: str
) -> None:
    """The pool is named."""
    with pytest.raises(ConfigError, match=message):
        best_of_n(scores, right, margin=margin)


def test_a_sample_that_cannot_be_chosen() -> None:
    """−inf is chosen only where nothing else is drawn."""
    curve = best_of_n([[float("-inf"), 0.0]], [[0, 1]])
    assert [each.value for each in curve.accuracy] == [0.5, 1.0]
