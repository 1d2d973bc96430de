"""Steps judged one by one: how sound a solution is after each of its steps, and the first wrong one located."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from draftverify import UNCHECKED, Check, Context, ContractError, Proposal, Verification
from draftverify.protocols import Closes, Opens
from draftverify.traits import VerifierTraits, offers, traits_of
from draftverify_llm import question_text
from draftverify_reasoning.scoring import StepwiseSolution, verdict

__all__ = ["ProcessVerifier", "StepScorer"]

_SHOWN = 80


class StepScorer(Protocol):
    """Scores solutions after each of their steps."""

    def step_scores(self, solutions: Sequence[StepwiseSolution]) -> list[list[float | str]]:
        """For each solution as many scores as it has steps, or why there is none in a score's place."""
        ...


class ProcessVerifier:
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

    def __init__(self, scorer: StepScorer, threshold: float = 0.0) -> None:
        self.scorer = scorer
        self.threshold = threshold

    @cached_property
    def traits(self) -> VerifierTraits:
        """Of the scorer's families."""
        return VerifierTraits(
            provides={"verdicts", "scores"},
            reads=frozenset(),
            families=traits_of(self.scorer, VerifierTraits).families,
            thresholds={"threshold"},
        )

    def open(self) -> None:
        """Open the scorer."""
        if offers(self.scorer, Opens):
            self.scorer.open()

    def close(self) -> None:
        """Close the scorer."""
        if offers(self.scorer, Closes):
            self.scorer.close()

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
        places: list[list[tuple[int, int] | None]] = []
        for context, proposal in zip(contexts, proposals, strict=True):
            question, accepted = question_text(context.task), tuple(map(_step, context.accepted))
            steps = [_step(item) for item in proposal.items]
            inner, place = set(proposal.parents), [None] * len(steps)
            place_of: list[tuple[int, int] | None] = list(place)
            for leaf in range(len(steps)):
                if leaf in inner or not question.strip():
                    continue
                path = _readable(proposal.path(leaf), steps)
                for depth, index in enumerate(path):
                    if place_of[index] is None:
                        place_of[index] = len(paths), len(accepted) + depth
                if path:
                    paths.append(StepwiseSolution(question, (*accepted, *[steps[index] for index in path])))
            places.append(place_of)
        scores = self.scorer.step_scores(paths) if paths else []
        return [
            Verification(checks=self._checks(context, proposal, block, scores))
            for context, proposal, block in zip(contexts, proposals, places, strict=True)
        ]

    def _checks(
        self,
        context: Context,
        proposal: Proposal,
        places: Sequence[tuple[int, int] | None],
        scores: Sequence[Sequence[float | str]],
    ) -> tuple[Check, ...]:
        checks: list[Check] = []
        for index, parent in enumerate(proposal.parents):
            at, number = places[index], len(context.accepted) + len(proposal.path(index))
            if parent >= 0 and checks[parent].verdict != "pass":
                checks.append(UNCHECKED)
            elif not question_text(context.task).strip():
                checks.append(Check("abstain", reason="empty question"))
            elif at is None:
                checks.append(Check("reject", reason="empty step", feedback=f"step {number} is empty"))
            else:
                checks.append(self._check(scores[at[0]][at[1]], number, proposal.items[index]))
        return tuple(checks)

    def rejudged(self, context: Context, proposal: Proposal, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        """What it says at its threshold of steps that were scored at another."""
        judged: list[Check] = []
        for index, (parent, check) in enumerate(zip(proposal.parents, checks, strict=True)):
            number = len(context.accepted) + len(proposal.path(index))
            if parent >= 0 and judged[parent].verdict != "pass":
                check = UNCHECKED
            elif check.score is not None:
                check = self._check(check.score, number, proposal.items[index])
            judged.append(check)
        return tuple(judged)

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


def _readable(path: Sequence[int], steps: Sequence[str]) -> list[int]:
    """The path as far as its steps are not empty."""
    sound: list[int] = []
    for index in path:
        if not steps[index].strip():
            break
        sound.append(index)
    return sound
