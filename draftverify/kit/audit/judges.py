"""What a judge is to the audit: something that says which of two answers is better, or how good one is.

A live judge of either kind and recorded verdicts satisfy the same small protocols, so an audit asks them alike. What a
judge cannot vary (recorded verdicts know no other wording) it does not name in `varies`, and the probes that need it
are reported as not tested. Any other verifier that gives scores, such as a reward model, is asked through its scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

import msgspec

from draftverify.errors import ConfigError
from draftverify.exchanges import Exchange
from draftverify.kit.contexts import make_context
from draftverify.protocols import VerifiesMany
from draftverify.traits import VerifierTraits, name_of, offers, traits_of
from draftverify.values import Check, Proposal, Task

Choice: TypeAlias = Literal["first", "second", "tie"]
CHOICES: tuple[Choice, ...] = get_args(Choice)

Variation: TypeAlias = Literal["order", "answers", "names", "wording", "repeat"]
"""What can be changed about a question to a judge: which answer comes first; the answers' text; the names under which
the answers stand in the prompt; the wording of the prompt; that it is asked once more."""


_WORDS: dict[str, Choice] = {
    **dict.fromkeys(("first", "1", "a", "model_a", "a>b", "a>>b"), "first"),
    **dict.fromkeys(("second", "2", "b", "model_b", "b>a", "b>>a"), "second"),
    **dict.fromkeys(("tie", "0", "c", "a=b", "b=a", "tie(bothbad)", "both", "draw"), "tie"),
}


def as_choice(label: object) -> Choice | None:
    """A label's or a recorded verdict's word, also in [[brackets]]; None for others.

    First, 1, A, model_a, A>B, A>>B; second and its like; tie, 0, C, A=B, both, draw, tie (bothbad).

    Examples:
        >>> [as_choice(label) for label in (1, "B", "[[A>>B]]", "Tie", "garbage", None)]
        ['first', 'second', 'first', 'tie', None, None]
    """
    readable = isinstance(label, (str, int)) and not isinstance(label, bool)
    word = "".join(str(label).split()).casefold()
    return _WORDS.get(word.removeprefix("[[").removesuffix("]]")) if readable else None


class Presented(msgspec.Struct, frozen=True):
    """Two answers to a question, in the order in which the judge is to see them.

    Args:
        question, first, second: texts.
        names_exchanged: whether the first goes by the name of the second ("B") and the second by that of the first.
        wording: which of the judge's prompts, from 0.
        repeat: which call of the same this is, from 0.
        id: of the comparison, by which recorded verdicts on equal texts are told apart; a live judge does not read it.
        reference: a right answer, for a judge that is shown one.
    """

    question: str
    first: str
    second: str
    names_exchanged: bool = False
    wording: int = 0
    repeat: int = 0
    id: str = ""
    reference: str | None = None


class PresentedAnswer(msgspec.Struct, frozen=True):
    """One answer to a question, to be graded; the rest is as of `Presented`."""

    question: str
    answer: str
    wording: int = 0
    repeat: int = 0
    reference: str | None = None


class PairVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """A judge's word on two answers.

    Args:
        choice: which is better, by its place; None where no verdict was to be had.
        score: how much better the first is, in the judge's unit, 0 for neither; None where it does not say.
        why: of no verdict a short fixed word: "no verdict" (the reply has none), "cut off" (it ended before one),
            "too long", "not recorded", "error", "timeout".
        words: the reply, or as much of it as is known.
        cost: what the call cost.
        exchange: what was asked and answered, where a model was.
    """

    choice: Choice | None
    score: float | None = None
    why: str = ""
    words: str = ""
    cost: float = 0.0
    exchange: Exchange | None = None


class Grade(msgspec.Struct, frozen=True, omit_defaults=True):
    """A judge's word on one answer: its score, higher being better, or None; the rest as of `PairVerdict`."""

    score: float | None
    why: str = ""
    words: str = ""
    cost: float = 0.0
    exchange: Exchange | None = None


@runtime_checkable
class AnswerComparer(Protocol):
    """A pairwise judge.

    Attributes:
        varies: which variations it can be asked with.
    """

    @property
    def varies(self) -> frozenset[Variation]: ...

    def compare(self, pairs: Sequence[Presented]) -> list[PairVerdict]:
        """One word for each, in order; what cannot be judged has no choice and says why."""
        ...


