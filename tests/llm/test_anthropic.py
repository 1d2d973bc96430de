"""Anthropic's messages over HTTP: what is sent is what its own client sends, and what comes is read as it reads it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.runner.run import run
from draftverify.errors import ConfigError, EndpointError
from draftverify.secret import Secret
from draftverify_llm.endpoint import Endpoint
from tests.llm.conftest import Server

FIELDS = {
    "model", "messages", "max_tokens", "system", "stop_sequences", "output_config", "temperature", "top_p", "metadata",
}  # fmt: skip
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Name a colour."},
]


def refusal(status: int, kind: str, message: str) -> tuple[int, dict[str, str], bytes]:
    """An error as the API words it."""
    reply = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    return status, {"content-type": "application/json", "request-id": "req_1"}, json.dumps(reply).encode()


def messages(request: dict[str, Any], text: str = "red", stop: str = "end_turn", **usage: int) -> Any:
    """A well-formed reply, or the refusal of what the API does not know."""
    for name in request:
        if name not in FIELDS:
            return refusal(400, "invalid_request_error", f"{name}: Extra inputs are not permitted")
    if any(turn["role"] not in ("user", "assistant") for turn in request["messages"]):
        return refusal(400, "invalid_request_error", "messages: Unexpected role")
    content = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": text}]
    reply = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": content,
        "stop_reason": stop, "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 3, **usage},
    }  # fmt: skip
    headers = {"content-type": "application/json", "request-id": "req_2"}
    return 200, headers, json.dumps(reply).encode()


@pytest.fixture
def model(server: Server) -> Endpoint:
    """A model behind such a server."""
    server.answer = messages
    return Endpoint(server.url, "claude-x", api="anthropic", api_key=Secret("sk-ant-key"))


def test_its_own_client_sends_the_same_and_reads_the_same(server: Server, model: Endpoint) -> None:
    """Path, key and fields, the schema of the answer too; text, tokens and ids."""
    anthropic = pytest.importorskip("anthropic")
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    (ours,) = model.complete(TURNS, max_tokens=50, stop=["\n\n"], schema=schema)
    client = anthropic.Anthropic(api_key="sk-ant-key", base_url=server.url.removesuffix("/v1"))
    theirs = client.messages.create(
        model="claude-x",
        max_tokens=50,
        system="Be brief.",
        messages=TURNS[1:],
        stop_sequences=["\n\n"],
        output_config={"format": {"type": "json_schema", "schema": schema}},
    )
    assert server.requests[0] == server.requests[1]
    assert server.paths[0] == server.paths[1].partition("?")[0] == "/v1/messages"
    sent, known = ({name.lower(): value for name, value in headers.items()} for headers in server.headers)
    assert sent["authorization"] == known["authorization"] == "Bearer sk-ant-key"
    assert sent["anthropic-version"] == "2023-06-01"  # its own takes no temperature any more
    assert ours.text == theirs.content[1].text == "red"
    assert (ours.tokens_in, ours.tokens_out) == (theirs.usage.input_tokens, theirs.usage.output_tokens)
    assert (ours.id, ours.model, ours.finish_reason) == ("req_2", theirs.model, "stop")


def test_several_answers_are_asked_for_side_by_side(server: Server, model: Endpoint) -> None:
    """The API gives one a request; one that fails loses nothing of the others."""
    assert [completion.text for completion in model.complete("x", n=5)] == ["red"] * 5
    assert len(server.requests) == 5
    assert all("n" not in request and "seed" not in request for request in server.requests)
    server.in_turn(messages, refusal(400, "invalid_request_error", "prompt is too long"), messages)
    assert len(model.complete("x", n=3, seed=1)) == 2


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_where_no_answer_came_the_error_is_told(server: Server, model: Endpoint, mode: str) -> None:
    """Nothing was paid for, and no answer at all would look like a model that says nothing."""
    server.in_turn(refusal(400, "invalid_request_error", "prompt is too long"))
    with pytest.raises(EndpointError, match="answered 400: prompt is too long"):
        model.complete("x", n=3) if mode == "sync" else asyncio.run(model.acomplete("x", n=3))
    assert len(server.requests) == 3


def test_tokens_of_the_servers_cache_are_told_apart(server: Server, model: Endpoint) -> None:
    """They are not among `input_tokens` there, and are among a prompt's tokens here."""
    server.answer = lambda request: messages(
        request, cache_read_input_tokens=90, cache_creation_input_tokens=5
    )
    model.price_in, model.price_in_cached = 2.0, 0.2
    (answer,) = model.complete("x")
    assert (answer.tokens_in, answer.tokens_in_cached, answer.tokens_out) == (105, 90, 3)
    assert model.price([answer]) == pytest.approx((15 * 2.0 + 90 * 0.2) / 1e6)


