"""The example that replays recorded solutions, on a pool in the recording's layout and on the recording itself."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "../shared/data/rsd_math100/math_cot_100.jsonl"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example that the command may write beside."""
    shutil.copy(ROOT / "examples/reasoning-recorded.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def replayed() -> dict[str, tuple[float, float]]:
    """Run the example: of each pipeline, the share that is right and the samples drawn per problem."""
    assert main(["run", "reasoning-recorded.yaml"]) == 0
    found = {}
    for pipeline in json.loads(Path("runs/reasoning-recorded/summary.json").read_text())["pipelines"]:
        row = pipeline["rows"][0]
        found[pipeline["name"]] = (
            row["solved"]["right"]["rate"]["value"],
            row["tally"]["trials"] / row["tasks"],
        )
    return found


def test_without_the_recording_the_error_says_where_it_comes_from(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the line of the config's header that fetches the file."""
    assert main(["run", "reasoning-recorded.yaml"]) == ExitCode.CONFIG
    found = re.search(r"reasoning-recorded\.yaml:(\d+) says where it comes from", capsys.readouterr().err)
    assert found is not None
    assert "curl" in (example / "reasoning-recorded.yaml").read_text().splitlines()[int(found[1]) - 1]


def test_the_four_ways_on_a_pool_in_the_same_layout(example: Path) -> None:
    """The score knows what is right and most samples are wrong: the vote loses, the first above takes two samples."""
    rows: list[dict[str, Any]] = [
        {
            "idx": idx,
            "question": f"What is 500 + 50{idx}?",
            "answer": f"1,00{idx}",
            "code": [f"so {1000 + idx}" if k == 1 else "so 1" for k in range(8)],
            "pred": [f"{1000 + idx}.0" if k == 1 else "1" for k in range(8)],
            "score": [k == 1 for k in range(8)],
            "pred_score": [[3.0 if k == 1 else -k / 10] for k in range(8)],
        }
        for idx in range(6)
    ]
    (example / "math_cot_100.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = replayed()
    assert {name: right for name, (right, _) in found.items()} == {
        "best_of_8": 1.0,
        "first_above": 1.0,
        "majority": 0.0,
        "stops_early": 0.0,
    }
    assert found["first_above"][1] == 2.0
    assert found["best_of_8"][1] == found["majority"][1] == 8.0
    assert found["stops_early"][1] < 8.0


def test_the_four_ways_on_the_recording(example: Path) -> None:
    """First above the threshold is as right as the best of eight with a third of the samples."""
    if not RECORDING.exists():
        pytest.skip("the recorded solutions are not here")
    shutil.copy(RECORDING, example)
    found = replayed()
    assert found["best_of_8"][0] == found["first_above"][0] == 0.95
    assert found["first_above"][1] < 2.5
    assert found["stops_early"][0] == found["majority"][0]
    assert found["stops_early"][1] < 5
