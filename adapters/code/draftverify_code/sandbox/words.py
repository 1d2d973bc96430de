"""Calls and values in words, for a model that is to mend its program: short, and safe on values of any size.

Standard library only; this file is also imported alone, by a small server process.
"""

from __future__ import annotations

import ast
import reprlib
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING or __package__:
    from draftverify_code.sandbox import codec
else:
    import codec

__all__ = ["Call", "clean", "cut", "named_values", "short", "text_of", "written"]

FEEDBACK = 600  # characters


class Call(NamedTuple):
    name: str
    request: bytes
    answer: bytes | None


class _Repr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = self.maxdict = 40
        self.maxstring = self.maxother = 200

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() < 400 else f"<int of {x.bit_length()} bits>"


_bounded = _Repr().repr


def short(value: Any, most: int) -> str:
    """The repr, of a value of any size."""
    try:
        return cut(_bounded(value), most)
    except Exception:
        return f"<{type(value).__name__}>"


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def clean(text: str) -> str:
    return cut(text, FEEDBACK).encode(errors="replace").decode()


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def written(call: Call, known: codec.Known) -> str:
    """A call as Python writes it."""
    if not call.name:
        return "loading the program"
    _, _, args, kwargs = codec.loads(call.request, known)
    words = [short(each, 120) for each in args] + [
        f"{name}={short(each, 120)}" for name, each in kwargs.items()
    ]
    return cut(f"{call.name}({', '.join(words)})", 240)


def named_values(statement: str, variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The names in a statement with their values, where these are data."""
    try:
        tree = ast.parse(statement)
    except (SyntaxError, ValueError):
        return
    names = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    for name in names:
        if (
            name in variables
            and not callable(variables[name])
            and not isinstance(variables[name], ModuleType)
        ):
            yield name, variables[name]
