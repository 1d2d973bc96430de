"""The ensemble of draft and target: emits a mixture of both.

Source: huggingface/transformers, pull request 45979.
"""

from __future__ import annotations

from typing import ClassVar

from draftverify.rules.bounds import between
from draftverify.rules.positionwise import Positionwise
from draftverify.values import Array

__all__ = ["Ensemble"]


class Ensemble(Positionwise):
    """Emits the mixture w·p + (1 − w)·q; keeps a drafted item with probability 1 − w·TV(p, q).

    Bound: TV(π, p) = (1 − w)·TV(p, q). Exact at w = 1.

    Args:
        weight: w, 0 ≤ w ≤ 1, of the target.

    References:
        huggingface/transformers, pull request 45979.
    """

    elementwise: ClassVar[bool] = True

    def __init__(self, weight: float) -> None:
        self.weight = between("weight", weight, 0, 1)

    @property
    def exact(self) -> bool:
        return self.weight == 1

    def accept(self, p: Array, q: Array, p_max: Array = None, q_max: Array = None) -> Array:
        return self.weight * p + (1 - self.weight) * q
