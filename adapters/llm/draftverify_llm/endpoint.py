"""A text model behind a server, asked over HTTP: `llm.endpoint`."""

from __future__ import annotations

import asyncio
import copy
import email.utils
import json
import logging
import math
import random
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from pydantic import Field

from draftverify.errors import (
    ConfigError,
    DraftVerifyError,
    EndpointError,
    EndpointTimeout,
    NotBoughtError,
    ResourceError,
)
from draftverify.secret import Secret, note_urls, quiet, redact
from draftverify_llm.apis import APIS, BrokenOff, Logprobs, ModelServerReply, SamplingRequest, refusal_of
from draftverify_llm.bought import BoughtReplies, SingleFlight
from draftverify_llm.family import family_of_name
from draftverify_llm.requirements import check_least, need
from draftverify_llm.text import Completion, Prompt, check_sampling, read_finish

if TYPE_CHECKING:
    import ssl

    import httpx
    from pyrate_limiter import Limiter


T = TypeVar("T")
_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]+( +[\x21-\x7e]+)*")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0  # seconds
_LARGEST_REPLY = 64 << 20  # bytes
_VERSION = "does base_url end with the version, such as /v1?"

_log = quiet(logging.getLogger(__name__))
quiet(logging.getLogger("httpx"))  # it notes each request with its whole address


