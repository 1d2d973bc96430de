"""A sweep of scripted parts, written as a YAML file, for tests of the matrix and of runs with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.config.specs import Experiment

PARTS = Path(__file__).with_name("run_parts.py")

BASE: dict[str, Any] = {
    "name": "swept",
    "seed": 3,
    "parts": [str(PARTS)],
    "tasks": {"use": "run_parts.Numbered", "count": 6},
    "models": {},
    "settings": {},
    "defaults": {
        "verifier": {"use": "run_parts.Check1"},
        "rule": {"use": "longest_prefix"},
        "done": {"use": "limit", "items": 8},
        "budget": {"rounds": 40},
    },
    "pipelines": {
        "plain": {"generator": {"use": "run_parts.Guess"}, "block": 0},
        "one": {"generator": {"use": "run_parts.Guess", "chance": 0.6}, "block": 4},
        "two": {
            "generator": {"use": "run_parts.Guess", "chance": 0.3},
            "block": 2,
            "rule": {"use": "longest_prefix"},
        },
    },
    "baseline": "plain",
}


def write(folder: Path, matrix: Any = None, **changes: Any) -> Path:
    """Write the sweep, with a matrix and other keys of the file; JSON is YAML."""
    file = folder / "sweep.yaml"
    whole = {**BASE, **({} if matrix is None else {"matrix": matrix}), **changes}
    file.write_text(json.dumps(whole, indent=1))
    return file


def load(
    folder: Path, matrix: Any = None, *, overrides: list[str] | None = None, **changes: Any
) -> Experiment:
    """Write it and load it."""
    return load_experiment(write(folder, matrix, **changes), overrides=overrides or ())
