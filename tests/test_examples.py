"""The Python examples: pipelines of five domains, written with public names alone."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.workload import workload

EXAMPLES = Path(__file__).parents[1] / "examples"


def limited() -> list[tuple[str, str]]:
    """Each `--limit N` that an example's header names, with the example."""
    found = []
    for file in sorted(EXAMPLES.glob("*.yaml")):
        header = re.match(r"(?:#.*\n)*", file.read_text())
        assert header is not None
        assert f"examples/{file.name}" in header[0], "the header does not say how the example is run"
        found += [(file.name, limit) for limit in dict.fromkeys(re.findall(r"--limit (\d+)", header[0]))]
    return found


@pytest.mark.parametrize(("name", "limit"), limited())
def test_every_limit_that_an_example_names_works(
    name: str, limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run that the header speaks of has its parts and tasks in order, and something to measure."""
    out = ["--out", str(tmp_path / "run")]
    assert main(["run", str(EXAMPLES / name), "--limit", limit, "--dry-run", *out]) == 0
    assert re.search(r"^measure: [1-9]", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("limit", [1, 6])
def test_a_first_look_at_the_drafters_leaves_something_to_measure(limit: int) -> None:
    """--limit 6 once took the tasks that predict away, and there was nothing to run."""
    load = workload(load_experiment(EXAMPLES / "drafters.yaml", limit=limit), Builder())
    groups = {task.group for task in load.predicting}
    assert len(groups) == 6
    assert {task.group for task in load.measured} == groups
    assert len(load.measured) == 6 * min(limit, 2)


def test_the_sweep_is_rules_by_sizes_by_drafters() -> None:
    """Each cell another pipeline, all with one verifier, against plain decoding alone."""
    experiment = load_experiment(EXAMPLES / "sweep.yaml")
    assert len(experiment.names) == 1 + 2 * 4 * 3
    assert experiment.baselines == {}
    pipelines = Builder().bench(experiment).pipelines
    assert len({id(pipeline.verifier) for pipeline in pipelines.values()}) == 1


def test_retrieval_says_when_there_is_no_answer() -> None:
    """A threshold fitted on twenty questions tells the other twenty apart, and refuses by abstaining."""
    outcomes = runpy.run_path(str(EXAMPLES / "retrieval.py"))["outcomes"]
    assert {outcome.status for task, outcome in outcomes.items() if task.input["answerable"]} == {"accepted"}
    assert {outcome.status for task, outcome in outcomes.items() if not task.input["answerable"]} == {
        "abstained"
    }


def test_reasoning_steps_are_sound_in_each_way(capsys: pytest.CaptureFixture[str]) -> None:
    """Whole solutions, step by step, the longest sound prefix, and several chains at once end without a slip."""
    runpy.run_path(str(EXAMPLES / "steps.py"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all("accepted" in line and "slip" not in line and "step3" in line for line in lines)


def test_votes_say_how_sure_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """By heads the commonest wins, by weight the trusted one, and without a leader nobody does."""
    runpy.run_path(str(EXAMPLES / "vote.py"))
    heads, nobody, weights = capsys.readouterr().out.splitlines()
    assert "value=42" in heads
    assert "support=" in heads
    assert "abstained" in nobody
    assert "value=41" in weights


def test_only_refused_rows_are_drafted_again() -> None:
    """Two rounds: all rows by the surrogate, then those that it got wrong, exactly; no accepted row twice."""
    record = runpy.run_path(str(EXAMPLES / "surrogate.py"))["record"]
    first, second = record.rounds
    assert record.outcome.status == "accepted"
    assert sorted(row for row, _ in record.outcome.value) == list(range(10))
    kept = {first.items[index][0] for index in first.decision.kept}
    assert not kept & {row for row, _ in second.items}
    assert (second.source, second.by) == ("fallback", "fallback")


def test_the_best_plan_of_three_blocks_is_cheaper(capsys: pytest.CaptureFixture[str]) -> None:
    """Best over rounds needs no rule of one's own: `done` says when to stop looking."""
    runpy.run_path(str(EXAMPLES / "query_plans.py"))
    one, three = capsys.readouterr().out.splitlines()
    assert "score=-2011" in one
    assert "score=-1001" in three
