"""A pipeline with a model's word is marked until its judge has been audited: in tables, report, summary and `show`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from draftverify import Pipeline, generator
from draftverify.bench import evaluate
from draftverify.bench.artifact import write_artifact
from draftverify.bench.cli.main import main
from draftverify.bench.records import about
from draftverify.bench.runner.marks import marks_of
from draftverify.checks.verifiers import AllOf, Regex
from draftverify.kit.audit import audit_judge, comparisons_of
from draftverify.rules import Best
from draftverify.values import Task
from draftverify_llm import RecordedJudge
from tests.report.runs import overview_of

PARTS = '''
from draftverify import GeneratorTraits, Proposal


class Two:
    """Proposes the two answers of the task."""

    traits = GeneratorTraits(shape="alternatives", reads=frozenset())

    def propose(self, context, n):
        return Proposal.alternatives((context.task.input["first"], context.task.input["second"]), exhausted=True)
'''

RUN = """
name: judged
parts: [two.py]
tasks: {use: jsonl, path: verdicts.jsonl, fields: {question: question, first: first, second: second}}
pipelines:
  judged:
    generator: {use: two.Two}
    verifier: {use: llm.recorded_judge, path: verdicts.jsonl}
    rule: {use: best}
    block: 2
  checked: {generator: {use: two.Two}, verifier: {use: regex, pattern: a}, rule: {use: first}, block: 2}
"""

AUDIT = """
judge: {use: llm.recorded_judge, path: verdicts.jsonl}
comparisons:
  use: jsonl
  path: verdicts.jsonl
  fields: {question: question, first: first, second: second}
  expected: {label: label}
"""


@pytest.fixture
def folder(tmp_path):
    """Four recorded pairs, a run that is judged by them, and the config of the judge's audit."""
    lines = []
    for i in range(4):
        line = {"question": f"q{i}", "first": f"a{i}", "second": f"b{i}", "label": 1 if i else 2}
        lines.append({**line, "verdict": 1, "swapped": 2})
    (tmp_path / "verdicts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    (tmp_path / "two.py").write_text(PARTS)
    (tmp_path / "run.yaml").write_text(RUN)
    (tmp_path / "judge.yaml").write_text(AUDIT)
    return tmp_path


def marks(path):
    return {
        each["name"]: each["marks"] for each in json.loads((path / "summary.json").read_text())["pipelines"]
    }


def test_a_judge_is_marked_until_it_was_audited(folder, capsys):
    """Unaudited first; the audit beside the config is found by the next run. No other verifier is marked."""
    assert main(["run", str(folder / "run.yaml"), "--out", str(folder / "first")]) == 0
    assert "judged: unaudited" in capsys.readouterr().out
    assert marks(folder / "first") == {"judged": ["unaudited"], "checked": []}
    shown = overview_of((folder / "first" / "report.html").read_text())["pipelines"]
    assert {each["name"]: each["trust"]["marks"] for each in shown}["judged"] == ["unaudited"]
    assert main(["show", str(folder / "first")]) == 0
    assert "judged: unaudited" in capsys.readouterr().out
    assert main(["audit", "judge", str(folder / "judge.yaml")]) == 0
    assert main(["run", str(folder / "run.yaml"), "--out", str(folder / "second")]) == 0
    assert "unaudited" not in capsys.readouterr().out.partition("wrote")[2]
    assert marks(folder / "second")["judged"] == ["audited: accuracy 0.75, κ 0.00, on 4 labels"]


def test_the_audit_of_another_judge_does_not_count(folder):
    """One verdict more, and it is another judge."""
    path = folder / "verdicts.jsonl"
    tasks = [Task(id="0", input={"question": "q0", "first": "a0", "second": "b0"}, expected={"label": 2})]
    write_artifact(folder / "audits" / "any.json", audit_judge(RecordedJudge(path), comparisons_of(tasks)))
    propose = generator(lambda context, n: ["a0", "b0"])
    pipeline = Pipeline(propose, RecordedJudge(path), Best(), block=2)
    assert marks_of(pipeline, folder / "audits")[0].startswith("audited")
    path.write_text(path.read_text().replace('"swapped": 2', '"swapped": 1', 1))
    assert marks_of(pipeline, folder / "audits") == ("unaudited",)


def test_each_judge_among_stages_is_named(folder):
    """A check that rests on no model is not."""
    path = folder / "verdicts.jsonl"
    stages = AllOf((Regex("a"), RecordedJudge(path), RecordedJudge(path, family="gpt")))
    pipeline = Pipeline(generator(lambda context, n: ["a0", "b0"]), stages, Best(), block=2)
    assert marks_of(pipeline, folder / "audits") == ("RecordedJudge unaudited", "RecordedJudge unaudited")


def test_the_library_marks_too(folder):
    """`evaluate` looks where it is told."""
    path = folder / "verdicts.jsonl"
    tasks = [Task(id="0", input={"question": "q0", "first": "a0", "second": "b0"}, expected={"label": 2})]
    pipeline = Pipeline(generator(lambda context, n: ["a0", "b0"]), RecordedJudge(path), Best(), block=2)

    def found():
        (one,) = evaluate({"judged": pipeline}, tasks, audits=folder / "audits").summary.pipelines
        return one.marks

    assert found() == ("unaudited",)
    write_artifact(folder / "audits" / "any.json", audit_judge(RecordedJudge(path), comparisons_of(tasks)))
    assert found()[0].startswith("audited: accuracy 0.00")


def test_the_accelerator_is_among_the_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name that the driver's files give; without such files there is none."""
    monkeypatch.setattr(about, "_CARDS", tmp_path)
    assert "accelerator" not in about.versions()
    for card in ("0", "1"):
        (tmp_path / card).mkdir()
        (tmp_path / card / "information").write_text("Model: \t\t NVIDIA A100\nIRQ: 1\n")
    assert about.versions()["accelerator"] == "NVIDIA A100"
