"""What crosses between a program and its tests: values, whole or not at all, as JSON with tags, and no code.

Each end of a conversation has a `Wire`. `dumps` raises `CannotCross` for what would arrive as something else than it
is; `loads` takes any bytes, also a hostile peer's: it raises ValueError and nothing else, and builds nothing by name
that is not listed here. Both ends number alike what has an identity, so that what crossed before is the same object
when it crosses again. Standard library only; this file is also imported alone, by the small server processes.

A value is a JSON atom (None, bool, int, float, str), a JSON array (a list), or an object with one key, the tag:

| tag | content |
|---|---|
| ref | number of an object that came before, in order of its first occurrence |
| tuple, set, frozenset | items |
| dict, Counter, OrderedDict | keys, then as many values |
| defaultdict, deque | [factory, keys and values]; [maxlen, items] |
| bytearray | base64 |
| int, str | what JSON cannot carry: hexadecimal digits; base64 of UTF-8 with lone surrogates |
| bytes, complex, range, Decimal, datetime, … (`PARTS`) | the parts that make it |
| text | [name of a type, what it is made of] |
| type, constant | name of one that is listed |
| array, scalar | [dtype, shape, base64]; [dtype, the same as a plain value]; where the receiver has NumPy |
| exception | [type, arguments, attributes, text, cause, context, whether the context is hidden] |
| class | a class of the program's own: [name, form, bases, detail, names that it defines] |
| named, member, record | [class, items], [class, name, value], [class, names and values]: objects of such a class |
| handle | [form, class, name]: an object that stays in its process |

What is the program's own is told by `own` and made by `mirror`.
"""

from __future__ import annotations

import array
import builtins
import importlib
import json
import re
import sys
from binascii import a2b_base64, b2a_base64
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import EnumMeta
from fractions import Fraction
from operator import is_
from struct import Struct
from typing import Any

__all__ = ["FRAME", "HEAD", "CannotCross", "Wire", "changes", "digits_limit", "kept_numbers"]

HEAD = Struct(">I")
"""A frame on the channel is its length and a value."""
FRAME = 16 << 20
"""No frame is larger, in bytes."""

MAX_DEPTH = 100  # containers inside each other: what compares or prints values recurses
MAX_RANGE = 1 << 24  # a longer range would be a small frame that becomes a large list
MAX_DIGITS = 10_000  # of a Decimal, and of its exponent's size
MAX_BITS = 1 << 16  # of each part of a Fraction, which is reduced when it is built
DIGITS = 4300  # of an int in decimal, which takes quadratic time; the interpreter's own default

ATOMS = frozenset({type(None), bool, int, float, str})
CONSTANTS = {"Ellipsis": ..., "NotImplemented": NotImplemented}
DTYPE = re.compile(r"[|<>](?:b1|[iu][1248]|f[248]|c8|c16|U[0-9]{1,7})")

EXCEPTION_MODULES = frozenset(
    """_csv _hashlib _lzma _pickle _queue argparse ast asyncio.exceptions asyncio.queues binascii builtins calendar
    concurrent.futures._base concurrent.futures.process concurrent.futures.thread configparser copy dataclasses
    decimal doctest email.errors ftplib getopt getpass graphlib gzip http.client http.cookiejar http.cookies
    importlib.metadata inspect io ipaddress json.decoder locale mailbox multiprocessing.context netrc optparse
    pickle plistlib queue re re._constants shutil smtplib socket sqlite3 sre_constants ssl statistics struct
    subprocess tarfile threading tokenize tomllib tomllib._parser unittest.case urllib.error wave xml.dom
    xml.etree.ElementTree xml.parsers.expat xml.sax._exceptions xmlrpc.client zipfile zipimport zlib
    zoneinfo._common""".split()  # noqa: SIM905
)
"""The modules of the standard library whose exceptions cross."""


class CannotCross(Exception):
    """A value that would arrive as something else than it is; the message says which."""


