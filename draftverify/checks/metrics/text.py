"""Metrics that ship: an answer compared with a field of the task's truth.

Where the truth is null the task has no answer: then the outcome that abstained is right, and every other is wrong.
Where it is not, only an accepted outcome can be right: what a task was left with when it gave up is nobody's answer.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import regex

from draftverify.errors import ConfigError
from draftverify.values import Outcome, Task

__all__ = ["Contains", "Exact", "Numeric", "Regex"]


class AgainstTruth(ABC):
    """A metric that compares the answer with one field of the task's truth.

    Args:
        truth: the field of the task's truth.
    """

    def __init__(self, truth: str = "answer") -> None:
        self.truth = truth

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without truth, before any of them is paid for.

        Raises:
            ConfigError: no task has a truth, or one has a truth without the field.
        """
        if tasks and not any(task.truth for task in tasks):
            raise ConfigError(
                "no task has a truth to compare with; say in `tasks` where it stands (truth: …)"
            )
        for task in tasks:
            if task.truth:
                self._truth_of(task)

    def __call__(self, task: Task, outcome: Outcome) -> bool | None:
        """Whether the outcome is right; None for a task without truth.

        Raises:
            ConfigError: its truth has no such field.
        """
        if not task.truth:
            return None
        truth = self._truth_of(task)
        if truth is None:
            return outcome.status == "abstained"
        return outcome.status == "accepted" and self.holds(truth, outcome.value)

    def _truth_of(self, task: Task) -> Any:
        if self.truth not in task.truth:
            there = ", ".join(map(str, task.truth))
            raise ConfigError(
                f"the truth of task {task.id!r} has no {self.truth!r}; there is {there}", path="truth"
            )
        return task.truth[self.truth]

    @abstractmethod
    def holds(self, truth: Any, value: Any) -> bool:
        """Whether an accepted answer is right, of a truth that is not null."""


class Exact(AgainstTruth):
    """Whether the answer is the truth.

    White space around texts does not count, nor the order of a mapping's keys; 1 and 1.0 are one number, and true is
    none. Where the truth is no text, an answer that is one is read as JSON.

    Args:
        truth: the field of the task's truth.

    Examples:
        >>> exact = Exact("answer")
        >>> exact(Task(id="1", truth={"answer": {"age": 7}}), Outcome(status="accepted", value='{"age": 7}'))
        True
    """

    def holds(self, truth: Any, value: Any) -> bool:
        """Whether they are equal."""
        return _equal(truth, value)


class Contains(AgainstTruth):
    """Whether the truth stands in the answer, or one of them where it is a list. Upper and lower case are one.

    Args:
        truth: the field of the task's truth: a text or several.
    """

    def holds(self, truth: Any, value: Any) -> bool:
        """Whether one stands in it."""
        text = as_text(value).casefold()
        return any(
            as_text(each).casefold() in text for each in (truth if isinstance(truth, list) else [truth])
        )


NUMBER = re.compile(r"(?<![\w.^])[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
"""A number in a text: with commas between thousands or without; no part of a word, and no exponent."""


class Numeric(AgainstTruth):
    """Whether the last number in the answer is the truth. Commas between digits are left out: 1,234.5 is 1234.5.

    Args:
        truth: the field of the task's truth: a number, or a text whose last number it is.
        tolerance: how far the answer may be from it, 0 or more.

    Raises:
        ConfigError: `tolerance` is negative.

    Examples:
        >>> task = Task(id="1", truth={"answer": "#### 1,200"})
        >>> Numeric("answer")(task, Outcome(status="accepted", value="So she pays 1200 dollars."))
        True
    """

    def __init__(self, truth: str = "answer", tolerance: float = 0.0) -> None:
        super().__init__(truth)
        if not tolerance >= 0:
            raise ConfigError(f"tolerance is {tolerance}; 0 or more is needed", path="tolerance")
        self.tolerance = tolerance

    def holds(self, truth: Any, value: Any) -> bool:
        """Whether the numbers are near enough.

        Raises:
            ConfigError: there is no number in the truth.
        """
        want, got = last_number(truth), last_number(value)
        if want is None:
            raise ConfigError(f"the truth {truth!r} holds no number", path=self.truth)
        return got is not None and (got == want or abs(got - want) <= Decimal(repr(self.tolerance)))


class Regex(AgainstTruth):
    """Whether the truth, a regular expression, is found in the answer; a search of more than a second says nothing.

    Args:
        truth: the field of the task's truth.
    """

    def __init__(self, truth: str = "pattern") -> None:
        super().__init__(truth)

    def holds(self, truth: Any, value: Any) -> bool:
        """Whether it is found.

        Raises:
            regex.error: the truth is no regular expression. TimeoutError: it backtracks without end.
        """
        return regex.search(truth, as_text(value), timeout=1.0) is not None


def last_number(value: Any) -> Decimal | None:
    """The last number in a text, exactly; a number as it is; None without any."""
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    try:
        found = [repr(value)] if numeric else NUMBER.findall(as_text(value))
        number = Decimal(found[-1].replace(",", "")) if found else None
    except (ArithmeticError, ValueError):  # of more digits than can be read
        return None
    return number if number is not None and number.is_finite() else None


def as_text(value: Any) -> str:
    """An answer as text: of a chain of texts their concatenation, of what is no text its JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, str) for each in value):
        return "".join(value)
    return json.dumps(value, ensure_ascii=False)


def _equal(truth: Any, value: Any) -> bool:
    if isinstance(truth, str):
        return _same(truth, as_text(value))
    values = [value]
    if isinstance(value, (list, tuple)) and len(value) == 1:
        values.extend(value)  # a chain of one is its item
    for each in values:
        with suppress(ValueError, RecursionError):
            if _same(truth, json.loads(each) if isinstance(each, str) else each):
                return True
    return False


def _same(truth: Any, value: Any) -> bool:
    """Whether two JSON values are one: mappings in any order, 1 and 1.0, texts but for space around; true is not 1."""
    if isinstance(truth, Mapping) and isinstance(value, Mapping):
        return truth.keys() == value.keys() and all(_same(each, value[key]) for key, each in truth.items())
    if isinstance(truth, (list, tuple)) and isinstance(value, (list, tuple)):
        return len(truth) == len(value) and all(map(_same, truth, value))
    if isinstance(truth, str) and isinstance(value, str):
        return truth.strip() == value.strip()
    return bool(truth == value) and isinstance(truth, bool) == isinstance(value, bool)
