"""`draftverify audit judge`: a table, a file beside the config, JSON, a plan, and configs that are wrong."""

from __future__ import annotations

import json

import pytest

from draftverify.bench.cli.exits import ExitCode
from draftverify.bench.cli.main import main
from draftverify.kit.audit import load_audit
from draftverify_llm import RecordedJudge

YAML = """
judge: {use: llm.recorded_judge, path: verdicts.jsonl, family: gpt}
comparisons:
  use: jsonl
  path: verdicts.jsonl
  fields: {question: question, first: first, second: second}
  expected: {label: label}
"""


@pytest.fixture
def folder(tmp_path):
    """Twenty recorded pairs; the judge keeps to the first place in five of them."""
    lines = []
    for i in range(20):
        label = "first" if i % 2 else "second"
        verdicts = (
            ("first", "first") if i % 4 == 0 else (label, {"first": "second", "second": "first"}[label])
        )
        line = {"question": f"q{i}", "first": f"a{i}", "second": f"b{i}!", "label": label}
        lines.append({**line, "verdict": verdicts[0], "swapped": verdicts[1]})
    (tmp_path / "verdicts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    (tmp_path / "judge.yaml").write_text(YAML)
    return tmp_path


def test_a_recorded_judge_is_audited_and_the_file_kept(folder, capsys):
    """Consistency and accuracy stand in the table, what cannot be tested too; the file names the judge."""
    assert main(["audit", "judge", str(folder / "judge.yaml")]) == ExitCode.OK
    out = capsys.readouterr().out
    for words in ("swap consistency", "0.750", "position bias", "1.000", "not tested", "audits/judge.json"):
        assert words in out
    audit = load_audit(
        folder / "audits" / "judge.json", judge=RecordedJudge(folder / "verdicts.jsonl", family="gpt")
    )
    assert audit.family == "gpt"
    assert audit.figure("agreement", "accuracy").value == 0.875


def test_the_audit_of_another_judge_is_not_written_over(folder, capsys):
    """Its file names the judge; the first stays the first's, and is written anew by its own."""
    config = str(folder / "judge.yaml")
    assert main(["audit", "judge", config]) == ExitCode.OK
    (folder / "others.jsonl").write_bytes((folder / "verdicts.jsonl").read_bytes()[:-1])
    assert main(["audit", "judge", config, "--set", "judge.path=others.jsonl"]) == ExitCode.OK
    assert main(["audit", "judge", config]) == ExitCode.OK
    capsys.readouterr()
    kept, other = sorted((folder / "audits").iterdir(), key=lambda path: len(path.name))
    assert kept.name == "judge.json"
    assert load_audit(kept, judge=RecordedJudge(folder / "verdicts.jsonl", family="gpt"))
    assert load_audit(other, judge=RecordedJudge(folder / "others.jsonl", family="gpt"))


def test_json_and_another_file_and_fewer_comparisons(folder, capsys):
    """--json prints what the file holds; --limit and probes narrow it."""
    path = folder / "kept.json"
    arguments = [
        "audit",
        "judge",
        str(folder / "judge.yaml"),
        "--json",
        "--limit",
        "8",
        "--set",
        "probes=[order]",
    ]
    assert main([*arguments, "--out", str(path)]) == ExitCode.OK
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(path.read_text())
    assert printed["comparisons"] == 8
    assert [each["name"] for each in printed["probes"]] == ["order"]
    assert not (folder / "audits").exists()


def test_a_plan_says_how_many_labels(folder, capsys):
    """From the labelled comparisons as a pilot; nothing is audited or written."""
    assert main(["audit", "judge", str(folder / "judge.yaml"), "--plan", "0.1"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "a pilot of 20 labels: an accuracy of 0.88" in out  # .875, as the audit says, over both orders
    assert "win rate, with the judge" in out
    assert not (folder / "audits").exists()


@pytest.mark.parametrize(
    ("yaml", "told"),
    [
        (YAML + "probes: [ordr]\n", "probes.0"),
        (YAML + "bound: 3\n", "unknown key 'bound'"),
        (YAML.replace("judge:", "jugde:"), "jugde"),
        (
            YAML.replace("llm.recorded_judge, path: verdicts.jsonl, family: gpt", "regex, pattern: x"),
            "cannot be audited",
        ),
        (YAML.replace("expected: {label: label}", "expected: {label: question}"), "comparisons.expected"),
        (YAML.replace("first: first,", ""), "comparisons.fields"),
        ("[1]", "should be a mapping"),
    ],
)
def test_configs_that_are_wrong_say_where(folder, capsys, yaml, told):
    """Exit code 3, the place and the reason."""
    (folder / "judge.yaml").write_text(yaml)
    assert main(["audit", "judge", str(folder / "judge.yaml")]) == ExitCode.CONFIG
    assert told in capsys.readouterr().err


def test_an_audit_that_cannot_be_written_is_shown_all_the_same(folder, capsys):
    """What the judge was paid for is not lost with the file; the error names it."""
    (folder / "taken").write_text("a file where a directory is wanted")
    path = folder / "taken" / "audit.json"
    assert main(["audit", "judge", str(folder / "judge.yaml"), "--out", str(path)]) == ExitCode.CONFIG
    told = capsys.readouterr()
    assert "accuracy" in told.out
    assert str(path) in told.err
    assert "cannot be written" in told.err
