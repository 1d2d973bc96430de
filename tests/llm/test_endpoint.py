"""The endpoint against a real server on this machine: retries, limits, deadlines, accounts, cancellation."""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import gzip
import json
import logging
import math
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
import traceback
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftverify import Pipeline, verifier
from draftverify.checks.verifiers import JsonSchema
from draftverify.errors import ConfigError, EndpointError, EndpointTimeout, NotBoughtError, ResourceError
from draftverify.rules import First
from draftverify.secret import Secret
from draftverify_llm import Completion, Endpoint, Sample, TextModel

from .conftest import Server, completion, slowly

FAIL = {"retry-after": "0"}
WORDS = ["choices", "usage", "message", "content", "index", "text", "prompt_tokens", "completion_tokens"]


def busy(status: int = 429, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """A refusal that says to come again at once."""
    return status, {**FAIL, **headers}, json.dumps({"error": {"message": "slow down"}}).encode()


@pytest.fixture
def endpoint(server: Server) -> Iterator[Endpoint]:
    """An endpoint of the server."""
    made = Endpoint(server.url, "m", timeout_seconds=10)
    yield made
    made.close()


def test_a_prompt_is_one_user_turn(endpoint: Endpoint, server: Server) -> None:
    """What is sent is OpenAI's request with what was asked for, and no more."""
    (made,) = endpoint.complete("hi", max_tokens=5, temperature=0.5)
    assert server.paths == ["/v1/chat/completions"]
    assert server.requests == [
        {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "temperature": 0.5}
    ]
    assert (made.text, made.tokens_in, made.tokens_out, made.finish_reason) == ("answer 0", 7, 3, "stop")
    assert isinstance(endpoint, TextModel)


def test_all_settings_are_sent(endpoint: Endpoint, server: Server) -> None:
    """n, top_p, stop and seed arrive; turns arrive as they are; plain text goes to /completions."""
    turns: Any = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    endpoint.complete(turns, n=2, top_p=0.9, stop=["x"], seed=2**40 + 5)
    sent = server.requests[0]
    assert (sent["n"], sent["top_p"], sent["stop"], sent["seed"], sent["messages"]) == (
        2,
        0.9,
        ["x"],
        5,
        turns,
    )
    assert endpoint.complete("def f", chat=False)[0].text == "answer 0"
    assert server.paths[1] == "/v1/completions"
    assert server.requests[1]["prompt"] == "def f"


def test_a_server_that_knows_no_n_is_asked_again(endpoint: Endpoint, server: Server) -> None:
    """For the answers that are missing, side by side, with seeds of their own."""
    together = threading.Barrier(2, timeout=10)

    def one(request: dict[str, Any]) -> Any:
        if "n" not in request:
            together.wait()
        return completion({**request, "n": 1})

    server.answer = one
    for ask in (endpoint.complete, lambda *how, **more: asyncio.run(endpoint.acomplete(*how, **more))):
        server.requests.clear()
        made = ask("hi", n=3, seed=10)
        assert len(made) == 3
        assert sorted(request["seed"] for request in server.requests) == [10, 11, 12]
        assert sum(each.tokens_in for each in made) == 21


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("status", [429, 500, 503])
def test_overload_is_tried_again(endpoint: Endpoint, server: Server, status: int, mode: str) -> None:
    """Two refusals and then an answer is an answer."""
    server.in_turn(busy(status), busy(status), completion)
    made = endpoint.complete("hi") if mode == "sync" else asyncio.run(endpoint.acomplete("hi"))
    assert made[0].text == "answer 0"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("body", "said"),
    [(b'{"choices": []}', "without choices"),
     (b'{"error": {"code": 502, "message": "no provider"}}', "answered 502 at try 2 of 2: no provider")],
)  # fmt: skip
def test_a_router_s_empty_200_is_tried_again(server: Server, body: bytes, said: str) -> None:
    """No choices, or another server's refusal under status 200, as routers send them."""
    server.in_turn((200, {}, body), completion)
    assert Endpoint(server.url, "m", retries=1).complete("hi")[0].text == "answer 0"
    server.in_turn((200, {}, body))
    with pytest.raises(EndpointError, match=said):
        Endpoint(server.url, "m", retries=1).complete("hi")


def test_retries_come_to_an_end(server: Server) -> None:
    """After `retries` further tries the last refusal is the error, with the server's words and the count."""
    server.in_turn(busy())
    with pytest.raises(EndpointError, match=r"429 at try 3 of 3: slow down"):
        Endpoint(server.url, "m", retries=2).complete("hi")
    assert len(server.requests) == 3


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured(endpoint: Endpoint, server: Server, form: str) -> None:
    """The next try comes no sooner than the header says, whether it gives seconds or a date."""
    times: list[float] = []

    def first(request: Any) -> Any:
        times.append(time.monotonic())
        date = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
        wait = "1" if form == "seconds" else email.utils.format_datetime(date, usegmt=True)
        return 429, {"retry-after": wait}, b""

    def second(request: Any) -> Any:
        times.append(time.monotonic())
        return completion(request)

    server.in_turn(first, second)
    endpoint.complete("hi")
    assert 0.95 <= times[1] - times[0] < 5


