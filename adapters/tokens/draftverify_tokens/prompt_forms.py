"""Prompts in the forms in which users have them: text, turns, ids, arrays, what a tokenizer returned; one or many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Number
from typing import Any

from draftverify import ConfigError
from draftverify_tokens.models import as_list

FORMS = (
    "a text, a list of messages ({role, content}), token ids (a list, an array, a tensor), what a tokenizer returned, "
    "or a list of these"
)


def read_prompts(prompts: Any, *, attention_mask: Any = None, chat: bool = True) -> tuple[list[Any], bool]:
    """The task inputs of prompts, and whether it was a single one.

    Args:
        prompts: any of `FORMS`. Arrays of one dimension are one prompt, those of two a list of them.
        attention_mask: of an array of ids, 0 where it is padded, on either side; a tokenizer's is found beside its ids.
        chat: whether text goes through the chat template.

    Returns:
        For each prompt a mapping with `prompt`, `messages` or `prompt_ids`; and whether it stood alone.

    Raises:
        ConfigError: it is none of these; or the mask has another shape than the ids.
    """
    if isinstance(prompts, Mapping) and "input_ids" in prompts:
        return _arrays(prompts["input_ids"], prompts.get("attention_mask", attention_mask))
    if hasattr(prompts, "tolist") and _has_text(items := prompts.tolist()):
        prompts = items  # a table's column of texts
    if attention_mask is not None and _has_text(prompts):
        raise ConfigError(
            f"attention_mask is given beside {prompts!r:.80}; it belongs to token ids, leave it out",
            path="attention_mask",
        )
    if attention_mask is not None or hasattr(prompts, "tolist"):
        return _arrays(prompts, attention_mask)
    if (single := _single(prompts, chat)) is not None:
        return [single], True
    if isinstance(prompts, (Mapping, Set, bytes)) or not isinstance(prompts, Iterable):
        raise ConfigError(f"prompts is {prompts!r:.80}; {FORMS} is needed", path="prompts")
    inputs: list[Any] = []
    for place, prompt in enumerate(prompts):
        if hasattr(prompt, "tolist") or (isinstance(prompt, Mapping) and "input_ids" in prompt):
            nested = read_prompts(prompt)[0]
            if len(nested) != 1:
                raise ConfigError(f"holds {len(nested)} prompts; one is needed", path=f"prompts[{place}]")
            inputs += nested
        elif (single := _single(prompt, chat)) is not None:
            inputs.append(single)
        elif isinstance(prompt, Sequence) and not len(prompt):
            inputs.append({"prompt_ids": []})  # refused by the target, as an empty text
        else:
            raise ConfigError(f"is {prompt!r:.80}; {FORMS} is needed", path=f"prompts[{place}]")
    return inputs, False


def _single(prompt: Any, chat: bool) -> dict[str, Any] | None:
    """The input of one prompt; None where it is none, or a list of them."""
    if isinstance(prompt, str):
        return {"prompt": prompt, "chat": chat}
    if isinstance(prompt, Mapping):
        named = any(name in prompt for name in ("prompt", "messages", "prompt_ids"))
        return {"chat": chat, **prompt} if named else None
    if isinstance(prompt, Sequence) and not isinstance(prompt, bytes) and len(prompt):
        if all(map(_is_number, prompt)):  # the target says which of them is no token
            return {"prompt_ids": as_list(prompt)}
        if all(isinstance(message, Mapping) and "role" in message for message in prompt):
            return {"messages": list(prompt)}
    return None


def _is_number(value: Any) -> bool:
    """Whether it is one number: Python's, NumPy's, or a tensor without dimensions."""
    return isinstance(value, Number) or (getattr(value, "shape", None) == () and not isinstance(value, str))


def _has_text(prompts: Any) -> bool:
    listed = prompts if isinstance(prompts, (list, tuple)) else [prompts]
    return any(isinstance(prompt, (str, Mapping)) for prompt in listed)


def _arrays(ids: Any, mask: Any) -> tuple[list[Any], bool]:
    rows, masks = _listed(ids), None if mask is None else _listed(mask)
    single = getattr(ids, "ndim", 2 if rows and isinstance(rows[0], list) else 1) == 1
    if single:
        rows, masks = [rows], None if masks is None else [masks]
    if masks is not None and list(map(_length, masks)) != list(map(_length, rows)):
        raise ConfigError(
            f"attention_mask has rows of {list(map(_length, masks))} and the ids have {list(map(_length, rows))}; give "
            "the mask that the tokenizer made with these ids",
            path="attention_mask",
        )
    if any(isinstance(entry, list) for row in rows for entry in row):
        raise ConfigError(
            "the ids have more than two dimensions; [prompts, tokens] is needed", path="prompts"
        )
    if masks is not None:
        rows = [
            [token for token, bit in zip(row, mask_row, strict=True) if bit]
            for row, mask_row in zip(rows, masks, strict=True)
        ]
    return [{"prompt_ids": row} for row in rows], single


def _listed(array: Any) -> list[Any]:
    items = array.tolist() if hasattr(array, "tolist") else array
    if not isinstance(items, (list, tuple)):
        raise ConfigError(f"prompts is {array!r:.80}; {FORMS} is needed", path="prompts")
    # A list of tensors is one of rows; numbers of NumPy's know `tolist` too.
    return [_listed(item) if getattr(item, "shape", ()) else item for item in items]


def _length(row: Any) -> int:
    return len(row) if isinstance(row, list) else 0
