"""What runs in a worker's process: it takes units from its input, performs them with one bench, and answers.

Whatever it is told comes as frames through its standard input, and what it says leaves through its standard
output; parts that print write to standard error. When the input ends, since the process that watches it is
gone, so is this one.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

import msgspec

from draftverify.bench.config.specs import Experiment
from draftverify.bench.executors.frames import Begin, Frame, failing, read_frame, write_frame
from draftverify.bench.executors.messages import answered, build, sent_round
from draftverify.bench.records.encoding import decode
from draftverify.bench.runner.bench import Bench, Unit
from draftverify.errors import ConfigError, DraftVerifyError

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve whoever began this process, until no more comes."""
    inward, outward = _streams()
    frame = read_frame(inward)
    if frame is None:
        os._exit(1)
    begin = msgspec.json.decode(frame.data, type=Begin)
    _end_with(begin.parent)
    Worker(begin, inward, outward).serve()


def _streams() -> tuple[IO[bytes], IO[bytes]]:
    """The two ends of the frames, taken out of the reach of parts that read or print."""
    inward, outward = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return inward, outward


def _end_with(parent: int) -> None:
    """Have this process killed when the thread that began this process ends, also while a call holds up all threads
    here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.name == "posix" and os.getppid() != parent:
        os._exit(1)


class Worker:
    """A bench, and the units that come for it.

    Args:
        begin: what to build.
        inward, outward: the frames.
    """

    def __init__(self, begin: Begin, inward: IO[bytes], outward: IO[bytes]) -> None:
        self._begin = begin
        self._inward = inward
        self._outward = outward
        self._coming: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._numbers: dict[tuple[str, str, int], tuple[int, Unit]] = {}  # of units under way
        self._writing = threading.Lock()
        self._over = False

    def serve(self) -> None:
        """Perform units until no more will come."""
        threading.Thread(target=self._read, daemon=True).start()
        bench: Bench | None = None
        while (frame := self._coming.get()) is not None:
            try:
                bench = bench or self._build()
                for done in bench.perform_all(self._units(bench, frame), size=self._begin.size):
                    number, unit = self._numbers.pop((done.pipeline, done.record.task, done.record.attempt))
                    self._write(Frame(b"r", number, answered(unit, done)))
            except BaseException as error:
                self._refuse(frame, error)
            if self._over:
                break
        if bench is not None:
            bench.close()

    def _build(self) -> Bench:
        begin = self._begin
        bench = build(begin.spec)
        if begin.parts is not None:
            _compare(begin.parts, Experiment.from_json(begin.spec).parts())
        if begin.rounds:
            bench.on_round = lambda *sent: self._write(Frame(b"d", 0, sent_round(*sent)))
        return bench

    def _units(self, bench: Bench, frame: Frame | None) -> Iterator[Unit | None]:
        """Units as they come, beginning with one that is there; None while there is none and others are under way."""
        while True:
            if frame is not None:
                unit = decode(frame.data, Unit, "a unit of work")
                self._numbers[unit.pipeline, unit.task.id, unit.attempt] = frame.number, unit
                bench.open(unit.pipeline)
                self._write(Frame(b"b", frame.number))
                yield unit
            else:
                yield None
            if self._begin.size == 1:
                return  # a lone unit costs less in a pool of its own
            try:
                frame = self._coming.get_nowait()
            except queue.Empty:
                frame = None
            else:
                if frame is None:
                    self._over = True
                    return

    def _refuse(self, frame: Frame, error: BaseException) -> None:
        """The run cannot go on: say so in the name of all units under way."""
        if isinstance(error, DraftVerifyError):
            where = f" (in a worker on {socket.gethostname()})" if self._begin.parts is not None else ""
            with suppress(Exception):
                error = type(error)(f"{error}{where}")
        for number in {frame.number, *(number for number, _ in self._numbers.values())}:
            self._write(Frame(b"r", number, failing(error)))
        self._numbers.clear()

    def _read(self) -> None:
        while (frame := read_frame(self._inward)) is not None:
            self._coming.put(None if frame.kind == b"q" else frame)
            if frame.kind == b"q":
                return
        os._exit(1)

    def _write(self, frame: Frame) -> None:
        with self._writing:
            try:
                write_frame(self._outward, frame)
            except OSError:  # nobody listens any more
                os._exit(1)


def _compare(expected: object, present: object) -> None:
    """Refuse other parts than the driver's.

    Raises:
        ConfigError: here the experiment would rest on something else.
    """
    assert isinstance(expected, dict)
    assert isinstance(present, dict)
    differing = sorted(name for name in {*expected, *present} if expected.get(name) != present.get(name))
    if differing:
        raise ConfigError(
            f"{', '.join(differing)}: not as on the driver's machine; install the same versions and give every machine "
            "the same files under the same paths (a shared folder)"
        )
