"""How far a path has come from the fine solver's own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from draftverify import Outcome, Task
from draftverify_physics.systems import integrate

__all__ = ["PathError"]


class PathError:
    """The largest difference from the fine solver's own path, as a share of the largest entry of that.

    Args:
        steps: of a slice, as the verifier's.
    """

    unit = "of the largest entry"

    def __init__(self, steps: int = 64) -> None:
        self.steps = steps

    def __call__(self, task: Task, outcome: Outcome) -> float | None:
        """None where nothing was accepted."""
        if outcome.status != "accepted":
            return None
        path, given = np.array(outcome.value), task.input
        fine = _fine_path(given["system"], tuple(given["start"]), given["span"], self.steps, len(path))
        return float(np.abs(path - fine).max() / np.abs(fine).max())


@lru_cache(maxsize=64)
def _fine_path(system: str, start: tuple[float, ...], span: float, steps: int, slices: int) -> Any:
    states = [np.array(start)]
    for _ in range(slices):
        states.append(integrate(system, states[-1], span, steps))
    return np.array(states[1:])
