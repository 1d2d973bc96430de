"""Messages between a worker and who watches it: a letter for the kind, the unit's number, and bytes of JSON.

Whoever watches reads no records, so nothing of an experiment is imported here: an actor, or a worker of a cluster,
begins the sooner.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

import msgspec
from msgspec.structs import replace

from draftverify.values import EMPTY, Failure


class LostUnit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A unit's worker ended before the unit did.

    Args:
        why: in words.
        solo: no other unit was under way in that worker: it was this one's doing, or the machine's.
        late: the worker was ended, since the unit had not ended by its deadline.
    """

    why: str
    solo: bool = False
    late: bool = False


class Begin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first message to a worker.

    Args:
        spec: the experiment as text.
        size: how many units at once share their passes.
        rounds: send each round as it is decided.
        parent: the process that watches it.
        parts: what the driver's process found the experiment to rest on; None for a worker of the same machine.
    """

    spec: bytes
    size: int = 1
    rounds: bool = False
    parent: int = 0
    parts: Mapping[str, Mapping[str, str]] | None = None


class Frame(msgspec.Struct, frozen=True):
    """A message between a worker and who watches it.

    Args:
        kind: towards the worker "s" (Begin), "u" (a Unit), "q" (no more will come); back "b" (the unit has begun), "r"
            (a WorkerReply), "d" (a Sent). In a bundle also "a" (a Unit that is to be alone) and "t" (how many
            nanoseconds the bundle took).
        number: the unit's.
        data: JSON.
    """

    kind: bytes
    number: int = 0
    data: bytes = b""


_HEAD = struct.Struct(">cQQ")


def write_frame(stream: IO[bytes], frame: Frame) -> None:
    """Write a frame whole. One thread at a time."""
    stream.write(_HEAD.pack(frame.kind, frame.number, len(frame.data)) + frame.data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Frame | None:
    """The next frame; None at the stream's end, be it in the middle of a frame."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    kind, number, length = _HEAD.unpack(head)
    data = stream.read(length)
    return Frame(kind, number, data) if len(data) == length else None


def bundled(frames: Iterable[Frame]) -> bytes:
    """Frames as one message."""
    bundle = io.BytesIO()
    for frame in frames:
        write_frame(bundle, frame)
    return bundle.getvalue()


def unbundled(bundle: bytes) -> Iterator[Frame]:
    """The frames of a message."""
    stream = io.BytesIO(bundle)
    while (frame := read_frame(stream)) is not None:
        yield frame


def lost(why: str, *, solo: bool = False, late: bool = False) -> bytes:
    """The reply for a unit whose worker ended before it did."""
    return msgspec.json.encode({"lost": LostUnit(why, solo, late)})


def failing(error: BaseException) -> bytes:
    """The reply that ends the run, without notes: no record keeps it."""
    return msgspec.json.encode({"error": replace(Failure.of(error), notes=EMPTY)})