class Wire:
    """One end of a conversation: what it knows of what crossed before. What an end does not override it refuses.

    Attributes:
        objects: number → what has an identity and is known at both ends.
        reordered: whether a set goes through its items in another order than the one that crossed.
        nan: whether a value that is not equal to itself may have crossed; which one it was is lost.
    """

    import_numpy = False  # whether an array imports NumPy where that is not loaded

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.lasting: set[int] = set()  # numbers of what both ends keep for good
        self.count = 0
        self.nan = False
        self.reordered = False

    # --- what an end may know better

    def form(self, kind: type) -> str:
        """How objects of a class that is not listed cross: "named" (tuples), "enum", or as `told` says."""
        return ""

    def told(self, value: Any, depth: int) -> Any:
        """How anything else is written."""
        raise CannotCross(f"an object of type {type(value).__name__}")

    def made(self, tag: str, content: Any, depth: int) -> Any:
        """What an object is that the other end told of."""
        raise ValueError(f"no {tag} is expected here")

    # --- bytes

    def dumps(self, value: Any) -> bytes:
        """A value as bytes.

        Raises:
            CannotCross: something in it does not cross whole. Nothing of it is known then.
        """
        count = self.count
        digits = _get_digits()
        try:
            node = self.value(value, 0)
            if digits != DIGITS:
                _set_digits(DIGITS)
            try:
                text = _to_json(node).encode()
            except ValueError:  # an int of too many digits, or a lone surrogate
                text = _to_json(_without_odd_atoms(node)).encode()
        except RecursionError:
            self.forget(count)
            raise CannotCross("a value that is too deep") from None
        except BaseException:
            self.forget(count)
            raise
        finally:
            if digits != DIGITS:
                _set_digits(digits)
        self.nan = self.nan or b"NaN" in text
        return text

    def loads(self, data: bytes) -> Any:
        """The value that `dumps` wrote.

        Raises:
            ValueError: the bytes are not of a value, or of one that is too deep or too large.
        """
        self.nan = self.nan or b"NaN" in data
        try:
            return self.read(_from_json(str(data, "utf-8")), 0)
        except Exception as error:
            raise ValueError(f"not a value: {type(error).__name__}: {str(error)[:200]}") from None

    # --- what is known

    def number(self, value: Any, depth: int) -> int:
        """Number something at its first occurrence."""
        if depth >= MAX_DEPTH:
            raise CannotCross("a value that is too deep")
        number, self.count = self.count, self.count + 1
        self.objects[number] = value  # which also keeps its id its own
        self.numbers[id(value)] = number
        return number

    def number_made(self, number: int, value: Any) -> Any:
        """The same where the number was taken before the value was there."""
        self.objects[number] = value
        self.numbers[id(value)] = number
        return value

    def take_number(self, depth: int) -> int:
        """A number for what is there only when its parts are."""
        if depth >= MAX_DEPTH:
            raise ValueError("too deep")
        number, self.count = self.count, self.count + 1
        return number

    def forget(self, count: int) -> None:
        """Everything from a number on."""
        for number in range(count, self.count):
            self.drop(number)
            self.lasting.discard(number)
        self.count = count

    def drop(self, number: int) -> Any:
        """One object; it is returned."""
        value = self.objects.pop(number, None)
        if self.numbers.get(id(value)) == number:
            del self.numbers[id(value)]
        return value

    def release(self, numbers: Iterable[int]) -> None:
        """All but what lasts and these."""
        for number in self.objects.keys() - self.lasting - set(numbers):
            self.drop(number)

    def contents(self, numbers: Collection[int]) -> Contents:
        """What is in the mutable ones of some objects now, for `changes` later."""
        contents = []
        for number in numbers:
            value = self.objects[number]
            read = self.reader(number, value)
            if read is not None:
                contents.append((number, value, read, read(value)))
        return contents

    def reader(self, number: int, value: Any) -> Callable[[Any], Any] | None:
        """What says the content of an object, if it can change."""
        read = _CONTENTS.get(type(value))
        if read is None and type(value) is getattr(sys.modules.get("numpy"), "ndarray", None):
            return lambda array: array.copy()
        return read

    def change(self, changed: Any, bound: int) -> None:
        """Give objects of this end the content that they have at the other.

        Args:
            changed: of `changes`, as `loads` read it, or anything else.
            bound: only objects with a lower number may change.

        Raises:
            ValueError: it is something else, or an object cannot have that content.
        """
        try:
            for number, content in changed:
                if type(number) is not int or not 0 <= number < bound:
                    raise ValueError("no such object")
                self.replace(self.objects[number], content)
        except Exception as error:
            raise ValueError(f"not a change: {type(error).__name__}: {str(error)[:200]}") from None

    def replace(self, value: Any, content: Any) -> None:
        """Give one object its content."""
        if isinstance(value, (bytearray, list)):
            value[:] = content
        elif isinstance(value, array.array):
            value[:] = array.array(value.typecode, content)
        elif isinstance(value, dict):
            value.clear()
            _fill_dict(value, content)
        elif isinstance(value, (set, deque)):
            value.clear()
            value.update(content) if isinstance(value, set) else value.extend(content)
        elif hasattr(value, "dtype") and content.dtype == value.dtype and content.shape == value.shape:
            value[...] = content
        else:
            raise ValueError(f"a {type(value).__name__} does not change")

    # --- writing

    def value(self, value: Any, depth: int) -> Any:
        """A value as what JSON has."""
        kind = type(value)
        if kind in ATOMS:
            return value
        number = self.numbers.get(id(value))
        if number is not None:
            return {"ref": number}
        write = _WRITERS.get(kind)
        if write is not None:
            return write(self, value, depth)
        if isinstance(value, BaseException):
            return _write_exception(self, value, depth)
        if isinstance(value, type) and (name := _name_of(value)):
            return {"type": name}
        numpy = sys.modules.get("numpy")
        if numpy is not None and kind is getattr(numpy, "ndarray", None) and DTYPE.fullmatch(value.dtype.str):
            if not value.flags.writeable:
                raise CannotCross("a read-only array")
            base = value
            while (base := getattr(base, "base", None)) is not None:
                if id(base) in self.numbers:
                    raise CannotCross("a view of an array that crossed before")
            self.number(value, depth)
            return {"array": [value.dtype.str, value.shape, _text(value.tobytes())]}
        generic = getattr(numpy, "generic", ())
        if isinstance(value, generic) and DTYPE.fullmatch(value.dtype.str) and kind.__module__ == "numpy":
            return {"scalar": [value.dtype.str, self.value(value.item(), depth)]}
        if (name := _text_name(kind)) and getattr(value, "key", "") is not None:
            return {"text": [name, str(value)]}
        form = self.form(kind)
        if form == "named":
            self.number(value, depth)
            return {"named": [self.value(kind, depth + 1), self.items(list(tuple.__iter__(value)), depth)]}
        if form == "enum":
            name = value._name_ if value._name_ in kind.__members__ else None  # type: ignore[attr-defined]
            return {"member": [self.value(kind, depth + 1), name, self.value(value._value_, depth + 1)]}
        return self.told(value, depth)

    def items(self, items: list[Any], depth: int) -> list[Any]:
        """The items of something."""
        if ATOMS.issuperset(map(type, items)):
            return items
        return [self.value(item, depth + 1) for item in items]

    # --- reading

    def read(self, node: Any, depth: int) -> Any:
        """What a piece of JSON stands for."""
        kind = type(node)
        if kind is list:
            if depth >= MAX_DEPTH:
                raise ValueError("too deep")
            self.number(node, depth)
            if not ATOMS.issuperset(map(type, node)):
                node[:] = [self.read(inner, depth + 1) for inner in node]
            return node
        if kind is dict:
            ((tag, content),) = node.items()
            read = _READERS.get(tag)
            return read(self, content, depth) if read is not None else self.made(tag, content, depth)
        return node

    def read_items(self, nodes: Any, depth: int) -> list[Any]:
        """Items that are no list of their own."""
        if type(nodes) is not list:
            raise ValueError("items are missing")
        if ATOMS.issuperset(map(type, nodes)):
            return nodes
        return [self.read(node, depth + 1) for node in nodes]


