"""The blocks of many sessions judged in one pass: what all rules on samples share.

A single session is a batch of one. On a device only the end of a round comes to the host, in one transfer. On the host
large batches are judged in parts whose rows a processor's cache has room for. Items are token ids: integers, or a
one-dimensional integer array that stays on its device. Random numbers: item i is judged with draw 0 at position i;
the splice, one a round, has draw 1 at position 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from draftverify.arrays import at_hand, host_to, mass, on_host, stack, together
from draftverify.engine.fields import are_integers
from draftverify.errors import ContractError, shown
from draftverify.randomness import Draws, array_namespace, inverse_cdf, uniforms
from draftverify.traits import RuleTraits
from draftverify.values import GIVEN, Array, Context, Decision, LawKind, Proposal, Verification

NO_P, NO_Q = -1, -2
"""What stands for an item that could not be drawn, since the target's row, or the generator's, is no distribution."""

SLACK = 0.01
"""How far from 1 a row may sum: rounded to bfloat16 its sum may be .004 away."""


class BatchRule:
    """A rule on samples.

    Attributes:
        at_once: how many numbers the rows of blocks that are judged together on the host may have, a row of each.
    """

    at_once: ClassVar[int] = 1 << 18

    @property
    def traits(self) -> RuleTraits:
        """That the rule reads the target's distributions."""
        return RuleTraits(needs={"target"})

    def decide(
        self, context: Context, proposal: Proposal, verification: Verification, rng: Draws
    ) -> Decision:
        """Decide on one block."""
        return self.decide_many((context,), (proposal,), (verification,), (rng,))[0]

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        """Decide on the blocks of many sessions in one pass."""
        target, size = _target_of(verifications[0]), len(proposals)
        if on_host(target):
            size = max(1, self.at_once // target.shape[-1])
        parts = [slice(start, start + size) for start in range(0, len(proposals), size)]
        return [
            decision for at in parts for decision in self.judge(proposals[at], verifications[at], rngs[at])
        ]

    def judge(
        self, proposals: Sequence[Proposal], verifications: Sequence[Verification], rngs: Sequence[Draws]
    ) -> list[Decision]:
        """Decide on some of the blocks."""
        raise NotImplementedError


def _target_of(verification: Verification) -> Array:
    if verification.evidence is None or verification.evidence.target is None:
        raise ContractError(
            "the rule needs the target's distributions; the verification has no evidence.target"
        )
    return verification.evidence.target


def target_rows(verifications: Sequence[Verification], most: int | None = None) -> Array:
    """[batch, rows, V], p of each block, of `most` rows at most.

    Raises:
        ContractError: when there are none.
    """
    rows = [_target_of(verification) for verification in verifications]
    return together(rows, [v.evidence.place if v.evidence else None for v in verifications], most)


def drafted_from(proposals: Sequence[Proposal], row_of_given: Callable[[int], Array], p: Array) -> Array:
    """[batch, rows, V], q of each block; of items that were given, or are none, `row_of_given(b)`."""
    laws = [proposal.law if len(proposal.items) else GIVEN for proposal in proposals]
    rows = [row_of_given(b) if law.q is None else law.q for b, law in enumerate(laws)]
    return together(rows, [law.place for law in laws], like=p)


def checked_ids(proposals: Sequence[Proposal], p: Array, laws: Set[LawKind] | None) -> Array:
    """The blocks' items [batch, n] int64, zero where there are none; n is at least 1.

    They lie on the host, for `all_to`; where some came as arrays of the device of p [..., V], there.

    Raises:
        ContractError: for a law that is not one of `laws` (None: any is), another vocabulary, an item outside it, or
            one that is no whole number.
    """
    xp, size = array_namespace(p), p.shape[-1]
    # Blocks of one law object, as all those of law "given" are, pass or fail together; an empty one is always good.
    for law in {id(o.law): o.law for o in proposals if len(o.items)}.values():
        if laws is not None and law.kind not in laws:
            raise ContractError(f"a block of law {law.kind!r} came to a rule that takes {sorted(laws)}")
        if law.q is not None and law.q.shape[-1] != size:
            raise ContractError(
                f"q is over {law.q.shape[-1]} items, the target over {size}; they must share a vocabulary"
            )
    lengths = [len(proposal.items) for proposal in proposals]
    for proposal in proposals:
        if not _are_ids(proposal.items):  # NumPy would make one of a text, and of a fraction
            raise ContractError(f"the rule judges token ids, whole numbers; {shown(proposal.items)} are none")
    n = max(1, *lengths)
    if any(hasattr(proposal.items, "shape") for proposal in proposals):
        ids = stack([xp.astype(at_hand(host_to(p, o.items)), xp.int64) for o in proposals], n)
        if not on_host(ids):
            return ids
        host = np.asarray(ids)
    elif len(lengths) == 1 and lengths[0]:  # a block by itself pays for every call of NumPy
        ids = host = np.fromiter(proposals[0].items, np.int64, n)[None, :]
    else:
        ids = host = np.zeros((len(lengths), n), dtype=np.int64)
        filled = np.arange(n) < np.asarray(lengths)[:, None]
        host[filled] = np.fromiter(chain.from_iterable(o.items for o in proposals), np.int64, sum(lengths))
    # A negative index would silently be another item; one past the end would stop a device for good. Looking at items
    # on a device would cost a transfer, so those are the generator's word.
    if not 0 <= host.min() <= host.max() < size:
        bad = host[(host < 0) | (host >= size)]
        raise ContractError(f"items {bad.tolist()} are not all in the target's vocabulary of {size}")
    return ids


def _are_ids(items: Any) -> bool:
    if hasattr(items, "shape"):
        return not len(items) or "int" in str(items.dtype)
    return are_integers(items) or all(type(item) is int or isinstance(item, np.integer) for item in items)


def numbers(rngs: Sequence[Draws], n: int) -> tuple[Array, Array]:
    """Uniforms on the host: [batch, n], draw 0 at each position, and [batch], draw 1 at position 0, for the splice."""
    if len(rngs) == 1:  # asked through the stream itself, which the audit follows
        return np.asarray([rngs[0].uniforms(range(n))]), np.asarray([rngs[0].uniform(0, 1)])
    keys = np.fromiter(chain.from_iterable([rng.key for rng in rngs]), np.int64, 2 * len(rngs))
    rounds = np.asarray([rng.round for rng in rngs])
    draws = uniforms(keys.reshape(-1, 2), rounds, np.asarray([*range(n), 0]), np.asarray([0] * n + [1]))
    return draws[:, :n], draws[:, n]


def sample(residual: Array, p: Array, v: Array, to_bonus: Array | bool = False) -> Array:
    """One item [batch] from each row of the residual, or of p where a block was kept whole; NO_P where p is no
    distribution.

    Args:
        residual: [batch, V], what replaces a refused item, up to a factor; the caller gives it away. p itself where
            all blocks were kept whole.
        p: [batch, V], the rows where the blocks stopped: what the residual was made of, and the bonus's distribution.
        v: [batch], uniforms.
        to_bonus: [batch], where a block was kept whole.
    """
    xp = array_namespace(p)
    if residual is p:
        return sound(inverse_cdf(p, host_to(p, v)), p)
    fine, total = distributions(p), xp.sum(residual, axis=-1)
    # p = q but for rounding can end in a rejection with nothing left to draw from; p itself is right there.
    to_bonus = to_bonus | (total == 0)
    if not on_host(p):
        residual = xp.where(to_bonus[:, None], p, residual)
        total = xp.sum(residual, axis=-1)
    elif xp.any(to_bonus):
        at = xp.nonzero(to_bonus)[0]
        residual[at, :] = bonus = p[at, :]
        total[at] = xp.sum(bonus, axis=-1)
    fine = fine & (total > 0) & (total < float("inf"))
    return xp.where(fine, inverse_cdf(residual, host_to(p, v)), NO_P)


def distributions(rows: Array) -> Array:
    """[...], whether each row [..., V] sums to 1, but for rounding, and has nothing negative."""
    xp = array_namespace(rows)
    return (xp.abs(mass(rows) - 1) <= SLACK) & (xp.min(rows, axis=-1) >= 0)  # neither is true of a NaN


def sound(item: Array, p: Array) -> Array:
    """The item [batch] that the rows p [batch, V] decided on; NO_P where one is no distribution."""
    return array_namespace(item).where(distributions(p), item, NO_P)


def blamed(item: Array, q: Array, judged: Array) -> Array:
    """The item [batch]; NO_Q where a block was judged [batch] by a row q [batch, V] that is no distribution.

    One row of each block is looked at, which its splice reads anyway: that of the items that were judged last.
    """
    return array_namespace(q).where(judged & ~distributions(q), NO_Q, item)


def no_distribution(item: int, of_p: int, of_q: int) -> ContractError:
    """The error for an item NO_P or NO_Q: row `of_p` of the target, or row `of_q` of q, cannot be drawn from."""
    row, must = f"row {of_q} of the generator's q", "q must be what the items were drawn from"
    if item == NO_P:
        row = f"row {of_p} of the verifier's target"
        must = "p must be probabilities, normalised after any cut"
    fault = "is no distribution: it does not sum to 1, or holds a negative number, nan or inf"
    return ContractError(f"{row} {fault}; {must}")
