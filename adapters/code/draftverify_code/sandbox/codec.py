"""The values that cross between a candidate and its tests: a closed set, written as JSON with tags, and no code.

`dumps` takes anything: what is not of the set arrives as an `Opaque`, which is equal to nothing but itself. `loads`
takes any bytes, also a hostile peer's: it raises ValueError and nothing else, builds nothing by name that is not listed
here, and makes nothing much larger than what it was given (a value that is shared counts as often as it occurs).
Standard library only; this file is also imported alone, by the small server processes.

A value is a JSON atom (None, bool, int, float, str), a JSON array (a list), or an object with one key, the tag:

| tag | content |
|---|---|
| ref | number of a container that came before, in order of its first occurrence: shared values stay shared |
| tuple, set, frozenset | items |
| dict, Counter, OrderedDict | keys, then as many values |
| defaultdict, deque | [factory, keys and values]; [maxlen, items] |
| iterator | [items, whether these are all]; generators, `map` and their like |
| keys, values, items | items; views of a dict, without the dict |
| bytes, bytearray | base64 |
| int, str | what JSON cannot carry: hexadecimal digits; base64 of UTF-8 with lone surrogates |
| complex, range, slice, Fraction | parts |
| Decimal, date, time, datetime | text |
| timedelta | days, seconds, microseconds |
| exception | [name of a built-in one, arguments] |
| type, constant | name of a built-in one |
| array, scalar | [dtype, shape, base64]; [dtype, the same as a plain value]; where the receiver has numpy |
| opaque | [name of its type, its truth] |

An instance of a subclass crosses as its base: a named tuple as a tuple, an IntEnum's member as an int.
"""

from __future__ import annotations

import builtins
import json
import re
import sys
from binascii import a2b_base64, b2a_base64
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from operator import is_
from struct import Struct
from sys import getsizeof
from time import monotonic
from typing import Any

__all__ = [
    "EXCEPTIONS",
    "FRAME",
    "HEAD",
    "CannotCross",
    "CutShort",
    "Known",
    "Opaque",
    "apply_changes",
    "changes",
    "drawn",
    "dumps",
    "exception_name",
    "loads",
    "snapshot",
]

HEAD = Struct(">I")
"""A frame on the channel is its length and a value."""
FRAME = 16 << 20
"""No frame is larger, in bytes."""

MAX_DEPTH = 100  # containers inside each other: what compares or prints values recurses
MAX_ITEMS = 1 << 22  # items of all containers together, where some are shared
MAX_DRAWN = 1 << 14  # items that an iterator is asked for
MAX_DRAWN_BYTES = 1 << 20  # of numbers and texts among them
DRAWING = 0.25  # seconds that an iterator is asked for more than a thousand
MAX_RANGE = 1 << 24  # a longer range would be a small frame that becomes a large list
MAX_DIGITS = 10_000  # of a Decimal, and of its exponent's size
MAX_BITS = 1 << 16  # of each part of a Fraction, which is reduced when it is built
DIGITS = 4300  # of an int in decimal, which takes quadratic time; the interpreter's own default
SAFE_RECURSION = 10_000  # a recursion limit at which C code does not run out of stack

ATOMS = frozenset({type(None), bool, int, float, str})

_builtins: list[tuple[str, Any]] = [*vars(builtins).items()]

EXCEPTIONS: dict[str, type[BaseException]] = {
    name: kind
    for name, kind in _builtins
    if isinstance(kind, type)
    and issubclass(kind, BaseException)
    and kind.__name__ == name  # no aliases (IOError)
    and not issubclass(kind, UnicodeError)  # these take five arguments; they cross as a ValueError
    and not name.endswith("ExceptionGroup")
}
"""The exceptions that cross, by name."""

_types: tuple[type, ...] = (
    *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice),
    *(object, type, type(None)),
)
TYPES: dict[str, type] = {kind.__name__: kind for kind in _types} | EXCEPTIONS
CONSTANTS = {"Ellipsis": ..., "NotImplemented": NotImplemented}
DTYPE = re.compile(r"[|<>](?:b1|[iu][1248]|f[248]|c8|c16|U[0-9]{1,7})")


