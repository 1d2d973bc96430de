"""Block verification: judges a drafted chain as a whole, emits the target's distribution, and never keeps fewer items
in expectation than speculative sampling.

Source: Sun et al., "Block Verification Accelerates Speculative Decoding", arXiv:2403.10444.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from array_api_compat import device

from draftverify.engine.randomness import Draws
from draftverify.rules.laws import positive
from draftverify.rules.sampling import (
    CHAIN_LAWS,
    TARGET,
    Blocks,
    ChainRule,
    blocks,
    host_to,
    numbers,
    one_hot,
    splice,
)
from draftverify.values import Array, Context, Decision, LawKind, Proposal, Verification

__all__ = ["BlockVerification"]


class BlockVerification(ChainRule):
    """Keeps the longest prefix τ whose own draw falls below h_τ; replaces what follows from (p_τ·P − Q)₊, or adds a
    sample of P when all was kept.

    With p₀ = 1, p_i = min(1, p_{i−1}·P(x_i)/Q(x_i)) and S_i = Σ_v (p_i·P(v | x≤i) − Q(v | x≤i))₊:
    h_i = S_i/(S_i + 1 − p_i) inside the block, h_γ = p_γ at its end, τ = max {i : u_i < h_i}.
    Exact: blocks are emitted as the target's.

    References:
        Sun et al., arXiv:2403.10444.
    """

    needs = TARGET
    laws: frozenset[LawKind] = CHAIN_LAWS
    exact = True

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        return _play(blocks(proposals, verifications, self.laws), rngs)


def _play(batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
    xp, p, q, items = batch.xp, batch.p, batch.q, batch.items
    size, n = items.shape
    u, v = numbers(rngs, n)
    b = xp.arange(size, device=device(p))
    if not n:
        return splice(batch, b * 0, p[:, 0], None, v)
    ends = xp.arange(n, device=device(p)) + 1  # the prefix that ends with each item
    lengths = host_to(xp, p, batch.lengths)[:, None]
    drafted = (b[:, None], ends - 1, items)
    p_x = p[drafted]
    weight = _prefix_weights(xp, p_x, None if q is None else q[drafted])
    h = xp.where(ends == lengths, weight, 0 * weight)
    if n > 1:
        inner = weight[:, :-1]
        if q is None:  # Q is all on x_{i+1}, which leaves of (p_i·P − Q)₊ the rest of p_i·P
            left = inner * (xp.sum(p[:, 1:n], axis=-1) - p_x[:, 1:])
        else:
            left = xp.sum(positive(inner[..., None] * p[:, 1:n] - q[:, 1:]), axis=-1)
        chance = left / xp.where(left > 0, left + 1 - inner, xp.ones_like(left))
        h = xp.concat([xp.where(ends[:-1] < lengths, chance, h[:, :-1]), h[:, -1:]], axis=1)
    below = host_to(xp, p, u) < h
    kept = xp.max(xp.where(below, ends, 0 * ends), axis=-1)

    stop = xp.where(kept < n, kept, kept - 1)
    p_row = p[b, kept]
    q_row = one_hot(xp, items[b, stop], p) if q is None else q[b, stop]
    before = xp.concat([xp.ones_like(weight[:, :1]), weight], axis=1)
    residual = positive(before[b, kept][:, None] * p_row - q_row)
    return splice(batch, kept, p_row, residual, v)


def _prefix_weights(xp: Any, p_x: Array, q_x: Array | None) -> Array:
    """p_1 … p_γ [batch, γ] from the drafted items' probabilities; Q(x) = 1 where the items were given."""
    ratio = p_x if q_x is None else p_x / xp.where(q_x > 0, q_x, xp.ones_like(q_x))
    last = one = xp.ones_like(ratio[:, 0])
    weights = []
    for i in range(ratio.shape[1]):
        last = xp.minimum(one, last * ratio[:, i])
        weights.append(last)
    return xp.stack(weights, axis=1)
