"""On a real terminal of 80 and of 120 columns nothing is cut: tables, lists, traces, parts, progress."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from draftverify.bench.tables.figures import NOT_KNOWN, is_known
from draftverify.bench.tables.words import seconds_words, shortened
from draftverify.view.overview import overview
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


@pytest.mark.parametrize("columns", [80, pytest.param(120, marks=pytest.mark.exhaustive)])
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
    assert {"acceptance", "items/pass", "time/task", "measured", "checks"} <= words


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


@pytest.mark.parametrize("columns", [52, pytest.param(80, marks=pytest.mark.exhaustive)])
def test_no_command_writes_wider_than_the_window(made: Path, columns: int) -> None:
    """Nor do errors, help, plans and comparisons; times stand in their unit, and nothing is written as 2e-05."""
    commands = (
        "--help",
        "show nowhere",
        "show .",
        "audit experiment.yaml",
        "replay run",
        "run experiment.yaml --dry-run",
        "run experiment.yaml --estimate --out estimated",
        "run experiment.yaml --out run",
        "compare run",
        "compare run --tasks",
    )
    shown = on_terminal(commands, columns, made)
    assert [line for line in shown.replace("\r", "\n").splitlines() if cell_len(line) > columns] == []
    assert not re.search(r"\de-\d", shown)
    for words in ("Usage: ", "there is no", "to do", "task runs now: ", "no difference seen"):
        assert words in shown, words


def test_figures_of_which_too_little_was_seen_are_not_known_yet(tmp_path: Path) -> None:
    """In the tables, the comparison and the page alike; what was measured on the tasks that ran still stands."""
    run(load(tmp_path, count=1), out=tmp_path / "run")
    tables, compared = (on_terminal([command], 120, tmp_path) for command in ("show run", "compare run"))
    assert NOT_KNOWN in tables
    assert re.search(rf"B–A +1 +.*{NOT_KNOWN} .*no difference seen", compared)
    with load_run(tmp_path / "run") as records:
        (row,) = (row for row in overview(records)["pipelines"][1]["rows"] if row["group"] == "")
    assert (row["speedup"]["known"], row["acceptance"]["known"], row["verdict"]) == (False, False, None)
    assert row["seconds_per_task"]["value"] > 0.0


@pytest.mark.parametrize(
    ("ends", "scale", "known"),
    [
        ((-1.61, 2.26), "share", False),
        ((0.0, 1.0), "share", False),
        ((0.2, 0.9), "share", True),
        ((0.004, 0.998), "share", False),
        ((0.0, 3.0), "ratio", False),
        ((0.5, None), "ratio", False),
        ((0.5, 51.0), "ratio", False),
        ((0.5, 4.0), "ratio", True),
        ((-3e3, 9e3), "number", True),
        ((-3e3, math.inf), "number", False),
    ],
)
def test_one_rule_says_what_is_known(ends: Any, scale: Any, known: bool) -> None:
    """By the ends of the interval and the scale of the figure."""
    assert is_known(*ends, scale) is known


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"),
        (2.69e-5, "27 µs"),
        (3e-7, "0.300 µs"),
        (0.00131, "1.3 ms"),
        (0.25, "250 ms"),
        (2.4, "2.40 s"),
        (210, "3.5 min"),
    ],
)
def test_times_stand_in_the_unit_that_reads_best(seconds: float, words: str) -> None:
    """Never as a power of ten."""
    assert seconds_words(seconds) == words


def test_names_that_begin_alike_stay_apart_when_they_are_cut() -> None:
    """What they have in common goes first; a name that stands alone loses its middle."""
    names = [f"drafted@rule=block_verification,block={size}" for size in (2, 4)]
    assert shortened(names, 20) == ["…block=2", "…block=4"]
    assert shortened([*names, "plain"], 35) == [*(name.replace("drafted@", "…") for name in names), "plain"]
    assert shortened(["a" * 30 + "b"], 11) == ["aaaaa…aaaab"]
