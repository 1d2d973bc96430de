"""The parts keep the framework's contract."""

from __future__ import annotations

import pytest

from draftverify import Proposal
from draftverify.kit import Subject, check_component, make_context
from draftverify_plan import Greedy, Planner, Validator
from draftverify_plan.problem import prepared

from .conftest import TASKS

SOME = [TASKS["blocks/p01"], TASKS["dockworker/p01"]]
# The kit accepts the first step of each draft, which these domains always allow.
POSITIVE = [make_context(prepared(TASKS[name])) for name in ("blocks/p01", "gripper/p01")]
STEPS = {
    "blocks/p01": ("pick-up c", "stack c b", "pick-up a"),
    "dockworker/p01": ("load r1 c1 north", "move r1 north east"),
}


def blocks(context):
    """A valid block, one with a refusal inside, alternatives and nothing."""
    good = STEPS[context.task.id]
    return [
        Proposal.chain(good),
        Proposal.chain([good[0], "no such step", good[1]]),
        Proposal.alternatives([*good, "stack a"]),
        Proposal.chain([]),
    ]


@pytest.mark.parametrize(
    "part",
    [
        Subject(Greedy(), contexts=POSITIVE),
        pytest.param(Subject(Planner(), contexts=POSITIVE[:1]), marks=pytest.mark.exhaustive),
        Subject(Validator(), tasks=SOME, proposals=blocks),
    ],
    ids=["greedy", "planner", "validator"],
)
def test_the_part_conforms(part):
    """Law, shape, reproducibility, scratch as a cache, four threads, errors that are no refusals."""
    check_component(part)


def test_a_validator_that_corrects_conforms(planner):
    """It answers alike with and without its scratch, though a planner is behind it."""
    check_component(Subject(Validator(planner, steps=2), tasks=SOME[:1], proposals=blocks))