Contents = list[tuple[int, Any, Callable[[Any], Any], Any]]


def changes(contents: Contents) -> list[list[Any]] | None:
    """Which objects changed since `Wire.contents`: [number, content] of each; None when none did."""
    changed: list[list[Any]] = []
    for number, value, read, old in contents:
        new = read(value)
        if type(new) is list:
            # Identity: a candidate's __eq__ has no say, and nan is itself.
            if len(new) != len(old) or not all(map(is_, new, old)):
                changed.append([number, new])
        elif type(new) is bytes:
            if new != old:
                changed.append([number, new])
        elif new.shape != old.shape or new.tobytes() != old.tobytes():
            changed.append([number, new])
    return changed or None


# ---------------------------------------------------------------------------------------------------------------------
# JSON
# ---------------------------------------------------------------------------------------------------------------------

_to_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_parse = json.JSONDecoder(parse_constant=float).decode  # each nan is one of its own
_get_digits: Callable[[], int] = getattr(sys, "get_int_max_str_digits", lambda: DIGITS)
_set_digits: Callable[[int], None] = getattr(sys, "set_int_max_str_digits", lambda digits: None)
digits_limit = _set_digits


def kept_numbers(data: bytes) -> list[int]:
    """The numbers behind an answer.

    Raises:
        ValueError: they are none.
    """
    numbers = _from_json(str(data, "utf-8")) if data != b"[]" else []
    if type(numbers) is not list or not all(type(number) is int for number in numbers):
        raise ValueError("no list of what is kept")
    return numbers


