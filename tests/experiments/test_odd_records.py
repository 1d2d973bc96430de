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
tasks: {{use: odd_parts.OddTasks}}
pipelines:
  only:
    generator: {{use: odd_parts.Odd}}
    verifier: {{use: odd_parts.OddJudge}}
    rule: {{use: first}}
    on_rejection: [{{do: escalate}}]
durable: {durable}
executor: {executor}
"""


@pytest.mark.parametrize("durable", ["task", "round"])
@pytest.mark.parametrize(
    "executor", ["{use: serial}", "{use: batch, size: 4}", "{use: thread}", "{use: process, workers: 1}"]
)
def test_what_cannot_be_recorded_fails_its_task_alone(tmp_path: Path, executor: str, durable: str) -> None:
    """Bytes, half characters, huge numbers and sets, as items and in questions; odd reasons are spelt and kept."""
    parts = Path(__file__).with_name("odd_parts.py")
    file = tmp_path / "odd.yaml"
    file.write_text(YAML.format(parts=parts, durable=durable, executor=executor))
    run(load_experiment(file), out=tmp_path / "run")
    with load_run(tmp_path / "run") as found:
        statuses = {entry.record.task: entry.record.outcome.status for entry in found.store.entries()}
    assert {statuses.pop(name) for name in ("fine", "said", "reason")} == {"accepted"}
    assert set(statuses) == {"bytes", "surrogate", "huge", "set", "asked"}
    assert set(statuses.values()) == {"failed"}
