"""What crosses between a program and its tests: plain values, each exactly as it is, as JSON with tags, and no code.

Plain are None, bool, int, float (but nan, which is not equal to itself), complex, str and bytes; and lists, tuples,
dicts, sets and frozensets of plain values. Of these types themselves: an object of a subclass is not plain. Nothing
else crosses. `dumps` raises `CannotCross` for it; `loads` takes any bytes, also a hostile peer's: it raises ValueError
and nothing else, and builds nothing else. Standard library only; this file is also imported alone, by the small server
processes.

A `WireExchange` is one request and its answer. Both ends number its lists, dicts and sets alike, in the order in which
they begin: what stands twice in it is one object at either end, and an argument that comes back is the caller's own.

A value is a JSON atom (None, bool, int, float, str), a JSON array (a list), or an object with one key, the tag:

| tag | content |
|---|---|
| ref | the number of a list, dict or set that came before in this exchange |
| tuple, set, frozenset | items |
| dict | keys, then as many values |
| complex, bytes | [real, imaginary]; base64 |
| int, float, str | what JSON cannot carry: hexadecimal digits; "inf"; base64 of UTF-8 with lone surrogates |
"""

from __future__ import annotations

import gc
import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from math import inf
from operator import is_
from struct import Struct
from sys import getrefcount
from typing import Any, NoReturn

HEAD = Struct(">I")
"""A frame on the channel is its length and a value."""
FRAME = 16 << 20
"""No frame is larger, in bytes."""

MAX_DEPTH = 100  # containers inside each other: what compares or prints values recurses
ATOMS = frozenset({type(None), bool, int, float, str})


class CannotCross(Exception):
    """Something that is not plain; the message says what."""


