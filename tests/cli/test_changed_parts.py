"""A run is of one version of its parts: what changed since is named and refused, or accepted and noted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main

PLUGIN = """
from draftverify import GeneratorTraits, Proposal
from dv_guesses.words import WORD

class Guess:
    traits = GeneratorTraits(shape="alternatives")

    def propose(self, context, n):
        return Proposal.alternatives((WORD,))
"""

LOCAL = """
from draftverify import PASS, Task, Verification

class Two:
    def load(self):
        return [Task(id="a"), Task(id="b")]

class Yes:
    def verify(self, context, proposal):
        return Verification(checks=(PASS,) * len(proposal.items))
"""

CONFIG = """
name: changed
parts: [local.py]
tasks: {use: local.Two}
pipelines: {one: {generator: {use: guesses.guess}, verifier: {use: local.Yes}, rule: {use: first}}}
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """An experiment of an installed plugin and a parts file."""
    site = tmp_path / "site"
    package, info = site / "dv_guesses", site / "dv_guesses-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(PLUGIN)
    (package / "words.py").write_text("WORD = 'first'\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dv-guesses\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[draftverify.generators]\nguesses.guess = dv_guesses:Guess\n")
    (tmp_path / "local.py").write_text(LOCAL)
    (tmp_path / "changed.yaml").write_text(CONFIG)
    return tmp_path


