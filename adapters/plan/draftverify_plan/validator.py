"""The trusted verifier: unified-planning's simulator takes the steps of a block one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec.structs import replace

from draftverify import UNCHECKED, Check, Context, Proposal, Task, Verification
from draftverify.traits import VerifierTraits
from draftverify_plan.planner import Planner
from draftverify_plan.problem import PlanState, StepError, need_planning, prepared, problem_of


class Validator:
    """Passes the steps that can be taken, refuses the first that cannot, and leaves the rest unchecked.

    A refusal's reason is one of `draftverify_plan.Reason`; its feedback names the conditions that do not hold. A step
    that reaches the goal passes with the reason "goal"; to end there is the stopping rule's part.

    Args:
        correction: a planner that is asked, where a step is refused (or none was drafted), what to do instead. Its
            first step is the refused one's correction, those after it the verification's.
        steps: how many of its steps to offer.
    """

    def __init__(self, correction: Planner | None = None, steps: int = 1) -> None:
        self.correction = correction
        self.steps = steps

    @cached_property
    def traits(self) -> VerifierTraits:
        """That an empty block brings the planner's step, where there is one."""
        return VerifierTraits(reads=frozenset(), plain_steps=self.correction is not None)

    def prepare(self, task: Task) -> Task:
        """The task with its problem parsed.

        Raises:
            PddlError: the files are missing or are no sequential planning problem.
        """
        return prepared(task)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One pass over the block; a step is taken from the state that its parent leads to.

        Raises:
            PddlError: the problem cannot be read, or the accepted steps are no plan.
            TimeoutError: the correcting planner found no plan in time.
            PlannerError: the correcting planner failed.
        """
        problem = problem_of(context)
        now = problem.states(context.accepted, context.scratch)[-1]
        states: dict[int, PlanState] = {-1: now}
        checks: list[Check] = []
        for item, parent in zip(proposal.items, proposal.parents, strict=True):
            if parent not in states:
                checks.append(UNCHECKED)
                continue
            try:
                state = problem.step(states[parent], item)
            except StepError as error:
                checks.append(Check("reject", reason=error.reason, feedback=error.feedback))
            else:
                checks.append(_GOAL if problem.is_goal(state) else _PASS)
                states[len(checks) - 1] = state
        refused = next((place for place, check in enumerate(checks) if check.verdict == "reject"), None)
        steps = self._correct(context, proposal, checks, now, refused)
        if steps and refused is not None:
            checks[refused] = replace(checks[refused], correction=steps[0])
            steps = steps[1:]
        return Verification(checks=tuple(checks), correction=steps)

    def _correct(
        self,
        context: Context,
        proposal: Proposal,
        checks: Sequence[Check],
        now: PlanState,
        refused: int | None,
    ) -> tuple[str, ...]:
        """The planner's steps from the first refused one on; () when the goal comes before it."""
        if self.correction is None or (refused is None and checks) or problem_of(context).is_goal(now):
            return ()
        path = proposal.path(refused)[:-1] if refused is not None else ()
        if any(checks[place] is _GOAL for place in path):
            return ()
        steps = (*context.accepted, *(proposal.items[place] for place in path))
        return (self.correction.plan(context, steps) or ())[: self.steps]

    def open(self) -> None:
        """Start the correcting planner's process.

        Raises:
            ResourceError: unified-planning is not installed.
        """
        need_planning()
        if self.correction is not None:
            self.correction.open()

    def close(self) -> None:
        """End the correcting planner's process."""
        if self.correction is not None:
            self.correction.close()


_PASS = Check("pass")
_GOAL = Check("pass", reason="goal")
