"""The metrics that ship: an answer against what the task expects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from draftverify import ConfigError, Outcome, Task
from draftverify.checks.metrics import Contains, EqualAnswer, Numeric, RegexMatch


def said(metric: Any, expected: Any, value: Any, status: Any = "accepted") -> bool | None:
    found: bool | None = metric(
        Task(id="1", expected={metric.expected: expected}), Outcome(status=status, value=value)
    )
    return found


@pytest.mark.parametrize(
    ("expected", "value", "right"),
    [
        ("Paris", "Paris", True),
        ("Paris", " Paris\n", True),
        ("Paris", "paris", False),
        ("Paris", ("Pa", "ris"), True),  # a chain of texts is one text
        (42, "42", True),
        (42, 42, True),
        (42, (42,), True),  # a chain of one is its item
        (1, True, False),
        (True, "true", True),
        ({"age": 7}, '{"age": 7}', True),
        ({"age": 7}, '{"age": 8}', False),
        ({"age": 7}, "no JSON", False),
        ({"a": [1, {"b": True}]}, '{"a": [1.0, {"b": true}]}', True),
        ({"a": [1]}, '{"a": [true]}', False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": "x "}, '{"a": " x"}', True),
        ([1, 2], (1, 2), True),
        ([1, 2], (1,), False),
        (["a"], ["a"], True),
        (["a"], ('["a"]',), True),
        (5, "[" * 50_000, False),  # no JSON that can be read is a wrong answer, not a metric that failed
    ],
)
def test_exact(expected: Any, value: Any, right: bool) -> None:
    """Equal, but for white space around texts and JSON written as text."""
    assert said(EqualAnswer(), expected, value) is right


@pytest.mark.parametrize(
    ("expected", "value", "right"),
    [
        ("paris", "It is Paris.", True),
        (["Lyon", "Paris"], "It is Paris.", True),
        (["Lyon"], "It is Paris.", False),
        (("Lyon", "Paris"), "It is Paris.", True),
        (7, "room 7", True),
        ("é", ("caf", "é"), True),
    ],
)
def test_contains(expected: Any, value: Any, right: bool) -> None:
    """The expected, or one of several, stands in the answer; case does not count."""
    assert said(Contains(), expected, value) is right


@pytest.mark.parametrize(
    ("expected", "value", "tolerance", "right"),
    [
        (18, "She makes 9 * 2 = $18 a day.", 0, True),
        (18, "18 eggs, so 16 are left", 0, False),
        ("#### 1,234.5", "about 1234.50", 0, True),
        (-3, "x = -3", 0, True),
        (0.5, ".5", 0, True),
        (1e-7, "1e-7", 0, True),
        (3.14159, "3.14", 0.01, True),
        (3.14159, "3.14", 0, False),
        (18, "eighteen", 0, False),
        (18, 18, 0, True),
        (18, None, 0, False),
        (1234567891, "1234567890", 0, False),
        (10**12, str(10**12 + 500), 0, False),
        (10**12, str(10**12 + 500), 1000, True),
        (34, "(3,4)", 0, False),
        (2, "the points (1,2)", 0, True),
        (4, "between 3-4", 0, True),
        (31, "2020-12-31", 0, True),
        (9.8, "9.8 m/s^2", 0, True),
        (7, "x2 is 7", 0, True),
        (-3, "from 5 to -3", 0, True),
        (9e99, "1e400", 0, False),
        (1, "9" * 10_000, 0, False),
        (5, 10**400, 0, False),
        (0.3, "0.30", 0, True),
        (5, "x = −5", 0, False),  # the minus of print
        (-5, "x = −5", 0, True),
        (5, "1e999999999", 0, False),
        (5, "-1e999999999", 3, False),
        (np.float64(0.5), "0.5", 0, True),
        (np.int64(5), "5.05", np.float64(0.1), True),
    ],
)
def test_numeric(expected: Any, value: Any, tolerance: float, right: bool) -> None:
    """The last number of the answer, with commas left out, within the tolerance."""
    assert said(Numeric(tolerance=tolerance), expected, value) is right


def test_regex() -> None:
    """The expected is the pattern."""
    assert said(RegexMatch(), r"^\d{4}-\d\d$", "2026-11") is True
    assert said(RegexMatch(), r"^\d{4}-\d\d$", "Nov 2026") is False


def test_a_pattern_that_backtracks_without_end_says_nothing() -> None:
    """A hostile answer costs a second, and is neither right nor wrong."""
    with pytest.raises(TimeoutError):
        said(RegexMatch(), r"^(a|aa)+$", "a" * 60 + "c")


@pytest.mark.parametrize("metric", [EqualAnswer(), Contains(), Numeric(), RegexMatch()])
def test_giving_up_is_never_right_and_abstaining_only_without_an_answer(metric: Any) -> None:
    """An outcome that was not accepted is wrong, whatever it was left with; null says that there is no answer."""
    expected = "1"
    assert said(metric, expected, "1") is True
    assert said(metric, expected, "1", "refused") is False
    assert said(metric, expected, "1", "failed") is False
    assert said(metric, expected, None, "abstained") is False
    assert said(metric, None, None, "abstained") is True
    assert said(metric, None, "1") is False
    assert said(metric, None, "1", "refused") is False


@pytest.mark.parametrize("metric", [EqualAnswer(), Contains(), Numeric(), RegexMatch()])
def test_a_task_without_expected_has_no_score_and_one_without_the_field_is_an_error(metric: Any) -> None:
    """No truth at all: nothing to say. Another field: the message names what there is."""
    assert metric(Task(id="1"), Outcome(status="accepted", value="1")) is None
    with pytest.raises(ConfigError, match="other"):
        metric(Task(id="1", expected={"other": 1}), Outcome(status="accepted", value="1"))


@pytest.mark.parametrize("metric", [Contains(), RegexMatch()])
def test_an_empty_text_is_not_looked_for(metric: Any) -> None:
    """It stands in every answer, and is what a table has where nothing was filled in."""
    for expected in ("", ["Paris", ""]):
        with pytest.raises(ConfigError, match="stands in every answer"):
            metric.check_tasks([Task(id="1", expected={metric.expected: expected})])
    assert said(EqualAnswer(), "", " ") is True


def test_a_negative_tolerance_is_refused() -> None:
    """When it is made, not at every task."""
    with pytest.raises(ConfigError, match="0 or more"):
        Numeric(tolerance=-1)


def test_a_truth_without_a_number_is_an_error() -> None:
    """It is the task that is wrong, not the answer."""
    with pytest.raises(ConfigError, match="holds no number"):
        said(Numeric(), "none", "1")
