"""Relaxed plans, and the drafter that proposes them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import Feedback, Refusal
from draftverify.kit import make_context
from draftverify.values import Decision, Round
from draftverify_plan import Greedy
from draftverify_plan.problem import StepError

from .conftest import TASKS, problem_at, written_task

_PROBLEM = "plan.problem"
PROBLEMS = {
    name: problem_at(name)
    for name in ("blocks/p01", "gripper/p01", "hanoi/p02", "logistics/p01", "depot/p01")
}


@st.composite
def walks(draw):
    """A problem, and steps that can be taken from its start."""
    name = draw(st.sampled_from(sorted(PROBLEMS)))
    problem = PROBLEMS[name]
    state, taken = problem.start, []
    for choice in draw(st.lists(st.integers(0, 10**6), max_size=12)):
        facts = problem.facts(state)
        possible = [action.step for action in problem.relaxation.actions if facts.issuperset(action.needs)]
        taken.append(possible[choice % len(possible)])
        state = problem.step(state, taken[-1])
    return name, taken


@given(walks())
@settings(max_examples=40)
def test_a_relaxed_plan_reaches_the_goal_when_nothing_is_deleted(walk):
    """From any state, each action has what it needs from the state or those before it, and the goal comes about."""
    name, taken = walk
    problem = PROBLEMS[name]
    relaxation = problem.relaxation
    have = set(problem.facts(problem.states(taken, {})[-1]))
    plan = relaxation.plan(have)
    assert plan is not None
    assert max(Counter(plan).values(), default=1) == 1
    for number in plan:
        assert have.issuperset(relaxation.actions[number].needs)
        have.update(relaxation.actions[number].adds)
    assert have.issuperset(relaxation.goal)


@given(walks())
@settings(max_examples=40)
def test_the_grounded_actions_are_those_that_can_be_taken(walk):
    """In positive domains the relaxation's actions are applicable exactly when the simulator says so."""
    name, taken = walk
    problem = PROBLEMS[name]
    state = problem.states(taken, {})[-1]
    facts = problem.facts(state)
    for action in problem.relaxation.actions[::7]:
        try:
            problem.step(state, action.step)
            can = True
        except StepError:
            can = False
        assert can == facts.issuperset(action.needs), action.step


@given(walks(), st.integers(0, 9))
@settings(max_examples=40)
def test_a_draft_begins_with_a_step_that_can_be_taken(walk, n):
    """With positive conditions a first step is never refused; and a draft is never longer than asked."""
    name, taken = walk
    context = make_context(TASKS[name], accepted=taken, scratch={_PROBLEM: PROBLEMS[name]})
    proposal = Greedy(circles=100).propose(context, n)
    assert len(proposal) <= n
    if len(proposal):
        PROBLEMS[name].step(PROBLEMS[name].states(taken, {})[-1], proposal.items[0])


def test_a_draft_is_the_same_under_every_hash_seed():
    """Ties go to what the problem lists first, not to the order of a set."""
    code = (
        "from draftverify.kit import make_context; from draftverify_plan import Greedy;"
        f"print(Greedy().propose(make_context({dict(TASKS['depot/p03'].input)!r}), 99).items)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert len(texts.pop().split("', '")) > 10


def test_feedback_changes_the_next_draft_and_a_plain_retry_does_not():
    """A refused step is not tried first again, nor is any refused before it in the same state."""
    task = TASKS["dockworker/p01"]
    first = Greedy().propose(make_context(task), 3).items[0]
    again = Greedy().propose(make_context(task), 3).items[0]
    refusal = Feedback(first, "unmet precondition", "")
    second = Greedy().propose(make_context(task, feedback=[refusal]), 3).items[0]
    record = Round(index=0, items=(first,), decision=Decision(refused=(Refusal(0),)))
    later = make_context(task, feedback=[Feedback(second, "", "")], rounds=[record])
    third = Greedy().propose(later, 3)
    assert again == first
    assert len({first, second, *third.items[:1]}) == 3


def test_a_drafter_that_goes_round_in_circles_says_so():
    """Back in a state too often, it has no next block."""
    there_and_back = ["pick-up a", "put-down a"] * 3
    context = make_context(TASKS["blocks/p01"], accepted=there_and_back)
    assert Greedy(circles=5).propose(context, 4).items
    assert Greedy(circles=4).propose(context, 4).exhausted


def test_a_step_that_closed_a_circle_is_not_taken_again():
    """In a state it has been in before, the drafter begins with another step."""
    task = TASKS["blocks/p01"]
    usual = Greedy().propose(make_context(task), 1).items[0]
    back = usual.replace("pick-up", "put-down")
    other = Greedy().propose(make_context(task, accepted=[usual, back]), 1)
    assert other.items[0] != usual


def test_a_dead_end_has_no_draft():
    """A goal that not even the relaxation reaches is the end of drafting."""
    walked = ["walk shed l1 bob", "walk l1 l2 bob", "walk l2 l3 bob"]
    assert Greedy().propose(make_context(TASKS["spanner/p01"], accepted=walked), 4).exhausted


@pytest.mark.parametrize("goal", ["(p)", "(and (p) (not (q)))"])
def test_at_the_goal_there_is_nothing_to_draft(goal):
    """An empty block that is not exhausted lets the stopping rule end the task."""
    domain = "(define (domain d) (:requirements :strips :negative-preconditions) (:predicates (p) (q)) "
    domain += "(:action a :parameters () :precondition (p) :effect (q)))"
    task = written_task(domain, f"(define (problem x) (:domain d) (:init (p)) (:goal {goal}))")
    proposal = Greedy().propose(make_context(task), 4)
    assert (len(proposal), proposal.exhausted) == (0, False)
