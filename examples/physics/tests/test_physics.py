"""The parts keep draftverify's contract, paths stay as near as the tolerance says, and the experiments run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from draftverify import Pipeline, Proposal
from draftverify.bench import load_experiment, run
from draftverify.kit import Subject, check_component
from draftverify.rules import Limit, LongestPrefix
from draftverify_physics import Coarse, Fine, PathError, Starts, integrate

PACKAGE = Path(__file__).parents[1]
LORENZ, HEAT = Starts(("lorenz", "heat 8"), count=1).load()
INPUTS = [dict(task.input) for task in (LORENZ, HEAT)]


def blocks(context):
    """The fine solver's own next states, the second with a slip; one alone; none."""
    task, states = context.task.input, [np.array(context.task.input["start"])]
    for _ in range(3):
        states.append(integrate(task["system"], states[-1], task["span"], 4))
    right = [state.tolist() for state in states[1:]]
    wrong = [right[0], [2 * entry for entry in right[1]], right[2]]
    return [Proposal.chain(right), Proposal.chain(wrong), Proposal.chain(right[:1]), Proposal.chain([])]


@pytest.mark.parametrize(
    "part",
    [
        Subject(Coarse(), tasks=INPUTS),
        Subject(Fine(steps=4), tasks=INPUTS, proposals=blocks, poison=[["no", "state"]]),
    ],
)
def test_the_parts_keep_the_contract(part):
    """draftverify's conformance kit over both solvers."""
    check_component(part)


@pytest.mark.parametrize("task", [LORENZ, HEAT], ids=["lorenz", "heat"])
def test_a_tolerance_of_nothing_gives_the_fine_path_and_a_looser_one_fewer_passes(task):
    """Whatever the drafts are worth; the error grows with the tolerance."""
    outcomes = {
        tolerance: Pipeline(
            Coarse(), Fine(tolerance, steps=8), LongestPrefix(), block=16, done=Limit(32)
        ).run(task)
        for tolerance in (0.0, 1e-6, 1e-2)
    }
    alone = Pipeline(Coarse(), Fine(steps=8), LongestPrefix(), block=0, done=Limit(32)).run(task)
    assert outcomes[0.0].value == alone.value
    passes = [outcome.rounds for outcome in outcomes.values()]
    assert alone.rounds == passes[0] == 32
    assert passes[0] > passes[1] >= passes[2] == 2
    errors = [PathError(steps=8)(task, outcome) for outcome in outcomes.values()]
    assert errors[0] == 0.0
    assert errors[1] <= errors[2] < 1e-2


def test_the_integrator_is_of_fourth_order():
    """Half the step, a sixteenth of the error."""
    start = np.array(LORENZ.input["start"])
    exact = integrate("lorenz", start, 0.1, 4096)
    coarse, half = (np.abs(integrate("lorenz", start, 0.1, steps) - exact).max() for steps in (16, 32))
    assert coarse / half == pytest.approx(16, rel=0.2)


def test_no_heat_is_lost():
    """The ring's total stays what it was."""
    start = np.array(HEAT.input["start"])
    assert integrate("heat", start, HEAT.input["span"] * 100, 400).sum() == pytest.approx(start.sum())


def test_the_experiments_run_and_are_compared(tmp_path):
    """Every path is there; with a tolerance of 10⁻² drafts pass, with one of 10⁻¹⁰ Lorenz's do not."""
    few = ["defaults.done.items=16", "defaults.verifier.steps=8"]
    result = run(load_experiment(PACKAGE / "experiment.yaml", limit=1, overrides=few), out=tmp_path / "run")
    assert [pipeline.statuses for pipeline in result.summary.pipelines] == [{"accepted": 3}] * 3
    swept = run(load_experiment(PACKAGE / "sweep.yaml", limit=1, overrides=few), out=tmp_path / "sweep")
    kept = {
        pipeline.name: row.acceptance.value
        for pipeline in swept.summary.pipelines
        for row in pipeline.rows
        if row.group == "lorenz"
    }
    assert len(kept) == 16
    assert kept["drafted@block=64,tolerance=0.01"] == 1.0
    assert kept["drafted@block=64,tolerance=1e-10"] < 0.1
    command = [sys.executable, "-m", "draftverify", "compare", str(swept.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "error" in done.stdout


def test_the_readme_s_example_runs():
    """As it stands."""
    [code] = re.findall(r"^```python\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.M | re.S)
    namespace: dict = {}
    exec(compile(code, "README.md", "exec"), namespace)
    assert namespace["record"].outcome.rounds < 5
