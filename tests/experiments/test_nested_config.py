"""Pipelines inside pipelines as YAML, clauses for single items, and coroutine parts: alike under every executor."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from draftverify import ConfigError, Pipeline, PipelineError
from draftverify.bench.cli.main import main
from draftverify.bench.config.experiment import ConfigErrors, load_experiment
from draftverify.bench.config.schema import schema
from draftverify.bench.config.specs import Experiment, PipelineSpec
from draftverify.bench.records import load_run
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.run import RunResult, run
from draftverify.bench.tables.trace import trace_lines
from draftverify.view.task_detail import task_detail
from tests.experiments.runs import results

PARTS = Path(__file__).with_name("nested_parts.py")

NESTED = f"""
seed: 3
parts: [{PARTS}]
tasks: {{use: nested_parts.Numbered}}
settings: {{spread: 40}}
pipelines:
  best:
    generator:
      generator: {{use: nested_parts.Sampler}}
      verifier: {{use: nested_parts.Even}}
      rule: {{use: first}}
      block: 3
      on_rejection: [{{do: regenerate, times: 2}}]
      budget: {{rounds: 2}}
    verifier: {{use: nested_parts.Worth}}
    rule: {{use: best}}
    block: 4
    budget: {{cost: 400}}
"""

DEEP = f"""
seed: 3
parts: [{PARTS}]
tasks: {{use: nested_parts.Numbered}}
models:
  shared: {{use: nested_parts.Shared}}
settings: {{spread: 40}}
pipelines:
  deep:
    generator:
      name: middle
      generator:
        name: innermost
        generator: {{use: nested_parts.Sampler}}
        verifier: {{use: nested_parts.Even}}
        rule: {{use: first}}
        block: 2
        settings: {{spread: 8}}
      verifier: {{use: nested_parts.Worth}}
      rule: {{use: best, threshold: 4}}
      block: 2
    verifier: {{use: nested_parts.Worth}}
    rule: {{use: best, threshold: 39}}
    block: 2
    on_rejection:
      - do: fallback
        generator:
          generator: {{use: nested_parts.Sampler}}
          verifier: {{use: nested_parts.Even}}
          rule: {{use: first}}
          block: 60
        rounds: forever
      - {{do: regenerate, times: 20}}
"""

PARTIAL = f"""
parts: [{PARTS}]
tasks: {{use: nested_parts.Numbered}}
settings: {{spread: 100}}
pipelines:
  single:
    generator: {{use: nested_parts.Told}}
    verifier: {{use: nested_parts.Even}}
    rule: {{use: all}}
    block: 6
    done: {{use: limit, items: 6}}
    on_rejection: [{{do: regenerate, partial: true}}]
"""

EXECUTORS = {
    "serial": "{use: serial}",
    "thread": "{use: thread, workers: 2}",
    "process": "{use: process, workers: 1}",
    "batch": "{use: batch, size: 3}",
}


def load(folder: Path, text: str, *overrides: str) -> Experiment:
    """Write the config and load it."""
    file = folder / "nested.yaml"
    file.write_text(text)
    return load_experiment(file, overrides=overrides)


def ran(folder: Path, text: str, name: str, *overrides: str) -> tuple[RunResult, Any]:
    """Run the config; the result and the records without their times."""
    done = run(load(folder, text, *overrides), out=folder / name)
    return done, results(folder / name)


FURTHEST = (("serial", "task"), ("process", "round"))
"""The plain way to run a pipeline, and the one that is furthest from it."""
EACH = (*FURTHEST, ("thread", "round"), ("batch", "task"))
ALL = tuple(itertools.product(EXECUTORS, ("task", "round")))


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        pytest.param(NESTED, EACH, id="nested"),
        pytest.param(DEEP, FURTHEST, id="deep"),
        pytest.param(PARTIAL, FURTHEST, id="partial", marks=pytest.mark.exhaustive),
        *(pytest.param(text, ALL, marks=pytest.mark.exhaustive) for text in (NESTED, DEEP, PARTIAL)),
    ],
)
def test_the_same_records_under_every_executor(
    text: str, ways: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    """Inner tasks, to any depth, come to the same wherever the outer ones run."""
    found = {}
    for name, durable in ways:
        config = (f"executor={EXECUTORS[name]}", f"durable={durable}")
        found[name, durable] = ran(tmp_path, text, f"{name}-{durable}", *config)[1]
    assert len(found["serial", "task"]) == 4
    assert len(found) > 1
    assert all(each == found["serial", "task"] for each in found.values())


def test_coroutine_parts_under_every_executor(tmp_path: Path) -> None:
    """Parts of a parts file may have coroutine methods; what they come to is what plain ones do."""
    _, expected = ran(tmp_path, NESTED, "plain")
    text = NESTED.replace("nested_parts.Sampler", "nested_parts.SlowSampler")
    text = text.replace("nested_parts.Even", "nested_parts.SlowEven")
    for name, executor in EXECUTORS.items():
        assert ran(tmp_path, text, name, f"executor={executor}")[1] == expected, name


def test_records_nest(tmp_path: Path) -> None:
    """The outer round holds a whole record for each of its inner tasks, and its items are what they accepted."""
    _, found = ran(tmp_path, NESTED, "run")
    for record in found.values():
        [round] = record.rounds
        assert [inner.task for inner in round.nested] == [f"{record.task}/0.{i}" for i in range(4)]
        accepted = [inner.outcome.value for inner in round.nested if inner.outcome.status == "accepted"]
        assert list(round.items) == accepted
        assert record.outcome.value == max(accepted)
        assert all(inner.outcome.rounds <= 2 for inner in round.nested)
    assert any(len(inner.rounds) == 2 for record in found.values() for inner in record.rounds[0].nested)


def test_settings_are_inherited_and_overridden(tmp_path: Path) -> None:
    """An inner pipeline reads the outer one's settings, unless it has its own."""
    _, found = ran(tmp_path, DEEP, "run")
    drawn: dict[str, list[int]] = {"innermost": [], "fallback": []}
    for record in found.values():
        for round in record.rounds:
            for middle in round.nested:
                if round.source == "generator":
                    [at_last] = middle.rounds[:1]
                    drawn["innermost"] += [
                        item for inner in at_last.nested for each in inner.rounds for item in each.items
                    ]
                else:
                    drawn["fallback"] += [item for each in middle.rounds for item in each.items]
    assert drawn["innermost"]
    assert max(drawn["innermost"]) < 8
    assert 8 < max(drawn["fallback"]) < 40


