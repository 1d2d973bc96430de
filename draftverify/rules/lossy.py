"""Lossy speculative sampling: keeps more than is exact, and draws the replacement so that what is emitted stays near p.

Source: Tran-Thien, quoted in Narasimhan et al., arXiv:2405.19261.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from draftverify.arrays import on_host, positive
from draftverify.randomness import array_namespace
from draftverify.rules.bounds import between
from draftverify.rules.chains import ON_CHAINS
from draftverify.rules.positionwise import Positionwise
from draftverify.traits import RuleTraits
from draftverify.values import Array

STEPS = 40
"""Of the search for β on a device, which is not asked whether it has ended. For 100 pairs of random rows of 128,000
items, flat and peaked ones, 22 were enough; where they are not, a replacement is drawn from a little nearer to p."""


class Lossy(Positionwise):
    """Keeps a drafted x with probability min(1, p(x)/((1 − α)·q(x))), replaces it from (p/β − q)₊.

    Bound: π ≤ p/(1 − α), so TV(π, p) ≤ α. When β is left out, π = max(min(q, p/(1 − α)), p/β). Exact at
    α = 0.

    Args:
        alpha: 0 ≤ α < 1; larger keeps more.
        beta: 1 − α ≤ β ≤ 1; None for the β that makes the π above sum to 1. 1 is the authors' notebook's, with which
            another π is emitted, that of lenience 1 − α.
        measure_drift: whether decisions report the drift, see docs/rules.md.

    References:
        Tran-Thien, quoted in Narasimhan et al., arXiv:2405.19261.
    """

    def __init__(self, alpha: float, beta: float | None = None, *, measure_drift: bool = False) -> None:
        self.measure_drift = measure_drift
        self.alpha = between("alpha", alpha, 0, 1, open_above=True)
        # Above 1 there may be nothing left of p/β − q to replace a rejected item from.
        self.beta = None if beta is None else between("beta", beta, 1 - alpha, 1)

    @cached_property
    def traits(self) -> RuleTraits:
        """Exact where nothing more is kept than speculative sampling keeps."""
        return replace(ON_CHAINS, exact=self.alpha == 0 and self.beta in (None, 1))

    def accept(self, p: Array, q: Array, *statistics: Array) -> Array:
        return p / (1 - self.alpha)

    def residual(self, p: Array, q: Array, *statistics: Array) -> Array:
        scale = self._normaliser(p, q) if self.beta is None else 1 / self.beta
        return positive(scale * p - q)

    def _normaliser(self, p: Array, q: Array) -> Array:
        """s = 1/β [..., 1] with Σ (s·p − q)₊ = 1 − Σ min(q, p/(1 − α)) =: m.

        The left side is the largest s·P − Q over sets of items, so s is the smallest (m + Q)/P over them. From a set
        too large, the items with s·p > q of its own s are a better one (Newton's method), until they are the same.
        """
        xp = array_namespace(p, q)
        m = positive(1 - xp.sum(xp.minimum(q, self.accept(p, q)), axis=-1, keepdims=True))
        s = xp.full_like(m, xp.finfo(m.dtype).max)
        members = p > 0
        for _ in range(p.shape[-1] + 1 if on_host(p) else STEPS):  # each but the last drops an item
            of_p, of_q = (xp.sum(row * members, axis=-1, keepdims=True) for row in (p, q))
            ratio = (m + of_q) / xp.where(of_p > 0, of_p, xp.ones_like(of_p))
            previous, s = s, xp.where(of_p > 0, xp.minimum(ratio, s), s)
            if on_host(s) and not xp.any(s < previous):
                break
            members = s * p > q
        return s
