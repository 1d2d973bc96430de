"""The stopping rule of plans: stop where the goal is reached, and keep nothing after it."""

from __future__ import annotations

from typing import Any

from draftverify import Context
from draftverify_plan.problem import PddlError, problem_of


class Goal:
    """Ends a task at the first state in which the goal holds, whoever proposed the step that led there."""

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """How many of the new steps to keep: up to the goal; None where it is not reached yet."""
        problem = problem_of(context)
        try:
            states = problem.states(context.accepted, context.scratch)
        except PddlError:
            # A step that was accepted unverified cannot be taken. No goal is reached that way; the verifier will say.
            return None
        for length, state in enumerate(states[len(states) - 1 - len(new) :]):
            if problem.is_goal(state):
                return length
        return None
