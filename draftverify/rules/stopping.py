"""Stopping rules, for a pipeline's `done`: each is called with the context as it is after the round and the values the
round added, and says how many of them to keep when the task is to stop, or None to go on.

The context's ballots and accepted values include the round's; `context.rounds` holds the rounds before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from draftverify.errors import ConfigError, ContractError
from draftverify.rules.ballots import count
from draftverify.rules.bounds import at_least_one, between
from draftverify.values import Context

__all__ = ["AdaptiveConsistency", "AnyOf", "EnoughEvidence", "Limit", "Rounds", "leader_confidence"]


class Limit:
    """Stops at so many accepted values, inside the block where need be.

    Args:
        items: how many.
    """

    def __init__(self, items: int) -> None:
        self.items = at_least_one("items", items)

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Cut what is over the limit."""
        over = len(context.accepted) - self.items
        return None if over < 0 else max(len(new) - over, 0)


class Rounds:
    """Stops after so many rounds.

    Args:
        n: how many. A round in which a call failed counts, but does not stop the task: its policy answers it.
    """

    def __init__(self, n: int) -> None:
        self.n = at_least_one("n", n)

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Keep all of the last round."""
        return len(new) if context.round + 1 >= self.n else None


class EnoughEvidence:
    """Stops once enough evidence was gathered: once at least one of the taken items is right with this probability.

    That is 1 − Π (1 − score) over all items that were kept or held, taken as independent. Their scores must be
    probabilities, as those of a `calibrated` verifier are; what a person or a trusted fallback passed is certain.

    Args:
        enough: the probability.
        at_most: rounds.
    """

    def __init__(self, enough: float = 0.95, *, at_most: int | None = None) -> None:
        self.enough = between("enough", enough, 0, 1, open_below=True)
        self.at_most = None if at_most is None else at_least_one("at_most", at_most)

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Keep all of the last round.

        Raises:
            ContractError: a taken item has no score, or one that is no probability.
        """
        assert context.last is not None
        last, missing = context.last, 1.0
        rounds = [(each.decision, each.checks, each.by) for each in context.rounds]
        for decision, checks, by in [
            *rounds,
            (last.decision, last.verification.checks, last.verification.by),
        ]:
            for index in decision.taken:
                score = 1.0 if by != "verifier" else checks[index].score if checks else None
                if score is None or not 0 <= score <= 1:
                    raise ContractError(
                        f"item {index} was taken with the score {score}; evidence is added up of probabilities, 0 to "
                        "1, which a calibrated verifier gives"
                    )
                missing *= 1 - score
        over = self.at_most is not None and context.round + 1 >= self.at_most
        return len(new) if over or missing <= 1 - self.enough else None


class AdaptiveConsistency:
    """Stops a vote when its leader is likely to stay ahead of the second, or at so many ballots.

    Args:
        confidence: stop at P(Beta(v₁ + 1, v₂ + 1) > ½) ≥ confidence, for the votes v₁ and v₂ of the first two.
        at_most: ballots.
        field: as for `Majority`.
        weighted: votes are weights, as for `WeightedVote`, scaled so that all of them sum to as many ballots as they
            are worth, (Σw)² / Σw²; else every ballot is one vote.

    References:
        Aggarwal et al., "Let's Sample Step by Step", arXiv:2305.11860; Kish, "Survey Sampling" (1965), for the
        effective number of weighted ballots.
    """

    def __init__(
        self,
        confidence: float = 0.95,
        at_most: int = 40,
        field: str | None = "answer",
        *,
        weighted: bool = False,
    ) -> None:
        self.confidence = between("confidence", confidence, 0.5, 1, open_above=True)
        self.at_most = at_least_one("at_most", at_most)
        self.field = field
        self.weighted = weighted

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Look at the ballots held by now."""
        answers = count(context.held, self.field)
        votes = [float(answer.ballots) for answer in answers]
        if sum(votes) >= self.at_most:
            return len(new)
        if self.weighted:
            squares = sum(answer.squares for answer in answers)
            weights = [answer.weight for answer in answers]
            votes = [weight * sum(weights) / squares for weight in weights] if squares else []
        if not votes:
            return None
        first, second = (*sorted(votes, reverse=True), 0.0)[:2]
        return len(new) if leader_confidence(first, second) >= self.confidence else None


class AnyOf:
    """Stops when any of several stopping rules does, at the earliest of their cuts.

    Args:
        rules: the stopping rules.
    """

    def __init__(self, rules: Sequence[Callable[[Context, tuple[Any, ...]], int | None]]) -> None:
        if not rules:
            raise ConfigError("rules is empty; at least one is needed", path="rules")
        self.rules = rules

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Ask each."""
        cuts = [cut for cut in (rule(context, new) for rule in self.rules) if cut is not None]
        return min(cuts, default=None)


def leader_confidence(first: float, second: float) -> float:
    """P(Beta(v₁ + 1, v₂ + 1) > ½): the chance that the leader's true share among the first two is the larger one.

    By Gauss–Legendre quadrature of x^v₁ (1 − x)^v₂ on either side of ½, exact for whole votes up to 255 in all.
    """
    above = 0.75 + 0.25 * _NODES  # the nodes on [½, 1]; mirrored, on [0, ½]
    logs = [first * np.log(x) + second * np.log1p(-x) for x in (above, 1 - above)]
    top = max(float(each.max()) for each in logs)
    over, under = (float(_WEIGHTS @ np.exp(each - top)) for each in logs)
    return over / (over + under)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)
