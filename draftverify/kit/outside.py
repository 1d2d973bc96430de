"""What a component keeps outside its instances: in its classes, its modules, its functions' defaults, cached functions.

State that outlives an instance is seen only from where a process begins. So it is remembered as it was before the kit's
first call, and can be put back to that for a while. Nothing is judged here: that its answers change is what a check
finds, and what stands here is the cause that the message names.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import isfunction
from typing import Any, TypeAlias

_CONTAINERS = (dict, list, set, deque, OrderedDict, defaultdict)
_SCALARS = (int, float, str, bytes, bool, tuple, type(None))

Remembered: TypeAlias = "tuple[Any, Any]"
"""A value, and of a container what was in it."""


class Outside:
    """The values outside a component's instances, as they were when this was made.

    Args:
        component: an instance, which no check has called yet.
    """

    def __init__(self, component: Any) -> None:
        self._spaces = dict(_spaces(component))
        self._first = self._now()

    def changed(self) -> tuple[str, ...]:
        """The names whose values are no longer as they were."""
        now = self._now()
        return tuple(
            f"{space}.{name}"
            for space, values in now.items()
            for name, value in values.items()
            if not _same(value, self._first[space].get(name))
        )

    @contextmanager
    def as_at_first(self) -> Iterator[None]:
        """Put everything back as it was at first, and after it as it is now."""
        now = self._now()
        self._put(self._first)
        try:
            yield
        finally:
            self._put(now)

    def _now(self) -> dict[str, dict[str, Remembered]]:
        return {
            space: {
                name: (value, _content(value)) for name, value in list(names.items()) if _is_kept(name, value)
            }
            for space, (_, names) in self._spaces.items()
        }

    def _put(self, state: dict[str, dict[str, Remembered]]) -> None:
        now = self._now()
        for space, (owner, _) in self._spaces.items():
            for name, (value, content) in state[space].items():
                current = now[space].get(name)
                # What was empty and is of another type now was loaded, not counted: it stays.
                if current is None or type(current[0]) is not type(value) or _same(current, (value, content)):
                    continue
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
                elif type(value) in _CONTAINERS:
                    value.clear()
                    (value.update if hasattr(value, "update") else value.extend)(content)
                if owner is not None and current[0] is not value:
                    setattr(owner, name, value)


def _spaces(component: Any) -> Iterator[tuple[str, tuple[Any, Mapping[str, Any]]]]:
    """The namespaces in reach of a component's code: each with its owner, if it can be assigned to, and its names."""
    functions = [value for value in getattr(component, "__dict__", {}).values() if isfunction(value)]
    for kind in type(component).__mro__[:-1]:
        yield kind.__qualname__, (kind, vars(kind))
        functions += [value for value in vars(kind).values() if isfunction(value)]
        module = sys.modules.get(kind.__module__)
        if module is not None and kind.__module__.partition(".")[0] not in sys.stdlib_module_names:
            yield module.__name__, (module, vars(module))
    for function in functions:
        inner = dict(function.__kwdefaults__ or {}) | vars(function)
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        defaults = function.__defaults__ or ()
        inner |= dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                inner[name] = cell.cell_contents
            except ValueError:  # not bound yet
                continue
        if inner:
            yield f"{function.__qualname__}()", (None, inner)


def _is_kept(name: str, value: Any) -> bool:
    if name.startswith("__"):
        return False
    return type(value) in _CONTAINERS or type(value) in _SCALARS or hasattr(type(value), "cache_clear")


def _content(value: Any) -> Any:
    if hasattr(type(value), "cache_info"):
        return value.cache_info().currsize
    return value.copy() if type(value) in _CONTAINERS else None


def _same(current: Remembered | None, remembered: Remembered | None) -> bool:
    if current is None or remembered is None:
        return current is remembered
    (value, content), (earlier_value, earlier_content) = current, remembered
    if type(value) in _SCALARS:
        return value is earlier_value or (type(value) is type(earlier_value) and value == earlier_value)
    if value is not earlier_value:
        return False
    if isinstance(content, Mapping):
        content, earlier_content = list(content.items()), list(earlier_content.items())
        return len(content) == len(earlier_content) and all(
            a is c and b is d for (a, b), (c, d) in zip(content, earlier_content, strict=True)
        )
    if isinstance(content, (set, int)):
        return bool(content == earlier_content)
    return len(content) == len(earlier_content) and all(
        a is b for a, b in zip(content, earlier_content, strict=True)
    )
