"""On a real terminal of 80 and of 120 columns nothing is cut: tables, lists, traces, parts, progress."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from tests.cli.terminals import on_terminal
from tests.experiments.runs import load, write

LONG = "a_pipeline_with_quite_a_long_name@block=8,rule=typical,threshold=0.25"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A run with failed, refused and accepted tasks, a long name, steps and groups."""
    text = write(tmp_path, check=", broken: [t1], splice: false", chance=0.3).read_text()
    (tmp_path / "experiment.yaml").write_text(text.replace("  spec:\n", f'  "{LONG[:33]}":\n'))
    assert main(["run", str(tmp_path / "experiment.yaml"), "--out", str(tmp_path / "run")]) == 6
    return tmp_path


@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_is_cut(made: Path, columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Every heading, name and figure stands there whole, in the tables as in a pipe, and no line is wider."""
    capsys.readouterr()
    shown = on_terminal(
        ["show run", "show run --tasks failed", "show run --trace t1", "plugins --role rule"], columns, made
    )
    assert max(map(cell_len, shown.splitlines())) <= columns
    assert "…" not in re.sub(r",\s+… \(\d+\)", "", shown)  # which says how many more tasks there are
    words = set(shown.split())
    for command in (["show", "run"], ["plugins", "--role", "rule"]):
        if command[0] == "show":
            command[1] = str(made / "run")
        assert main(command) == 0
        told = set(capsys.readouterr().out.replace(str(made / "run"), "run").split())
        assert {
            word for word in told - words if "─" not in word and word not in ("rule", "0.1.0", "ok")
        } == set()
    assert LONG[:33] in words
    assert {"acceptance", "items/pass", "s/task", "measured", "checks"} <= words


def test_a_pipe_folds_no_line_of_words(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sentences and commands stand on one line each, to be searched and copied; tables keep to the width there is."""
    capsys.readouterr()
    assert main(["show", str(made / "run")]) == 0
    out = capsys.readouterr().out
    assert f"\n  draftverify show {made / 'run'} --tasks failed" in out
    told = f"{LONG[:33]}: the first failure: task t1: RuntimeError: the checker is broken; no policy step is left"
    assert len(told) > 80
    assert told in out.splitlines()
    tables = [line for line in out.splitlines() if "─" in line]
    assert tables
    assert max(map(len, tables)) <= 80


def test_the_bars_say_what_failed(made: Path) -> None:
    """Beside each pipeline's count; at the end they are gone and the tables stand there."""
    shown = on_terminal(["run experiment.yaml --out another"], 80, made)
    bars = [line for line in shown.replace("\r", "\n").splitlines() if "━" in line]
    assert any("measure plain" in line and "6/6" in line and "1 failed" in line for line in bars)
    assert max(map(cell_len, bars)) <= 80
    assert "failed: 2  plain (experiment.yaml:" in shown


def test_a_long_name_of_a_sweep_is_broken_and_not_cut(tmp_path: Path) -> None:
    """After its @ and its commas."""
    run(load(tmp_path), out=tmp_path / "run")
    for name in ("config.json", "summary.json"):
        path = tmp_path / "run" / name
        path.write_text(path.read_text().replace('"spec"', f'"{LONG}"'))
    shown = on_terminal(["show run"], 60, tmp_path)
    assert (
        "a_pipeline_with_quite_a_long_name@\n"
        in "\n".join(
            line.split("  ")[1] if line.startswith("g0") else line.strip().split(" ")[0]
            for line in shown.splitlines()
        )
        + "\n"
    )
    assert "block=8,rule=typical," in shown
    assert "threshold=0.25" in shown
    with load_run(tmp_path / "run") as records:
        assert records.tasks
