"""What drafting has lost is shown wherever a run is: under the tables, in the report as a loss, and in the task."""

from __future__ import annotations

import re

import pytest

from draftverify.bench import load_experiment, run
from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify.view.overview import overview
from draftverify.view.task_detail import task_detail
from tests.browser import watched

PARTS = """
from draftverify import Check, Context, Cost, GeneratorTraits, Proposal, Task, Verification

class Numbers:
    def load(self) -> list[Task]:
        return [Task(id=f"t{i}", input={"right": f"it is {i}, and no other"}) for i in range(60)]

class Guess:
    traits = GeneratorTraits(shape="alternatives")
    def __init__(self, right: bool, seconds: float) -> None:
        self.right = right
        self.seconds = seconds
    def propose(self, context: Context, n: int) -> Proposal:
        right = context.task.input["right"]
        return Proposal.alternatives((right if self.right else "it is none of them at all",), cost=Cost(self.seconds))

class Judge:
    def verify(self, context: Context, proposal: Proposal) -> Verification:
        right = context.task.input["right"]
        checks = tuple(Check("pass" if item == right else "reject") for item in proposal.items)
        return Verification(checks=checks, cost=Cost(0.01))
"""
CONFIG = """
name: hostile
parts: [./parts.py]
tasks: {use: parts.Numbers}
defaults:
  verifier: {use: parts.Judge}
  rule: {use: first}
pipelines:
  alone: {generator: {use: parts.Guess, right: true, seconds: 1.0}}
  hostile:
    generator: {use: parts.Guess, right: false, seconds: 0.4}
    block: {use: measured, at_most: 1}
    on_rejection: [{do: fallback, generator: {use: parts.Guess, right: true, seconds: 1.0}}]
baseline: alone
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The directory of a run whose drafter is always wrong."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "parts.py").write_text(PARTS)
    (folder / "hostile.yaml").write_text(CONFIG)
    return run(load_experiment(folder / "hostile.yaml"), out=folder / "run").path


def test_the_account_is_in_the_summary_and_under_the_table(hostile, capsys):
    """After how many tasks drafting stopped, and what it lost, in seconds and of the run."""
    with load_run(hostile) as records:
        alone, own = overview(records)["pipelines"]
    assert alone["drafting"] is None
    found = own["drafting"]
    assert (found["of"], found["back"]) == ("tasks", False)
    assert found["lost"] == pytest.approx(0.41 * found["drafted"], abs=0.05)
    assert found["drafted"] + found["plain"] == 60
    main(["show", str(hostile)])
    told = " ".join(capsys.readouterr().out.split())
    assert f"hostile: drafting stopped after {found['stopped']} tasks; it lost {found['lost']:.3g} s" in told
    assert re.search(r"\(\d\.\d\d% \[\d\.\d\d%, \d\.\d\d%\] of the run\) beyond the fallback alone", told)


def test_a_task_that_was_not_drafted_for_says_so(hostile, capsys):
    """In the terminal and in the page's data; its fallback is a step as any other."""
    with load_run(hostile) as records:
        rounds = task_detail(records, "t59")["pipelines"][1]["rounds"]
    assert rounds[0]["undrafted"]
    assert "undrafted" not in rounds[1]
    main(["show", str(hostile), "--trace", "t59", "--pipeline", "hostile"])
    told = capsys.readouterr().out
    assert "not drafted, to the fallback at once" in told
    assert "on exhausted: 1. fallback" in told


def test_the_report_shows_it_in_the_colour_of_a_loss(chromium, hostile):
    """Among the remarks, and in an undrafted task's round."""
    with watched(chromium) as seen:
        page = seen.page
        page.goto(f"file://{hostile}/report.html")
        page.wait_for_selector("html[data-ready]", state="attached")
        told = page.locator(".remarks .loss").all_inner_texts()
        assert any(text.startswith("drafting stopped after") for text in told)
        page.get_by_label("search", exact=False).first.fill("t59")
        page.get_by_role("button", name="t59", exact=True).click()
        page.wait_for_selector("tr.detail .pipeline")
        assert "not drafted, to the fallback at once" in page.locator("tr.detail").inner_text()