def test_budgets_reach_inside(tmp_path: Path) -> None:
    """Inner tasks charge the outer budget, and end when their share of it is spent."""
    rich, _ = ran(tmp_path, NESTED, "rich")
    assert rich.summary.pipelines[0].statuses == {"accepted": 4}
    _, found = ran(tmp_path, NESTED, "poor", "pipelines.best.budget.cost=4")
    inner = [each.outcome for record in found.values() for each in record.rounds[0].nested]
    assert all(each.cost <= 4 for each in inner)
    assert any("the cost budget of 1 is spent" in each.reason for each in inner)


def test_show_and_report_of_nested_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables, the page and the trace of such a run, inner tasks indented below the outer round."""
    done, _ = ran(tmp_path, DEEP, "run")
    assert main(["show", str(done.path)]) == 0
    assert "deep" in capsys.readouterr().out
    assert "deep" in (done.path / "report.html").read_text(encoding="utf-8")
    assert main(["show", str(done.path), "--trace", "t0"]) == 0
    trace = capsys.readouterr().out
    assert "    inner task t0/0.0: " in trace
    assert "        inner task t0/0.0/0.0: " in trace


def test_inner_pipelines_are_built_as_generators(tmp_path: Path) -> None:
    """Names, seeds and places of every level; parts and models are shared between them."""
    experiment = load(tmp_path, DEEP)
    [spec] = Experiment.from_json(experiment.to_json()).pipelines
    assert isinstance(spec.generator, PipelineSpec)
    assert spec.generator.path == "pipelines.deep.generator"
    assert spec.generator.where == f"{tmp_path / 'nested.yaml'}:10"
    built = Builder().pipeline(spec)
    middle, fallback = built.generators
    assert isinstance(middle, Pipeline)
    assert isinstance(fallback, Pipeline)
    assert [middle.name, middle.generator.name] == ["middle", "innermost"]  # type: ignore[attr-defined]
    assert fallback.name == "deep.on_rejection.0.generator"
    assert built.policy.clauses[0].name == fallback.name
    assert {built.seed, middle.seed, fallback.seed} == {3}
    assert middle.generator.verifier is fallback.verifier  # type: ignore[attr-defined]
    assert built.verifier is middle.verifier


def test_a_shared_part_is_opened_once(tmp_path: Path) -> None:
    """A part that stands in a pipeline and in the one inside it is one part."""
    log = tmp_path / "log"
    even = f"{{use: nested_parts.Even, log: {log}}}"
    text = NESTED.replace("{use: nested_parts.Even}", even).replace(
        "    verifier: {use: nested_parts.Worth}\n    rule: {use: best}\n",
        f"    verifier: {even}\n    rule: {{use: first}}\n",
    )
    pipeline = Builder().pipeline(load(tmp_path, text).pipelines[0])
    with pipeline:
        assert pipeline.run({"n": 1}).status == "accepted"
    assert log.read_text() == "opened\n"


def test_the_clause_for_single_items(tmp_path: Path) -> None:
    """`partial: true` drafts again what was refused beside what was kept, and only that."""
    _, found = ran(tmp_path, PARTIAL, "run")
    for record in found.values():
        first, second = record.rounds
        refused = [each.index for each in first.decision.refused]
        assert 0 < len(refused) < 6
        assert second.items == tuple(first.items[index] + 1 for index in refused)
        assert len(record.outcome.value) == 6


# old text, new text, line, dotted path, what the message says
WRONG = {
    "a missing inner part": (
        "      rule: {use: first}\n      block: 3\n",
        "",
        8,
        "pipelines.best.generator.rule",
        "is missing",
    ),
    "an unknown inner key": (
        "      block: 3",
        "      blok: 3",
        12,
        "pipelines.best.generator.blok",
        "block?",
    ),
    "an unknown inner part": (
        "rule: {use: first}",
        "rule: {use: frist}",
        11,
        "pipelines.best.generator.rule.use",
        "did you mean first?",
    ),
    "an inner clause": (
        "regenerate, times: 2",
        "escalate, times: 2",
        13,
        "pipelines.best.generator.on_rejection.0.times",
        "the step 'escalate' takes no 'times'",
    ),
    "an inner budget": (
        "      budget: {rounds: 2}",
        "      budget: {round: 2}",
        14,
        "pipelines.best.generator.budget.round",
        "did you mean rounds?",
    ),
    "a name for an outer one": (
        "    block: 4",
        "    name: other",
        17,
        "pipelines.best.name",
        "unknown key 'name'",
    ),
    "neither a part nor a pipeline": (
        "      generator: {use: nested_parts.Sampler}\n      verifier: {use: nested_parts.Even}\n"
        "      rule: {use: first}\n",
        "",
        8,
        "pipelines.best.generator",
        "a part is written {use: NAME, …}",
    ),
    "partial is yes or no": (
        "regenerate, times: 2",
        "regenerate, partial: 2",
        13,
        "pipelines.best.generator.on_rejection.0.partial",
        "should be a valid boolean, not 2",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_mistakes_inside_are_told_with_their_place(what: str, tmp_path: Path) -> None:
    """As those of an outer pipeline: line, dotted path, and what to do."""
    old, new, line, path, says = WRONG[what]
    assert old in NESTED
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, NESTED.replace(old, new, 1))
    error = caught.value
    assert not isinstance(error, ConfigErrors), str(error)
    assert (error.where, error.path) == (f"{tmp_path / 'nested.yaml'}:{line}", path)
    assert says in error.message


def test_inner_parts_that_do_not_fit_are_told_with_the_inner_place(tmp_path: Path) -> None:
    """The place is that of the inner pipeline, not of the one around it."""
    experiment = load(tmp_path, NESTED.replace("rule: {use: first}", "rule: {use: best}"))
    with pytest.raises(PipelineError) as caught:
        Builder().pipeline(experiment.pipelines[0])
    assert str(caught.value).startswith(f"{tmp_path / 'nested.yaml'}:8: pipelines.best.generator: the rule")


def test_the_schema_takes_what_the_loader_takes(tmp_path: Path) -> None:
    """Inner pipelines and clauses for single items are in the schema, mistakes inside them too."""
    validator = jsonschema.Draft202012Validator(schema())
    yaml = YAML(typ="safe", pure=True)
    for text in (NESTED, DEEP, PARTIAL):
        assert [error.message for error in validator.iter_errors(yaml.load(text))] == []
    for what in (
        "a missing inner part",
        "an unknown inner key",
        "an inner budget",
        "a name for an outer one",
    ):
        old, new, *_ = WRONG[what]
        assert list(validator.iter_errors(yaml.load(NESTED.replace(old, new, 1)))), what


@pytest.mark.parametrize("executor", ["serial", "process"])
def test_a_person_asked_inside_is_asked_through_the_same_queue(executor: str, tmp_path: Path) -> None:
    """A task whose inner tasks ask waits as a whole, and goes on with each answer."""
    text = NESTED.replace("[{do: regenerate, times: 2}]", "[{do: escalate}]").replace("block: 3", "block: 1")
    config = load(tmp_path, text, f"executor={EXECUTORS[executor]}", "tasks.count=1")
    done = run(config, out=tmp_path / "run")
    assert done.waiting == 1
    with load_run(tmp_path / "run") as records:
        (waiting,) = [record for record in records if record.outcome.status == "waiting"]
        assert "waiting" in {inner.outcome.status for inner in waiting.inner}
        assert waiting.outcome.cost > 0
        shown = [line.plain for line in trace_lines(records, waiting.task, None, marks=True)]
        assert sum(f"inner task {waiting.task}/0." in line for line in shown) == len(waiting.inner)
        shown_in_page = [
            pipeline.get("inner", ()) for pipeline in task_detail(records, waiting.task)["pipelines"]
        ]
        assert sum(map(len, shown_in_page)) == len(waiting.inner)
    answers = 0
    while done.waiting:
        with load_run(tmp_path / "run") as records:
            for question in records.store.questions("pending"):
                assert records.store.answer(question, "edit", 2, "")
                answers += 1
        done = run(config, out=tmp_path / "run")
    [record] = results(tmp_path / "run").values()
    assert 1 <= answers <= 4
    assert record.outcome.status == "accepted"
    edited = [
        each for each in record.rounds[0].nested if any(round.source == "person" for round in each.rounds)
    ]
    assert len(edited) == answers