def test_an_installed_plugin_that_changed_is_not_mixed_with_what_it_was(
    experiment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither another file of its package, nor another version; accepted, both stand in run.json."""

    def command(*options: str) -> tuple[int, str]:
        """The run command, which finds and imports the plugin as a new process would; its code, and what it says."""
        for name in [name for name in sys.modules if name.partition(".")[0] == "dv_guesses"]:
            del sys.modules[name]
        monkeypatch.syspath_prepend(
            str(experiment / "site")
        )  # once more, so that packages are looked for anew
        code = main(["run", str(experiment / "changed.yaml"), "--out", str(experiment / "run"), *options])
        return code, " ".join(capsys.readouterr().err.split())

    assert command()[0] == ExitCode.OK
    (experiment / "site" / "dv_guesses" / "words.py").write_text("WORD = 'second'\n")
    code, said = command()
    assert code == ExitCode.RESOURCE
    assert "generator guesses.guess has changed since this run was made" in said
    assert "--accept-changed" in said
    info = experiment / "site" / "dv_guesses-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dv-guesses\nVersion: 1.1\n")
    code, said = command()
    assert code == ExitCode.RESOURCE
    assert "generator guesses.guess has changed from version 1.0 to 1.1" in said
    assert command("--accept-changed")[0] == ExitCode.OK
    assert command()[0] == ExitCode.OK
    starts = json.loads((experiment / "run" / "run.json").read_text())["starts"]
    versions = [start["parts"]["generator guesses.guess"]["version"] for start in starts]
    assert versions == ["1.0", "1.1", "1.1"]  # the last by a command without the option
    assert any("version 1.0" in change for change in starts[1]["accepted"])
    assert "accepted" not in starts[2]


def test_a_parts_file_that_was_edited_is_not_mixed_with_what_it_was(
    experiment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed verifier would judge half of the tasks by other rules."""
    monkeypatch.syspath_prepend(str(experiment / "site"))
    arguments = ["run", str(experiment / "changed.yaml"), "--out", str(experiment / "run")]
    assert main(arguments) == ExitCode.OK
    with open(experiment / "local.py", "a") as file:
        file.write("\nLIMIT = 3\n")
    assert main(arguments) == ExitCode.RESOURCE
    assert "local.py has changed since this run was made" in capsys.readouterr().err
    assert main([*arguments, "--accept-changed"]) == ExitCode.OK
    assert main(arguments) == ExitCode.OK


READS = """
from pathlib import Path
from draftverify import Verifier

class Reads(Yes):
    def __init__(self, log: Path, of: Verifier) -> None:
        self.log = log
        self.of = of

    def verify(self, context, proposal):
        with self.log.open("a") as file:
            file.write("asked")
        return self.of.verify(context, proposal)
"""


def test_a_file_that_a_shipped_part_is_given_is_not_mixed_with_what_it_was(
    experiment: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script, in a list, within another part; what a part of one's own is given may be its log, and is let be."""
    monkeypatch.syspath_prepend(str(experiment / "site"))
    (experiment / "local.py").write_text(LOCAL + READS)
    (experiment / "c.sh").write_text("exit 0")
    (experiment / "log").write_text("")
    part = "{use: all_of, stages: [{use: command, command: [sh, ./c.sh]}]}"
    part = f"{{use: local.Reads, log: ./log, of: {part}}}"
    (experiment / "changed.yaml").write_text(CONFIG.replace("{use: local.Yes}", part))
    arguments = ["run", str(experiment / "changed.yaml"), "--out", str(experiment / "run")]
    assert main(arguments) == ExitCode.OK
    assert "asked" in (experiment / "log").read_text()
    assert main(arguments) == ExitCode.OK
    (experiment / "c.sh").write_text("exit 1")
    capsys.readouterr()
    assert main(arguments) == ExitCode.RESOURCE
    said = " ".join(capsys.readouterr().err.split())
    assert "file c.sh has changed since this run was made" in said
    assert "--accept-changed" in said
    assert main([*arguments, "--accept-changed"]) == ExitCode.OK
    starts = json.loads((experiment / "run" / "run.json").read_text())["starts"]
    assert starts[1]["accepted"] == ["file c.sh has changed"]
    assert [name for name in starts[1]["parts"] if name.startswith("file ")] == ["file c.sh"]


def test_what_metrics_are_made_of_is_noted_and_not_refused(
    experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric that changes judges the same records anew."""
    monkeypatch.syspath_prepend(str(experiment / "site"))
    (experiment / "judge.py").write_text("def one(task, outcome):\n    return 1.0\n")
    metrics = "metrics: {one: {use: python, function: judge.one}}\n"
    (experiment / "changed.yaml").write_text(CONFIG.replace("[local.py]", "[local.py, judge.py]") + metrics)
    arguments = ["run", str(experiment / "changed.yaml"), "--out", str(experiment / "run")]
    assert main(arguments) == ExitCode.OK
    (experiment / "judge.py").write_text("def one(task, outcome):\n    return 0.5\n")
    assert main(arguments) == ExitCode.OK
    starts = json.loads((experiment / "run" / "run.json").read_text())["starts"]
    hashes = [start["metrics"]["judge.py"]["sha256"] for start in starts]
    assert len(set(hashes)) == 2
    assert ["judge.py" in start["parts"] for start in starts] == [False, False]
    assert starts[0]["metrics"]["metric python"]["package"] == "draftverify"


def test_a_folder_that_a_shipped_part_reads_is_not_mixed_with_what_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus whose texts were edited is another corpus; the index that the part writes itself is let be."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/prices.md").write_text("A loaf costs fourteen euros.\n")
    (tmp_path / "tasks.jsonl").write_text('{"question": "What does a loaf cost?"}\n')
    (tmp_path / "ask.yaml").write_text(
        """
tasks: {use: jsonl, path: tasks.jsonl, fields: {question: question}}
models:
  pages: {use: retrieval.corpus, path: docs, index: pages}
  words: {use: retrieval.bm25, corpus: pages}
pipelines:
  ask:
    generator: words
    verifier: {use: retrieval.lexical_reader, corpus: pages, threshold: 0}
    rule: {use: best}
"""
    )
    assert main(["run", "ask.yaml"]) == ExitCode.OK
    assert main(["run", "ask.yaml"]) == ExitCode.OK
    (tmp_path / "docs/prices.md").write_text("A loaf costs sixteen euros.\n")
    capsys.readouterr()
    assert main(["run", "ask.yaml"]) == ExitCode.RESOURCE
    assert "folder docs has changed since this run was made" in " ".join(capsys.readouterr().err.split())
    assert main(["run", "ask.yaml", "--fresh"]) == ExitCode.OK
