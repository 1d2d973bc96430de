"""The ensemble of draft and target: emits a mixture of both.

Source: huggingface/transformers, pull request 45979.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from draftverify.rules.bounds import between
from draftverify.rules.chains import ON_CHAINS
from draftverify.rules.positionwise import Positionwise
from draftverify.traits import RuleTraits
from draftverify.values import Array


class Ensemble(Positionwise):
    """Emits the mixture w·p + (1 − w)·q; keeps a drafted item with probability 1 − w·TV(p, q).

    Bound: TV(π, p) = (1 − w)·TV(p, q). Exact at w = 1.

    Args:
        weight: w, 0 ≤ w ≤ 1, of the target.
        measure_drift: whether decisions report the drift, see docs/rules.md.

    References:
        huggingface/transformers, pull request 45979.
    """

    def __init__(self, weight: float, *, measure_drift: bool = False) -> None:
        self.measure_drift = measure_drift
        self.weight = between("weight", weight, 0, 1)

    @cached_property
    def traits(self) -> RuleTraits:
        """Exact where nothing more is kept than speculative sampling keeps."""
        return replace(ON_CHAINS, exact=self.weight == 1)

    def accept(self, p: Array, q: Array, *statistics: Array) -> Array:
        return self.weight * p + (1 - self.weight) * q