class CutShort(ValueError):
    """An iterator's further items stayed in its process."""


class CannotCross(TypeError):
    """A value outside the set, where only values of the set are wanted.

    Attributes:
        value: it.
    """

    def __init__(self, value: Any) -> None:
        super().__init__(f"an object of type {type(value).__name__} cannot cross between processes")
        self.value = value


class Opaque:
    """An object that stayed in its process. It is equal to nothing but itself.

    Args:
        name: of its type.
        truth: whether it is true.
    """

    __slots__ = ("name", "truth")

    def __init__(self, name: str, truth: bool = True) -> None:
        self.name = name
        self.truth = truth

    def __bool__(self) -> bool:
        return self.truth

    def __repr__(self) -> str:
        return f"<object of type {self.name} that cannot leave its process>"


class Known:
    """The containers of one conversation, numbered alike on both sides: later values may refer to earlier ones.

    Attributes:
        objects: the containers.
        extents: of each the number of items in it, and how deep it goes; None while it is being built.
    """

    __slots__ = ("extents", "objects")

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.extents: list[tuple[int, int] | None] = []


def dumps(value: Any, known: Known | None = None, *, strict: bool = False) -> bytes:
    """A value as bytes.

    Args:
        value: anything.
        known: what both sides know; grows by the containers of this value.
        strict: raise for what is not of the set, or would cross as something else than it is.

    Raises:
        CannotCross: something is not of the set, and `strict` was asked for.
        Exception: whatever a generator in the value raises.
    """
    node = _Encoder(Known() if known is None else known, strict).value(value, 0)
    digits = _get_digits()
    try:
        if digits != DIGITS:
            _set_digits(DIGITS)
        try:
            return _to_json(node).encode()
        except ValueError:  # an int of too many digits, or a lone surrogate
            return _to_json(_without_odd_atoms(node)).encode()
    finally:
        if digits != DIGITS:
            _set_digits(digits)


def loads(data: bytes, known: Known | None = None, *, numpy: bool = False) -> Any:
    """The value that `dumps` wrote.

    Args:
        data: any bytes.
        known: what both sides know; grows by the containers of this value.
        numpy: whether an array imports numpy where that is not loaded; without, it arrives as an Opaque.

    Raises:
        ValueError: the bytes are not of a value, or of one that is too deep or too large.
    """
    try:
        return _Decoder(Known() if known is None else known, numpy).value(_from_json(str(data, "utf-8")), 0)
    except Exception as error:
        raise ValueError(f"not a value: {type(error).__name__}: {str(error)[:200]}") from None


# ---------------------------------------------------------------------------------------------------------------------
# JSON
# ---------------------------------------------------------------------------------------------------------------------

_to_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_parse = json.JSONDecoder().decode
_get_recursion, _set_recursion = sys.getrecursionlimit, sys.setrecursionlimit
_get_digits: Callable[[], int] = getattr(sys, "get_int_max_str_digits", lambda: DIGITS)
_set_digits: Callable[[int], None] = getattr(sys, "set_int_max_str_digits", lambda digits: None)


def _from_json(text: str) -> Any:
    """Parse under the interpreter's usual guards, which a test or a program may have lifted."""
    digits, recursion = _get_digits(), _get_recursion()
    if digits == DIGITS and recursion <= SAFE_RECURSION:
        return _parse(text)
    _set_digits(DIGITS)
    try:
        if recursion > SAFE_RECURSION:
            _set_recursion(SAFE_RECURSION)
        return _parse(text)
    finally:
        _set_digits(digits)
        _set_recursion(recursion)


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
        return [_without_odd_atoms(each) for each in node]
    if kind is dict:
        return {tag: _without_odd_atoms(content) for tag, content in node.items()}
    return node


def _text(data: Any) -> str:
    return b2a_base64(data, newline=False).decode()


# ---------------------------------------------------------------------------------------------------------------------
# Encoding
# ---------------------------------------------------------------------------------------------------------------------


