"""A drafter that is always wrong, then right, before a planner: drafting stops within its bound, and comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftverify import Context, Pipeline, Proposal, Task, Verification
from draftverify.rules import LongestPrefix
from draftverify_plan import Goal, Validator
from tests.hostile import Drafts, must_stop_and_come_back, priced
from tests.plan.conftest import TASKS


class Known:
    """In the planner's place: the rest of the plan that the planner made at first, which takes no time."""

    def __init__(self, plans: dict[str, Sequence[str]]) -> None:
        self.plans = plans

    def plan(self, context: Context, steps: Sequence[str]) -> Sequence[str]:
        return self.plans[context.task.id.partition("+")[0]][len(steps) :]


class Priced(Validator):
    """A validator whose passes have a declared cost."""

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        return priced(super().verify(context, proposal), proposal)


def test_a_drafter_that_is_always_wrong_is_stopped_and_comes_back_when_the_traffic_turns(planner):
    """Through the adapter as it is; every answer is a plan that reaches the goal."""
    name = "blocks/p03"
    alone = Pipeline(planner, Validator(), LongestPrefix(), block=200, done=Goal())
    plans = {name: alone.run(TASKS[name]).value}
    drafts = Drafts(plans, spoil=lambda step: f"{step.split()[0]} nothing")

    def build(block: Any) -> Pipeline:
        return Pipeline(drafts, Priced(Known(plans)), LongestPrefix(), block=block, done=Goal())

    must_stop_and_come_back(build, [TASKS[name]] * 3, [Task(id=f"{name}+", input=TASKS[name].input)] * 2)
