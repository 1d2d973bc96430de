"""ROC curves: by hand, and against the areas that are computed without them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError
from draftverify.stats.judgement import RocPoint, roc

items = st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 3)), min_size=1, max_size=40)


def area(points):
    """Under straight lines from point to point."""
    return float(np.trapezoid([each.true_pass for each in points], [each.false_pass for each in points]))


def test_two_tasks_by_hand():
    """Over all items a point for each score; within tasks the mean of a perfect curve and of one that knows nothing."""
    found = roc([3, 1, 2, 2], [1, 0, 1, 0], ["a", "a", "b", "b"])
    assert found.points == (
        RocPoint(0.0, 0.0),
        RocPoint(0.0, 0.5, 3.0),
        RocPoint(0.5, 1.0, 2.0),
        RocPoint(1.0, 1.0, 1.0),
    )
    assert found.within == (RocPoint(0.0, 0.0), RocPoint(0.0, 0.5), RocPoint(1.0, 1.0))


def chance(items):
    """That a right item scores more than a wrong one, by counting pairs; None without any."""
    won = [
        (one > other) + (one == other) / 2
        for one, good, task in items
        for other, bad, its in items
        if good and not bad and task == its
    ]
    return sum(won) / len(won) if won else None


@given(items)
def test_the_areas_are_the_chances_that_a_right_item_scores_more(items):
    """Of one task in the second; ties count half in both; without right and wrong items there is no curve."""
    scores, right, tasks = map(list, zip(*items, strict=True))
    found = roc(scores, right, tasks)
    for points, expected in (
        (found.points, chance([(score, good, 0) for score, good, _ in items])),
        (found.within, chance(items)),
    ):
        if expected is None:
            assert points == ()
        else:
            assert area(points) == pytest.approx(expected)
            assert (points[0], points[-1].false_pass, points[-1].true_pass) == (RocPoint(0.0, 0.0), 1.0, 1.0)


@given(items)
def test_a_point_is_what_passes_at_its_threshold(items):
    """F and T of the items that score so much or more."""
    for point in roc(*map(list, zip(*items, strict=True))).points[1:]:
        for share, of in ((point.false_pass, False), (point.true_pass, True)):
            passed = [score >= point.threshold for score, right, _ in items if right == of]
            assert share == pytest.approx(sum(passed) / len(passed))


def test_a_curve_of_many_scores_is_thinned():
    """101 points at most of all items, ends included; and steps at 101 values of F within tasks."""
    rng = np.random.default_rng(0)
    right = rng.random(3000) < 0.5
    scores = rng.normal(right * 1.0)
    found = roc(scores.tolist(), right.tolist(), rng.integers(0, 4, 3000).tolist())
    assert len(found.points) == 101
    assert len(found.within) <= 202
    for points in (found.points, found.within):
        assert area(points) == pytest.approx(0.76, abs=0.02)  # Φ(1/√2)
        assert (points[0], points[-1].true_pass) == (RocPoint(0.0, 0.0), 1.0)


def test_odd_scores_are_refused():
    """With what is wrong."""
    with pytest.raises(ConfigError, match="not a finite number"):
        roc([float("nan")], [True], ["a"])
    with pytest.raises(ConfigError, match="2 scores, 1 labels and 1 tasks"):
        roc([1.0, 2.0], [True], ["a"])
