"""A process that performs units, and its watcher here: what it is sent, by when each unit ends, and how it died.

A process that dies (a crash, or the kernel for want of memory) loses the units that it had begun; those that it had not
are sent to the next one. One that has not ended a unit by the deadline is killed, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

import msgspec

from draftverify.bench.executors.frames import Begin, Frame, lost, read_frame, write_frame
from draftverify.bench.executors.workers import OnSent

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
_START += "from draftverify.bench.executors.worker import main; main()"


class _SentUnit(NamedTuple):
    number: int
    data: bytes
    solo: bool
    future: Future[bytes]


class WatchedProcess:
    """A process that performs units; another one takes its place when it dies.

    Args:
        begin: the first message to it.
        deadline: seconds after which a unit that has begun has ended, or is ended with its process; None for no bound.
        idle: seconds without units after which the process is ended, until units come again; None for never.
        on_sent: takes rounds.
    """

    def __init__(
        self,
        begin: Begin,
        *,
        deadline: float | None = None,
        idle: float | None = None,
        on_sent: OnSent | None = None,
    ) -> None:
        self._begin = begin
        self._deadline = deadline
        self._idle = idle
        self._on_sent = on_sent
        self._changed = threading.Condition()
        self._waiting: deque[_SentUnit] = deque()
        self._sent: dict[int, _SentUnit] = {}
        self._begun: dict[int, float] = {}  # when, by number
        self._late = False
        self._process: subprocess.Popen[bytes] | None = None
        self._threads: list[threading.Thread] = []
        self._numbers = 0
        self._rested = monotonic()
        self._closing = False
        self._over = threading.Event()

    @property
    def room(self) -> int:
        """How many units it takes: one more than are under way at once, so that the process waits for nobody."""
        return self._begin.size + 1

    def perform(self, unit: bytes, *, solo: bool) -> Future[bytes]:
        """Perform a unit, as `Workers.perform` does."""
        future: Future[bytes] = Future()
        with self._changed:
            self._numbers += 1
            self._waiting.append(_SentUnit(self._numbers, unit, solo, future))
            if not self._threads:
                self._begin_threads()
            self._send()
            self._changed.notify_all()
        return future

    def close(self, *, kill: bool = False) -> None:
        """End the process: once it has closed its parts, or at once."""
        with self._changed:
            self._closing = True
            self._over.set()
            waiting, self._waiting = self._waiting, deque()
            process = self._process
            if process is not None:
                self._kill(process) if kill else self._write(Frame(b"q"))
            self._changed.notify_all()
        for unit in waiting:
            unit.future.cancel()
        for thread in self._threads:
            thread.join()

    # In the threads

    def _begin_threads(self) -> None:
        targets = [self._watch]
        if self._deadline is not None or self._idle is not None:
            targets.append(self._count)
        self._threads = [threading.Thread(target=target, daemon=True) for target in targets]
        for thread in self._threads:
            thread.start()

    def _watch(self) -> None:
        """Begin processes, one after the other, while there are units. They die with this thread (worker.py)."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if self._closing:
                    return
                process = self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                while (frame := read_frame(process.stdout)) is not None:
                    self._take(frame)
            finally:
                self._kill(process)  # and whatever it began
                status = process.wait()
            process.stdout.close()
            with suppress(OSError):
                process.stdin.close()
            for unit, reply in self._bury(status):
                unit.future.set_result(reply)

    def _start(self) -> subprocess.Popen[bytes]:
        process = self._process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the driver; and all that it begins can be killed with it
        )
        self._late = False
        begin = msgspec.structs.replace(self._begin, parent=os.getpid())
        self._write(Frame(b"s", 0, msgspec.json.encode(begin)))
        self._send()
        return process

    def _send(self) -> None:
        """Send what the process can take now."""
        while self._waiting and self._process is not None and len(self._sent) < self.room:
            if self._sent and (self._waiting[0].solo or any(unit.solo for unit in self._sent.values())):
                return
            unit = self._waiting.popleft()
            self._sent[unit.number] = unit
            self._write(Frame(b"u", unit.number, unit.data))

    def _take(self, frame: Frame) -> None:
        """Take a frame of the process."""
        if frame.kind == b"d":
            if self._on_sent is not None:
                self._on_sent(frame.data)
            return
        with self._changed:
            if frame.kind == b"b":
                self._begun[frame.number] = monotonic()
                return
            self._begun.pop(frame.number, None)
            self._rested = monotonic()
            unit = self._sent.pop(frame.number, None)
            self._send()
        if unit is not None:  # else it is the second answer
            unit.future.set_result(frame.data)

    def _bury(self, status: int) -> list[tuple[_SentUnit, bytes]]:
        """After a process died: the units that are lost with it, and what is said of each."""
        with self._changed:
            self._process = None
            begun = [unit for unit in self._sent.values() if unit.number in self._begun]
            # Of one that died before it began anything the first one opened its pipeline.
            gone = begun or list(self._sent.values())[:1]
            numbers = {unit.number for unit in gone}
            untouched = [unit for unit in self._sent.values() if unit.number not in numbers]
            now = monotonic()
            late = {
                number
                for number, began in self._begun.items()
                if self._late and self._deadline is not None and now - began >= self._deadline
            }
            self._waiting.extendleft(reversed(untouched))
            self._sent.clear()
            self._begun.clear()
            self._rested = now
            if self._closing:
                gone += [unit for unit in untouched if not unit.future.cancel()]
        replies = []
        for unit in gone:
            end = f"it had not ended after {self._deadline:g} s" if unit.number in late else _ended(status)
            replies.append((unit, lost(end, solo=len(gone) == 1, late=unit.number in late)))
        return replies

    def _count(self) -> None:
        """Kill the process when a unit is late; let go of one that has nothing to do."""
        # No lock while units are out: whoever holds it may be waiting for the process to read.
        bounds = [bound for bound in (self._deadline, self._idle) if bound is not None]
        step = min(1.0, *(bound / 10 for bound in bounds))
        while not self._over.wait(step):
            process = self._process
            if process is None:
                continue
            now = monotonic()
            begun = list(self._begun.values())
            if self._deadline is not None and begun and now - min(begun) >= self._deadline:
                self._late = True
                self._kill(process)
            elif self._idle is not None and not self._sent and now - self._rested >= self._idle:
                with self._changed:
                    if not self._sent:
                        self._write(Frame(b"q"))
                        self._process = None  # a unit that comes now is for the next one

    def _write(self, frame: Frame) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with suppress(OSError, ValueError):  # it has died, and `_watch` sees to that
            write_frame(process.stdin, frame)

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        with suppress(OSError):
            if os.name != "posix":
                process.kill()
            elif process.returncode is None:  # else its number may be another's by now
                os.killpg(process.pid, signal.SIGKILL)


def _ended(status: int) -> str:
    if status >= 0:
        return f"the worker process ended with status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
    why = " (the machine may be out of memory)" if name == "SIGKILL" else ""
    return f"the worker process was ended by {name}{why}"