class _Encoder:
    def __init__(self, known: Known, strict: bool) -> None:
        self.objects = known.objects
        self.extents = known.extents
        self.numbers = {id(value): number for number, value in enumerate(known.objects)}
        self.strict = strict
        self.size = 0
        self.deepest = 0

    def value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in ATOMS:
            return value
        encode = _ENCODERS.get(kind)
        if encode is None:
            encode = _ENCODERS[kind] = _encoder_of(kind)
        return encode(self, value, depth)

    def number(self, value: Any) -> int:
        """Number a container at its first occurrence."""
        number = len(self.objects)
        self.numbers.setdefault(id(value), number)
        self.objects.append(value)  # which also keeps its id its own
        self.extents.append(None)
        return number

    def ref(self, value: Any, depth: int) -> Any:
        """How to write a container that may have occurred before, or that is too deep; None for in full."""
        number = self.numbers.get(id(value))
        if number is None:
            return self.opaque(value) if depth >= MAX_DEPTH else None
        size, height = self.extents[number] or (1, 0)
        if self.size + size > MAX_ITEMS or depth + height > MAX_DEPTH:
            return self.opaque(value)
        self.size += size
        self.deepest = max(self.deepest, depth + height)
        return {"ref": number}

    def items(self, items: Any, number: int, depth: int) -> Any:
        """The items, a list or tuple, of a container."""
        self.size += len(items)
        if ATOMS.issuperset(map(type, items)):
            self.extents[number] = len(items), 1
            if depth >= self.deepest:
                self.deepest = depth + 1
            return items
        before, deepest = self.size - len(items), self.deepest
        self.deepest = depth + 1
        nodes = [self.value(each, depth + 1) for each in items]
        self.extents[number] = self.size - before, self.deepest - depth
        self.deepest = max(self.deepest, deepest)
        return nodes

    def leaf(self, value: Any) -> None:
        """Number a container that holds no values."""
        self.extents[self.number(value)] = 1, 0

    def opaque(self, value: Any) -> Any:
        if self.strict:
            raise CannotCross(value)
        self.leaf(value)
        try:
            truth = bool(value)
        except Exception:
            truth = True
        return {"opaque": [type(value).__name__[:100], truth]}


_Encode = Callable[[_Encoder, Any, int], Any]


def _encoder_of(kind: type) -> _Encode:
    """How a type that is not listed crosses: as numpy's, as its base, as an iterator, or not at all."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if kind is getattr(numpy, "ndarray", None):
            return _encode_array
        if issubclass(kind, getattr(numpy, "generic", ())):
            return _encode_scalar
    for base in kind.__mro__:
        if base in _BASES:
            return _BASES[base] if kind in EXCEPTIONS.values() else _as_its(_BASES[base])
    if hasattr(kind, "__next__") and hasattr(kind, "__iter__"):
        return _encode_iterator
    return _encode_opaque


def _as_its(base: _Encode) -> _Encode:
    """An instance of a subclass, as its base; where it has to be what it is it does not cross."""
    return lambda encoder, value, depth: (_encode_opaque if encoder.strict else base)(encoder, value, depth)


def _encode_opaque(encoder: _Encoder, value: Any, depth: int) -> Any:
    known = encoder.numbers.get(id(value))
    return encoder.opaque(value) if known is None else {"ref": known}


def _encode_list(
    encoder: _Encoder, value: Any, depth: int, listed: Callable[[Any], Any] = lambda value: value
) -> Any:
    node = encoder.ref(value, depth)
    if node is not None:
        return node
    return encoder.items(listed(value), encoder.number(value), depth)


def _sequence(tag: str, listed: Callable[[Any], Any]) -> _Encode:
    def encode(encoder: _Encoder, value: Any, depth: int) -> Any:
        node = encoder.ref(value, depth)
        if node is not None:
            return node
        return {tag: encoder.items(listed(value), encoder.number(value), depth)}

    return encode


def _encode_deque(encoder: _Encoder, value: Any, depth: int) -> Any:
    node = encoder.ref(value, depth)
    if node is not None:
        return node
    return {"deque": [value.maxlen, encoder.items(list(deque.__iter__(value)), encoder.number(value), depth)]}


def _encode_defaultdict(encoder: _Encoder, value: Any, depth: int) -> Any:
    node = encoder.ref(value, depth)
    if node is not None:
        return node
    name = next((name for name, kind in TYPES.items() if kind is value.default_factory), None)
    if name is None and value.default_factory is not None and encoder.strict:
        raise CannotCross(value)
    return {"defaultdict": [name, encoder.items(_pairs(value), encoder.number(value), depth)]}


def _encode_iterator(encoder: _Encoder, value: Any, depth: int) -> Any:
    node = encoder.ref(value, depth)
    if node is not None:
        return node
    if encoder.strict and type(value).__module__ not in ("builtins", "itertools"):
        raise CannotCross(value)  # a file, say: it is more than its items
    number = encoder.number(value)
    items, complete = (value.left(), False) if type(value) is _Cut else _draw(value)
    return {"iterator": [encoder.items(items, number, depth), complete]}


def drawn(iterator: Iterator[Any]) -> Iterator[Any]:
    """The same items, as far as they cross, drawn now."""
    items, complete = _draw(iterator)
    return iter(items) if complete else _Cut(items)


class _Cut:
    """The first items of an iterator that has more; who asks for those is told."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self._next = 0

    def __iter__(self) -> _Cut:
        return self

    def __next__(self) -> Any:
        if self._next == len(self._items):
            raise CutShort(f"an iterator's items beyond the first {len(self._items)} stayed in its process")
        self._next += 1
        return self._items[self._next - 1]

    def left(self) -> list[Any]:
        """The items that nobody has asked for yet."""
        return self._items[self._next :]


