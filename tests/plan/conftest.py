"""The shipped problems, one planner process for the whole session, and unified-planning's own word on a whole plan."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from draftverify import Task
from draftverify_plan import PddlTasks, Planner
from draftverify_plan.problem import read_problem

PLANS = Path(__file__).parents[2] / "examples" / "plans"
TASKS = {task.id: task for task in PddlTasks(PLANS).load()}


def problem_at(name):
    """The parsed problem of a shipped task."""
    return read_problem(TASKS[name].input["domain"], TASKS[name].input["problem"])


def verdict(task: Task, steps):
    """What unified-planning's plan validator says: "valid", "goal missed", or the place of the step that fails.

    It reads the files and the plan itself, and shares no line with the part under test.
    """
    from unified_planning.engines import SequentialPlanValidator
    from unified_planning.engines.results import FailedValidationReason

    reader, problem = _read(task.input["domain"], task.input["problem"])
    plan = reader.parse_plan_string(problem, "\n".join(f"({step})" for step in steps))
    result = SequentialPlanValidator().validate(problem, plan)
    if result:
        return "valid"
    if result.reason == FailedValidationReason.UNSATISFIED_GOALS:
        return "goal missed"
    return len(result.trace) - 1


@cache
def _read(domain, problem):
    from unified_planning.io import PDDLReader

    reader = PDDLReader()
    return reader, reader.parse_problem_string(domain, problem)


def written_task(domain, problem):
    """A task of two texts."""
    return Task(id="written", input={"domain": domain, "problem": problem})


@pytest.fixture(scope="session")
def planner():
    """A planner whose process is started once."""
    made = Planner(timeout=120)
    yield made
    made.close()
