"""Experiments of scripted parts, written as YAML files, for tests of whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.config.specs import Experiment
from draftverify.bench.records import load_run, timeless
from draftverify.values import TaskRecord

PARTS = Path(__file__).with_name("run_parts.py")

YAML = """
name: scripted
seed: 3
parts: [{parts}]
tasks: {{use: run_parts.Numbered, count: {count}}}
pipelines:
  plain:
    generator: {{use: run_parts.Guess}}
    verifier: {{use: run_parts.{verifier}, seconds: {seconds}{check}}}
    rule: {{use: longest_prefix}}
    block: 0
    done: {{use: limit, items: 8}}
  spec:
    generator: {{use: run_parts.Guess, chance: {chance}, seconds: {seconds}{guess}}}
    verifier: {{use: run_parts.{verifier}, seconds: {seconds}{check}}}
    rule: {{use: longest_prefix}}
    block: 4
    done: {{use: limit, items: 8}}
    on_rejection: {policy}
    budget: {{rounds: 40}}
baseline: plain
durable: {durable}
executor: {executor}
{more}
"""


def write(path: Path, **changes: Any) -> Path:
    """Write the experiment to a file.

    Args:
        path: the directory.
        changes: of the YAML's blanks.
    """
    blanks = {
        "parts": PARTS,
        "count": 6,
        "seconds": 0.0,
        "chance": 0.6,
        "guess": "",
        "check": "",
        "verifier": "Check1",
        "policy": "[{do: regenerate, times: 3}]",
        "durable": "task",
        "executor": "{use: serial}",
        "more": "",
    }
    assert set(changes) <= set(blanks)
    file = path / "experiment.yaml"
    file.write_text(YAML.format(**{**blanks, **changes}))
    return file


def only_spec(file: Path) -> Path:
    """Take the plain pipeline out of a written experiment."""
    text = file.read_text()
    start, end = text.index("  plain:\n"), text.index("  spec:\n")
    file.write_text(text[:start] + text[end:].replace("baseline: plain\n", ""))
    return file


def load(path: Path, **changes: Any) -> Experiment:
    """Write the experiment and load it."""
    return load_experiment(write(path, **changes))


def results(path: Path) -> dict[tuple[str, str], TaskRecord]:
    """All records of a run directory without their times, those that predict too."""
    with load_run(path) as run:
        return {(entry.pipeline, entry.record.task): timeless(entry.record) for entry in run.store.entries()}