def _draw(iterator: Iterator[Any]) -> tuple[list[Any], bool]:
    """The first items of an iterator, which may have no end, and whether these are all."""
    items: list[Any] = []
    size, until = 0, monotonic() + DRAWING
    for item in iterator:
        items.append(item)
        size += getsizeof(item) if type(item) in (int, str, bytes) else 0
        count = len(items)
        late = count >= 1000 and count % 64 == 0 and monotonic() > until
        if count == MAX_DRAWN or size > MAX_DRAWN_BYTES or late:
            return items, False
    return items, True


def _encode_bytearray(encoder: _Encoder, value: Any, depth: int) -> Any:
    node = encoder.ref(value, depth)
    if node is not None:
        return node
    encoder.leaf(value)
    return {"bytearray": _text(value)}


def _encode_range(encoder: _Encoder, value: Any, depth: int) -> Any:
    if not -MAX_RANGE < (value.stop - value.start) // value.step < MAX_RANGE:
        return encoder.opaque(value)
    return {"range": [value.start, value.stop, value.step]}


def _encode_slice(encoder: _Encoder, value: Any, depth: int) -> Any:
    parts = value.start, value.stop, value.step
    if not ATOMS.issuperset(map(type, parts)):
        return encoder.opaque(value)
    return {"slice": parts}


def _encode_decimal(encoder: _Encoder, value: Any, depth: int) -> Any:
    return {"Decimal": Decimal.__str__(value)} if _moderate(value) else encoder.opaque(value)


def _moderate(value: Decimal) -> bool:
    """Whether a Decimal is no small text that stands for a huge number."""
    _, digits, exponent = Decimal.as_tuple(value)
    return len(digits) <= MAX_DIGITS and (isinstance(exponent, str) or abs(exponent) <= MAX_DIGITS)


def _encode_fraction(encoder: _Encoder, value: Any, depth: int) -> Any:
    parts = value.numerator, value.denominator
    if max(part.bit_length() for part in parts) > MAX_BITS:
        return encoder.opaque(value)
    return {"Fraction": parts}


def _encode_exception(encoder: _Encoder, value: Any, depth: int) -> Any:
    node = encoder.ref(value, depth)
    if node is not None:
        return node
    name = exception_name(type(value))
    return {"exception": [name, encoder.items(tuple(value.args), encoder.number(value), depth)]}


