"""The endpoint against a real server on this machine: retries, limits, deadlines, accounts, cancellation."""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import gzip
import json
import logging
import threading
import time
import traceback
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from draftverify.errors import ConfigError, EndpointError, EndpointTimeout
from draftverify.secret import Secret
from draftverify_llm import Endpoint, TextModel

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
    """Three answers from a server that gives one at a time: three requests, with seeds of their own."""
    server.answer = lambda request: completion({**request, "n": 1})
    made = endpoint.complete("hi", n=3, seed=10)
    assert len(made) == 3
    assert [request["seed"] for request in server.requests] == [10, 11, 12]
    assert sum(each.tokens_in for each in made) == 21


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("status", [429, 500, 503])
def test_overload_is_tried_again(endpoint: Endpoint, server: Server, status: int, mode: str) -> None:
    """Two refusals and then an answer is an answer."""
    server.in_turn(busy(status), busy(status), completion)
    made = endpoint.complete("hi") if mode == "sync" else asyncio.run(endpoint.acomplete("hi"))
    assert made[0].text == "answer 0"
    assert len(server.requests) == 3


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
        date = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
        wait = "1" if form == "seconds" else email.utils.format_datetime(date, usegmt=True)
        return 429, {"retry-after": wait}, b""

    def second(request: Any) -> Any:
        times.append(time.monotonic())
        return completion(request)

    server.in_turn(first, second)
    endpoint.complete("hi")
    assert 0.95 <= times[1] - times[0] < 5


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
    b'{"choices": []}',
    b'{"choices": [{"index": "a"}]}',
    b'{"choices": [{"message": {"content": 3}}]}',
    b'{"choices": [{}], "usage": {"prompt_tokens": "many"}}',
]


@pytest.mark.parametrize("body", MALFORMED)
def test_what_is_no_completion_is_an_endpoint_error(endpoint: Endpoint, server: Server, body: bytes) -> None:
    """Malformed answers are refused once, never a traceback of the decoder's."""
    server.in_turn((200, {}, body))
    with pytest.raises(EndpointError, match="sent"):
        endpoint.complete("hi")
    assert len(server.requests) == 1


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
    for name, folded in (("gzip", body), ("gzip", whole[:-12]), ("gzip, gzip", whole), ("br", body)):
        server.in_turn((status, {**headers, "content-encoding": name}, folded))
        with pytest.raises(EndpointError, match="compressed"):
            endpoint.complete("hi")


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
     {"retries": -1}, {"timeout_seconds": 0.0}],
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
