"""The judge's end of the channel to one candidate, which may write to it what and when it likes.

Standard library only; this file is also imported alone, by a small server process.
"""

from __future__ import annotations

import socket
import time
from typing import Any, NamedTuple

from draftverify_code.sandbox import codec


class Late(Exception):
    """No answer in time."""


class Gone(Exception):
    """The candidate's end of the channel is closed."""


class Unreadable(Exception):
    """What came back is no answer."""


class LinkAnswer(NamedTuple):
    """What came back; `child` says what each field is."""

    number: int
    kind: str
    content: Any
    changes: list[Any]
    output: str | None
    refused: list[str]


class Link:
    """The channel to one candidate.

    Attributes:
        asked: how many requests were sent.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._unsent = memoryview(b"")
        self._received = bytearray()
        self.asked = 0

    def ask(self, request: bytes, deadline: float) -> bytes:
        """Send a request and read one frame.

        Raises:
            Late, Gone: there is none.
            ValueError: what came is not one frame.
        """
        self.asked += 1
        self._unsent = memoryview(codec.HEAD.pack(len(request)) + request)
        return self.receive(deadline)

    def receive(self, deadline: float) -> bytes:
        """Read one frame; after `Late`, go on where it was.

        Raises:
            Late, Gone, ValueError: as `ask`.
        """
        try:
            while self._unsent:
                self._wait(deadline)
                self._unsent = self._unsent[self._channel.send(self._unsent) :]
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


_TYPES = (int, str, object, list, (str, type(None)), list)
_CONTENTS: dict[str, tuple[Any, ...]] = {
    "raised": (str, (tuple, type(None)), str, int, str),
    "syntax": (str, int),
    "apart": (str,),
}


def checked(answer: Any, number: int) -> LinkAnswer:
    """An answer, as far as its types go.

    Raises:
        ValueError: it is none of `child`'s, or not that to this request.
    """
    if not _fits(answer, _TYPES) or answer[0] is True or answer[0] != number:
        raise ValueError("not the answer to this request")
    kind, content, refused = answer[1], answer[2], answer[5]
    if not (kind == "value" or (kind in _CONTENTS and _fits(content, _CONTENTS[kind]))) or (
        kind == "syntax" and number
    ):
        raise ValueError("not an answer")
    if not all(type(call) is str for call in refused):
        raise ValueError("not an answer")
    return LinkAnswer(*answer)


def _fits(values: Any, types: tuple[Any, ...]) -> bool:
    if type(values) is not list or len(values) != len(types):
        return False
    return all(isinstance(value, kind) for value, kind in zip(values, types, strict=True))