class Endpoint:
    """A server with OpenAI's `/chat/completions` and `/completions`, or with Anthropic's `/messages`.

    An overloaded or failing server (408, 409, 425, 429, 5xx, a broken connection, JSON that breaks off, no answer in
    time) is asked again after min(60, ½·2^k) seconds, of which a random half to whole is waited, or after what its
    Retry-After header says; one that was never reached only once. A parameter that the model refuses by name is sent as
    it wants it (`max_completion_tokens`), or left out with a warning. Any other refusal is final. Where fewer answers
    come than `n`, the others are asked for side by side.

    Args:
        base_url: up to and with the version, e.g. "http://127.0.0.1:8080/v1".
        model: the model's name on that server.
        api: whose requests it takes: "openai", as most servers do, or "anthropic".
        api_key: in a config the reference `${NAME}` to an environment variable; None for a server that asks for none.
            Spaces and line breaks around it are not sent.
        timeout_seconds: for one request, from its start to the last byte of the answer.
        retries: how many times a request is sent again.
        concurrency: how many requests may be under way at once, of threads together and of one event loop.
        requests_per_minute, tokens_per_minute: as the server allows; who would go beyond waits. A request counts as a
            token for each four characters and `max_tokens` for each answer. None: no limit.
        headers: sent with each request, beside the key's; in a config each value is a reference `${NAME}`.
        body: further fields of each request ("reasoning_effort": "low"); they stand over its settings.
        logprobs: ask for the log-probabilities of the sampled tokens, so that a completion has its `logprob`.
        top_logprobs: of turns, ask for those of so many likeliest tokens too, of which a judge's score is made.
        cache: a directory of replies that were bought: the same request, of the same seed and place among the answers,
            is not sent again, nor one for fewer answers, which are the first of those; they cost what they cost then.
            None: every request is sent.
        price_in: cost for a million prompt tokens.
        price_out: cost for a million sampled tokens.
        price_in_cached: cost for a million prompt tokens that the server has read before, as it says itself; as
            others when absent.
        family: the line of models that it is of; when absent the first word of `model`, without an owner before it, in
            lower case ("Qwen/Qwen2.5-7B-Instruct" and "qwen2.5:7b" are of "qwen2.5", "gpt-4o-mini" of "gpt").
    """

    deterministic = False
    structured = True
    writes: ClassVar[frozenset[str]] = frozenset({"cache"})

    def __init__(
        self,
        base_url: str,
        model: str,
        api: Literal["openai", "anthropic"] = "openai",
        api_key: Secret | None = None,
        timeout_seconds: float = 60.0,
        retries: int = 4,
        concurrency: int = 8,
        requests_per_minute: Annotated[int, Field(ge=1)] | None = None,
        tokens_per_minute: Annotated[int, Field(ge=1)] | None = None,
        headers: Mapping[str, Secret] = {},
        body: Mapping[str, Any] = {},
        logprobs: bool = False,
        top_logprobs: Annotated[int, Field(ge=0, le=20)] = 0,
        cache: Path | None = None,
        price_in: float = 0.0,
        price_out: float = 0.0,
        price_in_cached: float | None = None,
        family: str | None = None,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.api = api
        self.api_key = api_key
        self.timeout_seconds = timeout_seconds
        self.retries = retries
        self.concurrency = concurrency
        self.requests_per_minute = requests_per_minute
        self.tokens_per_minute = tokens_per_minute
        self.headers = headers
        self.body = body
        self.logprobs = logprobs or top_logprobs > 0
        self.top_logprobs = top_logprobs
        self.cache = cache
        self.price_in = price_in
        self.price_out = price_out
        self.price_in_cached = price_in_cached
        self._family = family
        self._sends = True
        if api not in APIS:
            raise ConfigError(f"there is no API {api!r}, but {' and '.join(APIS)}", path="api")
        self._api = APIS[api]
        self._lock = threading.Lock()
        self._refused: set[str] = set()  # parameters that the model does not take
        self._reached = False
        self._bought: BoughtReplies | None = None
        self._client: httpx.Client | None = None
        self._tls: ssl.SSLContext | None = None  # to read the certificates anew for each client takes 20 ms
        self._limiters: list[tuple[Limiter, int, bool]] = []  # with its rate, and whether that is of tokens
        self._slots = threading.BoundedSemaphore(max(1, concurrency))
        self._loop_slots: WeakKeyDictionary[Any, asyncio.Semaphore] = WeakKeyDictionary()

    def open(self) -> None:
        """Check the settings; no request is sent.

        Raises:
            ConfigError: the address is no http URL, the key cannot be sent, or a number is out of its range.
            ResourceError: the package httpx is missing.
        """
        if not self._sends:
            return
        note_urls(self.base_url)
        key = Secret(self.api_key or "").strip()
        need("httpx", doing=f"asking {self.base_url}", extra="endpoint")
        import httpx

        if not re.match(r"https?://[^/\s]+\S*$", self.base_url):
            raise ConfigError(
                f"must be an http:// or https:// address, not {self.base_url!r}", path="base_url"
            )
        try:
            httpx.Request("POST", self.base_url)
        except (httpx.InvalidURL, ValueError) as error:
            raise ConfigError(f"{self.base_url!r} is no address: {error}", path="base_url") from error
        if beyond := re.search(r"/(chat/completions|completions|messages)/?$", self.base_url):
            raise ConfigError(
                f"goes up to and with the version: leave {beyond[0]} out of {self.base_url!r}",
                path="base_url",
            )
        for name, value in self.headers.items():
            if (
                not isinstance(value, str)
                or not _HEADER.fullmatch(name)
                or not _HEADER_VALUE.fullmatch(value)
            ):
                raise ConfigError("no HTTP header is called so or holds that", path=f"headers.{name}")
            Secret(value)  # from here on no message shows it
        if self.logprobs and not self._api.logprobs:
            raise ConfigError(f"the API of {self.api} gives no log-probabilities", path="logprobs")
        if named := sorted({"messages", "prompt", "model", "n", "stream"} & self.body.keys()):
            raise ConfigError("this is the request's own", path=f"body.{named[0]}")
        if re.search(r"[^\x21-\x7e]", key):
            raise ConfigError(
                "holds a space, a line break or a letter that no HTTP header carries; it is to be the key alone",
                path="api_key",
            )
        if not 0 < self.timeout_seconds < math.inf:
            raise ConfigError(
                f"is {self.timeout_seconds}; a number above 0 is needed", path="timeout_seconds"
            )
        rates = {"requests_per_minute": self.requests_per_minute, "tokens_per_minute": self.tokens_per_minute}
        prices = {name: getattr(self, name) for name in ("price_in", "price_out", "price_in_cached")}
        check_least(1, concurrency=self.concurrency, **rates)
        check_least(0, retries=self.retries, **prices)
        with self._lock:
            if not self._limiters:
                self._limiters = [
                    (_limiter(rate), rate, name == "tokens_per_minute")
                    for name, rate in rates.items()
                    if rate
                ]
            if self._bought is None and self.cache is not None:
                self._bought = BoughtReplies(self.cache)
            if self._client is None:
                self._tls = self._tls or httpx.create_ssl_context()
                self._client = httpx.Client(**self._connection())

    def check(self) -> None:
        """As `open`, which sends nothing."""
        self.open()

    def from_cache(self) -> Endpoint:
        """The same model, which answers from its cache alone and sends nothing.

        What was not bought is a NotBoughtError. A file of replies that cannot be read is as none, with a warning.
        """
        note_urls(self.base_url)
        model = copy.copy(self)
        model._sends, model._client, model._bought = False, None, None
        if self.cache is not None:
            try:
                model._bought = BoughtReplies(self.cache, writes=False)
            except ResourceError as error:
                _log.warning("nothing is answered from the cache of %s: %s", self._place(), error)
        return model

    @property
    def cached(self) -> bool:
        """Whether it answers from its cache alone."""
        return not self._sends and self._bought is not None

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        with self._lock:
            client, self._client = self._client, None
            bought, self._bought = self._bought, None
        for connection in (client, bought):
            if connection is not None:
                connection.close()

    @property
    def identity(self) -> str:
        """By what it answers: of its key, its limits and its prices nothing; see `model_identity`."""
        from draftverify_llm.identity import model_identity

        return model_identity(self)

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
        schema: Mapping[str, Any] | None = None,
    ) -> list[Completion]:
        """Sample `n` answers; see `TextModel.complete`.

        Where a server gives them one by one, and fails at some, there are fewer.

        Args:
            prompt, n, max_tokens, temperature, top_p, stop, seed, chat: as there.
            schema: the JSON schema that answers are to follow (`response_format`), of turns alone.

        Raises:
            EndpointTimeout: no answer in time, at the last try too.
            EndpointError: the server refused, or what it sent is not a completion.
        """
        sampling = SamplingRequest(prompt, max_tokens, temperature, top_p, stop, seed, chat, schema)
        check_sampling(n, max_tokens, temperature, top_p, stop)
        completions = self._asked(sampling, n, 0) if self._api.counts or n == 1 else []
        if missing := range(len(completions), n):
            with ThreadPoolExecutor(min(len(missing), self.concurrency)) as pool:
                coming = [pool.submit(self._asked, sampling, 1, place) for place in missing]
            completions += self._came(
                [future.exception() or future.result() for future in coming], completions
            )
        return completions

    async def acomplete(self, prompt: Prompt, *, n: int = 1, **settings: Any) -> list[Completion]:
        """The same, awaited. Cancelling it closes the connection, which tells the server to stop."""
        sampling = SamplingRequest(prompt, **settings)
        check_sampling(n, sampling.max_tokens, sampling.temperature, sampling.top_p, sampling.stop)
        completions = await self._aasked(sampling, n, 0) if self._api.counts or n == 1 else []
        missing = range(len(completions), n)
        coming = (self._aasked(sampling, 1, place) for place in missing)
        completions += self._came(await asyncio.gather(*coming, return_exceptions=True), completions)
        return completions

    def _came(
        self, answers: Sequence[list[Completion] | BaseException], before: Sequence[Completion]
    ) -> list[Completion]:
        """What came of requests for the missing answers: those that failed lose nothing of what was paid for."""
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in failed:
            if not isinstance(error, DraftVerifyError) or isinstance(error, NotBoughtError):
                raise error
        came = [one for answer in answers if not isinstance(answer, BaseException) for one in answer]
        if failed and not (before or came):
            raise failed[0]
        if failed:
            _log.warning(
                "%s gave %d of %d answers: %s",
                self._place(), len(before) + len(came), len(before) + len(answers), failed[0],
            )  # fmt: skip
        return came

    def price(self, completions: Sequence[Completion]) -> float:
        """The cost of these answers: each kind of tokens times its price, for a million."""
        tokens_in = sum(completion.tokens_in for completion in completions)
        tokens_out = sum(completion.tokens_out for completion in completions)
        cached = sum(completion.tokens_in_cached for completion in completions)
        price_cached = self.price_in if self.price_in_cached is None else self.price_in_cached
        paid_in = (tokens_in - cached) * self.price_in + cached * price_cached
        return (paid_in + tokens_out * self.price_out) / 1e6

    def post(self, path: str, body: Mapping[str, Any], form: type[T]) -> T:
        """A request of another kind, such as "/embeddings", with this server's key, retries and limits; none is kept.

        Args:
            path: below `base_url`.
            body: the request's fields beside the model.
            form: a msgspec type that the reply is read as.

        Raises:
            EndpointError: it was refused, or the reply is something else.
        """

        def read(response: httpx.Response, data: bytes) -> T:
            whole = self._accepted(response, data)
            try:
                return msgspec.json.decode(whole, type=form)
            except ValueError as error:
                raise EndpointError(
                    f"{self._place()} answered {path} otherwise ({error}): {self._said(response, whole)}"
                ) from error

        try:
            return self._send(path, {"model": self.model, **body, **self.body}, read)
        except _NotTaken as refused:
            raise refused.final from None

    def _asked(self, sampling: SamplingRequest, n: int, place: int) -> list[Completion]:
        """The answers to one request, of which `place` is the first's place among all."""
        with self._flight(self._key(sampling, place), n) as flight:
            if flight.other is not None:
                wait([flight.other], self.timeout_seconds)
            if (answers := self._kept(flight)) is not None:
                return answers[:n]
            while True:
                path, body = self._request(sampling, n, place)
                try:
                    reply = self._send(path, body, self._judge)
                except _NotTaken as refused:
                    self._leave_out(refused, body)
                    continue
                flight.keep(msgspec.json.encode(reply))
                return self._answers(reply, n)

    async def _aasked(self, sampling: SamplingRequest, n: int, place: int) -> list[Completion]:
        with self._flight(self._key(sampling, place), n) as flight:
            if flight.other is not None:
                await asyncio.wait([asyncio.wrap_future(flight.other)], timeout=self.timeout_seconds)
            if (answers := self._kept(flight)) is not None:
                return answers[:n]
            while True:
                path, body = self._request(sampling, n, place)
                try:
                    reply = await self._asend(path, body)
                except _NotTaken as refused:
                    self._leave_out(refused, body)
                    continue
                flight.keep(msgspec.json.encode(reply))
                return self._answers(reply, n)

    def _flight(self, asked: Mapping[str, Any], n: int) -> SingleFlight:
        if self.cache is not None:
            self.open()
        return SingleFlight(self._bought, asked, n)

    def _kept(self, flight: SingleFlight) -> list[Completion] | None:
        """The answers that were bought, perhaps more than are asked for; None too where what stands there is none."""
        kept = flight.kept()
        try:
            reply = None if kept is None else msgspec.json.decode(kept.reply, type=ModelServerReply)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if kept is None or reply is None or not reply.choices:
            return None
        return self._answers(reply, kept.n, cached=True)

    def _key(self, sampling: SamplingRequest, place: int) -> dict[str, Any]:
        """All that a reply depends on, the seed too where the model takes none: another seed is another try."""
        return {
            **sampling._asdict(),
            "place": place,
            "logprobs": self.top_logprobs or self.logprobs,
            "body": dict(self.body),
            "headers": dict(self.headers),
            "model": self.model,
            "base_url": self.base_url,
            "api": self.api,
        }

    def _request(self, sampling: SamplingRequest, n: int, place: int) -> tuple[str, dict[str, Any]]:
        path, fields = self._api.request(sampling, n, place, self.logprobs, self.top_logprobs)
        body = {name: value for name, value in fields.items() if name not in self._refused}
        if "max_tokens" in self._refused:
            body["max_completion_tokens"] = sampling.max_tokens
        return path, {"model": self.model, **body, **self.body}

    def _leave_out(self, refused: _NotTaken, body: Mapping[str, Any]) -> None:
        """Note a parameter that the model does not take; the error, where it was not one that can be left out."""
        if refused.parameter not in body or refused.parameter in self.body:
            raise refused.final
        with self._lock:
            known = refused.parameter in self._refused
            self._refused.add(refused.parameter)
        if not known and refused.parameter != "max_tokens":
            _log.warning(
                "%s takes no %s, which is left out: %s", self._place(), refused.parameter, refused.final
            )

    def _answers(self, reply: ModelServerReply, count: int, *, cached: bool = False) -> list[Completion]:
        """The completions of a reply, at most `count`."""
        choices = sorted(reply.choices, key=lambda choice: choice.index)[:count]
        tokens_in, tokens_in_cached, tokens_out = reply.tokens
        share, remainder = divmod(tokens_out, len(choices))
        completions = []
        for i, choice in enumerate(choices):
            logprobs = choice.logprobs or Logprobs()
            logprob, weighed = logprobs.sum()
            completions.append(
                Completion(
                    text=choice.answer,
                    tokens_in=tokens_in if i == 0 else 0,
                    tokens_out=share + (i < remainder),
                    finish_reason=read_finish(choice.finish_reason),
                    logprob=logprob,
                    cached=cached,
                    tokens_in_cached=tokens_in_cached if i == 0 else 0,
                    first=logprobs.first(),
                    id=str(reply.id or ""),
                    model=reply.model or "",
                    weighed=weighed,
                )
            )
        return completions

    def _send(self, path: str, body: dict[str, Any], read: Callable[[httpx.Response, bytes], T]) -> T:
        self._may_send()
        import httpx

        client = self._client
        assert client is not None
        with self._slots:
            for attempt in range(self.retries + 1):
                try:
                    for limiter, weight in self._weighed(body):
                        limiter.try_acquire(weight=weight)
                    deadline = time.monotonic() + self.timeout_seconds
                    with client.stream("POST", self._url(path), content=_as_json(body)) as response:
                        data = bytearray()
                        for chunk in response.iter_raw():
                            _append(data, chunk)
                            if time.monotonic() > deadline:
                                raise httpx.ReadTimeout("the answer took too long")
                    return read(response, bytes(data))
                except (_Again, httpx.RequestError) as trouble:
                    time.sleep(self._wait(trouble, attempt))
        raise AssertionError("the last attempt raises")

    async def _asend(self, path: str, body: dict[str, Any]) -> ModelServerReply:
        self._may_send()
        import httpx

        loop = asyncio.get_running_loop()
        slots = self._loop_slots.setdefault(loop, asyncio.Semaphore(max(1, self.concurrency)))
        # A client for the call alone: a pool belongs to its event loop, and nobody could close it after the loop.
        async with slots, httpx.AsyncClient(**self._connection()) as client:
            for attempt in range(self.retries + 1):
                try:
                    for limiter, weight in self._weighed(body):
                        await limiter.try_acquire_async(weight=weight)
                    return await asyncio.wait_for(self._post(client, path, body), self.timeout_seconds)
                except (TimeoutError, _Again, httpx.RequestError) as trouble:
                    await asyncio.sleep(self._wait(trouble, attempt))
        raise AssertionError("the last attempt raises")

    def _may_send(self) -> None:
        if not self._sends:
            raise NotBoughtError(f"nothing is sent to {self._place()} here, and this was not bought before")
        self.open()

    def _weighed(self, body: Mapping[str, Any]) -> Iterator[tuple[Limiter, int]]:
        """Each limit, and how much of it a request takes; one larger than the whole rate goes alone."""
        for limiter, rate, of_tokens in self._limiters:
            yield limiter, min(_tokens_of(body), rate) if of_tokens else 1

    async def _post(self, client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> ModelServerReply:
        async with client.stream("POST", self._url(path), content=_as_json(body)) as response:
            data = bytearray()
            async for chunk in response.aiter_raw():
                _append(data, chunk)
        return self._judge(response, data)

    def _accepted(self, response: httpx.Response, data: bytes) -> bytes:
        """An answer's bytes; _Again when it is worth asking again, EndpointError when it is not."""
        self._reached = True
        try:
            data = _unfolded(data, response.headers.get("content-encoding", "identity").strip().lower())
        except BrokenOff as error:
            raise _again(response, str(error)) from error
        if response.status_code in _AGAIN:
            raise _again(response, self._said(response, data))
        if not response.is_success:
            final = EndpointError(
                f"{self._place()} answered {response.status_code}: {self._said(response, data)}{_remedy(response)}"
            )
            raise final if (parameter := self._api.refused(data)) is None else _NotTaken(parameter, final)
        return data

    def _judge(self, response: httpx.Response, data: bytes) -> ModelServerReply:
        """The completion in an answer, as of `_accepted`."""
        data = self._accepted(response, data)
        try:
            reply = self._api.read(data)
        except BrokenOff as error:
            raise _again(response, f"no whole JSON: {self._said(response, data)}") from error
        except (ValueError, RecursionError) as error:
            said = self._said(response, data)
            refusal = refusal_of(data)
            if refusal is not None and isinstance(refusal.code, int) and refusal.code in _AGAIN:
                # A router that answers 200 for another server's 502.
                raise _again(response, said, refusal.code) from error
            remedy = f"; {_VERSION}" if data.lstrip().startswith(b"<") else ""  # a page of HTML
            raise EndpointError(f"{self._place()} sent no completion ({error}): {said}{remedy}") from error
        if not reply.choices:
            raise _again(response, "a completion without choices")
        reply.id = _request_id(response) or reply.id
        return reply

    def _wait(self, trouble: Exception, attempt: int) -> float:
        """Seconds to wait before the next attempt; raises the final error when there is none."""
        import httpx

        unheard = isinstance(trouble, httpx.ConnectError) and not self._reached and attempt > 0
        waited = f"at try {attempt + 1}" + (", nor before" if unheard else f" of {self.retries + 1}")
        final: EndpointError
        if isinstance(trouble, _Again):
            what = "sent" if trouble.status == 200 else f"answered {trouble.status}"
            final = EndpointError(f"{self._place()} {what} {waited}: {trouble.message}")
        elif isinstance(trouble, (httpx.TimeoutException, asyncio.TimeoutError)):
            final = EndpointTimeout(
                f"{self._place()} did not answer within {self.timeout_seconds:g} s {waited}"
            )
        else:
            final = EndpointError(
                f"{self._place()} could not be reached {waited} ({type(trouble).__name__}: {trouble})"
            )
        delay = trouble.retry_after if isinstance(trouble, _Again) else None
        if attempt >= self.retries or unheard or (delay is not None and delay > _LONGEST_WAIT):
            raise final from trouble
        if delay is not None:
            return delay
        return min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**attempt) * random.uniform(0.5, 1.0)

    def _place(self) -> str:
        return f"{self.base_url} (model {self.model})"

    def _url(self, path: str) -> str:
        base, mark, query = self.base_url.partition("?")
        return base.rstrip("/") + path + mark + query

    def _connection(self) -> dict[str, Any]:
        import httpx

        headers = {"Accept-Encoding": "gzip", "Content-Type": "application/json", **self._api.headers()}
        headers |= self.headers
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key.strip()}"
        # httpx would let 100 requests go at once, and close all but 20 of their connections.
        limits = httpx.Limits(max_connections=self.concurrency)
        return {"headers": headers, "timeout": self.timeout_seconds, "limits": limits, "verify": self._tls}

    def _said(self, response: httpx.Response, data: bytes) -> str:
        """The server's own words, short and on one line, and by what its people find the request."""
        refusal = refusal_of(data)
        text = data[:2000].decode(errors="replace") if refusal is None else refusal.message
        # Some servers echo the key: it goes before the text is cut, since half a key is too much of it.
        words = redact(" ".join(text.split()))[:300] or "(nothing)"
        request = _request_id(response)
        return f"{words} (request {redact(request)[:100]})" if request else words


