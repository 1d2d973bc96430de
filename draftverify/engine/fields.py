"""How single fields of an answer are read: each function takes what came and what it is called.

It gives the field as a record can hold it, or raises a ContractError that says what is wrong; `read` adds the field's
name where that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import islice
from math import isfinite
from operator import index as index_of
from typing import Any, Literal, TypeAlias, get_args, get_origin

import msgspec
import numpy as np
from array_api_compat import is_array_api_obj

from draftverify.engine.canonical import INT_MAX, INT_MIN, JSON_SCALARS, canonical, notes_if_kept, readable
from draftverify.engine.failures import raised
from draftverify.errors import ContractError, StoreError, shown
from draftverify.frozen import frozen_array
from draftverify.token_summary import read_summaries
from draftverify.values import Cost

Reader: TypeAlias = Callable[[Any, str], Any]
"""`read(value, what)`: the field as a record can hold it."""


def read(what: str, reader: Reader, value: Any) -> Any:
    """A field as `reader(value, what)` has it; what is wrong with it is said with its name."""
    try:
        return reader(value, what)
    except ContractError as error:
        if what in str(error):
            raise
        raise ContractError(f"{what}: {error}") from error
    except BaseException as error:
        raise ContractError(f"{what} cannot be read: {raised(error)}") from error


def read_struct(value: Any, what: str, /, **readers: Reader) -> Any:
    """A struct made anew of its fields, each read by its type, or by the reader that is given by its name; one that
    holds its default keeps it."""
    kind: Any = type(value)
    fields = {}
    for name, (reader, default) in _readers(kind).items():
        entry = getattr(value, name)
        if entry is not default or default is msgspec.NODEFAULT:
            fields[name] = read(f"the {name} of {what}" if what else name, readers.get(name, reader), entry)
    return kind(**fields)


@cache
def _readers(kind: Any) -> dict[str, tuple[Reader, Any]]:
    """By its name, the reader of each field of a struct, and its default."""
    readers = {}
    for field in msgspec.structs.fields(kind):
        arguments = get_args(field.type)
        if get_origin(field.type) is Literal:
            reader = one_of(field.name, arguments)
        elif arguments and isinstance(arguments[0], type) and issubclass(arguments[0], msgspec.Struct):
            reader = _structs(arguments[0])
        else:
            reader = _BY_TYPE[field.type]
        readers[field.name] = reader, field.default
    return readers


# Several values


def items(values: Any, what: str) -> Any:
    """Canonical items: a tuple, or an array that stays on its device."""
    if type(values) is not tuple and _is_array(values):
        if len(values.shape) != 1:
            raise ContractError(f"{what} came as an array of shape {tuple(values.shape)}; [n] is needed")
        if isinstance(values, np.ndarray):
            values = frozen_array(np.asarray(values))  # a subclass may say anything
        if getattr(values.dtype, "kind", "") not in _OBJECTS:
            return values
        values = values.tolist()
    return joining(values, what)


_OBJECTS = ("O", "V", "M", "m")
"""Kinds of NumPy's arrays whose entries are objects rather than numbers or texts."""


def _is_array(value: Any) -> bool:
    try:
        return bool(is_array_api_obj(value))
    except AttributeError:  # a library whose import is blocked stands in sys.modules as None
        return False


def joining(values: Any, what: str) -> tuple[Any, ...]:
    """Canonical values that join what is accepted: a tuple, of an array too."""
    if type(values) is not tuple:
        if _is_array(values):
            values = values.tolist()
        values = entries(values, what)
    return values if are_scalars(values) else tuple([canonical(entry) for entry in values])


MOST = 1 << 17
"""So many entries are taken of what tells no end: a generator's may never come."""


def entries(values: Any, what: str) -> tuple[Any, ...]:
    """The entries of a tuple, a list, or what else can be gone through and is no text."""
    if type(values) is tuple:
        return values
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ContractError(f"{what} came as a {type(values).__name__}; a tuple or a list is needed")
    listed = tuple(islice(values, MOST + 1))
    if len(listed) > MOST:
        raise ContractError(f"{what} came as a {type(values).__name__} of more than {MOST} entries")
    return listed


def are_scalars(values: tuple[Any, ...]) -> bool:
    """Whether these are numbers, texts, True, False and None alone."""
    for value in values:  # noqa: SIM110 - half the time of all() for the few items of a block
        if type(value) not in JSON_SCALARS:
            return False
    return True


def are_integers(values: Iterable[Any]) -> bool:
    """Whether these are Python's integers alone."""
    for value in values:  # noqa: SIM110 - half the time of any() for the few items of a block
        if type(value) is not int:
            return False
    return True


def indices(values: Any, what: str) -> tuple[int, ...]:
    """Whole numbers that a record can hold."""
    if type(values) is tuple and are_integers(values):
        if not values or (min(values) >= INT_MIN and max(values) <= INT_MAX):
            return values
    elif isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ContractError(f"{what}: {shown(values)} is no list of indices")
    return tuple([index(value, what) for value in entries(values, what)])


def shares(values: Any, what: str) -> tuple[float, ...]:
    """Numbers from 0 to 1."""
    return tuple([_share(share, what) for share in entries(values, what)])


