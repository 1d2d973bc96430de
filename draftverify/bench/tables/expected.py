"""What a task's answer has otherwise than its labels: text by words, objects by key."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from draftverify.bench.tables.words import text_of
from draftverify.values import utf8

Part: TypeAlias = tuple[Literal["same", "missing", "extra"], str]

_WORDS = 300
"""Of two texts, between what they begin and end with alike, that are laid side by side; the time grows with the third
power of their number. Longer ones are all missing, all extra."""
_MOST = 100
"""Differences of one answer."""
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
    read = _read(value)
    for name, label in expected.items():
        answer = read[name] if isinstance(read, Mapping) and name in read else read
        found += islice(_compared(name, label, answer), _MOST - len(found))
    return [Difference(utf8(field), [(kind, utf8(text)) for kind, text in parts]) for field, parts in found]


def _compared(name: str, label: Any, answer: Any) -> Iterator[Difference]:
    if isinstance(label, Mapping) and isinstance(answer, Mapping):
        for key in dict.fromkeys([*label, *answer]):
            labelled, answered = (text_of(side[key]) if key in side else "" for side in (label, answer))
            if labelled != answered:
                yield Difference(f"{name}.{key}", _by_words(labelled, answered))
    elif not isinstance(label, (Mapping, list, tuple)):
        labelled, answered = text_of(label), text_of(answer)
        if isinstance(answer, Mapping) or answer is None or labelled == answered:
            return
        counts = [Counter(text.split()) for text in (labelled, answered)]
        longest, shared = max(sum(count.values()) for count in counts), (counts[0] & counts[1]).total()
        if longest < _LONG or shared >= _ALIKE * longest:
            yield Difference(name, _by_words(labelled, answered))


def _by_words(label: str, answer: str) -> list[Part]:
    labelled, answered = (re.findall(r"\s*\S+|\s+$", text) for text in (label, answer))
    first = _alike(labelled, answered)
    last = _alike(labelled[first:][::-1], answered[first:][::-1])
    middle = [words[first : len(words) - last] for words in (labelled, answered)]
    codes: list[tuple[str, int, int, int, int]] = [("replace", 0, len(middle[0]), 0, len(middle[1]))]
    if max(map(len, middle)) <= _WORDS:
        codes = list(SequenceMatcher(None, middle[0], middle[1], autojunk=False).get_opcodes())
    parts: list[Part] = [("same", "".join(labelled[:first]))]
    for tag, i, j, k, m in codes:
        if tag == "equal":
            parts.append(("same", "".join(middle[0][i:j])))
        else:
            parts += [("missing", "".join(middle[0][i:j])), ("extra", "".join(middle[1][k:m]))]
    parts.append(("same", "".join(labelled[len(labelled) - last :])))
    return [(kind, text) for kind, text in parts if text]


def _alike(labelled: Sequence[str], answered: Sequence[str]) -> int:
    """How many words two texts begin with alike."""
    pairs = zip(labelled, answered, strict=False)
    return next(
        (n for n, (one, other) in enumerate(pairs) if one != other), min(len(labelled), len(answered))
    )


def _read(value: Any) -> Any:
    """An answer as an object where it is one, or is the text of one."""
    if not isinstance(value, str) or value.lstrip()[:1] != "{":
        return value
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return read if isinstance(read, dict) else value
