"""Thresholds with a guarantee: rejecting costs as few right items as promised, and what labels can say at all."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError
from draftverify.calibration import Judged, beforehand, certified, certified_rejection, least_abstained
from tests.calibration.test_scores import population


def test_a_rejection_loses_more_than_promised_as_seldom_as_promised() -> None:
    """At 90 % confidence in at most 11 of 60 fits of 82 tasks (chance of more, at 10 %: 1 %); and on average it rejects
    at least half of what an oracle would."""
    fresh = population(4_000, 99)
    scores = np.array([each.score for each in fresh])
    right = np.sort(scores[[each.right for each in fresh]])
    best = float((scores < right[int(0.1 * len(right))]).mean())
    lost, shares = 0, []
    for seed in range(60):
        threshold, _ = certified_rejection(population(82, seed))
        assert threshold is not None
        lost += np.searchsorted(right, threshold) / len(right) > 0.1
        shares.append(float((scores < threshold).mean()))
    assert lost <= 11
    assert np.mean(shares) > best / 2


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


def whole(rng: np.random.Generator, tasks: int) -> tuple[list[int], list[int]]:
    """Right items and items of tasks of five: a tenth of the tasks are all wrong."""
    return [5 * int(rng.random() >= 0.1) for _ in range(tasks)], [5] * tasks


def large_ones_fail(rng: np.random.Generator, tasks: int) -> tuple[list[int], list[int]]:
    """Few tasks are ten times as large, and all wrong more often."""
    sizes = [10 if rng.random() < 0.2 else 1 for _ in range(tasks)]
    return [size * int(rng.random() >= (0.13 if size == 10 else 0.025)) for size in sizes], sizes


def seldom_whole(rng: np.random.Generator, tasks: int) -> tuple[list[int], list[int]]:
    """Single items are wrong often, and all five of a task seldom: few labels have seen that."""
    found = [0 if rng.random() < 0.04 else 5 - rng.binomial(5, 0.06 / 0.96) for _ in range(tasks)]
    return found, [5] * tasks


@pytest.mark.parametrize("population", [whole, large_ones_fail, seldom_whole])
def test_of_few_tasks_of_several_items_it_is_kept(population: Any) -> None:
    """Thirty tasks, nine in ten items right: certified in at most 48 of 300 draws (chance of more, at 10 %: .1 %)."""
    rng, certain = np.random.default_rng(5), 0
    for _ in range(300):
        right, sizes = population(rng, 30)
        items = [
            Judged(str(task), 1.0, place < right[task])
            for task, size in enumerate(sizes)
            for place in range(size)
        ]
        certain += certified(items)[0] is not None
    assert certain <= 48


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


@given(st.integers(2, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.1, 0.5]))
def test_of_the_items_at_hand_no_more_is_lost_than_may_be(tasks: int, seed: int, lost: float) -> None:
    """Whatever the items: the bound holds for them at least, the threshold is one of their scores, and the same items
    in another order give the same."""
    rng = np.random.default_rng(seed)
    each = int(rng.integers(1, 5))
    items = [
        Judged(str(i), float(rng.integers(6)), bool(rng.random() < 0.7))
        for i in range(tasks)
        for _ in range(each)
    ]
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
