"""Reading problems and steps: the trusted simulator, hostile texts, and what a broken file becomes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError, Pipeline, Proposal, ResourceError, Task
from draftverify.kit import ScriptedGenerator, make_context
from draftverify.rules import LongestPrefix
from draftverify_plan import PddlTasks, Reason, Validator
from draftverify_plan.problem import StepError, read_problem

from .conftest import PLANS, TASKS, problem_at, verdict, written_task

BLOCKS = problem_at("blocks/p01")
DOMAIN = (PLANS / "blocks" / "domain.pddl").read_text()


# The parsed problem stays in here from one example to the next, as it does from round to round.
_SCRATCH: dict[str, object] = {}


def test_the_examples_are_twenty_problems_of_nine_domains():
    """A task per problem file, in order, named and grouped by its domain."""
    assert len(TASKS) == 20
    assert len({task.group for task in TASKS.values()}) == 9
    assert list(TASKS) == sorted(TASKS)
    assert [task.id for task in PddlTasks(PLANS, limit=2).load()] == ["blocks/p01", "blocks/p02"]


def test_a_task_is_the_same_wherever_its_files_are(tmp_path):
    """Its input holds no path, so that runs of two places can be compared."""
    shutil.copytree(PLANS, tmp_path / "elsewhere")
    elsewhere = PddlTasks(tmp_path / "elsewhere").load()
    assert [(task.id, dict(task.input)) for task in elsewhere] == [
        (task.id, dict(task.input)) for task in TASKS.values()
    ]
    assert not any(str(PLANS.parent) in str(task.input) for task in TASKS.values())


def test_a_file_that_is_no_text_is_a_config_error(tmp_path):
    """With its name."""
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "domain.pddl").write_text("(define (domain odd))")
    (tmp_path / "odd" / "p01.pddl").write_bytes(b"\xff\xfe(")
    with pytest.raises(ConfigError, match=r"p01\.pddl: the file cannot be read"):
        PddlTasks(tmp_path).load()


@pytest.mark.parametrize("limit", [None, -1])
def test_a_folder_without_problems_is_a_config_error(tmp_path, limit):
    """The message names the folder; so does the one for a negative limit."""
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(ConfigError, match=folder.name):
            PddlTasks(folder, limit=limit).load()


@pytest.mark.parametrize("step", ["pick-up a", "(pick-up a)", "  PICK-UP   A ", "( pick-up a )"])
def test_a_step_is_read_as_plan_files_write_it(step):
    """Brackets, case and spaces do not matter."""
    assert str(BLOCKS.parse(step)) == "pick-up(a)"


@pytest.mark.parametrize(
    ("step", "reason", "said"),
    [
        ("", "unknown action", "no action"),
        ("fly a", "unknown action", "pick-up, put-down, stack, unstack"),
        ("stack a", "wrong arguments", "2 arguments"),
        ("pick-up z", "wrong arguments", "no object 'z'"),
        ("unstack a b", "unmet precondition", "on(a, b)"),
        ("pick-up a\npick-up b", "not parsable", "one line"),
        ("pick-up " + "a" * 2000, "not parsable", "one line"),
        (None, "not parsable", "one line"),
        (["pick-up", "a"], "not parsable", "one line"),
    ],
)
def test_a_bad_step_is_refused_for_its_reason(step, reason, said):
    """Each of the closed list's reasons comes with words that a drafter could use."""
    with pytest.raises(StepError) as caught:
        BLOCKS.step(BLOCKS.start, step)
    assert caught.value.reason == reason
    assert said in caught.value.feedback


def test_an_argument_of_the_wrong_type_is_refused():
    """The feedback says what was wanted in that place."""
    problem = problem_at("depot/p01")
    with pytest.raises(StepError) as caught:
        problem.step(problem.start, "drive crate0 depot0 distributor0")
    assert caught.value.reason == "wrong arguments"
    assert "x - truck" in caught.value.feedback


def test_a_step_that_can_never_be_taken_is_refused():
    """A static condition that is false names itself like any other."""
    problem = problem_at("spanner/p01")
    with pytest.raises(StepError) as caught:
        problem.step(problem.start, "walk l3 l1 bob")
    assert caught.value.reason == "unmet precondition"
    assert "link(l3, l1)" in caught.value.feedback


names = st.sampled_from([*(a.name for a in BLOCKS.problem.actions), *"abcdz", "(", ")", "PICK-UP", ";", "'"])


@given(st.one_of(st.text(), st.lists(names, max_size=5).map(" ".join)))
def test_any_text_is_a_step_or_a_refusal(text):
    """Model output of any kind is judged, never run, and never an error."""
    found = Validator().verify(make_context(TASKS["blocks/p01"], scratch=_SCRATCH), _chain(text)).checks[0]
    assert found.verdict in ("pass", "reject")
    assert (found.verdict == "pass") == (found.reason in ("", "goal"))
    assert found.verdict == "pass" or found.reason in get_args(Reason)


def test_a_text_that_looks_like_code_is_no_code(tmp_path):
    """Nothing in a step is evaluated or opened."""
    target = tmp_path / "made"
    for text in (
        f"__import__('pathlib').Path('{target}').touch()",
        f"pick-up __import__('pathlib').Path('{target}').touch()",
        f"(define (domain {target}))",
        f"pick-up $(touch {target})",
    ):
        check = Validator().verify(make_context(TASKS["blocks/p01"]), _chain(text)).checks[0]
        assert check.verdict == "reject"
    assert not target.exists()


