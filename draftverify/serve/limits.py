"""How much a server takes at once, and for how long."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ServerLimits"]


class ServerLimits(NamedTuple):
    """A server's limits.

    Args:
        concurrency: tasks under way at once.
        queue: tasks that may wait for a place beside them; more are refused.
        timeout: seconds for one request, the wait included.
    """

    concurrency: int = 16
    queue: int = 64
    timeout: float = 300.0


DEFAULT = ServerLimits()
