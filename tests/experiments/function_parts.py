"""Functions for `{use: python}`, and a class that is none."""

from __future__ import annotations

from typing import Any

from draftverify import Check, Context


def guesses(context: Context, n: int) -> list[int]:
    """The next n numbers."""
    first = context.drafted
    return list(range(first, first + n))


def is_root(context: Context, item: int) -> Any:
    """Whether its square is the task's; it cannot tell of 3."""
    if item == 3:
        return None
    return (
        Check("pass", score=1.0)
        if item * item == context.task.input["square"]
        else Check("reject", score=0.0)
    )


class Root:
    """No function."""

    def verify(self, context: Any, proposal: Any) -> Any:
        """Nothing."""
