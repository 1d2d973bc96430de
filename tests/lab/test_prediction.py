"""Predicted and measured speed-ups."""

from __future__ import annotations

import math
import random

import pytest

from draftverify.errors import ConfigError
from draftverify.stats import Estimate, SpeedupPrediction, coverage, measured_ratio, predict
from draftverify.values import Decision, Outcome, Round, TaskRecord, Timing


def took(task: str, seconds: float, items: int = 10, group: str = "", status: str = "accepted") -> TaskRecord:
    rounds = tuple(
        Round(index=i, decision=Decision(emitted=(0,)), timing=Timing(passes=1)) for i in range(items)
    )
    outcome = Outcome(status=status, seconds=seconds)  # type: ignore[arg-type]
    return TaskRecord(task=task, outcome=outcome, rounds=rounds, group=group)


def test_the_measured_ratio_is_paired() -> None:
    """Tasks whose lengths differ tenfold but whose ratio is the same give that ratio with no width."""
    fast = [took(str(i), 1.0 * 2**i) for i in range(5)]
    slow = [took(str(i), 1.5 * 2**i) for i in range(5)]
    found = measured_ratio(fast, slow)
    assert (found.value, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5))
    assert found.clusters == 5


@pytest.mark.parametrize("status", ["refused", "abstained", "failed", "waiting"])
def test_giving_up_is_not_fast(status: str) -> None:
    """A task that one side did not finish is in no speed-up, however quickly it ended and whatever it emitted."""
    quick = [took("a", 0.1, items=10, status=status), took("b", 1.0)]
    assert measured_ratio(quick, [took("a", 10.0, items=1), took("b", 1.5)]).value == pytest.approx(1.5)
    assert math.isnan(measured_ratio(quick[:1], [took("a", 10.0)]).value)


def test_unpaired_tasks_and_repeats() -> None:
    """A task that only one side finished is left out, repeats of a task are one observation, one task has no bounds."""
    found = measured_ratio(
        [took("a", 1.0), took("a", 4.0), took("b", 9.0)], [took("a", 2.0), took("b", 1.0, status="failed")]
    )
    assert found.value == pytest.approx(1.0)
    assert (found.low, found.high, found.clusters) == (0.0, math.inf, 1)
    assert math.isnan(measured_ratio([took("a", 1.0)], [took("b", 1.0)]).value)


@pytest.mark.parametrize("per_group", [1, 2, 4])
def test_predictions_hold_as_often_as_they_say(per_group: int) -> None:
    """Five groups of one, two or four first tasks each, three new ones: intervals hold in at least 91 %.

    150 runs of 5 intervals. Within a run they share the pooled spread, so some 300 are independent: at a true coverage
    of .95 the share falls below .91 with probability .002.
    """
    draw = random.Random(per_group)
    inside = total = 0
    groups = [f"g{i}" for i in range(5)]
    for _ in range(150):
        records, plain, expected = [], [], {}
        for group in groups:
            centre = draw.gauss(0.3, 0.25)
            for i in range(per_group):
                seconds = draw.uniform(1, 9)
                plain.append(took(f"{group}/{i}", seconds, group=group))
                records.append(took(f"{group}/{i}", seconds / math.exp(draw.gauss(centre, 0.1)), group=group))
            expected[group] = math.exp(sum(draw.gauss(centre, 0.1) for _ in range(3)) / 3)
        found = predict(records, plain, dict.fromkeys(groups, 3))
        inside += sum(found[g].low <= expected[g] <= found[g].high for g in groups)
        total += 5
    assert inside / total >= 0.91


def test_more_new_tasks_narrow_a_prediction() -> None:
    """The interval is for the mean over the new tasks: wider for one than for many, and never a point."""
    records = [took(f"{g}{i}", 1.0 + 0.1 * i, group=g) for g in "ab" for i in range(3)]
    plain = [took(f"{g}{i}", 2.0, group=g) for g in "ab" for i in range(3)]
    found = predict(records, plain, {"a": 1, "b": 100})
    width = {g: math.log(found[g].high / found[g].low) for g in "ab"}
    assert width["a"] > 1.5 * width["b"] > 0.0
    assert found["a"].value == pytest.approx(found["b"].value)


def test_one_task_per_group_borrows_the_spread_between_groups() -> None:
    """Without repeats inside any group the interval says what stands in for them, and is wide."""
    records = [took(g, 1.0 + i, group=g) for i, g in enumerate("abc")]
    found = predict(records, [took(g, 3.0, group=g) for g in "abc"], {"a": 2})["a"]
    assert "spread between groups" in found.basis
    assert found.low < found.value / 3
    assert found.high > found.value * 3


def test_one_task_in_all_says_nothing_of_the_spread() -> None:
    """A single task gives a value and an open interval."""
    found = predict([took("a", 1.0, group="x")], [took("a", 2.0, group="x")], {"x": 3, "y": 3})
    assert found["x"].value == pytest.approx(2.0)
    assert (found["x"].low, found["x"].high) == (0.0, math.inf)
    assert (found["y"].low, found["y"].high) == (0.0, math.inf)


def test_an_unseen_group_is_predicted_from_the_others() -> None:
    """A group without tasks that predict takes all tasks' mean, at least as wide as any group's own."""
    records = [took(f"{g}{i}", (1.0 if g == "a" else 2.0) + 0.1 * i, group=g) for g in "ab" for i in range(3)]
    plain = [took(f"{g}{i}", 2.0, group=g) for g in "ab" for i in range(3)]
    found = predict(records, plain, {"a": 5, "c": 5})
    assert "no task of this group" in found["c"].basis
    assert found["c"].high / found["c"].low > found["a"].high / found["a"].low


def test_without_anything_to_compare_it_refuses() -> None:
    """Without a common task there is an error that says what to record."""
    with pytest.raises(ConfigError, match="record some with both"):
        predict([took("a", 1.0)], [took("b", 1.0)], {"": 1})


def test_coverage_counts_intervals_that_hold() -> None:
    """Of the groups with both a prediction and a measured value, how many lie inside; ends count as inside."""
    predictions = {g: SpeedupPrediction(1.0, 0.9, 1.1, "") for g in "abcd"}
    measured = {
        "a": Estimate(1.1, 1.0, 1.2, 5, 5),
        "b": Estimate(1.3, 1.2, 1.4, 5, 5),
        "c": Estimate(math.nan, 0.0, math.inf, 0, 0),
        "e": Estimate(1.0, 1.0, 1.0, 5, 5),
    }
    found = coverage(predictions, measured)
    assert (found.value, found.trials) == (0.5, 2)
