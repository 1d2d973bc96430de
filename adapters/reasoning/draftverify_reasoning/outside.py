"""Checkers that rest on no model's word: the scorer of the dataset a problem is of, and an answer that is known.

The metrics of the same names say of an outcome what the verifiers say of an item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftverify import (
    PASS,
    Check,
    ConfigError,
    Context,
    ContractError,
    Outcome,
    Proposal,
    Task,
    Verification,
)
from draftverify.traits import VerifierTraits
from draftverify_reasoning.answered import NO_ANSWER
from draftverify_reasoning.answers import Form, same
from draftverify_reasoning.checking import check_solutions
from draftverify_reasoning.gym import UnreadableAnswer, entry_of, score_answer
from draftverify_reasoning.solutions import answer_of, spelled_answer


@dataclass(eq=False)
class GymScorer:
    """Passes solutions to which the scorer of the task's own reasoning-gym dataset gives at least the threshold.

    The check's score is the scorer's, 0 to 1. A solution without an answer is rejected ("no answer"), and so is one
    whose answer the scorer cannot read ("unreadable answer"); a scorer that breaks altogether is an error.

    Args:
        threshold: the lowest score that passes. Most scorers give something to answers that are nearly right.
        form: how the answer is found in a text that does not come with one, as of `extract`; answers of several lines,
            as grids are, need "tag".
    """

    traits = VerifierTraits(provides={"verdicts", "scores"}, reads=frozenset(), thresholds=("threshold",))

    threshold: float = 1.0
    form: Form = "auto"

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per solution.

        Raises:
            ContractError: the task is none of reasoning-gym's.
            ConfigError, ResourceError: its dataset cannot be made.
        """
        entry_of(context.task)
        return check_solutions(proposal, lambda item: self._check(context.task, item))

    def _check(self, task: Task, item: Any) -> Check:
        answer = spelled_answer(item, self.form)
        if answer is None:
            return Check("reject", 0.0, NO_ANSWER.reason, NO_ANSWER.feedback)
        try:
            score = score_answer(task, answer)
        except UnreadableAnswer as error:
            return Check("reject", 0.0, "unreadable answer", f"the answer cannot be read: {error}")
        return self._scored(score, answer)

    def _scored(self, score: float, answer: str) -> Check:
        if score >= self.threshold:
            return Check("pass", score)
        return Check("reject", score, "wrong answer", f"the answer {answer!r:.200} is wrong")

    def rejudged(self, context: Context, proposal: Proposal, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        """What it says at its threshold of a block that was scored at another."""
        verdicts = list(checks)
        for index, (item, check) in enumerate(zip(proposal.items, checks, strict=True)):
            answer = spelled_answer(item, self.form)
            if answer is not None and check.score is not None and check.reason in ("", "wrong answer"):
                verdicts[index] = self._scored(check.score, answer)
        return tuple(verdicts)


@dataclass(eq=False)
class KnownAnswer:
    """Passes solutions whose answer is the one that stands in the task's input, by value or as plain text.

    The feedback says that an answer is wrong, never what is right.

    Args:
        field: of the task's input: a text or a number.
        form: how the answer is found in a text that does not come with one, as of `extract`.
    """

    traits = VerifierTraits(reads=frozenset())

    field: str
    form: Form = "auto"

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per solution.

        Raises:
            ConfigError: the task has no such field, or it holds no answer.
        """
        expected = _answer(context.task.input, self.field, f"task {context.task.id}")
        return check_solutions(proposal, lambda item: self._check(expected, item))

    def _check(self, expected: str, item: Any) -> Check:
        answer = answer_of(item, self.form)
        if answer is None:
            return NO_ANSWER
        if same(answer, expected):
            return PASS
        return Check("reject", reason="wrong answer", feedback=f"the answer {answer!r:.200} is wrong")


@dataclass(eq=False)
class AnswerMatches:
    """Whether the accepted solution's answer is that of what the task expects, by value or as plain text.

    Where null is expected the task has no answer: then the outcome that abstained is right. A task that
    expects nothing is in no figure.

    Args:
        expected: the field of what the task expects.
        form: how the answer is found in a text that does not come with one, as of `extract`.
    """

    expected: str = "answer"
    form: Form = "auto"

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without expectation, before any of them is paid for.

        Raises:
            ConfigError: no task has an expectation, or one's has no such field.
        """
        if tasks and not any(task.expected for task in tasks):
            raise ConfigError("no task has a truth to compare with; say in `tasks` where its answer stands")
        for task in tasks:
            if task.expected and task.expected.get(self.expected, 0) is not None:
                _answer(task.expected, self.expected, f"what is expected of task {task.id}")

    def __call__(self, task: Task, outcome: Outcome) -> bool | None:
        """Whether it is right; None for a task without expectation."""
        if not task.expected:
            return None
        if task.expected.get(self.expected, 0) is None:
            return outcome.status == "abstained"
        expected = _answer(task.expected, self.expected, f"what is expected of task {task.id}")
        if outcome.status != "accepted":
            return False
        answer = answer_of(_whole(outcome.value), self.form)
        return answer is not None and same(answer, expected)


@dataclass(eq=False)
class GymSolved:
    """Whether the scorer of the task's reasoning-gym dataset gives the accepted solution at least the threshold.

    It reads the task's `gym`, and needs no truth.

    Args:
        threshold: the lowest score that counts as solved.
        form: how the answer is found in a text that does not come with one, as of `extract`.
    """

    threshold: float = 1.0
    form: Form = "auto"

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks of another kind, before any of them is paid for.

        Raises:
            ConfigError: a task is none of reasoning-gym's.
        """
        for task in tasks:
            try:
                entry_of(task)
            except ContractError as error:
                raise ConfigError(str(error)) from error

    def __call__(self, task: Task, outcome: Outcome) -> bool:
        """Whether it is solved."""
        answer = spelled_answer(_whole(outcome.value), self.form) if outcome.status == "accepted" else None
        if answer is None:
            return False
        try:
            return score_answer(task, answer) >= self.threshold
        except UnreadableAnswer:
            return False


def _whole(value: Any) -> Any:
    """A chain of one solution is that solution."""
    single = isinstance(value, (list, tuple)) and len(value) == 1 and isinstance(value[0], Mapping)
    return value[0] if single else value


def _answer(holder: Mapping[str, Any], field: str, owner: str) -> str:
    if field not in holder:
        raise ConfigError(
            f"{owner} has no field {field!r}; there are {', '.join(map(str, holder)) or 'none'}", path="field"
        )
    value = holder[field]
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        raise ConfigError(f"{field!r} of {owner} should be an answer, not {value!r:.80}", path="field")
    return str(value)
