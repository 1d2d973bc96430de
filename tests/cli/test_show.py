"""`draftverify show`: tables of finished and unfinished runs, lists of tasks, and one task round by round."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from draftverify.bench.cli.main import main
from draftverify.bench.records import Store, load_run
from draftverify.bench.records.database import sqlite_url
from draftverify.bench.runner.run import run
from draftverify.values import Outcome, TaskRecord
from tests.experiments.runs import load


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A finished run."""
    run(load(tmp_path), out=tmp_path / "run")
    return tmp_path / "run"


def test_show_prints_the_tables_of_the_run(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same that the run printed."""
    assert main(["show", str(made)]) == 0
    assert "spec: identical: 6 of 6" in capsys.readouterr().out


def test_a_run_that_cannot_be_written_to_can_be_shown(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables and traces, by somebody who may only read it; nothing is left behind."""
    command = ["show", str(made), "--trace", "t1"]
    assert main(command) == 0
    expected = capsys.readouterr().out
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "run")
        shutil.copytree(made, copy)
        (copy / "summary.json").unlink()
        names = sorted(path.name for path in copy.iterdir())
        for path in (Path(folder), copy):
            path.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.setresuid(65534, 65534, 0)  # who is root may write anywhere
        try:
            assert not os.access(copy, os.W_OK)
            assert main(["show", str(copy)]) == 0
            assert "not finished" in capsys.readouterr().out
            assert main(["show", str(copy), "--trace", "t1"]) == 0
            assert capsys.readouterr().out == expected
        finally:
            if root:
                os.setresuid(0, 0, 0)
            for path in (Path(folder), copy):
                path.chmod(0o755)
        assert sorted(path.name for path in copy.iterdir()) == names


def test_an_unfinished_run_is_shown_as_far_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And called unfinished."""

    class Stop:
        def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None: ...
        def event(self, event: object) -> None: ...
        def done(self, pipeline: str, record: TaskRecord) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(load(tmp_path), out=tmp_path / "run", watcher=Stop())
    assert main(["show", str(tmp_path / "run")]) == 0
    assert "scripted (not finished)" in capsys.readouterr().out
    assert main(["show", str(tmp_path / "run"), "--trace", "t5"]) == 0
    assert "not run yet" in capsys.readouterr().out


def test_a_summary_of_before_a_retry_is_not_shown(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A retry that was killed has ended tasks; the page says the same."""
    about = json.loads((made / "run.json").read_text())
    with Store.open(sqlite_url(made / "records.db"), about["run"], config_hash="") as store:
        outcome = Outcome(status="failed", reason="again")
        store.commit("spec", TaskRecord(task="t0", attempt=1, outcome=outcome))
    assert main(["show", str(made)]) == 0
    assert "scripted (not finished)" in capsys.readouterr().out


def test_a_trace_shows_drafted_kept_struck_spliced(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every round of both pipelines, in the verifier's words, and the value."""
    assert main(["show", str(made), "--trace", "t5"]) == 0
    out = capsys.readouterr().out
    with load_run(made) as records:
        (record,) = (entry.record for entry in records.entries(pipeline="spec", task="t5"))
    assert sum(line.startswith("  round ") for line in out.splitlines()) == len(record.rounds) + 8
    assert "[-<-" in out
    assert "{+<" in out
    assert f"value: {list(record.outcome.value)}" in out
    assert "in words: " + "".join(f"<{value}>" for value in record.outcome.value) in out


def test_a_trace_of_one_pipeline(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--pipeline leaves the others out."""
    assert main(["show", str(made), "--trace", "t5", "--pipeline", "plain"]) == 0
    assert "spec" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--trace", "t55"], 3, "did you mean t5"),
        (["--trace", "t5", "--pipeline", "spek"], 3, "did you mean spec?"),
    ],
)
def test_unknown_names_are_corrected(
    made: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    """A task or pipeline that the run does not have."""
    assert main(["show", str(made), *arguments]) == code
    assert said in capsys.readouterr().err


def test_what_is_no_run_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Says so."""
    assert main(["show", str(tmp_path), "--trace", "t"]) == 5
    assert "not a run directory" in capsys.readouterr().err


def test_a_damaged_summary_is_an_error_in_words(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever stands in summary.json."""
    for text in ("{", "[]", '{"name": 3}'):
        (made / "summary.json").write_text(text)
        assert main(["show", str(made)]) == 5
        assert "summary.json" in capsys.readouterr().err


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A run in which tasks fail, are refused and differ from the baseline's."""
    run(load(tmp_path, check=", broken: [t1], splice: false", chance=0.3), out=tmp_path / "run")
    return tmp_path / "run"


def test_what_went_wrong_stands_below_the_tables(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each kind of trouble: how many tasks of which pipeline, the first of them, the command for more."""
    assert main(["show", str(mixed)]) == 0
    out = capsys.readouterr().out
    with load_run(mixed) as records:
        refused = [each.task for each in records.records("spec") if each.outcome.status == "exhausted"]
    assert len(refused) > 3
    assert f"failed: 2  plain t1; spec t1\n  draftverify show {mixed} --tasks failed\n" in out
    told = f"spec {', '.join(refused[:3])}, … ({len(refused)})"
    assert (
        f"refused (nothing was accepted): {len(refused)}  {told}\n  draftverify show {mixed} --tasks refused"
        in out
    )


def test_tasks_are_listed_by_outcome(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the pipelines that it is true of, how long they took and why; all, or the slowest first."""

    def listed(*arguments: str) -> str:
        assert main(["show", str(mixed), "--tasks", *arguments]) == 0
        return capsys.readouterr().out

    failed = listed("failed")
    assert failed.startswith("1 task of 6, failed\nt1 (g1)")
    assert failed.count("RuntimeError: the checker is broken") == 2
    assert "accepted" not in failed
    assert "differs" in listed("differs", "--pipeline", "spec")
    assert listed().startswith("6 tasks of 6\nt0 (g0)")
    assert listed("waiting") == "0 tasks of 6, waiting\n"
    assert listed("--search", "T3").startswith("1 task of 6\nt3")
    assert "… and 4 more: --limit 6" in listed("--limit", "2")
    with load_run(mixed) as records:
        slowest = max(records, key=lambda record: record.outcome.seconds).task
    assert listed("slowest").splitlines()[1].startswith(slowest)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--tasks", "failing"], 2, "'failing' is not one of"),
        (["--pipeline", "spec"], 2, "--pipeline goes with"),
        (["--tasks", "failed", "--pipeline", "spek"], 3, "did you mean spec?"),
        (["--trace", "t1", "--tasks"], 2, "--trace shows one task"),
        (["--search", "x"], 2, "go with --tasks"),
        (["--tag", "x"], 2, "go with a directory of runs"),
        (["--json"], 2, "go with a directory of runs"),
    ],
)
def test_options_that_do_not_go_together(
    mixed: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    """Each says with what it goes."""
    assert main(["show", str(mixed), *arguments]) == code
    assert said in capsys.readouterr().err
