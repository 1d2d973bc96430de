"""`draftverify view --review`: questions on the screen, answers by key, editor and file, taken up by the same run."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from draftverify.bench.cli.main import main
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from draftverify.view.cli.view import view
from tests.experiments.run_parts import expected
from tests.experiments.runs import load, write

CONFIG = {"policy": "[{do: escalate}]", "check": ", splice: false", "count": 3, "chance": 0.0}


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A run in which three tasks wait."""
    assert run(load(tmp_path, **CONFIG), out=tmp_path / "run").waiting == 3
    return tmp_path / "run"


def states(path: Path) -> list[tuple[str, str]]:
    with load_run(path) as records:
        return sorted((question.task, question.answer or question.state) for question in records.questions)


def test_keys_answer_one_question_after_the_other(waiting: Path) -> None:
    """Accept, reject with a reason, skip: each on the question that was shown; the rest stays open."""
    result = CliRunner().invoke(view, [str(waiting), "--review"], input="xarno good\ns")
    assert result.exit_code == 0, result.output
    assert states(waiting) == [("t0", "accept"), ("t1", "reject"), ("t2", "pending")]
    with load_run(waiting) as records:
        assert [question.note for question in records.questions] == ["", "no good", ""]
    for word in (
        "1 of 3",
        "t0",
        "spec",
        "reject",
        "wrong",
        "-1 is wrong",
        "<-1>",
        "2 answered, 1 still open",
    ):
        assert word in result.output


def test_what_another_reviewer_has_is_not_asked_about(waiting: Path, tmp_path: Path) -> None:
    """Neither at the keyboard nor in a file of answers; who quits lets go of the question on the screen."""
    with load_run(waiting) as records:
        first, _, third = records.store.questions()
        assert records.store.claim(first, "another", 60)
        result = CliRunner().invoke(view, [str(waiting), "--review"], input="aq")
        assert [f"{task}  g" in result.output for task in ("t0", "t1", "t2")] == [False, True, True]
        assert "1 is with other reviewers" in result.output
        assert "1 answered, 2 still open" in result.output
        assert records.store.claim(third, "a third", 60)
        file = tmp_path / "answers.jsonl"
        file.write_text('{"task": "t0", "answer": "accept"}')
        result = CliRunner().invoke(view, [str(waiting), "--review", str(file)])
        assert "task t0: another reviewer has this one now" in " ".join(result.output.split())
    assert states(waiting) == [("t0", "pending"), ("t1", "accept"), ("t2", "pending")]


def test_quit_keeps_what_was_answered(waiting: Path) -> None:
    """Nothing more is asked after q."""
    result = CliRunner().invoke(view, [str(waiting), "--review"], input="aq")
    assert result.exit_code == 0
    assert "3 of 3" not in result.output
    assert states(waiting) == [("t0", "accept"), ("t1", "pending"), ("t2", "pending")]


def test_an_edit_goes_through_the_editor(waiting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is no text is edited as JSON; what is no JSON can be edited again."""
    seen = []

    def edit(text: str, extension: str) -> str:
        seen.append((text, extension))
        return "{" if len(seen) == 1 else str(expected("t0", 0))

    monkeypatch.setattr(click, "edit", edit)
    result = CliRunner().invoke(view, [str(waiting), "--review"], input="ey\nq")
    assert result.exit_code == 0, result.output
    assert seen == [("-1", ".json"), ("{", ".json")]
    with load_run(waiting) as records:
        assert records.questions[0].value == expected("t0", 0)


def test_an_editor_that_is_left_without_saving_answers_nothing(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question stays on the screen."""
    monkeypatch.setattr(click, "edit", lambda text, extension: None)
    result = CliRunner().invoke(view, [str(waiting), "--review"], input="eq")
    assert "still open" in result.output
    assert {state for _, state in states(waiting)} == {"pending"}


def test_answers_from_a_file_are_taken_up_by_the_same_run(
    waiting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From waiting to done with commands alone: run, view --review FILE, run, until nothing waits."""
    config = str(write(tmp_path, **CONFIG))
    for place in range(8):
        replies = [{"task": f"t{i}", "answer": "edit", "value": expected(f"t{i}", place)} for i in range(3)]
        answers = tmp_path / "answers.jsonl"
        answers.write_text("\n".join(map(json.dumps, replies)))
        assert main(["view", str(waiting), "--review", str(answers)]) == 0
        assert "3 answered, 0 still open; the same run command goes on" in capsys.readouterr().out
        code = main(["run", config, "--out", str(waiting)])
    assert code == 0
    assert "spec: identical: 3 of 3" in capsys.readouterr().out
    assert main(["view", str(waiting), "--review"]) == 0
    assert "nothing waits for a person" in capsys.readouterr().out


def test_a_wrong_answers_file_stores_nothing(
    waiting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, file and line."""
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"task": "t0", "answer": "accept"}\n{"task": "t9", "answer": "accept"}\n')
    assert main(["view", str(waiting), "--review", str(answers)]) == 3
    assert f"{answers}:2" in capsys.readouterr().err
    assert {state for _, state in states(waiting)} == {"pending"}


def test_hostile_candidates_stay_text(tmp_path: Path) -> None:
    """What a model wrote cannot steer the reviewer's terminal, nor look like more than it is; no secret is shown."""
    from draftverify import Check, Pipeline, escalate, generator, verifier
    from draftverify.bench.records import RunDirectory
    from draftverify.bench.runner.bench import Bench, Unit
    from draftverify.rules import First
    from draftverify.secret import Secret
    from draftverify.values import Task

    key = Secret("sk-of-a-reviewer")
    evil = f"\x1b[2J[bold]approve me[/bold]\u202e {key}"
    pipeline = Pipeline(
        generator(lambda c, n: [evil]),
        verifier(lambda c, item: Check("reject", caveat=f"few samples {evil}")),
        First(),
        policy=escalate(),
    )
    task = Task(id="t", input={"prompt": evil, key[:]: [evil]}, group=evil)
    done = Bench({"p": pipeline}).perform(Unit(pipeline="p", task=task))
    assert done.question is not None
    with RunDirectory(tmp_path / "run", name="n", config={}, config_hash="h") as directory:
        directory.store.park("p", done.record, done.question)
    result = CliRunner().invoke(view, [str(tmp_path / "run"), "--review"], input="q")
    assert "[bold]approve me[/bold]" in result.output
    assert "few samples" in result.output
    assert not {"\x1b", "\u202e"} & set(result.output)
    assert "reviewer" not in result.output
