"""Ballots: held items counted as votes, for the rules that elect one and the stopping rules that watch the vote."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import msgspec

from draftverify.values import Held


class AnswerVotes(msgspec.Struct, frozen=True):
    """One answer's votes.

    Args:
        ballots: how many.
        weight: the sum of their scores, or of what these say as log-odds; a ballot without a score weighs 1.
        squares: the sum of the squares of their weights.
        best: the highest of their scores; None where none has one.
        value: the earliest ballot's item.
    """

    ballots: int
    weight: float
    squares: float
    best: float | None
    value: Any


def count(held: Iterable[Held], field: str | None = "answer", *, log_odds: bool = False) -> list[AnswerVotes]:
    """Count the ballots, the answers in the order of their earliest ballot; an item without an answer casts none.

    Args:
        held: the ballots, `context.held`.
        field: as for `vote_of`.
        log_odds: a ballot weighs the probability that its score says as log-odds in nats, not the score.
    """
    ballots: dict[Hashable, list[Held]] = {}
    for entry in held:
        vote = vote_of(entry.value, field)
        if vote is not None:
            ballots.setdefault(vote, []).append(entry)
    return [_counted(entries, log_odds) for entries in ballots.values()]


def vote_of(item: Any, field: str | None = "answer") -> Hashable | None:
    """What an item votes for, as something that equals the votes for the same; None where it has no answer.

    Args:
        item: what is held.
        field: an item that is a mapping with this key votes by its value; another, or any when None, by the whole.
    """
    vote = item[field] if field is not None and isinstance(item, Mapping) and field in item else item
    # Numbers and texts vote as themselves; lists and objects, which Python cannot hash, by what they say; so do True
    # and False, which Python takes for 1 and 0.
    by_content = isinstance(vote, (list, dict, bool))
    key: Hashable = msgspec.json.encode(vote, order="deterministic") if by_content else vote
    return key


def _counted(entries: list[Held], log_odds: bool) -> AnswerVotes:
    scores = [entry.score for entry in entries if entry.score is not None]
    weights = [
        1.0 if entry.score is None else _probability(entry.score) if log_odds else entry.score
        for entry in entries
    ]
    squares = sum(weight * weight for weight in weights)
    return AnswerVotes(len(entries), sum(weights), squares, max(scores, default=None), entries[0].value)


def _probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(min(-log_odds, 700.0)))  # beyond, no ballot would weigh anything
