"""What model servers are sent and what they send: OpenAI's chat and text completions, and Anthropic's messages.

An API writes a request as its server reads it, and reads a reply into one form, which the cache of replies keeps.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple, Protocol

import msgspec

from draftverify.errors import ConfigError
from draftverify_llm.text import Prompt, as_messages, only_text


class SamplingRequest(NamedTuple):
    """What is asked, but for how many answers; as of `Endpoint.complete`."""

    prompt: Prompt
    max_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 1.0
    stop: Sequence[str] = ()
    seed: int | None = None
    chat: bool = True
    schema: Mapping[str, Any] | None = None


class _TopLogprob(msgspec.Struct):
    token: str = ""
    logprob: float | None = None


class _TokenLogprob(msgspec.Struct):
    logprob: float | None = None
    top_logprobs: list[_TopLogprob] | None = None


class Logprobs(msgspec.Struct):
    """Of `/chat/completions` under `content`, of `/completions` under `token_logprobs`."""

    content: list[_TokenLogprob] | None = None
    token_logprobs: list[float | None] | None = None

    def sum(self) -> tuple[float | None, int]:
        """The log-probability, and of how many tokens; None where one has none: the others are too likely."""
        logprobs = self.token_logprobs or [token.logprob for token in self.content or ()]
        known = [logprob for logprob in logprobs if logprob is not None]
        total = sum(known) if known and len(known) == len(logprobs) else math.nan
        return total if math.isfinite(total) else None, len(logprobs)

    def first(self) -> tuple[tuple[str, float], ...]:
        """The likeliest first tokens."""
        top = self.content[0].top_logprobs if self.content else None
        return tuple((entry.token, entry.logprob) for entry in top or () if entry.logprob is not None)


class _MessagePart(msgspec.Struct):
    type: str = ""
    text: str | None = None


def _text_of(parts: Sequence[_MessagePart] | None) -> str:
    """What was written, without what was thought before it."""
    return "".join(part.text or "" for part in parts or () if part.type == "text")


class _ReplyMessage(msgspec.Struct):
    """Some servers send an answer in parts; a refusal to answer stands beside the content."""

    content: str | list[_MessagePart] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    message: _ReplyMessage | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None

    @property
    def answer(self) -> str:
        """Its text, wherever it stands."""
        if self.text is not None or self.message is None:
            return self.text or ""
        content = self.message.content
        return (_text_of(content) if isinstance(content, list) else content) or self.message.refusal or ""


class _PromptTokens(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptTokens | None = None


class ModelServerReply(msgspec.Struct):
    """A reply, in OpenAI's form."""

    choices: list[_Choice]
    usage: _Usage | None = None
    id: str | int | None = None
    model: str | None = None

    @property
    def tokens(self) -> tuple[int, int, int]:
        """Of the prompt, those of them that the server had read before, and of all answers; 0 where it does not say."""
        usage = self.usage or _Usage()
        details = usage.prompt_tokens_details or _PromptTokens()
        counts = usage.prompt_tokens, details.cached_tokens, usage.completion_tokens
        tokens_in, cached, tokens_out = (max(0, count or 0) for count in counts)
        return tokens_in, min(cached, tokens_in), tokens_out


class _Problem(msgspec.Struct):
    message: str
    param: str | None = None
    code: Any = None


class _RefusedReply(msgspec.Struct):
    error: _Problem


class BrokenOff(Exception):
    """An answer that ends too early, as when a connection was cut."""


def refusal_of(data: bytes) -> _Problem | None:
    """What a server says of a request that it refuses; None where it says it in another form."""
    try:
        return msgspec.json.decode(data, type=_RefusedReply).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class ModelApi(Protocol):
    """One API's requests and replies.

    Attributes:
        counts: whether a request may ask for several answers.
        logprobs: whether log-probabilities can be asked for.
        spared: parameters without which the answers are of the same kind, or are checked all the same. Without stop
            strings they would not be.
    """

    counts: bool
    logprobs: bool
    spared: Set[str]

    def headers(self) -> dict[str, str]: ...

    def request(
        self, sampling: SamplingRequest, n: int, place: int, logprobs: bool, top: int
    ) -> tuple[str, dict[str, Any]]:
        """The path and the fields of a request, but for the model's name.

        Args:
            sampling: what is asked.
            n: for how many answers.
            place: the first's, among all answers to the prompt.
            logprobs: ask for the log-probabilities of sampled tokens.
            top: of turns, ask for those of so many likeliest tokens too.

        Raises:
            ConfigError: the API has no request of that kind.
        """
        ...

    def read(self, data: bytes) -> ModelServerReply:
        """A reply, of a server that is not strict about JSON too: NaN is no number, half a character a question mark.

        Raises:
            BrokenOff: it ends too early.
            ValueError: it is no completion.
        """
        ...

    def refused(self, data: bytes) -> str | None:
        """The parameter that a refusal says the model does not take."""
        ...


