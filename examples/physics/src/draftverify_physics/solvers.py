"""The drafter and the verifier: one integrator, in few steps slice after slice, and in many for a whole block."""

from __future__ import annotations

import numpy as np

from draftverify import (
    PASS,
    Check,
    Context,
    GeneratorTraits,
    Proposal,
    Verification,
    VerifierTraits,
)
from draftverify_physics.systems import integrate

__all__ = ["Coarse", "Fine"]

FAR = Check("reject", reason="not within the tolerance")


class Coarse:
    """Drafts the states at the ends of the next slices of time, each from the one before.

    Args:
        steps: of a slice.
    """

    traits = GeneratorTraits(shape="chain", drafts_from="accepted")

    def __init__(self, steps: int = 2) -> None:
        self.steps = steps

    def propose(self, context: Context, n: int) -> Proposal:
        """The next `n` states."""
        task, state, items = context.task.input, np.array(latest(context)), []
        for _ in range(n):
            state = integrate(task["system"], state, task["span"], self.steps)
            items.append(state.tolist())
        return Proposal.chain(items)


class Fine:
    """Passes a drafted state where the fine solver, from the state before it, comes to the same within a tolerance.

    One pass computes every slice of the block side by side, and the slice after the last: the correction is its state
    at the end of the first slice that did not pass, or of that one.

    Args:
        tolerance: the largest difference, as a share of the state's largest entry.
        steps: of a slice.
    """

    traits = VerifierTraits(plain_steps=True)

    def __init__(self, tolerance: float = 1e-4, steps: int = 64) -> None:
        self.tolerance = tolerance
        self.steps = steps

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """All slices in one pass; of an empty block, the next one. A tree, which has many ends, is not corrected."""
        task = context.task.input
        states = np.array([latest(context), *proposal.items])
        ends = integrate(task["system"], states, task["span"], self.steps)  # row i + 1: a slice after item i
        right = ends[[parent + 1 for parent in proposal.parents]]
        errors = np.abs(right - states[1:]).max(axis=1) / np.abs(right).max(axis=1)
        is_near = [*(errors <= self.tolerance), False]
        checks = tuple(PASS if near else FAR for near in is_near[:-1])
        goes_on = (ends[is_near.index(False)].tolist(),) if proposal.fits("chain") else ()
        return Verification(checks=checks, correction=goes_on)


def latest(context: Context) -> list[float]:
    """The state at which the path has arrived."""
    return context.accepted[-1] if context.accepted else context.task.input["start"]
