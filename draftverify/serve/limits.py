"""How much a server takes at once and for how long, and where it records it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

MOST = 2 << 20
"""Bytes of a request's body."""


class ServerLimits(NamedTuple):
    """A server's limits.

    Args:
        concurrency: tasks under way at once.
        queue: tasks that may wait for a place beside them; more are refused.
        timeout: seconds for one request, the wait included.
        arrival: seconds in which a request's head has come, and then its body; more slowly none is read.
        connections: open at once; one more is closed as it comes.
    """

    concurrency: int = 16
    queue: int = 64
    timeout: float = 300.0
    arrival: float = 30.0
    connections: int = 512


DEFAULT = ServerLimits()


class Recorded(NamedTuple):
    """Where a server's tasks are recorded; the arguments are those of `run`.

    Args:
        out: the run directory; the same one is gone on with.
        fresh: move what is there aside and begin anew.
        accept_changed: go on though a plugin or a file has changed.
        store: a PostgreSQL URL for the records.
        command: the command line that asked for it.
    """

    out: str | Path
    fresh: bool = False
    accept_changed: bool = False
    store: str | None = None
    command: Sequence[str] = ()
