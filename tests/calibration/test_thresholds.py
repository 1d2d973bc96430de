"""The threshold with a guarantee: the exact binomial test, and what labels can say at all."""

from __future__ import annotations

import math
from itertools import product

import pytest

from draftverify import ConfigError
from draftverify.lab import LabelledScore, certified, fit_scores, tasks_needed
from draftverify.stats.intervals import binomial_cdf


def test_two_wrong_of_three_hundred_do_not_certify_99_percent() -> None:
    """Their binomial tail is .422: at most that sure is it."""
    items = [LabelledScore(str(task), 1.0, task >= 2) for task in range(300)]
    assert binomial_cdf(2, 300, 0.01) == pytest.approx(0.4221, abs=1e-4)
    for confidence, expected in ((0.9, None), (0.59, None), (0.57, 1.0)):
        assert certified(items, precision=0.99, confidence=confidence)[0] == expected


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_guarantee_outside_0_and_1_is_refused_by_name(value: float) -> None:
    """Neither a share nor a confidence can be that."""
    items = [LabelledScore(str(task), 1.0, True) for task in range(300)]
    for name in ("precision", "confidence"):
        with pytest.raises(ConfigError, match=f"{name} is {value}; it lies between 0 and 1"):
            certified(items, **{name: value})


def test_several_items_a_task_certify_nothing() -> None:
    """However many and however right; it is said what to do instead, and probabilities are fitted all the same."""
    items = [*(LabelledScore(str(task), 1.0, True) for task in range(100)), LabelledScore("7", 1.0, True)]
    threshold, why = certified(items)
    assert threshold is None
    assert "a task has 2 items" in why
    assert "--best" in why
    assert "a block of 1" in why
    made = fit_scores(items)
    assert (made.threshold, made.items) == (None, 101)
    assert made.probability(1.0) > 0.9


@pytest.mark.parametrize("tasks", [22, 30, 40, 45, 60, 82, 120, 200])
def test_of_few_tasks_of_one_item_the_promise_is_exact(tasks: int) -> None:
    """By enumeration, no simulation: nine in ten are right, and the chance that more is certified is that of the
    binomial test at 10 %, and below it."""
    chance, least = 0.0, tasks + 1
    for right in range(tasks, 0, -1):
        items = [LabelledScore(str(task), 1.0, task < right) for task in range(tasks)]
        if certified(items)[0] is None:
            break
        least = right
        chance += math.comb(tasks, right) * 0.9**right * 0.1 ** (tasks - right)
    assert chance <= 0.1
    one_more = math.comb(tasks, least - 1) * 0.9 ** (least - 1) * 0.1 ** (tasks - least + 1)
    assert chance + one_more > 0.1


def test_as_many_tasks_as_are_needed_certify_when_all_are_right() -> None:
    """And one less never does."""
    for precision, confidence in product((0.6, 0.9, 0.99), (0.8, 0.999)):
        needed = tasks_needed(precision, confidence)
        for tasks in (needed - 1, needed):
            if tasks > 1:
                items = [LabelledScore(str(i), 1.0, True) for i in range(tasks)]
                threshold, _ = certified(items, precision=precision, confidence=confidence)
                assert (threshold is not None) == (tasks == needed)
