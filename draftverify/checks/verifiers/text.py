"""Items as the general verifiers read them, and how their feedback shows them."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from draftverify.engine.canonical import DEEPEST, canonical
from draftverify.errors import ContractError
from draftverify.values import is_utf8, utf8


class NotJson(ValueError):
    """A text that is no JSON document; the message says where and why."""


def text_of(item: Any, reader: str) -> str:
    """The item, which must be text.

    Args:
        item: of a proposal.
        reader: who reads it, for the message.

    Raises:
        ContractError: it is none, or holds half a surrogate pair.
    """
    if type(item) is not str:
        raise ContractError(f"{reader} checks texts; the item is a {type(item).__name__}")
    if not is_utf8(item):
        raise ContractError(f"{reader} checks texts; the item holds half of a surrogate pair")
    return item


def json_of(text: str) -> Any:
    """The value of a JSON document (RFC 8259: no NaN, no infinity), with nothing but space around it.

    Raises:
        NotJson: it is none; or one that a model wrote without end: nested more than 100 deep, a number of thousands of
            digits or beyond a float.
    """
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except NotJson:
        raise
    except json.JSONDecodeError as error:
        excerpt = text[error.pos : error.pos + 20]
        place = f"line {error.lineno}, column {error.colno}: {shown(excerpt)}" if excerpt else "its end"
        raise NotJson(f"{error.msg} ({place})") from error
    except RecursionError as error:
        raise NotJson("it is nested too deep") from error
    except ValueError as error:  # Python reads integers of some thousands of digits alone
        raise NotJson("a number in it is too long") from error
    if text.count("[") + text.count("{") > DEEPEST:  # as of items that are values
        try:
            canonical(value, depth=1)
        except ContractError as error:
            raise NotJson("it is nested too deep") from error
    return value


def _finite(literal: str) -> float:
    number = float(literal)
    if not isfinite(number):
        raise NotJson(f"{shown(literal)[1:-1]} is beyond the numbers that can be read")
    return number


def _no_number(literal: str) -> Any:
    raise NotJson(f"{literal} is no number of JSON")


def shown(value: Any, most: int = 60) -> str:
    """A value as feedback shows it: as JSON, short, on one line."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return utf8(text if len(text) <= most else text[: most - 1] + "…")
