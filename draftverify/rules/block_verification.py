"""Block verification: judges a drafted chain as a whole, emits the target's distribution, and never keeps fewer items
in expectation than speculative sampling.

Source: Sun et al., "Block Verification Accelerates Speculative Decoding", arXiv:2403.10444.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from draftverify.arrays import mass, places, positive
from draftverify.randomness import Draws, array_namespace
from draftverify.rules.chains import ON_CHAINS, Blocks, ChainRule
from draftverify.values import Array, Decision


class BlockVerification(ChainRule):
    """Keeps the longest prefix τ whose own draw falls below h_τ; replaces what follows from (p_τ·P − Q)₊, or adds a
    sample of P when all was kept.

    With p₀ = 1, p_i = min(1, p_{i−1}·P(x_i)/Q(x_i)) and S_i = Σ_v (p_i·P(v | x≤i) − Q(v | x≤i))₊:
    h_i = S_i/(S_i + 1 − p_i) inside the block, h_γ = p_γ at its end, τ = max {i : u_i < h_i}.
    Exact: blocks are emitted as the target's.

    References:
        Sun et al., arXiv:2403.10444.
    """

    traits = replace(ON_CHAINS, exact=True)
    goes_on_plainly = True

    def judge_chains(self, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
        """Keep the longest accepted prefix, which is looked for from the end."""
        xp, n, ends = array_namespace(batch.p), batch.items.shape[1], batch.ends
        (u, v), (p_x, q_x) = batch.draws, batch.of_items()
        weight = _prefix_weights(p_x, q_x)  # p_0 … p_γ
        block = batch.places[0][:, 0]
        final = xp.where(ends > 0, ends - 1, ends)
        lengths = xp.where((ends > 0) & (u[block, final] < weight[block, ends]), ends, 0 * ends)
        for i in range(n - 1, 0, -1):
            hopeful = (lengths == 0) & (i < ends) & (u[:, i - 1] < weight[:, i])  # h_i ≤ p_i
            at = places(hopeful)
            if at.shape[0]:
                p_i = weight[at, i]
                s = _left(batch, at, i, p_i)
                accepted = hopeful[at] & (u[at, i - 1] * (s + (1 - p_i)) < s)
                lengths[at] = xp.where(accepted, i, lengths[at])
        p_tau = xp.astype(weight[block, lengths], batch.p.dtype)[:, None]
        return batch.spliced(lengths, lambda p, q: positive(p_tau * p - q), v)


def _left(batch: Blocks, at: Array, i: int, weight: Array) -> Array:
    """S_i [m] of some blocks, from their p_i [m]."""
    xp = array_namespace(weight)
    p, q = batch.rows(at, xp.full_like(at, i))
    return mass(positive(xp.astype(weight, p.dtype)[:, None] * p - q))


def _prefix_weights(p_x: Array, q_x: Array) -> Array:
    """p_0 … p_γ [batch, γ + 1] in double precision from the drafted items' probabilities."""
    xp = array_namespace(p_x)
    ratio = xp.astype(p_x, xp.float64) / xp.where(q_x > 0, q_x, xp.ones_like(q_x))
    weight = ones = xp.ones_like(ratio[:, 0])
    weights = [ones]
    for i in range(ratio.shape[1]):
        weight = xp.minimum(ones, weight * ratio[:, i])
        weights.append(weight)
    return xp.stack(weights, axis=1)
