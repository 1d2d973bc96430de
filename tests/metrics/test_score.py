"""What a metric says is read before anybody counts with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from draftverify import ConfigError, Outcome, Task
from draftverify.checks.metrics import Score, check_metrics, score
from draftverify.secret import Secret

OUTCOME = Outcome(status="accepted", value="x")


@pytest.mark.parametrize(
    ("says", "value"),
    [(True, 1.0), (False, 0.0), (0.25, 0.25), (1, 1.0), (np.bool_(True), 1.0), (None, None)],
)
def test_truth_values_shares_and_nothing(says: Any, value: float | None) -> None:
    """True, False, 0 to 1, and None for no say."""
    assert score(lambda task, outcome: says, Task(id="1"), OUTCOME) == Score(value)


@pytest.mark.parametrize("says", [2, -0.5, float("nan"), "yes", [True], object()])
def test_another_word_is_a_problem_and_no_score(says: Any) -> None:
    """It counts for nothing, and the problem shows what came."""
    found = score(lambda task, outcome: says, Task(id="1"), OUTCOME)
    assert found.value is None
    assert "a metric says" in found.problem


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_a_metric_that_raises_has_not_said_wrong(error: type[BaseException]) -> None:
    """The failure is kept in words, and ends nothing else."""

    def broken(task: Task, outcome: Outcome) -> bool:
        raise error("answer")

    found = score(broken, Task(id="1"), OUTCOME)
    assert found.value is None
    assert error.__name__ in found.problem


@pytest.mark.parametrize("before", ["", "x" * 100])
def test_what_came_is_shown_without_secrets(before: str) -> None:
    """Also where it is cut in the middle of one."""
    Secret("judge-key-" + "0123456789" * 6)
    said = before + "judge-key-" + "0123456789" * 6
    found = score(lambda task, outcome: said, Task(id="1"), OUTCOME)
    assert "judge-key" not in found.problem


class Saved:
    """A measure that says what it is told to."""

    def __init__(self, says: Any, unit: Any = "s", mean: str | None = None) -> None:
        self.says = says
        self.unit = unit
        if mean is not None:
            self.mean = mean

    def __call__(self, task: Task, outcome: Outcome) -> Any:
        return self.says


@pytest.mark.parametrize("says", [-3.5, 0, 17, np.float32(2.5), None])
def test_a_measure_says_any_finite_number(says: Any) -> None:
    """One with a unit is not held to 0 and 1."""
    assert score(Saved(says), Task(id="1"), OUTCOME) == Score(says)


@pytest.mark.parametrize(
    ("says", "mean"), [(math.inf, None), (math.nan, None), ("3", None), (0.0, "geometric"), (-1, "geometric")]
)
def test_what_has_no_mean_is_a_problem(says: Any, mean: str | None) -> None:
    """No infinity, and nothing at or below 0 where the mean is geometric."""
    found = score(Saved(says, mean=mean), Task(id="1"), OUTCOME)
    assert found.value is None
    assert "a metric says" in found.problem


@pytest.mark.parametrize("broken", [Saved(1, unit=3), Saved(1, unit="\x1b[31m"), Saved(1, mean="harmonic")])
def test_a_measure_says_its_unit_and_mean_in_known_words(broken: Saved) -> None:
    """Refused before any task runs, by the metric's name."""
    with pytest.raises(ConfigError, match=r"metrics\.saved"):
        check_metrics({"saved": broken}, [])


def test_a_metric_may_say_what_it_cost_and_what_to_keep():
    """Its value is read as any other's; a secret is struck out of its problem, and notes are copied."""
    key = Secret("sk-0123456789abcdef")
    said = Score(1, cost=0.5, notes={"asked": [1, "x"]})
    found = score(lambda task, outcome: said, Task(id="1"), OUTCOME)
    assert found == Score(1.0, cost=0.5, notes={"asked": [1, "x"]})
    failed = score(lambda task, outcome: Score(None, f"no verdict: {key}", 0.5), Task(id="1"), OUTCOME)
    assert failed == Score(None, "no verdict: ***", 0.5)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (Score(2.0), "this came: 2.0"),
        (Score("right"), "this came: 'right'"),
        (Score(1.0, cost=float("nan")), "the cost of a score is a finite number"),
        (Score(1.0, notes={"x": object()}), "the notes of a score.x: a value of type builtins.object"),
        (Score(1.0, notes=[1]), "the notes of a score came as"),
        (Score(1.0, problem=7), "TypeError"),
    ],
)
def test_a_score_that_cannot_be_kept_is_a_failure(said, problem):
    """It is said with what came, and is no value."""
    found = score(lambda task, outcome: said, Task(id="1"), OUTCOME)
    assert found.value is None
    assert problem in found.problem
