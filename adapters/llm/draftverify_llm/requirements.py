"""What a part needs before it can work: optional packages, and arguments that are not too small."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, version

from draftverify.errors import ConfigError, ResourceError

LOWEST = {"torch": (2, 11), "transformers": (5, 17)}
"""The oldest versions with which the tests pass, as pyproject.toml and tests/lowest.txt have them."""


def need(*packages: str, doing: str, extra: str = "llm") -> None:
    """Refuse early and clearly when an optional package is missing or too old.

    Raises:
        ResourceError: naming the packages and the extra that brings them.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ResourceError(
            f"{doing} needs {', '.join(missing)}; install draftverify with the extra '{extra}'"
        )
    for package in packages:
        installed, lowest = _version(package), LOWEST.get(package)
        if installed is not None and lowest is not None and installed < lowest:
            least = f"{package}>={'.'.join(map(str, lowest))}"
            raise ResourceError(
                f"{doing} needs {least}; {version(package)} is installed, with which models fail or answer wrongly. "
                f"Install a newer one: pip install '{least}'"
            )


def check_least(least: float, **arguments: float | None) -> None:
    """Refuse arguments that are smaller; None is one that was not given.

    Raises:
        ConfigError: naming the argument.
    """
    for name, value in arguments.items():
        if value is not None and not value >= least:
            raise ConfigError(f"{name} is {value}; at least {least} is needed", path=name)


def _version(package: str) -> tuple[int, ...] | None:
    """Its first two numbers; None where they are not known, as of a package that lies in the path by hand."""
    try:
        numbers = re.match(r"(\d+)\.(\d+)", version(package))
    except PackageNotFoundError:
        return None
    return tuple(map(int, numbers.groups())) if numbers else None