def test_a_date_that_is_none_is_no_wait(server: Server) -> None:
    """A Retry-After that nobody can read is as none at all."""
    server.in_turn((429, {"retry-after": "Mon, 01 Jan 99999999999 00:00:00 GMT"}, b"later"))
    with pytest.raises(EndpointError, match="answered 429 at try 1 of 1: later"):
        Endpoint(server.url, "m", retries=0).complete("hi")


def test_a_wait_of_an_hour_is_refused_at_once(endpoint: Endpoint, server: Server) -> None:
    """A server that asks for more than a minute is not waited for."""
    server.in_turn(busy(429, **{"retry-after": "3600"}))
    with pytest.raises(EndpointError, match="429"):
        endpoint.complete("hi")
    assert len(server.requests) == 1


def test_back_off_doubles_with_jitter(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Retry-After the waits lie between half and whole of 0.5, 1, 2, 4 seconds."""
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    server.in_turn((500, {}, b"no"))
    with pytest.raises(EndpointError, match="500"):
        Endpoint(server.url, "m", retries=4).complete("hi")
    assert len(waits) == 4
    for k, wait in enumerate(waits):
        assert 0.25 * 2**k <= wait <= 0.5 * 2**k


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_final(endpoint: Endpoint, server: Server, status: int) -> None:
    """A request that is wrong is not sent twice."""
    server.in_turn((status, {}, b'{"error": {"message": "no such model"}}'))
    with pytest.raises(EndpointError, match=f"{status}: no such model"):
        endpoint.complete("hi")
    assert len(server.requests) == 1


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_late_answer_is_a_timeout(server: Server, mode: str) -> None:
    """No answer in time is an EndpointTimeout, which is a TimeoutError; each try has its own time."""
    server.answer = slowly(1.0)
    late = Endpoint(server.url, "m", timeout_seconds=0.2, retries=0)
    began = time.monotonic()
    with pytest.raises(EndpointTimeout, match=r"within 0\.2 s at try 1 of 1") as caught:
        late.complete("hi") if mode == "sync" else asyncio.run(late.acomplete("hi"))
    assert isinstance(caught.value, TimeoutError)
    assert time.monotonic() - began < 0.9


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_answer_that_drips_is_a_timeout(server: Server, mode: str) -> None:
    """The time is for the whole answer: a byte now and then does not keep the request alive."""

    def drip(request: Any) -> Any:
        def bytes_() -> Iterator[bytes]:
            for _ in range(40):
                time.sleep(0.05)
                yield b" "

        return 200, {}, bytes_()

    server.answer = drip
    late = Endpoint(server.url, "m", timeout_seconds=0.3, retries=0)
    began = time.monotonic()
    with pytest.raises(EndpointTimeout):
        late.complete("hi") if mode == "sync" else asyncio.run(late.acomplete("hi"))
    assert time.monotonic() - began < 1.5


def test_a_timeout_is_tried_again(server: Server) -> None:
    """A slow try followed by a quick one is an answer."""
    server.in_turn(slowly(1.0), completion)
    assert Endpoint(server.url, "m", timeout_seconds=0.3, retries=1).complete("hi")[0].text == "answer 0"


def test_nobody_there_is_an_endpoint_error() -> None:
    """A refused connection names the address."""
    with pytest.raises(EndpointError, match=r"127\.0\.0\.1:9/v1 .* could not be reached at try 1 of 1"):
        Endpoint("http://127.0.0.1:9/v1", "m", retries=0).complete("hi")


MALFORMED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b"<html>hello</html>",
    b'{"choices": [{"index": "a"}]}',
    b'{"error": {"code": [502], "message": "no provider"}}',
    b'{"choices": [{"message": {"content": 3}}]}',
    b'{"choices": [{}], "usage": {"prompt_tokens": "many"}}',
]


@pytest.mark.parametrize("body", MALFORMED)
def test_what_is_no_completion_is_an_endpoint_error(endpoint: Endpoint, server: Server, body: bytes) -> None:
    """Malformed answers are refused, never a traceback of the decoder's; JSON that broke off is asked for again."""
    server.in_turn((200, FAIL, body))
    with pytest.raises(EndpointError, match="sent"):
        endpoint.complete("hi")
    assert len(server.requests) == (5 if body in (b"", b"{") else 1)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reply=st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(WORDS), inner),
    max_leaves=12,
), status=st.sampled_from([200, 200, 200, 302, 418]))  # fmt: skip
def test_any_json_is_answered_or_refused(endpoint: Endpoint, server: Server, reply: Any, status: int) -> None:
    """Whatever JSON comes back, the result is completions or an EndpointError."""
    server.in_turn((status, {}, json.dumps(reply).encode()))
    try:
        made = endpoint.complete("hi")
    except EndpointError:
        return
    assert [type(each.text) for each in made] == [str]
    assert made[0].tokens_in >= 0
    assert made[0].tokens_out >= 0


