"""Pipelines as models of an OpenAI-compatible server, asked by OpenAI's own client and by clients that misbehave."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import torch
from starlette.testclient import TestClient

from draftverify import (
    Budget,
    Check,
    Context,
    Pipeline,
    Proposal,
    Verification,
    escalate,
    generator,
    verifier,
)
from draftverify.rules import First, Limit, LongestPrefix, Speculative
from draftverify.serve.body import MOST_CHOICES
from draftverify.serve.limits import ServerLimits
from draftverify.serve.lockstep import Lockstep
from draftverify.serve.model import ServedModel
from draftverify.serve.server import made_server
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify_llm import Endpoint, LocalModel, Sample
from draftverify_tokens import PromptLookup, Stop, Target
from tests.llm.conftest import Server, build_tiny
from tests.serve.serving import CHAT, Served, serving

LIMIT = 24


def decoding(model: LocalModel, **settings: Any) -> Pipeline:
    """Exact speculative decoding of a tiny model."""
    return Pipeline(
        PromptLookup(), Target(model), Speculative(), block=4, done=Stop(max_tokens=LIMIT), settings=settings
    )


class Slow:
    """Passes what it is given after so many seconds, and notes who was there."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calls = 0

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """A pass of each item."""
        self.calls += 1
        time.sleep(self.seconds)
        return Verification(checks=(Check("pass", 0.5),) * len(proposal))


class Deaf:
    """Says the prompt, passes it, and reads no setting."""

    traits = (GeneratorTraits(reads=frozenset()), VerifierTraits(reads=frozenset()))

    def propose(self, context: Context, n: int) -> Proposal:
        """The prompt."""
        return Proposal.alternatives([context.task.input["prompt"]])

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """A pass of each item."""
        return Verification(checks=(Check("pass"),) * len(proposal))


class Written(Slow):
    """Its values are the words of a text."""

    def text(self, values: Any) -> str:
        """All of them."""
        return "".join(values)


echo = generator(lambda context, n: [context.task.input["prompt"]])


@pytest.fixture(scope="module")
def tiny() -> LocalModel:
    return LocalModel.from_module(*build_tiny())


@pytest.fixture(scope="module")
def served(tiny: LocalModel) -> Iterator[Served]:
    """Decoding, greedy and sampled; an echo; what refuses all; what asks a person; what fails."""
    torch.set_num_threads(1)
    long = verifier(lambda context, item: len(item) > 3)
    pipelines = {
        "greedy": decoding(tiny, temperature=0),
        "sampled": decoding(tiny),
        "echo": Pipeline(echo, verifier(lambda context, item: True), First()),
        "strict": Pipeline(echo, verifier(lambda context, item: False), First()),
        "person": Pipeline(echo, long, First(), policy=escalate()),
        "broken": Pipeline(echo, verifier(lambda context, item: 1 / 0), First()),
        "words": Pipeline(
            generator(lambda context, n: [f"word {context.round} "], shape="chain"),
            Written(0.1),
            LongestPrefix(),
            done=Limit(4),
        ),
        "deaf": Pipeline(Deaf(), Deaf(), First()),
        "named": ServedModel(
            "named",
            Pipeline(generator(lambda c, n: [c.task.input["text"]]), verifier(lambda c, i: True), First()),
            "text",
            currency="USD",
        ),
    }
    with serving(pipelines) as running:
        yield running


def texts(chunks: Any) -> list[str]:
    """The pieces of a stream."""
    return [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]


def test_its_models_are_the_pipelines(served: Served) -> None:
    """Listed, one by one, and missed by name."""
    assert [model.id for model in served.openai.models.list()][:2] == ["greedy", "sampled"]
    assert served.openai.models.retrieve("echo").owned_by == "draftverify"
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-4o'; there are greedy, sampled"):
        served.openai.models.retrieve("gpt-4o")


