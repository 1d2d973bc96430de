"""The benchmark of the trained verifier runs, and its figures are what they are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmarks.reasoning_verifier as benchmark

from . import tiny


def rows_of(right: np.ndarray) -> list[dict[str, Any]]:
    """Problems whose solutions are right as told, with answers that say so."""
    return [
        {"question": f"What is 4{i}?", **{
            name: {"solution": f"It is so.\nA: {1 if good else 2 + k}", "is_correct": bool(good)}
            for k, (name, good) in enumerate(zip(benchmark.SYSTEMS, row, strict=True))
        }}
        for i, row in enumerate(right)
    ]  # fmt: skip


def test_a_score_of_the_system_alone_has_a_half_when_style_is_controlled() -> None:
    """It may choose better than chance, and knows nothing of the solutions; one that knows has 1."""
    rng = np.random.default_rng(0)
    right = rng.random((400, 4)) < np.array([0.2, 0.4, 0.35, 0.6])
    system = np.tile([0.2, 0.4, 0.35, 0.6], (400, 1))
    rows = rows_of(right)
    found = benchmark.measured(rows, rows, system)
    assert found["style"]["mean"]["value"] == 0.5
    assert found["auc"]["within"]["low"] > 0.6
    assert found["auc"]["within"] == found["auc"]["control: the system alone, within"]
    assert found["selection"]["verifier - always 175b_verification"]["value"] == 0
    known = benchmark.measured(rows, rows, system + rng.normal(0, 0.1, (400, 4)) + right)
    assert known["style"]["mean"]["value"] > 0.99
    assert known["selection"]["verifier"]["value"] > 0.99 * known["selection"]["oracle"]["value"]
    assert known["selection"]["verifier - random"]["low"] > 0.3
    each = known["style"]["6b_finetuning and 175b_verification"]
    assert each["problems"] == [
        int((right[:, 0] & ~right[:, 3]).sum()),
        int((right[:, 3] & ~right[:, 0]).sum()),
    ]


def test_majority_takes_the_answer_of_most() -> None:
    """Of equals the first; without any answer the first solution."""
    (row,) = rows_of(np.array([[False, True, False, True]]))
    assert benchmark.majority(row) == 1
    (row,) = rows_of(np.array([[False, False, False, True]]))
    assert benchmark.majority(row) == 0
    for name in benchmark.SYSTEMS:
        row[name]["solution"] = "I do not know."
    assert benchmark.majority(row) == 0


@pytest.mark.exhaustive
def test_the_benchmark_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the recorded solutions to a verifier, by the command, and to its figures; again without training."""
    right = np.random.default_rng(1).random((24, 4)) < 0.5
    data = tiny.write(tmp_path / "solutions.jsonl", rows_of(right))
    settings = [f"model={tiny.save(tmp_path / 'model')}", "depth=2", "layers=1", "epochs=1", "dtype=float32"]
    arguments = [str(data), "--work", str(tmp_path / "work"), "--out", str(tmp_path / "found.json")]
    for each in settings:
        arguments += ["--set", each]
    benchmark.main(arguments)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["report"]["problems"] + found["report"]["held_out_problems"] == 12
    assert found["problems"] == {"trained": 12, "measured": 12}
    assert found["selection"]["oracle"]["value"] == pytest.approx(right[1::2].any(1).mean())
    assert found["cpu_seconds"]["training"] > found["cpu_seconds"]["scoring"] > 0
    assert found["provenance"]["command"]
    benchmark.main(arguments)
    again = json.loads((tmp_path / "found.json").read_text())
    assert again["cpu_seconds"] == {"training": None, "scoring": None}
    assert again["auc"] == found["auc"]
