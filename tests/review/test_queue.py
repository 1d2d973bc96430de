"""The review queue: answers from a file are checked as a whole before the first is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftverify.bench.records import Question, RunRecords, load_run
from draftverify.bench.review import Reply, give_answer, pending, read_answers
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError
from draftverify.values import Candidate
from tests.experiments.runs import load

QUESTIONS = (
    Question(pipeline="spec", task="a", candidate=Candidate("x")),
    Question(pipeline="spec", task="b", candidate=None),
    Question(pipeline="plain", task="c", candidate=Candidate(1)),
    Question(pipeline="spec", task="c", candidate=Candidate(2)),
)


def answers(path: Path, *replies: Any) -> Path:
    file = path / "answers.jsonl"
    file.write_text("\n".join(reply if isinstance(reply, str) else json.dumps(reply) for reply in replies))
    return file


def test_replies_find_their_questions(tmp_path: Path) -> None:
    """By task, and by pipeline where several ask; empty lines are nothing."""
    file = answers(
        tmp_path,
        {"task": "a", "answer": "accept", "note": "fine"},
        "",
        {"task": "b", "answer": "edit", "value": None},
        {"task": "c", "pipeline": "plain", "answer": "reject"},
    )
    found = list(read_answers(file, QUESTIONS))
    assert [(question.pipeline, question.task, reply.answer) for question, reply in found] == [
        ("spec", "a", "accept"),
        ("spec", "b", "edit"),
        ("plain", "c", "reject"),
    ]
    assert found[0][1].note == "fine"
    assert found[1][1].value is None


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("{", "no reply"),
        ({"task": "a", "answer": "maybe"}, "no reply"),
        ({"task": "a", "answer": "accept", "pipelines": "spec"}, "pipelines"),
        ({"task": "z", "answer": "accept"}, "no open question about task 'z'"),
        ({"task": "a", "answer": "accept", "pipeline": "plain"}, "of the pipeline 'plain'"),
        ({"task": "c", "answer": "accept"}, 'asked about by plain, spec; add "pipeline"'),
        ({"task": "a", "answer": "edit"}, 'an edit needs a "value"'),
        (
            {"task": "a", "answer": "edit", "value": json.loads("[" * 102 + "]" * 102)},
            "nested more than 100 deep",
        ),
        ({"task": "b", "answer": "accept"}, "no candidate to accept"),
    ],
)
def test_a_wrong_reply_is_named_by_file_and_line(tmp_path: Path, reply: Any, said: str) -> None:
    """The error stands before any answer is stored, so a corrected file can be given again."""
    file = answers(tmp_path, {"task": "c", "pipeline": "spec", "answer": "skip"}, reply)
    with pytest.raises(ConfigError) as error:
        read_answers(file, QUESTIONS)
    assert error.value.where == f"{file}:2"
    assert said in error.value.message


def test_two_replies_to_one_question_are_refused(tmp_path: Path) -> None:
    """Which of them was meant cannot be known."""
    file = answers(tmp_path, {"task": "a", "answer": "accept"}, {"task": "a", "answer": "reject"})
    with pytest.raises(ConfigError, match="answered twice, first in line 1"):
        read_answers(file, QUESTIONS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=80))
def test_any_file_is_read_or_refused(tmp_path: Path, data: bytes) -> None:
    """Never anything but replies or a ConfigError."""
    file = tmp_path / "answers.jsonl"
    file.write_bytes(data)
    try:
        list(read_answers(file, QUESTIONS))
    except ConfigError as error:
        assert error.where.startswith(str(file))  # noqa: PT017 - either outcome is right


@pytest.fixture
def waiting(tmp_path: Path) -> RunRecords:
    """A run with two tasks that wait."""
    run(
        load(tmp_path, policy="[{do: escalate}]", check=", splice: false", count=2, chance=0.0),
        out=tmp_path / "run",
    )
    return load_run(tmp_path / "run")


def test_answers_are_stored_once(waiting: RunRecords) -> None:
    """A skip stores nothing; the first answer stands; what is answered is no longer pending."""
    first, second = pending(waiting)
    assert not give_answer(waiting, first, Reply(task=first.task, answer="skip"))
    assert pending(waiting) == (first, second)
    assert give_answer(waiting, first, Reply(task=first.task, answer="accept"))
    assert not give_answer(waiting, first, Reply(task=first.task, answer="reject"))
    assert pending(waiting) == (second,)
    assert waiting.store.questions("answered")[0].answer == "accept"


def test_an_edit_without_a_value_is_refused(waiting: RunRecords) -> None:
    """From Python as from a file."""
    question = pending(waiting)[0]
    with pytest.raises(ConfigError, match="an edit needs"):
        give_answer(waiting, question, Reply(task=question.task, answer="edit"))
