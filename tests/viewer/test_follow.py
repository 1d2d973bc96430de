"""Pages that follow a run which another process drives, in a real browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.viewer.serving import serving

PARTS = """
import time
from pathlib import Path
from typing import Any

from draftverify import Check, GeneratorTraits, Proposal, Task, Verification


class Tasks:
    def load(self):
        return [Task(id=f"t{i}", input={"n": i}) for i in range(6)]


class Gated:
    traits = GeneratorTraits(shape="alternatives")

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


@contextmanager
def opening(gate: Path) -> Iterator[None]:
    """The gate is open afterwards, so that no process waits at it for a test that has failed."""
    try:
        yield
    finally:
        gate.touch()


GONE = """charts.length > 0
  && charts.every((each) => !each.isConnected && !each.getAttribute("_echarts_instance_"))"""
"""ECharts marks an element that it draws into, until it lets go of it."""


def until(page: Any, true: str) -> None:
    """Wait for something of a page; its policy lets no function of a test run in it for long."""
    for _ in range(600):
        if page.evaluate(true):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not so after half a minute: {true}")


def test_pages_follow_a_run_that_another_process_drives(chromium: Any, tmp_path: Path) -> None:
    """The list sees it begin, the report grows by itself, and both say when it has come to its end."""
    root, config = tmp_path / "runs", tmp_path / "gated.yaml"
    root.mkdir()
    config.write_text(CONFIG)
    (tmp_path / "gated_parts.py").write_text(PARTS)
    command = [sys.executable, "-m", "draftverify", "run", str(config), "--out", str(root / "live")]
    with serving(root) as served, served.page(chromium, "") as page, served.page(chromium, "") as other:
        page.get_by_text("There are no runs in this directory yet").wait_for()
        with (
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver,
            opening(tmp_path / "gate"),
        ):
            other.get_by_text("not finished, 3 of 6").wait_for(timeout=60_000)  # a process that starts
            page.get_by_role("link", name="live", exact=True).click()
            page.locator("header").get_by_text("3 of 6 done").wait_for()
            page.wait_for_selector(".chart svg")
            page.evaluate("window.charts = [...document.querySelectorAll('.chart')]")
            page.locator("#config summary").first.click()
            page.get_by_role("button", name="t0", exact=True).click()
            asked = page.locator("tr.detail details").first
            asked.locator("summary").click()
            page.get_by_label("search tasks").fill("t")
            until(page, "location.hash.includes('search=t')")
            line = page.locator("tr.detail").element_handle()
            assert driver.poll() is None
            (tmp_path / "gate").touch()
            assert driver.wait(60) == 0
        page.locator("header").get_by_text("finished", exact=True).wait_for()
        # What a reader opened, typed and looked at is as it was, and charts that were drawn anew are let go of.
        assert asked.get_attribute("open") is None
        assert line.evaluate("each => each.isConnected")
        assert page.locator("#config details").first.get_attribute("open") == ""
        assert page.evaluate("document.activeElement.type") == "search"
        until(page, GONE)
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
