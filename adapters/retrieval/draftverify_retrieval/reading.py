"""What every reader does around its reading: questions and passages out of a block, checks with readings out of it.

A reader reads pairs of a question and a passage, each by itself, as many as it is given at once: those of one block, or
of the blocks of many tasks. What it found is a `ReaderAnswer`; here that becomes a check.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from draftverify import Check, Context, Cost, Proposal, Task, Verification
from draftverify.checks.verifiers import at_threshold
from draftverify.exchanges import Exchange, noted
from draftverify.traits import VerifierTraits
from draftverify_llm import Shared, question_text
from draftverify_retrieval.answers import normalised
from draftverify_retrieval.passages import Passage, PassageReading, passage_of

T = TypeVar("T")


class QuestionPassage(NamedTuple):
    """What is read together.

    Args:
        question: not empty.
        text: the passage's headings on a line of their own, where it has some, and its text, which is not empty.
        begin: where its own text begins; no span begins before.
    """

    question: str
    text: str
    begin: int


class ReaderAnswer(NamedTuple):
    """What was read.

    Args:
        score: that an answer stands there, in the reader's unit; None where the reader cannot tell.
        answer: the best answer, whether or not it is good enough; None where there is nothing to give.
        start, end: the answer's place in `QuestionPassage.text`, in characters; None where it stands nowhere.
        reason: why the reader cannot tell.
        exchange: what was asked and answered, where the reader is a text model.
    """

    score: float | None
    answer: str | None = None
    start: int | None = None
    end: int | None = None
    reason: str = ""
    exchange: Exchange | None = None


class PassageReader(Shared[T]):
    """A reader; what it reads with is made when it is first needed, as `Shared` says."""

    traits = VerifierTraits(provides={"verdicts", "scores"}, reads=frozenset(), thresholds={"threshold"})

    threshold: float

    @abstractmethod
    def read(self, pairs: Sequence[QuestionPassage]) -> Sequence[ReaderAnswer]:
        """An answer to each pair, in order."""

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without a question, before any passage is searched.

        Raises:
            ConfigError: naming the task.
        """
        check_questions(tasks)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per passage."""
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks, read in one call.

        A passage passes where its score is at least the threshold, and is rejected ("no answer") below; it abstains
        where the question is empty or the reader cannot tell. A score that is no finite number is an error and never a
        rejection. The best reading is the check's correction, whatever the verdict.

        Raises:
            ConfigError: a task has no question.
            ContractError: an item is no passage.
        """
        pairs: list[QuestionPassage] = []
        blocks: list[list[tuple[Passage, int | Check]]] = []
        for context, proposal in zip(contexts, proposals, strict=True):
            question, block = question_text(context.task).strip(), list[tuple[Passage, int | Check]]()
            for item in proposal.items:
                passage = passage_of(item)
                if not question:
                    block.append((passage, Check("abstain", reason="empty question")))
                elif not passage["text"].strip():
                    block.append((passage, Check("reject", reason="empty passage")))
                else:
                    block.append((passage, len(pairs)))
                    pairs.append(pair_of(question, passage))
            blocks.append(block)
        answers = self.read(pairs) if pairs else ()
        return [_verification(block, pairs, answers, self.threshold) for block in blocks]

    def rejudged(self, context: Context, proposal: Proposal, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        """What it says at its threshold of a block that was read at another."""
        return at_threshold(checks, self.threshold, "no answer")


def check_questions(tasks: Sequence[Task]) -> None:
    """Refuse tasks without a question.

    Raises:
        ConfigError: naming the task.
    """
    for task in tasks:
        question_text(task)


def pair_of(question: str, passage: Passage) -> QuestionPassage:
    """A question and a passage, as they are read together."""
    heading = f"{passage['heading']}\n" if passage.get("heading") else ""
    return QuestionPassage(question, heading + passage["text"], len(heading))


def place_of(
    answer: str, text: str, begin: int, end: int | None = None
) -> tuple[int, int] | tuple[None, None]:
    """Where an answer stands in `text[begin:end]`, but for case; None where it does not."""
    start = text.casefold().find(answer.casefold(), begin, end)
    stands = start >= 0 and text[start : start + len(answer)].casefold() == answer.casefold()
    return (start, start + len(answer)) if stands else (None, None)


def _verification(
    block: Sequence[tuple[Passage, int | Check]],
    pairs: Sequence[QuestionPassage],
    answers: Sequence[ReaderAnswer],
    threshold: float,
) -> Verification:
    checks = tuple(
        at if isinstance(at, Check) else _check(passage, pairs[at], answers[at], threshold)
        for passage, at in block
    )
    asked = ((item, answers[at].exchange) for item, (_, at) in enumerate(block) if isinstance(at, int))
    exchanges = [exchange.about(item) for item, exchange in asked if exchange is not None]
    amount = sum(exchange.cost for exchange in exchanges)
    return Verification(checks=checks, cost=Cost(amount=amount) if amount else None, notes=noted(exchanges))


def _check(passage: Passage, pair: QuestionPassage, answer: ReaderAnswer, threshold: float) -> Check:
    if answer.score is None:
        return Check("abstain", reason=answer.reason)
    if not math.isfinite(answer.score):
        return Check("error", reason="not finite", feedback=f"the reader's score is {answer.score}")
    verdict, reason = ("pass", "") if answer.score >= threshold else ("reject", "no answer")
    if answer.answer is None:
        return Check(verdict, score=answer.score, reason=reason)  # type: ignore[arg-type]
    reading: PassageReading = {**passage, "answer": answer.answer, "normalised": normalised(answer.answer)}  # type: ignore[typeddict-item]
    if answer.start is not None and answer.end is not None:
        reading["answer_start"], reading["answer_end"] = answer.start - pair.begin, answer.end - pair.begin
    return Check(verdict, score=answer.score, reason=reason, correction=reading)  # type: ignore[arg-type]
