"""Faithfulness and relevance of answers, by a model behind a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from draftverify import Outcome, Task
from draftverify_llm import Endpoint
from draftverify_retrieval import AnswerRelevance, Faithfulness
from tests.llm.conftest import Server

TASK = Task(id="1", input={"question": "When was it finished?"})
READING = {"id": "a", "text": "The tower was finished in 1889.", "answer": "in 1889"}


@pytest.fixture
def server() -> Iterator[Server]:
    """A judge that says yes where it is shown 1889 twice: in the passages and in the answer."""
    made = Server()

    def answer(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        prompt = request["messages"][-1]["content"]
        word = "yes" if prompt.count("1889") >= (2 if "Passages" in prompt else 1) else "no"
        choice = {"index": 0, "message": {"content": f"[[{word}]]"}, "finish_reason": "stop"}
        return 200, {}, json.dumps({"choices": [choice]}).encode()

    made.answer = answer
    yield made
    made.close()


def prompt_of(server: Server) -> str:
    """What was asked last."""
    return str(server.requests[-1]["messages"][-1]["content"])


def test_an_answer_is_held_against_its_passages(server: Server) -> None:
    """Those that were accepted with it, and those that the task shows; without any there is no figure."""
    metric = Faithfulness(Endpoint(server.url, "judge"))
    assert metric(TASK, Outcome(status="accepted", value=READING)).value == 1.0
    assert "The tower was finished in 1889." in prompt_of(server)
    assert "said by the passages" in prompt_of(server)
    wrong = {**READING, "answer": "in 1902"}
    assert metric(TASK, Outcome(status="accepted", value=(wrong,))).value == 0.0
    shown = Task(id="2", input={**TASK.input, "passages": {"a": "It was 1889."}})
    assert metric(shown, Outcome(status="accepted", value="In 1889.")).value == 1.0
    asked = len(server.requests)
    assert metric(TASK, Outcome(status="accepted", value="In 1889.")).value is None
    assert metric(TASK, Outcome(status="abstained")).value is None
    assert len(server.requests) == asked


def test_an_answer_is_held_against_its_question(server: Server) -> None:
    """Without its passages."""
    metric = AnswerRelevance(Endpoint(server.url, "judge"))
    assert metric(TASK, Outcome(status="accepted", value=READING)).value == 1.0
    assert "tower" not in prompt_of(server)
    assert "When was it finished?" in prompt_of(server)
    assert metric(TASK, Outcome(status="refused")).value is None