def exception_name(kind: type[BaseException]) -> str:
    """The name of the nearest built-in type of an exception."""
    built_in = {kind: name for name, kind in EXCEPTIONS.items()}
    return next(built_in[base] for base in kind.__mro__ if base in built_in)


def _encode_type(encoder: _Encoder, value: Any, depth: int) -> Any:
    name = value.__name__
    if TYPES.get(name) is value:
        return {"type": name}
    return _encode_opaque(encoder, value, depth)


def _encode_array(encoder: _Encoder, value: Any, depth: int) -> Any:
    if not DTYPE.fullmatch(value.dtype.str):
        return _encode_opaque(encoder, value, depth)
    node = encoder.ref(value, depth)
    if node is not None:
        return node
    encoder.leaf(value)
    return {"array": [value.dtype.str, value.shape, _text(value.tobytes())]}


def _encode_scalar(encoder: _Encoder, value: Any, depth: int) -> Any:
    if not DTYPE.fullmatch(value.dtype.str):
        return encoder.opaque(value)
    return {"scalar": [value.dtype.str, encoder.value(value.item(), depth)]}


def _pairs(value: Any) -> list[Any]:
    return [*dict.keys(value), *dict.values(value)]


# By base: these also serve an instance of a subclass, so they use the base's own methods.
_BASES: dict[type, _Encode] = {
    int: lambda encoder, value, depth: int.__int__(value),
    float: lambda encoder, value, depth: float.__float__(value),
    str: lambda encoder, value, depth: str.__str__(value),
    bytes: lambda encoder, value, depth: {"bytes": _text(value)},
    complex: lambda encoder, value, depth: {"complex": [value.real, value.imag]},
    bytearray: _encode_bytearray,
    list: lambda encoder, value, depth: _encode_list(encoder, value, depth, list.copy),
    tuple: _sequence("tuple", lambda value: tuple.__getitem__(value, slice(None))),
    set: _sequence("set", lambda value: list(set.__iter__(value))),
    frozenset: _sequence("frozenset", lambda value: list(frozenset.__iter__(value))),
    OrderedDict: _sequence(
        "OrderedDict", lambda value: [*OrderedDict.keys(value), *OrderedDict.values(value)]
    ),
    Counter: _sequence("Counter", _pairs),
    defaultdict: _encode_defaultdict,
    dict: _sequence("dict", _pairs),
    deque: _encode_deque,
    Decimal: _encode_decimal,
    Fraction: _encode_fraction,
    datetime: lambda encoder, value, depth: {"datetime": datetime.isoformat(value)},
    date: lambda encoder, value, depth: {"date": date.isoformat(value)},
    time: lambda encoder, value, depth: {"time": time.isoformat(value)},
    timedelta: lambda encoder, value, depth: {"timedelta": [value.days, value.seconds, value.microseconds]},
    BaseException: _encode_exception,
    type: _encode_type,
}
_ENCODERS: dict[type, _Encode] = {
    **_BASES,
    list: _encode_list,
    range: _encode_range,
    slice: _encode_slice,
    type(...): lambda encoder, value, depth: {"constant": "Ellipsis"},
    type(NotImplemented): lambda encoder, value, depth: {"constant": "NotImplemented"},
    type({}.keys()): _sequence("keys", list),
    type({}.values()): _sequence("values", list),
    type({}.items()): _sequence("items", list),
}


# ---------------------------------------------------------------------------------------------------------------------
# Decoding
# ---------------------------------------------------------------------------------------------------------------------

_UNFINISHED: Any = object()  # stands for an immutable container while its items are read


