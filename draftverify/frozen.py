"""Frozen lists and dicts: what several parts are shown, none of them can change by accident.

They are lists and dicts to everything that reads them: equal ones, JSON, `isinstance`. What would change one raises a
TypeError that says to change a copy; `copy.copy` and `copy.deepcopy`, `list(…)` and `dict(…)` give ordinary ones.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from operator import is_
from typing import Any, NoReturn

import msgspec
import numpy as np

from draftverify.errors import ConfigError


def _refuse(self: Any, *_: object, **__: object) -> NoReturn:
    kind = "dict" if isinstance(self, dict) else "list"
    raise TypeError(
        f"this {kind} is shared with other parts and with the record, so it is frozen; change a copy: "
        f"copy.deepcopy(…), or {kind}(…) for its first level"
    )


class FrozenList(list[Any]):
    """A list that none of its methods changes."""

    __slots__ = ()

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> Any:
        return freeze, (list(self),)

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(entry, memo) for entry in self]


class FrozenDict(dict[Any, Any]):
    """A dict that none of its methods changes."""

    __slots__ = ()

    clear = pop = popitem = setdefault = update = _refuse
    __delitem__ = __ior__ = __setitem__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> Any:
        return freeze, (dict(self),)

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        return {key: copy.deepcopy(entry, memo) for key, entry in self.items()}


_SCALARS = frozenset({str, int, float, bool, type(None), bytes})


def freeze(value: Any, what: str = "a value") -> Any:
    """A copy whose lists, dicts, sets and NumPy arrays cannot be changed, at any depth; a frozen one stays as it is.

    Lists and dicts of other classes become these ones, other mappings dicts, sets frozensets. Structs and tuples are
    followed into their fields. Any other object is passed on as it is.

    Args:
        value: what is shared.
        what: it is, for the message.

    Raises:
        ConfigError: it is nested too deep, or holds itself.
    """
    try:
        return _frozen(value)
    except RecursionError:
        raise ConfigError(f"{what} is nested too deep, or holds itself") from None


def _frozen(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS or issubclass(kind, (FrozenList, FrozenDict)):
        return value
    if issubclass(kind, tuple):
        entries = tuple([_frozen(entry) for entry in value])
        if all(map(is_, entries, value)):
            return value
        return kind(*entries) if hasattr(kind, "_fields") else entries
    if issubclass(kind, list):
        return FrozenList([_frozen(entry) for entry in value])
    if issubclass(kind, Mapping):
        return FrozenDict({key: _frozen(entry) for key, entry in value.items()})
    if issubclass(kind, set):
        return frozenset(value)
    if issubclass(kind, np.ndarray):
        return frozen_array(value)
    if issubclass(kind, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if type(field) is dict and not field:
                continue  # a default, which is left out where the struct is written
            if (frozen := _frozen(field)) is not field:
                changed[name] = frozen
        return msgspec.structs.replace(value, **changed) if changed else value
    return value


def frozen_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that cannot be written into; a read-only array as it is."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def thaw(value: Any) -> Any:
    """The value with ordinary lists and dicts for frozen ones: what the caller is handed is the caller's."""
    kind = type(value)
    if kind is tuple:  # a chain's values: nearly always scalars
        return value if _SCALARS.issuperset(map(type, value)) else tuple([thaw(entry) for entry in value])
    if kind is FrozenList:
        return [thaw(entry) for entry in value]
    if kind is FrozenDict:
        return {key: thaw(entry) for key, entry in value.items()}
    return value
