"""The driver's side of every executor: so many units in flight, lost ones again, and each answer taken once."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from draftverify.bench.executors.frames import LostUnit
from draftverify.bench.executors.local import Batch
from draftverify.bench.executors.messages import (
    WorkerReply,
    perform_remote,
    raise_from,
    read_reply,
    read_sent,
)
from draftverify.bench.executors.workers import UnitExecutor, Workers
from draftverify.bench.records.encoding import encode
from draftverify.bench.runner.bench import Bench, Done, OnRound, Unit, failed_unit
from draftverify.errors import ConfigError, ResourceError
from draftverify.values import Failure

CRASHES_IN_A_ROW = 5
"""Lone units whose worker died, one after the other, before the run is stopped: the workers cannot work at all."""

DEATHS = 4
"""Of workers that had a unit, when nothing says that it was alone there: a unit may lose so many nodes but one."""


@dataclass
class _Flight:
    """A unit that is to be done.

    Args:
        make: makes it.
        deaths: of workers that had begun it.
        solo: it is to be performed with no other unit beside it.
        unit: as it was last made.
    """

    make: Callable[[], Unit]
    deaths: int = 0
    solo: bool = False
    unit: Unit | None = None


@dataclass
class Crew:
    """What performs the units of a run: its workers stay from the first unit to the last, across phases and epochs.

    A worker that dies takes the units that it had begun with it (of executors that are not watched: all in flight),
    and nothing says whose fault it was: those units are run again, each alone, and one whose worker dies then too is
    recorded as failed. One that does not end by the deadline is recorded as failed at once, where it was alone.

    Args:
        where: the executor.
        bench: this process's pipelines, for a local executor.
        spec: the experiment, for workers elsewhere.
        on_round: called with each round that workers elsewhere decide, from other threads.
    """

    where: UnitExecutor | Batch
    bench: Bench | None
    spec: bytes
    on_round: OnRound | None = None
    take: Callable[[Sequence[Done]], None] = field(init=False)
    flying: dict[Future[Any], _Flight] = field(init=False, default_factory=dict)
    suspects: deque[_Flight] = field(init=False, default_factory=deque)
    landed: queue.SimpleQueue[Future[Any] | BaseException] = field(
        init=False, default_factory=queue.SimpleQueue
    )
    crashes: int = field(init=False, default=0)
    unkept: bool = field(init=False, default=False)
    pool: Executor | Workers | None = field(init=False, default=None)
    _reading: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(kill=kind is not None)

    def perform(self, units: Iterable[Callable[[], Unit]], take: Callable[[Sequence[Done]], None]) -> None:
        """Perform units, in order of submission, and hand over what comes of them as it comes.

        Args:
            units: functions that make the unit when its turn comes (so that rounds recorded by then are in it).
            take: called in this thread with what has come since it was last called, several where workers are quick.

        Raises:
            DraftVerifyError: what a worker says ends the run; units in flight are abandoned, none half committed.
            KeyboardInterrupt: passed on; leaving the crew stops its workers.
        """
        self.take = take
        if isinstance(self.where, Batch):
            assert self.bench is not None
            for done in self.bench.perform_all((make() for make in units), size=self.where.size):
                take([done])
            return
        coming = iter(units)
        while self._send(self.where, coming):
            self._receive()

    def _send(self, where: UnitExecutor, units: Iterator[Callable[[], Unit]]) -> bool:
        """Send out the units that may be sent now; says whether any is in flight."""
        pool = self.pool or self._open(where)
        watched = isinstance(pool, Workers)
        while self.suspects and (watched or not self.flying):
            self._submit(self.pool or self._open(where), self.suspects.popleft())
            if not watched:  # where a worker that dies ends them all, alone is alone in the pool
                return True
        if not self.suspects and (watched or not any(flight.solo for flight in self.flying.values())):
            # One more than there are workers elsewhere, so that none waits for this thread to commit.
            room = pool.room if isinstance(pool, Workers) else where.workers + (not where.local)
            for make in islice(units, max(0, room - len(self.flying))):
                self._submit(self.pool or self._open(where), _Flight(make))
        return bool(self.flying)

    def _submit(self, pool: Executor | Workers, flight: _Flight) -> None:
        unit = flight.unit = flight.make()
        future: Future[Any]
        try:
            if self.bench is not None:
                assert isinstance(pool, Executor)
                future = pool.submit(self.bench.perform, unit)
            else:
                payload = encode(unit, f"task {unit.task.id!r}").encode()
                if isinstance(pool, Workers):
                    future = pool.perform(unit.pipeline, payload, solo=flight.solo)
                else:
                    future = pool.submit(perform_remote, self.spec, payload)
        except BrokenExecutor as error:
            future = Future()
            future.set_exception(error)
        self.flying[future] = flight
        future.add_done_callback(self.landed.put)

    def _receive(self) -> None:
        """Wait for what comes, and take all that is there."""
        landed = [self.landed.get()]
        while not self.landed.empty():
            landed.append(self.landed.get())
        done: list[Done] = []
        broken: list[_Flight] = []
        trouble: BaseException | None = None
        for landing in landed:
            if isinstance(landing, BaseException):
                trouble = trouble or landing
            elif (flight := self.flying.pop(landing, None)) is not None:  # else it was given up
                try:
                    done += self._read(landing.result(), flight)
                except BrokenExecutor:
                    broken.append(flight)
                except BaseException as error:
                    trouble = trouble or error
        try:
            if broken:
                self._bury(broken, done)
        except BaseException as error:
            trouble = trouble or error
        # What came to its end is kept, whatever else came.
        if done:
            self.take(done)
        if trouble is not None:
            raise trouble

    def _read(self, reply: Any, flight: _Flight) -> list[Done]:
        """What a reply says of a unit: its end, or nothing yet."""
        assert flight.unit is not None
        if not isinstance(reply, Done):
            read: WorkerReply = read_reply(reply)
            if read.lost is not None:
                return self._lost(flight, read.lost)
            if read.done is None:
                assert read.error is not None
                raise_from(read.error)
            reply = read.done
        unit, record = flight.unit, reply.record
        if (unit.pipeline, unit.task.id, unit.attempt) != (reply.pipeline, record.task, record.attempt):
            raise ResourceError(
                f"a worker answered for {reply.pipeline!r}, task {record.task!r}, when it was asked for "
                f"{unit.pipeline!r}, task {unit.task.id!r}; nothing of it was recorded"
            )
        self.crashes = 0
        return [reply]

    def _lost(self, flight: _Flight, lost: LostUnit) -> list[Done]:
        """Handle a unit whose worker ended: it is run again, unless it is known that it would do so again."""
        flight.deaths += 1
        retry = flight.deaths < 2 if lost.solo else flight.deaths < DEATHS
        if retry and not (lost.solo and lost.late):
            flight.solo = True
            self.suspects.append(flight)
            return []
        if lost.late:
            return [failed_unit(flight.make(), Failure("timeout", "DeadlineExceeded", lost.why))]
        self.crashes += 1
        if self.crashes >= CRASHES_IN_A_ROW:
            raise ResourceError(
                f"{self.crashes} worker processes died one after the other; is there too little memory, or does a part "
                f"crash as it is loaded? The last one: {lost.why}. The run directory is whole: the same command goes "
                "on from it"
            )
        times = "twice" if flight.deaths == 2 else f"{flight.deaths} times"
        why = f"the worker process died while it ran this task, {times}; {lost.why}"
        return [failed_unit(flight.make(), Failure("error", "WorkerDied", why))]

    def _bury(self, broken: list[_Flight], done: list[Done]) -> None:
        """Handle the break of a pool that is not watched: every other unit in flight is lost with it, if it has not
        ended."""
        wait([future for future in self.flying if not future.cancel()])
        for future, flight in self.flying.items():
            if not future.cancelled() and future.exception() is None:
                done += self._read(future.result(), flight)
            else:
                broken.append(flight)
        self.flying.clear()
        self._close(kill=True)
        for flight in broken:
            done += self._lost(flight, LostUnit("its pool broke", solo=flight.solo))

    def _open(self, where: UnitExecutor) -> Executor | Workers:
        pool = self.pool = where.pool()
        if where.local:
            return pool
        if isinstance(pool, Workers):
            if self.on_round is not None and not pool.carries_rounds:
                raise _no_rounds(where)
            pool.begin(self.spec, None if self.on_round is None else partial(self._sent, self.on_round))
        elif self.on_round is not None:
            raise _no_rounds(where)
        return pool

    def _sent(self, on_round: OnRound, data: bytes) -> None:
        """Record a round from a thread that watches a worker; one that cannot be kept ends the run."""
        try:
            sent = read_sent(data)
            with self._reading:
                # Else the run has ended, and each of these would wait as long as the first.
                if not self.unkept:
                    on_round(sent.pipeline, sent.task, sent.attempt, sent.round, sent.texts)
        except BaseException as error:
            self.unkept = True
            self.landed.put(error)

    def _close(self, *, kill: bool) -> None:
        pool, self.pool = self.pool, None
        if pool is None:
            return
        if kill and self.bench is not None:
            self.bench.stop()
        if isinstance(pool, Workers):
            pool.close(kill=kill)
        else:
            pool.shutdown(wait=True, cancel_futures=kill)


def _no_rounds(where: UnitExecutor) -> ConfigError:
    return ConfigError(
        f"the executor {type(where).__name__} cannot send rounds while their task runs; write durable: task"
    )
