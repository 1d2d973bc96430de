"""examples/plan.yaml as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

from .conftest import PLANS


def test_the_example_runs_from_the_command_line(tmp_path):
    """Three pipelines over the first problems: everything solved, and each round's steps can be looked at."""
    out = tmp_path / "run"
    ran = _draftverify("run", str(PLANS.parent / "plan.yaml"), "--set", "tasks.limit=3", "--out", str(out))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    summary = json.loads((out / "summary.json").read_text())
    statuses = {pipeline["name"]: pipeline["statuses"] for pipeline in summary["pipelines"]}
    assert statuses == {name: {"accepted": 3} for name in ("planner", "relaxed", "spliced")}
    trace = _draftverify("show", str(out), "--trace", "blocks/p02", "--pipeline", "relaxed")
    assert "[-unstack c a-]" in trace.stdout
    assert "unstack c a needs clear(c)" in trace.stdout


def _draftverify(*arguments):
    command = [sys.executable, "-m", "draftverify", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
