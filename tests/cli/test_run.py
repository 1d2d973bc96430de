"""`draftverify run`: exit codes, tables, overrides, and no traceback for a user's mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from tests.experiments.runs import write


def test_a_run_prints_its_tables_and_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Per group and over all, with the line that says whether values are identical."""
    code = main(["run", str(write(tmp_path)), "--out", str(tmp_path / "run")])
    said = capsys.readouterr()
    assert code == 0
    for word in ("acceptance", "measured ×", "spec: identical: 6 of 6", "g0", "all", str(tmp_path / "run")):
        assert word in said.out
    assert "measure: 12 runs of tasks" in said.err


def test_the_directory_has_the_experiments_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --out it is runs/NAME under the current directory; the same command resumes it."""
    config = str(write(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["run", config]) == 0
    assert (tmp_path / "runs" / "scripted" / "records.db").exists()
    assert main(["run", config]) == 0
    assert "went on with runs/scripted (task runs now: 0)" in capsys.readouterr().out


def test_failed_tasks_exit_with_6(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Failed comes before waiting."""
    config = write(
        tmp_path, check=", broken: [t1], splice: false", chance=0.0, policy="[{do: escalate, on: reject}]"
    )
    assert main(["run", str(config), "--out", str(tmp_path / "run")]) == 6
    assert "1 failed" in capsys.readouterr().out


def test_waiting_tasks_exit_with_7(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the next command is told."""
    config = write(tmp_path, check=", splice: false", chance=0.0, policy="[{do: escalate}]")
    assert main(["run", str(config), "--out", str(tmp_path / "a run")]) == 7
    out = capsys.readouterr().out
    assert f"6 wait for a person: draftverify view '{tmp_path / 'a run'}' --review" in out
    assert f"draftverify show '{tmp_path / 'a run'}' --tasks" in out


def test_limit_and_set_override_the_config(tmp_path: Path) -> None:
    """They are part of what was run: the directory has the overridden config."""
    config = str(write(tmp_path))
    out = str(tmp_path / "run")
    assert main(["run", config, "--out", out, "--limit", "1", "--set", "pipelines.spec.block=2"]) == 0
    with load_run(out) as run:
        assert len(run.tasks) == 2
        assert run.config["pipelines"]["spec"]["block"] == 2
    assert main(["run", config, "--out", out]) == 5


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "none.yaml"], 3, "there is no such file"),
        (["run", "experiment.yaml", "--out", "taken"], 5, "not a run directory"),
        (["run", "experiment.yaml", "--out", "experiment.yaml"], 5, "cannot be made"),
        (["run", "experiment.yaml", "--store", "nonsense"], 5, "no database URL"),
        (["run", "experiment.yaml", "--limit", "-1"], 2, "--limit"),
    ],
)
def test_mistakes_are_told_in_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    """An exit code of its own kind and what to do, never a traceback."""
    write(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_the_module_exits_with_the_commands_code(tmp_path: Path) -> None:
    """`python -m draftverify` is the command, exit code and all."""
    command = [sys.executable, "-m", "draftverify", "run", str(tmp_path / "missing.yaml")]
    assert subprocess.run(command, capture_output=True).returncode == ExitCode.CONFIG


def test_a_part_that_exits_as_it_is_opened_says_nothing_for_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its exit code is not the command's; the error is told."""
    (tmp_path / "leaving.py").write_text(
        "class Leaving:\n    def load(self):\n        raise SystemExit(0)\n", encoding="utf-8"
    )
    file = write(tmp_path)
    file.write_text(
        file.read_text()
        .replace("run_parts.py]", f"run_parts.py, {tmp_path}/leaving.py]")
        .replace("run_parts.Numbered, count: 6", "leaving.Leaving")
    )
    assert main(["run", str(file), "--out", str(tmp_path / "run")]) == ExitCode.UNEXPECTED
    assert "SystemExit" in capsys.readouterr().err
