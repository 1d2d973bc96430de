"""Values that no record can hold cost their own task, under every executor, and never the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify.experiments.config import load_experiment
from draftverify.experiments.run import run
from draftverify.records import load_run

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


@pytest.mark.parametrize("durable", ["task", "round"])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_cannot_be_recorded_fails_its_task_alone(tmp_path: Path, executor: str, durable: str) -> None:
    """Bytes, half characters, huge numbers and sets, as items and in questions; odd reasons are spelt and kept."""
    odd = {"kind": "Odd", "generator": "Odd", "block": "1", "policy": "[{do: escalate}]"}
    ended = statuses(tmp_path, executor=executor, durable=durable, **odd)
    assert {ended.pop(name) for name in ("fine", "said", "reason")} == {"accepted"}
    assert set(ended) == {"bytes", "surrogate", "huge", "set", "asked"}
    assert set(ended.values()) == {"failed"}


@pytest.mark.parametrize("generator", ["Quit", "QuitLater"])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_part_that_means_to_leave_fails_its_task_alone(
    tmp_path: Path, executor: str, generator: str
) -> None:
    """SystemExit, GeneratorExit and a BaseException of another library's, from any part, and in a coroutine's task."""
    quit = {"kind": "Quit", "generator": generator, "block": "{use: odd_parts.QuitSize}", "policy": "[]"}
    ended = statuses(tmp_path, executor=executor, durable="task", **quit)
    assert {ended.pop(name) for name in ("fine", "mute")} == {"accepted"}
    assert ended == dict.fromkeys(("exit", "panic", "generator", "checking", "choosing"), "failed")