class _Again(Exception):
    """An answer after which the same request may be sent again."""

    def __init__(self, status: int, message: str, retry_after: float | None) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.retry_after = retry_after


class _NotTaken(Exception):
    """The model does not take a parameter."""

    def __init__(self, parameter: str, final: EndpointError) -> None:
        super().__init__(parameter)
        self.parameter = parameter
        self.final = final


def _as_json(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise ConfigError(
            f"the request cannot be written as JSON ({error}); a text that was cut inside a character, or decoded "
            "wrongly, holds half of one, and a number may be none"
        ) from error


def _request_id(response: httpx.Response) -> str:
    """By what a server's people find a request: OpenAI's header, or Anthropic's; "" where it says nothing."""
    request: str = response.headers.get("x-request-id") or response.headers.get("request-id") or ""
    return request


def _remedy(response: httpx.Response) -> str:
    """What may be mended where a server's own words often do not say it."""
    if location := response.headers.get("location", ""):
        return f"; it sends one on to {redact(location)[:200]}, where base_url may have to lead"
    remedy = {401: "is api_key the right one?", 404: _VERSION}.get(response.status_code)
    return f"; {remedy}" if remedy else ""


def _tokens_of(body: Mapping[str, Any]) -> int:
    """As how many tokens a request counts: one for each four characters, and the most that its answers may have."""
    names = ("messages", "prompt", "system", "input", "query", "documents")
    sent = len(json.dumps([body[name] for name in names if name in body], ensure_ascii=False))
    longest: int = body.get("max_tokens") or body.get("max_completion_tokens") or 0
    return max(1, sent // 4 + int(body.get("n", 1)) * longest)


def _limiter(per_minute: int) -> Limiter:
    need("pyrate_limiter", doing="keeping to a rate", extra="endpoint")
    from pyrate_limiter import Duration, Limiter, Rate, StateBucket

    return Limiter(StateBucket([Rate(per_minute, Duration.MINUTE)]))


def _append(data: bytearray, chunk: bytes) -> None:
    if len(data) + len(chunk) > _LARGEST_REPLY:
        raise _too_large()
    data += chunk


def _unfolded(data: bytes, encoding: str) -> bytes:
    """What a compressed answer says; never more of it than an answer may hold stands in memory.

    Raises:
        BrokenOff: it ends too early.
        EndpointError: it is damaged, too large, or compressed in another way.
    """
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
        raise BrokenOff("a compressed answer that ends too early")
    return text


def _too_large() -> EndpointError:
    return EndpointError(
        f"the server's answer is larger than {_LARGEST_REPLY >> 20} MB, which no completion is"
    )


def _again(response: httpx.Response, message: str, status: int | None = None) -> _Again:
    """That an answer is worth asking again; `status` is another server's, where this one handed it on."""
    later = _retry_after(response.headers.get("retry-after"))
    return _Again(response.status_code if status is None else status, message, later)


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
    except (ValueError, OverflowError):
        return None
