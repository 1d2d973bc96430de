"""The bounds of a rule's parameters; a value outside is refused as the rule is made."""

from __future__ import annotations

from typing import SupportsFloat, SupportsIndex

from draftverify.errors import ConfigError


def at_least_one(name: str, value: int) -> int:
    """A number of things, when it is 1 or more.

    Raises:
        ConfigError: when it is not.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise ConfigError(f"{name} is {value!r}; a whole number is needed", path=name)
    if value < 1:
        raise ConfigError(f"{name} is {value}; at least 1 is needed", path=name)
    return value


def between(
    name: str, value: float, low: float, high: float, *, open_below: bool = False, open_above: bool = False
) -> float:
    """A parameter, when it lies between the bounds.

    Raises:
        ConfigError: when it does not.
    """
    value = _number(name, value)
    if not low <= value <= high or (open_below and value == low) or (open_above and value == high):
        interval = f"{low:g} {'<' if open_below else '≤'} {name} {'<' if open_above else '≤'} {high:g}"
        raise ConfigError(f"{value} is outside {interval}", path=name)
    return value


def score_or_none(name: str, value: float | None) -> float | None:
    """A score to compare with, or None for any.

    Raises:
        ConfigError: when it is no number.
    """
    return None if value is None else _number(name, value)


def _number(name: str, value: float) -> float:
    if isinstance(value, (bool, str)) or not isinstance(value, SupportsFloat) or value != value:
        raise ConfigError(f"{name} is {value!r}; a number is needed", path=name)
    return value
