"""What a client may send, and how slowly: requests that would hold others up, and numbers at the edge of what is
valid."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import torch

from draftverify import Pipeline, escalate, verifier
from draftverify.rules import First
from draftverify_llm import LocalModel, Sample
from tests.llm.conftest import build_tiny
from tests.serve.serving import CHAT, Served, serving
from tests.serve.test_serve import GOOD, decoding, echo

ARRIVAL = 0.6


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Tokens and texts of a tiny model, an echo and what asks a person; slow requests are cut soon."""
    torch.set_num_threads(1)
    tiny = LocalModel.from_module(*build_tiny())
    pipelines = {
        "tokens": decoding(tiny),
        "texts": Pipeline(Sample(tiny, max_tokens=4), verifier(lambda context, item: True), First()),
        "echo": Pipeline(echo, verifier(lambda context, item: True), First()),
        "person": Pipeline(echo, verifier(lambda context, item: False), First(), policy=escalate()),
    }
    with serving(pipelines, arrival=ARRIVAL) as running:
        yield running


def exchange(served: Served, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What comes back on a connection until it is closed; the pieces are sent as long as nothing has."""
    host, port = served.base.removeprefix("http://").split(":")
    came = b""
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        for piece in pieces:
            connection.sendall(piece)
            connection.settimeout(max(pause, 0.001))
            try:
                if not (came := connection.recv(65536)):
                    return came
                break
            except TimeoutError:
                continue
        connection.settimeout(10)
        with suppress(ConnectionResetError):  # what was sent meanwhile is not read by who closes
            while more := connection.recv(65536):
                came += more
    return came


def head(served: Served, length: int, *more: str) -> bytes:
    """The head of a chat's request that ends the connection."""
    host = served.base.removeprefix("http://")
    lines = [f"POST {CHAT} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", "Connection: close"]
    return "\r\n".join([*lines, f"Content-Length: {length}", *more, "", ""]).encode()


def test_a_body_that_trickles_in_is_cut(served: Served) -> None:
    """With 408, and the connection with it, whether bytes come all the time or none do."""
    begun = time.monotonic()
    trickled = exchange(served, head(served, 100), *[b" "] * 50, pause=0.1)
    silent = exchange(served, head(served, 100))
    assert time.monotonic() - begun < 3
    for answer in (trickled, silent):
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"the body did not come within 0.6 s" in answer
        assert b"connection: close" in answer.lower()
    assert served.metric("draftverify_requests_total") >= 2


def test_a_connection_without_a_request_is_cut(served: Served) -> None:
    """One whose head trickles in, one on which nothing comes, and one that goes on sending after it was answered."""
    begun = time.monotonic()
    assert exchange(served, b"POST /v1", *[b"x"] * 50, pause=0.1) == b""
    assert exchange(served) == b""
    host = served.base.removeprefix("http://")
    refused = f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\n".encode()
    assert exchange(served, refused, *[b" "] * 50, pause=0.1).startswith(b"HTTP/1.1 415")
    assert time.monotonic() - begun < 4
    body = json.dumps(GOOD).encode()
    kept = head(served, len(body)).replace(b"Connection: close\r\n", b"")
    both = exchange(served, kept + body + head(served, len(body)) + body)
    assert both.count(b"HTTP/1.1 200") == 2


def test_connections_beyond_the_bound_are_cut() -> None:
    """As they come, and those that are open go on; once one has gone there is room again."""
    pipelines = {"echo": Pipeline(echo, verifier(lambda context, item: True), First())}
    with serving(pipelines, connections=2) as served:
        host, port = served.base.removeprefix("http://").split(":")

        def connect() -> socket.socket:
            connection = socket.create_connection((host, int(port)), timeout=10)
            connection.settimeout(0.3)
            return connection

        def is_open(connection: socket.socket) -> bool:
            try:
                return connection.recv(1) != b""
            except TimeoutError:
                return True
            except ConnectionResetError:
                return False

        first, second, third = connect(), connect(), connect()
        assert [is_open(connection) for connection in (first, second, third)] == [True, True, False]
        first.close()
        assert served.ask("echo", "there").json()["choices"][0]["message"]["content"]
        second.close()
        third.close()


def test_a_body_that_is_too_long_is_not_read(served: Served) -> None:
    """By what its head announces; nothing of it has to come."""
    assert exchange(served, head(served, 3 << 20)).startswith(b"HTTP/1.1 413")


def test_a_prompt_that_cannot_fit_is_not_tokenised(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """To tokenise it would hold everybody up."""
    tokenised: list[int] = []
    plain = type(build_tiny()[1]).__call__

    def noted(tokenizer: Any, text: str, **options: Any) -> Any:
        tokenised.append(len(text))
        return plain(tokenizer, text, **options)

    monkeypatch.setattr(type(build_tiny()[1]), "__call__", noted)
    for model in ("tokens", "texts"):
        answer = served.ask(model, "ab " * 300_000)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "task")
        assert "the prompt has 900000 characters, and the model takes" in answer.json()["error"]["message"]
    assert not tokenised
    assert served.ask("tokens", "ab", max_tokens=1).status_code == 200
    assert tokenised


EDGES: list[dict[str, Any]] = [
    *({"top_p": value} for value in (5e-324, 1e-300, 1e-30, 1)),
    *({"temperature": value} for value in (0, -0.0, 1e-300, 1e-7, 1e-6, 1e5, 1e29, 1e39, 1.7e308)),
    *({"seed": value} for value in (0, -1, -(2**63), 2**63 - 1, 2**63, 2**64, 10**30)),
    *(
        {"logit_bias": value}
        for value in ({"1": 1e30}, {"1": -1e30}, {"1": 1e300}, {"9" * 5000: 1}, {"-1": 1})
    ),
    *({"max_tokens": value} for value in (1, 2**31, 2**63, 10**30)),
    {"temperature": 1e-6, "top_p": 1e-300},
    {"temperature": 1e29, "top_p": 1e-300, "logit_bias": {"3": 1e30}},
    {"frequency_penalty": 2, "presence_penalty": -2},
]


def test_numbers_at_the_edge_work_or_are_refused(served: Served) -> None:
    """Never the server's fault; a top_p next to nothing leaves the likeliest token."""
    for model in ("tokens", "texts", "echo"):
        for settings in EDGES:
            answer = served.ask(model, "go", **settings)
            assert answer.status_code in (200, 400), (model, settings, answer.text)
            if answer.status_code == 400:
                assert len(answer.json()["error"]["message"]) < 500
    likeliest = served.ask("tokens", "go", temperature=0).json()["choices"]
    assert served.ask("tokens", "go", top_p=1e-300).json()["choices"] == likeliest
    likeliest = served.ask("texts", "go", temperature=0).json()["choices"]
    for settings in ({"top_p": 1e-300}, {"temperature": 1e-300}):
        assert served.ask("texts", "go", **settings).json()["choices"] == likeliest


def doubling(depth: int) -> dict[str, Any]:
    """A schema by which the work doubles at each of so many levels."""
    levels: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(depth)
    }
    return {"$defs": {**levels, f"d{depth}": {}}, "$ref": "#/$defs/d0"}