def test_an_answer_without_end_is_cut_off(
    endpoint: Endpoint, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer larger than any completion is given up, not gathered."""
    monkeypatch.setattr("draftverify_llm.endpoint._LARGEST_REPLY", 1 << 20)
    sent = 0

    def flood(request: Any) -> Any:
        def bytes_() -> Iterator[bytes]:
            nonlocal sent
            for _ in range(1000):
                sent += 1
                yield bytes(1 << 16)

        return 200, {}, bytes_()

    server.answer = flood
    with pytest.raises(EndpointError, match="larger than"):
        endpoint.complete("hi")
    assert sent < 1000


def test_the_key_is_sent_and_never_shown(server: Server) -> None:
    """The key is in the header, and not in an error, even where the server echoes it."""
    server.in_turn((401, {}, b'{"error": {"message": "bad key sk-very-secret!"}}'))
    endpoint = Endpoint(server.url, "m", api_key=Secret("sk-very-secret"))
    with pytest.raises(EndpointError, match=r"bad key \*\*\*!") as caught:
        endpoint.complete("hi")
    assert server.headers[0]["Authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-very-secret\n", " sk-very-secret", "sk-very-secret\r\n"])
def test_what_surrounds_a_key_is_not_sent(server: Server, key: str) -> None:
    """A line break that a file ended in is no part of it."""
    Endpoint(server.url, "m", api_key=Secret(key)).complete("hi")
    assert server.headers[0]["Authorization"] == "Bearer sk-very-secret"


def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(server: Server) -> None:
    """A break inside it, two keys in one, a letter with an accent."""
    for key in ("sk-very\nsecret", "sk-very secret", "sk-véry-secret"):
        with pytest.raises(ConfigError, match="no HTTP header carries") as caught:
            Endpoint(server.url, "m", api_key=key).complete("hi")  # type: ignore[arg-type]
        assert "secret" not in "".join(traceback.format_exception(caught.value)).replace(__file__, "")
    assert not server.requests


def test_a_key_in_the_address_is_not_shown(caplog: pytest.LogCaptureFixture, server: Server) -> None:
    """Neither before the @ nor behind a ?, in errors and in the log of requests."""
    caplog.set_level(logging.INFO)
    host = server.url.partition("://")[2]
    for url in (f"http://me:sk-in-address@{host}", f"{server.url}/x?api_key=sk-in-address&"):
        server.in_turn((401, {}, b"no"))
        with pytest.raises(EndpointError) as caught:
            Endpoint(url, "m").complete("hi")
        assert "sk-in-address" not in "".join(traceback.format_exception(caught.value))
    assert "HTTP Request" in caplog.text
    assert "sk-in-address" not in caplog.text


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_compressed_answer_is_bounded_while_it_unfolds(
    endpoint: Endpoint, server: Server, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Sixty-four kilobytes that unfold to as many megabytes: refused, and never held."""
    monkeypatch.setattr("draftverify_llm.endpoint._LARGEST_REPLY", 1 << 20)
    bomb = gzip.compress(bytes(64 << 20))
    server.answer = lambda request: (200, {"content-encoding": "gzip"}, bomb)
    tracemalloc.start()
    try:
        with pytest.raises(EndpointError, match="larger than"):
            endpoint.complete("hi") if mode == "sync" else asyncio.run(endpoint.acomplete("hi"))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_compressed_answer_is_read(endpoint: Endpoint, server: Server) -> None:
    """As gzip, which is asked for, or zlib; what is damaged, cut or folded twice is an error in words."""
    status, headers, body = completion({"n": 1})
    for name, folded in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body))):
        server.in_turn((status, {**headers, "content-encoding": name}, folded))
        assert endpoint.complete("hi")[0].text == "answer 0"
    assert server.headers[0]["Accept-Encoding"] == "gzip"
    whole = gzip.compress(body)
    once = Endpoint(server.url, "m", retries=0)
    for name, folded in (("gzip", body), ("gzip", whole[:-12]), ("gzip, gzip", whole), ("br", body)):
        server.in_turn((status, {**headers, "content-encoding": name}, folded))
        with pytest.raises(EndpointError, match="compressed"):
            once.complete("hi")
    cut = (status, {**headers, **FAIL, "content-encoding": "gzip"}, whole[:-12])
    server.in_turn(cut, (status, {**headers, "content-encoding": "gzip"}, whole))
    assert endpoint.complete("hi")[0].text == "answer 0"  # what was cut off on its way is asked for again


