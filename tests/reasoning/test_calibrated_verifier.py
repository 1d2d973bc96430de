"""From labelled solutions to a probability: train, fit and run, each by its command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run

from . import tiny

RUN = """
name: chosen
tasks: {{use: jsonl, path: {tasks}, expected: {{right: right}}}}
parts: [./parts.py]
metrics: {{right: {{use: parts.Listed}}}}
pipelines:
  calibrated:
    generator: {{use: parts.Recorded}}
    verifier:
      use: calibrated
      verifier: {{use: reasoning.verifier, weights: made}}
      scores: scores.json
      accept: 0.0
    rule: {{use: best}}
    block: 4
"""

PARTS = """
from draftverify import Proposal


class Recorded:
    def propose(self, context, n):
        return Proposal.alternatives(context.task.input["texts"][:n])


class Listed:
    def __call__(self, task, outcome):
        return outcome.value in task.expected["right"]
"""


@pytest.mark.exhaustive
def test_a_fit_makes_the_scores_probabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of problems that it was not trained on; the best by probability is the best by score."""
    from draftverify_reasoning import training

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "_HEAD_RATE", 0.02)
    monkeypatch.setattr(training, "_LAYER_RATE", 0.002)
    rows = tiny.problems(60)
    tiny.write(tmp_path / "solutions.jsonl", rows[:30])
    for name, some in (("fitted", rows[30:50]), ("asked", rows[50:])):
        tasks = [
            {
                "id": row["question"],
                "question": row["question"],
                "texts": [each["text"] for each in row["solutions"]],
                "right": [each["text"] for each in row["solutions"] if each["correct"]],
            }
            for row in some
        ]
        tiny.write(tmp_path / f"{name}.jsonl", tasks)
        (tmp_path / f"{name}.yaml").write_text(RUN.format(tasks=f"{name}.jsonl"))
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "train.yaml").write_text(
        f"data: solutions.jsonl\nmodel: {tiny.save(tmp_path / 'model')}\nepochs: 8\ndtype: float32\n"
    )
    assert main(["fit", "part", "verifier", "train.yaml", "--out", "made"]) == 0
    assert main(["fit", "scores", "fitted.yaml"]) == 0, capsys.readouterr().err
    assert main(["run", "asked.yaml", "--out", "run"]) == 0, capsys.readouterr().err
    fit = json.loads((tmp_path / "scores.json").read_text())
    assert fit["name"] == "TrainedVerifier"
    with load_run(tmp_path / "run") as found:
        records = found.records("calibrated")
    scores = [check.score for record in records for check in record.rounds[0].checks]
    assert len(scores) == 40
    assert all(score is not None and 0 < score < 1 for score in scores)
    assert all(record.outcome.score == max(c.score for c in record.rounds[0].checks) for record in records)
    right = sum("Perhaps" not in record.outcome.value for record in records)
    assert right >= 8
