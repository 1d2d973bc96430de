"""The language model that this adapter decodes with, and what a task says of it once the target has prepared it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol

from draftverify import ConfigError, Context


class TokenModel(Protocol):
    """A causal language model with its tokenizer; `draftverify_llm.LocalModel` is one.

    Attributes:
        model: the transformers module (or one with its call signature and `config`).
        tokenizer: the transformers tokenizer.
        vocabulary: the tokenizer's identity: models of one vocabulary give every token the same id.
        eos_ids: the ids that end an answer.
    """

    @property
    def model(self) -> Any: ...
    @property
    def tokenizer(self) -> Any: ...
    @property
    def vocabulary(self) -> str: ...
    @property
    def eos_ids(self) -> frozenset[int]: ...

    def encode_prompt(self, input: Mapping[str, Any], /) -> list[int]:
        """Token ids of a task's prompt, the chat template's opening of the answer included."""
        ...

    def decode(self, ids: Sequence[int], /) -> str:
        """The text of token ids, without special tokens."""
        ...


class Continues(Protocol):
    """A drafter that can go on behind text that another one drafted for certain (`FirstOf`)."""

    def continuation(self, context: Context, n: int, drafted: Sequence[int], /) -> Sequence[int]:
        """At most `n` tokens after the accepted ones and those `drafted` in this block."""
        ...


def no_trees_of(drafter: object) -> str | None:
    """Why a drafter's model cannot read trees, where that is so and it says it, as `no_trees`."""
    why: str | None = getattr(drafter, "no_trees", None)
    return why


def room_of(drafter: object, context: Context, n: int) -> int:
    """How many of n tokens a drafter can draft now: as its `room` says, else all that the answer has room for."""
    has_room: Callable[[Context, int], int] = getattr(drafter, "room", room)
    return has_room(context, n)


def is_certain(drafter: object) -> bool:
    """Whether what a drafter proposes is always accepted, so that another goes on behind it: it says so, `certain`."""
    return bool(getattr(drafter, "certain", False))


def ending_as(model: TokenModel, context: Context) -> TokenModel:
    """The model with the end tokens of a context's task, which end an answer and follow a complete one under a
    grammar: those of a base model that drafts for an instructed one may be others."""
    ends = frozenset(context.task.input.get("eos_ids", model.eos_ids))
    return model if ends == model.eos_ids else _EndingAs(model, ends)


class _EndingAs:
    """A model with other end tokens than its own."""

    def __init__(self, model: TokenModel, eos_ids: frozenset[int]) -> None:
        self._model = model
        self.eos_ids = eos_ids

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def is_owned(model: TokenModel) -> bool:
    """Whether the weights are the library's own, and no module that its user goes on with; so it says in `owned`."""
    return bool(getattr(model, "owned", False))


def is_packed(model: TokenModel) -> bool:
    """Whether the weights lie as a CPU's products read them; so it says in `packed`."""
    return getattr(model, "packed", None) is not None


def as_list(ids: Any) -> list[Any]:
    """Token ids of a list, an array or a tensor, a list of single ones, or a single one."""
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    listed = ids if isinstance(ids, Sequence) else [ids]
    return [token.item() if hasattr(token, "item") else token for token in listed]


def end_ids(ids: Any) -> list[Any]:
    """As `as_list`, of a set too: the tokens that end an answer have no order."""
    return as_list(list(ids) if isinstance(ids, Set) else ids)


def prompt_of(context: Context) -> list[int]:
    """The prompt's token ids; the same list at every round of a task.

    Raises:
        ConfigError: the task was not prepared by a verifier such as `Target`.
    """
    prompt: list[int] | None = context.task.input.get("prompt_ids")
    if prompt is None:
        raise ConfigError(
            f"task {context.task.id!r} has no prompt_ids; a verifier that prepares the task (tokens.target) puts "
            "them into its input, or give them yourself"
        )
    return prompt


def positions_of(module: Any) -> tuple[int | None, str]:
    """How many tokens a model can be decoded with.

    A config's own limit is not all: some models compute every token's keys otherwise once the text is longer than a
    threshold, so that what a cache holds is worth nothing beyond it, or look at places where positions are given.
    Below the threshold they are like any other.

    Args:
        module: the transformers module.

    Returns:
        The number, None where no limit is known; and for messages what sets it.
    """
    config = module.config.get_text_config()
    limits: list[tuple[int, str]] = []
    for name in ("max_position_embeddings", "max_seq_len"):
        if (limit := getattr(config, name, None)) is not None:
            limits.append((limit, f"its {name}"))
            break
    parameters = getattr(config, "rope_parameters", None) or {}
    for rope in (parameters, *parameters.values()):  # of all layers, or by their type
        if isinstance(rope, Mapping) and rope.get("rope_type") == "longrope":
            length = rope.get("original_max_position_embeddings")
            limits += [(length, "the length up to which its longrope keeps its angles")] if length else []
    if "chunked_attention" in (getattr(config, "layer_types", None) or ()):
        limits.append((config.attention_chunk_size, "its attention_chunk_size"))
    if getattr(config, "attn_temperature_tuning", False):
        limits.append((config.floor_scale - 1, "its floor_scale, from which on it sharpens attention"))
    return min(limits, default=(None, ""))


def room(context: Context, n: int) -> int:
    """How many of `n` items may be drafted before the target runs out of positions."""
    positions = context.task.input.get("positions")
    if positions is None:
        return n
    return max(0, min(n, positions - len(prompt_of(context)) - len(context.accepted)))
