"""The examples of retrieval, from the command line as their headers say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from draftverify.bench.artifact import read_artifact
from draftverify.bench.cli.main import main
from draftverify.lab.scores import ScoreArtifact

ROOT = Path(__file__).parents[2]


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that the commands may write into, beside the documentation that the questions are about."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def solved(run: Path) -> dict[str, tuple[float, float]]:
    """Of each pipeline: the share that is solved, and the share of the unanswerable that was answered."""
    summary = json.loads((run / "summary.json").read_text())
    found = {}
    for pipeline in summary["pipelines"]:
        metrics = {name: each["rate"]["value"] for name, each in pipeline["rows"][0]["solved"].items()}
        found[pipeline["name"]] = metrics["right"], metrics["answered_unanswerable"]
    return found


def test_questions_about_the_docs(examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reader whose scores were fitted solves more than the first passage, and does not answer what cannot be."""
    config = "examples/retrieval-qa.yaml"
    raw = "pipelines.checked.verifier={use: retrieval.lexical_reader, corpus: docs}"
    labelled = ["--set", "tasks.path=retrieval/labelled.jsonl", "--out", "runs/labelled"]
    assert main(["run", config, *labelled, "--set", raw]) == 0
    out = "examples/retrieval/scores.json"
    assert main(["fit", "scores", "runs/labelled", "--pipeline", "checked", "--out", out]) == 0
    assert read_artifact("examples/retrieval/scores.json", ScoreArtifact).fit.tasks == 46
    assert main(["run", config]) == 0
    found = solved(Path("runs/retrieval-qa"))
    assert found["top"][1] == 1.0
    assert found["checked"][1] <= 0.25
    assert found["checked"][0] > found["top"][0] + 0.1  # the docs are its corpus, and change


def test_answers_that_cite(examples: Path) -> None:
    """Every quotation that is accepted stands where it says; that it answers the question is another matter."""
    assert main(["run", "examples/retrieval-cited.yaml"]) == 0
    summary = json.loads(Path("runs/retrieval-cited/summary.json").read_text())
    quoted = {
        each["name"]: each["rows"][0]["solved"]["quoted"]["rate"]["value"] for each in summary["pipelines"]
    }
    assert quoted["unchecked"] < 0.5
    assert quoted["cited"] == 1.0
    found = solved(Path("runs/retrieval-cited"))
    assert found["read"][1] == 0.0 < found["cited"][1]