class OpenAIApi:
    """`/chat/completions` and `/completions`, as OpenAI defined them and many servers have them."""

    counts = logprobs = True
    spared: Set[str] = frozenset(
        {"temperature", "top_p", "seed", "n", "logprobs", "top_logprobs", "response_format"}
    )

    def headers(self) -> dict[str, str]:
        return {}

    def request(
        self, sampling: SamplingRequest, n: int, place: int, logprobs: bool, top: int
    ) -> tuple[str, dict[str, Any]]:
        body: dict[str, Any] = {"max_tokens": sampling.max_tokens, "temperature": sampling.temperature}
        # Servers differ in what they know; what is not asked for is not sent.
        if n > 1:
            body["n"] = n
        if sampling.top_p < 1:
            body["top_p"] = sampling.top_p
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.seed is not None:
            body["seed"] = (sampling.seed + place) % 2**31
        if sampling.schema is not None:
            if not sampling.chat:
                raise ConfigError(
                    "an answer is held to a schema in turns alone; leave `chat: false` out, or the schema"
                )
            named = {"name": "answer", "schema": dict(sampling.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        if logprobs:
            body["logprobs"] = True if sampling.chat else 1
        if not sampling.chat:
            return "/completions", {**body, "prompt": only_text(sampling.prompt)}
        if top:
            body["top_logprobs"] = top
        return "/chat/completions", {**body, "messages": as_messages(sampling.prompt)}

    def read(self, data: bytes) -> ModelServerReply:
        return _decoded(data, ModelServerReply)

    def refused(self, data: bytes) -> str | None:
        """As OpenAI's reasoning models word it."""
        problem = refusal_of(data)
        if problem is None:
            return None
        if "response_format" in problem.message or "json_schema" in problem.message:
            return "response_format"
        if "max_completion_tokens" in problem.message and "max_tokens" in problem.message:
            return "max_tokens"
        not_taken = problem.code in ("unsupported_parameter", "unsupported_value")
        return problem.param if not_taken and problem.param in self.spared else None


class _MessageUsage(msgspec.Struct):
    """Tokens that were read from the server's cache, or written into it, are not among the input's."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _MessageReply(msgspec.Struct):
    content: list[_MessagePart] | None
    stop_reason: str | None = None
    usage: _MessageUsage | None = None
    id: str | None = None
    model: str | None = None


_FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


_NOT_TAKEN = re.compile(
    r"`?(\w+)`?(?:: Extra inputs are not permitted|.* (?:deprecated|not supported|cannot both be specified)\b)"
)


class AnthropicApi:
    """`/messages`, as Anthropic defines it: an answer a request, no seed, no log-probabilities.

    Its version is the last that takes a temperature, of the models that do; 2026-10-21 takes none of any.
    """

    counts = logprobs = False
    spared: Set[str] = frozenset({"temperature", "top_p", "output_config"})

    def headers(self) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01"}

    def request(
        self, sampling: SamplingRequest, n: int, place: int, logprobs: bool, top: int
    ) -> tuple[str, dict[str, Any]]:
        if not sampling.chat:
            raise ConfigError("Anthropic's models take turns alone; leave `chat: false` out")
        turns = as_messages(sampling.prompt)
        body: dict[str, Any] = {
            "max_tokens": sampling.max_tokens,
            "messages": [turn for turn in turns if turn["role"] != "system"],
        }
        if system := [turn["content"] for turn in turns if turn["role"] == "system"]:
            body["system"] = "\n\n".join(system)
        if sampling.temperature != 1:
            body["temperature"] = sampling.temperature
        if sampling.top_p < 1:
            body["top_p"] = sampling.top_p
        if sampling.stop:
            body["stop_sequences"] = list(sampling.stop)
        if sampling.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": dict(sampling.schema)}}
        return "/messages", body

    def read(self, data: bytes) -> ModelServerReply:
        reply = _decoded(data, _MessageReply)
        spent = reply.usage or _MessageUsage()
        cached = spent.cache_read_input_tokens or 0
        tokens_in = (spent.input_tokens or 0) + cached + (spent.cache_creation_input_tokens or 0)
        choice = _Choice(
            text=_text_of(reply.content),
            finish_reason=_FINISHES.get(reply.stop_reason or "", reply.stop_reason),
        )
        usage = _Usage(tokens_in, spent.output_tokens or 0, _PromptTokens(cached) if cached else None)
        return ModelServerReply([choice], usage, reply.id, reply.model)

    def refused(self, data: bytes) -> str | None:
        """It stands at the beginning of the message: "temperature: Extra inputs are not permitted"."""
        problem = refusal_of(data)
        named = _NOT_TAKEN.match(problem.message) if problem is not None else None
        return named[1] if named is not None and named[1] in self.spared else None


APIS: Mapping[str, ModelApi] = {"openai": OpenAIApi(), "anthropic": AnthropicApi()}
"""By the name that `llm.endpoint` takes."""


def _decoded(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = error
    try:
        loose = json.loads(data, parse_constant=lambda _: None)
    except ValueError:
        if data.lstrip()[:1] in (b"", b"{") and not data.rstrip().endswith(b"}"):
            raise BrokenOff from problem
        raise problem from None
    whole = json.dumps(loose, ensure_ascii=False).encode(errors="replace")
    return msgspec.json.decode(whole, type=kind)