def test_threads_share_the_limit(server: Server) -> None:
    """Eight threads and a limit of two: two requests at once, never three, and eight answers."""
    server.answer = slowly(0.1)
    endpoint = Endpoint(server.url, "m", concurrency=2)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(endpoint.complete("hi")[0].text)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    endpoint.close()
    assert (len(found), server.most) == (8, 2)


def test_awaited_calls_share_the_limit(server: Server) -> None:
    """The same for one event loop."""
    server.answer = slowly(0.1)
    endpoint = Endpoint(server.url, "m", concurrency=2)

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*(endpoint.acomplete("hi") for _ in range(8)))

    assert len(asyncio.run(all_of_them())) == 8
    assert server.most == 2


def test_more_than_a_hundred_go_at_once_where_that_is_asked_for(server: Server) -> None:
    """None of them waits for another's connection until its time is over."""
    server.answer = slowly(0.7)
    endpoint = Endpoint(server.url, "m", concurrency=130, timeout_seconds=5)
    with ThreadPoolExecutor(130) as pool:
        assert len(list(pool.map(lambda _: endpoint.complete("hi"), range(130)))) == 130
    endpoint.close()
    assert server.most > 100


def test_certificates_are_read_once(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not by every awaited call, whose event loop would stand still meanwhile."""
    load, loaded = ssl.SSLContext.load_verify_locations, []

    def count(self: ssl.SSLContext, *args: Any, **how: Any) -> None:
        loaded.append(args)
        load(self, *args, **how)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", count)

    async def thrice() -> None:
        await asyncio.gather(*(endpoint.acomplete("hi") for _ in range(3)))

    asyncio.run(thrice())
    assert len(loaded) <= 1


def test_cancelling_closes_the_request(server: Server) -> None:
    """A cancelled call ends at once, the server finds the connection closed, and its slot is free again."""
    server.answer = lambda request: (200, {}, (b" " * 70_000 for _ in iter(lambda: time.sleep(0.02), 1)))
    endpoint = Endpoint(server.url, "m", concurrency=1, timeout_seconds=30)

    async def cancel() -> float:
        task = asyncio.create_task(endpoint.acomplete("hi"))
        while not server.requests:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        took = time.monotonic() - began
        for _ in range(200):
            if server.broken:
                break
            await asyncio.sleep(0.01)
        server.answer = completion
        assert (await endpoint.acomplete("again"))[0].text == "answer 0"
        return took

    assert asyncio.run(cancel()) < 1
    assert server.broken == 1


def test_usage_becomes_a_price(server: Server) -> None:
    """Tokens of several answers are split evenly, sum to what was billed, and are priced per million."""

    def answer(request: Any) -> Any:
        status, headers, body = completion(request)
        return status, headers, body.replace(b'"completion_tokens": 9', b'"completion_tokens": 10')

    server.answer = answer
    endpoint = Endpoint(server.url, "m", price_in=2.0, price_out=10.0)
    made = endpoint.complete("hi", n=3)
    assert [each.tokens_out for each in made] == [4, 3, 3]
    assert endpoint.price(made) == pytest.approx((7 * 2 + 10 * 10) / 1e6)


@pytest.mark.parametrize(
    "wrong",
    [{"base_url": "localhost:8000"}, {"base_url": "ftp://x"}, {"base_url": "http://"}, {"concurrency": 0},
     {"retries": -1}, {"timeout_seconds": 0.0}, {"timeout_seconds": math.inf}, {"timeout_seconds": math.nan},
     {"base_url": "http://127.0.0.1:x/v1"}, {"base_url": "http://[::1/v1"}, {"base_url": "http://xn--/v1"},
     {"body": {"n": 2}}, {"body": {"stream": True}}, {"requests_per_minute": 0}, {"tokens_per_minute": -1},
     {"price_in": -1.0}, {"price_in_cached": math.nan}],
)  # fmt: skip
def test_wrong_settings_are_config_errors(wrong: dict[str, Any]) -> None:
    """Found at `open`, before any request."""
    with pytest.raises(ConfigError):
        Endpoint(**{"base_url": "http://127.0.0.1/v1", "model": "m", **wrong}).open()


@pytest.mark.weights
@pytest.mark.slow
def test_it_talks_to_llama_cpp_s_server(llama_url: str) -> None:
    """A server that we did not write understands what is sent, and is understood."""
    endpoint = Endpoint(f"{llama_url}/v1", "any")
    made = endpoint.complete("Say hello.", n=2, max_tokens=60, temperature=0)
    assert [each.finish_reason for each in made] == ["stop", "stop"]
    assert all("ello" in each.text for each in made)
    (text,) = endpoint.complete("1, 2, 3, 4,", max_tokens=20, temperature=0, stop=[" 7"], chat=False)
    assert (text.text, text.finish_reason) == (" 5, 6,", "stop")
    with pytest.raises(EndpointError, match="400"):
        endpoint.complete("word " * 5000)
    endpoint.close()


def refusing(parameter: str, message: str = "", code: str = "unsupported_parameter") -> Any:
    """A model that does not take a parameter, as OpenAI's reasoning models say it."""

    def answer(request: dict[str, Any]) -> Any:
        if parameter not in request:
            return completion(request)
        words = message or f"Unsupported parameter: '{parameter}' is not supported with this model."
        problem = {"message": words, "type": "invalid_request_error", "param": parameter, "code": code}
        return 400, {}, json.dumps({"error": problem}).encode()

    return answer


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_reasoning_model_is_asked_as_it_wants(endpoint: Endpoint, server: Server, mode: str) -> None:
    """`max_completion_tokens` in place of `max_tokens`, found out once and for all."""
    server.answer = refusing(
        "max_tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    )
    for _ in range(2):
        if mode == "sync":
            endpoint.complete("hi", max_tokens=9)
        else:
            asyncio.run(endpoint.acomplete("hi", max_tokens=9))
    assert [request.get("max_completion_tokens") for request in server.requests] == [None, 9, 9]


def test_what_a_model_does_not_take_is_left_out_with_a_warning(
    endpoint: Endpoint, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """A temperature, once; what answers depend on in kind, and what the user wrote, is the user's to mend."""
    server.answer = refusing("temperature", code="unsupported_value")
    endpoint.complete("hi", temperature=0.5)
    endpoint.complete("hi", temperature=0.5)
    assert ["temperature" in request for request in server.requests] == [True, False, False]
    assert caplog.text.count("takes no temperature") == 1
    server.answer = refusing("stop")
    with pytest.raises(EndpointError, match="400: Unsupported parameter: 'stop'"):
        endpoint.complete("hi", stop=["x"])
    server.answer = refusing("seed")
    with pytest.raises(EndpointError, match="'seed'"):
        Endpoint(server.url, "m", body={"seed": 3}).complete("hi")


def test_headers_and_fields_of_ones_own_are_sent(server: Server) -> None:
    """Beside those that there are; a field stands over one of its name."""
    own = Endpoint(
        server.url,
        "m",
        headers={"X-Org": Secret("org-123456")},
        body={"reasoning_effort": "low", "top_p": 0.5},
    )
    own.complete("hi", top_p=0.9)
    assert server.headers[0]["X-Org"] == "org-123456"
    assert (server.requests[0]["reasoning_effort"], server.requests[0]["top_p"]) == ("low", 0.5)
    for name, value in (("X", "two\nlines"), ("X", "münster"), ("X Y", "v"), ("X", "")):
        with pytest.raises(ConfigError, match="no HTTP header") as told:
            Endpoint(server.url, "m", headers={name: Secret(value)}).open()
        assert not value or value not in str(told.value)
    with pytest.raises(ConfigError, match=r"body\.messages"):
        Endpoint(server.url, "m", body={"messages": []}).open()


@pytest.mark.parametrize("chat", [True, False])
def test_log_probabilities_are_asked_for_and_summed(server: Server, chat: bool) -> None:
    """Where they are asked for; of a server that gives none a completion has none."""

    def answer(request: dict[str, Any]) -> Any:
        told = (
            {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.25}]}
            if chat
            else {"tokens": ["a", "b"], "token_logprobs": [-0.5, -1.25]}
        )
        text = {"message": {"content": "ab"}} if chat else {"text": "ab"}
        choice = {
            "index": 0,
            **text,
            "finish_reason": "stop",
            **({"logprobs": told} if "logprobs" in request else {}),
        }
        return (
            200,
            {},
            json.dumps({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}).encode(),
        )

    server.answer = answer
    assert Endpoint(server.url, "m", logprobs=True).complete("hi", chat=chat)[0].logprob == -1.75
    assert Endpoint(server.url, "m").complete("hi", chat=chat)[0].logprob is None
    assert server.requests[0]["logprobs"] is True if chat else server.requests[0]["logprobs"] == 1


def test_a_server_that_was_never_reached_is_tried_twice(server: Server) -> None:
    """A dead one is told in a second; one that was there is waited for."""
    start = time.monotonic()
    with pytest.raises(EndpointError, match="could not be reached at try 2, nor before"):
        Endpoint("http://127.0.0.1:9/v1", "m").complete("hi")
    assert time.monotonic() - start < 2


SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}


