"""What crosses between the driver's process and its workers: bytes that hold JSON, and never a pickle.

A reply says what came of a unit, that its worker was lost, or that the run must end. Between a worker and who watches
it messages travel as frames: a letter for the kind, the unit's number, and the bytes.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

import msgspec

from draftverify import errors
from draftverify.bench.config.specs import Experiment
from draftverify.bench.records.encoding import check, decode, encode
from draftverify.bench.records.entries import Texts
from draftverify.bench.runner.bench import Bench, Done, Unit, failed_unit
from draftverify.bench.runner.build import Builder
from draftverify.errors import ContractError, DraftVerifyError, SelfVerificationWarning
from draftverify.values import Failure, Round


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


class WorkerReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a unit; one of the three is given.

    Args:
        done: the unit's end.
        error: what ends the run.
        lost: how its worker ended.
    """

    done: Done | None = None
    error: Failure | None = None
    lost: LostUnit | None = None


class Sent(msgspec.Struct, frozen=True):
    """A round, sent while its task runs."""

    pipeline: str
    task: str
    attempt: int
    round: Round
    texts: Texts | None


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
            (its WorkerReply), "d" (a Sent). In a bundle also "a" (a Unit that is to be alone) and "t" (how many
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


def answered(unit: Unit, done: Done) -> bytes:
    """The reply that a unit ended; as failed where what came of it cannot be recorded."""
    try:
        return encode(WorkerReply(done=done), f"task {unit.task.id!r}").encode()
    except ContractError as error:
        return encode(WorkerReply(done=failed_unit(unit, Failure.of(error))), "a reply").encode()


def failing(error: BaseException) -> bytes:
    """The reply that ends the run."""
    return encode(WorkerReply(error=Failure.of(error)), "a reply").encode()


def raise_from(failure: Failure) -> None:
    """Raise what a worker says ends the run, under its own name.

    Raises:
        DraftVerifyError: always.
    """
    kind = getattr(errors, failure.error, None)
    if isinstance(kind, type) and issubclass(kind, DraftVerifyError):
        raise kind(failure.message)
    raise DraftVerifyError(str(failure))


def sent_round(pipeline: str, task: str, attempt: int, round: Round, texts: Texts | None) -> bytes:
    """A round as a message.

    Raises:
        ContractError: it holds what cannot be recorded.
    """
    where = f"pipeline {pipeline!r}, task {task!r}, round {round.index}"
    check(round, where)
    return encode(Sent(pipeline, task, attempt, round, texts), where).encode()


def build(spec: bytes) -> Bench:
    """The pipelines of an experiment, in a worker.

    Raises:
        DraftVerifyError: a part cannot be built here.
    """
    with warnings.catch_warnings():  # the driver's process has said it
        warnings.simplefilter("ignore", SelfVerificationWarning)
        return Builder().bench(Experiment.from_json(spec))


_benches: dict[bytes, Bench] = {}


def perform_remote(spec: bytes, unit: bytes) -> bytes:
    """Perform a unit in a worker of anybody's executor, in the process that calls this.

    Args:
        spec: the experiment as text, the same for every unit; the bench is built from it once.
        unit: a Unit as JSON.

    Returns:
        A WorkerReply as JSON.
    """
    try:
        bench = _benches.get(spec)
        if bench is None:
            _benches.clear()
            bench = _benches[spec] = build(spec)
        work = decode(unit, Unit, "a unit of work")
        return answered(work, bench.perform(work))
    except BaseException as error:
        return failing(error)


def read_reply(data: bytes) -> WorkerReply:
    """A worker's reply.

    Raises:
        StoreError: it is none.
    """
    return decode(data, WorkerReply, "a worker's reply")


def read_sent(data: bytes) -> Sent:
    """A worker's round.

    Raises:
        StoreError: it is none.
    """
    return decode(data, Sent, "a worker's round")
