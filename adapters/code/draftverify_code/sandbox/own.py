"""How a program's own classes and objects are told to the tests, who have `mirror` to make something of it.

Data crosses by value: exceptions, enums, named tuples, and dataclasses, without what their classes define besides (the
names of that are told, so that who uses it is stopped). Of everything else the tests get a handle. Standard library
only; this file is also imported alone, by a small server process.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import reprlib
import sys
from collections.abc import Callable
from functools import cache
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from draftverify_code.sandbox import codec
else:
    import codec

__all__ = ["FILE", "MODULE", "ProgramWire"]

FILE = "<program>"
"""The program's file name in tracebacks."""
MODULE = "__candidate__"
"""Its module's name."""

LASTING = 10_000  # objects that tests may hold
KEPT = 100_000  # items of all that the program keeps of what crossed, and could change

# What every class has, or what makes its objects, or what only Python looks up.
_USUAL = frozenset(
    """__abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__ __class_getitem__
    __dataclass_fields__ __dataclass_params__ __dict__ __doc__ __firstlineno__ __init__ __init_subclass__
    __match_args__ __module__ __new__ __orig_bases__ __parameters__ __post_init__ __qualname__ __set_name__
    __slots__ __static_attributes__ __weakref__""".split()  # noqa: SIM905
)
_GENERATORS = frozenset({"<string>", collections.__file__, dataclasses.__file__, reprlib.__file__})
"""The files of what `namedtuple` and `dataclass` write into a class."""


class ProgramWire(codec.Wire):
    """The program's end."""

    import_numpy = True

    def __init__(self) -> None:
        super().__init__()
        self._records: set[int] = set()
        # Those whose objects cross by value, as they were told.
        self._classes: list[tuple[type, dict[str, Any]]] = []
        self.form = cache(_form)  # type: ignore[method-assign]

    def told(self, value: Any, depth: int) -> Any:
        """A class of the program's own, an object of one, or anything else, of which the tests get a handle."""
        if isinstance(value, type):
            return self._class(value, depth) if _own(value) else self._handle("function", None, value, depth)
        kind = type(value)
        form = self.form(kind)
        if form == "record":
            number = self.number(value, depth)
            self._last(number)
            self._records.add(number)
            return {"record": [self.value(kind, depth + 1), self.items(_state(value), depth)]}
        if callable(value):
            return self._handle("function", None, value, depth)
        program_class = kind if _own(kind) and form == "plain" else None
        iterates = hasattr(kind, "__next__") and hasattr(kind, "__iter__")
        return self._handle("iterator" if iterates else "object", program_class, value, depth)

    def reader(self, number: int, value: Any) -> Callable[[Any], Any] | None:
        """Records too: the tests cannot change them, the program can."""
        return _state if number in self._records else super().reader(number, value)

    def check(self) -> None:
        """Look whether the classes are still as they were told.

        Raises:
            CannotCross: one is not.
        """
        for kind, attributes in self._classes:
            now = vars(kind)
            if now.keys() != attributes.keys() or any(
                now[name] is not value for name, value in attributes.items()
            ):
                raise codec.CannotCross(
                    f"an object of {kind.__name__}, a class that changed after it was told"
                )

    def kept(self) -> list[int]:
        """Let go of all that crossed and that the program has not kept; the numbers of what it has.

        Raises:
            CannotCross: it is too much to look after.
        """
        for _ in range(2):  # what holds something else may have a higher number
            for number in sorted(self.objects.keys() - self.lasting):
                value = self.drop(number)
                if sys.getrefcount(value) > _ALONE:
                    self.number_made(number, value)
        numbers = sorted(self.objects.keys() - self.lasting)
        if sum(len(value) for number in numbers if hasattr(value := self.objects[number], "__len__")) > KEPT:
            raise codec.CannotCross("all that the program keeps of what it was given and returned")
        return numbers

    def _last(self, number: int) -> None:
        self.lasting.add(number)
        if len(self.lasting) > LASTING:
            raise codec.CannotCross(f"more than {LASTING} objects")

    def _handle(self, form: str, kind: type | None, value: Any, depth: int) -> Any:
        self._last(self.number(value, depth))
        if isinstance(value, ModuleType):
            form = "module"
        name = getattr(value, "__name__", None)
        name = name if type(name) is str else type(value).__name__
        return {"handle": [form, self.value(kind, depth + 1), name]}

    def _class(self, kind: type, depth: int) -> Any:
        self._last(self.number(kind, depth))
        form = _form(kind)
        bases = [base for base in kind.__bases__ if _own(base) or issubclass(base, BaseException)]
        detail: Any = hasattr(kind, "__next__")
        names: list[str] = []
        if form == "enum":
            bases = []
            detail = [
                _enum_base(kind),
                [*kind.__members__],
                [member._value_ for member in kind.__members__.values()],
            ]
        elif form == "named":
            bases, detail = [], list(kind._fields)  # type: ignore[attr-defined]
        elif form == "record":
            params = kind.__dataclass_params__  # type: ignore[attr-defined]
            detail = [
                [[f.name, f.repr, f.compare, f.init, f.kw_only] for f in dataclasses.fields(kind)],
                [params.repr, params.eq, params.order, params.unsafe_hash, params.frozen],
            ]
        if form != "plain":
            self._classes.append((kind, dict(vars(kind))))
            names = [name for name, value in vars(kind).items() if _adds(kind, form, name, value)]
        parts = kind.__name__, form, bases, detail, names
        return {"class": [self.value(part, depth + 1) for part in parts]}