def test_a_model_is_held_to_the_verifier_s_schema(server: Server) -> None:
    """`structured: true` sends the schema that the verifier offers; without one, or with a model that takes none, it is
    refused."""

    def answer(request: dict[str, Any]) -> Any:
        text = '{"total": 7}' if "response_format" in request else "7"
        return 200, {}, json.dumps({"choices": [{"message": {"content": text}}]}).encode()

    server.answer = answer
    endpoint = Endpoint(server.url, "m")
    sample = Sample(endpoint, structured=True)
    outcome = Pipeline(sample, JsonSchema(SCHEMA), First()).run("How much?")
    assert outcome.value == '{"total": 7}'
    assert server.requests[0]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA},
    }
    nothing = Pipeline(sample, verifier(lambda context, item: True), First()).run("How much?")
    assert "needs a verifier that offers its schema" in nothing.reason
    with pytest.raises(ConfigError, match="Plain cannot be held to a schema"):
        Sample(type("Plain", (), {})(), structured=True).open()
    with pytest.raises(ConfigError, match="in turns alone"):
        endpoint.complete("How much?", chat=False, schema=SCHEMA)
    server.answer = refusing(
        "response_format", "Invalid parameter: 'response_format' of type 'json_schema'", "x"
    )
    free = Pipeline(Sample(Endpoint(server.url, "m"), structured=True), JsonSchema(SCHEMA), First()).run(
        "How much?"
    )
    assert free.status == "refused"  # the model is asked without, and the verifier judges


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_was_bought_is_not_bought_again(tmp_path: Path, server: Server, mode: str) -> None:
    """The same request of the same seed, by another endpoint of the same directory; it costs what it cost. Another
    seed, prompt, place or setting is another request."""

    def ask(endpoint: Endpoint, prompt: str = "hi", **how: Any) -> list[Completion]:
        if mode == "sync":
            return endpoint.complete(prompt, **how)
        return asyncio.run(endpoint.acomplete(prompt, **how))

    first = Endpoint(server.url, "m", cache=tmp_path / "kept", price_in=1e6)
    bought = ask(first, n=2, seed=3)
    first.close()
    again = Endpoint(server.url, "m", cache=tmp_path / "kept", price_in=1e6)
    kept = ask(again, n=2, seed=3)
    assert [completion.cached for completion in (*bought, *kept)] == [False, False, True, True]
    assert [completion.text for completion in kept] == [completion.text for completion in bought]
    assert again.price(kept) == first.price(bought) == 7
    assert len(server.requests) == 1
    for how in ({"seed": 4}, {"seed": 3, "temperature": 0.1}, {"seed": 3, "n": 3}):
        ask(again, **{"n": 2, **how})
    ask(again, "ho", n=2, seed=3)
    ask(Endpoint(server.url, "m", cache=tmp_path / "kept", headers={"X-Org": Secret("y")}), n=2, seed=3)
    assert len(server.requests) == 6
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="no replies can be kept"):
        Endpoint(server.url, "m", cache=tmp_path / "file").complete("hi")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_fewer_answers_are_the_first_of_more(tmp_path: Path, server: Server, mode: str) -> None:
    """Of a server that gives them together, and of one that gives one at a time; each costs its share. One that answers
    from its cache alone sends nothing, and what it lacks is an error, also where it has a part."""

    def ask(endpoint: Endpoint, n: int) -> list[Completion]:
        if mode == "sync":
            return endpoint.complete("hi", n=n, seed=3)
        return asyncio.run(endpoint.acomplete("hi", n=n, seed=3))

    for name, answer in (
        ("together", completion),
        ("one by one", lambda request: completion({**request, "n": 1})),
    ):
        server.answer = answer
        kept = tmp_path / name
        four = ask(Endpoint(server.url, "m", cache=kept), 4)
        server.requests.clear()
        endpoint = Endpoint(server.url, "m", cache=kept)
        for model in (endpoint, endpoint.from_cache()):
            for n in (1, 3, 4):
                assert ask(model, n) == [replace(each, cached=True) for each in four[:n]]
        assert not server.requests
        with pytest.raises(NotBoughtError, match="was not bought before"):
            ask(endpoint.from_cache(), 5)
        assert not server.requests
    with sqlite3.connect(kept / "replies.sqlite") as file:
        file.execute("DELETE FROM replies WHERE rowid = (SELECT max(rowid) FROM replies)")
    with pytest.raises(NotBoughtError, match="was not bought before"):
        ask(endpoint.from_cache(), 4)


