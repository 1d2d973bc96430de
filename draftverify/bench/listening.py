"""Where a server of ours listens, and by which names it may be called."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from draftverify.errors import ResourceError


def listening_socket(host: str, port: int, *, remedy: str = "choose another --port") -> socket.socket:
    """A socket on this port of this address; whoever connects is let wait until the server is up.

    Raises:
        ResourceError: the port is taken, or the address is not this machine's; the message ends with the remedy.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends small answers at once (TCP_NODELAY), which saves 40 ms each.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise ResourceError(f"port {port} of {host}: {error.strerror or error}; {remedy}") from error
    return listening


def hosts_of(names: Iterable[str], port: int) -> frozenset[str]:
    """What a request's Host header may be: clients leave HTTP's own port out."""
    ends = (f":{port}", "") if port == 80 else (f":{port}",)
    return frozenset(name + end for name in names for end in ends)
