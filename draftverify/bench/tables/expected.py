"""What a task's answer has otherwise than its labels: text by words, objects by key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["Difference", "differences"]

Part: TypeAlias = tuple[Literal["same", "missing", "extra"], str]

_WORDS = 2_000
"""Of a text that are compared; the time grows with their product."""
_ALIKE = 0.1
"""The share of words that two long texts must have in common to be the same kind of thing."""
_LONG = 60
"""Words."""


class Difference(NamedTuple):
    """One label that the answer does not meet word for word.

    Args:
        field: of the label; of an object the key too ("answer.total").
        parts: the text in order: what both have, what is missing in the answer, what it has too much.
    """

    field: str
    parts: list[Part]


def differences(value: Any, expected: Mapping[str, Any]) -> list[Difference]:
    """Where an answer differs from its labels; nothing of a label that cannot be laid beside it (a program's tests).

    Args:
        value: the answer. Of an object the field of the label's name is compared, if it has one; a text that is JSON
            counts as what it says.
        expected: the labels.
    """
    found: list[Difference] = []
    said = _read(value)
    for name, wanted in expected.items():
        given = said[name] if isinstance(said, Mapping) and name in said else said
        found += _compared(name, wanted, given)
    return found


def _compared(name: str, wanted: Any, given: Any) -> Iterator[Difference]:
    if isinstance(wanted, Mapping) and isinstance(given, Mapping):
        for key in dict.fromkeys([*wanted, *given]):
            left, right = (_text(side[key]) if key in side else "" for side in (wanted, given))
            if left != right:
                yield Difference(f"{name}.{key}", _by_words(left, right))
    elif not isinstance(wanted, (Mapping, list, tuple)):
        left, right = _text(wanted), _text(given)
        if isinstance(given, Mapping) or given is None or left == right:
            return
        parts = _by_words(left, right)
        sizes = {kind: sum(len(text.split()) for part, text in parts if part == kind) for kind, _ in parts}
        if sum(sizes.values()) < _LONG or sizes.get("same", 0) >= _ALIKE * sum(sizes.values()):
            yield Difference(name, parts)


def _by_words(wanted: str, given: str) -> list[Part]:
    left, right = (re.findall(r"\s*\S+|\s+$", text)[:_WORDS] for text in (wanted, given))
    parts: list[Part] = []
    for tag, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            parts.append(("same", "".join(left[i:j])))
            continue
        if i < j:
            parts.append(("missing", "".join(left[i:j])))
        if k < m:
            parts.append(("extra", "".join(right[k:m])))
    return parts


def _read(value: Any) -> Any:
    """An answer as an object where it is one, or is the text of one."""
    if not isinstance(value, str) or value.lstrip()[:1] != "{":
        return value
    try:
        said = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return said if isinstance(said, dict) else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
