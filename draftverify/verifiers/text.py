"""Items as the general verifiers read them, and how their feedback shows them."""

from __future__ import annotations

import json
from typing import Any

from draftverify.errors import ContractError
from draftverify.values import is_utf8, utf8

__all__ = ["NotJson", "json_of", "shown", "text_of"]


class NotJson(ValueError):
    """A text that is no JSON document; the message says where and why."""


def text_of(item: Any, needed: str) -> str:
    """The item, which must be text.

    Args:
        item: of a proposal.
        needed: who needs it, for the message.

    Raises:
        ContractError: it is none, or holds half a surrogate pair.
    """
    if type(item) is not str:
        raise ContractError(f"{needed} checks texts; the item is a {type(item).__name__}")
    if not is_utf8(item):
        raise ContractError(f"{needed} checks texts; the item holds half of a surrogate pair")
    return item


def json_of(text: str) -> Any:
    """The value of a JSON document (RFC 8259: no NaN, no infinity), with nothing but space around it.

    Raises:
        NotJson: it is none.
        ValueError, RecursionError: Python's reader does not take it: a number of thousands of digits, lists nested too
            deep.
    """
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        found = text[error.pos : error.pos + 20]
        place = f"line {error.lineno}, column {error.colno}: {shown(found)}" if found else "its end"
        raise NotJson(f"{error.msg} ({place})") from error


def _no_number(word: str) -> Any:
    raise NotJson(f"{word} is no number of JSON")


def shown(value: Any, most: int = 60) -> str:
    """A value as feedback shows it: as JSON, short, on one line."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return utf8(text if len(text) <= most else text[: most - 1] + "…")
