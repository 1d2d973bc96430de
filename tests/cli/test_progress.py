"""How far a run is where no terminal is: lines by time, with what failed so far; and where failed calls failed."""

from __future__ import annotations

import re
from pathlib import Path
from time import monotonic, sleep

import pytest

from draftverify.bench.cli import progress
from draftverify.bench.cli.main import main
from draftverify.bench.tables.words import about_seconds
from draftverify.values import Failure, Outcome, TaskRecord
from tests.experiments.runs import write


def ended(status: str) -> TaskRecord:
    return TaskRecord(task="t", outcome=Outcome(status=status))  # type: ignore[arg-type]


def test_lines_come_by_time_and_at_the_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while no task ends: count, rate, time left, what failed, was refused or waits; of a resumed run what was
    done before, which is in no rate."""
    monkeypatch.setattr(progress, "EVERY", 0.05)
    said = ""

    def until(text: str) -> None:
        nonlocal said
        end = monotonic() + 20
        while text not in said and monotonic() < end:
            sleep(0.01)
            said += capsys.readouterr().err
        assert text in said

    with progress.RunProgress() as told:
        told.started("measure", {"plain": (3, 5), "spec": (0, 5)})
        said = capsys.readouterr().err
        assert said.startswith("measure: 10 runs of tasks (3 done before)\n")
        until("measure: 3 of 10\n")
        told.done("plain", ended("accepted"))
        told.done("spec", ended("failed"))
        until("1 failed\n")
        told.done("spec", ended("refused"))
        told.done("spec", ended("waiting"))
        until("1 failed, 1 refused, 1 waiting\n")
    said += capsys.readouterr().err
    line = r"measure: 5 of 10, [\d.e+]+ a second, about [\d.]+ s left, 1 failed\n"
    assert re.search(line, said), said
    assert re.fullmatch(
        r"measure: 7 of 10 in [\d.]+ s, 1 failed, 1 refused, 1 waiting", said.splitlines()[-1]
    )


def test_lines_have_the_commonest_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """In the words of the first of its kind, cut."""
    with progress.RunProgress() as told:
        told.started("measure", {"one": (0, 9)})
        for place in range(5):
            why = f"task t{place} has no field" if place else "x" * 999
            failure = Failure("error", "ConfigError", why)
            told.done("one", TaskRecord(task=f"t{place}", outcome=Outcome(status="failed", failure=failure)))
        told.done("one", ended("refused"))
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.endswith("5 failed, 1 refused; most often (4): ConfigError: task t1 has no field")


def test_times_and_rates_read_as_people_say_them() -> None:
    """Slow ones by the minute, long ones in hours."""
    assert [about_seconds(each) for each in (0.04, 12.3, 300, 7300)] == [
        "0.04 s",
        "12 s",
        "5 min",
        "2 h 2 min",
    ]
    assert [progress._rate(each) for each in (120.0, 0.05)] == ["120 a second", "3 a minute"]


def test_tracebacks_of_parts_are_shown_where_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each way of failing once, with file and line of the part; `show --trace` has them too. Else the message alone."""
    config = write(tmp_path, check=", broken: [t1, t2]")
    out = str(tmp_path / "run")
    assert main(["run", str(config), "--out", out]) == 6
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    assert f"failed: 4  plain ({config}:7) t1, t2; spec ({config}:13) t1, t2" in said.out
    assert main(["run", str(config), "--out", out, "--fresh", "--traceback"]) == 6
    said = capsys.readouterr()
    assert re.search(r'plain, task t1:\n  Traceback.*run_parts.py", line \d+, in verify', said.err, re.S)
    assert said.err.count("Traceback") == 2  # one a pipeline, and not one a task
    assert main(["show", out, "--trace", "t1"]) == 0
    assert "Traceback" not in capsys.readouterr().out
    assert main(["--traceback", "show", out, "--trace", "t1", "--pipeline", "plain"]) == 0
    assert re.search(r'│   File ".*run_parts.py", line \d+, in verify', capsys.readouterr().out)


def test_tasks_that_nothing_judged_are_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A verifier that is away until the budget is spent: the table says so, and the exit code does, as of failures."""
    (tmp_path / "away.py").write_text(
        "from draftverify import Check, Proposal, Verification\n"
        "class Guess:\n    def propose(self, context, n):\n        return Proposal.alternatives(['x'])\n"
        "class Away:\n    def verify(self, context, proposal):\n"
        "        return Verification(checks=(Check('timeout', reason='no answer'),))\n"
        "class Wrong:\n    def verify(self, context, proposal):\n"
        "        return Verification(checks=(Check('reject'),))\n"
    )
    (tmp_path / "tasks.jsonl").write_text('{"a": 1}\n')
    text = (
        "parts: [./away.py]\ntasks: {use: jsonl, path: tasks.jsonl}\npipelines:\n"
        "  one: {generator: {use: away.Guess}, verifier: {use: away.PART}, rule: {use: first}, budget: {rounds: 3},\n"
        "        on_rejection: [{on: [reject, timeout], do: regenerate, times: forever}]}\n"
    )
    config = tmp_path / "away.yaml"
    config.write_text(text.replace("PART", "Away"))
    assert main(["run", str(config), "--out", str(tmp_path / "away")]) == 6
    out = capsys.readouterr().out
    assert "1 refused" in out
    assert "3 timeouts" in out
    assert "one: tasks of which nothing was judged, since every check failed: 1" in out
    config.write_text(text.replace("PART", "Wrong"))
    assert main(["run", str(config), "--out", str(tmp_path / "wrong")]) == 0
    assert "checks failed" not in capsys.readouterr().out
