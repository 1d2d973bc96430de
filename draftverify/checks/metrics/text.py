"""Metrics that ship: an answer compared with a field of what the task expects.

Where null is expected the task has no answer: then the outcome that abstained is right, and every other is wrong.
Where it is not, only an accepted outcome can be right: what a task was left with when it gave up is nobody's answer.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar

import regex

from draftverify.checks.equality import differences
from draftverify.errors import ConfigError
from draftverify.values import Outcome, Task


class AgainstTruth(ABC):
    """A metric that compares the answer with one field of what the task expects.

    Args:
        expected: the field of what the task expects.
    """

    looks_inside: ClassVar[bool] = False
    """Whether what is expected is looked for in the answer; the empty text stands in each."""

    def __init__(self, expected: str = "answer") -> None:
        self.expected = expected

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without expectation, before any of them is paid for.

        Raises:
            ConfigError: no task expects anything, or one has not the field.
        """
        if tasks and not any(task.expected for task in tasks):
            raise ConfigError(
                "no task expects anything to compare with; say in `tasks` in which field it stands: "
                f"expected: {{{self.expected}: FIELD}}"
            )
        for task in tasks:
            if task.expected:
                self._expected_of(task)

    def __call__(self, task: Task, outcome: Outcome) -> bool | None:
        """Whether the outcome is right; None for a task without expectation.

        Raises:
            ConfigError: what it expects has no such field, or is an empty text that is looked for.
        """
        if not task.expected:
            return None
        expected = self._expected_of(task)
        if expected is None:
            return outcome.status == "abstained"
        return outcome.status == "accepted" and self.holds(expected, outcome.value)

    def _expected_of(self, task: Task) -> Any:
        if self.expected not in task.expected:
            names = ", ".join(map(str, task.expected))
            raise ConfigError(
                f"what is expected of task {task.id!r} has no {self.expected!r}; there is {names}",
                path="expected",
            )
        expected = task.expected[self.expected]
        if self.looks_inside and "" in (expected if isinstance(expected, (list, tuple)) else [expected]):
            raise ConfigError(
                f"what is expected of task {task.id!r} is an empty text, which stands in every answer; expect null "
                "where there is no answer",
                path="expected",
            )
        return expected

    @abstractmethod
    def holds(self, expected: Any, value: Any) -> bool:
        """Whether an accepted answer is right, by what is expected, which is not null."""


class EqualAnswer(AgainstTruth):
    """Whether the answer is what is expected.

    White space around texts does not count, nor the order of a mapping's keys; 1 and 1.0 are one number, and true is
    none. Where no text is expected, an answer that is one is read as JSON.

    Args:
        expected: the field of what the task expects.

    Examples:
        >>> exact = EqualAnswer("answer")
        >>> exact(
        ...     Task(id="1", expected={"answer": {"age": 7}}), Outcome(status="accepted", value='{"age": 7}')
        ... )
        True
    """

    def holds(self, expected: Any, value: Any) -> bool:
        """Whether the answer equals the expected value."""
        return _equal(expected, value)


class Contains(AgainstTruth):
    """Whether what is expected stands in the answer, or one of them where it is a list. Upper and lower case are one.

    Args:
        expected: the field of what the task expects: a text or several.
    """

    looks_inside = True

    def holds(self, expected: Any, value: Any) -> bool:
        """Whether the answer holds one of the expected texts."""
        text = as_text(value).casefold()
        return any(
            as_text(text_part).casefold() in text
            for text_part in (expected if isinstance(expected, (list, tuple)) else [expected])
        )


NUMBER = re.compile(r"(?<![\w.^])[-+−]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
"""A number in a text: with commas between thousands or without; no part of a word, and no exponent. The sign may be
the minus of print."""


class Numeric(AgainstTruth):
    """Whether the last number in the answer is what is expected. Commas between digits are left out: 1,234.5 is 1234.5.

    Args:
        expected: the field of what the task expects: a number, or a text whose last number it is.
        tolerance: how far the answer may be from it, 0 or more.

    Raises:
        ConfigError: `tolerance` is negative.

    Examples:
        >>> task = Task(id="1", expected={"answer": "#### 1,200"})
        >>> Numeric("answer")(task, Outcome(status="accepted", value="So she pays 1200 dollars."))
        True
    """

    def __init__(self, expected: str = "answer", tolerance: float = 0.0) -> None:
        super().__init__(expected)
        if not tolerance >= 0:
            raise ConfigError(f"tolerance is {tolerance}; 0 or more is needed", path="tolerance")
        self.tolerance = tolerance

    def holds(self, expected: Any, value: Any) -> bool:
        """Whether the numbers are near enough.

        Raises:
            ConfigError: there is no number in what is expected.
        """
        want, got = last_number(expected), last_number(value)
        if want is None:
            raise ConfigError(f"{expected!r}, which is expected, holds no number", path=self.expected)
        reach = Decimal(str(self.tolerance))  # nothing is made of the answer, whose exponent may be any
        return got is not None and (got == want or (reach > 0 and want - reach <= got <= want + reach))


class RegexMatch(AgainstTruth):
    """Whether the expected, a regular expression, is found in the answer; a search of more than a second says nothing.

    Args:
        expected: the field of what the task expects.
    """

    looks_inside = True

    def __init__(self, expected: str = "pattern") -> None:
        super().__init__(expected)

    def holds(self, expected: Any, value: Any) -> bool:
        """Whether the expression is found in the answer.

        Raises:
            regex.error: what is expected is no regular expression. TimeoutError: it backtracks without end.
        """
        return regex.search(expected, as_text(value), timeout=1.0) is not None


def last_number(value: Any) -> Decimal | None:
    """The last number in a text, exactly; a number as it is; None without any."""
    numeric = isinstance(value, Real) and not isinstance(value, bool)
    try:
        digits = [str(value)] if numeric else NUMBER.findall(as_text(value))
        number = Decimal(digits[-1].replace(",", "").replace("−", "-")) if digits else None
    except (ArithmeticError, ValueError):  # of more digits than can be read
        return None
    return number if number is not None and number.is_finite() else None


def as_text(value: Any) -> str:
    """An answer as text: of a chain of texts their concatenation, of what is no text its JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, str) for item in value):
        return "".join(value)
    return json.dumps(value, ensure_ascii=False)


def _equal(expected: Any, value: Any) -> bool:
    if isinstance(expected, str):
        return _is_same(expected, as_text(value))
    values = [value]
    if isinstance(value, (list, tuple)) and len(value) == 1:
        values.extend(value)  # a chain of one is its item
    for candidate in values:
        with suppress(ValueError, RecursionError):
            if _is_same(expected, json.loads(candidate) if isinstance(candidate, str) else candidate):
                return True
    return False


def _is_same(expected: Any, value: Any) -> bool:
    return next(differences(expected, value), None) is None