def _from_json(text: str) -> Any:
    """Parse under the interpreter's usual guard, which a test or a program may have lifted."""
    digits = _get_digits()
    if digits == DIGITS:
        return _parse(text)
    _set_digits(DIGITS)
    try:
        return _parse(text)
    finally:
        _set_digits(digits)


def _without_odd_atoms(node: Any) -> Any:
    """The same with tags for what JSON cannot carry."""
    kind = type(node)
    if kind is int:
        return node if node.bit_length() < 3 * DIGITS else {"int": format(node, "x")}
    if kind is str:
        try:
            node.encode()
        except UnicodeEncodeError:
            return {"str": _text(node.encode("utf-8", "surrogatepass"))}
        return node
    if kind is list or kind is tuple:
        return [_without_odd_atoms(inner) for inner in node]
    if kind is dict:
        return {tag: _without_odd_atoms(content) for tag, content in node.items()}
    return node


def _text(data: Any) -> str:
    return b2a_base64(data, newline=False).decode()


# ---------------------------------------------------------------------------------------------------------------------
# Values that are made of parts, and have no identity that anybody could tell
# ---------------------------------------------------------------------------------------------------------------------


def _crossing(result: Any, small: bool, label: str) -> Any:
    if not small:
        raise ValueError(f"{label} is too large")
    return result


def _decimal(text: str) -> Decimal:
    """No small text that stands for a huge number."""
    value = Decimal(text[: 2 * MAX_DIGITS + 1])
    _, digits, exponent = Decimal.as_tuple(value)
    small = len(digits) <= MAX_DIGITS and (isinstance(exponent, str) or abs(exponent) <= MAX_DIGITS)
    return _crossing(value, small and len(text) <= 2 * MAX_DIGITS, "a Decimal")


def _fraction(numerator: int, denominator: int) -> Fraction:
    small = max(numerator.bit_length(), denominator.bit_length()) <= MAX_BITS
    return _crossing(Fraction(numerator, denominator) if small else None, small, "a Fraction")


