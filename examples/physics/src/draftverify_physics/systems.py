"""The equations, one integrator for all of them, and where their paths begin.

States are the last axis of an array, and everything before it is computed side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from draftverify import Task

__all__ = ["SYSTEMS", "Starts", "integrate"]


def lorenz(states: Any) -> Any:
    """Lorenz's equations of 1963, chaotic: [..., 3]."""
    x, y, z = states[..., 0], states[..., 1], states[..., 2]
    return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], axis=-1)


def heat(states: Any) -> Any:
    """Heat on a ring that conducts better where it is warm, u' = ((1 + u²) u_x)_x: [..., cells]."""
    cells = states.shape[-1]
    ahead = np.concatenate([states[..., 1:], states[..., :1]], axis=-1)
    flow = (1 + ((states + ahead) / 2) ** 2) * (ahead - states)
    return (flow - np.concatenate([flow[..., -1:], flow[..., :-1]], axis=-1)) * cells**2


SYSTEMS: dict[str, Callable[[Any], Any]] = {"lorenz": lorenz, "heat": heat}


def integrate(system: str, states: Any, span: float, steps: int) -> Any:
    """The states after a span of time, by the classical Runge–Kutta method in equal steps.

    Args:
        system: its name.
        states: [..., size].
        span: how much time passes.
        steps: in how many steps.
    """
    rate, h = SYSTEMS[system], span / steps
    for _ in range(steps):
        first = rate(states)
        second = rate(states + h / 2 * first)
        third = rate(states + h / 2 * second)
        states = states + h / 6 * (first + 2 * second + 2 * third + rate(states + h * third))
    return states


class Starts:
    """Tasks: random starts of each system, the name with the number of cells as the group.

    Args:
        kinds: of "lorenz", and "heat N" for N cells.
        count: tasks of each.
        seed: of the starts.
    """

    def __init__(self, kinds: Sequence[str] = ("lorenz", "heat 32"), count: int = 8, seed: int = 0) -> None:
        self.kinds = kinds
        self.count = count
        self.seed = seed

    def load(self) -> list[Task]:
        """One task a start; a slice lasts `span`."""
        return [self._task(kind, number) for kind in self.kinds for number in range(self.count)]

    def _task(self, kind: str, number: int) -> Task:
        rng = np.random.default_rng([self.seed, number])
        system, _, cells = kind.partition(" ")
        if system == "lorenz":
            start, span = integrate(system, rng.normal((0, 0, 25), 5), 5.0, 2_000), 0.02
        else:
            x, waves = np.arange(int(cells)) / int(cells), range(1, 9)
            start = sum(rng.normal() / k * np.sin(2 * np.pi * (k * x + rng.random())) for k in waves)
            start, span = start / np.abs(start).max(), 0.5 / int(cells) ** 2
        task = {"system": system, "start": start.tolist(), "span": span}
        return Task(id=f"{kind}/{number}", input=task, group=kind)