steps = st.sampled_from(BLOCKS.relaxation.actions).map(lambda action: action.step)


@given(st.lists(steps, max_size=8))
def test_the_passed_prefix_is_the_longest_valid_one(plan):
    """Pass, pass, reject, unchecked …: the place is the one that unified-planning's plan validator finds."""
    checks = Validator().verify(make_context(TASKS["blocks/p01"], scratch=_SCRATCH), _chain(*plan)).checks
    verdicts = [check.verdict for check in checks]
    found = verdict(TASKS["blocks/p01"], plan)
    valid = len(plan) if isinstance(found, str) else found
    assert verdicts[:valid] == ["pass"] * valid
    assert verdicts[valid:] == ["reject", *["unchecked"] * (len(plan) - valid - 1)][: len(plan) - valid]
    assert (found == "valid") == (bool(checks) and checks[-1].reason == "goal")


def test_the_state_is_the_one_after_what_was_accepted():
    """A block is judged after the accepted steps, whatever the scratch holds from another course of events."""
    scratch = {}
    for accepted, verdict_ in (((), "reject"), (("pick-up d",), "pass"), (("pick-up c",), "reject")):
        context = make_context(TASKS["blocks/p01"], accepted=accepted, scratch=scratch)
        assert Validator().verify(context, _chain("stack d c")).checks[0].verdict == verdict_


@pytest.mark.parametrize(
    ("domain", "problem", "said"),
    [
        ("(define (domain broken", "(define (problem p) (:domain broken))", "cannot be read"),
        ("", "", "the domain is no PDDL"),
        ("(" * 5000, "(", "cannot be read"),
        (
            DOMAIN,
            "(define (problem p) (:domain blocks) (:objects a) (:init (flies a)) (:goal (clear a)))",
            "cannot",
        ),
        (
            "(define (domain d) (:requirements :durative-actions) (:predicates (p)) (:durative-action a :parameters ()"
            " :duration (= ?duration 1) :condition (at start (p)) :effect (at end (p))))",
            "(define (problem p) (:domain d) (:init (p)) (:goal (p)))",
            "cannot be read",
        ),
    ],
)
def test_a_file_that_is_no_sequential_problem_fails_the_task(domain, problem, said):
    """It is a failure of the task, never a refusal of a step."""
    outcome = _pipeline().run(written_task(domain, problem))
    assert outcome.status == "failed"
    assert outcome.failure.error == "PddlError"
    assert said in outcome.reason
    assert outcome.tally.trials == 0


@pytest.mark.parametrize(
    "given", [{}, {"domain": "d.pddl"}, {"domain": "no.pddl", "problem": "no.pddl"}, {"domain": 1}]
)
def test_a_task_without_files_fails_and_says_what_is_missing(given):
    """The input holds two texts, and not where they could be found."""
    outcome = _pipeline().run(Task(id="x", input=given))
    assert outcome.status == "failed"
    assert "lacks" in outcome.reason or "the domain is no PDDL but 'no.pddl'" in outcome.reason


def test_conditions_of_any_classical_kind_are_simulated():
    """Disjunctions, quantifiers and conditional effects are unified-planning's to judge."""
    task = written_task(
        "(define (domain rooms) (:requirements :adl) (:types room) (:predicates (lit ?r - room) (at ?r - room) (all))"
        " (:action toggle :parameters (?r - room) :precondition (at ?r)"
        "  :effect (and (when (lit ?r) (not (lit ?r))) (when (not (lit ?r)) (lit ?r))))"
        " (:action walk :parameters (?r - room ?s - room) :precondition (and (at ?r) (or (lit ?r) (lit ?s)))"
        "  :effect (and (at ?s) (not (at ?r))))"
        " (:action finish :parameters () :precondition (forall (?r - room) (lit ?r)) :effect (all)))",
        "(define (problem p) (:domain rooms) (:objects a b - room) (:init (at a)) (:goal (all)))",
    )
    problem = read_problem(task.input["domain"], task.input["problem"])
    plan = ("toggle a", "walk a b", "toggle b", "finish ")
    checks = Validator().verify(make_context(task), _chain(*plan)).checks
    assert [check.verdict for check in checks] == ["pass"] * 4
    assert checks[-1].reason == "goal"
    refused = Validator().verify(make_context(task), _chain("finish")).checks[0]
    assert (refused.verdict, refused.reason) == ("reject", "unmet precondition")
    assert problem.relaxation.plan(problem.facts(problem.start)) is not None


def test_importing_the_adapter_loads_no_planning_library():
    """unified-planning is imported when a problem is read."""
    code = "import draftverify_plan, sys; print('unified_planning' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )


def test_every_borrowed_problem_is_covered_by_the_notice():
    """A file that says it is pddlgym's stands beside pddlgym's licence."""
    notice = (PLANS / "NOTICE").read_text()
    borrowed = [path for path in Path(PLANS).glob("*/*.pddl") if "pddlgym" in path.read_text()]
    assert len(borrowed) >= 10
    assert "Tom Silver and Rohan Chitnis" in notice
    assert "Permission is hereby granted" in notice


def _chain(*items):
    return Proposal.chain(items)


def _pipeline():
    return Pipeline(ScriptedGenerator([["noop"]]), Validator(), LongestPrefix())


def test_a_missing_package_is_told_before_the_first_task(monkeypatch):
    """Without unified-planning the validator does not open, and the message names the extra."""
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "unified_planning" else find(name, *rest),
    )
    with pytest.raises(ResourceError, match=r"install draftverify with the extra 'plan'"):
        Validator().open()
