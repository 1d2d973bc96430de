"""What the page asks and sends, over HTTP: claims, leases, answers, and what is refused with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from draftverify.bench.records import load_run
from draftverify.bench.runner.run import run
from draftverify.view import reviewing
from tests.experiments.runs import load
from tests.viewer.serving import serving

ANN, BOB = "ann-ann-ann", "bob-bob-bob"


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A run with three tasks that wait."""
    waits = load(tmp_path, policy="[{do: escalate}]", check=", splice: false", count=3, chance=0.0)
    run(waits, out=tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def client(waiting: Path) -> Iterator[httpx.Client]:
    """A browser's worth of HTTP."""
    with serving(waiting) as served, served.entered() as found:
        yield found


def post(client: httpx.Client, path: str, holder: str = ANN, **sent: Any) -> Any:
    answer = client.post(f"/api/{path}", json={"run": "run", "holder": holder, **sent})
    return answer.json() | {"status": answer.status_code}


def test_a_page_keeps_its_question_until_it_lets_go(client: httpx.Client) -> None:
    """Two pages get two questions; one that is released or skipped goes to the next who asks."""
    ann, bob = (post(client, "claim", who)["question"] for who in (ANN, BOB))
    assert [ann["task"], bob["task"]] == ["t0", "t1"]
    assert post(client, "claim", ANN)["question"]["id"] == ann["id"]
    assert post(client, "claim", ANN, id=ann["id"])["held"]
    refused = post(client, "claim", BOB, id=ann["id"])
    assert (refused["held"], "another reviewer has this one" in refused["why"]) == (False, True)
    third = post(client, "claim", ANN, skipped=[ann["id"]])
    assert (third["question"]["task"], third["progress"]["held"]) == ("t2", 3)
    assert post(client, "claim", "third-page")["question"] is None
    post(client, "claim", ANN, id=ann["id"], release=True)
    post(client, "answer", BOB, id=bob["id"], answer="skip")
    assert client.get("/api/questions", params={"run": "run"}).json()["progress"]["held"] == 1
    assert post(client, "claim", "third-page")["question"]["task"] == "t0"
    assert post(client, "claim", "other-page")["question"]["task"] == "t1"


def test_a_lease_that_ends_gives_the_question_to_another(
    client: httpx.Client, waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds it now decides; the late answer is refused with the reason, and changes nothing."""
    monkeypatch.setattr(reviewing, "LEASE", -1.0)
    mine = post(client, "claim", ANN)["question"]["id"]
    monkeypatch.setattr(reviewing, "LEASE", 60.0)
    assert post(client, "claim", BOB)["question"]["id"] == mine
    late = post(client, "answer", ANN, id=mine, answer="accept")
    assert (late["status"], late["stale"]) == (409, True)
    assert "until your time on it was over" in late["error"]
    assert post(client, "answer", BOB, id=mine, answer="reject", note="no")["status"] == 200
    again = post(client, "answer", BOB, id=mine, answer="reject")
    assert (again["status"], again["error"]) == (
        409,
        "you have answered this one (reject); that answer stands",
    )
    with load_run(waiting) as records:
        assert [(each.answer, each.note) for each in records.questions if each.answer] == [("reject", "no")]


def test_a_question_that_the_run_has_left_behind_is_named_so(client: httpx.Client, waiting: Path) -> None:
    """After a resume, and for an id that nobody ever had."""
    mine = post(client, "claim")["question"]["id"]
    with load_run(waiting) as records:
        (record,) = [each for each in records.records("plain") if each.task == "t0"]
        records.store.commit("spec", record)
    late = post(client, "answer", id=mine, answer="accept")
    assert (late["status"], late["stale"]) == (409, True)
    assert "the run has gone on" in late["error"]
    unknown = post(client, "answer", id="f" * 24, answer="accept")
    assert (unknown["status"], unknown["stale"]) == (409, True)


WRONG = [
    ({"answer": "maybe"}, "accept, edit, reject or skip"),
    ({"answer": "reject", "note": 3}, "its note a text"),
    ({"answer": "edit"}, 'an edit has a "text", or a "json"'),
    ({"answer": "edit", "text": "x", "json": "1"}, 'an edit has a "text", or a "json"'),
    ({"answer": "edit", "json": "{"}, "the edited value is no JSON"),
    ({"answer": "edit", "json": "[NaN]"}, "NaN is no JSON number"),
    ({"answer": "edit", "json": "[" * 100_000}, "no JSON"),
    ({"answer": "edit", "json": "1" + "0" * 30}, "beyond the 64 bits of a record"),
    ({"answer": "accept", "holder": "x"}, "holder"),
    ({"answer": "accept", "holder": None}, "holder"),
]
NO_OBJECTS = (b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 10_000)


def test_a_wrong_answer_is_refused_with_its_reason(client: httpx.Client, waiting: Path) -> None:
    """It says what is wrong, and the question stays with who has it."""
    mine = post(client, "claim")["question"]["id"]
    for sent, words in WRONG:
        refused = post(client, "answer", **{"holder": ANN, "id": mine, **sent})
        assert (refused["status"], words in refused["error"]) == (400, True), refused
    headers = {"content-type": "application/json"}
    for body in NO_OBJECTS:
        assert client.post("/api/answer", content=body, headers=headers).status_code == 400
    assert post(client, "claim", id=mine)["held"]
    with load_run(waiting) as records:
        assert {question.state for question in records.questions} == {"pending"}


def test_many_reviewers_in_a_hurry_decide_each_item_once(tmp_path: Path) -> None:
    """Eight pages on two servers, each asking, deciding and skipping as fast as it can."""
    waits = load(tmp_path, policy="[{do: escalate}]", check=", splice: false", count=40, chance=0.0)
    path = tmp_path / "run"
    run(waits, out=path)
    decided: list[str] = []

    def review(client: httpx.Client, holder: str) -> None:
        skipped: list[str] = []
        while (asked := post(client, "claim", holder, skipped=skipped)["question"]) is not None:
            if not skipped:
                skipped.append(asked["id"])
                post(client, "answer", holder, id=asked["id"], answer="skip")
            elif post(client, "answer", holder, id=asked["id"], answer="accept")["status"] == 200:
                decided.append(asked["task"])
            else:
                decided.append("refused")

    holders = [f"reviewer-{i}" for i in range(8)]
    with (
        serving(path) as one,
        serving(path) as other,
        one.entered() as first,
        other.entered() as second,
        ThreadPoolExecutor(8) as pool,
    ):
        list(pool.map(review, [first, second] * 4, holders))
    with load_run(path) as records:
        counts = records.store.question_counts()
    assert "refused" not in decided
    assert max(Counter(decided).values()) == 1
    assert len(decided) == counts["answered"]
    assert counts["pending"] <= 8
