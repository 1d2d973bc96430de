"""Steps judged one by one: how sound a solution is after each of its steps, and the first wrong one located."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from draftverify import UNCHECKED, Check, Context, ContractError, Proposal, Verification
from draftverify.traits import VerifierTraits, traits_of
from draftverify_llm import Shared, question_text
from draftverify_reasoning.scoring import StepwiseSolution, verdict

_SHOWN = 80


class StepScorer(Protocol):
    """Scores solutions after each of their steps."""

    def step_scores(self, solutions: Sequence[StepwiseSolution]) -> list[list[float | str]]:
        """For each solution as many scores as it has steps, or why there is none in a score's place."""
        ...


@dataclass(eq=False)
class ProcessVerifier(Shared[StepScorer]):
    """Judges steps in chains and trees by a score read at each step's end, the accepted steps before them included.

    A step below the threshold is rejected; what stands on it, or on one that could not be judged, is unchecked. The
    feedback names the step and its score. With the rule `longest_prefix` the sound steps are kept and drafting goes on
    from there.

    Args:
        scorer: `reasoning.verifier`, whose token scores at the ends of all steps come from one reading of each path;
            or `reasoning.reward_model`, which reads the solution up to each step anew.
        threshold: the score at which a step passes, in the scorer's unit; the scorer's own threshold is not used.

    References:
        Lightman et al., Let's verify step by step, 2023, arXiv:2305.20050.
    """

    scorer: StepScorer
    threshold: float = 0.0

    @cached_property
    def traits(self) -> VerifierTraits:
        """Of the scorer's families."""
        return VerifierTraits(
            provides={"verdicts", "scores"},
            reads=frozenset(),
            families=traits_of(self.scorer, VerifierTraits).families,
            thresholds={"threshold"},
        )

    def _members(self) -> list[Any]:
        return [self.scorer]

    def _make(self) -> StepScorer:
        return self.scorer

    @property
    def identity(self) -> str | None:
        """The scorer's."""
        return getattr(self.scorer, "identity", None)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per step."""
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks, each path from its first step to a last one read once.

        Raises:
            ConfigError: a task has no question.
            ContractError: an item is no text.
        """
        paths: list[StepwiseSolution] = []
        places: dict[tuple[int, int], tuple[int, int]] = {}
        for block, (context, proposal) in enumerate(zip(contexts, proposals, strict=True)):
            question, accepted = question_text(context.task), tuple(map(_step, context.accepted))
            steps = [_step(item) for item in proposal.items]
            for leaf in sorted({*range(len(steps))} - {*proposal.parents}) if question.strip() else ():
                whole = proposal.path(leaf)
                end = next(
                    (depth for depth, index in enumerate(whole) if not steps[index].strip()), len(whole)
                )
                path = whole[:end]
                for depth, index in enumerate(path, len(accepted)):
                    places.setdefault((block, index), (len(paths), depth))
                if path:
                    paths.append(StepwiseSolution(question, (*accepted, *[steps[index] for index in path])))
        scores = self._get().step_scores(paths) if paths else []
        verifications = []
        for block, (context, proposal) in enumerate(zip(contexts, proposals, strict=True)):
            asked = question_text(context.task).strip()
            unread = None if asked else Check("abstain", reason="empty question")
            at = [places.get((block, index)) for index in range(len(proposal))]
            words = [unread if place is None else scores[place[0]][place[1]] for place in at]
            verifications.append(Verification(checks=self._judged(context, proposal, words)))
        return verifications

    def rejudged(self, context: Context, proposal: Proposal, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        """What it says at its threshold of steps that were scored at another."""
        words = [check if check.score is None else check.score for check in checks]
        return self._judged(context, proposal, words)

    def _judged(
        self, context: Context, proposal: Proposal, words: Sequence[Check | float | str | None]
    ) -> tuple[Check, ...]:
        """The checks of steps by their scores, or by what is said in its place; of an empty one nothing."""
        checks: list[Check] = []
        for index, (parent, word) in enumerate(zip(proposal.parents, words, strict=True)):
            number = len(context.accepted) + len(proposal.path(index))
            if parent >= 0 and checks[parent].verdict != "pass":
                checks.append(UNCHECKED)
            elif word is None:
                checks.append(Check("reject", reason="empty step", feedback=f"step {number} is empty"))
            elif isinstance(word, Check):
                checks.append(word)
            else:
                checks.append(self._check(word, number, proposal.items[index]))
        return tuple(checks)

    def _check(self, score: float | str, number: int, step: str) -> Check:
        check = verdict(score, self.threshold)
        if check.verdict != "reject":
            return check
        excerpt = step if len(step) <= _SHOWN else step[: _SHOWN - 1] + "…"
        feedback = f"step {number} scores {check.score:.2f}, below {self.threshold:g}: {excerpt}"
        return Check("reject", score=check.score, reason="wrong step", feedback=feedback)


def _step(item: object) -> str:
    if not isinstance(item, str):
        raise ContractError(f"no step: {item!r:.80}; it should be a text")
    return item
