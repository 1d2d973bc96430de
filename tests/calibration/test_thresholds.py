"""Thresholds with a guarantee: rejecting costs as few right items as promised, and what labels can say at all."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from draftverify import ConfigError
from draftverify.lab import Judged, beforehand, certified, certified_rejection, fit_scores, least_abstained
from draftverify.stats.intervals import binomial_cdf
from tests.calibration.test_scores import population


def test_a_rejection_loses_more_than_promised_as_seldom_as_promised() -> None:
    """At 90 % confidence in at most 11 of 60 fits of 400 tasks (chance of more, at 10 %: 1 %); and on average it
    rejects at least half of what an oracle would."""
    fresh = population(20_000, 99, each=1)
    scores = np.array([each.score for each in fresh])
    right = np.sort(scores[[each.right for each in fresh]])
    best = float((scores < right[int(0.1 * len(right))]).mean())
    lost, shares = 0, []
    for seed in range(60):
        threshold, _ = certified_rejection(population(400, seed, each=1))
        assert threshold is not None
        lost += np.searchsorted(right, threshold) / len(right) > 0.1
        shares.append(float((scores < threshold).mean()))
    assert lost <= 11
    assert np.mean(shares) > best / 2


@given(st.integers(1, 400), st.integers(0, 400), st.sampled_from([0.001, 0.01, 0.1, 0.5, 0.9]))
def test_the_tail_is_the_binomial_one(n: int, k: int, share: float) -> None:
    """SciPy's, to ten digits."""
    assert binomial_cdf(min(k, n), n, share) == pytest.approx(binom.cdf(min(k, n), n, share), rel=1e-10)


def test_two_wrong_of_three_hundred_do_not_certify_99_percent() -> None:
    """Their binomial tail is .422: at most that sure is it."""
    items = [Judged(str(task), 1.0, task >= 2) for task in range(300)]
    assert binomial_cdf(2, 300, 0.01) == pytest.approx(0.4221, abs=1e-4)
    for confidence, expected in ((0.9, None), (0.59, None), (0.57, 1.0)):
        assert certified(items, precision=0.99, confidence=confidence)[0] == expected


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_guarantee_outside_0_and_1_is_refused_by_name(value: float) -> None:
    """Neither a share nor a confidence can be that."""
    items = [Judged(str(task), 1.0, True) for task in range(300)]
    for name, certify in (
        ("precision", certified),
        ("confidence", certified),
        ("lost", certified_rejection),
        ("confidence", certified_rejection),
    ):
        with pytest.raises(ConfigError, match=f"{name} is {value}; it lies between 0 and 1"):
            certify(items, **{name: value})


def test_several_items_a_task_certify_nothing() -> None:
    """However many and however right; it is said what to do instead, and probabilities are fitted all the same."""
    items = [*(Judged(str(task), 1.0, True) for task in range(100)), Judged("7", 1.0, True)]
    for threshold, why in (certified(items), certified_rejection(items)):
        assert threshold is None
        assert "a task has 2 items" in why
        assert "--best" in why
        assert "a block of 1" in why
    made = fit_scores(items)
    assert (made.threshold, made.reject, made.items) == (None, None, 101)
    assert made.probability(1.0) > 0.9


@pytest.mark.parametrize("tasks", [22, 30, 40, 45, 60, 82, 120, 200])
def test_of_few_tasks_of_one_item_the_promise_is_exact(tasks: int) -> None:
    """By enumeration, no simulation: nine in ten are right, and the chance that more is certified is that of the
    binomial test at 10 %, and below it. Thresholds to reject below are tested alike."""
    chance, least = 0.0, tasks + 1
    for right in range(tasks, 0, -1):
        items = [Judged(str(task), 1.0, task < right) for task in range(tasks)]
        # Below score 1 lie as many right items as were wrong above.
        below = [Judged(str(task), float(task < right), True) for task in range(tasks)]
        held = certified(items)[0] is not None
        assert right == tasks or (certified_rejection(below)[0] == 1.0) == held
        if not held:
            break
        least = right
        chance += math.comb(tasks, right) * 0.9**right * 0.1 ** (tasks - right)
    assert chance <= 0.1
    one_more = math.comb(tasks, least - 1) * 0.9 ** (least - 1) * 0.1 ** (tasks - least + 1)
    assert chance + one_more > 0.1


