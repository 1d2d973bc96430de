"""Recorded text made safe for a terminal and a page: what a model wrote is hostile in both, so it is cleaned first."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from draftverify.secret import redact

NAME = 1_000
"""For `words` of a task's id or group: whole, as records hold no longer one, and on one line."""
NAMED = 3
"""Tasks that one line names."""

_WIDE = 72
"""Characters of a JSON value that stands on one line."""

_KEPT = "\n\t"
_DANGEROUS = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))


def clean(text: str) -> str:
    """Text without what could steer a terminal: control, format (bidirectional, zero-width) and unpaired characters.

    Each is replaced by the replacement character, so that nothing vanishes unseen; newlines and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in _KEPT or unicodedata.category(char) not in _DANGEROUS else "\ufffd" for char in text
    )


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def words(value: Any, limit: int = 200) -> str:
    """A recorded value as clean text on one line; secrets go before it is cut, as half of one is too much of it."""
    text = clean(redact(text_of(value))).replace("\n", "⏎").replace("\t", " ")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def block(value: Any, limit: int = 4000) -> list[str]:
    """A recorded value as clean lines: a text keeps its own, an object has its names before its values.

    Args:
        value: JSON.
        limit: characters; of what is longer the last line says how much is left out.
    """
    text = redact("\n".join(_laid_out(value))).replace("\r\n", "\n")
    lines = clean(text[:limit]).split("\n") or [""]
    if len(text) > limit:
        lines.append(f"… and {len(text) - limit} characters more")
    return lines


def seconds_words(seconds: float) -> str:
    """A time that was measured, in the unit that reads best: 27 µs, 1.3 ms, 2.40 s, 3.5 min; the page does the same."""
    if seconds < 0.0:
        return f"-{seconds_words(-seconds)}"
    if seconds >= 90.0:
        return f"{seconds / 60:.1f} min"
    if seconds >= 1.0 or seconds == 0.0:
        return f"{seconds:.2f} s" if seconds else "0 s"
    if seconds >= 1e-3:
        return f"{1e3 * seconds:.{0 if seconds >= 0.1 else 1}f} ms"
    return f"{1e6 * seconds:.{0 if seconds >= 1e-6 else 3}f} µs"


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Names of at most so many characters: what those that begin alike have in common goes first, then the middle, so
    that they stay apart; charts of the page do the same."""
    split = [re.split(r"(?<=[@,/=\s])", name) for name in names]
    short = []
    for name, own in zip(names, split, strict=True):
        family = [other for other in split if other[0] == own[0]]
        columns = takewhile(lambda words: len({*words}) == 1, zip(*family, strict=False))
        alike = min(len([*columns]), len(own) - 1) if len(family) > 1 else 0
        rests = [name, *("…" + "".join(own[dropped:]) for dropped in range(1, alike + 1))]
        half = max(2, (most - 1) // 2)
        whole = (rest for rest in rests if len(rest) <= most)
        short.append(next(whole, f"{rests[-1][: most - 1 - half]}…{rests[-1][-half:]}"))
    return short


def cost_words(cost: float, currency: str = "") -> str:
    """What something cost, to four digits, in the experiment's currency where it names one."""
    return f"{cost:.4g} {currency}" if currency else f"cost {cost:.4g}"


def about_seconds(seconds: float) -> str:
    """A time to wait, no finer than anybody needs."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _laid_out(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split("\n")
        return
    text = json.dumps(value, ensure_ascii=False)
    short = len(text) <= _WIDE or (isinstance(value, list) and all(map(_is_piece, value)))
    if not isinstance(value, (dict, list)) or (short and "\\n" not in text):
        yield text
        return
    for name, inner in value.items() if isinstance(value, dict) else (("-", item) for item in value):
        lead = f"{name}:" if isinstance(value, dict) else "-"
        head, *tail = _laid_out(inner)
        if tail or isinstance(inner, dict):
            yield lead
            yield from (f"  {line}" for line in (head, *tail))
        else:
            yield f"{lead} {head}"


def _is_piece(value: Any) -> bool:
    """A number, or a word rather than a text."""
    return not isinstance(value, (dict, list)) and (not isinstance(value, str) or len(value) <= 24)


def some_of(tasks: Sequence[str]) -> str:
    """Some of these tasks, and how many they are where there are others."""
    count = f", … ({len(tasks)})" if len(tasks) > NAMED else ""
    return ", ".join(words(task, 40) for task in tasks[:NAMED]) + count
