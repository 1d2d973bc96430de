"""What a solved task costs, and speed-ups of that."""

from __future__ import annotations

import math
import random

import pytest

from draftverify.stats import cost_per_solved, precision, predict_solved, solved_rate, solved_ratio
from draftverify.values import Outcome, TaskRecord


def took(task: str, seconds: float, right: float, status: str = "accepted") -> tuple[TaskRecord, float]:
    group = task.partition("/")[0] if "/" in task else ""
    outcome = Outcome(status=status, seconds=seconds, cost=2 * seconds)  # type: ignore[arg-type]
    return TaskRecord(task=task, outcome=outcome, group=group), right


def test_solved_and_accepted_are_two_figures() -> None:
    """Of four tasks three are accepted, and two of those are right."""
    found = [took("a", 1, 1), took("b", 1, 1), took("c", 1, 0), took("d", 1, 0, "refused")]
    assert solved_rate(found).value == 0.5
    assert precision(found).value == pytest.approx(2 / 3)
    assert solved_rate(found).clusters == 4


def test_what_was_not_solved_is_paid_for_by_what_was() -> None:
    """All seconds over the solved tasks; cost alike; half a solved task is half a task."""
    found = [took("a", 3, 1), took("b", 5, 0, "refused")]
    assert cost_per_solved(found).value == 8
    assert cost_per_solved(found, lambda record: record.outcome.cost).value == 16
    assert cost_per_solved([took("a", 3, 0.5)]).value == 6
    assert math.isnan(cost_per_solved([took("a", 3, 0)]).value)
    assert math.isnan(cost_per_solved([]).value)


def test_giving_up_fast_is_no_speed_up() -> None:
    """A pipeline that solves nothing has no ratio; one that solves half at half the cost has the ratio 1."""
    base = [took(str(i), 10, 1) for i in range(6)]
    assert math.isnan(solved_ratio([took(str(i), 0.1, 0, "refused") for i in range(6)], base).value)
    half = [took(str(i), 5, float(i % 2)) for i in range(6)]
    assert solved_ratio(half, base).value == pytest.approx(1.0)
    assert solved_ratio(base, half).value == pytest.approx(1.0)


def test_only_common_tasks_count() -> None:
    """A task that one side has no score of is in neither sum."""
    found = solved_ratio([took("a", 1, 1), took("b", 100, 0)], [took("a", 2, 1), took("c", 100, 0)])
    assert (found.value, found.clusters) == (2.0, 1)


def draw(rng: random.Random, count: int, start: int = 0) -> tuple[list[tuple[TaskRecord, float]], ...]:
    """Tasks of the baseline (10 s, solved at .8) and of another pipeline (4 s, solved at .6): a ratio of 1.875."""
    own, base = [], []
    for i in range(start, start + count):
        hard = rng.uniform(0.5, 1.5)
        own.append(took(str(i), 4 * hard, float(rng.random() < 0.6)))
        base.append(took(str(i), 10 * hard, float(rng.random() < 0.8)))
    return own, base


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of 300 measured ratios of 40 tasks at least 91 % hold the true one; at 95 % that fails with probability .002."""
    rng = random.Random(5)
    inside = 0
    for _ in range(300):
        found = solved_ratio(*draw(rng, 40))
        inside += found.low <= 10 / 0.8 / (4 / 0.6) <= found.high
    assert inside / 300 >= 0.91


def test_predictions_hold_as_often_as_they_say() -> None:
    """From 20 first tasks to the ratio on 40 new ones, 300 times: at least 91 % inside (fails at .002)."""
    rng = random.Random(6)
    inside = 0
    for _ in range(300):
        said = predict_solved(*draw(rng, 20), {"": 40})[""]
        measured = solved_ratio(*draw(rng, 40, start=100)).value
        inside += said.low <= measured <= said.high
    assert inside / 300 >= 0.91


def test_a_group_that_tells_nothing_is_predicted_from_all_and_nothing_from_nothing() -> None:
    """A group whose first tasks were all missed takes the others' ratio; where none is solved nothing is said."""
    own = [took("x/1", 1, 1), took("x/2", 1, 1), took("y/1", 1, 0)]
    base = [took("x/1", 2, 1), took("x/2", 2, 1), took("y/1", 2, 1)]
    found = predict_solved(own, base, {"x": 3, "y": 3})
    assert found["x"].value == pytest.approx(2.0)
    assert "all groups" in found["y"].basis
    assert predict_solved([took("x/1", 1, 0)], [took("x/1", 1, 1)], {"x": 1}) == {}
