"""A path of Van der Pol's oscillator in steps of 0.1: one coarse Runge–Kutta step drafts, 32 fine ones verify.

x'' = μ (1 − x²) x' − x, μ = 2. The fine steps of a whole block run side by side in one array, so a block takes about
as long as one step: the parallel pass without a model. Where the oscillator is slow a coarse step is as good; where it
jumps it is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from draftverify import Check, Context, Outcome, Proposal, Task, Verification
from draftverify.traits import GeneratorTraits, VerifierTraits

STEP, FINE, MU, TOLERANCE = 0.1, 32, 2.0, 2e-6


def _slope(state: Any) -> Any:
    x, v = state
    return np.stack([v, MU * (1.0 - x * x) * v - x])


def _advanced(state: Any, seconds: float, steps: int) -> Any:
    """Runge–Kutta of order four. `state` [2, …]."""
    h = seconds / steps
    for _ in range(steps):
        a = _slope(state)
        b = _slope(state + 0.5 * h * a)
        c = _slope(state + 0.5 * h * b)
        d = _slope(state + h * c)
        state = state + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)
    return state


class Starts:
    """Starting points, the same each time; what is expected is the state after 64 steps.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def load(self) -> list[Task]:
        """Drawn from the square of side 6 around the origin."""
        starts = np.random.default_rng(0).uniform(-3.0, 3.0, (2, self.count))
        ends = starts
        for _ in range(64):
            ends = _advanced(ends, STEP, FINE)
        pairs = zip(starts.T.tolist(), ends.T.tolist(), strict=True)
        return [
            Task(id=str(i), input={"start": start}, expected={"end": end})
            for i, (start, end) in enumerate(pairs)
        ]


def _last(context: Context) -> Any:
    return np.array(context.accepted[-1] if context.accepted else context.task.input["start"])


class Coarse:
    """Drafts states, each by one step from the one before."""

    traits = GeneratorTraits(shape="chain", reads=frozenset[str]())

    def propose(self, context: Context, n: int) -> Proposal:
        """n states [x, v]."""
        state, found = _last(context), []
        for _ in range(n):
            state = _advanced(state, STEP, 1)
            found.append(state.tolist())
        return Proposal.chain(found)


class Fine:
    """Passes states that are within the tolerance of the fine steps from the state before, and adds one of its own."""

    traits = VerifierTraits(reads=frozenset[str](), plain_steps=True)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """The steps from the last state and from each drafted one, in one pass."""
        starts = np.stack([_last(context), *(np.array(item) for item in proposal.items)], axis=-1)
        ends = _advanced(starts, STEP, FINE)
        far = np.abs(starts[:, 1:] - ends[:, :-1]).max(axis=0, initial=0.0) > TOLERANCE
        kept = int(far.argmax()) if far.any() else len(far)
        checks = tuple(
            Check("pass" if i < kept else "reject" if i == kept else "unchecked") for i in range(len(far))
        )
        return Verification(checks=checks, correction=(ends[:, kept].tolist(),))


def right(task: Task, outcome: Outcome) -> float:
    """Whether the path ends within 1e-4 of where the fine steps end."""
    if outcome.status != "accepted" or len(outcome.value) != 64:
        return 0.0
    return float(np.abs(np.array(outcome.value[-1]) - np.array(task.expected["end"])).max() < 1e-4)
