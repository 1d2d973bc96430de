"""What packages join to a run, marks and reports: one that fails is told of and ends neither the run nor the others."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from draftverify.bench import load_experiment, run
from tests.cli.test_commands import package

CONFIG = """
name: joined
parts: [two.py]
tasks: {use: jsonl, path: tasks.jsonl}
pipelines:
  one: {generator: {use: two.Two}, verifier: {use: regex, pattern: b}, rule: {use: first}, block: 2}
"""

PARTS = '''
from draftverify import GeneratorTraits, Proposal


class Two:
    """Proposes two letters."""

    traits = GeneratorTraits(shape="alternatives", reads=frozenset())

    def propose(self, context, n):
        return Proposal.alternatives(("a", "b"), exhausted=True)
'''

FAILING = """
def fails(*given, **named):
    raise RuntimeError("no licence")
"""


def finished(directory: Path) -> Path:
    """A run's directory."""
    (directory / "two.py").write_text(PARTS)
    (directory / "tasks.jsonl").write_text('{"id": "1", "prompt": "a letter"}\n')
    (directory / "joined.yaml").write_text(CONFIG)
    run(load_experiment(directory / "joined.yaml"), out=directory / "out")
    return directory / "out"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (FAILING, "the marks 'licence' of dv-licence 1.0 failed: RuntimeError: no licence"),
        ("import nowhere_at_all", "entry point 'licence' of dv-licence 1.0 cannot be imported"),
    ],
    ids=["fails", "cannot be imported"],
)
def test_a_mark_that_cannot_be_given_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    """It stands among the pipeline's marks."""
    joins = package(tmp_path, "dv-licence", "licence = dv_licence:fails", code, group="draftverify.marks")
    monkeypatch.syspath_prepend(joins)
    starts = json.loads((finished(tmp_path) / "run.json").read_text())["starts"]
    [mark] = starts[-1]["marks"]["one"]
    assert mark.startswith(reason)


@pytest.mark.parametrize("code", [FAILING, "import nowhere_at_all"], ids=["fails", "cannot be imported"])
def test_a_report_that_cannot_be_written_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    """It is told of by its name."""
    joins = package(tmp_path, "dv-licence", "pdf = dv_licence:fails", code, group="draftverify.reports")
    monkeypatch.syspath_prepend(joins)
    with caplog.at_level(logging.WARNING):
        out = finished(tmp_path)
    assert "report.pdf was not written" in caplog.text
    assert "report.html was not written" not in caplog.text
    assert (out / "report.html").exists()
    assert not (out / "report.pdf").exists()
