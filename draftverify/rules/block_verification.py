"""Block verification: judges a drafted chain as a whole, emits the target's distribution, and never keeps fewer items
in expectation than speculative sampling.

Source: Sun et al., "Block Verification Accelerates Speculative Decoding", arXiv:2403.10444.
"""

from __future__ import annotations

from collections.abc import Sequence

from array_api_compat import array_namespace

from draftverify.randomness import Draws
from draftverify.rules.arrays import host_to, positive
from draftverify.rules.batch import numbers
from draftverify.rules.chains import Blocks, ChainRule
from draftverify.values import Array, Decision

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

    exact = True

    def judge_chains(self, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
        xp, (blocks, places) = array_namespace(batch.p), batch.places
        n, prefixes, lengths = batch.items.shape[1], places + 1, batch.ends[:, None]
        u, v = numbers(rngs, n)
        p_x, q_x = batch.of_items()
        weight = _prefix_weights(p_x, q_x)  # p_1 … p_γ
        inner, following, q = weight[:, :-1], batch.p[:, 1:n], batch.q
        if q is None:  # Q is all on x_{i+1}, which leaves of (p_i·P − Q)₊ the rest of p_i·P
            s = inner * (xp.sum(following, axis=-1) - p_x[:, 1:])
        else:
            s = xp.sum(positive(inner[..., None] * following - q[:, 1:]), axis=-1)
        h_inner = s / xp.where(s > 0, s + 1 - inner, xp.ones_like(s))
        h_inner = xp.concat([h_inner, xp.zeros_like(weight[:, :1])], axis=1)
        h = xp.where(prefixes < lengths, h_inner, xp.where(prefixes == lengths, weight, 0 * weight))
        kept = xp.max(xp.where(host_to(h, u) < h, prefixes, 0 * prefixes), axis=-1)

        p_tau = xp.concat([xp.ones_like(weight[:, :1]), weight], axis=1)[blocks[:, 0], kept]
        bonus, q_row = batch.rows(blocks[:, 0], kept)
        residual = positive(p_tau[:, None] * bonus - q_row)
        return batch.spliced(kept, residual, bonus, v)


def _prefix_weights(p_x: Array, q_x: Array) -> Array:
    """p_1 … p_γ [batch, γ] from the drafted items' probabilities."""
    xp = array_namespace(p_x)
    ratio = p_x / xp.where(q_x > 0, q_x, xp.ones_like(q_x))
    last = one = xp.ones_like(ratio[:, 0])
    weights = []
    for i in range(ratio.shape[1]):
        last = xp.minimum(one, last * ratio[:, i])
        weights.append(last)
    return xp.stack(weights, axis=1)
