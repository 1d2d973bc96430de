"""Values that no record can hold cost their own task, under every executor, and never the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from draftverify import ContractError, Task, TaskRecord, escalate
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run, timeless
from draftverify.bench.records.encoding import encode
from draftverify.bench.runner.forecast import Forecast
from draftverify.bench.runner.run import run
from draftverify.engine.events import Event
from tests.engine.guilty import beside_fine_ones, cases, is_fine, pipeline

YAML = """
name: odd
parts: [{parts}]
tasks: {{use: odd_parts.{kind}Tasks}}
pipelines:
  only:
    generator: {{use: odd_parts.{generator}}}
    verifier: {{use: odd_parts.{kind}Judge}}
    rule: {{use: first}}
    block: {block}
    on_rejection: {policy}
durable: {durable}
executor: {executor}
"""


EXECUTORS = [
    "{use: serial}",
    "{use: batch, size: 4}",
    "{use: thread}",
    "{use: process, workers: 1}",
]


def statuses(folder: Path, **blanks: str) -> dict[str, str]:
    """Run the tasks; how each ended."""
    parts = Path(__file__).with_name("odd_parts.py")
    file = folder / "odd.yaml"
    file.write_text(YAML.format(parts=parts, **blanks))
    run(load_experiment(file), out=folder / "run")
    with load_run(folder / "run") as found:
        return {entry.record.task: entry.record.outcome.status for entry in found.store.entries()}


@pytest.mark.parametrize(
    ("executor", "durable"),
    [
        pytest.param(executor, durable, marks=() if durable == chosen else pytest.mark.exhaustive)
        for executor, chosen in zip(EXECUTORS, ("task", "round", "task", "round"), strict=True)
        for durable in ("task", "round")
    ],
)
def test_what_cannot_be_recorded_fails_its_task_alone(tmp_path: Path, executor: str, durable: str) -> None:
    """Bytes, half characters, huge numbers and sets, as items and in questions; odd reasons are spelt and kept."""
    odd = {"kind": "Odd", "generator": "Odd", "block": "1", "policy": "[{do: escalate}]"}
    ended = statuses(tmp_path, executor=executor, durable=durable, **odd)
    assert {ended.pop(name) for name in ("fine", "said", "reason")} == {"accepted"}
    assert set(ended) == {"bytes", "surrogate", "huge", "set", "asked"}
    assert set(ended.values()) == {"failed"}


@pytest.mark.parametrize(
    ("executor", "generator"),
    [
        *((executor, generator) for executor in EXECUTORS[:3] for generator in ("Quit", "QuitLater")),
        (EXECUTORS[3], "Quit"),
        pytest.param(EXECUTORS[3], "QuitLater", marks=pytest.mark.exhaustive),
    ],
)
def test_a_part_that_means_to_leave_fails_its_task_alone(
    tmp_path: Path, executor: str, generator: str
) -> None:
    """SystemExit, GeneratorExit and a BaseException of another library's, from any part, and in a coroutine's task."""
    quit = {"kind": "Quit", "generator": generator, "block": "{use: odd_parts.QuitSize}", "policy": "[]"}
    ended = statuses(tmp_path, executor=executor, durable="task", **quit)
    assert {ended.pop(name) for name in ("fine", "mute")} == {"accepted"}
    assert ended == dict.fromkeys(("exit", "panic", "generator", "checking", "choosing"), "failed")


GUILTY = """
name: guilty
parts: [{parts}]
tasks: {{use: guilty_parts.GuiltyTasks}}
pipelines:
  only:
    generator: {{use: guilty_parts.GuiltyPart}}
    verifier: {{use: guilty_parts.GuiltyPart}}
    rule: {{use: guilty_parts.GuiltyRule}}
    block: {{use: guilty_parts.GuiltyPart}}
    on_rejection: [{{do: escalate, on: [reject]}}]
    budget: {{rounds: 4}}
metrics: {{how: {{use: guilty_parts.GuiltyMetric}}}}
durable: round
executor: {executor}
"""


@pytest.mark.parametrize("executor", EXECUTORS[:3])
def test_a_wrong_value_of_any_field_fails_its_task_alone(tmp_path: Path, executor: str) -> None:
    """In a run that is stopped and taken up again all tasks end, the fine ones as ever, and records are read again."""
    file = tmp_path / "guilty.yaml"
    file.write_text(GUILTY.format(parts=Path(__file__).with_name("guilty_parts.py"), executor=executor))

    class Stopping:
        left = 150

        def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
            pass

        def event(self, event: Event) -> None:
            pass

        def forecast(self, forecast: Forecast) -> None:
            pass

        def done(self, pipeline: str, record: TaskRecord) -> None:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(load_experiment(file), out=tmp_path / "run", watcher=Stopping())
    done = run(load_experiment(file), out=tmp_path / "run")
    tasks = beside_fine_ones(cases(1))
    with load_run(tmp_path / "run") as found:
        records = {entry.record.task: entry.record for entry in found.store.entries()}
        waiting = {question.task for question in found.store.questions()}
    assert done.resumed
    assert {*records, *waiting} == {task.id for task in tasks}
    assert all(name.startswith(("answer|", "whole|ask|")) for name in waiting)
    fine = {record.outcome.value for record in records.values() if is_fine(record)}
    assert fine == {"a"}
    alone = pipeline(policy=escalate(on=["reject"]))
    for name, record in records.items():
        expected = alone.record(Task(id=name))
        try:
            text = encode(timeless(expected), "x")
        except ContractError:
            assert record.outcome.status == "failed", name
        else:
            assert (
                encode(timeless(record), "x")
                .replace("GuiltyPart: ", "Guilty: ")
                .replace("GuiltyRule: ", "Guilty: ")
                == text
            ), name
