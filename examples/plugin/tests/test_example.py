"""The example config, run as a user would: what it was made for stands in its table and its summary."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from draftverify import Pipeline, Proposal, fallback
from draftverify.kit import Subject, check_component
from draftverify.rules import Best
from draftverify_sql import OWN, SHORTCUTS, SQLGLOT, AsWritten, Database, Queries, Rewrites, Tested

PLUGIN = Path(__file__).parents[1]


def test_the_example_runs_and_shows_what_it_saved(cache: Path, data: Database, tmp_path: Path) -> None:
    """From YAML by entry points alone: the same results, a speed-up with its interval, the caveat of what passed."""
    text = (PLUGIN / "rewrites.yaml").read_text()
    for scale in ("0.1", "0.05"):
        assert f"scale: {scale}" in text
        text = text.replace(f"scale: {scale}", f"scale: 0.01, cache: {cache}")
    text = text.replace(
        "sets: [tpch, everyday]", "sets: [everyday], only: [customer_counters, never_ordered]"
    )
    (tmp_path / "rewrites.yaml").write_text(text)
    command = [sys.executable, "-m", "draftverify", "run", "rewrites.yaml", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {
        each["name"]: each["rows"][-1]
        for each in json.loads((tmp_path / "run" / "summary.json").read_text())["pipelines"]
    }
    assert rows["rules"]["solved"]["same_result"]["rate"]["value"] == 1.0
    assert rows["rules"]["statuses"] == {"accepted": 2}
    assert rows["rules"]["measures"]["speed_up"]["mean"] == "geometric"
    assert rows["as_written"]["measures"]["speed_up"]["figure"]["value"] == 1.0
    assert "speed_up" in done.stdout
    assert "geometric" in done.stdout


def test_a_query_that_nothing_beats_runs_as_written(data: Database) -> None:
    """NOT IN with NULLs: its one shortcut is refuted, and the pipeline falls back."""
    [task] = Queries(sets=["everyday"], only=["never_ordered"]).load()
    pipeline = Pipeline(
        Rewrites(),
        Tested(data, samples=20, repeats=2),
        Best(threshold=0.05),
        policy=fallback(AsWritten(), verified=False),
    )
    record = pipeline.record(task)
    assert record.outcome.value == task.input["sql"]
    assert record.rounds[0].checks[0].reason.startswith("differs on a sample: ")
    assert "NOT EXISTS" in record.rounds[0].items[0]


def test_the_readme_s_example_runs(cache: Path, data: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python as it stands; the month becomes a range, and every draft is named with its verdict."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    [code] = re.findall(r"^```python\n(.*?)^```$", (PLUGIN / "README.md").read_text(), re.M | re.S)
    namespace: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), namespace)
    assert namespace["record"].rounds[0].items[0].startswith("-- date_to_range\n")
    assert namespace["record"].outcome.status == "accepted"


def test_the_readme_says_how_many_rules_there_are() -> None:
    """And names each that is wrong somewhere."""
    text = (PLUGIN / "README.md").read_text()
    assert f"{len(OWN)} rules of its own and {len(SQLGLOT)} of sqlglot's" in text
    assert all(f"`{name}`" in text for name in SHORTCUTS)


def test_the_verifier_keeps_the_contract(data: Database) -> None:
    """draftverify's conformance kit, with its own texts as items."""
    [task] = Queries(sets=["everyday"], only=["one_of_many"]).load()
    right = task.input["sql"].rstrip().rstrip(";") + " OR 1 = 0"
    blocks = [
        Proposal.alternatives([right, "SELECT 1", task.input["sql"]]),
        Proposal.alternatives(["DROP TABLE part"]),
        Proposal.alternatives([]),
    ]
    check_component(Subject(Tested(data, samples=1, repeats=2), tasks=[task], proposals=blocks))