def _range(*parts: int) -> range:
    value = range(*parts)
    return _crossing(value, -MAX_RANGE < (value.stop - value.start) // value.step < MAX_RANGE, "a range")


def _clock(value: Any) -> tuple[Any, ...]:
    if value.tzinfo is not None and type(value.tzinfo) is not timezone and not _text_name(type(value.tzinfo)):
        raise CannotCross("a time in a zone of its own kind")
    return value.hour, value.minute, value.second, value.microsecond, value.tzinfo, value.fold


def _with_fold(kind: Any) -> Callable[..., Any]:
    return lambda *parts: kind(*parts[:-1], fold=parts[-1])


PARTS: dict[str, tuple[type, Callable[[Any], tuple[Any, ...]], Callable[..., Any]]] = {
    "bytes": (bytes, lambda value: (_text(value),), a2b_base64),
    "complex": (complex, lambda value: (value.real, value.imag), complex),
    "range": (range, lambda value: (value.start, value.stop, value.step), _range),
    "slice": (slice, lambda value: (value.start, value.stop, value.step), slice),
    "Decimal": (Decimal, lambda value: (Decimal.__str__(value),), _decimal),
    "Fraction": (Fraction, lambda value: (value.numerator, value.denominator), _fraction),
    "date": (date, lambda value: (value.year, value.month, value.day), date),
    "time": (time, _clock, _with_fold(time)),
    "datetime": (
        datetime,
        lambda value: (value.year, value.month, value.day, *_clock(value)),
        _with_fold(datetime),
    ),
    "timedelta": (timedelta, lambda value: (value.days, value.seconds, value.microseconds), timedelta),
    "timezone": (timezone, lambda value: value.__getinitargs__(), timezone),
}
TEXTS = frozenset(
    f"{module}.{name}"
    for module, names in {
        "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
        "pathlib": "PosixPath PurePosixPath PureWindowsPath",
        "uuid": "UUID",
        "zoneinfo": "ZoneInfo",
    }.items()
    for name in names.split()
)
"""Types that are made of their text, from modules that are imported when one crosses."""


def _text_name(kind: type) -> str:
    name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    return (
        name
        if name in TEXTS and getattr(sys.modules[name.partition(".")[0]], kind.__name__, None) is kind
        else ""
    )


def _read_text(wire: Wire, content: Any, depth: int) -> Any:
    name, text = content
    if name not in TEXTS:
        raise ValueError("no such type")
    module, _, qualified_name = name.partition(".")
    return getattr(importlib.import_module(module), qualified_name)(text)


def _of_parts(tag: str, parts: Callable[[Any], tuple[Any, ...]], make: Callable[..., Any]) -> Any:
    guarded = make in (_decimal, _fraction, _range)

    def write(wire: Wire, value: Any, depth: int) -> Any:
        values = parts(value)
        if guarded:
            try:
                make(*values)
            except ValueError as error:
                raise CannotCross(str(error)) from None
        return {tag: [wire.value(part, depth + 1) for part in values]}

    return write


# ---------------------------------------------------------------------------------------------------------------------
# Containers, types, exceptions, arrays
# ---------------------------------------------------------------------------------------------------------------------


def _pairs(value: Any) -> list[Any]:
    if getattr(value, "__dict__", None):
        raise CannotCross(f"a {type(value).__name__} with attributes of its own")
    return [*value.keys(), *value.values()]


_CONTENTS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((list, set, deque), list),
    **dict.fromkeys((dict, Counter, OrderedDict, defaultdict), _pairs),
    **dict.fromkeys((bytearray, array.array), bytes),
}
"""What is in a mutable object, by its exact type."""


def _write_list(wire: Wire, value: Any, depth: int) -> Any:
    wire.number(value, depth)
    return wire.items(value, depth)


def _write_container(tag: str, listed: Callable[[Any], list[Any]]) -> Any:
    def write(wire: Wire, value: Any, depth: int) -> Any:
        wire.number(value, depth)
        return {tag: wire.items(listed(value), depth)}

    return write


def _write_headed(tag: str, head: Callable[[Any], Any], listed: Callable[[Any], list[Any]]) -> Any:
    def write(wire: Wire, value: Any, depth: int) -> Any:
        wire.number(value, depth)
        return {tag: [wire.value(head(value), depth), wire.items(listed(value), depth)]}

    return write


def _factory(value: Any) -> Any:
    if value.default_factory is not None and not _name_of(value.default_factory):
        raise CannotCross("a defaultdict with a function of its own")
    return value.default_factory


def _fill_dict(value: Any, items: list[Any]) -> None:
    half, odd = divmod(len(items), 2)
    if odd:
        raise ValueError("a key has no value")
    for key, value_item in zip(items[:half], items[half:], strict=True):
        value[key] = value_item


def _read_built(build: Callable[[list[Any]], Any]) -> Any:
    """Of something immutable: built when its items are there."""

    def read(wire: Wire, content: Any, depth: int) -> Any:
        number = wire.take_number(depth)
        return wire.number_made(number, build(wire.read_items(content, depth)))

    return read


def _read_filled(make: Callable[[], Any], fill: Callable[[Any, list[Any]], Any]) -> Any:
    """Of something mutable: there before its items, which may refer to it."""

    def read(wire: Wire, content: Any, depth: int) -> Any:
        value = wire.number_made(wire.take_number(depth), make())
        fill(value, wire.read_items(content, depth))
        return value

    return read


def _read_set(wire: Wire, content: Any, depth: int) -> Any:
    value = wire.number_made(wire.take_number(depth), set())
    items = wire.read_items(content, depth)
    value.update(items)
    return _in_order(wire, value, items)


def _read_frozenset(wire: Wire, content: Any, depth: int) -> Any:
    number, items = wire.take_number(depth), wire.read_items(content, depth)
    return wire.number_made(number, _in_order(wire, frozenset(items), items))


