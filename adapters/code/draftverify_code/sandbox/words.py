"""Calls and values in words, for a model that is to mend its program: short, and safe on values of any size.

Standard library only; this file is also imported alone, by a small server process.
"""

from __future__ import annotations

import ast
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

FEEDBACK = 600  # characters


def used(seconds: float, cpu: float, waited: float) -> str:
    """What became of a program's time."""
    held = f", and was kept from the processor for {waited:.3g} s" if waited > seconds / 10 else ""
    return f"{cpu:.3g} s of processor time in {seconds:.3g} s{held}"


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
    except BaseException:  # what the program's class defines itself cannot be used here
        return f"<{type(value).__name__}>"


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def clean(text: str) -> str:
    return cut(text, FEEDBACK).encode(errors="replace").decode()


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return ""


def written(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A call as Python writes it."""
    arguments = [short(value, 120) for value in args] + [
        f"{key}={short(value, 120)}" for key, value in kwargs.items()
    ]
    return cut(f"{name}({', '.join(arguments)})", 240)


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