class _Decoder:
    def __init__(self, known: Known, numpy: bool) -> None:
        self.objects = known.objects
        self.extents = known.extents
        self.import_numpy = numpy
        self.size = 0
        self.deepest = 0

    def value(self, node: Any, depth: int) -> Any:
        kind = type(node)
        if kind is list:
            self.objects.append(node)
            self.extents.append(None)
            items = self.items(node, len(self.objects) - 1, depth)
            if items is not node:
                node[:] = items
            return node
        if kind is dict:
            ((tag, content),) = node.items()
            return _DECODERS[tag](self, content, depth)
        return node

    def number(self, value: Any = _UNFINISHED) -> int:
        self.objects.append(value)
        self.extents.append(None)
        return len(self.objects) - 1

    def finish(self, number: int, value: Any) -> Any:
        self.objects[number] = value
        return value

    def leaf(self, value: Any) -> Any:
        self.extents[self.number(value)] = 1, 0
        return value

    def items(self, nodes: Any, number: int, depth: int) -> list[Any]:
        if type(nodes) is not list:
            raise ValueError("items are missing")
        if depth >= MAX_DEPTH:
            raise ValueError("too deep")
        self.size += len(nodes)
        if ATOMS.issuperset(map(type, nodes)):
            self.extents[number] = len(nodes), 1
            if depth >= self.deepest:
                self.deepest = depth + 1
            return nodes
        before, deepest = self.size - len(nodes), self.deepest
        self.deepest = depth + 1
        values = [self.value(each, depth + 1) for each in nodes]
        self.extents[number] = self.size - before, self.deepest - depth
        self.deepest = max(self.deepest, deepest)
        return values


_Decode = Callable[[_Decoder, Any, int], Any]


def _decode_ref(decoder: _Decoder, content: Any, depth: int) -> Any:
    if type(content) is not int or content < 0:
        raise ValueError("not a reference")
    value, extent = decoder.objects[content], decoder.extents[content]
    if value is _UNFINISHED:
        raise ValueError("something immutable contains itself")
    if extent is None and _get_recursion() > SAFE_RECURSION:
        raise ValueError("a list that contains itself, where nothing limits recursion")
    size, height = extent or (1, 0)
    decoder.size += size
    decoder.deepest = max(decoder.deepest, depth + height)
    if decoder.size > MAX_ITEMS or depth + height > MAX_DEPTH:
        raise ValueError("too large")
    return value


def _built(build: Callable[[list[Any]], Any]) -> _Decode:
    """Of an immutable container: built when its items are there."""

    def decode(decoder: _Decoder, content: Any, depth: int) -> Any:
        number = decoder.number()
        return decoder.finish(number, build(decoder.items(content, number, depth)))

    return decode


def _filled(make: Callable[[], Any], fill: Callable[[Any, list[Any]], Any]) -> _Decode:
    """Of a mutable container: there before its items, which may refer to it."""

    def decode(decoder: _Decoder, content: Any, depth: int) -> Any:
        value = make()
        fill(value, decoder.items(content, decoder.number(value), depth))
        return value

    return decode


def _fill_dict(value: Any, items: list[Any]) -> None:
    half, odd = divmod(len(items), 2)
    if odd:
        raise ValueError("a key has no value")
    pairs = zip(items[:half], items[half:], strict=True)
    if isinstance(value, OrderedDict):
        value.update(pairs)
    else:
        dict.update(value, pairs)  # a Counter's own update counts


def _decode_deque(decoder: _Decoder, content: Any, depth: int) -> Any:
    maxlen, items = content
    value: deque[Any] = deque(maxlen=maxlen)
    value.extend(decoder.items(items, decoder.number(value), depth))
    return value


def _decode_defaultdict(decoder: _Decoder, content: Any, depth: int) -> Any:
    name, items = content
    value: defaultdict[Any, Any] = defaultdict(None if name is None else TYPES[name])
    _fill_dict(value, decoder.items(items, decoder.number(value), depth))
    return value


def _decode_iterator(decoder: _Decoder, content: Any, depth: int) -> Any:
    nodes, complete = content
    number = decoder.number()
    items = decoder.items(nodes, number, depth)
    return decoder.finish(number, iter(items) if complete else _Cut(items))


def _decode_range(decoder: _Decoder, content: Any, depth: int) -> Any:
    value = range(*(decoder.value(part, depth) for part in content))
    if not -MAX_RANGE < (value.stop - value.start) // value.step < MAX_RANGE:
        raise ValueError("too long")
    return value


