"""The registry of checks.

A check is a function of a `Subject` whose docstring is the law it holds the component to. It names the checks that must
pass before it means anything, so that one defect is reported once, by the check that is named after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from draftverify.kit.subject import Role, Subject


class ConformanceCheck(msgspec.Struct, frozen=True, eq=False):
    """A registered check: its name, its law in a line, whom it is for and what must have passed before."""

    name: str
    doc: str
    role: Role | None
    after: tuple[str, ...]
    when: Callable[[Subject], Any]
    run: Callable[[Subject], None]

    def applies(self, subject: Subject) -> bool:
        """Whether the component has the role, and the capability, that the check is about."""
        return self.role in (None, subject.role) and bool(self.when(subject))


CHECKS: dict[str, ConformanceCheck] = {}


def check(
    role: Role | None = None,
    *,
    after: Sequence[str] = (),
    when: Callable[[Subject], Any] = lambda subject: True,
) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Register a check for one role, or for all (None)."""

    def register(function: Callable[[Subject], None]) -> Callable[[Subject], None]:
        name, doc = function.__name__, " ".join((function.__doc__ or "").split())
        CHECKS[name] = ConformanceCheck(name, doc, role, tuple(after), when, function)
        return function

    return register
