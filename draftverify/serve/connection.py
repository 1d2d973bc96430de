"""A client's connection: one of so many, and while no request is under way on it, it has so long to send a head."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """Uvicorn's, which waits for a head that trickles in, and for the rest of a body that nobody reads, forever.

    Args:
        arrival: seconds; then the connection is cut.
        most: connections that are open at once; one more is cut.
        **arguments: uvicorn's own.
    """

    def __init__(self, *, arrival: float, most: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._arrival = arrival
        self._most = most
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            self.transport.abort()
        else:
            self._wait()

    def handle_events(self) -> None:
        """Stop waiting where a head has come."""
        cycle = self.cycle
        super().handle_events()
        if self.cycle is not cycle:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next one; a pipelined one is there already."""
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """There is nothing to wait for."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(self._arrival, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
