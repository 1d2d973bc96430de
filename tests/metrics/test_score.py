"""What a metric says is read before anybody counts with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from draftverify import Outcome, Task
from draftverify.metrics import Score, score
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
