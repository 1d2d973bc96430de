"""Sampling from trees whose siblings were drawn without replacement, or were given: emits the target's distribution.

Which test of siblings is right depends on how they were drawn, so each rule on trees takes the laws it is exact for and
no other; `k_seq` is the one for independent draws.

Sources: Chen et al., "Sequoia", arXiv:2402.12374; Miao et al., "SpecInfer", arXiv:2305.09781; EAGLE-2's code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from array_api_compat import device

from draftverify.arrays import leading, mass, on_host, places, positive
from draftverify.randomness import Draws, array_namespace
from draftverify.rules.walk import ON_TREES, TreeRule, walk
from draftverify.values import Array, Decision, Proposal, Verification


class Tree(TreeRule):
    """Sampling from a tree whose siblings were drawn without replacement, or were given.

    Without replacement (Sequoia, SpecInfer): a sibling x is accepted with probability p(x)/q(x); else
    p ← norm((p − q)₊), x is struck from q, and the next is tried. Given (top-k trees, EAGLE-2): accepted with
    probability p(x) among what is left of p; else x is struck from p. Exact: emits the target's distribution.

    References:
        Chen et al., "Sequoia", arXiv:2402.12374; Miao et al., "SpecInfer", arXiv:2305.09781; EAGLE-2's code.
    """

    traits = replace(ON_TREES, laws={"given", "without_replacement"}, exact=True)
    at_once = 1 << 18

    def judge(
        self, proposals: Sequence[Proposal], verifications: Sequence[Verification], rngs: Sequence[Draws]
    ) -> list[Decision]:
        """Walk down from the contexts; blocks of the two laws, which seldom meet in a batch, apart."""
        decisions: dict[int, Decision] = {}
        for siblings in (_given, _without_replacement):
            at = [b for b, o in enumerate(proposals) if (o.law.q is None) == (siblings is _given)]
            if at:
                blocks, verified = [proposals[b] for b in at], [verifications[b] for b in at]
                walked = walk(blocks, verified, [rngs[b] for b in at], self.traits.laws, siblings)
                decisions.update(zip(at, walked, strict=True))
        return [decisions[b] for b in range(len(proposals))]


def _given(p: Array, q: Array, x: Array, tried: Array, u: Array) -> tuple[Array, Array, Array]:
    """Accept x with probability p(x)/Σp, else strike it from p."""
    xp, (m, k) = array_namespace(p), x.shape
    nodes, order = xp.arange(m, device=device(p))[:, None], xp.arange(k, device=device(p))
    struck = (x[:, :, None] == x[:, None, :]) & (order[:, None] > order[None, :]) & tried[:, None, :]
    p_x = xp.astype(p[nodes, x], xp.float64)
    p_x = xp.where(tried & ~xp.any(struck, axis=-1), p_x, xp.zeros_like(p_x))
    remaining = positive(mass(p)[:, None] - (xp.cumulative_sum(p_x, axis=-1) - p_x))
    accepted = leading(u * remaining >= p_x)
    unaccepted = places(accepted == k)
    p = p[unaccepted]  # a copy
    p[nodes[: unaccepted.shape[0]], x[unaccepted]] = 0
    return accepted, unaccepted, p


def _without_replacement(p: Array, q: Array, x: Array, tried: Array, u: Array) -> tuple[Array, Array, Array]:
    """Accept x with probability p(x)/q(x), else p ← (p − q)₊ and strike x from q, of masses Σp and Σq each."""
    xp, host = array_namespace(p), on_host(p)
    m, k = x.shape
    open_nodes = nodes = xp.arange(m, device=device(p))
    accepted = xp.full(m, k, dtype=xp.int64, device=device(p))
    for j in range(k):
        of_p, of_q = mass(p), mass(q)
        drafted = nodes[: open_nodes.shape[0]], x[open_nodes, j]
        p_x, q_x = p[drafted], q[drafted]
        # Without mass there is nothing left to draw a sibling from, but for rounding.
        trying = tried[open_nodes, j] & (of_p * of_q > 0)
        if not host:
            trying = trying & (accepted == k)
        hit = trying & (u[open_nodes, j] * (q_x * of_p) < p_x * of_q)
        miss = trying & ~hit
        if host:
            missed = xp.nonzero(~hit)[0]
            if missed.shape[0] < open_nodes.shape[0]:
                accepted[open_nodes[hit]] = j
                open_nodes, p, q, miss, of_p, of_q = (a[missed] for a in (open_nodes, p, q, miss, of_p, of_q))
            if not xp.any(miss):
                break
            drafted = nodes[: open_nodes.shape[0]], x[open_nodes, j]
        else:
            accepted = xp.where(hit, xp.full_like(accepted, j), accepted)
        # q is divided by its mass before it is scaled: Σp/Σq may be more than single precision holds.
        of_p = xp.astype(xp.where(miss, of_p, xp.zeros_like(of_p)), p.dtype)
        q = q / xp.astype(xp.where(of_q > 0, of_q, xp.ones_like(of_q)), q.dtype)[:, None]
        p = positive(p - of_p[:, None] * q)
        q[drafted] = xp.where(miss, xp.zeros_like(q[drafted]), q[drafted])
    return accepted, open_nodes, p