@runtime_checkable
class AnswerGrader(Protocol):
    """A pointwise judge.

    Attributes:
        varies: which variations it can be asked with, of "answers", "wording" and "repeat".
    """

    @property
    def varies(self) -> frozenset[Variation]: ...

    def grade(self, answers: Sequence[PresentedAnswer]) -> list[Grade]:
        """One grade for each, in order; what cannot be judged has no score and says why."""
        ...


@runtime_checkable
class ShowsReference(Protocol):
    """A judge that is shown a right answer.

    Attributes:
        reference: the field of a task's input that has it; None for none.
    """

    reference: str | None


class ByGrades:
    """A pairwise judge made of a pointwise one: the higher grade wins, equal ones tie.

    It sees one answer at a time, so neither their order nor their names can sway it, and neither is probed.
    """

    def __init__(self, judge: AnswerGrader) -> None:
        self.judge = judge

    @property
    def varies(self) -> frozenset[Variation]:
        return self.judge.varies - {"order", "names"}

    def compare(self, pairs: Sequence[Presented]) -> list[PairVerdict]:
        singles = [
            PresentedAnswer(pair.question, answer, pair.wording, pair.repeat, pair.reference)
            for pair in pairs
            for answer in (pair.first, pair.second)
        ]
        # One that stands in several comparisons is graded once.
        places = {single: place for place, single in enumerate(dict.fromkeys(singles))}
        grades = self.judge.grade(list(places))
        grade_of_each = [grades[places[single]] for single in singles]
        return [
            _higher(first, second)
            for first, second in zip(grade_of_each[::2], grade_of_each[1::2], strict=True)
        ]


def _higher(first: Grade, second: Grade) -> PairVerdict:
    amount = first.cost + second.cost
    for grade in (first, second):
        if grade.score is None:
            return PairVerdict(None, why=grade.why, words=grade.words, cost=amount)
        if math.isnan(grade.score):  # neither higher nor lower than any, which is no tie
            return PairVerdict(None, why="error", words="the score is no number", cost=amount)
    assert first.score is not None
    assert second.score is not None
    score, rival = first.score, second.score
    choice: Choice = "first" if score > rival else "second" if score < rival else "tie"
    return PairVerdict(choice, score - rival if choice != "tie" else 0.0, cost=amount)


class _ByScores:
    """A pointwise judge made of any verifier that gives scores; each answer is a block of its own."""

    varies: frozenset[Variation] = frozenset({"answers", "repeat"})

    def __init__(self, verifier: Any) -> None:
        self.verifier = verifier

    def grade(self, answers: Sequence[PresentedAnswer]) -> list[Grade]:
        inputs = [{"question": answer.question, "prompt": answer.question} for answer in answers]
        contexts = [make_context(Task(id=str(place), input=input)) for place, input in enumerate(inputs)]
        blocks = [Proposal.alternatives((answer.answer,)) for answer in answers]
        if offers(self.verifier, VerifiesMany):
            verifications = self.verifier.verify_many(contexts, blocks)
        else:
            verifications = [
                self.verifier.verify(context, block) for context, block in zip(contexts, blocks, strict=True)
            ]
        return [
            _grade(verification.checks[0], verification.cost.amount if verification.cost else 0.0)
            for verification in verifications
        ]


def _grade(check: Check, cost: float) -> Grade:
    if check.score is None:
        return Grade(None, check.verdict, check.feedback or check.reason, cost)
    return Grade(check.score, cost=cost)


def as_judge(part: Any) -> AnswerComparer:
    """What an audit asks: a pairwise judge as it is, another through its grades or scores.

    Raises:
        ConfigError: it neither compares, nor grades, nor gives scores.
    """
    if isinstance(part, AnswerComparer):
        return part
    if isinstance(part, AnswerGrader):
        return ByGrades(part)
    provides = traits_of(part, VerifierTraits).provides
    if "scores" in provides and "cross" not in provides:
        return ByGrades(_ByScores(part))
    raise ConfigError(
        f"{name_of(part)} cannot be audited as a judge: it neither compares two answers nor scores one; use "
        "llm.pairwise_judge, llm.judge, llm.recorded_judge, or a verifier that gives scores",
        path="judge",
    )
