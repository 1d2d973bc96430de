"""Whole tasks through Pipeline: the ways of examples/plan.yaml on the shipped problems, judged by unified-planning."""

from __future__ import annotations

import asyncio

import pytest

from draftverify import Pipeline, fallback, feedback, retry
from draftverify.kit import ScriptedGenerator, make_context
from draftverify.rules import LongestPrefix
from draftverify_plan import Goal, Greedy, Validator

from .conftest import TASKS, verdict, written_task

DEAD_END = "spanner/p01"
SLOW_TO_SPLICE = ("logistics/p03", "logistics/p02", "ferry/p02", "depot/p03", "gripper/p02")
"""A planner's call per refusal makes these take seconds; the others show the same."""
TWICE_FED = feedback(2)


def problems(*but: str):
    """The first problem of each domain, and the larger ones for the sweep."""
    return [
        pytest.param(name, marks=() if name.endswith("p01") else pytest.mark.exhaustive)
        for name in TASKS
        if name not in but
    ]


def relaxed(planner, *, block=8, first=TWICE_FED):
    """The drafter with the planner to fall back on."""
    policy = first.then(fallback(planner, rounds=None, on=("reject", "exhausted"), name="planner"))
    return Pipeline(Greedy(), Validator(), LongestPrefix(), block=block, done=Goal(), policy=policy)


def spliced(planner):
    """The drafter whose refused steps the planner replaces."""
    policy = fallback(planner, rounds=None, on=("reject", "exhausted"), name="planner")
    return Pipeline(Greedy(), Validator(planner), LongestPrefix(), block=8, done=Goal(), policy=policy)


@pytest.mark.parametrize("name", problems())
def test_the_planner_alone_solves_every_problem_in_one_round(planner, name):
    """Its plan is one block, all of which passes."""
    pipeline = Pipeline(planner, Validator(), LongestPrefix(), block=200, done=Goal())
    outcome = pipeline.run(TASKS[name])
    assert (outcome.status, outcome.rounds) == ("accepted", 1)
    assert outcome.tally.accepted == outcome.tally.trials == len(outcome.value)
    assert verdict(TASKS[name], outcome.value) == "valid"


@pytest.mark.parametrize("name", problems(DEAD_END))
def test_relaxed_plans_solve_every_problem_that_lets_steps_be_undone(planner, name):
    """The accepted steps are a valid plan, and each round kept the longest valid prefix of its block."""
    task = TASKS[name]
    record = relaxed(planner).record(task)
    assert record.outcome.status == "accepted"
    assert verdict(task, record.outcome.value) == "valid"
    before: list[str] = []
    for round in record.rounds:
        kept = [round.items[i] for i in round.decision.kept]
        assert kept == list(round.items[: len(kept)])
        if round.decision.refused:
            assert verdict(task, [*before, *round.items[: len(kept) + 1]]) == len(before) + len(kept)
        before += round.decision.emitted


@pytest.mark.parametrize("name", problems(DEAD_END, *SLOW_TO_SPLICE))
def test_spliced_plans_solve_them_too(planner, name):
    """Every refusal is answered by the planner's next step, and the whole is a valid plan."""
    record = spliced(planner).record(TASKS[name])
    assert record.outcome.status == "accepted"
    assert verdict(TASKS[name], record.outcome.value) == "valid"
    for round in record.rounds:
        assert not round.decision.refused
        rejected = sum(check.verdict == "reject" for check in round.checks)
        assert len(round.decision.corrected) == rejected


def test_splices_happen_and_are_the_planners_steps(planner):
    """What stands where the refused step stood is what the planner would do in that state."""
    task = TASKS["gripper/p01"]
    record = spliced(planner).record(task)
    assert any(round.decision.corrected for round in record.rounds)
    before: tuple[str, ...] = ()
    for round in record.rounds:
        state = before + tuple(round.items[i] for i in round.decision.kept)
        if round.decision.corrected:
            (corrected,) = round.decision.corrected
            assert corrected.value == planner.plan(make_context(task), state)[0]
        before += round.decision.emitted


def test_an_empty_block_is_one_plain_step_of_the_planner(planner):
    """With nothing drafted the correction goes on by itself, step by step, to the goal."""
    pipeline = Pipeline(Greedy(), Validator(planner), LongestPrefix(), block=0, done=Goal())
    outcome = pipeline.run(TASKS["hanoi/p01"])
    assert outcome.status == "accepted"
    assert (outcome.rounds, outcome.tally.trials) == (len(outcome.value), 0)
    assert verdict(TASKS["hanoi/p01"], outcome.value) == "valid"


def test_a_refusal_is_fed_back_and_changes_the_draft(planner):
    """The reason names the condition that did not hold, and the step that was refused does not come first again."""
    record = relaxed(planner).record(TASKS["dockworker/p01"])
    fed = [round.index for round in record.rounds if [step.do for step in round.steps] == ["feedback"]]
    assert fed
    for index in fed:
        refused = record.rounds[index]
        assert refused.checks[0].reason == "unmet precondition"
        assert "needs (not occupied" in refused.checks[0].feedback
        assert record.rounds[index + 1].items[:1] != refused.items[:1]


