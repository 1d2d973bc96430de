"""Chains in a batch: the blocks put into one array each of p, q and items, and what was decided brought to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from draftverify.arrays import all_to, at_hand, leading, on_host, one_hot, row_of, stack
from draftverify.errors import ContractError
from draftverify.randomness import Draws, array_namespace
from draftverify.rules.batch import (
    BatchRule,
    blamed,
    checked_ids,
    drafted_from,
    no_distribution,
    numbers,
    sample,
    target_rows,
)
from draftverify.traits import RuleTraits
from draftverify.values import Array, Decision, Proposal, Refusal, Verification, prefix


class Blocks(NamedTuple):
    """A batch of chains, padded to the longest: n items of V possible ones.

    Args:
        p: [batch, n + 1, V], the target's rows.
        q: [batch, n, V], the rows the items were drawn from; None when each item was given: all mass on it.
        items: [batch, n] int64.
        places: [batch, 1] and [n], the indices of all blocks and of all items.
        lengths: the true lengths, on the host.
        ends: [batch], the same.
        p_max, q_max: [batch, n + 1] and [batch, n], raw maxima; None unless asked for.
        away: whether items came as an array, which may lie on a device.
        draws: the rule's.
    """

    p: Array
    q: Array | None
    items: Array
    places: tuple[Array, Array]
    lengths: list[int]
    ends: Array
    p_max: Array = None
    q_max: Array = None
    away: bool = False
    draws: tuple[Array, ...] = ()

    def of_items(self) -> tuple[Array, Array]:
        """[batch, n] each, p(x) and q(x) of the drafted items."""
        drafted = (*self.places, self.items)
        p_x = self.p[drafted]
        return p_x, array_namespace(p_x).ones_like(p_x) if self.q is None else self.q[drafted]

    def rows(self, b: Array, i: Array) -> tuple[Array, ...]:
        """What a law reads at item i [...] of block b [...]: p and q [..., V], and the raw maxima where asked for.

        After the last item there is no q, and the last one's stands there.
        """
        drafted = array_namespace(i).where((i > 0) & (i == self.ends[b]), i - 1, i)
        q = one_hot(self.items[b, drafted], self.p) if self.q is None else row_of(self.q, b, drafted)
        law_input = (row_of(self.p, b, i), q)
        return law_input if self.p_max is None else (*law_input, self.p_max[b, i], self.q_max[b, drafted])

    def steps(self, n: int) -> list[slice]:
        """Which of n positions are judged together: on a device all; on the host one after the other, so that what
        comes after a refused item costs nothing."""
        return [slice(i, i + 1) for i in range(n)] if on_host(self.p) else [slice(0, n)]

    def at(self, step: slice) -> tuple[Array, ...]:
        """What a law reads at some positions: p and q [batch, positions, V], and the raw maxima where asked for."""
        q = one_hot(self.items[:, step], self.p) if self.q is None else self.q[:, step]
        law_input = (self.p[:, step], q)
        return law_input if self.p_max is None else (*law_input, self.p_max[:, step], self.q_max[:, step])

    def leading(self, accepted: Array) -> Array:
        """[batch], how many of each block's items are accepted [batch, n] before the first that is not."""
        if min(self.lengths) < self.items.shape[1]:
            accepted = accepted & (self.places[1] < self.ends[:, None])
        return leading(accepted)

    def spliced(
        self, lengths: Array, residual: Callable[..., Array], v: Array, drift: Array | None = None
    ) -> list[Decision]:
        """Draw what follows the kept items: from the residual, and after a block that was kept whole from p.

        Args:
            lengths: [batch], how many items each keeps.
            residual: what replaces the refused items [batch, V], from what a law reads where the blocks stopped.
            v: [batch], uniforms.
            drift: [batch, n + 1]; None of a rule that emits p, or does not measure it.
        """
        xp, entire = array_namespace(lengths), lengths == self.ends
        p, q, *maxima = self.rows(self.places[0][:, 0], lengths)
        spared = on_host(p) and xp.all(entire)
        item = sample(p if spared else residual(p, q, *maxima), p, v, entire)
        if self.q is not None:
            item = blamed(item, q, self.ends > 0)
        return self.decided(lengths, item, "improbable", drift)

    def decided(self, lengths: Array, item: Array, reason: str, drift: Array | None = None) -> list[Decision]:
        """The round's end on the host, in one transfer.

        Args:
            lengths: [batch], how many items each keeps.
            item: [batch], the splice; NO_P or NO_Q where there is no distribution to draw it from.
            reason: why an item is refused.
            drift: [batch, n + 1]; None of a rule that emits p, or does not measure it.

        Raises:
            ContractError: where there is none.
        """
        xp = array_namespace(item)
        columns = [lengths[None, :], item[None, :], *([self.items.T] if self.away else [])]
        n = self.items.shape[1]
        if drift is not None:  # float64 holds every index exactly
            columns = [xp.astype(column, xp.float64) for column in (*columns, drift.T)]
        refusals = [(Refusal(index, reason),) for index in range(n)]
        decisions = []
        for length, end, splice, *columns_left in zip(
            self.lengths, *xp.concat(columns).tolist(), strict=True
        ):
            keep, value = int(end), int(splice)
            if value < 0:
                raise no_distribution(value, keep, min(keep, length - 1))
            drifts = columns_left[n if self.away else 0 :][: keep + 1]
            decisions.append(
                Decision(
                    kept=prefix(keep),
                    spliced=(value,),
                    refused=() if keep == length else refusals[keep],
                    drift=tuple([min(1.0, tv) for tv in drifts]) if drifts else (),
                    items=tuple(map(int, columns_left[:length])) if self.away else (),
                )
            )
        return decisions


