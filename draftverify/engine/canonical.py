"""Items, notes and words as a record will hold them: frozen lists and dicts, Python's numbers, texts without secrets.

`canonical` makes them so; `plain_problem` says what JSON would lose of one all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any

import numpy as np

from draftverify.errors import ContractError, shown, without_addresses
from draftverify.frozen import FrozenDict, FrozenList, frozen_array
from draftverify.secret import redact
from draftverify.values import EMPTY, is_utf8, utf8

JSON_SCALARS = frozenset({str, int, float, bool, type(None)})
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
DEEPEST = 100
"""So many lists and objects within each other are taken: what reads a record goes as deep as its values do."""


def canonical(value: Any, depth: int = 0) -> Any:
    """An item as the record will hold it: frozen lists (for tuples too) and dicts, Python's numbers for an array
    library's.

    What is no JSON value at all stays as it is: a pipeline may pass any object along, a record cannot hold it.

    Raises:
        ContractError: the value is nested too deep, or holds itself.
    """
    kind = type(value)
    if kind in JSON_SCALARS:
        return value
    if depth > DEEPEST:
        raise ContractError(f"a value is nested more than {DEEPEST} deep, or holds itself")
    if isinstance(value, (list, tuple)):
        # Numbers and texts, which are nearly all there is, cost no call.
        return FrozenList([e if type(e) in JSON_SCALARS else canonical(e, depth + 1) for e in value])
    if isinstance(value, Mapping):
        return FrozenDict({_key(key): canonical(entry, depth + 1) for key, entry in value.items()})
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        number = value.item()
        return value if type(number) is kind else canonical(number, depth + 1)
    if isinstance(value, np.ndarray):
        return frozen_array(value)
    for base, plain in _PLAIN.items():  # an enumeration's member, or the like
        if isinstance(value, base):
            return plain(value)
    return value


_PLAIN: Mapping[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__int__, float: float.__float__}
"""The value below a class of somebody's own, whatever that makes of its words."""


def _key(key: Any) -> Any:
    return str.__str__(key) if isinstance(key, str) else key


def plain_problem(value: Any) -> str | None:
    """What JSON would lose of a canonical value, and where in it; None when nothing."""
    kind = type(value)
    if kind is bool or value is None:
        return None
    if kind is str:
        if is_utf8(value):
            return None
        return f": {value!r} holds half of a surrogate pair, which is no character"
    if kind is int:
        if INT_MIN <= value <= INT_MAX:
            return None
        return f": an integer of {value.bit_length()} bits is beyond the 64 bits of a record"
    if kind is float:
        return None if isfinite(value) else f": {value} is no JSON number; use None or a string"
    if kind is FrozenList or kind is list or kind is tuple:
        for index, entry in enumerate(value):
            if type(entry) is int and INT_MIN <= entry <= INT_MAX:
                continue  # tokens: nearly all there is
            if (problem := plain_problem(entry)) is not None:
                return f"[{index}]{problem}"
        return None
    if kind is FrozenDict or kind is dict:
        for key, entry in value.items():
            if type(key) is not str or not is_utf8(key):
                return f": the key {key!r} is no string; JSON keys are strings"
            if (problem := plain_problem(entry)) is not None:
                return f".{key}{problem}"
        return None
    if getattr(value, "shape", None) == () and type(canonical(value)) is not kind:
        return plain_problem(canonical(value))
    return (
        f": a value of type {kind.__module__}.{kind.__qualname__} cannot be recorded; items and outcomes must be "
        "JSON values (null, booleans, numbers, strings, lists, objects)"
    )


def notes_if_kept(values: Any, what: str) -> Mapping[str, Any]:
    """A failure's notes as a record holds them; none where they cannot be kept, which hides no failure."""
    with suppress(Exception):
        return read_notes(values, what) if values is not EMPTY else EMPTY
    return EMPTY


def read_notes(values: Any, what: str) -> dict[str, Any]:
    """Notes as a record holds them.

    Raises:
        ContractError: they are no mapping of JSON values; the message begins with `what` they are.
    """
    if not isinstance(values, Mapping):
        raise ContractError(f"{what} came as {shown(values)}; a mapping of JSON values is needed")
    notes = canonical(values)
    problem = plain_problem(notes)
    if problem is not None:
        raise ContractError(f"{what}{problem}")
    return _readable_within(notes)  # type: ignore[no-any-return]


def is_plain(text: Any) -> bool:
    """Whether `readable` would leave it as it is."""
    return type(text) is str and text.isascii() and " at 0x" not in text and redact(text) is text


def readable(text: str) -> str:
    """Words for people, as a record can hold them: without secrets, and without addresses of memory."""
    return redact(without_addresses(utf8(text)))


def _readable_within(value: Any) -> Any:
    """A canonical value, whose texts and keys are for people."""
    if type(value) is str:
        return readable(value)
    if isinstance(value, list):
        return FrozenList([inner if type(inner) is int else _readable_within(inner) for inner in value])
    if isinstance(value, dict):
        return FrozenDict({readable(key): _readable_within(inner) for key, inner in value.items()})
    return value