def _in_order(wire: Wire, value: Any, items: list[Any]) -> Any:
    wire.reordered = wire.reordered or not all(map(is_, value, items))
    return value


def _read_headed(make: Callable[[Any], Any], fill: Callable[[Any, list[Any]], Any]) -> Any:
    def read(wire: Wire, content: Any, depth: int) -> Any:
        head, nodes = content
        number = wire.take_number(depth)
        value = wire.number_made(number, make(wire.read(head, depth)))
        fill(value, wire.read_items(nodes, depth))
        return value

    return read


def _read_ref(wire: Wire, content: Any, depth: int) -> Any:
    if type(content) is not int:
        raise ValueError("not a reference")
    return wire.objects[content]


def _name_of(kind: Any) -> str:
    """The name by which a listed type crosses; "" for others."""
    if not isinstance(kind, type):
        return ""
    if _TYPES.get(kind.__name__) is kind:
        return kind.__name__
    if issubclass(kind, BaseException) and kind.__module__ in EXCEPTION_MODULES:
        name = f"{kind.__module__}.{kind.__name__}"
        return name if _exception_type(name) is kind else ""
    return ""


def _exception_type(name: str) -> Any:
    module, _, qualified_name = name.rpartition(".")
    if module not in EXCEPTION_MODULES:
        raise ValueError("no such type")
    kind = getattr(importlib.import_module(module), qualified_name, None)
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None


def _read_type(wire: Wire, content: Any, depth: int) -> Any:
    kind = _TYPES.get(content) or _exception_type(content)
    if kind is None:
        raise ValueError("no such type")
    return kind


def _members(error: BaseException) -> dict[str, Any]:
    """Attributes that are neither among an exception's arguments nor in its `__dict__`."""
    bases = [base for base in (NameError, AttributeError, ImportError) if isinstance(error, base)]
    return {name: vars(base)[name] for base in bases for name in ("name", "path") if name in vars(base)}


def _write_exception(wire: Wire, value: BaseException, depth: int) -> Any:
    kind = type(value)
    wire.number(value, depth)
    args = OSError.__reduce__(value)[1] if isinstance(value, OSError) else value.args
    attributes = dict(vars(value))
    attributes |= {name: member.__get__(value) for name, member in _members(value).items()}
    is_program_type = not _name_of(kind)
    text = (
        str(value)
        if is_program_type and kind.__str__ not in (BaseException.__str__, KeyError.__str__)
        else None
    )
    parts = kind, args, attributes, text, value.__cause__, value.__context__, value.__suppress_context__
    return {"exception": [wire.value(part, depth + 1) for part in parts]}


TEXT = " text"  # the attribute that holds what an exception's own `__str__` said


def _read_exception(wire: Wire, content: Any, depth: int) -> Any:
    number = wire.take_number(depth)
    kind, args, *fields = content
    kind = wire.read(kind, depth + 1)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise ValueError("not an exception")
    args = wire.read(args, depth + 1)
    error = kind.__new__(kind, *args)
    built_in = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    with suppress(TypeError):  # the arguments of a class of its own need not be those of the built-in one
        built_in.__init__(error, *args)
    if not isinstance(error, OSError):
        error.args = args
    wire.number_made(number, error)
    attributes, text, cause, context, hidden = (wire.read(field, depth + 1) for field in fields)
    members = _members(error)
    for name, attribute in attributes.items():
        if name in members:
            members[name].__set__(error, attribute)
        else:
            vars(error)[name] = attribute
    if text is not None:
        vars(error)[TEXT] = str(text)
    error.__cause__, error.__context__, error.__suppress_context__ = cause, context, bool(hidden)
    return error


def _read_named(wire: Wire, content: Any, depth: int) -> Any:
    kind, items = content
    number = wire.take_number(depth)
    return wire.number_made(number, tuple.__new__(wire.read(kind, depth + 1), wire.read_items(items, depth)))


def _read_member(wire: Wire, content: Any, depth: int) -> Any:
    kind, name, value = content
    kind, value = wire.read(kind, depth + 1), wire.read(value, depth + 1)
    if not isinstance(kind, EnumMeta):
        raise ValueError("not an enum")
    return kind(value) if name is None else kind[name]


