"""What was asked on the command line, for the commands that need to know it beside their own options."""

from __future__ import annotations

from typing import NamedTuple

import click

__all__ = ["Asked"]


class Asked(NamedTuple):
    """The command line.

    Args:
        arguments: after the program's name.
        tracebacks: whether failures are to show where they came from, those of parts too, which end no command.
    """

    arguments: tuple[str, ...] = ()
    tracebacks: bool = False

    @staticmethod
    def now() -> Asked:
        """That of the command under way."""
        return click.get_current_context().find_object(Asked) or Asked()