def test_a_schema_of_a_client_holds_up_nobody(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one is refused, one that is nested too deep too, and work that doubles is given up; meanwhile others are
    answered."""

    monkeypatch.setattr("draftverify.checks.verifiers.json_schema.ALL_SECONDS", 1.5)

    def asked(schema: Any) -> Any:
        form = {"type": "json_schema", "json_schema": {"schema": schema}}
        return served.ask("echo", '"x"', response_format=form)

    large = {"properties": {f"p{place}": {"type": "string"} for place in range(1500)}}
    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(asked, schema) for schema in (large, doubling(40))]
        time.sleep(0.3)
        begun = time.monotonic()
        assert served.http.get("/health").status_code == 200
        assert time.monotonic() - begun < 0.5
        assert asking[0].result().status_code == 200
        assert "within 1.5 s" in asking[1].result().json()["choices"][0]["message"]["refusal"]
    much = asked({"properties": {f"p{place}": {"type": "string"} for place in range(3000)}})
    assert "at most 64 KiB" in much.json()["error"]["message"]
    deep: Any = {}
    for _ in range(300):
        deep = {"items": deep}
    assert "nested too deep" in asked(deep).json()["error"]["message"]


def test_fields_that_no_record_could_hold_are_refused(served: Served) -> None:
    """With their place: an integer beyond 64 bits, the field that is the server's own, lists nested without end."""
    wrong = {'{"a": [1, 9223372036854775808]}': "task.a[1]", '{"draftverify": 1}': "task.draftverify"}
    kind = {"content-type": "application/json"}
    for task, place in wrong.items():
        body = json.dumps(GOOD).removesuffix("}") + f', "task": {task}}}'
        answer = served.http.post(CHAT, content=body, headers=kind)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, place)
    deep = json.dumps(GOOD).removesuffix("}") + f', "seed": 1, "task": {{"a": {"[" * 900}{"]" * 900}}}}}'
    assert served.http.post(CHAT, content=deep, headers=kind).status_code == 400


def test_of_many_answers_to_a_question_one_is_taken(served: Served) -> None:
    """At the same time, good and bad; the client that polls gets what came of that one."""
    replies: list[Any] = [
        {"answer": "accept"},
        {"answer": "reject"},
        {"answer": "edit", "value": "longer"},
        {"answer": "edit", "value": 10**30},
        {"answer": "edit"},
        {"answer": "skip"},
    ]
    for _ in range(5):
        url = served.ask("person", "a").json()["url"]
        with ThreadPoolExecutor(len(replies)) as pool:
            answers = list(pool.map(lambda reply, url=url: served.http.post(url, json=reply), replies))
        taken = [answer for answer in answers if answer.status_code == 200]
        assert all(answer.status_code in (200, 202, 400, 409) for answer in answers)
        assert all(answer.json()["choices"] == taken[0].json()["choices"] for answer in taken)
        if taken:
            assert served.http.get(url).json()["choices"] == taken[0].json()["choices"]
