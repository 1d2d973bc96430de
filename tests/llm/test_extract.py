"""The extraction example: its YAML and its Python say the same, and it runs with the shipped SmolLM2."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from draftverify import Pipeline, Proposal
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.run import run
from draftverify.checks.verifiers import JsonSchema
from draftverify.kit import make_context
from draftverify_llm import Sample

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """The Python example's names; no model is loaded by importing it."""
    return runpy.run_path(str(EXAMPLES / "extract.py"))


def test_the_yaml_is_the_python(example: dict[str, Any]) -> None:
    """Equal parts with equal arguments, and the same settings and policy."""
    (spec,) = load_experiment(EXAMPLES / "extract.yaml").pipelines
    written, made = Builder().pipeline(spec), example["pipeline"]
    assert isinstance(made, Pipeline)
    assert isinstance(written.generator, Sample)
    assert isinstance(written.verifier, JsonSchema)
    for name in ("system", "template", "max_tokens", "temperature", "top_p", "stop", "take"):
        assert getattr(written.generator, name) == getattr(made.generator, name)
    assert written.generator.model.weights == made.generator.model.weights
    assert written.verifier.schema == made.verifier.schema
    assert written.policy == made.policy
    assert written.settings == made.settings
    assert (written.block.n, type(written.rule)) == (made.block.n, type(made.rule))


def test_no_part_sees_the_right_answers() -> None:
    """They are the tasks' expected, and in no input."""
    experiment = load_experiment(EXAMPLES / "extract.yaml")
    tasks = Builder().part(experiment.tasks).load()
    lines = [json.loads(line) for line in (EXAMPLES / "extract.jsonl").read_text().splitlines()]
    assert len(tasks) == len(lines) == 20
    for task, line in zip(tasks, lines, strict=True):
        assert dict(task.input) == {"text": line["text"]}
        assert dict(task.expected) == {"answer": line["answer"]}
        answer = line["answer"]
        assert answer["name"] in line["text"]
        assert answer["date"] in line["text"]


def test_the_right_answers_have_the_form(example: dict[str, Any]) -> None:
    """So every task can be solved."""
    lines = [json.loads(line) for line in (EXAMPLES / "extract.jsonl").read_text().splitlines()]
    block = Proposal.alternatives([line["answer"] for line in lines])
    checks = example["schema"].verify(make_context("x"), block).checks
    assert {check.verdict for check in checks} == {"pass"}


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.exhaustive
def test_it_runs_with_the_shipped_model(tmp_path: Path) -> None:
    """Two texts: what is accepted has the form, what is refused was told why."""
    done = run(load_experiment(EXAMPLES / "extract.yaml", overrides=["tasks.limit=2"]), out=tmp_path / "run")
    assert done.failed == 0
    assert done.summary.metrics == ("right",)
    assert done.summary.pipelines[0].rows[-1].solved["right"].rate.clusters == 2
    with load_run(tmp_path / "run") as records:
        found = [entry.record for entry in records.store.entries()]
    assert len(found) == 2
    for record in found:
        assert record.rounds[0].items
        if record.outcome.status == "accepted":
            assert set(json.loads(record.outcome.value)) == {"name", "date", "amount"}
        for round in record.rounds:
            assert all(check.verdict in ("pass", "reject", "unchecked") for check in round.checks)
            assert all(check.feedback for check in round.checks if check.verdict == "reject")
