"""`draftverify show DIRECTORY`, `export` and `run --tag`, as they are typed."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from tests.experiments.runs import write


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """An experiment that was run once, tagged in its file and on the command line."""
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, more="tags: [nightly, lr=3]")
    assert main(["run", str(file), "--tag", "try-1"]) == 0
    capsys.readouterr()
    return file


def test_runs_are_listed_with_tags_and_state(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under runs/ when nothing is said; a damaged one below with its reason; exit code 0."""
    Path("runs/broken").mkdir()
    Path("runs/broken/run.json").write_text("{\x1b[31m")
    assert main(["show"]) == 0
    out = capsys.readouterr().out
    assert "runs/scripted" in out
    assert "plain, spec  finished  nightly lr=3 try-1" in out
    assert "cannot be read: runs/broken/run.json" in out
    assert "\x1b" not in out
    assert main(["show", "runs", "--tag", "nightly", "--json"]) == 0
    (_, run) = sorted(json.loads(capsys.readouterr().out), key=lambda each: each["path"])
    assert (run["path"], run["state"], run["units"]) == ("runs/scripted", "finished", 12)
    assert run["tags"] == ["nightly", "lr=3", "try-1"]


@pytest.mark.parametrize("arguments", [["none"], ["runs", "--tag", "weekly"]])
def test_no_runs_are_no_error(made: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It says so, and how one is made; a directory that is not there is an error, but runs/ when nothing is said."""
    Path("none").mkdir()
    assert main(["show", *arguments]) == 0
    assert "draftverify run CONFIG" in capsys.readouterr().out
    shutil.rmtree("runs")
    assert main(["show"]) == 0
    assert "there is no directory runs; `draftverify run CONFIG`" in capsys.readouterr().out
    assert main(["show", "nowhere"]) == ExitCode.RESOURCE


def test_other_tags_do_not_make_it_another_run(made: Path) -> None:
    """Nothing runs again, the records stay, and the config's new tags stand beside the command line's."""
    before = Path("runs/scripted/summary.json").read_bytes()
    made.write_text(made.read_text().replace("[nightly, lr=3]", "[weekly]"))
    assert main(["run", str(made)]) == 0
    assert Path("runs/scripted/summary.json").read_bytes() == before
    with load_run("runs/scripted") as run:
        assert run.tags == ("weekly", "try-1")


@pytest.mark.parametrize("tag", ["", "two words", "a,b", "x" * 101, "\x1b[31m"])
def test_a_tag_is_a_word(made: Path, tag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line as in the file, with the place."""
    assert main(["run", str(made), "--tag", tag]) == ExitCode.USAGE
    assert "letters, digits" in capsys.readouterr().err
    made.write_text(made.read_text().replace("[nightly, lr=3]", json.dumps([tag])))
    assert main(["run", str(made)]) == ExitCode.CONFIG
    assert "tags" in capsys.readouterr().err


def test_an_export_goes_to_the_standard_output_or_a_file(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing but the table on the output; a file is told of beside it."""
    assert main(["export", "runs/scripted"]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["pipeline"] for row in table] == ["plain", "spec"] * 6
    assert main(["export", "runs/scripted", "--rows", "rounds", "--to", "jsonl", "-o", "x.jsonl"]) == 0
    assert "rows to x.jsonl" in capsys.readouterr().err
    with load_run("runs/scripted") as run:
        assert len(Path("x.jsonl").read_text().splitlines()) == sum(len(record.rounds) for record in run)
    assert main(["export", "runs/scripted", "--rows", "items", "--to", "parquet", "-o", "x.parquet"]) == 0
    assert set(pd.read_parquet("x.parquet")["state"]) == {"kept", "refused", "left"}
    assert main(["export", "runs/scripted", "--to", "parquet"]) == ExitCode.CONFIG
    assert "give a file with -o" in capsys.readouterr().err


def test_the_list_of_runs_fits_80_columns(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a terminal of that width no line is longer, and no word is lost."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["show"]) == 0
    from rich.text import Text

    out = Text.from_ansi(capsys.readouterr().out).plain
    assert max(map(len, map(str.rstrip, out.splitlines()))) <= 80
    for word in ("runs/scripted", "finished", "nightly", "lr=3", "try-1", "spec"):
        assert word in out
