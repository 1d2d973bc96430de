"""A rule whose decisions bring summaries of the drafted tokens along, for the record: `records: {tokens: summary}`.

The blocks of a batch are summarised together, in one pass over their rows. On a device that is started before the rule
decides, and copied to the host without being waited for: the rule's own transfer comes after it on the stream, so that
a round still has one synchronisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from array_api_compat import device

from draftverify.arrays import at_hand, floats, host_to, on_host, one_hot, positive
from draftverify.errors import ConfigError
from draftverify.protocols import AcceptanceRule, DecidesMany
from draftverify.randomness import Draws, array_namespace
from draftverify.token_summary import FIGURES, TOP, pack_summaries
from draftverify.traits import RuleTraits, offers, traits_of
from draftverify.values import Array, Context, Decision, Proposal, Verification


class Summarised:
    """Decides as another rule does; `decision.tokens` says of each drafted token what `TokenSummary` holds.

    Where a verification came without distributions (a person's word, a trusted fallback's) nothing is said.

    Args:
        rule: one that reads the target's distributions, and brings what it decides of them to the host.

    Raises:
        ConfigError: it does not read them.
    """

    def __init__(self, rule: AcceptanceRule) -> None:
        if "target" not in traits_of(rule, RuleTraits).needs:
            raise ConfigError(
                f"{type(rule).__name__} does not read the target's distributions, so that there is nothing to summarise"
            )
        self.rule = rule
        self.__wrapped__ = rule  # whose name and identity it has: it decides alike

    def __getattr__(self, name: str) -> Any:
        if name == "rule" or name.startswith("__"):
            raise AttributeError(name)  # of a copy that is being made
        return getattr(self.rule, name)

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Decide as the rule does, with the block's summaries."""
        return self.decide_many((context,), (proposal,), (verification,), (rng,))[0]

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        """Decide as the rule does, with the blocks' summaries."""
        blocks = [(o, v) for o, v in zip(proposals, verifications, strict=True) if _measurable(o, v)]
        started = _Summaries(blocks) if blocks else None
        if offers(self.rule, DecidesMany):
            decisions = list(self.rule.decide_many(contexts, proposals, verifications, rngs))
        else:
            calls = zip(contexts, proposals, verifications, rngs, strict=True)
            decisions = [self.rule.decide(*arguments) for arguments in calls]
        if started is None:
            return decisions
        packed = iter(started.packed())
        return [
            msgspec.structs.replace(decision, tokens=next(packed)) if _measurable(o, v) else decision
            for decision, o, v in zip(decisions, proposals, verifications, strict=True)
        ]


def _measurable(proposal: Proposal, verification: Verification) -> bool:
    """Whether there is a drafted token and what it can be compared with; what does not fit is the rule's to refuse."""
    evidence, q, items = verification.evidence, proposal.law.q, proposal.items
    if not len(items) or evidence is None or evidence.target is None:
        return False
    size = evidence.target.shape[-1]
    in_vocabulary = type(items) is not tuple or all(
        isinstance(item, int) and 0 <= item < size for item in items
    )
    return in_vocabulary and (q is None or q.shape[-1] == size)


class _Summaries:
    """Summaries of some blocks, under way: on the host block by block, on a device all in one array."""

    def __init__(self, blocks: Sequence[tuple[Proposal, Verification]]) -> None:
        self._lengths = [len(proposal.items) for proposal, _ in blocks]
        rows = [_rows(proposal, verification) for proposal, verification in blocks]
        p = rows[0][0]
        if on_host(p):
            self._found = [_measured(*row) for row in rows]
        else:
            columns = map(array_namespace(p).concat, zip(*rows, strict=True))
            self._found = [_measured(*columns).to("cpu", non_blocking=True)]

    def packed(self) -> list[bytes]:
        """The summaries of each block, packed."""
        summaries = np.concatenate([np.asarray(part) for part in self._found])
        k = (summaries.shape[-1] - len(FIGURES)) // 2
        ends = np.cumsum(self._lengths)[:-1]
        return [
            pack_summaries(*np.split(part, [len(FIGURES), len(FIGURES) + k], axis=-1))
            for part in np.split(summaries, ends)
        ]


def _rows(proposal: Proposal, verification: Verification) -> tuple[Array, ...]:
    """What is measured of a block's n items, in the library and on the device of the target's rows.

    Returns:
        p and q [n, V], the row of each item's parent; the items [n]; and the largest entries of the rows [n], at
        temperature 1 where they were brought.
    """
    evidence, law = verification.evidence, proposal.law
    assert evidence is not None
    p = at_hand(floats(at_hand(evidence.target)))
    xp = array_namespace(p)
    at = host_to(p, np.asarray(proposal.parents, dtype=np.int64) + 1)
    items = xp.astype(at_hand(host_to(p, proposal.items), p), xp.int64)
    p = p[at, :]
    q = one_hot(items, p) if law.q is None else at_hand(floats(at_hand(law.q)), p)[at, :]
    maxima = [
        xp.max(rows, axis=-1) if raw is None else xp.astype(at_hand(raw, p)[at], rows.dtype)
        for rows, raw in ((p, evidence.raw_maxima), (q, law.raw_maxima))
    ]
    return p, q, items, *maxima


def _measured(p: Array, q: Array, items: Array, p_max: Array, q_max: Array) -> Array:
    """[n, 7 + 2k] float64: the figures, then the likeliest tokens, then their probabilities."""
    xp = array_namespace(p)
    at, k = (xp.arange(p.shape[0], device=device(p)), items), min(TOP, p.shape[-1])
    tv = xp.sum(positive(p - q), axis=-1, dtype=xp.float64)
    safe = xp.where(p > 0, p, xp.ones_like(p))
    entropy = -xp.sum(safe * xp.log(safe), axis=-1, dtype=xp.float64)
    ids, shares = _likeliest(p, k)
    tail = 1 - xp.sum(shares, axis=-1, dtype=xp.float64)
    tail = xp.where(tail > 0, tail, xp.zeros_like(tail))
    figures = [p[at], q[at], tv, p_max, q_max, entropy, tail]
    columns = [xp.astype(column, xp.float64)[:, None] for column in figures]
    return xp.concat([*columns, xp.astype(ids, xp.float64), xp.astype(shares, xp.float64)], axis=-1)


def _likeliest(p: Array, k: int) -> tuple[Array, Array]:
    """[n, k], the likeliest tokens, and their probabilities, the largest first."""
    if not isinstance(p, np.ndarray):  # torch's own: a sort of the whole vocabulary costs many times as much
        shares, ids = p.topk(k, dim=-1)
        return ids, shares
    some = np.argpartition(p, p.shape[-1] - k, axis=-1)[:, -k:]
    order = np.lexsort((some, -np.take_along_axis(p, some, axis=-1)), axis=-1)
    ids = np.take_along_axis(some, order, axis=-1)
    return ids, np.take_along_axis(p, ids, axis=-1)
