"""What a program's own classes and objects are to its tests, which run in another process.

Exceptions, enums, named tuples and dataclasses are the like of themselves: classes of the same name and form, made
here, whose objects hold the values that crossed. Whatever else the program's class defines stops who uses it, and so
does any use of a `Handle`, but for handing it back, calling what is a function and drawing from what is an iterator.
Standard library only; this file is also imported alone, by a small server process.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING or __package__:
    from draftverify_code.sandbox import codec
else:
    import codec

__all__ = ["FunctionHandle", "Handle", "Program", "TestsWire", "module_name", "name_of"]


class Program(Protocol):
    """What is asked of the program, through its channel."""

    def call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call one of its functions or classes."""

    def draw(self, number: int) -> Any:
        """The next item of one of its iterators."""

    def apart(self, action: str) -> NoReturn:
        """Leave the test, which does what cannot be done from here."""


class Mirror(type):
    """The class of classes that stand for the program's."""

    def __call__(cls, /, *args: Any, **kwargs: Any) -> Any:
        place = vars(cls).get(_PLACE)
        if place is not None:
            return place[0].call(place[1], args, kwargs)
        for base in cls.__mro__:
            if _PLACE in vars(base):
                vars(base)[_PLACE][0].apart(f"makes a class of its own from {base.__name__}")
        return super().__call__(*args, **kwargs)

    def __setattr__(cls, name: str, value: Any) -> None:
        if _PLACE in vars(cls):
            vars(cls)[_PLACE][0].apart(f"changes {cls.__name__}.{name}")
        super().__setattr__(name, value)

    def __getattr__(cls, name: str) -> Any:
        if issubclass(cls, Handle) and _PLACE in vars(cls):
            vars(cls)[_PLACE][0].apart(f"reads {cls.__name__}.{name}")
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


_PLACE = " place"  # the attribute of a mirrored class that says whose it is, and its number


class Handle(metaclass=Mirror):
    """An object that stayed in its process.

    Args:
        program: whose it is.
        number: its number.
        name: its own name, or that of its class.
    """

    __slots__ = ("_name", "_number", "_program")

    def __init__(self, program: Program, number: int, name: str) -> None:
        for slot, value in (("_program", program), ("_number", number), ("_name", name)):
            object.__setattr__(self, slot, value)