ON_CHAINS = RuleTraits(shapes={"chain"}, laws={"given", "iid"}, needs={"target"})
"""What a rule on chains is, unless it says more."""


class ChainRule(BatchRule):
    """A rule on chains alone.

    Attributes:
        reads_q: whether it reads what the items were drawn from.
        goes_on_plainly: whether what follows an empty block is a sample of p, and no more is said of it.
    """

    reads_q: ClassVar[bool] = True
    goes_on_plainly: bool = False

    @property
    def traits(self) -> RuleTraits:
        """That the rule takes chains, given or drawn."""
        return ON_CHAINS

    def judge(
        self, proposals: Sequence[Proposal], verifications: Sequence[Verification], rngs: Sequence[Draws]
    ) -> list[Decision]:
        if self.goes_on_plainly and not any(len(proposal.items) for proposal in proposals):
            return plain_splices(verifications, rngs)
        return self.judge_chains(self.blocks(proposals, verifications, rngs), rngs)

    def judge_chains(self, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
        """Decide on the chains of a batch."""
        raise NotImplementedError

    def draws(self, p: Array, rngs: Sequence[Draws], n: int) -> tuple[Array, ...]:
        """The numbers that a batch of chains of `n` items with the rows `p` is judged with, on the host."""
        return numbers(rngs, n)

    def blocks(
        self, proposals: Sequence[Proposal], verifications: Sequence[Verification], rngs: Sequence[Draws]
    ) -> Blocks:
        """Put chains into one batch, with what the rule reads of them; what the host knows goes over in one copy.

        Raises:
            ContractError: for a missing target, raw maxima or vocabulary that differ, an item outside the vocabulary,
                or a law that the rule does not take.
        """
        lengths = [len(proposal.items) for proposal in proposals]
        p = target_rows(verifications, max(lengths) + 1)
        ids = checked_ids(proposals, p, self.traits.laws)
        n, q, p_max, q_max = ids.shape[1], None, None, None
        places = np.arange(len(lengths))[:, None], np.arange(n)
        items, of_blocks, of_items, ends, *draws = all_to(p, ids, *places, lengths, *self.draws(p, rngs, n))
        if self.reads_q and any(o.law.q is not None and len(o.items) for o in proposals):
            q = drafted_from(proposals, lambda b: one_hot(items[b, : lengths[b]], p), p)[:, :n]
        if "raw_maxima" in self.traits.needs:
            measured = [(v.evidence.target, v.evidence.raw_maxima) for v in verifications if v.evidence]
            p_max = _maxima(p, measured, [length + 1 for length in lengths], n + 1, "verifier")
            drafted = [(o.law.q, o.law.raw_maxima) for o in proposals]
            q_max = _maxima(p, drafted, lengths, n, "generator")
        away = any(hasattr(proposal.items, "shape") for proposal in proposals)
        return Blocks(p, q, items, (of_blocks, of_items), lengths, ends, p_max, q_max, away, tuple(draws))


def plain_splices(verifications: Sequence[Verification], rngs: Sequence[Draws]) -> list[Decision]:
    """What empty blocks come to: a sample of the row after each context.

    Raises:
        ContractError: there are no rows, or one is no distribution.
    """
    p = target_rows(verifications, 1)[:, 0, :]
    decisions = []
    for value in sample(p, p, numbers(rngs, 0)[1]).tolist():
        if value < 0:
            raise no_distribution(value, 0, 0)
        decisions.append(Decision(spliced=(value,)))
    return decisions


def _maxima(
    p: Array, sources: Sequence[tuple[Array, Array]], lengths: Sequence[int], most: int, part: str
) -> Array:
    """[batch, most], the raw maxima of each block, which came with rows of it."""
    xp, blocks = array_namespace(p), []
    for (rows, maxima), length in zip(sources, lengths, strict=True):
        if length and maxima is None:
            raise ContractError(
                f"the rule compares largest probabilities at temperature 1; the {part} gave no raw_maxima"
            )
        if length and maxima.shape != rows.shape[:1]:
            shape, needed_shape = tuple(maxima.shape), tuple(rows.shape[:1])
            raise ContractError(
                f"the {part}'s raw_maxima have shape {shape}; {needed_shape} is needed, one of each row"
            )
        blocks.append(at_hand(maxima, p)[:length] if length else xp.zeros_like(p[0, 0, :0]))
    return stack(blocks, most)
