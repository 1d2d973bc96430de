"""A pipeline that checks itself: told of once as a run begins, and marked wherever the run is shown."""

from __future__ import annotations

import json
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from draftverify import Pipeline, SelfVerificationWarning, Task, generator, verifier
from draftverify.bench import evaluate, load_experiment, run
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify.rules import First
from tests.report.runs import overview_of

PARTS = Path(__file__).parents[1] / "experiments" / "function_parts.py"
MARK = "checks itself (family tiny)"
CONFIG = """
name: roots
parts: [{parts}]
tasks: {{use: jsonl, path: ./tasks.jsonl}}
pipelines:
  own:
    generator: {{use: python, function: function_parts.guesses, family: tiny}}
    verifier: {{use: python, function: function_parts.is_root, family: tiny}}
    rule: {{use: first}}
    block: 9
  other:
    generator: {{use: python, function: function_parts.guesses, family: tiny}}
    verifier: {{use: python, function: function_parts.is_root, family: large}}
    rule: {{use: first}}
    block: 9
executor: {executor}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two pipelines, of which one checks itself."""
    (tmp_path / "tasks.jsonl").write_text('{"square": 49}\n')
    path = tmp_path / "roots.yaml"
    path.write_text(CONFIG.format(parts=PARTS, executor="{use: serial}"))
    return path


def test_a_run_says_it_once_and_marks_what_it_prints(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line on stderr, without the place in the code; the mark in tables, report, summary and `show`."""
    place = tmp_path / "run"
    assert main(["run", str(config), "--out", str(place)]) == 0
    said = capsys.readouterr()
    warned = [line for line in said.err.splitlines() if "itself" in line]
    assert len(warned) == 1
    assert warned[0].startswith(
        "warning: the pipeline 'own' checks itself: what guesses drafts is judged by is_root"
    )
    assert "SelfVerificationWarning" not in said.err
    assert ".py:" not in said.err
    assert said.out.count(f"own: {MARK}, unaudited") == 1
    assert "other: unaudited" in said.out
    shown = overview_of((place / "report.html").read_text())["pipelines"]
    assert {each["name"]: each["trust"]["marks"] for each in shown}["own"] == [MARK, "unaudited"]
    marks = {
        each["name"]: each["marks"] for each in json.loads((place / "summary.json").read_text())["pipelines"]
    }
    assert marks == {"own": [MARK, "unaudited"], "other": ["unaudited"]}
    assert main(["show", str(place)]) == 0
    assert f"own: {MARK}, unaudited" in capsys.readouterr().out
    assert main(["show", str(place), "--trace", "1"]) == 0
    assert f"own  {MARK}" in capsys.readouterr().out


def test_it_is_said_whatever_another_thread_does_with_warnings(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thread that leaves `catch_warnings` while the config is read puts the state of before the command back."""
    entered, leave = threading.Event(), threading.Event()

    def caught() -> None:
        with warnings.catch_warnings():
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=caught)
    thread.start()
    entered.wait(30)

    def left() -> None:
        leave.set()
        thread.join()

    monkeypatch.setattr(sys, "left_catch_warnings", left, raising=False)
    hook = tmp_path / "hook.py"
    hook.write_text("import sys\nsys.left_catch_warnings()\n")
    config.write_text(config.read_text().replace("parts: [", f"parts: [{hook}, "))
    assert main(["run", str(config), "--out", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().err.count("warning: the pipeline 'own' checks itself") == 1


def test_workers_do_not_say_it_again(config: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each builds the pipelines for itself."""
    config.write_text(CONFIG.format(parts=PARTS, executor="{use: process, workers: 1}"))
    assert main(["run", str(config), "--out", str(tmp_path / "run")]) == 0
    assert capfd.readouterr().err.count("itself") == 1


def test_an_unfinished_run_is_marked_too(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its run.json says it from the start."""

    class Stop:
        def started(self, phase: str, totals: Any) -> None: ...
        def event(self, event: object) -> None: ...
        def done(self, pipeline: str, record: object) -> None:
            raise KeyboardInterrupt

    with pytest.warns(SelfVerificationWarning), pytest.raises(KeyboardInterrupt):
        run(load_experiment(config), out=tmp_path / "run", watcher=Stop())
    with load_run(tmp_path / "run") as records:
        assert records.marks == {"own": (MARK, "unaudited"), "other": ("unaudited",)}
    assert main(["show", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "roots (not finished)" in shown
    assert f"own: {MARK}, unaudited" in shown


def test_an_evaluation_is_marked_too() -> None:
    """Printed, and as a page."""
    own = Pipeline(
        generator(lambda context, n: ["4"], family="tiny"),
        verifier(lambda context, item: True, family="tiny"),
        First(),
    )
    with pytest.warns(SelfVerificationWarning):
        found = evaluate({"own": own}, [Task(id="a")])
    assert f"own: {MARK}, unaudited" in str(found)
    assert f"own: {MARK}, unaudited" in found._repr_html_()