def _decode_slice(decoder: _Decoder, content: Any, depth: int) -> Any:
    start, stop, step = (decoder.value(part, depth) for part in content)
    return slice(start, stop, step)


def _decode_int(decoder: _Decoder, content: Any, depth: int) -> Any:
    return int(content, 16)


def _decode_complex(decoder: _Decoder, content: Any, depth: int) -> Any:
    real, imaginary = content
    if type(real) is not float or type(imaginary) is not float:
        raise ValueError("not a complex number")
    return complex(real, imaginary)


def _decode_decimal(decoder: _Decoder, content: Any, depth: int) -> Any:
    if len(content) > 2 * MAX_DIGITS:
        raise ValueError("too many digits")
    value = Decimal(content)
    if not _moderate(value):
        raise ValueError("too large")
    return value


def _decode_fraction(decoder: _Decoder, content: Any, depth: int) -> Any:
    numerator, denominator = (decoder.value(part, depth) for part in content)
    if max(numerator.bit_length(), denominator.bit_length()) > MAX_BITS:
        raise ValueError("too large")
    return Fraction(numerator, denominator)


def _decode_timedelta(decoder: _Decoder, content: Any, depth: int) -> Any:
    days, seconds, microseconds = content
    return timedelta(days, seconds, microseconds)


def _decode_exception(decoder: _Decoder, content: Any, depth: int) -> Any:
    name, nodes = content
    number = decoder.number()
    items = decoder.items(nodes, number, depth)
    kind = EXCEPTIONS[name]
    try:
        error = kind(*items)
    except Exception:  # the arguments of a subclass of its own need not be this type's
        error = kind()
        error.args = tuple(items)
    return decoder.finish(number, error)


def _decode_array(decoder: _Decoder, content: Any, depth: int) -> Any:
    dtype, shape, data = content
    raw = a2b_base64(data)
    numpy = sys.modules.get("numpy")
    if numpy is None and decoder.import_numpy:
        import numpy
    if numpy is None:
        return decoder.leaf(Opaque("ndarray", bool(raw)))
    if not DTYPE.fullmatch(dtype) or len(shape) > 32 or any(type(each) is not int for each in shape):
        raise ValueError("not an array")
    kind = numpy.dtype(dtype)
    if kind.itemsize > max(len(raw), 4096):
        raise ValueError("not an array")
    flat = numpy.frombuffer(raw, kind) if kind.itemsize else numpy.zeros(0, kind)
    if kind.kind == "b":
        flat = flat.view("u1") != 0  # any other byte would be neither true nor false
    elif kind.kind == "U" and flat.size and flat.view(kind.str[0] + "u4").max() > sys.maxunicode:
        raise ValueError("not text")
    return decoder.leaf(flat.reshape(shape).copy())


def _decode_scalar(decoder: _Decoder, content: Any, depth: int) -> Any:
    dtype, node = content
    value = decoder.value(node, depth)
    if not DTYPE.fullmatch(dtype) or type(value) not in (bool, int, float, complex, str):
        raise ValueError("not a scalar")
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return value
    return numpy.dtype(dtype if dtype[1] != "U" else "U").type(value)


def _decode_opaque(decoder: _Decoder, content: Any, depth: int) -> Any:
    name, truth = content
    if type(name) is not str or len(name) > 100 or type(truth) is not bool:
        raise ValueError("not an object")
    return decoder.leaf(Opaque(name, truth))


