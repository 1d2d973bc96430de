"""k-SEQ: sampling from trees whose siblings were drawn independently; emits the target's distribution.

Source: Sun et al., "SpecTr", arXiv:2310.15141.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from array_api_compat import device

from draftverify.arrays import leading, mass, on_host, places, positive
from draftverify.randomness import Draws, array_namespace
from draftverify.rules.walk import ON_TREES, TreeRule, walk
from draftverify.values import Array, Decision, Proposal, Verification

STEPS = 20
"""Halvings of [1, k] in the search for ρ."""


class KSeq(TreeRule):
    """Sampling from a tree whose siblings were drawn independently (k-SEQ of SpecTr).

    With k siblings and β(ρ) = Σ min(p/ρ, q), each is accepted with probability min(1, p(x)/(ρ·q(x))), where ρ solves
    1 − (1 − β)^k = ρβ; the residual is p − min(q, p/ρ)·(1 − (1 − β)^k)/β. Exact: emits the target's distribution.
    Siblings that happen to be equal are siblings all the same: each is tried, and has children of its own.

    References:
        Sun et al., "SpecTr", arXiv:2310.15141.
    """

    traits = replace(ON_TREES, laws={"iid"}, exact=True)

    def judge(
        self, proposals: Sequence[Proposal], verifications: Sequence[Verification], rngs: Sequence[Draws]
    ) -> list[Decision]:
        """Walk down from the contexts."""
        return walk(proposals, verifications, rngs, self.traits.laws, _independent)


def _independent(p: Array, q: Array, x: Array, tried: Array, u: Array) -> tuple[Array, Array, Array]:
    xp, most = array_namespace(p), x.shape[1]
    nodes = xp.arange(x.shape[0], device=device(p))[:, None]
    k = xp.sum(xp.astype(tried, xp.float64), axis=-1)
    rho = _rho(p, q, k, most)
    accepted = leading(~(tried & (u * (rho[:, None] * q[nodes, x]) < p[nodes, x])))
    unaccepted = places(accepted == most)
    p, q, rho = p[unaccepted], q[unaccepted], rho[unaccepted]
    covered = xp.minimum(q, p / xp.astype(rho, p.dtype)[:, None])
    tries = _tries(mass(covered), k[unaccepted])
    return accepted, unaccepted, positive(p - covered * xp.astype(tries, p.dtype)[:, None])


def _tries(beta: Array, k: Array) -> Array:
    """(1 − (1 − β)^k)/β, how many of k siblings are tried on average; k at β = 0. Both are [m]."""
    xp = array_namespace(beta)
    some = beta > 1e-9  # below that the difference is lost in rounding
    tries = (1 - positive(1 - beta) ** k) / xp.where(some, beta, xp.ones_like(beta))
    return xp.where(some, tries, k)


def _rho(p: Array, q: Array, k: Array, most: int) -> Array:
    """The ρ of k-SEQ in [1, k], from above: any ρ with ρβ ≥ 1 − (1 − β)^k is exact, the smallest accepts most.

    Args:
        p, q: [m, V].
        k: [m], as float64.
        most: the largest of them.
    """
    xp = array_namespace(p)
    low, high = xp.ones_like(k), k
    if most == 1:
        return low
    if on_host(p) and p.shape[0] == 1:
        return xp.asarray([_rho_of_row(p[0, :], q[0, :], float(k[0]))], dtype=xp.float64)
    for _ in range(STEPS):
        rho = (low + high) / 2
        beta = mass(xp.minimum(q, p / xp.astype(rho, p.dtype)[:, None]))
        enough = rho >= _tries(beta, k)
        low, high = xp.where(enough, low, rho), xp.where(enough, rho, high)
    return high


def _rho_of_row(p: Array, q: Array, k: float) -> float:
    """`_rho` of one row [V] on the host, whose numbers are floats there."""
    xp = array_namespace(p)
    low, high = 1.0, k
    for _ in range(STEPS):
        rho = (low + high) / 2
        beta = float(xp.sum(xp.minimum(p, rho * q))) / rho
        enough = rho >= sum((1 - beta) ** j for j in range(int(k)))
        low, high = (low, rho) if enough else (rho, high)
    return high
