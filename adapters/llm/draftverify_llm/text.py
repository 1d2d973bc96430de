"""What a text model is: it completes a prompt, whole, as many times as asked, and says what that took."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict, runtime_checkable

from draftverify.errors import ConfigError, DraftVerifyError
from draftverify.exchanges import Exchange, ModelReply, Turn, noted
from draftverify.traits import GeneratorTraits, VerifierTraits, families
from draftverify_llm.requirements import check_least

FinishReason: TypeAlias = Literal["stop", "length", "other"]


def read_finish(reason: object) -> FinishReason:
    """A server's word for why an answer ended."""
    return "stop" if reason == "stop" else "length" if reason == "length" else "other"


class Message(TypedDict):
    """One turn of a conversation."""

    role: str
    content: str


Prompt: TypeAlias = "str | Sequence[Message]"
"""Text, or the turns of a conversation."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled answer.

    Args:
        text: without the stop string or the end token.
        tokens_in: prompt tokens that were read, or billed, for this answer. Answers that share a reading of the
            prompt hold it once, on the first: the sum over a list is the true total.
        tokens_out: tokens sampled. A server that reports one figure for several answers has it split evenly.
        finish_reason: "stop" (end token or stop string), "length" (`max_tokens`), "other".
        logprob: natural logarithm of the probability that the model itself (temperature 1, no top-p) gives the
            sampled tokens, end token left out; None where the backend does not say.
        cached: whether it was bought before and not asked for again; its price is what it cost then.
        tokens_in_cached: those of `tokens_in` that the server had read before, which some sell for less.
        first: the likeliest first tokens with their log-probabilities, where they were asked for.
        id: by which the server knows the request.
        model: that answered, as the server names it.
        weighed: how many tokens `logprob` is the sum of; None: `tokens_out`.
    """

    text: str
    tokens_in: int
    tokens_out: int
    finish_reason: FinishReason
    logprob: float | None = None
    cached: bool = False
    tokens_in_cached: int = 0
    first: tuple[tuple[str, float], ...] = ()
    id: str = ""
    model: str = ""
    weighed: int | None = None


@runtime_checkable
class TextModel(Protocol):
    """A model that answers in text. Implemented by `LocalModel`, `LlamaCpp` and `Endpoint`.

    Attributes:
        deterministic: False when the same call with the same seed may answer otherwise another time.
        continues_turns: whether turns that end with the assistant's are taken as the beginning of the answer, which
            then holds what follows it; False when absent.
        family: the line of models that it is of ("smollm2"), known without loading it; None where there is no
            telling. A pipeline whose generator and verifier are of one family says that it checks itself.
    """

    deterministic: bool

    @property
    def family(self) -> str | None: ...

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
        """Sample `n` answers to one prompt.

        Args:
            prompt: text or turns.
            n: how many answers, at least 1.
            max_tokens: the most tokens in one answer.
            temperature: 0 takes the likeliest token each time.
            top_p: sample among the likeliest tokens that hold this probability together, in (0, 1].
            stop: strings that end an answer; they are not part of its text.
            seed: the same seed gives the same answers, as far as the backend can promise (`deterministic`); answer
                i depends on (seed, i), so a larger n adds answers. None for any.
            chat: whether text is put through the chat template as one user turn, where the model has a template;
                with False it goes to the model as it stands.

        Returns:
            `n` completions, in a fixed order.
        """
        ...

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
        """The same, awaited."""
        ...

    def price(self, completions: Sequence[Completion]) -> float:
        """What these answers cost; 0 where nothing is charged."""
        ...


@runtime_checkable
class BatchTextModel(TextModel, Protocol):
    """A text model that answers many prompts in one batch. Implemented by `LocalModel`."""

    def complete_many(
        self,
        prompts: Sequence[Prompt],
        *,
        n: Sequence[int],
        seeds: Sequence[int | None],
        max_tokens: int = 256,
        temperature: float = 1.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        chat: bool = True,
    ) -> list[list[Completion]]:
        """Sample `n[k]` answers to prompt k with `seeds[k]`.

        Args:
            prompts: text or turns each.
            n, seeds: one for each prompt, as in `complete`; so are the others, which hold for all.

        Returns:
            For each prompt what `complete` would answer to it alone, up to rounding.
        """
        ...