def _structs(kind: type[msgspec.Struct]) -> Reader:
    """The reader of several structs of one kind."""

    def read_structs(values: Any, what: str) -> tuple[Any, ...]:
        structs = entries(values, what)
        for struct in structs:
            if type(struct) is not kind:
                raise ContractError(f"{what}: {shown(struct)} is no {kind.__name__}")
        return tuple([read_struct(struct, f"a {kind.__name__.lower()}") for struct in structs])

    return read_structs


def shape(array: Any, what: str) -> tuple[int, ...]:
    """The shape of an array of numbers, at whose values nobody looks here: they may be on a device."""
    try:
        lengths, kind = array.shape, getattr(array.dtype, "kind", "f")
        if isinstance(lengths, tuple) and kind not in "OSUMmc":
            return lengths if type(lengths) is tuple else tuple(lengths)
    except BaseException as error:
        raised(error)  # what is asked for its shape and has none is no array
    raise ContractError(f"{what} is {shown(array)}; an array is needed")


# One value


def item(value: Any, what: str) -> Any:
    """A canonical value."""
    return canonical(value)


def answer(value: Any, what: str) -> Any:
    """A task's value: canonical, and a tuple of items stays one, as the value of a chain is."""
    return tuple(map(canonical, value)) if type(value) is tuple else canonical(value)


def cost(value: Any, what: str) -> Cost:
    """A cost of amounts that can be added up."""
    if type(value) is not Cost:
        raise ContractError(f"{what} is {shown(value)}; a Cost is needed")
    return read_struct(value, what, seconds=_amount, amount=_amount)  # type: ignore[no-any-return]


_DEAREST = 1e200
"""No call costs more, so that sums of costs are finite too."""


def _amount(value: Any, what: str) -> float:
    try:
        amount = number(value, what)
    except ContractError:
        amount = -1.0
    if not 0 <= amount < _DEAREST:
        raise ContractError(f"{what} cannot be {shown(value)}; a finite number, 0 or more, is needed")
    return amount


def _share(value: Any, what: str) -> float:
    share = number(value, what)
    if not 0 <= share <= 1:
        raise ContractError(f"{what} is {share}; 0 to 1 is needed")
    return share


def number(value: Any, what: str) -> float:
    """A finite float; numbers of array libraries are numbers, True and False are none."""
    plain = value
    if not isinstance(value, (int, float)) and getattr(value, "shape", None) == () and hasattr(value, "item"):
        plain = value.item()
    try:
        finite = isinstance(plain, (int, float)) and not isinstance(plain, bool) and isfinite(plain)
    except OverflowError:  # an integer beyond all floats
        finite = False
    if not finite:
        raise ContractError(f"{what} is {shown(value)}; a finite number is needed")
    return float(plain)


def number_or_none(value: Any, what: str) -> float | None:
    """A finite float, or None."""
    return None if value is None else number(value, what)


def count(value: Any, what: str) -> int:
    """A whole number, 0 or more."""
    whole = index(value, what)
    if whole < 0:
        raise ContractError(f"{what} is {whole}; 0 or more is needed")
    return whole


def index(value: Any, what: str) -> int:
    """A whole number that a record can hold; those of array libraries are numbers, True and False are none."""
    whole = value
    if type(value) is not int:
        if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
            raise ContractError(f"{what}: {shown(value)} is no whole number")
        whole = int.__int__(index_of(value))
    if not INT_MIN <= whole <= INT_MAX:
        raise ContractError(
            f"{what}: a number of {whole.bit_length()} bits is beyond the 64 bits of a record"
        )
    return whole  # type: ignore[no-any-return]


def truth(value: Any, what: str) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ContractError(f"{what} is {shown(value)}; True or False is needed")
    return bool(value)


def one_of(noun: str, words: tuple[str, ...]) -> Reader:
    """The reader of a field that is one of these words, each of which is called `noun`."""

    def word(value: Any, what: str) -> Any:
        plain = str.__str__(value) if isinstance(value, str) else None
        if plain not in words:
            reply = shown(value) if plain is None else repr(plain)
            raise ContractError(f"{what}: {reply} is no {noun}; one of {', '.join(words)} is")
        return plain

    return word


def mapping(value: Any, what: str) -> Any:
    """A mapping, as it is."""
    if not isinstance(value, Mapping):
        raise ContractError(f"{what} is {shown(value)}; a mapping is needed")
    return value


def text(value: Any, what: str) -> str:
    """Words for people."""
    if not isinstance(value, str):
        raise ContractError(f"{what} is {shown(value)}; a text is needed")
    return readable(str.__str__(value))


def summaries(value: Any, what: str) -> bytes:
    """What is kept of drafted tokens, which every table goes through later."""
    if type(value) is not bytes:
        raise ContractError(f"{what} came as {shown(value)}; bytes are needed")
    try:
        read_summaries(value)
    except StoreError as error:
        raise ContractError(f"{what}: {error}") from error
    return value


_BY_TYPE: Mapping[Any, Reader] = {
    Any: item,
    bool: truth,
    bytes: summaries,
    float: number,
    float | None: number_or_none,
    int: index,
    str: text,
    Mapping[str, Any]: notes_if_kept,
    tuple[Any, ...]: joining,
    tuple[float, ...]: shares,
    tuple[int, ...]: indices,
}
"""How a field is read, by its type."""