def _stop(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    _read(self, "_program").apart(f"works with the program's {_read(self, '_name')}")


_read = object.__getattribute__
_OPERATORS = tuple(
    """lt le eq ne gt ge add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or radd rsub rmul
    rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand rxor ror neg pos abs invert int float
    complex index round trunc floor ceil bool len hash str repr format bytes contains getitem setitem delitem
    iter reversed getattribute setattr delattr dir enter exit aiter anext await""".split()  # noqa: SIM905
)
for _operator in _OPERATORS:
    type.__setattr__(Handle, f"__{_operator}__", _stop)


class FunctionHandle(Handle):
    """A function: it can be called, and has a name."""

    __slots__ = ()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return _read(self, "_program").call(_read(self, "_number"), args, kwargs)

    def __getattribute__(self, name: str) -> Any:
        return _read(self, "_name") if name == "__name__" else _stop(self)


class Iterator(Handle):
    """An iterator: each item is drawn when it is asked for."""

    __slots__ = ()
    __len__ = None  # `list` asks for it, and takes that there is none

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        return _read(self, "_program").draw(_read(self, "_number"))


class Module(Handle):
    """A module."""

    __slots__ = ()


class _Hidden:
    """What a class of the program's defines, and the like of it here does not have."""

    def __init__(self, program: Program, name: str) -> None:
        self._program, self._name = program, name

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        self._program.apart(f"uses {owner.__name__}.{self._name}")


def name_of(value: Any) -> str:
    """What a handle is, in words; "" for anything else. To look at a handle stops the test."""
    return f"<the program's {_read(value, '_name')}>" if issubclass(type(value), Handle) else ""


def module_name(value: Any) -> str:
    """What a module of the program's is called; "" for anything else."""
    return _read(value, "_name") if type(value) is Module else ""


class TestsWire(codec.Wire):
    """The tests' end.

    Attributes:
        handles: the forms of the handles that the tests have, beside the functions that they are about.
    """

    __test__ = False

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program
        self.handles: set[str] = set()
        self._forms: dict[type, str] = {}

    def form(self, kind: type) -> str:
        """The form of a class that stands for one of the program's."""
        return self._forms.get(kind, "")

    def made(self, tag: str, content: Any, depth: int) -> Any:
        """What a node of the program's own is here."""
        return _MADE[tag](self, content, depth)

    def replace(self, value: Any, content: Any) -> None:
        """Records too."""
        if self._forms.get(type(value)) == "record":
            _fill(value, content)
        else:
            super().replace(value, content)

    def again(self, count: int, *messages: bytes) -> list[Any]:
        """Messages read once more, as far as they can be: the tests may have changed the values since.

        Args:
            count: of what was known before the first of them.
            messages: of either end, in order.
        """
        wire = copy.copy(self)
        wire.objects, wire.numbers, wire.lasting = dict(self.objects), {}, set()
        wire.count = count
        return [wire.loads(message) for message in messages]

    def make_class(self, content: Any, depth: int) -> Any:
        """The like of a class."""
        number = self.take_number(depth)
        self.lasting.add(number)
        name, form, bases, detail, names = (self.read(part, depth + 1) for part in content)
        parents = tuple(base for base in bases if isinstance(base, type))
        kind = _MIRRORS[form](name, parents, detail)
        for attribute in (*names, *(("__setattr__", "__delattr__") if form == "record" else ())):
            type.__setattr__(kind, attribute, _Hidden(self.program, attribute))
        type.__setattr__(kind, "__module__", "__main__")
        type.__setattr__(kind, _PLACE, (self.program, number))
        self._forms[kind] = form
        return self.number_made(number, kind)

    def make_record(self, content: Any, depth: int) -> Any:
        """An object of a dataclass."""
        number = self.take_number(depth)
        self.lasting.add(number)
        kind, items = content
        kind = self._kind(kind, "record", depth)
        record = self.number_made(number, object.__new__(kind))
        _fill(record, self.read_items(items, depth))
        return record

    def make_handle(self, content: Any, depth: int) -> Any:
        """What stays in its process."""
        number = self.take_number(depth)
        self.lasting.add(number)
        form, kind, name = content
        kind = self.read(kind, depth + 1)
        if kind is None:
            kind = {"function": FunctionHandle, "iterator": Iterator, "module": Module}.get(form, Handle)
        if not (isinstance(kind, type) and issubclass(kind, Handle)) or type(name) is not str:
            raise ValueError("not a handle")
        self.handles.add(form)
        handle = object.__new__(kind)
        Handle.__init__(handle, self.program, number, name[:100])
        return self.number_made(number, handle)

    def _kind(self, node: Any, form: str, depth: int) -> Any:
        kind = self.read(node, depth + 1)
        if self._forms.get(kind) != form:
            raise ValueError(f"no class of {form} objects")
        return kind


def _fill(record: Any, items: list[Any]) -> None:
    half = len(items) // 2
    attributes = _read(record, "__dict__")
    attributes.clear()
    attributes.update(zip(items[:half], items[half:], strict=True))


def _exception(name: str, bases: tuple[type, ...], detail: Any) -> type:
    def said(error: BaseException) -> Any:
        return vars(error)[codec.TEXT] if codec.TEXT in vars(error) else super(kind, error).__str__()

    kind: type = types.new_class(name, bases, {"metaclass": Mirror}, lambda space: space.update(__str__=said))
    return kind


def _enum(name: str, bases: tuple[type, ...], detail: Any) -> type:
    base, names, values = detail
    *mixed, base = base.split("+")
    kind: Any = getattr(enum, base)
    mixin = {"type": {"int": int, "str": str, "float": float}[mixed[0]]} if mixed else {}
    if not isinstance(kind, enum.EnumMeta) or any(
        member_name[:1] == "_" == member_name[-1:] for member_name in names
    ):
        raise ValueError("no kind of enum")  # such a name is no member's: it says how members compare
    return kind(name, list(zip(names, values, strict=True)), **mixin)  # type: ignore[no-any-return]


def _named(name: str, bases: tuple[type, ...], detail: Any) -> type:
    base = collections.namedtuple(name, detail)  # type: ignore[misc]
    return types.new_class(name, (base,), {"metaclass": Mirror}, lambda space: space.update(__slots__=()))


class _Record(metaclass=Mirror):
    """What all records have in common: tests read them."""


def _record(name: str, bases: tuple[type, ...], detail: Any) -> type:
    fields, flags = detail
    if any(name[:2] == "__" == name[-2:] for name, *_ in fields):
        raise ValueError("no name of a field")
    members = [
        # The default is never used: the program makes its objects, and here they are filled.
        (
            member,
            Any,
            dataclasses.field(default=None, repr=in_repr, compare=compared, init=init, kw_only=keyword),
        )
        for member, in_repr, compared, init, keyword in fields
    ]
    names = ("repr", "eq", "order", "unsafe_hash", "frozen")
    flags = dict(zip(names, flags, strict=True))
    kind = dataclasses.make_dataclass(name, members, bases=bases or (_Record,), **flags)
    for member, *_ in fields:
        type.__delattr__(kind, member)
    return kind


def _plain(name: str, bases: tuple[type, ...], detail: Any) -> type:
    parents = tuple(base for base in bases if issubclass(base, Handle)) or (Iterator if detail else Handle,)
    return types.new_class(name, parents, {"metaclass": Mirror}, lambda space: space.update(__slots__=()))


_MIRRORS: dict[str, Callable[[str, tuple[type, ...], Any], type]] = {
    "exception": _exception,
    "enum": _enum,
    "named": _named,
    "record": _record,
    "plain": _plain,
}
_MADE: dict[str, Callable[[TestsWire, Any, int], Any]] = {
    "class": TestsWire.make_class,
    "record": TestsWire.make_record,
    "handle": TestsWire.make_handle,
}
