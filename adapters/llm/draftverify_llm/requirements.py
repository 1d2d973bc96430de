"""Optional packages: refused early and clearly where they are missing."""

from __future__ import annotations

import importlib.util

from draftverify.errors import ResourceError

__all__ = ["need"]


def need(*packages: str, doing: str, extra: str = "llm") -> None:
    """Refuse early and clearly when an optional package is missing.

    Raises:
        ResourceError: naming the packages and the extra that brings them.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ResourceError(
            f"{doing} needs {', '.join(missing)}; install it with: pip install 'draftverify[{extra}]'"
        )
