"""Lossy speculative sampling: keeps more than is exact, and draws the replacement so that what is emitted stays near p.

Source: Tran-Thien, quoted in Narasimhan et al., arXiv:2405.19261.
"""

from __future__ import annotations

from typing import ClassVar

from array_api_compat import array_namespace, device

from draftverify.rules.arrays import positive
from draftverify.rules.bounds import between
from draftverify.rules.positionwise import Positionwise
from draftverify.values import Array

__all__ = ["Lossy"]


class Lossy(Positionwise):
    """Keeps a drafted x with probability min(1, p(x)/((1 − α)·q(x))), replaces it from (p/β − q)₊.

    Bound: π ≤ p/(1 − α), so TV(π, p) ≤ α. When β is left out, π = max(min(q, p/(1 − α)), p/β). Exact at
    α = 0.

    Args:
        alpha: 0 ≤ α < 1; larger keeps more.
        beta: 1 − α ≤ β ≤ 1; None for the β that makes the π above sum to 1. 1 is the authors' notebook's, with which
            another π is emitted, that of lenience 1 − α.

    References:
        Tran-Thien, quoted in Narasimhan et al., arXiv:2405.19261.
    """

    elementwise: ClassVar[bool] = True

    def __init__(self, alpha: float, beta: float | None = None) -> None:
        self.alpha = between("alpha", alpha, 0, 1, open_above=True)
        # Above 1 there may be nothing left of p/β − q to replace a rejected item from.
        self.beta = None if beta is None else between("beta", beta, 1 - alpha, 1)

    @property
    def exact(self) -> bool:
        return self.alpha == 0 and self.beta in (None, 1)

    def accept(self, p: Array, q: Array, p_max: Array = None, q_max: Array = None) -> Array:
        return p / (1 - self.alpha)

    def residual(self, p: Array, q: Array, p_max: Array = None, q_max: Array = None) -> Array:
        scale = self._normaliser(p, q) if self.beta is None else 1 / self.beta
        return positive(scale * p - q)

    def _normaliser(self, p: Array, q: Array) -> Array:
        """s = 1/β [..., 1] with Σ (s·p − q)₊ = 1 − Σ min(q, p/(1 − α)) =: m.

        The left side is the largest s·P − Q over sets of items, and the best sets are prefixes by rising q/p; so s is
        the smallest (m + Q)/P over the prefixes.
        """
        xp = array_namespace(p, q)
        m = positive(1 - xp.sum(xp.minimum(q, self.accept(p, q)), axis=-1, keepdims=True))
        never = xp.asarray(float("inf"), dtype=q.dtype, device=device(q))
        ratio = xp.where(p > 0, q / xp.where(p > 0, p, xp.ones_like(p)), never)
        order = xp.argsort(ratio, axis=-1)
        of_p = xp.cumulative_sum(xp.take_along_axis(p, order, axis=-1), axis=-1)
        of_q = xp.cumulative_sum(xp.take_along_axis(q, order, axis=-1), axis=-1)
        return xp.min((m + of_q) / of_p, axis=-1, keepdims=True)
