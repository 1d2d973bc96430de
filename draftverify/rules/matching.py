"""Rules that keep drafted items while they are the ones that the target would have emitted: its argmax, or a draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from array_api_compat import array_namespace

from draftverify.randomness import Draws, inverse_cdf
from draftverify.rules.arrays import host_to, positive, top
from draftverify.rules.batch import numbers, sound
from draftverify.rules.chains import Blocks, ChainRule
from draftverify.values import Array, Decision, LawKind

__all__ = ["GreedyMatch", "TokenMatch"]


class _Match(ChainRule):
    """Keeps each block's items while they are the wanted ones, then splices the wanted one."""

    reads_q: ClassVar[bool] = False
    at_once: ClassVar[int] = 1 << 22  # nothing large is made of the rows
    laws: frozenset[LawKind] = frozenset({"given", "iid", "without_replacement"})

    def match(self, batch: Blocks, wanted: Array, reason: str, drift: Array | None = None) -> list[Decision]:
        """Decide by the wanted items [batch, n + 1]."""
        kept = batch.leading(wanted[:, : batch.items.shape[1]] == batch.items)
        end = batch.places[0][:, 0], kept
        total = array_namespace(wanted).sum(batch.p[end], axis=-1)
        return batch.decided(kept, sound(wanted[end], total), reason, drift)


class GreedyMatch(_Match):
    """Keeps drafted items while they are the target's argmax (the lowest index of equals), then splices the argmax.

    Emits what the target emits at temperature 0, whatever temperature its distributions were made at, so it is exact at
    temperature 0 alone. Draws nothing. Bound: TV(π, p) = 1 − max p at each value, whatever was drafted.
    """

    exact = False  # at a temperature above 0 it does not emit p

    def judge_chains(self, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
        wanted, likely = top(batch.p)
        xp = array_namespace(likely)
        return self.match(batch, wanted, "not the argmax", positive(1 - xp.astype(likely, xp.float64)))


class TokenMatch(_Match):
    """Draws y from p at every position, keeps drafted items while x = y, then splices y.

    Exact: emits the target's distribution for any generator; keeps less than speculative sampling, Σ p·q, and the same
    for a given item. The fallback of transformers for drafts without probabilities.
    """

    exact = True

    def judge_chains(self, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
        u, _ = numbers(rngs, batch.p.shape[1])
        return self.match(batch, inverse_cdf(batch.p, host_to(batch.p, u)), "another item was drawn")
