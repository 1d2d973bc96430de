"""The judge's end of the channel to one candidate, which may write to it what and when it likes.

Standard library only; this file is also imported alone, by a small server process.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from draftverify_code.sandbox import codec
else:
    import codec

__all__ = ["Gone", "Late", "Link", "Unreadable", "checked"]


class Late(Exception):
    """No answer in time."""


class Gone(Exception):
    """The candidate's end of the channel is closed."""


class Unreadable(Exception):
    """What came back is no answer."""


class Link:
    """The channel to one candidate, which may write to it what and when it likes."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._received = bytearray()
        self.asked = 0

    def ask(self, request: bytes, deadline: float) -> bytes:
        """Send a request and read one frame.

        Raises:
            Late, Gone: there is none.
            ValueError: what came is not one frame.
        """
        self.asked += 1
        try:
            self._wait(deadline)
            self._channel.sendall(codec.HEAD.pack(len(request)) + request)
            return self._receive(deadline)
        except TimeoutError as error:
            raise Late from error
        except OSError as error:
            raise Gone from error

    def _receive(self, deadline: float) -> bytes:
        buffer = self._received
        end: int | None = None
        while end is None or len(buffer) < end:
            if end is None and len(buffer) >= 4:
                (size,) = codec.HEAD.unpack_from(buffer)
                if size > codec.FRAME:
                    raise ValueError("a frame that is too long")
                end = 4 + size
                continue
            self._wait(deadline)
            data = self._channel.recv(1 << 16)
            if not data:
                raise Gone
            buffer += data
        answer = bytes(buffer[4:end])
        del buffer[:end]
        if buffer:
            raise ValueError("more than one answer")
        return answer

    def _wait(self, deadline: float) -> None:
        """Let the next operation take until then."""
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise Late
        self._channel.settimeout(remaining)


_TOLD: tuple[type, ...] = (object, object, int, str)
_SHAPES: dict[str, tuple[type, ...]] = {
    "value": _TOLD,
    "raised": (BaseException, *_TOLD[1:]),
    "syntax": (BaseException, *_TOLD[1:]),
    "refused": (str,),
    "failed": (str,),
}


def checked(answer: Any, number: int) -> tuple[str, list[Any]]:
    """The kind and the fields of an answer.

    Raises:
        ValueError: it is none of `child`'s.
    """
    if type(answer) is not list or len(answer) < 2 or type(answer[1]) is not str:
        raise ValueError("not an answer")
    number_said, kind, *fields = answer
    shape = _SHAPES.get(kind, ())
    if type(number_said) is not int or number_said != number or len(fields) != len(shape):
        raise ValueError("not the answer to this request")
    if not all(issubclass(type(field), want) for field, want in zip(fields, shape, strict=True)):
        raise ValueError("not an answer")
    return kind, fields