def test_greedy_answers_are_generates_whoever_else_is_served(served: Served, tiny: LocalModel) -> None:
    """Thirty requests that arrive at random, of which no two have the same length."""
    prompts = [f"{place} " + "ab" * (place % 7) + "the cat sat " * (place % 5) for place in range(30)]
    order = random.Random(4)

    def asked(prompt: str) -> str:
        time.sleep(order.uniform(0, 0.25))
        answer = served.openai.chat.completions.create(
            model="greedy", messages=[{"role": "user", "content": prompt}]
        )
        return answer.choices[0].message.content or ""

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(asked, prompts))
    for prompt, answer in zip(prompts, found, strict=True):
        ids = torch.tensor([tiny.encode_prompt({"prompt": prompt})])
        with torch.inference_mode():
            out = tiny.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=LIMIT, do_sample=False
            )
        assert answer == tiny.decode(out[0, ids.shape[1] :].tolist())


def test_a_stream_is_the_answer_in_pieces(served: Served) -> None:
    """Of tokens as they are accepted, without half characters; the last event has what the pipeline did, and the usage
    where it was asked for."""
    asked = {"model": "greedy", "messages": [{"role": "user", "content": "the cat sat on the mat, the cat"}]}
    whole = served.openai.chat.completions.create(**asked)
    chunks = list(
        served.openai.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    pieces = texts(chunks)
    assert "".join(pieces) == whole.choices[0].message.content
    words = {"model": "words", "messages": [{"role": "user", "content": "x"}], "stream": True}
    slowly = texts(served.openai.chat.completions.create(**words))
    assert [piece for piece in slowly if piece] == ["word 0 ", "word 1 ", "word 2 ", "word 3 "]
    assert chunks[-1].usage == whole.usage
    assert chunks[-1].model_extra["draftverify"]["choices"][0]["status"] == "accepted"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    assert texts(served.openai.chat.completions.create(**{**asked, "model": "echo"}, stream=True))[-2:] == [
        "the cat sat on the mat, the cat",
        "",
    ]


def test_costs_are_told_in_their_currency(served: Served) -> None:
    """In a whole answer, in the last object of a stream, and to Prometheus."""
    (choice,) = served.ask("named").json()["draftverify"]["choices"]
    streamed = served.ask("named", stream=True).text.split("\n\n")
    last = json.loads(streamed[-3].removeprefix("data: "))
    assert choice["currency"] == last["draftverify"]["choices"][0]["currency"] == "USD"
    assert 'draftverify_cost_total{currency="USD",model="named"}' in served.http.get("/metrics").text


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_ends_an_answer_and_is_no_part_of_it(served: Served, stream: bool) -> None:
    """Also in a stream, in which no beginning of it may go out before."""
    asked = {"model": "greedy", "messages": [{"role": "user", "content": "stop here"}]}
    whole = served.openai.chat.completions.create(**asked).choices[0].message.content
    stop = whole[5:8]
    expected = whole[: whole.index(stop)]
    answer = served.openai.chat.completions.create(**asked, stop=[stop, "never there"], stream=stream)
    if stream:
        assert "".join(texts(answer)) == expected
    else:
        assert answer.choices[0].message.content == expected
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.completion_tokens < LIMIT


def test_a_request_has_settings_of_its_own(served: Served) -> None:
    """A limit, a temperature, a seed that repeats an answer, several answers; without a seed another one each time."""
    asked = {"model": "sampled", "messages": [{"role": "user", "content": "go"}], "n": 3}

    def said(**more: Any) -> list[str]:
        return [
            choice.message.content
            for choice in served.openai.chat.completions.create(**asked, **more).choices
        ]

    first, again, other = said(seed=1), said(seed=1), said(seed=2)
    assert first == again != other
    assert len({*first, *said(), *said()}) == 9
    cold = served.openai.chat.completions.create(**{**asked, "n": 1}, temperature=0, max_tokens=5)
    (same,) = served.openai.completions.create(
        model="greedy", prompt=["[user]go[assistant]"], max_tokens=5
    ).choices
    assert cold.choices[0].message.content == same.text
    assert (cold.usage.completion_tokens, cold.choices[0].finish_reason) == (5, "length")


def test_an_answer_has_the_form_that_was_asked_for(served: Served) -> None:
    """Where a part reads a schema its draft is held to it; where none does the answer is looked at, and refused."""
    schema = {"enum": ["yes", "no"]}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    asked = {"messages": [{"role": "user", "content": "so?"}], "response_format": form}
    for _ in range(5):
        answer = served.openai.chat.completions.create(model="sampled", **asked)
        assert json.loads(answer.choices[0].message.content) in ("yes", "no")
    message = served.openai.chat.completions.create(model="echo", **asked).choices[0].message
    assert message.content is None
    assert "not as response_format says" in message.refusal
    fits = served.ask("echo", '"no"', response_format=form).json()
    assert fits["choices"][0]["message"]["content"] == '"no"'
    bad = served.ask("echo", response_format={"type": "json_schema", "json_schema": {"schema": {"type": 3}}})
    assert (bad.status_code, bad.json()["error"]["param"]) == (400, "response_format.json_schema.schema.type")


def test_what_no_verifier_passed_is_no_answer(served: Served) -> None:
    """A refusal with the reason, in the field that OpenAI has for it; the figures stand in headers and body."""
    answer = served.ask("strict", "hello")
    message = answer.json()["choices"][0]["message"]
    assert (message["content"], bool(message["refusal"])) == (None, True)
    assert answer.headers["x-draftverify-status"] == "refused"
    assert answer.headers["x-draftverify-accepted"] == "0/1"
    kept = served.ask("echo", "hello")
    assert kept.headers["x-draftverify-accepted"] == "1/1"
    about = kept.json()["draftverify"]["choices"][0]
    assert (about["accepted"], about["rounds"], about["mean_accepted_length"]) == (1, 1, 1.0)


def test_what_nobody_heeds_is_named(served: Served) -> None:
    """So that nobody takes it for followed."""
    answer = served.ask("deaf", temperature=0.3, max_tokens=4, stop="x").json()
    assert answer["draftverify"]["ignored"] == ["temperature", "max_tokens", "stop"]
    assert served.ask("greedy", max_tokens=4).json()["draftverify"]["ignored"] == []


def test_fields_of_a_task_come_from_the_prompt_and_the_body(served: Served) -> None:
    """The one field of the experiment's tasks is the user's text; others go in `task`."""
    assert served.ask("named", "what I say").json()["choices"][0]["message"]["content"] == "what I say"
    given = served.ask("named", "what I say", task={"text": "another"}).json()
    assert given["choices"][0]["message"]["content"] == "another"
    missing = served.ask("greedy", task={"prompt_ids": [10**9]})
    assert (missing.status_code, missing.json()["error"]["code"]) == (400, "task")


def test_a_failure_is_an_error_and_no_refusal(served: Served) -> None:
    """A part of the pipeline that fails: 502, in a stream an error event."""
    with pytest.raises(openai.InternalServerError, match="division by zero"):
        served.openai.chat.completions.create(model="broken", messages=[{"role": "user", "content": "x"}])
    stream = served.openai.chat.completions.create(
        model="broken", messages=[{"role": "user", "content": "x"}], stream=True
    )
    with pytest.raises(openai.APIError, match="division by zero"):
        list(stream)


def test_who_waits_for_a_person_gets_an_address(served: Served) -> None:
    """202 with the question; accepted, edited, which is verified, or rejected there, it has an answer."""
    ends = {}
    for text, reply in {
        "a": {"answer": "accept"},
        "b": {"answer": "edit", "value": "longer"},
        "c": {"answer": "edit", "value": "d"},
        "d": {"answer": "reject", "note": "too short"},
    }.items():
        asked = served.ask("person", text)
        assert asked.status_code == 202
        question = asked.json()
        assert question["candidate"]["value"] == text
        assert asked.headers["location"] == question["url"]
        assert question["id"] in [other["id"] for other in served.http.get("/v1/questions").json()["data"]]
        assert served.http.post(question["url"], json={"answer": "perhaps"}).status_code == 400
        ends[text] = served.http.post(question["url"], json=reply)
        if ends[text].status_code == 200:
            assert served.http.get(question["url"]).json()["choices"] == ends[text].json()["choices"]
            assert served.http.post(question["url"], json=reply).status_code == 409
    messages = {
        text: end.json()["choices"][0]["message"] for text, end in ends.items() if end.status_code == 200
    }
    assert (messages["a"]["content"], messages["b"]["content"]) == ("a", "longer")
    assert "too short" in messages["d"]["refusal"]
    assert (
        ends["c"].status_code == 202
    )  # the verifier refused what the person wrote, and they are asked again
    assert served.http.get("/v1/questions/none").status_code == 404
    streamed = served.openai.chat.completions.create(
        model="person", messages=[{"role": "user", "content": "x"}], stream=True
    )
    assert "/v1/questions/" in [chunk.choices[0].delta.refusal for chunk in streamed if chunk.choices][-1]


GOOD = {"model": "echo", "messages": [{"role": "user", "content": "hi"}]}
BAD: list[Any] = [
    {**GOOD, name: value}
    for name, values in {
        "model": [None, 3, "", "gpt-4o", ["echo"], {"name": "echo"}],
        "messages": [
            None, [], "hi", {}, 3, [3], [None], ["hi"], [{}], [{"role": "user"}], [{"content": "hi"}],
            [{"role": "tool", "content": "hi"}], [{"role": "robot", "content": "hi"}],
            [{"role": "user", "content": 3}], [{"role": "user", "content": None}], [{"role": "user", "content": []}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
            [{"role": "user", "content": [{"type": "text"}]}], [{"role": "system", "content": "alone"}],
        ],
        "n": [0, -1, 1.5, "2", MOST_CHOICES + 1, [1], True],
        "temperature": [-0.1, "hot", [1], {}, "NaN"],
        "top_p": [0, -1, 1.1, "1"],
        "frequency_penalty": [-3, 3, "0"],
        "presence_penalty": [-3, 3, "0"],
        "logit_bias": [3, [1], {"1": "x"}],
        "max_tokens": [0, -1, 1.5, "3", [3]],
        "max_completion_tokens": [0, -5, "3"],
        "stop": ["", [""], 3, ["a", 3], ["a"] * 17, {}],
        "seed": ["1", 1.5, [1]],
        "stream": ["yes", 3, []],
        "stream_options": [3, "x", {"include_usage": "yes"}],
        "response_format": [
            3, {}, {"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {}},
            {"type": "json_schema", "json_schema": {"schema": 3}},
            {"type": "json_schema", "json_schema": {"schema": {"type": "nothing"}}},
        ],
        "tools": [[{"type": "function"}], 3],
        "functions": [[{"name": "f"}]],
        "logprobs": [True, "yes"],
        "audio": [{"voice": "x"}],
        "task": [3, "x", [1]],
    }.items()
    for value in values
]  # fmt: skip
SHARED = (
    "n",
    "temperature",
    "top_p",
    "frequency_penalty",
    "logit_bias",
    "max_tokens",
    "stop",
    "seed",
    "stream",
    "task",
)
PROMPTS: list[Any] = [
    None, "", [], [""], 3, {}, [3, "x"], ["x", 3], [None], [[1]], [1.5], ["a"] * (MOST_CHOICES + 1),
]  # fmt: skip


def test_bad_requests_get_clear_errors(served: Served) -> None:
    """Two hundred and more: each is refused by a status below 500 in OpenAI's form, with words."""
    bodies = [json.dumps(body).encode() for body in BAD]
    bodies += [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b"{" * 5000,
        b"[" * 200_000,
        b'{"model": NaN}',
    ]
    bodies += [bodies[0][:cut] for cut in range(1, len(bodies[0]) - 1)]
    bodies += [
        json.dumps({key: value for key, value in GOOD.items() if key != name}).encode() for name in GOOD
    ]
    tried = [(CHAT, body) for body in bodies]
    shared = [
        (name, body[name]) for body in BAD for name in body if body[name] != GOOD.get(name) and name in SHARED
    ]
    tried += [
        ("/v1/completions", json.dumps({"model": "echo", "prompt": "x", name: value}).encode())
        for name, value in shared
    ]
    more = {"best_of": 3, "echo": True, "suffix": "x", "logprobs": 5}
    tried += [
        ("/v1/completions", json.dumps({"model": "echo", "prompt": prompt}).encode()) for prompt in PROMPTS
    ]
    tried += [
        ("/v1/completions", json.dumps({"model": "echo", "prompt": "x", name: value}).encode())
        for name, value in more.items()
    ]
    tried += [
        (f"/v1/{name}", b"{}") for name in ("embeddings", "responses", "audio/speech", "moderations", "")
    ]
    seen: list[tuple[bytes, int, str]] = []
    for path, body in tried:
        answer = served.http.post(path, content=body, headers={"content-type": "application/json"})
        error = answer.json()["error"]
        seen.append((body[:80], answer.status_code, error["message"]))
        assert 400 <= answer.status_code < 500, seen[-1]
        assert len(error["message"]) > 8, seen[-1]
        assert error["type"] == "invalid_request_error"
    assert len(tried) >= 200
    assert served.ask("echo").status_code == 200


def test_a_long_body_and_another_kind_are_refused(served: Served) -> None:
    """By its announced and by its true length, and by its content type; a page of a browser by its Origin and Host."""
    long = json.dumps({**GOOD, "pad": "x" * (9 << 20)}).encode()
    kind = {"content-type": "application/json"}
    assert served.http.post(CHAT, content=long, headers=kind).status_code == 413
    assert served.http.post(CHAT, content=iter([long]), headers=kind).status_code == 413
    assert served.http.post(CHAT, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    assert served.http.post(CHAT, json=GOOD, headers={"origin": "https://evil.example"}).status_code == 403
    assert served.http.post(CHAT, json=GOOD, headers={"host": "evil.example"}).status_code == 403
    assert served.http.get("/health").json() == {"status": "ok"}


def test_a_token_lets_clients_in(tiny: LocalModel) -> None:
    """As the API key; without it nothing is answered but that the server is up."""
    pipeline = Pipeline(echo, verifier(lambda context, item: True), First())
    with serving({"echo": pipeline}, token="sesame-open") as served:
        assert served.ask("echo").status_code == 401
        assert served.http.get("/metrics").status_code == 401
        client = openai.OpenAI(base_url=f"{served.base}/v1", api_key="sesame-open")
        answer = client.chat.completions.create(model="echo", messages=[{"role": "user", "content": "in"}])
        assert answer.choices[0].message.content == "in"
        key = {"authorization": "Bearer sesame-open", "origin": "https://mine.example"}
        assert served.http.post(CHAT, json=GOOD, headers=key).status_code == 200


def test_a_client_leaves_the_default_port_out() -> None:
    """Of the Host that it sends."""
    for port, status in ((80, 200), (81, 403)):
        models = {"echo": ServedModel("echo", Pipeline(echo, verifier(lambda c, i: True), First()))}
        bound: Any = SimpleNamespace(getsockname=lambda port=port: ("127.0.0.1", port))
        with Lockstep(lambda models=models: models) as lockstep:
            server = made_server(lockstep, bound, token=None, limits=ServerLimits())
            client = TestClient(server.config.app, base_url="http://localhost")  # type: ignore[arg-type]
            assert client.get("/v1/models").status_code == status


def test_who_goes_away_frees_the_session(tiny: LocalModel) -> None:
    """In the lockstep and beside it, streamed or not: nothing is under way soon after, and others are served."""
    long = Pipeline(
        PromptLookup(),
        Target(tiny),
        Speculative(),
        block=1,
        done=Stop(max_tokens=400),
        settings={"temperature": 0},
    )
    slow = Slow(0.3)
    again = generator(lambda context, n: ["again"], shape="chain")
    waiting = Pipeline(again, slow, LongestPrefix(), done=lambda context, new: None)
    with serving({"long": long, "slow": waiting}, concurrency=4) as served:
        for model in ("long", "slow"):
            for stream in (False, True):
                body = {**GOOD, "model": model, "stream": stream}
                with (
                    httpx.Client(timeout=httpx.Timeout(5, read=0.3)) as client,
                    suppress(httpx.TimeoutException),
                    client.stream("POST", served.base + CHAT, json=body) as answer,
                ):
                    next(answer.iter_raw())
        end = time.monotonic() + 10
        while served.metric("draftverify_tasks_under_way") and time.monotonic() < end:
            time.sleep(0.05)
        assert served.metric("draftverify_tasks_under_way") == 0
        calls = slow.calls
        time.sleep(0.5)
        assert slow.calls == calls
        assert served.ask("long", max_tokens=3).status_code == 200


def test_there_is_room_for_so_many_and_time_for_so_long() -> None:
    """A full queue is 429 with Retry-After, which OpenAI's client heeds; who waits too long gets 504."""
    slow = Slow(0.3)
    pipeline = Pipeline(echo, slow, First())
    with serving({"slow": pipeline}, concurrency=1, queue=1, timeout=5) as served:
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: served.ask("slow"), range(4)))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [200, 200, 429, 429]
        full = next(answer for answer in answers if answer.status_code == 429)
        assert full.headers["retry-after"] == "1"
        client = openai.OpenAI(base_url=f"{served.base}/v1", api_key="x", max_retries=4)
        with ThreadPoolExecutor(3) as pool:
            said = list(
                pool.map(lambda _: client.chat.completions.create(**GOOD | {"model": "slow"}), range(3))
            )
        assert [answer.choices[0].message.content for answer in said] == ["hi"] * 3
        assert served.ask("slow", n=3).status_code == 429
    with serving({"slow": Pipeline(echo, Slow(1.0), First())}, timeout=0.3) as served:
        assert served.ask("slow").status_code == 504
        assert b'"code":"timeout"' in served.ask("slow", stream=True).content


def test_metrics_say_what_was_served(served: Served) -> None:
    """Requests by status, tasks by how they ended, tokens."""
    before = served.metric("draftverify_requests_total"), served.metric("draftverify_tokens_total")
    served.ask("greedy", max_tokens=4)
    served.ask("nobody")
    served.ask("strict")
    assert served.metric("draftverify_requests_total") == before[0] + 3
    assert served.metric("draftverify_tokens_total") > before[1]
    assert 'draftverify_tasks_total{model="strict",status="refused"}' in served.http.get("/metrics").text
    ended = served.metric("draftverify_tasks_total")
    served.ask("broken")
    served.ask("broken", stream=True)
    assert served.metric("draftverify_tasks_total") == ended + 2
    assert 'draftverify_tasks_total{model="broken",status="failed"}' in served.http.get("/metrics").text


def test_a_model_behind_an_endpoint_is_asked_side_by_side() -> None:
    """What waits for another server holds up nobody; its tokens are the usage."""
    behind = Server()
    first = behind.answer

    def slowly(request: dict[str, Any]) -> Any:
        time.sleep(0.3)
        return first(request)

    behind.answer = slowly
    pipeline = Pipeline(
        Sample(Endpoint(behind.url, "m", concurrency=16)), verifier(lambda c, i: True), First()
    )
    with serving({"remote": pipeline}) as served, ThreadPoolExecutor(16) as pool:
        begun = time.monotonic()
        answers = list(pool.map(lambda _: served.ask("remote").json(), range(16)))
        assert time.monotonic() - begun < 3
    assert behind.most >= 8
    assert answers[0]["choices"][0]["message"]["content"] == "answer 0"
    assert answers[0]["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    behind.close()


def test_tasks_that_were_left_before_they_began_run_for_nobody(tiny: LocalModel) -> None:
    """Clients that go while the pool is in a long call; what comes after them is served at once."""
    calls: list[str] = []

    class Turns(Slow):
        """Takes turns."""

        traits = VerifierTraits(concurrent=False)

        def verify(self, context: Context, proposal: Proposal) -> Verification:
            """Notes whose."""
            calls.append(context.task.input["prompt"])
            return super().verify(context, proposal)

    with serving({"slow": Pipeline(echo, Turns(1.0), First())}) as served:
        with ThreadPoolExecutor(8) as pool:
            holding = pool.submit(served.ask, "slow", "first")
            while not calls:
                time.sleep(0.01)

            def leave(place: int) -> None:
                body = {**GOOD, "model": "slow", "messages": [{"role": "user", "content": f"left {place}"}]}
                with suppress(httpx.TimeoutException):
                    httpx.post(served.base + CHAT, json=body, timeout=0.1)

            list(pool.map(leave, range(6)))
            assert holding.result().status_code == 200
        assert served.ask("slow", "last").status_code == 200
    assert "last" in calls
    assert not [call for call in calls if call.startswith("left")]


def test_an_inner_part_that_takes_turns_is_not_starved(tiny: LocalModel) -> None:
    """Such a pipeline goes through the lockstep too, whatever its own verifier is."""

    class Turns(Slow):
        """Takes turns."""

        traits = VerifierTraits(concurrent=False)

    inner = Pipeline(echo, Turns(0.01), First())
    nested = Pipeline(inner, verifier(lambda context, item: True), First())
    again = Pipeline(
        generator(lambda context, n: ["x"], shape="chain"),
        Turns(0.02),
        LongestPrefix(),
        done=lambda context, new: None,
        budget=Budget(rounds=90),
    )
    with serving({"nested": nested, "busy": again}) as served, ThreadPoolExecutor(2) as pool:
        busy = pool.submit(served.ask, "busy")
        time.sleep(0.3)
        begun = time.monotonic()
        assert served.ask("nested").status_code == 200
        assert time.monotonic() - begun < 1.5
        assert not busy.done()


def test_a_pattern_of_a_client_holds_up_nobody(served: Served) -> None:
    """One that backtracks without end is given up; keys are matched against none."""
    schema = {"type": "string", "pattern": "^(a|aa|a?)+$"}
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    begun = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        asking = pool.submit(served.ask, "echo", json.dumps("a" * 40 + "!"), response_format=form)
        time.sleep(0.2)
        assert served.http.get("/health", timeout=1).status_code == 200
        assert asking.result().json()["choices"][0]["message"]["refusal"]
    assert time.monotonic() - begun < 5
    keys = {"type": "object", "patternProperties": {"^(a|aa)+$": {}}}
    form = {"type": "json_schema", "json_schema": {"schema": keys}}
    assert served.ask("echo", "{}", response_format=form).status_code == 400


def test_what_an_answer_holds_is_sent_whatever_it_is(tiny: LocalModel) -> None:
    """Numbers that are none, half characters, negative counts of a server's; streamed and not. A stream that fails ends
    with an error."""
    values = {"nan": {"answer": float("nan"), "x": 1}, "half": {"answer": "a\ud800b"}, "list": [1, 2.5]}
    values |= {"array": np.ones(2), "inner array": {"answer": np.ones(2)}}
    pipelines: dict[str, Any] = {
        name: Pipeline(
            generator(lambda context, n, value=value: [value]), verifier(lambda c, i: True), First()
        )
        for name, value in values.items()
    }
    behind = Server()
    usage = {"prompt_tokens": -5, "completion_tokens": -3}
    reply = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}
    behind.answer = lambda request: (200, {}, json.dumps(reply).encode())
    pipelines["odd"] = Pipeline(Sample(Endpoint(behind.url, "m")), verifier(lambda c, i: True), First())

    class Broken(Slow):
        """Has no text for anything."""

        def text(self, values: Any) -> str:
            """It fails."""
            raise ZeroDivisionError("no text")

    chain = generator(lambda context, n: ["x"], shape="chain")
    pipelines["broken"] = Pipeline(chain, Broken(0), LongestPrefix(), done=Limit(2))
    with serving(pipelines) as served:
        for name in (*values, "odd"):
            whole, streamed = served.ask(name), served.ask(name, stream=True)
            assert whole.status_code in (200, 502), name
            json.loads(whole.content, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
            events = [line[6:] for line in streamed.text.splitlines() if line.startswith("data: {")]
            assert events
            for event in events:
                json.loads(event, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
        assert served.ask("broken").status_code == 500
        assert "no text" in served.ask("broken", stream=True).text
        assert served.ask("broken", task={"eos_ids": 3, "prompt_ids": 5}).status_code == 500
    behind.close()


def test_a_question_outlives_an_answer_that_failed(tiny: LocalModel) -> None:
    """A verifier that fails at what a person wrote has not answered; one that takes too long is given up."""
    fails = [True]

    def judged(context: Context, item: str) -> bool:
        if item == "slow":
            time.sleep(1.0)
        if item == "edited" and fails.pop():
            raise ConnectionError("gone")
        return len(item) > 3

    pipeline = Pipeline(echo, verifier(judged), First(), policy=escalate(on=("reject",)))
    with serving({"person": pipeline}, timeout=0.5) as served:
        question = served.ask("person", "a").json()
        deep = b'{"answer": "edit", "value": ' + b"[" * 100_000
        kind = {"content-type": "application/json"}
        assert served.http.post(question["url"], content=deep, headers=kind).status_code == 400
        assert served.http.post(question["url"], json={"answer": "edit", "value": "slow"}).status_code == 504
        time.sleep(1.0)
        fails[:] = [False, True]
        assert (
            served.http.post(question["url"], json={"answer": "edit", "value": "edited"}).status_code == 502
        )
        assert served.http.get(question["url"]).json()["candidate"]["value"] == "a"
        good = served.http.post(question["url"], json={"answer": "edit", "value": "edited"})
        assert good.json()["choices"][0]["message"]["content"] == "edited"


def test_a_broken_part_is_not_the_client_s_fault(tiny: LocalModel) -> None:
    """A verifier that breaks its contract is a 502; a field that the task lacks a 400."""
    three = Verification(checks=(Check("pass"),) * 3)

    class Wrong(Slow):
        """Gives three checks."""

        def verify(self, context: Context, proposal: Proposal) -> Verification:
            """They are too many."""
            return three

    lacking = Sample(Endpoint("http://127.0.0.1:9/v1", "m"), template="{essay}")
    pipelines = {
        "wrong": Pipeline(echo, Wrong(0), First()),
        "lacking": Pipeline(lacking, verifier(lambda c, i: True), First()),
    }
    with serving(pipelines) as served:
        assert served.ask("wrong").status_code == 502
        answer = served.ask("lacking")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "task")


PARTS = """
import time
from draftverify import Check, Proposal, Verification

class Echo:
    def propose(self, context, n):
        return Proposal.alternatives([context.task.input["prompt"].upper()])

class Slow:
    def verify(self, context, proposal):
        time.sleep(1.0)
        print("verified", flush=True)
        return Verification(checks=(Check("pass"),) * len(proposal))

    def close(self):
        print("closed", flush=True)
"""
CONFIG = """
name: loud
parts: [parts.py]
tasks: {use: inline, rows: [{prompt: x}]}
pipelines:
  loud: {generator: {use: parts.Echo}, verifier: {use: parts.Slow}, rule: {use: first}}
"""


def test_the_command_serves_and_ends_when_what_is_under_way_has(tmp_path: Path) -> None:
    """SIGTERM lets a request come to its answer, and takes no other; beyond loopback the command wants a token."""
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "loud.yaml").write_text(CONFIG)
    command = [sys.executable, "-m", "draftverify", "serve", "loud.yaml", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.endswith("/v1 serves loud\n")
        base = line.split()[0]
        answers: list[httpx.Response] = []
        body = {**GOOD, "model": "loud"}
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{base}/chat/completions", json=body, timeout=30))
        )
        asking.start()
        time.sleep(0.5)
        server.send_signal(signal.SIGTERM)
        asking.join()
        assert answers[0].json()["choices"][0]["message"]["content"] == "HI"
        assert server.wait(20) == 0
        assert server.stdout.read().split() == ["verified", "closed"]
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{base}/models")
    everywhere = subprocess.run([*command, "--host", "0.0.0.0"], cwd=tmp_path, capture_output=True, text=True)
    assert everywhere.returncode != 0
    assert "name a token that clients send: --token-env NAME" in everywhere.stderr
    unset = subprocess.run([*command, "--token-env", "NOT_SET"], cwd=tmp_path, capture_output=True, text=True)
    assert "the environment variable NOT_SET is not set" in unset.stderr
