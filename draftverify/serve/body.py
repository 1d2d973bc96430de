"""What a client asks for, read from the body of a request as OpenAI's API defines it.

A body that cannot be followed is refused with the place in it. What no part of a pipeline heeds is named in the answer
under `ignored`, so that nobody takes it for followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from draftverify.engine.canonical import plain_problem
from draftverify.errors import ConfigError

MOST_CHOICES = 64
"""Of one request."""

MOST_SCHEMA = 64 << 10
"""Bytes of a schema: to see that it is one takes a second for as many."""

OWN_FIELD = "draftverify"
"""The field of a recorded task's input that holds the request's settings."""

_Text: TypeAlias = Annotated[str, Meta(min_length=1)]
_Stop: TypeAlias = _Text | Annotated[list[_Text], Meta(max_length=16)]
_Positive: TypeAlias = Annotated[int, Meta(ge=1, le=2**31)]


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


class _ChatMessage(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[_Part], Meta(min_length=1)]


class _JsonSchema(msgspec.Struct):
    schema: dict[str, Any]
    name: str = ""
    strict: bool | None = None


class _ResponseFormat(msgspec.Struct):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Body(msgspec.Struct, kw_only=True):
    """What both kinds of requests have."""

    model: str
    n: Annotated[int, Meta(ge=1, le=MOST_CHOICES)] | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    logit_bias: dict[str, float] | None = None
    max_tokens: _Positive | None = None
    stop: _Stop | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    task: dict[str, Any] = {}


class _Chat(_Body, kw_only=True):
    messages: Annotated[list[_ChatMessage], Meta(min_length=1)]
    max_completion_tokens: _Positive | None = None
    response_format: _ResponseFormat | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    logprobs: bool | None = None
    audio: Any = None


class _Completion(_Body, kw_only=True):
    prompt: _Text | Annotated[list[int | _Text], Meta(min_length=1)]
    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    logprobs: int | None = None


class CompletionRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request, whichever of the two kinds it was.

    Args:
        model: the pipeline's name.
        chat: of `/chat/completions`.
        inputs: of each prompt what the task's input is made of.
        prompts: the text that a task's own field gets; None of a prompt in token ids.
        n: answers to each.
        settings: sampling parameters, by the names that parts read.
        limit: the most tokens of an answer.
        stop: texts that end one.
        seed: of the draws; None for any.
        schema: that an answer must follow.
        is_json: whether an answer must be JSON.
        stream: whether it is sent piece by piece.
        include_usage: whether the stream ends with the usage.
    """

    model: str
    chat: bool
    inputs: tuple[dict[str, Any], ...] = ()
    prompts: tuple[str | None, ...] = ()
    n: int = 1
    settings: Mapping[str, Any] = {}
    limit: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    schema: Mapping[str, Any] | None = None
    is_json: bool = False
    stream: bool = False
    include_usage: bool = False


def read_chat(body: bytes) -> CompletionRequest:
    """The request in the body of `/chat/completions`.

    Raises:
        ConfigError: it cannot be followed; the path is the place in it.
    """
    chat = _decoded(body, _Chat)
    _refuse(
        {"tools": chat.tools, "functions": chat.functions, "logprobs": chat.logprobs, "audio": chat.audio}
    )
    turns = [
        {"role": "system" if message.role == "developer" else message.role, "content": _text(message, place)}
        for place, message in enumerate(chat.messages)
    ]
    questions = [turn["content"] for turn in turns if turn["role"] == "user"]
    if not questions:
        raise ConfigError("a message of the role user is needed", path="messages")
    schema, is_json = None, False
    if chat.response_format is not None and chat.response_format.type != "text":
        is_json = True
        if chat.response_format.type == "json_schema":
            if chat.response_format.json_schema is None:
                raise ConfigError("json_schema is missing", path="response_format")
            schema = chat.response_format.json_schema.schema
            written = msgspec.json.encode(schema)
            if len(written) > MOST_SCHEMA:
                raise ConfigError(f"a schema has at most {MOST_SCHEMA >> 10} KiB", path="response_format")
            if b"patternProperties" in written:
                raise ConfigError(
                    "patternProperties is not checked in bounded time; leave it out", path="response_format"
                )
    inputs = {"messages": turns, "prompt": questions[-1], "question": questions[-1]}
    return _request(
        chat,
        chat=True,
        inputs=[inputs],
        prompts=[questions[-1]],
        schema=schema,
        is_json=is_json,
        limit=chat.max_completion_tokens or chat.max_tokens,
    )


def read_completion(body: bytes) -> CompletionRequest:
    """The request in the body of `/completions`.

    Raises:
        ConfigError: as of `read_chat`.
    """
    completion = _decoded(body, _Completion)
    best_of = completion.best_of if completion.best_of != (completion.n or 1) else None
    unsupported = {"echo": completion.echo, "suffix": completion.suffix, "logprobs": completion.logprobs}
    _refuse({"best_of": best_of, **unsupported})
    prompt = completion.prompt
    inputs: list[dict[str, Any]]
    prompts: list[str | None]
    if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        inputs, prompts = [{"prompt_ids": prompt}], [None]
    else:
        texts = [prompt] if isinstance(prompt, str) else prompt
        if not all(isinstance(text, str) for text in texts):
            raise ConfigError("texts and token ids do not go together; give one kind", path="prompt")
        inputs = [{"prompt": text, "question": text, "chat": False} for text in texts]
        prompts = [str(text) for text in texts]
    if len(inputs) * (completion.n or 1) > MOST_CHOICES:
        raise ConfigError(f"at most {MOST_CHOICES} answers to one request", path="prompt")
    return _request(completion, chat=False, inputs=inputs, prompts=prompts, limit=completion.max_tokens)


def _request(
    body: _Body,
    *,
    chat: bool,
    inputs: Sequence[dict[str, Any]],
    prompts: Sequence[str | None],
    limit: int | None,
    schema: Mapping[str, Any] | None = None,
    is_json: bool = False,
) -> CompletionRequest:
    for path, value in (("task", body.task), ("response_format.json_schema.schema", schema)):
        if (problem := plain_problem(value)) is not None:
            place, _, message = problem.partition(": ")
            raise ConfigError(message, path=path + place)
    if OWN_FIELD in body.task:
        raise ConfigError("this field is the server's own; name it otherwise", path=f"task.{OWN_FIELD}")
    names = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "logit_bias")
    settings = {name: value for name in names if (value := getattr(body, name)) is not None}
    stop = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())
    return CompletionRequest(
        model=body.model,
        chat=chat,
        inputs=tuple({**input, **body.task} for input in inputs),
        prompts=tuple(prompts),
        n=body.n or 1,
        settings=settings,
        limit=limit,
        stop=stop,
        seed=body.seed,
        schema=schema,
        is_json=is_json,
        stream=bool(body.stream),
        include_usage=body.stream_options is not None and body.stream_options.include_usage,
    )


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        path = place.rstrip("`").lstrip(".")
        raise ConfigError(message, **({"path": path} if path else {})) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"the body is no JSON: {error}") from None


def _refuse(fields: Mapping[str, Any]) -> None:
    """Refuse what would change the answer, and nothing here can do."""
    for name, value in fields.items():
        if value:
            raise ConfigError("this server does not do that; leave it out", path=name)


def _text(message: _ChatMessage, place: int) -> str:
    if isinstance(message.content, str):
        return message.content
    for number, part in enumerate(message.content):
        if part.type != "text" or part.text is None:
            raise ConfigError(
                f"text alone is read here, not {part.type!r}", path=f"messages[{place}].content[{number}]"
            )
    return "".join(part.text or "" for part in message.content)
