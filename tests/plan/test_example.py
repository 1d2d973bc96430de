"""examples/plan.yaml as a user runs it."""

from __future__ import annotations

import json

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main

from .conftest import PLANS


def test_the_example_runs_from_the_command_line(tmp_path, capsys):
    """Three pipelines over the first problems: everything solved, and each round's steps can be looked at."""
    out = tmp_path / "run"
    arguments = ["run", str(PLANS.parent / "plan.yaml"), "--set", "tasks.limit=3", "--out", str(out)]
    assert main(arguments) == ExitCode.OK
    summary = json.loads((out / "summary.json").read_text())
    statuses = {pipeline["name"]: pipeline["statuses"] for pipeline in summary["pipelines"]}
    assert statuses == {name: {"accepted": 3} for name in ("planner", "relaxed", "spliced")}
    capsys.readouterr()
    assert main(["show", str(out), "--trace", "blocks/p02", "--pipeline", "relaxed"]) == ExitCode.OK
    trace = capsys.readouterr().out
    assert "[-unstack c a-]" in trace
    assert "unstack c a needs clear(c)" in trace
