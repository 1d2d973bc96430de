"""Frozen lists and dicts: what several parts are shown, none of them can change by accident.

They are lists and dicts to everything that reads them: equal ones, JSON, `isinstance`. What would change one raises a
TypeError that says to change a copy; `copy.deepcopy`, `list(…)` and `dict(…)` give ordinary ones.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from operator import is_
from typing import Any, NoReturn

import msgspec
import numpy as np

__all__ = ["FrozenDict", "FrozenList", "freeze", "thaw"]


def _refuse(self: Any, *_: object, **__: object) -> NoReturn:
    kind = "dict" if isinstance(self, dict) else "list"
    raise TypeError(
        f"this {kind} is shared with other parts and with the record, so it is frozen; change a copy: "
        f"copy.deepcopy(…), or {kind}(…) for its first level"
    )


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __slots__ = ()

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> Any:
        return FrozenList, (list(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(entry, memo) for entry in self]


class FrozenDict(dict[Any, Any]):
    """A dict that cannot be changed."""

    __slots__ = ()

    clear = pop = popitem = setdefault = update = _refuse
    __delitem__ = __ior__ = __setitem__ = _refuse

    def __reduce_ex__(self, protocol: Any) -> Any:
        return FrozenDict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        return {key: copy.deepcopy(entry, memo) for key, entry in self.items()}


_SCALARS = frozenset({str, int, float, bool, type(None), bytes})


def freeze(value: Any) -> Any:
    """A value whose lists, dicts and NumPy arrays cannot be changed, at any depth; a frozen one stays as it is.

    Lists and dicts are copied, an array is a read-only view. Structs of this library are followed into their fields.
    Any other object is passed on as it is.
    """
    kind = type(value)
    if kind in _SCALARS or issubclass(kind, (FrozenList, FrozenDict)):
        return value
    if kind is tuple:
        entries = tuple([freeze(entry) for entry in value])
        return value if all(map(is_, entries, value)) else entries
    if isinstance(value, list):
        return FrozenList([freeze(entry) for entry in value])
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze(entry) for key, entry in value.items()})
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if type(field) is dict and not field:
                continue  # a default, which is left out where the struct is written
            if (frozen := freeze(field)) is not field:
                changed[name] = frozen
        return msgspec.structs.replace(value, **changed) if changed else value
    return value


def thaw(value: Any) -> Any:
    """The value with ordinary lists and dicts for frozen ones: what the caller is handed is the caller's."""
    kind = type(value)
    if kind is tuple:
        return tuple([thaw(entry) for entry in value])
    if kind is FrozenList:
        return [thaw(entry) for entry in value]
    if kind is FrozenDict:
        return {key: thaw(entry) for key, entry in value.items()}
    return value
