"""Frames between the harness and its servers: 4 bytes of length, big-endian, and JSON. Standard library only."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any


def send(link: socket.socket, message: Any) -> None:
    """One frame."""
    data = json.dumps(message).encode()
    link.sendall(struct.pack(">I", len(data)) + data)


def receive(link: socket.socket) -> Any:
    """One frame; None at the end."""
    head = _exactly(link, 4)
    if head is None:
        return None
    data = _exactly(link, struct.unpack(">I", head)[0])
    return None if data is None else json.loads(data)


def _exactly(link: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        data = link.recv(min(count - len(parts), 1 << 20))
        if not data:
            return None
        parts += data
    return bytes(parts)