class ModelTraits(NamedTuple):
    """What a text model says of itself, with the defaults where it says nothing.

    Args:
        family, deterministic, continues_turns: as of `TextModel`.
        concurrent: whether threads may call it.
        at_once: how many calls it takes beside each other.
        remote: how many of these may wait for a server elsewhere; 0 of a model that runs here.
        logprobs: whether its completions have their log-probability; None where it does not say.
        structured: whether `complete` takes a JSON schema that answers are to follow.
        cached: whether it answers from a cache alone, and sends nothing.
    """

    family: str | None
    deterministic: bool
    continues_turns: bool
    concurrent: bool
    at_once: int
    remote: int
    logprobs: bool | None
    structured: bool
    cached: bool


def model_traits(model: object) -> ModelTraits:
    """What a text model says of itself."""
    concurrent = getattr(model, "concurrent", True)
    return ModelTraits(
        family=getattr(model, "family", None),
        deterministic=bool(getattr(model, "deterministic", False)),
        continues_turns=bool(getattr(model, "continues_turns", False)),
        concurrent=concurrent,
        at_once=getattr(model, "concurrency", getattr(model, "parallel", 1)) if concurrent else 1,
        remote=getattr(model, "concurrency", 0),
        logprobs=getattr(model, "logprobs", None),
        structured=bool(getattr(model, "structured", False)),
        cached=bool(getattr(model, "cached", False)),
    )


def read_prompt(input: Mapping[str, Any], whose: str = "a task for a text model") -> Prompt:
    """The prompt of a task's input: its `messages` where it has some, else its `prompt`.

    Args:
        input: the task's.
        whose: what messages call the task.

    Raises:
        ConfigError: neither is there, or it is not of the right form.
    """
    if input.get("messages") is not None:
        return as_messages(input["messages"])
    prompt = input.get("prompt")
    if not isinstance(prompt, str):
        fields = ", ".join(f"{name} (null)" if input[name] is None else str(name) for name in input)
        raise ConfigError(
            f"{whose} needs `prompt` (text) or `messages` (turns); this one has {fields or 'nothing'}"
        )
    return prompt


def as_messages(prompt: Any) -> list[Message]:
    """Text as one user turn; turns as they are, once their form was checked.

    Raises:
        ConfigError: a turn is not a mapping with `role` and `content`, both text.
    """
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    turns: list[Message] = []
    for index, turn in enumerate(prompt if isinstance(prompt, Sequence) else ()):
        role, content = (turn.get("role"), turn.get("content")) if isinstance(turn, Mapping) else (None, None)
        if not isinstance(role, str) or not isinstance(content, str):
            raise ConfigError(f"messages[{index}] must be {{role: text, content: text}}, not {turn!r:.80}")
        turns.append({"role": role, "content": content})
    if not turns:
        raise ConfigError(f"messages must be a list of at least one turn, not {prompt!r:.80}")
    return turns