@pytest.mark.parametrize(
    ("stop", "finish"),
    [("stop_sequence", "stop"), ("max_tokens", "length"), ("refusal", "other")],
)
def test_why_an_answer_ended(server: Server, model: Endpoint, stop: str, finish: str) -> None:
    """In the words that other models have for it."""
    server.answer = lambda request: messages(request, stop=stop)
    assert model.complete("x")[0].finish_reason == finish


def test_a_setting_that_the_model_does_not_take_is_left_out(
    server: Server, model: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning, once; a temperature of 1 is not even sent."""

    def without(request: dict[str, Any]) -> Any:
        if "temperature" in request:
            message = "`temperature` is deprecated for this model"
            return refusal(400, "invalid_request_error", message)
        return messages(request)

    server.answer = without
    assert model.complete("x", temperature=0.0)[0].text == "red"
    assert model.complete("x", temperature=0.5)[0].text == "red"
    model.complete("x")
    assert ["temperature" in request for request in server.requests] == [True, False, False, False]
    assert caplog.text.count("takes no temperature") == 1


@pytest.mark.parametrize(
    "message",
    ["temperature: range: 0..1", "output_config.format.schema: additionalProperties must be false"],
)
def test_a_setting_that_is_wrong_is_no_setting_that_is_not_taken(
    server: Server, model: Endpoint, message: str
) -> None:
    """It is said, and nothing is left out in silence."""
    server.answer = lambda request: refusal(400, "invalid_request_error", message)
    with pytest.raises(EndpointError, match=message.partition(":")[0]):
        model.complete("x", temperature=1.5, schema={"type": "object"})
    assert len(server.requests) == 1


@pytest.mark.parametrize("fields", [{"content": None}, {"usage": None}, {"usage": {"input_tokens": None}}])
def test_what_a_reply_leaves_out_is_nothing(server: Server, model: Endpoint, fields: dict[str, Any]) -> None:
    """No text, or no tokens told."""
    status, headers, body = messages({"messages": []})
    server.answer = lambda request: (status, headers, json.dumps({**json.loads(body), **fields}).encode())
    (answer,) = model.complete("x")
    assert (answer.text, answer.tokens_in) in (("", 10), ("red", 0))


def test_an_overloaded_server_is_asked_again(server: Server, model: Endpoint) -> None:
    """529 is its own word for it; what it refuses for good is said in its words, without the key."""
    server.in_turn(refusal(529, "overloaded_error", "Overloaded"), messages)
    assert model.complete("x")[0].text == "red"
    server.answer = lambda request: refusal(401, "authentication_error", "invalid key sk-ant-key")
    with pytest.raises(EndpointError, match=r"answered 401: invalid key \S+ \(request req_1\)") as refused:
        model.complete("x")
    assert "sk-ant-key" not in str(refused.value)


def test_what_it_cannot_do_is_refused_before_a_request(server: Server) -> None:
    """Raw text, log-probabilities, an API of another name."""
    with pytest.raises(ConfigError, match="take turns alone"):
        Endpoint(server.url, "claude-x", api="anthropic").complete("x", chat=False)
    with pytest.raises(ConfigError, match="gives no log-probabilities"):
        Endpoint(server.url, "claude-x", api="anthropic", top_logprobs=5).open()
    with pytest.raises(ConfigError, match="no API 'claude', but openai and anthropic"):
        Endpoint(server.url, "claude-x", api="claude")  # type: ignore[arg-type]
    assert not server.requests


def test_an_experiment_that_extracts_with_it(server: Server, tmp_path: Path) -> None:
    """Held to the verifier's schema; what does not follow it is asked for again with what is wrong."""
    wrong, right = '{"colour": 7}', '{"colour": "red"}'
    server.in_turn(lambda request: messages(request, wrong), lambda request: messages(request, right))
    (tmp_path / "e.yaml").write_text(
        f"""
tasks: {{use: inline, rows: [{{prompt: "The car is red."}}]}}
models: {{m: {{use: llm.endpoint, api: anthropic, base_url: "{server.url}", model: claude-x, cache: ./bought}}}}
pipelines:
  one:
    generator: {{use: llm.sample, model: m, structured: true}}
    verifier: {{use: json_schema, schema: {{type: object, properties: {{colour: {{type: string}}}}}}}}
    rule: {{use: first}}
    on_rejection: [{{do: feedback}}]
"""
    )
    result = run(load_experiment(tmp_path / "e.yaml"), out=tmp_path / "run")
    assert dict(result.summary.pipelines[0].statuses) == {"accepted": 1}
    first, second = server.requests
    assert first["output_config"]["format"]["schema"]["properties"] == {"colour": {"type": "string"}}
    assert [turn["role"] for turn in second["messages"]] == ["user", "assistant", "user"]
