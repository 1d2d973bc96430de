"""A text model behind an OpenAI-compatible server: `llm.endpoint`."""

from __future__ import annotations

import asyncio
import email.utils
import logging
import random
import re
import threading
import time
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from draftverify.errors import ConfigError, EndpointError, EndpointTimeout
from draftverify.secret import Secret, note_urls, quiet, redact
from draftverify_llm.family import family_of_name
from draftverify_llm.text import Completion, Prompt, as_messages, check_sampling, only_text, read_finish
from draftverify_llm.weights import need

if TYPE_CHECKING:
    import httpx

__all__ = ["Endpoint"]

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0  # seconds
_LARGEST_REPLY = 64 << 20  # bytes

quiet(logging.getLogger("httpx"))  # it notes each request with its whole address


class Endpoint:
    """Any server with `/chat/completions` and `/completions` as OpenAI defined them.

    An overloaded or failing server (408, 409, 425, 429, 5xx, a broken connection, no answer in time) is asked again
    after min(60, ½·2^k) seconds, of which a random half to whole is waited, or after what its Retry-After header
    says. Any other refusal is final.

    Args:
        base_url: up to and with the version, e.g. "http://127.0.0.1:8080/v1".
        model: the model's name on that server.
        api_key: in a config the reference `${NAME}` to an environment variable; None for a server that asks for none.
            Spaces and line breaks around it are not sent.
        timeout_seconds: for one request, from its start to the last byte of the answer.
        retries: how many times a request is sent again.
        concurrency: how many requests may be under way at once, of threads together and of one event loop.
        price_in: cost units for a million prompt tokens.
        price_out: cost units for a million sampled tokens.
        family: the line of models that it is of; when absent the first word of `model`, without an owner before it, in
            lower case ("Qwen/Qwen2.5-7B-Instruct" and "qwen2.5:7b" are of "qwen2.5", "gpt-4o-mini" of "gpt").
    """

    deterministic = False

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: Secret | None = None,
        timeout_seconds: float = 60.0,
        retries: int = 4,
        concurrency: int = 8,
        price_in: float = 0.0,
        price_out: float = 0.0,
        family: str | None = None,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.api_key = api_key
        self.timeout_seconds = timeout_seconds
        self.retries = retries
        self.concurrency = concurrency
        self.price_in = price_in
        self.price_out = price_out
        self._family = family
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._slots = threading.BoundedSemaphore(max(1, concurrency))
        self._loop_slots: WeakKeyDictionary[Any, asyncio.Semaphore] = WeakKeyDictionary()

    def open(self) -> None:
        """Check the settings; no request is sent.

        Raises:
            ConfigError: the address is no http URL, the key cannot be sent, or a number is out of its range.
            ResourceError: the package httpx is missing.
        """
        note_urls(self.base_url)
        key = Secret(self.api_key or "").strip()
        need("httpx", doing=f"asking {self.base_url}")
        import httpx

        if not re.match(r"https?://[^/\s]+\S*$", self.base_url):
            raise ConfigError(f"base_url must be an http:// or https:// address, not {self.base_url!r}")
        if re.search(r"[^\x21-\x7e]", key):
            raise ConfigError(
                "holds a space, a line break or a letter that no HTTP header carries; it is to be the key alone",
                path="api_key",
            )
        if self.timeout_seconds <= 0 or self.retries < 0 or self.concurrency < 1:
            raise ConfigError(
                "timeout_seconds must be above 0, retries at least 0 and concurrency at least 1"
            )
        with self._lock:
            if self._client is None:
                self._client = httpx.Client(**self._connection())

    def check(self) -> None:
        """As `open`, which sends nothing."""
        self.open()

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def family(self) -> str | None:
        """The line of models that it is of: as it was said, else the first word of the model's name."""
        return self._family if self._family is not None else family_of_name(self.model)

    def complete(
        self,
        prompt: Prompt,
        *,
        n: int = 1,
        max_tokens: int = 256,
        temperature: float = 1.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        seed: int | None = None,
        chat: bool = True,
    ) -> list[Completion]:
        """Sample `n` answers; see `TextModel.complete`. A server that gives fewer than asked is asked again.

        Raises:
            EndpointTimeout: no answer in time, at the last try too.
            EndpointError: the server refused, or what it sent is not a completion.
        """
        completions: list[Completion] = []
        while len(completions) < n:
            path, body = self._request(
                prompt, n, max_tokens, temperature, top_p, stop, seed, chat, len(completions)
            )
            completions += self._answers(self._send(path, body), n - len(completions))
        return completions

    async def acomplete(
        self,
        prompt: Prompt,
        *,
        n: int = 1,
        max_tokens: int = 256,
        temperature: float = 1.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        seed: int | None = None,
        chat: bool = True,
    ) -> list[Completion]:
        """The same, awaited. Cancelling it closes the connection, which tells the server to stop."""
        completions: list[Completion] = []
        while len(completions) < n:
            path, body = self._request(
                prompt, n, max_tokens, temperature, top_p, stop, seed, chat, len(completions)
            )
            completions += self._answers(await self._asend(path, body), n - len(completions))
        return completions

    def price(self, completions: Sequence[Completion]) -> float:
        """Cost units of these answers: (tokens in · price_in + tokens out · price_out) / 10⁶."""
        tokens_in = sum(completion.tokens_in for completion in completions)
        tokens_out = sum(completion.tokens_out for completion in completions)
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1e6

    def _request(
        self, prompt: Prompt, n: int, max_tokens: int, temperature: float, top_p: float,
        stop: Sequence[str], seed: int | None, chat: bool, have: int,
    ) -> tuple[str, dict[str, Any]]:  # fmt: skip
        check_sampling(n, max_tokens, temperature, top_p)
        body: dict[str, Any] = {"model": self.model, "max_tokens": max_tokens, "temperature": temperature}
        # Servers differ in what they know; what is not asked for is not sent.
        if n - have > 1:
            body["n"] = n - have
        if top_p < 1:
            body["top_p"] = top_p
        if stop:
            body["stop"] = list(stop)
        if seed is not None:
            body["seed"] = (seed + have) % 2**31
        if chat:
            return "/chat/completions", {**body, "messages": as_messages(prompt)}
        return "/completions", {**body, "prompt": only_text(prompt)}

    def _answers(self, reply: _Reply, count: int) -> list[Completion]:
        choices = sorted(reply.choices, key=lambda choice: choice.index)[:count]
        share, remainder = divmod(reply.usage.completion_tokens, len(choices))
        return [
            Completion(
                text=choice.text
                if choice.text is not None
                else (choice.message.content if choice.message else "") or "",
                tokens_in=reply.usage.prompt_tokens if i == 0 else 0,
                tokens_out=share + (i < remainder),
                finish_reason=read_finish(choice.finish_reason),
            )
            for i, choice in enumerate(choices)
        ]

    def _send(self, path: str, body: dict[str, Any]) -> _Reply:
        self.open()
        import httpx

        client = self._client
        assert client is not None
        with self._slots:
            for attempt in range(self.retries + 1):
                try:
                    deadline = time.monotonic() + self.timeout_seconds
                    with client.stream("POST", self._url(path), json=body) as response:
                        data = bytearray()
                        for chunk in response.iter_raw():
                            _append(data, chunk)
                            if time.monotonic() > deadline:
                                raise httpx.ReadTimeout("the answer took too long")
                    return self._judge(response, data)
                except (_Again, httpx.RequestError) as trouble:
                    time.sleep(self._wait(trouble, attempt))
        raise AssertionError("the last attempt raises")

    async def _asend(self, path: str, body: dict[str, Any]) -> _Reply:
        self.open()
        import httpx

        loop = asyncio.get_running_loop()
        slots = self._loop_slots.setdefault(loop, asyncio.Semaphore(max(1, self.concurrency)))
        # A client for the call alone: a pool belongs to its event loop, and nobody could close it after the loop.
        async with slots, httpx.AsyncClient(**self._connection()) as client:
            for attempt in range(self.retries + 1):
                try:
                    return await asyncio.wait_for(self._post(client, path, body), self.timeout_seconds)
                except (_Again, httpx.RequestError, asyncio.TimeoutError) as trouble:
                    await asyncio.sleep(self._wait(trouble, attempt))
        raise AssertionError("the last attempt raises")

    async def _post(self, client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> _Reply:
        async with client.stream("POST", self._url(path), json=body) as response:
            data = bytearray()
            async for chunk in response.aiter_raw():
                _append(data, chunk)
        return self._judge(response, data)

    def _judge(self, response: httpx.Response, data: bytes) -> _Reply:
        """The reply in an answer; _Again when it is worth asking again, EndpointError when it is not."""
        data = _unfolded(data, response.headers.get("content-encoding", "identity").strip().lower())
        if response.status_code in _AGAIN:
            raise _Again(
                response.status_code, self._said(data), _retry_after(response.headers.get("retry-after"))
            )
        if not response.is_success:
            raise EndpointError(f"{self._place()} answered {response.status_code}: {self._said(data)}")
        try:
            reply = msgspec.json.decode(data, type=_Reply)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise EndpointError(
                f"{self._place()} sent no completion ({error}): {self._said(data)}"
            ) from error
        if not reply.choices:
            raise EndpointError(f"{self._place()} sent a completion without choices")
        return reply

    def _wait(self, trouble: Exception, attempt: int) -> float:
        """Seconds to wait before the next attempt; raises the final error when there is none."""
        import httpx

        waited = f"at try {attempt + 1} of {self.retries + 1}"
        final: EndpointError
        if isinstance(trouble, _Again):
            final = EndpointError(f"{self._place()} answered {trouble.status} {waited}: {trouble.message}")
        elif isinstance(trouble, (httpx.TimeoutException, asyncio.TimeoutError)):
            final = EndpointTimeout(
                f"{self._place()} did not answer within {self.timeout_seconds:g} s {waited}"
            )
        else:
            final = EndpointError(
                f"{self._place()} could not be reached {waited} ({type(trouble).__name__}: {trouble})"
            )
        delay = trouble.retry_after if isinstance(trouble, _Again) else None
        if attempt >= self.retries or (delay is not None and delay > _LONGEST_WAIT):
            raise final from trouble
        if delay is not None:
            return delay
        return min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**attempt) * random.uniform(0.5, 1.0)

    def _place(self) -> str:
        return f"{self.base_url} (model {self.model})"

    def _url(self, path: str) -> str:
        return self.base_url.rstrip("/") + path

    def _connection(self) -> dict[str, Any]:
        headers = {"Accept-Encoding": "gzip"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key.strip()}"
        return {"headers": headers, "timeout": self.timeout_seconds}

    def _said(self, data: bytes) -> str:
        """The server's own words, short and on one line."""
        try:
            text = msgspec.json.decode(data, type=_RefusedReply).error.message
        except (msgspec.DecodeError, UnicodeDecodeError):
            text = data[:2000].decode(errors="replace")
        # Some servers echo the key: it goes before the text is cut, since half a key is too much of it.
        return redact(" ".join(text.split()))[:300] or "(nothing)"


