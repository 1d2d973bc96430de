"""The experiment of docs/models.md, as it stands, against a server of this machine: best of eight with a judge, and
programs that tests send back."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from draftverify.exchanges import exchanges_of
from tests.llm.conftest import Server

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
RIGHT, WRONG = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"


def test_the_page_s_programs_are_chosen_and_repaired(tmp_path: Path, server: Server) -> None:
    """The one right program of eight has the best score of the judge's; the tests refuse both first drafts, say why,
    and pass what comes then. All takes fewer than fifteen lines."""

    def answer(request: dict[str, Any]) -> Any:
        turns = request["messages"]
        if turns[0]["content"] != "You write Python.":
            p = 0.9 if "a + b" in turns[-1]["content"] else 0.2
            top = [{"token": "yes", "logprob": math.log(p)}, {"token": "no", "logprob": math.log(1 - p)}]
            content = [{"token": "yes", "logprob": math.log(p), "top_logprobs": top}]
            choice = {"message": {"content": "yes" if p > 0.5 else "no"}, "logprobs": {"content": content}}
            return 200, {}, json.dumps({"choices": [choice]}).encode()
        told = any(
            "assert" in turn["content"] for turn in turns if turn["role"] == "user" and turn is not turns[1]
        )
        programs = [
            RIGHT if told or (request.get("n") == 8 and place == 5) else WRONG
            for place in range(request["n"])
        ]
        choices = [
            {"index": place, "message": {"content": f"Here it is:\n```python\n{program}```\n"}}
            for place, program in enumerate(programs)
        ]
        return 200, {}, json.dumps({"choices": choices}).encode()

    server.answer = answer
    (config,) = re.findall(r"^```yaml\n(name: programs\n.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert len(config.splitlines()) < 15
    (tmp_path / "programs.yaml").write_text(config.replace("https://models.example/v1", server.url))
    task = {"prompt": "Write add(a, b).", "test": "assert add(2, 3) == 5, 'add(2, 3) is not 5'"}
    (tmp_path / "programs.jsonl").write_text(json.dumps(task))
    run(load_experiment(tmp_path / "programs.yaml"), out=tmp_path / "run")
    with load_run(tmp_path / "run") as records:
        entries = {entry.pipeline: entry.record for entry in records.store.entries()}
    best, repaired = entries["best_of_eight"], entries["repaired"]
    assert (best.outcome.status, best.outcome.value) == ("accepted", RIGHT)
    assert best.outcome.score == pytest.approx(math.log(0.9 / 0.1))
    assert (repaired.outcome.status, repaired.outcome.value, repaired.outcome.rounds) == (
        "accepted",
        RIGHT,
        2,
    )
    ((_, again),) = list(exchanges_of(repaired.rounds[1]))
    assert "add(2, 3) is not 5" in again.asked[-1].content