def test_without_feedback_the_same_draft_is_refused_again(planner):
    """A plain retry does not tell the drafter why, so the difference above is the feedback's doing."""
    record = relaxed(planner, first=retry(2)).record(TASKS["dockworker/p01"])
    again = [round.index for round in record.rounds if [step.do for step in round.steps] == ["regenerate"]]
    assert again
    assert all(record.rounds[index + 1].items == record.rounds[index].items for index in again)


def test_a_drafter_that_knows_no_way_on_gives_way_to_the_planner(planner):
    """The fallback starts from the kept prefix and finishes the plan."""
    record = relaxed(planner).record(TASKS["blocks/p03"])
    steps = [(step.do, step.on) for round in record.rounds for step in round.steps]
    assert steps == [("fallback", "exhausted")]
    assert record.rounds[0].source == "generator"
    assert record.rounds[-1].source == "planner"


def test_a_step_too_far_is_not_taken_back(planner):
    """In a one-way domain a kept prefix can lose the task: it ends exhausted, valid as far as it goes."""
    outcome = relaxed(planner).run(TASKS[DEAD_END])
    assert outcome.status == "refused"
    assert outcome.value
    assert verdict(TASKS[DEAD_END], outcome.value) == "goal missed"
    assert relaxed(planner, block=1).run(TASKS[DEAD_END]).status == "refused"


def test_the_block_is_cut_where_the_goal_is_reached(planner):
    """Valid steps after the goal are not part of the plan, whoever drafted or spliced them, checked or not."""
    task = TASKS["hanoi/p01"]
    plan = planner.plan(make_context(task), ())
    longer = [*plan, "move d1 d2 peg1", "move d1 peg1 d2"]
    script = ScriptedGenerator(lambda context, n: longer)
    outcome = Pipeline(script, Validator(), LongestPrefix(), block=20, done=Goal()).run(task)
    assert (outcome.status, outcome.value) == ("accepted", plan)
    nothing = ScriptedGenerator([])
    unverified = fallback(script, verified=False)
    outcome = Pipeline(nothing, Validator(), LongestPrefix(), block=20, done=Goal(), policy=unverified).run(
        task
    )
    assert (outcome.status, outcome.value) == ("accepted", plan)
    correcting = Validator(planner, steps=99)
    outcome = Pipeline(nothing, correcting, LongestPrefix(), block=0, done=Goal()).run(task)
    assert (outcome.status, outcome.value) == ("accepted", plan)


def test_a_goal_that_holds_already_is_an_empty_plan(planner):
    """Nothing is drafted and the task is done."""
    task = written_task(
        "(define (domain d) (:requirements :strips) (:predicates (p)) (:action a :parameters () :effect (p)))",
        "(define (problem x) (:domain d) (:init (p)) (:goal (p)))",
    )
    for pipeline in (
        relaxed(planner),
        spliced(planner),
        Pipeline(planner, Validator(), LongestPrefix(), done=Goal()),
    ):
        outcome = pipeline.run(task)
        assert (outcome.status, outcome.value) == ("accepted", ())


def test_steps_accepted_unverified_that_cannot_be_taken_are_a_failure(planner):
    """What no validator saw may be no plan; that is found at the next step and is an error, not a refusal."""
    task = TASKS["blocks/p01"]
    wrong = ScriptedGenerator(lambda context, n: ["unstack a b"])
    policy = fallback(wrong, verified=False, on=("exhausted",))
    nothing = ScriptedGenerator(lambda context, n: [] if context.round < 1 else ["pick-up a"])
    record = Pipeline(nothing, Validator(), LongestPrefix(), done=Goal(), policy=policy).record(task)
    assert record.outcome.status == "failed"
    assert "step 1 of the accepted plan" in record.outcome.reason
    assert record.outcome.tally.trials == 0


def test_every_driver_makes_the_same_plan(planner):
    """One task after the other, all in lockstep, or under asyncio."""
    tasks = [TASKS[name] for name in ("blocks/p02", "blocks/p03", "gripper/p01", "miconic/p01")]
    alone = [relaxed(planner).run(task).value for task in tasks]
    together = [outcome.value for outcome in relaxed(planner).run(tasks)]

    async def both():
        return await asyncio.gather(*(relaxed(planner).arun(task) for task in tasks))

    assert alone == together == [outcome.value for outcome in asyncio.run(both())]


@pytest.mark.parametrize(
    "name",
    [
        "blocks/p02",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("depot/p02", "dockworker/p01")),
    ],
)
def test_a_restored_task_ends_as_it_would_have(planner, name):
    """From any recorded round, with an empty scratch, the same plan comes out."""
    whole = relaxed(planner).record(TASKS[name])
    for done in range(0, len(whole.rounds), 5):
        again = relaxed(planner).record(TASKS[name], restore=whole.rounds[:done])
        assert again.outcome.value == whole.outcome.value
