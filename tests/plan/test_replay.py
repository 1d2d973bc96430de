"""Replay of plans: what the log of relaxed plans says of other blocks and policies is what a rerun says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import Budget, Pipeline, Policy, feedback, give_up, retry
from draftverify.bench.records import timeless
from draftverify.lab.replay import Replay
from draftverify.rules import LongestPrefix
from draftverify_plan import Goal, Greedy, Validator

from .conftest import TASKS

POLICIES = {
    "none": Policy(),
    "retry": retry(1),
    "feedback": feedback(2),
    "one feedback": feedback(1),
    "then give up": feedback(2).then(give_up()),
}
NAMES = ("blocks/p01", "gripper/p01", "hanoi/p01", "miconic/p01", "ferry/p01")


def relaxed(block: int, policy: str, rounds: int) -> Pipeline:
    """Relaxed plans, checked by the simulator."""
    return Pipeline(
        Greedy(),
        Validator(),
        LongestPrefix(),
        block=block,
        policy=POLICIES[policy],
        done=Goal(),
        budget=Budget(rounds=rounds),
    )


def answered(name: str, first: tuple[int, str, int], second: tuple[int, str, int]) -> bool:
    """Whether the log answered; where it did, as the rerun."""
    made, other = relaxed(*first), relaxed(*second)
    record = made.record(TASKS[name])
    pairs = zip(("block", "on_rejection", "budget"), first, second, strict=True)
    changed = frozenset(name for name, one, two in pairs if one != two)
    found = Replay(made, [record], other, changed=changed).task(TASKS[name], record)
    if found.record is None:
        assert found.gap is not None
        return False
    assert timeless(found.record) == timeless(other.record(TASKS[name]))
    return True


SETUPS = st.tuples(st.integers(1, 10), st.sampled_from(sorted(POLICIES)), st.integers(1, 12))


@given(st.sampled_from(NAMES), SETUPS, SETUPS)
@settings(max_examples=6)
def test_replay_equals_rerun(name, first, second):
    """Over blocks, policies and budgets."""
    answered(name, first, second)


@pytest.mark.exhaustive
@given(st.sampled_from(sorted(TASKS)), SETUPS, SETUPS)
@settings(max_examples=300)
def test_replay_equals_rerun_in_a_sweep(name, first, second):
    """The same on all problems."""
    answered(name, first, second)


@pytest.mark.parametrize("name", NAMES[:2])
def test_less_of_a_policy_and_fewer_rounds_are_always_answered(name):
    """What the log holds more of than is asked."""
    assert answered(name, (8, "feedback", 12), (8, "one feedback", 12))
    assert answered(name, (8, "feedback", 12), (8, "none", 12))
    assert answered(name, (8, "feedback", 12), (8, "feedback", 5))
