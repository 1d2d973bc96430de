"""Stopping rules, for a pipeline's `done`: each is called with the context as it is after the round and the values the
round added, and says how many of them to keep when the task is to stop, or None to go on.

The context's ballots and accepted values include the round's; `context.rounds` holds the rounds before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from draftverify.engine.parts import earliest_cut
from draftverify.errors import ConfigError, ContractError
from draftverify.protocols import Done
from draftverify.rules.ballots import count, vote_of
from draftverify.rules.bounds import at_least_one, between
from draftverify.values import Context


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
        current, missing = context.last, 1.0
        rounds = [(past.decision, past.checks, past.by) for past in context.rounds]
        for decision, checks, by in [
            *rounds,
            (current.decision, current.verification.checks, current.verification.by),
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
    """Stops a vote when its leader is likely to stay ahead of the second, or at so many samples.

    Args:
        confidence: stop at P(Beta(v₁ + 1, v₂ + 1) > ½) ≥ confidence, for the votes v₁ and v₂ of the first two.
        at_most: samples drawn, those without an answer too.
        field: as for `Majority`.
        weighted: votes are weights, as for `WeightedVote` ("log_odds": as with its `log_odds`), scaled so that all of
            them sum to as many ballots as they are worth, (Σw)² / Σw²; else every ballot is one vote.

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
        weighted: bool | Literal["log_odds"] = False,
    ) -> None:
        self.confidence = between("confidence", confidence, 0.5, 1, open_above=True)
        self.at_most = at_least_one("at_most", at_most)
        self.field = field
        self.weighted = weighted

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Look at the ballots held by now."""
        answers = count(context.held, self.field, log_odds=self.weighted == "log_odds")
        votes = [float(answer.ballots) for answer in answers]
        if _samples(context) >= self.at_most:
            return len(new)
        if self.weighted:
            squares = sum(answer.squares for answer in answers)
            weights = [answer.weight for answer in answers]
            votes = [weight * sum(weights) / squares for weight in weights] if squares else []
        if not votes:
            return None
        leader, runner_up = (*sorted(votes, reverse=True), 0.0)[:2]
        return len(new) if leader_confidence(leader, runner_up) >= self.confidence else None


def _samples(context: Context) -> int:
    """How many items were drawn by now, but for those whose check failed; ballots that came with no record of a round
    were too."""
    current = context.last
    checks = [round.checks or round.items for round in context.rounds if round.source == "generator"]
    checks += [] if current is None else [current.verification.checks or current.proposal.items]
    drawn = sum(
        getattr(check, "verdict", "") not in ("error", "timeout") for block in checks for check in block
    )
    return max(drawn, len(context.held))


class SureMajority:
    """Stops a vote when its leader is, with an error of at most α, the answer that the generator gives most often.

    The error is the probability that the task is ever stopped with another answer, however often the vote is looked
    at and whatever the number of answers. It asks that the ballots be independent draws of one distribution (the
    generator samples at fixed settings, and does not read what came before), and is about the generator alone: its
    most frequent answer may be wrong. Where the two likeliest answers are nearly as likely it does not stop, and with
    them equal it never should; say with a budget, or `any_of` with `rounds`, how long to go on. `Majority` beside it
    chooses the leader.

    *Why it holds.* Take any answer b, and bet against "b is the most likely answer" with a capital of 1. Before each
    ballot x let a be the leader so far among the answers other than b. For θ in [½, 1] the capital is multiplied by 2θ
    when x = a, by 2(1 − θ) when x = b, and stays when x is another. If b is the most likely, then p_a ≤ p_b, so

        E[factor] = 1 + (2θ − 1)(p_a − p_b) ≤ 1,

    whichever a the past made the leader, and the capital is a supermartingale. So is its mean over θ with the density
    2 / (π √(θ(1 − θ))) on [½, 1] (Jeffreys' prior for a leader), which is, after s ballots that hit the leader of
    their time and f ballots for b, with θ = sin²φ,

        E_b = 2^(s + f) · 4/π ∫ sin^(2s)φ cos^(2f)φ dφ  over [π/4, π/2].

    By Ville's inequality P(E_b ≥ 1/α at any time) ≤ α. The rule stops when E_b ≥ 1/α for every b but the leader, those
    that nobody has voted for yet included. To stop with a wrong answer it must have rejected the most likely one, a
    single b fixed beforehand; so nothing is lost to the number of answers. Seven ballots for one answer and none
    for another are enough at α = .05.

    Args:
        alpha: the largest probability of stopping with another answer than the most likely.
        field: as for `Majority`.

    References:
        Ville, "Étude critique de la notion de collectif" (1939); Robbins, "Statistical methods related to the law of
        the iterated logarithm" (1970), for mixtures; Ramdas et al., "Game-theoretic statistics and safe anytime-valid
        inference", arXiv:2210.01948, for bets chosen by the past.
    """

    def __init__(self, alpha: float = 0.05, field: str | None = "answer") -> None:
        self.alpha = between("alpha", alpha, 0, 1, open_below=True, open_above=True)
        self.field = field

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Look at the ballots held by now, in their order."""
        votes = [vote for entry in context.held if (vote := vote_of(entry.value, self.field)) is not None]
        *_, evidence = (-np.inf, *leader_evidence(votes))
        return len(new) if evidence >= -np.log(self.alpha) else None


class FirstStop:
    """Stops when any of several stopping rules does, at the earliest of their cuts.

    Args:
        rules: the stopping rules.
    """

    def __init__(self, rules: Sequence[Done]) -> None:
        if not rules:
            raise ConfigError("rules is empty; at least one is needed", path="rules")
        self.rules = rules

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Ask each stopping rule, and stop at the earliest cut."""
        return earliest_cut(self.rules, context, new)


def leader_confidence(leader_votes: float, rival_votes: float) -> float:
    """P(Beta(v₁ + 1, v₂ + 1) > ½): the chance that the leader's true share among the first two is the larger one.

    By Gauss–Legendre quadrature of x^v₁ (1 − x)^v₂ on either side of ½, exact for whole votes up to 255 in all.
    """
    upper = 0.75 + 0.25 * _NODES  # the nodes on [½, 1]; mirrored, on [0, ½]
    logs = [leader_votes * np.log(x) + rival_votes * np.log1p(-x) for x in (upper, 1 - upper)]
    top = max(float(log.max()) for log in logs)
    over, under = (float(_WEIGHTS @ np.exp(log - top)) for log in logs)
    return over / (over + under)


def leader_evidence(votes: Iterable[Hashable]) -> Iterator[float]:
    """After each vote log E_b of the rival b that is least refuted: how sure it is that the leader is the most likely
    answer. See `SureMajority`.

    Args:
        votes: in the order in which they were cast.
    """
    votes_for: Counter[Hashable] = Counter()  # by first votes: of equals the earliest leads
    hits: Counter[Hashable] = Counter()  # for each answer b, the votes for the leader among the others
    unseen = 0  # the same for an answer that nobody has voted for
    against: Counter[Hashable] = Counter()  # for each answer b, its votes since there was another
    for vote in votes:
        leader, runner_up = ([answer for answer, _ in votes_for.most_common(2)] + [None, None])[:2]
        if vote not in votes_for:
            hits[vote] = unseen
        if votes_for:
            unseen += vote == leader
            for answer in votes_for:
                hits[answer] += vote == (runner_up if answer == leader else leader)
            against[vote] += vote != leader or runner_up is not None
        votes_for[vote] += 1
        new_leader = max(votes_for, key=votes_for.__getitem__)
        rivals = [log_capital(hits[answer], against[answer]) for answer in votes_for if answer != new_leader]
        yield min([*rivals, log_capital(unseen, 0)])


@lru_cache(maxsize=2**14)
def log_capital(hits: int, against: int) -> float:
    """log E_b of `SureMajority`, by Gauss–Legendre quadrature on pieces about as narrow as its peak may be.

    Args:
        hits: s, the ballots that hit the leader of their time.
        against: f, the ballots for b.
    """
    n = hits + against
    pieces = np.linspace(np.pi / 4, np.pi / 2, 2 + int(np.sqrt(n) / 16))
    low, width = pieces[:-1, None], np.diff(pieces)[:, None]
    angles = low + width * (_NODES + 1) / 2
    logs = hits * np.log(2 * np.sin(angles) ** 2) + against * np.log(2 * np.cos(angles) ** 2)
    top = float(logs.max())
    return top + float(np.log(4 / np.pi * np.sum(width / 2 * _WEIGHTS * np.exp(logs - top))))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)