def _read_array(wire: Wire, content: Any, depth: int) -> Any:
    dtype, shape, data = content
    raw = a2b_base64(data)
    if wire.import_numpy:
        importlib.import_module("numpy")
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return wire.made("handle", ["object", None, "ndarray"], depth)
    if not DTYPE.fullmatch(dtype) or len(shape) > 32 or any(type(size) is not int for size in shape):
        raise ValueError("not an array")
    kind = numpy.dtype(dtype)
    if kind.itemsize > max(len(raw), 4096):
        raise ValueError("not an array")
    flat = numpy.frombuffer(raw, kind) if kind.itemsize else numpy.zeros(0, kind)
    if kind.kind == "b":
        flat = flat.view("u1") != 0  # any other byte would be neither true nor false
    elif kind.kind == "U" and flat.size and flat.view(kind.str[0] + "u4").max() > sys.maxunicode:
        raise ValueError("not text")
    return wire.number_made(wire.take_number(depth), flat.reshape(shape).copy())


def _read_scalar(wire: Wire, content: Any, depth: int) -> Any:
    dtype, node = content
    value = wire.read(node, depth)
    if not DTYPE.fullmatch(dtype) or type(value) not in (bool, int, float, complex, str):
        raise ValueError("not a scalar")
    numpy = importlib.import_module("numpy") if wire.import_numpy else sys.modules.get("numpy")
    if numpy is None:
        return value
    return numpy.dtype(dtype if dtype[1] != "U" else "U").type(value)


def _write_bytearray(wire: Wire, value: Any, depth: int) -> Any:
    wire.number(value, depth)
    return {"bytearray": _text(value)}


def _read_bytearray(wire: Wire, content: Any, depth: int) -> Any:
    return wire.number_made(wire.take_number(depth), bytearray(a2b_base64(content)))


_Write = Callable[[Wire, Any, int], Any]
_WRITERS: dict[type, _Write] = {
    list: _write_list,
    tuple: _write_container("tuple", list),
    set: _write_container("set", list),
    frozenset: _write_container("frozenset", list),
    dict: _write_container("dict", _pairs),
    Counter: _write_container("Counter", _pairs),
    OrderedDict: _write_container("OrderedDict", _pairs),
    defaultdict: _write_headed("defaultdict", _factory, _pairs),
    deque: _write_headed("deque", lambda value: value.maxlen, list),
    array.array: _write_headed("array.array", lambda value: value.typecode, list),
    bytearray: _write_bytearray,
    type(...): lambda wire, value, depth: {"constant": "Ellipsis"},
    type(NotImplemented): lambda wire, value, depth: {"constant": "NotImplemented"},
    **{kind: _of_parts(tag, parts, make) for tag, (kind, parts, make) in PARTS.items()},
}
_TYPES: dict[str, type] = {kind.__name__: kind for kind in (*ATOMS, *_WRITERS, object, type)} | {
    kind.__name__: kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}
"""The types that cross by their bare names."""

_Read = Callable[[Wire, Any, int], Any]
_READERS: dict[str, _Read] = {
    "ref": _read_ref,
    "tuple": _read_built(tuple),
    "set": _read_set,
    "frozenset": _read_frozenset,
    "dict": _read_filled(dict, _fill_dict),
    "Counter": _read_filled(Counter, _fill_dict),
    "OrderedDict": _read_filled(OrderedDict, _fill_dict),
    "defaultdict": _read_headed(defaultdict, _fill_dict),
    "deque": _read_headed(lambda maxlen: deque(maxlen=maxlen), deque.extend),
    "array.array": _read_headed(array.array, array.array.extend),
    "bytearray": _read_bytearray,
    "text": _read_text,
    "int": lambda wire, content, depth: int(content, 16),
    "str": lambda wire, content, depth: a2b_base64(content).decode("utf-8", "surrogatepass"),
    "type": _read_type,
    "constant": lambda wire, content, depth: CONSTANTS[content],
    "exception": _read_exception,
    "named": _read_named,
    "member": _read_member,
    "array": _read_array,
    "scalar": _read_scalar,
}


def _read_parts(make: Callable[..., Any]) -> _Read:
    return lambda wire, content, depth: make(*(wire.read(node, depth + 1) for node in content))


_READERS |= {tag: _read_parts(make) for tag, (_, _, make) in PARTS.items()}
