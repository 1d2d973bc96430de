"""Speculative rejection: many partial answers grow side by side, and the weakest are cut long before they are whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from draftverify.errors import ConfigError, ContractError
from draftverify.randomness import Draws
from draftverify.values import (
    Choice,
    Context,
    Decision,
    Held,
    Proposal,
    Refusal,
    Shape,
    Verification,
)

__all__ = ["SpeculativeRejection"]


class SpeculativeRejection:
    """Holds partial answers, cuts the weakest share of them each round, and chooses the best that was finished.

    An item is a whole partial answer, scored as it stands; one that extends a held one (`Proposal.extends`) takes its
    place. Of m that still grow, ⌊share · m⌋ with the lowest scores are cut after each round, the later of equals; the
    last one never is. A finished answer grows no more, is not cut, and waits: a score of a whole answer says little
    beside that of a beginning. A rejected item is refused, and what it extends goes with it; one whose check failed
    leaves what it extends held, to be extended again. The task is done when all that is held is finished.

    `Beam` differs: it keeps so many, whole or not, and does not know when answers are whole.

    Args:
        share: the part that is cut, in [0, 1).
        field: items that are mappings are finished where this key is true; any other item is.

    References:
        Sun et al., "Fast Best-of-N Decoding via Speculative Rejection" (2410.20290), where the round's length follows
        from the memory; here it is the generator's (`reasoning.partials`).
    """

    needs = frozenset({"verdicts", "scores"})
    shapes: frozenset[Shape] = frozenset({"alternatives"})
    stepwise = True

    def __init__(self, share: float = 0.5, field: str = "finished") -> None:
        if not 0 <= share < 1:
            raise ConfigError(f"share is {share}; 0 or more and less than 1 is needed", path="share")
        self.share = share
        self.field = field

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Hold what passed and is not cut; let go of what was extended, rejected or cut.

        Raises:
            ContractError: for an item that the verifier passed without a score.
        """
        checks = verification.checks
        passed = {
            i: self._score(verification, i) for i, check in enumerate(checks) if check.verdict == "pass"
        }
        rejected = [i for i, check in enumerate(checks) if check.verdict == "reject"]
        gone = {proposal.extends[i] for i in (*passed, *rejected)} if proposal.extends else set()
        # The old before the new, so that the later of equals is the newer.
        growing = [
            (_held_score(held), False, place)
            for place, held in enumerate(context.held)
            if place not in gone and not self._finished(held.value)
        ]
        growing += [(score, True, i) for i, score in passed.items() if not self._finished(proposal.items[i])]
        growing.sort(key=lambda each: -each[0])
        cut = growing[len(growing) - math.floor(self.share * len(growing)) :]
        gone |= {place for _, new, place in cut if not new}
        return Decision(
            held=tuple(sorted(passed.keys() - {i for _, new, i in cut if new})),
            released=tuple(sorted(gone - {-1})),
            refused=tuple([Refusal(i, checks[i].reason) for i in rejected]),
        )

    def done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Stop when all that is held is finished."""
        if context.held and all(self._finished(held.value) for held in context.held):
            return len(new)
        return None

    def finish(self, context: Context) -> Choice | None:
        """The best of the finished with its score, the earliest of equals; None when none was finished."""
        whole = [held for held in context.held if self._finished(held.value)]
        best = max(whole, key=_held_score, default=None)
        return None if best is None else Choice(best.value, score=best.score)

    def _finished(self, item: Any) -> bool:
        return not isinstance(item, Mapping) or bool(item.get(self.field))

    def _score(self, verification: Verification, index: int) -> float:
        score = verification.checks[index].score
        if score is None:
            if verification.by == "verifier":
                raise ContractError(f"item {index} passed without a score; the rule compares scores")
            return math.inf
        return score


def _held_score(held: Held) -> float:
    """What a person or a trusted fallback passed has no score, and is better than all scored."""
    return math.inf if held.score is None else held.score
