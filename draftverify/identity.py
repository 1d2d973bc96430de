"""What tells a part from others: by it a file says which parts it was made with, and a replay what has changed."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from draftverify.errors import ConfigError
from draftverify.secret import Secret


def identity_of(part: object) -> str:
    """The same for two parts that answer alike, as far as can be told: 16 hexadecimal digits.

    A part's own word, its `identity`; without one its class and its constructor's arguments, which it stores under
    their names, but for what it writes into (`writes`): parts among them by their identities, files and directories by
    what stands in them, functions by their code, their defaults and what they close over, but not by the functions
    that they call. One that stands in for another (`__wrapped__`) is told as that one.

    Raises:
        ConfigError: an argument cannot be told from others of its kind.
    """
    description = json.dumps(_described(part, ()), sort_keys=True, ensure_ascii=False)
    return _digest(description.encode("utf-8", "backslashreplace"))[:16]


def arguments_of(part: object) -> dict[str, Any]:
    """The constructor's arguments of a part that it stores under their names; of one that stands in for another
    (`__wrapped__`), that one's.

    Raises:
        ValueError: its constructor cannot be looked at.
    """
    part = getattr(part, "__wrapped__", part)
    names = inspect.signature(type(part)).parameters
    return {name: getattr(part, name) for name in names if hasattr(part, name)}


def written_by(kind: type) -> frozenset[str]:
    """The names of the constructor's arguments, paths, into which a component writes, by its class's `writes`; what
    lies at the others is what it reads, and a run is not resumed once that has changed."""
    return frozenset(getattr(kind, "writes", ()))


def _described(value: Any, enclosing: tuple[Any, ...]) -> Any:
    """What a value is, as JSON.

    Args:
        value: an argument of a part, or the part.
        enclosing: what it stands in, so that one which holds itself comes to an end.

    Raises:
        ConfigError: it cannot be told from others of its kind.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is ...:
        return "..."
    if isinstance(value, Secret):  # which is a text too
        return "secret"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if any(value is holder for holder in enclosing):
        return "itself"
    enclosing = (*enclosing, value)
    if isinstance(value, Mapping):
        return {str(key): _described(entry, enclosing) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        entries = [_described(entry, enclosing) for entry in value]
        return sorted(entries, key=str) if isinstance(value, (set, frozenset)) else entries
    if isinstance(value, Path):
        return _content(value)
    if isinstance(value, bytes):
        return _digest(value)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), _digest(value.tobytes())]
    if isinstance(value, re.Pattern):
        return [_described(value.pattern, enclosing), value.flags]
    if isinstance(value, partial):
        return [_described(field, enclosing) for field in (value.func, value.args, value.keywords)]
    if isinstance(value, CodeType):
        return [value.co_code.hex(), value.co_names, _described(value.co_consts, enclosing)]
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    if inspect.isfunction(value):
        closed = [cell.cell_contents for cell in value.__closure__ or ()]
        fields = (value.__code__, value.__defaults__, value.__kwdefaults__, closed)
        return [name, *[_described(field, enclosing) for field in fields]]
    if inspect.ismethod(value):
        return [name, _described(value.__self__, enclosing)]
    if isinstance(value, type) or inspect.isbuiltin(value):
        return name
    wrapped = getattr(value, "__wrapped__", None)
    return _object_described(value, enclosing) if wrapped is None else _described(wrapped, enclosing[:-1])


def _object_described(value: Any, enclosing: tuple[Any, ...]) -> Any:
    """What a part, or another object of a class of its own, is: by its own word, or by its constructor's arguments."""
    kind = type(value)
    identity = getattr(value, "identity", None)
    if isinstance(identity, str):
        return [kind.__qualname__, identity]
    try:
        arguments = arguments_of(value)
        if len(enclosing) > 1 and not arguments and inspect.signature(kind).parameters:
            raise ValueError("it stores none of its constructor's arguments under their names")
    except ValueError as error:
        holder = f"; give {type(enclosing[0]).__name__} an `identity`" if len(enclosing) > 1 else ""
        raise ConfigError(f"there is no telling a {kind.__name__} from another{holder}") from error
    return [
        f"{kind.__module__}.{kind.__qualname__}",
        {
            name: _described(argument, enclosing)
            for name, argument in arguments.items()
            if name not in written_by(kind)
        },
    ]


def _content(path: Path) -> Any:
    """What stands in a file, or in the files of a directory; where there is neither, its name."""
    if path.is_file():
        return _digest(path.read_bytes())
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return [[str(file.relative_to(path)), _digest(file.read_bytes())] for file in files] or path.name


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
