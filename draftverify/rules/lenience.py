"""Lenience: speculative sampling that keeps more, as if the target found every draft 1/ℓ times likelier.

Source: Leviathan et al., arXiv:2211.17192, appendix.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from draftverify.arrays import positive
from draftverify.rules.bounds import between
from draftverify.rules.chains import ON_CHAINS
from draftverify.rules.positionwise import Positionwise
from draftverify.traits import RuleTraits
from draftverify.values import Array


class Lenience(Positionwise):
    """Keeps a drafted x with probability min(1, p(x)/(ℓ·q(x))), replaces it from (p − q)₊.

    Bound: no item is emitted with more than p/ℓ, so TV(π, p) ≤ 1 − ℓ. Exact at ℓ = 1.

    Args:
        lenience: ℓ, 0 < ℓ ≤ 1; smaller keeps more.
        measure_drift: whether decisions report the drift, see docs/rules.md.

    References:
        Leviathan et al., arXiv:2211.17192, appendix.
    """

    def __init__(self, lenience: float, *, measure_drift: bool = False) -> None:
        self.measure_drift = measure_drift
        self.lenience = between("lenience", lenience, 0, 1, open_below=True)

    @cached_property
    def traits(self) -> RuleTraits:
        """Exact where nothing more is kept than speculative sampling keeps."""
        return replace(ON_CHAINS, exact=self.lenience == 1)

    def accept(self, p: Array, q: Array, *statistics: Array) -> Array:
        return p / self.lenience

    def residual(self, p: Array, q: Array, *statistics: Array) -> Array:
        return positive(p - q)
