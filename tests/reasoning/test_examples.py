"""The examples of reasoning: their files fit each other, and a part of each runs as its header says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify_reasoning import Gym

EXAMPLES = Path(__file__).parents[2] / "examples"

# Processors without instructions for bfloat16, which the examples compute in, take ten times as long with it.
QUICK = ["--set", "models.small.dtype=float32"]


def read(name: str) -> dict[str, Any]:
    """An example's config."""
    return yaml.safe_load((EXAMPLES / name).read_text())  # type: ignore[no-any-return]


def test_the_verifier_learns_from_other_questions() -> None:
    """The example asks none of those that its verifier was trained on; most of them have answers of both kinds."""
    asked = read("reasoning-bestofn.yaml")["tasks"]
    tasks = Gym(asked["datasets"], asked["size"], asked["seed"], asked["config"]).load()
    lines = [json.loads(line) for line in (EXAMPLES / "reasoning/solutions.jsonl").open()]
    assert not {line["question"] for line in lines} & {task.input["question"] for task in tasks}
    both = [line for line in lines if len({each["correct"] for each in line["solutions"]}) == 2]
    assert len(both) > len(lines) / 2


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that the commands may write into."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("verifier"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tasks_of(run: Path) -> dict[str, int]:
    """How many tasks each pipeline ran."""
    summary = json.loads((run / "summary.json").read_text())
    return {each["name"]: each["rows"][-1]["tasks"] for each in summary["pipelines"]}


@pytest.mark.weights
def test_steps(examples: Path) -> None:
    """Whole solutions and steps, on a problem, one block each."""
    small = [*QUICK, "--set", "tasks.size=1"]
    for pipeline in ("whole", "steps"):
        small += ["--set", f"pipelines.{pipeline}.on_rejection=[]"]
    assert main(["run", "examples/reasoning-steps.yaml", *small]) == 0
    assert tasks_of(Path("runs/reasoning-steps")) == {"whole": 1, "steps": 1}


@pytest.mark.weights
def test_best_of_n(examples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A verifier of two layers is trained, and chooses among two solutions of a problem."""
    lines = (EXAMPLES / "reasoning/solutions.jsonl").read_text().splitlines()[:8]
    Path("examples/reasoning/solutions.jsonl").write_text("\n".join(lines) + "\n")
    out = ["--out", "examples/reasoning/verifier"]
    small = ["--set", "depth=2", "--set", "layers=0", "--set", "epochs=1", "--set", "dtype=float32"]
    assert main(["fit", "part", "verifier", "examples/reasoning/verifier.yaml", *out, *small]) == 0
    fewer = [*QUICK, "--set", "tasks.size=1", "--set", "tasks.datasets=[gcd]", "--set", "tasks.config={}"]
    for pipeline in ("majority", "likeliest", "best"):
        fewer += ["--set", f"pipelines.{pipeline}.block=2"]
    assert main(["run", "examples/reasoning-bestofn.yaml", *fewer]) == 0
    assert "'best' checks itself" in capsys.readouterr().err
    assert tasks_of(Path("runs/reasoning-bestofn")) == dict.fromkeys(
        ("one", "majority", "likeliest", "best"), 1
    )


@pytest.mark.weights
def test_the_cascade_is_a_dial(examples: Path) -> None:
    """Any first answer is sure enough for a low threshold, and none for one of 0: then eight others are drawn."""
    fewer = ["--set", "tasks.size=1", "--set", "tasks.datasets=[gcd]", "--set", "tasks.config={}"]
    grid = "matrix.grid={pipelines.sure.rule.threshold: [-1000, 0]}"
    assert main(["run", "examples/cascade.yaml", *fewer, "--set", grid]) == 0
    with load_run("runs/cascade") as run:
        sources = {
            name: [round.by for record in run.records(name) for round in record.rounds]
            for name in run.names
            if name.startswith("sure")
        }
    assert sources == {"sure@threshold=-1000": ["verifier"], "sure@threshold=0": ["verifier", "fallback"]}