def as_text(value: Any) -> str:
    """A value as text; what is none as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def only_text(prompt: Prompt) -> str:
    """The prompt of a call without a chat template.

    Raises:
        ConfigError: it is turns.
    """
    if not isinstance(prompt, str):
        raise ConfigError(
            "turns need a model with a chat template, and `chat` not false; else give `prompt` (text)"
        )
    return prompt


def check_model(model: object) -> None:
    """Refuse a model that cannot be had, where it can tell without being loaded (`check`): it may never be asked.

    Raises:
        DraftVerifyError: of the model.
    """
    check = getattr(model, "check", None)
    if callable(check):
        check()


def check_sampling(
    n: int, max_tokens: int, temperature: float, top_p: float, stop: Sequence[str] = ()
) -> None:
    """Refuse sampling settings that no backend can follow.

    Raises:
        ConfigError: naming the setting.
    """
    check_least(1, n=n, max_tokens=max_tokens)
    if not temperature >= 0 or not 0 < top_p <= 1:
        raise ConfigError(f"temperature must be >= 0 and top_p in (0, 1], not {temperature} and {top_p}")
    strings = stop if isinstance(stop, Sequence) and not isinstance(stop, str) else (None,)
    if not all(isinstance(string, str) and string for string in strings):
        raise ConfigError(
            f"stop is {stop!r}; a list of texts with a character at least is needed", path="stop"
        )


def exchange_of(
    prompt: Prompt,
    completions: Sequence[Completion],
    *,
    cost: float = 0.0,
    chat: bool = True,
    items: Sequence[int] = (),
    failure: str = "",
) -> Exchange:
    """What was asked and answered, for a round's notes.

    Args:
        prompt: as the model was given it.
        completions: the answers.
        cost: what they cost together.
        chat: whether text was one user's turn.
        items: for each answer the place of its item in the block; when absent they are the block's items in order.
        failure: what went wrong, where there are no answers.
    """
    asked = as_messages(prompt) if chat or not isinstance(prompt, str) else [Message(role="", content=prompt)]
    return Exchange(
        asked=tuple(Turn(turn["role"], turn["content"]) for turn in asked),
        replies=tuple(
            ModelReply(
                text=completion.text,
                item=items[place] if items else place,
                finish=completion.finish_reason,
                tokens=completion.tokens_out,
                logprob=completion.logprob,
                id=completion.id,
                cached=completion.cached,
            )
            for place, completion in enumerate(completions)
        ),
        model=next((completion.model for completion in completions if completion.model), ""),
        tokens_in=sum(completion.tokens_in for completion in completions),
        tokens_in_cached=sum(completion.tokens_in_cached for completion in completions),
        cost=cost,
        failure=failure,
    )


@contextmanager
def asking(prompt: Prompt, *, chat: bool = True) -> Iterator[None]:
    """While a model is asked: an error that ends the call notes what was asked, and what went wrong, for the record.

    Args:
        prompt, chat: as of `exchange_of`.
    """
    try:
        yield
    except DraftVerifyError as error:
        error.notes = noted([exchange_of(prompt, (), chat=chat, failure=str(error))])
        raise


def before_stop(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop string in it."""
    places = [place for string in stop if (place := text.find(string)) >= 0]
    return text[: min(places)] if places else text


def sampling_traits(model: object, temperature: float | None, top_p: float | None) -> GeneratorTraits:
    """Of a generator that samples from a text model: as the model's; it reads the settings that it was not given."""
    arguments = {"temperature": temperature, "top_p": top_p}
    traits = model_traits(model)
    return GeneratorTraits(
        shape="alternatives",
        reads={name for name, value in arguments.items() if value is None},
        families=families(traits.family),
        deterministic=traits.deterministic,
        remote=traits.remote,
        free=traits.cached,
    )


def reading_traits(model: object, traits: VerifierTraits) -> VerifierTraits:
    """Of a verifier that asks a text model: as the model's; a model's word is no outside check, also where its family
    is unknown."""
    asked = model_traits(model)
    return replace(
        traits,
        families=families(asked.family or "unknown"),
        concurrent=asked.concurrent,
        deterministic=asked.deterministic,
        remote=asked.remote,
        free=asked.cached,
        shares=lambda: (model,),
    )


def read_sampling(
    settings: Mapping[str, Any],
    temperature: float | None,
    top_p: float | None,
    *,
    default: tuple[float, float] = (0.8, 1.0),
) -> tuple[float, float]:
    """Temperature and top_p: a part's own, else the pipeline's setting, else the default.

    Raises:
        ConfigError: a setting that is read is no number, or out of its range.
    """
    sampling = []
    for name, argument, otherwise, allowed in (
        ("temperature", temperature, default[0], "a number >= 0"),
        ("top_p", top_p, default[1], "a number in (0, 1]"),
    ):
        value = settings.get(name, otherwise) if argument is None else argument
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
        if not fits or (name == "top_p" and not 0 < value <= 1):
            place = f"settings.{name}" if argument is None else name
            raise ConfigError(f"{name} must be {allowed}, not {value!r}", path=place)
        sampling.append(float(value))
    return sampling[0], sampling[1]