def test_a_model_that_takes_no_seed_is_another_try_all_the_same(tmp_path: Path, server: Server) -> None:
    """What is kept is told apart by the seed that was meant, or all samples of a task would be one."""
    server.answer = refusing("seed")
    endpoint = Endpoint(server.url, "m", cache=tmp_path)
    for seed in (1, 2, 1):
        endpoint.complete("hi", seed=seed)
    assert ["seed" in request for request in server.requests] == [True, False, False]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_equal_requests_at_once_are_one(tmp_path: Path, server: Server, mode: str) -> None:
    """Of threads and of coroutines; where the first fails, the others ask for themselves."""

    def slow(request: dict[str, Any]) -> Any:
        time.sleep(0.2)
        return completion(request)

    endpoint = Endpoint(server.url, "m", cache=tmp_path)

    async def gathered() -> list[list[Completion]]:
        return await asyncio.gather(*(endpoint.acomplete("hi") for _ in range(4)))

    def at_once() -> list[list[Completion]]:
        if mode == "async":
            return asyncio.run(gathered())
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(endpoint.complete, ["hi"] * 4))

    server.in_turn((401, {}, b"no"), slow)
    with pytest.raises(EndpointError, match="401"):
        at_once()
    server.requests.clear()
    assert [made[0].text for made in at_once()] == ["answer 0"] * 4
    assert len(server.requests) <= 1


