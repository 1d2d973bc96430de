"""How a check fails, and how it says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

ERROR_PROBABILITY = 1e-6
"""The chance, at most, that a statistical check refuses an honest component. Its draws are fixed: it is rolled once."""


def ensure(holds: object, problem: str) -> None:
    """Fail the check, saying what was found and what to do."""
    if not holds:
        raise AssertionError(problem)


@contextmanager
def must_work(what: str, hint: str) -> Iterator[None]:
    """Fail the check where the block raises, saying what did, what it raised and what to do."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}; {hint}") from error


class NotExercised(Exception):
    """A check had nothing to look at, so that it must not say that it passed."""


def exercised(by: object, why: str) -> None:
    """End the check as one that was not run, where nothing that it could have failed by came up.

    Args:
        by: what did; it stands at the end of a check, since a finding counts more than what was not looked at.
        why: what never happened, and what would make it.
    """
    if not by:
        raise NotExercised(why)