_DECODERS: dict[str, _Decode] = {
    "ref": _decode_ref,
    "tuple": _built(tuple),
    "set": _filled(set, set.update),
    "frozenset": _built(frozenset),
    "dict": _filled(dict, _fill_dict),
    "Counter": _filled(Counter, _fill_dict),
    "OrderedDict": _filled(OrderedDict, _fill_dict),
    "defaultdict": _decode_defaultdict,
    "deque": _decode_deque,
    "iterator": _decode_iterator,
    "keys": _built(lambda items: dict.fromkeys(items).keys()),
    "values": _built(lambda items: dict(enumerate(items)).values()),
    "items": _built(lambda items: dict(items).items()),
    "bytes": lambda decoder, content, depth: a2b_base64(content),
    "bytearray": lambda decoder, content, depth: decoder.leaf(bytearray(a2b_base64(content))),
    "int": _decode_int,
    "str": lambda decoder, content, depth: a2b_base64(content).decode("utf-8", "surrogatepass"),
    "complex": _decode_complex,
    "range": _decode_range,
    "slice": _decode_slice,
    "Decimal": _decode_decimal,
    "Fraction": _decode_fraction,
    "date": lambda decoder, content, depth: date.fromisoformat(content),
    "time": lambda decoder, content, depth: time.fromisoformat(content),
    "datetime": lambda decoder, content, depth: datetime.fromisoformat(content),
    "timedelta": _decode_timedelta,
    "exception": _decode_exception,
    "type": lambda decoder, content, depth: TYPES[content],
    "constant": lambda decoder, content, depth: CONSTANTS[content],
    "array": _decode_array,
    "scalar": _decode_scalar,
    "opaque": _decode_opaque,
}


# ---------------------------------------------------------------------------------------------------------------------
# Arguments that a call changes in place
# ---------------------------------------------------------------------------------------------------------------------

_CONTENTS: dict[type, Callable[[Any], Any]] = {
    list: list,
    set: list,
    deque: list,
    dict: _pairs,
    Counter: _pairs,
    defaultdict: _pairs,
    OrderedDict: lambda value: [*OrderedDict.keys(value), *OrderedDict.values(value)],
    bytearray: bytes,
}

Snapshot = list[tuple[int, Any, Any]]


def snapshot(known: Known, first: int) -> Snapshot:
    """What is in the known mutable containers from the first one on, as `loads` made them; for `changes` later."""
    found = []
    array = getattr(sys.modules.get("numpy"), "ndarray", None)
    for number, value in enumerate(known.objects[first:], first):
        kind = type(value)
        if kind in _CONTENTS:
            found.append((number, value, _CONTENTS[kind](value)))
        elif kind is array:
            found.append((number, value, value.copy()))
    return found


def changes(before: Snapshot) -> list[list[Any]] | None:
    """Which containers changed since, for `apply_changes` on the other side: [number, content] of each, or None."""
    found: list[list[Any]] = []
    for number, value, old in before:
        new = _CONTENTS[type(value)](value) if type(value) in _CONTENTS else value.copy()
        if type(new) is list:
            # Identity: a candidate's __eq__ has no say, and nan is itself.
            if len(new) != len(old) or not all(map(is_, new, old)):
                found.append([number, new])
        elif type(new) is bytes:
            if new != old:
                found.append([number, new])
        elif new.shape != old.shape or new.tobytes() != old.tobytes():
            found.append([number, new])
    return found or None


def apply_changes(known: Known, count: int, changed: Any) -> None:
    """Give containers of this side the content that they have on the other.

    Args:
        known: the conversation.
        count: only containers numbered below may change.
        changed: of `changes`, as `loads` read it, or anything else.

    Raises:
        ValueError: it is something else, or a container cannot have that content.
    """
    try:
        for number, content in changed:
            if type(number) is not int or not 0 <= number < count:
                raise ValueError("no such container")
            _replace(known.objects[number], content)
    except Exception as error:
        raise ValueError(f"not a change: {type(error).__name__}: {str(error)[:200]}") from None


def _replace(value: Any, content: Any) -> None:
    if isinstance(value, (bytearray, list)) and type(content) is (list if isinstance(value, list) else bytes):
        value[:] = content
    elif type(content) is list and isinstance(value, dict):
        value.clear()
        _fill_dict(value, content)
    elif type(content) is list and isinstance(value, (set, deque)):
        value.clear()
        value.update(content) if isinstance(value, set) else value.extend(content)
    elif type(content) is type(value) and hasattr(value, "dtype") and content.dtype == value.dtype:
        if content.shape != value.shape:
            raise ValueError("an array cannot change its shape here")
        value[...] = content
    else:
        raise ValueError(f"not the content of a {type(value).__name__}")