def test_few_tasks_with_a_right_item_certify_no_rejection() -> None:
    """22 of which nothing is lost certify .1 at .9 (.9^22 < .1), 21 do not, however many others there are."""
    for tasks, expected in ((21, False), (22, True)):
        items = [Judged(str(i), 1.0, True) for i in range(tasks)]
        items += [Judged(f"none {i}", 0.0, False) for i in range(100)]
        threshold, why = certified_rejection(items)
        assert (threshold == 1.0) == expected, why
    assert "21 tasks with a right item" in certified_rejection(items[1:])[1]


def test_scores_that_say_nothing_reject_nothing() -> None:
    """A tenth of the right items would be gone with a tenth of all."""
    rng = np.random.default_rng(3)
    items = [Judged(str(i), float(rng.integers(3)), bool(rng.random() < 0.5)) for i in range(500)]
    threshold, why = certified_rejection(items)
    assert threshold is None
    assert "may have the lowest score" in why


@given(st.integers(2, 160), st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.1, 0.5]))
def test_of_the_items_at_hand_no_more_is_lost_than_may_be(tasks: int, seed: int, lost: float) -> None:
    """Whatever the items: the bound holds for them at least, the threshold is one of their scores, and the same items
    in another order give the same."""
    rng = np.random.default_rng(seed)
    items = [Judged(str(i), float(rng.integers(6)), bool(rng.random() < 0.7)) for i in range(tasks)]
    threshold, why = certified_rejection(items, lost=lost)
    mixed = [items[place] for place in rng.permutation(len(items))]
    assert certified_rejection(mixed, lost=lost) == (threshold, why)
    if threshold is not None:
        gone = [item for item in items if item.right and item.score < threshold]
        assert len(gone) <= lost * sum(item.right for item in items)
        assert threshold in [item.score for item in items]


def test_what_labels_can_certify_is_what_right_ones_do() -> None:
    """So many tasks as are needed certify a threshold when all are right, and one less never do."""
    for precision, confidence in product((0.6, 0.9, 0.99), (0.8, 0.999)):
        needed = beforehand(1, precision=precision, confidence=confidence).needed
        for tasks in (needed - 1, needed):
            able = beforehand(tasks, precision=precision, confidence=confidence)
            assert able.can_accept == (tasks == needed)
            assert able.can_accept == (able.best >= precision)
            if tasks > 1:
                items = [Judged(str(i), 1.0, True) for i in range(tasks)]
                found, _ = certified(items, precision=precision, confidence=confidence)
                assert (found is not None) == able.can_accept
    assert beforehand(0).best == 0.0


@given(st.integers(1, 60), st.integers(0, 60), st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_no_method_accepts_more_than_the_base_rate_lets_it(right: int, wrong: int, precision: float) -> None:
    """By enumeration: one that knows every answer takes all right items and as many wrong ones as the precision bears;
    it leaves as much as is said, but for less than an item."""
    items = right + wrong
    most = max(right + more for more in range(wrong + 1) if right >= precision * (right + more) - 1e-9)
    least = least_abstained(wrong / items, precision)
    assert 1 - most / items >= least - 1e-9
    assert 1 - (most + 1) / items < least + 1e-9 or most == items


@pytest.mark.parametrize("name", ["precision", "lost", "confidence"])
@pytest.mark.parametrize("value", [0.0, 1.0, math.nan])
def test_what_is_promised_lies_between_0_and_1(name: str, value: float) -> None:
    """Nothing is promised for certain."""
    with pytest.raises(ConfigError, match=name):
        beforehand(30, **{name: value})
