"""Pages that follow a run which another process drives, in a real browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.viewer.serving import serving

PARTS = """
import time
from pathlib import Path
from typing import Any

from draftverify import Check, Proposal, Task, Verification


class Tasks:
    def load(self):
        return [Task(id=f"t{i}", input={"n": i}) for i in range(6)]


class Gated:
    shape = "alternatives"

    def __init__(self, gate: Path) -> None:
        self.gate = gate

    def propose(self, context, n):
        while context.task.input["n"] >= 3 and not self.gate.exists():
            time.sleep(0.02)
        return Proposal.alternatives([context.task.input["n"]])


class Right:
    def verify(self, context, proposal):
        return Verification(checks=tuple(Check("pass") for _ in proposal.items))
"""
CONFIG = """
name: gated
parts: [./gated_parts.py]
tasks: {use: gated_parts.Tasks}
pipelines:
  only: {generator: {use: gated_parts.Gated, gate: gate}, verifier: {use: gated_parts.Right}, rule: {use: first}}
"""


def test_pages_follow_a_run_that_another_process_drives(chromium: Any, tmp_path: Path) -> None:
    """The list sees it begin, the report grows by itself, and both say when it has come to its end."""
    root, config = tmp_path / "runs", tmp_path / "gated.yaml"
    root.mkdir()
    config.write_text(CONFIG)
    (tmp_path / "gated_parts.py").write_text(PARTS)
    command = [sys.executable, "-m", "draftverify", "run", str(config), "--out", str(root / "live")]
    with serving(root) as served, served.page(chromium, "") as page, served.page(chromium, "") as other:
        page.get_by_text("There are no runs in this directory yet").wait_for()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
            other.get_by_text("not finished, 3 of 6").wait_for()
            page.get_by_role("link", name="live", exact=True).click()
            page.locator("header").get_by_text("3 of 6 done").wait_for()
            assert driver.poll() is None
            (tmp_path / "gate").touch()
            assert driver.wait(60) == 0
        page.locator("header").get_by_text("finished", exact=True).wait_for()
        other.get_by_text("finished, 6 of 6").wait_for()
        page.get_by_role("link", name="All runs").click()
        page.get_by_role("link", name="live", exact=True).wait_for()
        assert (page.said, other.said) == ([], [])


def test_a_report_says_when_its_run_is_gone(chromium: Any, runs: Path, tmp_path: Path) -> None:
    """What it showed stays; when the run is back it goes on; what waits for people is a link away."""
    root = tmp_path / "runs"
    shutil.copytree(runs, root)
    with serving(root) as served, served.page(chromium, "run?run=waits") as page:
        page.get_by_role("link", name="3 wait for a person").wait_for()
        (root / "waits").rename(tmp_path / "aside")
        page.get_by_text("not followed now: there is no run 'waits' here (any more?)").wait_for()
        assert page.locator("main").get_by_text("spec").count()
        (tmp_path / "aside").rename(root / "waits")
        page.get_by_role("link", name="3 wait for a person").click()
        page.locator("#candidate").wait_for()


def test_a_report_leads_to_the_decision_and_tells_errors_in_words(chromium: Any, served: Any) -> None:
    """A waiting task that is opened has a way to the reviewers' page; what it refuses is a sentence."""
    with served.page(chromium, "run?run=waits#open=t0") as page:
        page.locator("tr.detail").get_by_role("link", name="Decide").first.click()
        page.locator("#candidate").wait_for()
    with served.page(chromium, "run?run=none") as page:
        told = page.locator("main .note.bad").inner_text()
        assert told.startswith("This page cannot be shown: there is no run 'none' here")