class _Again(Exception):
    """An answer after which the same request may be sent again."""

    def __init__(self, status: int, message: str, retry_after: float | None) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.retry_after = retry_after


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    message: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Reply(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _Problem(msgspec.Struct):
    message: str


class _RefusedReply(msgspec.Struct):
    error: _Problem


def _append(data: bytearray, chunk: bytes) -> None:
    if len(data) + len(chunk) > _LARGEST_REPLY:
        raise _too_large()
    data += chunk


def _unfolded(data: bytes, encoding: str) -> bytes:
    """What a compressed answer says; never more of it than an answer may hold stands in memory."""
    if encoding in ("", "identity") or not data:
        return data
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise EndpointError(
            f"the server's answer is compressed as {encoding[:40]!r}, which was not asked for"
        )
    folded = zlib.decompressobj(wbits=47)  # gzip or zlib, as its first bytes say
    try:
        text = folded.decompress(data, _LARGEST_REPLY + 1)
    except zlib.error as error:
        raise EndpointError(f"the server's compressed answer is damaged: {error}") from error
    if len(text) > _LARGEST_REPLY:
        raise _too_large()
    if not folded.eof:
        raise EndpointError("the server's compressed answer ends too early")
    return text


def _too_large() -> EndpointError:
    return EndpointError(
        f"the server's answer is larger than {_LARGEST_REPLY >> 20} MB, which no completion is"
    )


def _retry_after(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks for; it may give seconds or a date (RFC 9110, 10.2.3)."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
