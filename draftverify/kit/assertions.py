"""How a check fails, and how it says nothing."""

from __future__ import annotations

ERROR_PROBABILITY = 1e-6
"""The chance, at most, that a statistical check refuses an honest component. Its draws are fixed: it is rolled once."""


def ensure(holds: object, problem: str) -> None:
    """Fail the check, saying what was found and what to do."""
    if not holds:
        raise AssertionError(problem)


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