class WireExchange:
    """One end of a request and its answer.

    Attributes:
        containers: the lists, dicts and sets of both, by their numbers.
    """

    def __init__(self) -> None:
        self.containers: list[Any] = []
        self._numbers: dict[int, int] = {}

    # --- bytes

    def dumps(self, value: Any) -> bytes:
        """A value as bytes.

        Raises:
            CannotCross: something in it is not plain, or it is too deep or too large.
        """
        node = self._node(value, 0)
        try:
            data = _to_json(node).encode()
        except ValueError:  # infinity, an int of too many digits, or a lone surrogate
            data = _to_json(_without_odd_atoms(node)).encode()
        if len(data) > FRAME:
            raise CannotCross(f"more than {FRAME >> 20} MiB")
        return data

    def loads(self, data: bytes) -> Any:
        """The value that `dumps` wrote.

        Raises:
            CannotCross: a set goes through its items in another order here.
            ValueError: the bytes are not of a value, or of one that is too deep or too large.
        """
        try:
            return self._value(_from_json(str(data, "utf-8")), 0)
        except CannotCross:
            raise
        except Exception as error:
            raise ValueError(f"not a value: {type(error).__name__}: {str(error)[:200]}") from None

    # --- what was done to the containers of a request

    def contents(self) -> list[list[Any]]:
        """What is in each container now, for `changes` later."""
        return [_items(value) for value in self.containers]

    def changes(self, contents: list[list[Any]]) -> list[list[Any]]:
        """The number and the items of each that has changed since. By identity: no `__eq__` has a say."""
        changed = []
        for number, old in enumerate(contents):
            items = _items(self.containers[number])
            if len(items) != len(old) or not all(map(is_, items, old)):
                changed.append([number, items])
        return changed

    def change(self, changes: Any, bound: int) -> None:
        """Give containers of this end the items that they have at the other.

        Args:
            changes: of `changes`, as `loads` read them, or anything else.
            bound: of the numbers: those of the request.

        Raises:
            ValueError: they are something else.
        """
        try:
            for number, items in changes:
                if type(number) is not int or not 0 <= number < bound or type(items) is not list:
                    raise ValueError("no such container")
                container = self.containers[number]
                container.clear()
                _fill(container, items)
        except CannotCross:
            raise
        except Exception as error:
            raise ValueError(f"not a change: {type(error).__name__}: {str(error)[:200]}") from None

    def is_held(self) -> bool:
        """Whether anything else refers to one of the containers, which then could change, or be changed, later.

        The exchange forgets them. One that refers to itself counts as held.
        """
        containers, self.containers = self.containers, []
        collected = False
        while containers:
            # Without those that nothing refers to but this list; each pass lets go of what these alone held.
            held = [value for value in containers if getrefcount(value) > _ALONE]
            if len(held) == len(containers):
                if collected:
                    return True
                gc.collect()  # a function that calls itself holds what it sees
                collected = True
            containers = held
        return False

    # --- writing

    def _node(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in ATOMS:
            return value
        write = _WRITERS.get(kind)
        if write is None:
            raise CannotCross(f"an object of type {kind.__name__}")
        if depth >= MAX_DEPTH:
            raise CannotCross("a value that is too deep")
        if kind in _CONTAINERS:
            number = self._numbers.get(id(value))
            if number is not None:
                return {"ref": number}
            self._numbers[id(value)] = len(self.containers)
            self.containers.append(value)  # which also keeps its id its own
        return write(self, value, depth)

    def _nodes(self, items: list[Any], depth: int) -> list[Any]:
        if ATOMS.issuperset(map(type, items)):
            return items
        return [self._node(item, depth + 1) for item in items]

    # --- reading

    def _value(self, node: Any, depth: int) -> Any:
        kind = type(node)
        if kind is list:
            return self._read([], node, depth)
        if kind is dict:
            ((tag, content),) = node.items()
            return _READERS[tag](self, content, depth)
        return node

    def _values(self, nodes: Any, depth: int) -> list[Any]:
        if type(nodes) is not list:
            raise ValueError("items are missing")
        if depth >= MAX_DEPTH:
            raise ValueError("too deep")
        if ATOMS.issuperset(map(type, nodes)):
            return nodes
        return [self._value(node, depth + 1) for node in nodes]

    def _read(self, container: Any, nodes: Any, depth: int) -> Any:
        """A container: it is there before its items, which may refer to it."""
        self._numbers[id(container)] = len(self.containers)
        self.containers.append(container)
        _fill(container, self._values(nodes, depth))
        return container

    def _read_reference(self, content: Any, depth: int) -> Any:
        if type(content) is not int or content < 0:
            raise ValueError("not a reference")
        return self.containers[content]


def _items(container: Any) -> list[Any]:
    return [*container.keys(), *container.values()] if type(container) is dict else list(container)


def _fill(container: Any, items: list[Any]) -> None:
    if type(container) is list:
        container[:] = items
    elif type(container) is set:
        container.update(items)
        _in_order(container, items)
    else:
        half, odd = divmod(len(items), 2)
        if odd:
            raise ValueError("a key has no value")
        container.update(zip(items[:half], items[half:], strict=True))


def _in_order(value: Any, items: list[Any]) -> Any:
    """The set or frozenset, where it goes through its items as at the other end."""
    if not all(map(is_, value, items)):
        raise CannotCross("a set whose order is that of how it was made")
    return value


# ---------------------------------------------------------------------------------------------------------------------
# JSON
# ---------------------------------------------------------------------------------------------------------------------


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_to_json = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
_from_json = json.JSONDecoder(parse_constant=_no_constant).decode


def _without_odd_atoms(node: Any) -> Any:
    """The same with tags for what JSON cannot carry."""
    kind = type(node)
    if kind is int:
        return {"int": format(node, "x")} if node.bit_length() > 14_000 else node  # the least limit of digits
    if kind is float and node - node != 0:
        if node != node:
            raise CannotCross("nan")
        return {"float": repr(node)}
    if kind is str:
        try:
            node.encode()
        except UnicodeEncodeError:
            return {"str": _text(node.encode("utf-8", "surrogatepass"))}
    if kind is list:
        return [_without_odd_atoms(inner) for inner in node]
    if kind is dict:
        return {tag: _without_odd_atoms(content) for tag, content in node.items()}
    return node


def _text(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


_Write = Callable[[WireExchange, Any, int], Any]
_WRITERS: dict[type, _Write] = {
    list: lambda exchange, value, depth: exchange._nodes(value, depth),
    dict: lambda exchange, value, depth: {"dict": exchange._nodes(_items(value), depth)},
    **{
        kind: lambda exchange, value, depth, tag=kind.__name__: {tag: exchange._nodes(list(value), depth)}
        for kind in (tuple, set, frozenset)
    },
    complex: lambda exchange, value, depth: {"complex": [value.real, value.imag]},
    bytes: lambda exchange, value, depth: {"bytes": _text(value)},
}
_CONTAINERS = frozenset({list, dict, set})

_READERS: dict[str, Callable[[WireExchange, Any, int], Any]] = {
    "ref": WireExchange._read_reference,
    "tuple": lambda exchange, content, depth: tuple(exchange._values(content, depth)),
    "set": lambda exchange, content, depth: exchange._read(set(), content, depth),
    "frozenset": lambda exchange, content, depth: _frozen(exchange._values(content, depth)),
    "dict": lambda exchange, content, depth: exchange._read({}, content, depth),
    "complex": lambda exchange, content, depth: complex(*exchange._values(content, depth)),
    "bytes": lambda exchange, content, depth: a2b_base64(content),
    "int": lambda exchange, content, depth: int(content, 16),
    "float": lambda exchange, content, depth: {"inf": inf, "-inf": -inf}[content],
    "str": lambda exchange, content, depth: a2b_base64(content).decode("utf-8", "surrogatepass"),
}


def _frozen(items: list[Any]) -> frozenset[Any]:
    return _in_order(frozenset(items), items)  # type: ignore[no-any-return]


def _alone() -> int:
    """References to what nothing but a list refers to."""
    containers: list[Any] = [[]]
    return [getrefcount(value) for value in containers][0]  # noqa: RUF015 - as they are counted


_ALONE = _alone()
