"""A model that grades answers one by one: `llm.judge`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from draftverify import Check, ConfigError, Context, Cost, Proposal, Verification
from draftverify.checks.verifiers import at_threshold
from draftverify.exchanges import noted
from draftverify.kit.audit import Grade, PresentedAnswer
from draftverify.traits import VerifierTraits
from draftverify_llm.judging import ModelJudge, answer_text, no_verdict, question_text, written_reason
from draftverify_llm.replies import VerdictReply, ask
from draftverify_llm.text import TextModel


class Judge(ModelJudge):
    """Asks a text model about each answer: whether it is right (yes or no), or which grade it deserves.

    With weights that run here (`llm.local`) the first token of the reply is read, all items of all blocks in padded
    passes. The score is then ln(P(yes) / P(no)) in nats, or the expected grade Σ g P(g) / Σ P(g); so too of an endpoint
    with `top_logprobs`. Other models are asked for the reply at temperature 0; the score is 1 for yes and −1 for no, or
    the grade. Where the likeliest
    reply does not begin with a verdict, or have it in [[double brackets]], the judge abstains. A reply of more than the
    verdict is the check's feedback, which a generator that is asked for another answer is shown; NaN is an error.
    Both are a model's opinion: `draftverify audit judge` says what it is worth.

    The question is the task's `question`, else its `prompt`; an item is a text, a mapping with `text`, or steps.

    Args:
        model: a text model.
        asks: "yes_no" or "grade".
        threshold: the score at which an answer passes; when absent 0 for yes or no, and the middle of the grades.
        highest: the best grade, 2 to 9; the worst is 1.
        rubric: what an answer is to be judged by, in words.
        reference: the field of the task that holds a right answer, which the judge is shown beside the one to judge.
        reasons: ask for the verdict and then for the reason, which is the check's feedback.
        prompt: a file with {question} and {answer}, {highest} where it asks for a grade, {rubric} and {expected} where
            there are such; when absent the one that comes with the package.
        paraphrases: the same in other words, for audits.
        max_tokens: of a reply that is read as text.
    """

    fields = ("question", "answer")

    @cached_property
    def traits(self) -> VerifierTraits:
        """As its model's."""
        return self._traits({"verdicts", "scores"}, thresholds={"threshold"})

    def __init__(
        self,
        model: TextModel,
        asks: Literal["yes_no", "grade"] = "yes_no",
        threshold: float | None = None,
        highest: int = 5,
        prompt: Path | None = None,
        paraphrases: Sequence[Path] = (),
        max_tokens: int = 64,
        rubric: str | None = None,
        reference: str | None = None,
        reasons: bool = False,
    ) -> None:
        super().__init__(model, rubric, reference, reasons, prompt, paraphrases, max_tokens)
        self.asks = asks
        self.threshold = threshold
        self.highest = highest

    @property
    def identity(self) -> str:
        """A hash of the model, the prompt and what is asked; its threshold and the audit's other wordings are none."""
        return self._identity(self.asks, self.highest)

    def open(self) -> None:
        """Check the arguments, read the prompts and load the model; as of `ModelJudge`."""
        if not 2 <= self.highest <= 9:
            raise ConfigError(f"highest is {self.highest}; the best grade is 2 to 9", path="highest")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise ConfigError(f"threshold is {self.threshold}; a number is needed", path="threshold")
        super().open()

    @property
    def kind(self) -> str:
        """The name of the package's prompts for it."""
        return self.asks

    @property
    def words(self) -> tuple[str, ...]:
        """The verdicts: yes and no, or the grades from the lowest."""
        return ("yes", "no") if self.asks == "yes_no" else tuple(map(str, range(1, self.highest + 1)))

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks, asked together; one check per item."""
        requests = [
            PresentedAnswer(
                question_text(context.task), answer_text(item), reference=self._right(context.task)
            )
            for context, proposal in zip(contexts, proposals, strict=True)
            for item in proposal.items
        ]
        grades = iter(self.grade(requests))
        verifications = []
        for proposal in proposals:
            block_grades = [next(grades) for _ in proposal.items]
            amount = sum(grade.cost for grade in block_grades)
            cost = Cost(amount=amount) if amount else None
            # Equal answers are asked about once.
            asked = dict.fromkeys(grade.exchange for grade in block_grades)
            places = [grade.exchange for grade in block_grades].index
            exchanges = [exchange.about(places(exchange)) for exchange in asked if exchange is not None]
            checks = tuple(map(self._check, block_grades))
            verifications.append(Verification(checks=checks, cost=cost, notes=noted(exchanges)))
        return verifications

    def rejudged(self, context: Context, proposal: Proposal, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        """What it says at its threshold of a block that was read at another."""
        return at_threshold(checks, self._lowest, "judged wrong")

    @property
    def _lowest(self) -> float:
        """The score from which on an answer passes."""
        middle = 0.0 if self.asks == "yes_no" else (1 + self.highest) / 2
        return middle if self.threshold is None else self.threshold

    def grade(self, requests: Sequence[PresentedAnswer]) -> list[Grade]:
        """A grade for each; what an audit asks."""
        texts = [self._prompted(request) for request in requests]
        replies = ask(self.model, texts, self.words, self.max_tokens, whole=self.reasons)
        return [self._graded(reply) for reply in replies]

    def _prompted(self, request: PresentedAnswer) -> str:
        texts = {"question": ("question", request.question), "answer": ("answer", request.answer)}
        return self._filled(request.wording, texts, request.reference, highest=str(self.highest))

    def _graded(self, reply: VerdictReply) -> Grade:
        if reply.verdict is None:
            return Grade(None, reply.why, reply.text, reply.cost, reply.exchange)
        if self.asks == "yes_no":
            logprobs = reply.logprobs
            score = logprobs[0] - logprobs[1] if logprobs else 1.0 - 2.0 * reply.verdict
        elif reply.logprobs:
            top = max(reply.logprobs)
            shares = [math.exp(logprob - top) for logprob in reply.logprobs]
            score = sum((grade + 1) * share for grade, share in enumerate(shares)) / sum(shares)
        else:
            score = reply.verdict + 1.0
        return Grade(score, words=reply.text, cost=reply.cost, exchange=reply.exchange)

    def _check(self, grade: Grade) -> Check:
        if grade.score is None:
            return no_verdict(grade.why, grade.words)
        passed = grade.score >= self._lowest
        why = written_reason(grade.words)
        return Check("pass" if passed else "reject", grade.score, "" if passed else "judged wrong", why)
