"""The planner in its own process: plans, no plans, time limits, and what a broken process becomes."""

from __future__ import annotations

import pytest

from draftverify import Pipeline, fallback
from draftverify.kit import make_context
from draftverify.rules import LongestPrefix
from draftverify_plan import Goal, Greedy, Planner, PlannerError, Validator

from .conftest import TASKS, verdict, written_task


def test_a_plan_from_the_middle_goes_on_from_there(planner):
    """The planner starts in the state that the accepted steps lead to."""
    task = TASKS["blocks/p01"]
    begun = ("pick-up a", "stack a b")
    rest = planner.plan(make_context(task), begun)
    assert verdict(task, [*begun, *rest]) == "valid"


def test_negative_preconditions_are_compiled_away(planner):
    """A STRIPS planner serves a domain with negations, before and after some steps."""
    task = TASKS["dockworker/p02"]
    begun = ("move r1 a b", "move r1 b siding")
    for steps in ((), begun):
        assert verdict(task, [*steps, *planner.plan(make_context(task), steps)]) == "valid"


def test_no_plan_is_no_error(planner):
    """A dead end is proven, and the generator is exhausted."""
    walked = ("walk shed l1 bob", "walk l1 l2 bob")
    context = make_context(TASKS["spanner/p01"], accepted=walked)
    assert planner.plan(context, walked) is None
    assert planner.propose(context, 4).exhausted


def test_a_planner_that_takes_too_long_is_a_timeout_and_serves_the_next_call():
    """Its process is ended; the task's failure is a timeout, and nothing counts as a trial or a refusal."""
    slow = Planner(timeout=0.3)
    outcome = Pipeline(slow, Validator(), LongestPrefix(), block=50, done=Goal()).run(TASKS["logistics/p03"])
    assert outcome.status == "failed"
    assert outcome.failure.kind == "timeout"
    assert "logistics" in outcome.reason
    assert outcome.tally.trials == 0
    slow.timeout = 60
    assert slow.plan(make_context(TASKS["blocks/p02"]), ())
    slow.close()


def test_a_timeout_of_the_correction_is_a_timeout_of_the_verification():
    """The policy hears "timeout", not "reject", and may go on with another generator."""
    verifier = Validator(correction=Planner(timeout=0.3))
    outcome = Pipeline(Greedy(), verifier, LongestPrefix(), block=8, done=Goal()).run(TASKS["logistics/p03"])
    verifier.close()
    assert outcome.failure.kind == "timeout"
    assert outcome.tally.trials == 0


def test_a_planner_that_is_not_installed_is_an_error_with_its_name():
    """What unified-planning knows no engine for cannot be drafted from."""
    missing = Planner(engine="no-such-planner")
    with pytest.raises(PlannerError, match="no-such-planner"):
        missing.propose(make_context(TASKS["blocks/p01"]), 3)
    missing.close()


def test_a_problem_that_the_planner_cannot_read_is_an_error(planner):
    """The validator can judge it, pyperplan cannot plan it."""
    task = written_task(
        "(define (domain d) (:requirements :adl) (:predicates (p) (q)) "
        "(:action a :parameters () :precondition (or (p) (q)) :effect (q)))",
        "(define (problem x) (:domain d) (:init (p)) (:goal (q)))",
    )
    with pytest.raises(PlannerError, match="pyperplan on"):
        planner.propose(make_context(task), 3)


def test_a_process_that_dies_is_an_error_and_is_replaced():
    """The next call has a planner again."""
    fragile = Planner()
    fragile.open()
    fragile._child._process.kill()
    with pytest.raises(PlannerError, match="process ended"):
        fragile.plan(make_context(TASKS["blocks/p02"]), ())
    assert fragile.plan(make_context(TASKS["blocks/p02"]), ())
    fragile.close()


def test_two_processes_find_the_same_plan(planner):
    """Ties are broken alike in every process, so a resumed run goes on with the plan that it began."""
    other = Planner()
    for name in ("depot/p02", "ferry/p01"):
        assert other.plan(make_context(TASKS[name]), ()) == planner.plan(make_context(TASKS[name]), ())
    other.close()


@pytest.fixture
def asked(planner, monkeypatch):
    """The steps after which the planner's process is asked for a plan, call by call."""
    steps: list[tuple[str, ...]] = []
    ask = planner._ask
    monkeypatch.setattr(
        planner, "_ask", lambda request, task: steps.append(tuple(request["steps"])) or ask(request, task)
    )
    return steps


def test_one_plan_is_followed_over_many_rounds_and_after_a_restart(planner, asked):
    """Block by block the first plan comes out whole, from one call of the planner; so after a restart."""
    task = TASKS["blocks/p03"]
    pipeline = Pipeline(planner, Validator(), LongestPrefix(), block=4, done=Goal())
    record = pipeline.record(task)
    assert asked == [()]
    assert record.outcome.value == planner.plan(make_context(task), ())
    assert len(record.rounds) > 3
    for done in range(len(record.rounds)):
        assert pipeline.record(task, restore=record.rounds[:done]).outcome.value == record.outcome.value
    assert set(asked) == {()}


def test_a_fallback_goes_on_with_its_plan_after_a_restart(planner, asked):
    """The plan that a fallback follows began where the drafter stopped, and is found again from the records."""
    policy = fallback(planner, rounds=None, on=("reject", "exhausted"), name="planner")
    pipeline = Pipeline(Greedy(), Validator(), LongestPrefix(), block=4, done=Goal(), policy=policy)
    record = pipeline.record(TASKS["blocks/p03"])
    assert [round.source for round in record.rounds].count("planner") > 3
    for done in range(len(record.rounds)):
        again = pipeline.record(TASKS["blocks/p03"], restore=record.rounds[:done])
        assert again.outcome.value == record.outcome.value
    assert len(set(asked)) == 1
    assert asked[0] == sum(
        (round.decision.emitted for round in record.rounds if round.source != "planner"), ()
    )


def test_the_planner_is_quiet(planner, capfd):
    """Neither unified-planning's credits nor a planner's log reach the terminal."""
    planner.plan(make_context(TASKS["gripper/p01"]), ())
    assert capfd.readouterr() == ("", "")
