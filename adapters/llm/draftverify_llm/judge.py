"""A model that grades answers one by one: `llm.judge`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from draftverify import Check, ConfigError, Context, Cost, Proposal, Task, Verification
from draftverify.checks.verifiers import at_threshold
from draftverify.exchanges import noted
from draftverify.kit.audit import Grade, PresentedAnswer, Variation
from draftverify.traits import VerifierTraits
from draftverify_llm.judging import (
    ModelJudge,
    answer_text,
    identity_of_judge,
    no_verdict,
    open_model,
    question_text,
    shown_text,
)
from draftverify_llm.prompts import filled_prompt, read_prompts
from draftverify_llm.replies import VerdictReply, ask
from draftverify_llm.text import TextModel

__all__ = ["Judge"]


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
        self.model = model
        self.asks = asks
        self.rubric = rubric
        self.reference = reference
        self.reasons = reasons
        self.threshold = threshold
        self.highest = highest
        self.prompt = prompt
        self.paraphrases = paraphrases
        self.max_tokens = max_tokens
        self._prompts: tuple[str, ...] | None = None

    @property
    def varies(self) -> frozenset[Variation]:
        """What an audit can change."""
        wording: frozenset[Variation] = frozenset({"wording"} if len(self._files()) > 1 else ())
        return wording | {"answers", "repeat"}

    @property
    def identity(self) -> str:
        """A hash of the model, the prompt and what is asked; its threshold and the audit's other wordings are none."""
        settings = (
            self.asks,
            self.highest,
            self.max_tokens,
            self.rubric,
            self.reference is not None,
            self.reasons,
        )
        return identity_of_judge(self.model, *settings, self._read()[0])

    def open(self) -> None:
        """Check the arguments, read the prompts and load the model.

        Raises:
            ConfigError: an argument is out of its range, a prompt is not as it must be, or the model's tokenizer cannot
                tell the verdicts apart.
            ResourceError: the weights are missing.
        """
        if not 2 <= self.highest <= 9:
            raise ConfigError(f"highest is {self.highest}; the best grade is 2 to 9", path="highest")
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}; at least 1 is needed", path="max_tokens")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise ConfigError(f"threshold is {self.threshold}; a number is needed", path="threshold")
        self._read()
        open_model(self.model, self.words)

    @property
    def words(self) -> tuple[str, ...]:
        """The verdicts: yes and no, or the grades from the lowest."""
        return ("yes", "no") if self.asks == "yes_no" else tuple(map(str, range(1, self.highest + 1)))

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks, asked together."""
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
        prompts = self._read()
        texts = [self._filled(prompts[request.wording], request) for request in requests]
        replies = ask(self.model, texts, self.words, self.max_tokens, whole=self.reasons)
        return [self._graded(reply) for reply in replies]

    def _right(self, task: Task) -> str | None:
        """The task's right answer, where the judge is shown one.

        Raises:
            ContractError: it has none.
        """
        if self.reference is None:
            return None
        return shown_text(task.input, self.reference, f"the input of task {task.id}")

    def _filled(self, prompt: str, request: PresentedAnswer) -> str:
        texts = {"question": ("question", request.question), "answer": ("answer", request.answer)}
        plain = {"highest": str(self.highest), "rubric": "", "expected": ""}
        if self.rubric is not None:
            plain["rubric"] = f"Judge it by this:\n{self.rubric}\n\n"
        if request.reference is not None:
            del plain["expected"]
            texts["expected"] = ("right answer", request.reference)
        return filled_prompt(prompt, texts, plain, after={"expected": "\n\n"})

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
        why = grade.words if len(grade.words.split()) > 1 else ""
        return Check("pass" if passed else "reject", grade.score, "" if passed else "judged wrong", why)

    def _files(self) -> list[Path]:
        return self._prompt_files(f"{self.asks}_why" if self.reasons else self.asks)

    def _read(self) -> tuple[str, ...]:
        if self._prompts is None:
            optional = ("rubric", "expected", *(("highest",) if self.asks == "grade" else ()))
            self._prompts = read_prompts(self._files(), ("question", "answer"), optional)
            for name, given in (("rubric", self.rubric), ("expected", self.reference)):
                if given is not None and not all(f"{{{name}}}" in prompt for prompt in self._prompts):
                    raise ConfigError(
                        f"the prompt has no {{{name}}}, in whose place it would stand", path="prompt"
                    )
        return self._prompts