def test_processes_share_what_was_bought(tmp_path: Path, server: Server) -> None:
    """Several that open the same new directory at once, and write to it."""
    code = (
        "from pathlib import Path; from draftverify_llm import Endpoint; import sys\n"
        f"one = Endpoint({server.url!r}, 'm', cache=Path(sys.argv[1]))\n"
        "for place in range(20): one.complete(f'p{place}')"
    )
    others = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [other.wait(60) for other in others] == [0, 0, 0]
    server.requests.clear()
    endpoint = Endpoint(server.url, "m", cache=tmp_path)
    assert all(endpoint.complete(f"p{place}")[0].cached for place in range(20))
    assert server.requests == []


def test_a_damaged_file_of_replies_costs_a_request(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """And no answer: not a reply that is none, nor a file that breaks under it; another table is told at once."""
    endpoint = Endpoint(server.url, "m", cache=tmp_path)
    endpoint.complete("hi")
    with sqlite3.connect(tmp_path / "replies.sqlite") as file:
        file.execute("UPDATE replies SET reply = ?", (b'{"choices": []}',))
    assert not endpoint.complete("hi")[0].cached
    assert endpoint.complete("hi")[0].cached
    with sqlite3.connect(tmp_path / "replies.sqlite") as file:
        file.execute("DROP TABLE replies")
    assert endpoint.complete("hi")[0].text == "answer 0"
    assert "no reply is taken" in caplog.text
    assert "not kept" in caplog.text
    with sqlite3.connect(tmp_path / "replies.sqlite") as file:
        file.execute("CREATE TABLE replies (other TEXT)")
    with pytest.raises(ResourceError, match="no replies can be kept"):
        Endpoint(server.url, "m", cache=tmp_path).open()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_what_was_paid_for_is_kept_where_another_fails(
    server: Server, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of answers that are asked for one by one."""

    def some(request: dict[str, Any]) -> Any:
        return (401, {}, b"no more") if request["seed"] == 11 else completion({**request, "n": 1})

    server.answer = some
    endpoint = Endpoint(server.url, "m")
    how: dict[str, Any] = {"n": 3, "seed": 10}
    made = endpoint.complete("hi", **how) if mode == "sync" else asyncio.run(endpoint.acomplete("hi", **how))
    assert len(made) == 2
    assert "gave 2 of 3 answers" in caplog.text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b'{"choices": [{"message": {"content": "a"}, "score": NaN}]}', "a"),
        (rb'{"choices": [{"message": {"content": "a\ud83d"}}]}', "a?"),
        (b'{"choices": [{"message": {"content": "a\xff"}}]}', None),
        (b"<html>no</html>", None),
    ],
)
def test_json_that_is_not_strict_is_read(
    endpoint: Endpoint, server: Server, content: bytes, text: str | None
) -> None:
    """Once it has come whole; what is no JSON is not asked for again, since it is sent again as it is."""
    server.answer = lambda request: (200, {}, content)
    if text is None:
        with pytest.raises(EndpointError, match="sent no completion"):
            endpoint.complete("hi")
    else:
        assert endpoint.complete("hi")[0].text == text
    assert len(server.requests) == 1


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_who_would_go_beyond_the_rate_waits(server: Server, mode: str) -> None:
    """Requests a minute: sixty go at once, and then one a second; tries that are repeated count too."""
    endpoint = Endpoint(server.url, "m", requests_per_minute=60, concurrency=32)
    server.in_turn(busy(**{"retry-after": "0"}), completion)
    begun = time.monotonic()
    if mode == "sync":
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda _: endpoint.complete("hi"), range(61)))
    else:

        async def all_of() -> None:
            await asyncio.gather(*(endpoint.acomplete("hi") for _ in range(61)))

        asyncio.run(all_of())
    assert len(server.requests) == 62
    assert time.monotonic() - begun > 1.5
    endpoint.close()


def test_tokens_a_minute_are_counted_before_they_are_sent(server: Server) -> None:
    """Four characters are one, and each answer may have `max_tokens`; one larger than the whole rate goes alone."""
    endpoint = Endpoint(server.url, "m", tokens_per_minute=6000)
    begun = time.monotonic()
    endpoint.complete("x" * 4000, max_tokens=900, n=5)
    assert time.monotonic() - begun < 1
    endpoint.complete("x" * 400, max_tokens=500)
    assert time.monotonic() - begun > 1  # 6,000 a minute are 100 a second
    endpoint.close()


def test_a_request_larger_than_any_limit_is_counted_whatever_its_body_says(server: Server) -> None:
    """A field of one's own may take `max_tokens` away."""
    endpoint = Endpoint(server.url, "m", tokens_per_minute=6000, body={"max_tokens": None})
    assert endpoint.complete("hi")[0].text == "answer 0"
    assert server.requests[0]["max_tokens"] is None
    endpoint.close()


@pytest.mark.parametrize(
    ("reply", "text", "tokens"),
    [
        ({"choices": [{"message": {"content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "4"},
        ]}}]}, "4", (0, 0)),
        ({"choices": [{"message": {"content": None, "refusal": "I will not."}}]}, "I will not.", (0, 0)),
        ({"choices": [{"message": {"content": "a"}}], "usage": None}, "a", (0, 0)),
        ({"choices": [{"text": "a"}], "usage": {"prompt_tokens": None, "completion_tokens": -1}}, "a", (0, 0)),
        ({"choices": [{"text": "a"}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}, "a", (5, 2)),
    ],
    ids=["parts", "refusal", "no usage", "no counts", "text"],
)  # fmt: skip
def test_answers_are_read_in_the_forms_that_servers_have(
    endpoint: Endpoint, server: Server, reply: Any, text: str, tokens: tuple[int, int]
) -> None:
    """Mistral's parts without what was thought, a refusal's own words, counts that are not given."""
    server.in_turn((200, {}, json.dumps(reply).encode()))
    (answer,) = endpoint.complete("hi")
    assert (answer.text, answer.tokens_in, answer.tokens_out) == (text, *tokens)


@pytest.mark.parametrize("logprobs", [[], [-1.0, None], [-1e308, -1e308]])
def test_an_answer_whose_tokens_are_not_all_weighed_has_no_log_probability(
    server: Server, logprobs: list[float | None]
) -> None:
    """A sum without some of them would make it the likeliest of all; a record holds no sum that is no number."""
    content = [{"token": "a", "logprob": logprob} for logprob in logprobs]
    choice = {"message": {"content": "ab"}, "logprobs": {"content": content}}
    server.in_turn((200, {}, json.dumps({"choices": [choice]}).encode()))
    assert Endpoint(server.url, "m", logprobs=True).complete("hi")[0].logprob is None


def test_an_address_may_have_a_query(server: Server) -> None:
    """The path of a request stands before it, as Azure's servers want it."""
    Endpoint(f"{server.url}/deployments/d?api-version=2024-02-01", "m").complete("hi")
    assert server.paths == ["/v1/deployments/d/chat/completions?api-version=2024-02-01"]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_half_a_character_is_an_error_of_the_request(endpoint: Endpoint, server: Server, mode: str) -> None:
    """No UTF-8 holds it, so nothing is sent."""
    prompt = "a\ud83d"
    with pytest.raises(ConfigError, match="holds half of one"):
        endpoint.complete(prompt) if mode == "sync" else asyncio.run(endpoint.acomplete(prompt))
    assert server.requests == []


def test_a_reply_of_another_kind_that_is_no_text_is_an_endpoint_error(
    endpoint: Endpoint, server: Server
) -> None:
    """Of a request of one's own."""
    server.in_turn((200, {}, b'{"data": "\xff"}'))
    with pytest.raises(EndpointError, match="answered /embeddings otherwise"):
        endpoint.post("/embeddings", {"input": ["a"]}, dict)


@pytest.mark.parametrize(
    ("status", "headers", "remedy"),
    [
        (401, {}, "is api_key the right one"),
        (404, {}, "does base_url end with the version, such as /v1"),
        (200, {"content-type": "text/html"}, "does base_url end with the version, such as /v1"),
        (
            308,
            {"location": "https://elsewhere/v1/x"},
            "sends one on to https://elsewhere/v1/x, where base_url",
        ),
    ],
)
def test_a_refusal_says_what_may_be_mended(
    endpoint: Endpoint, server: Server, status: int, headers: dict[str, str], remedy: str
) -> None:
    """Where a server's own words do not."""
    server.in_turn((status, headers, b"<html>Hello</html>"))
    with pytest.raises(EndpointError, match=remedy):
        endpoint.complete("hi")
