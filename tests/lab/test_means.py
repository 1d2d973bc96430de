"""Means of what is measured per task, and their intervals."""

from __future__ import annotations

import math
import random

import pytest

from draftverify.stats import arithmetic_mean, geometric_mean
from draftverify.values import Outcome, TaskRecord


def values(*pairs: tuple[str, float]) -> list[tuple[TaskRecord, float]]:
    return [(TaskRecord(task=task, outcome=Outcome(status="accepted")), value) for task, value in pairs]


def test_half_and_double_are_no_change() -> None:
    """The geometric mean of 2 and ½ is 1, and its interval is even on the log scale."""
    found = geometric_mean(values(("a", 2.0), ("b", 0.5)))
    assert found.value == pytest.approx(1.0)
    assert found.low * found.high == pytest.approx(1.0)
    assert arithmetic_mean(values(("a", 2.0), ("b", 0.5))).value == pytest.approx(1.25)


def test_intervals_are_those_of_the_t_distribution() -> None:
    """By hand: mean 3, s 1, n 3, t 4.3027."""
    reach = 4.30265 / math.sqrt(3)
    found = arithmetic_mean(values(("a", 2.0), ("b", 3.0), ("c", 4.0)))
    assert (found.low, found.high) == (pytest.approx(3 - reach, abs=1e-4), pytest.approx(3 + reach, abs=1e-4))
    logs = geometric_mean(values(*[(task, math.exp(x)) for task, x in (("a", 2.0), ("b", 3.0), ("c", 4.0))]))
    assert (math.log(logs.low), math.log(logs.high)) == (pytest.approx(found.low), pytest.approx(found.high))


def test_a_task_counts_once() -> None:
    """Repeats of one task are one observation, and one task gives no bounds."""
    found = arithmetic_mean(values(*[("a", 1.0)] * 9, ("b", 3.0)))
    assert (found.value, found.trials, found.clusters) == (2.0, 10, 2)
    alone = geometric_mean(values(("a", 2.0), ("a", 2.0)))
    assert (alone.low, alone.high) == (0.0, math.inf)
    assert math.isnan(geometric_mean([]).value)
    assert math.isnan(arithmetic_mean([]).value)


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    """Speed-ups of 12 queries, log-normal: the true geometric mean lies in 95 % of the intervals."""
    rng = random.Random(3)
    hits = 0
    for _ in range(1000):
        found = geometric_mean(values(*[(str(i), math.exp(rng.gauss(0.3, 0.8))) for i in range(12)]))
        hits += found.low <= math.exp(0.3) <= found.high
    assert 930 <= hits <= 970
