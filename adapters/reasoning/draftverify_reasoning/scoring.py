"""What every model that scores solutions does around its model: questions and texts out of blocks, checks into them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from draftverify import Check, Context, Proposal, Verification
from draftverify.checks.verifiers import at_threshold
from draftverify.traits import VerifierTraits
from draftverify_llm import Shared, answer_text, question_text, sample_logprobs

T = TypeVar("T")

TOO_LONG = "too long"


class QuestionSolution(NamedTuple):
    """What is read together, neither empty; and the sample's own log-probability, where its generator gave one."""

    question: str
    solution: str
    logprob: float | None = None


class StepwiseSolution(NamedTuple):
    """A question and the steps of a solution, in order; each of them is not empty."""

    question: str
    steps: tuple[str, ...]


def at_once(device: Any) -> int:
    """How many tokens, padding counted, go through a model on this torch device in one pass."""
    return 2048 if device.type == "cpu" else 32768


class SolutionScorer(Shared[T]):
    """A model that scores solutions; it is loaded when it is first needed, as `Shared` says."""

    threshold: float
    family: str | None

    @cached_property
    def traits(self) -> VerifierTraits:
        """Of its model's family; a model's word is no outside check, also where the family is unknown."""
        return VerifierTraits(
            provides={"verdicts", "scores"},
            reads=frozenset(),
            families={self.family or "unknown"},
            thresholds={"threshold"},
        )

    @abstractmethod
    def _score(self, pairs: Sequence[QuestionSolution]) -> list[float | str]:
        """A score for each pair, in order, or why it has none."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per solution."""
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks, scored in one call, in padded passes of similar length.

        Raises:
            ConfigError: a task has no question.
            ContractError: an item is no solution.
        """
        pairs: list[QuestionSolution] = []
        blocks: list[list[int | Check]] = []
        for context, proposal in zip(contexts, proposals, strict=True):
            question, block = question_text(context.task), list[int | Check]()
            for item, logprob in zip(proposal.items, sample_logprobs(proposal), strict=True):
                text = answer_text(item)
                if not question.strip():
                    block.append(Check("abstain", reason="empty question"))
                elif not text.strip():
                    block.append(Check("reject", reason="empty solution"))
                else:
                    block.append(len(pairs))
                    pairs.append(QuestionSolution(question, text, logprob))
            blocks.append(block)
        scores = self._score(pairs) if pairs else []
        return [
            Verification(
                checks=tuple(
                    at if isinstance(at, Check) else verdict(scores[at], self.threshold) for at in block
                )
            )
            for block in blocks
        ]

    def rejudged(self, context: Context, proposal: Proposal, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        """What it says at its threshold of a block that was read at another."""
        return at_threshold(checks, self.threshold, "below the threshold")


def verdict(score: float | str, threshold: float) -> Check:
    """The check of a score: pass from the threshold on, reject below; abstain where there is only a reason instead of
    one. A score that is no finite number is an error and never a rejection.
    """
    if isinstance(score, str):
        return Check("abstain", reason=score)
    if not math.isfinite(score):
        return Check("error", reason="not finite", feedback=f"the model's score is {score}")
    if score >= threshold:
        return Check("pass", score=score)
    return Check("reject", score=score, reason="below the threshold")