def _alone() -> int:
    value: list[Any] = []
    return sys.getrefcount(value)


_ALONE = _alone()
"""References to what one name alone refers to."""


def _own(kind: type) -> bool:
    return kind.__module__ == MODULE


def _form(kind: type) -> str:
    """How objects of a class cross."""
    if not _own(kind):
        return ""
    if isinstance(kind, enum.EnumMeta):
        return "enum" if type(kind) is enum.EnumMeta and _enum_base(kind) else "plain"
    if type(kind) is not type:  # what its class does with it, nobody knows
        return "plain"
    if issubclass(kind, BaseException):
        return "exception"
    if issubclass(kind, tuple):
        bases = kind.__bases__
        generated = bases == (tuple,) or (len(bases) == 1 and bases[0].__bases__ == (tuple,))
        return "named" if generated and hasattr(kind, "_fields") else "plain"
    fields = vars(kind).get("__dataclass_fields__")
    if fields is None or any(name.startswith("__") for name in fields):
        return "plain"
    return "record" if all(base is object or _form(base) == "record" for base in kind.__bases__) else "plain"


def _enum_base(kind: type) -> str:
    """What Python's own enum the class is made of; "" where its objects are more than that."""
    if any(_ours(vars(kind).get(name)) for name in ("__init__", "__new__", "__new_member__", "_missing_")):
        return ""
    *mixed, enum_base = kind.__bases__
    if (
        enum_base.__module__ != "enum"
        or len(mixed) > 1
        or not all(base in (int, str, float) for base in mixed)
    ):
        return ""
    return "+".join(base.__name__ for base in kind.__bases__)


def _state(value: Any) -> list[Any]:
    """Names and values of an object's attributes."""
    names = [field.name for field in dataclasses.fields(value)]
    state = {name: object.__getattribute__(value, name) for name in names if hasattr(value, name)}
    state |= getattr(value, "__dict__", {})
    return [*state.keys(), *state.values()]


def _ours(value: Any) -> bool:
    """Whether it is a function that the program's text defines, or rests on one."""
    for name in ("fget", "func", "__func__", "__wrapped__"):
        value = getattr(value, name, None) or value
    return getattr(getattr(value, "__code__", None), "co_filename", None) == FILE


def _adds(kind: type, form: str, name: str, value: Any) -> bool:
    """Whether a class defines something that does not cross with its objects."""
    if name in _USUAL or (name, form) == ("__str__", "exception"):
        return False
    if any(vars(base).get(name) is value for base in kind.__mro__[1:]):
        return False
    if form == "enum" and (name in kind.__members__ or (name[:1] == name[-1:] == "_" != name[1:2])):  # type: ignore[attr-defined]
        return False
    if form == "named" and (name in kind._fields or name[:1] == "_" != name[1:2]):  # type: ignore[attr-defined]
        return _ours(value)
    if isinstance(value, (MemberDescriptorType, GetSetDescriptorType)) or (name, value) == ("__hash__", None):
        return False
    return getattr(getattr(value, "__code__", None), "co_filename", None) not in _GENERATORS
