"""Where units of work are performed: here, in threads, or in other processes; and what is done when a worker dies.

A worker of another process gets the experiment as text, builds its own bench once, takes units as JSON and gives
records back as JSON. Live models never travel, and workers write nothing: the driver's process commits what comes back.

An executor is a component with `workers`, `local` (units share this process's pipelines) and `pool()`, which gives any
`concurrent.futures.Executor`; or it is a `Batch`, whose units share their passes in this thread.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any, ClassVar, Protocol

import msgspec

from draftverify import errors
from draftverify.errors import (
    ConfigError,
    ContractError,
    DraftVerifyError,
    ResourceError,
    SelfVerificationWarning,
)
from draftverify.experiments.bench import Bench, Done, OnRound, Unit, failed_unit
from draftverify.experiments.build import Builder
from draftverify.experiments.specs import Experiment
from draftverify.records.encoding import check, decode, encode
from draftverify.records.store import Texts
from draftverify.values import Failure, Round

__all__ = ["Batch", "Bench", "Crew", "Process", "Serial", "Thread", "Where"]

CRASHES_IN_A_ROW = 5
"""Lone units whose worker died, one after the other, before the run is stopped: the workers cannot work at all."""


class Where(Protocol):
    """An executor: where the units of a run are performed.

    Attributes:
        workers: how many units at once.
        local: whether units run in this process and share its pipelines. Else they are sent out as JSON, and what
            `pool()` gives must be able to call a function of this package by name.
    """

    workers: int
    local: ClassVar[bool]

    def pool(self) -> Executor:
        """A fresh pool. One with a `rounds` queue can also carry rounds while their task runs."""
        ...


class Batch:
    """So many tasks together in this thread, in lockstep: those that wait for the same part share one pass of it.

    Args:
        size: how many tasks are under way at once; one that ends is replaced by the next.
    """

    local: ClassVar[bool] = True

    def __init__(self, size: int = 16) -> None:
        _at_least_one("size", size)
        self.size = size


class Serial(Batch):
    """One task after the other, in this thread."""

    def __init__(self) -> None:
        super().__init__(1)


class Thread:
    """Threads of this process: for parts that wait for something else, such as a remote model.

    Args:
        workers: how many tasks at once.
    """

    local: ClassVar[bool] = True

    def __init__(self, workers: int = 8) -> None:
        _at_least_one("workers", workers)
        self.workers = workers

    def pool(self) -> Executor:
        """A thread pool."""
        return ThreadPoolExecutor(self.workers, thread_name_prefix="draftverify")


class Process:
    """Other processes of this machine, each with its own models. They end when this process does, however it ends.

    Args:
        workers: how many processes; None for one per core.
    """

    local: ClassVar[bool] = False

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers if workers is not None else os.cpu_count() or 1
        _at_least_one("workers", self.workers)

    def pool(self) -> Executor:
        """A pool of fresh processes."""
        return _Processes(self.workers)


def _at_least_one(name: str, number: int) -> None:
    if number < 1:
        raise ConfigError(f"{name} is {number}; at least 1 is needed for anything to be done", path=name)


class _Processes(ProcessPoolExecutor):
    """Spawned workers that hold the read end of a pipe whose write end only this process has.

    When the write end closes, because this process stopped them or because it was killed, they are gone at
    once.
    """

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        watched, self._alive = context.Pipe(duplex=False)
        self._rounds, self._sender = context.Pipe(duplex=False)
        initial = (watched, self._sender, context.Lock())
        super().__init__(workers, mp_context=context, initializer=_begin_worker, initargs=initial)

    def stop(self) -> None:
        """Tell the workers to end now, whatever they are doing."""
        self._alive.close()

    def kill(self) -> None:
        """End the workers now, and wait for it."""
        self.stop()
        self.shutdown(wait=True, cancel_futures=True)

    def rounds(self) -> Iterator[bytes]:
        """What workers send while their tasks run, until `end_rounds` and the last worker's end."""
        with suppress(EOFError, OSError):
            while True:
                yield self._rounds.recv_bytes()

    def end_rounds(self) -> None:
        """No new worker will send anything."""
        self._sender.close()


_worker_sender: Connection | None = None
_worker_lock: Any = None
_worker_benches: dict[bytes, Bench] = {}


def _begin_worker(alive: Connection, sender: Connection, lock: Any) -> None:
    """In a new worker: watch the parent, and leave Ctrl-C to it."""
    global _worker_sender, _worker_lock
    _worker_sender, _worker_lock = sender, lock
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        with suppress(EOFError, OSError):
            alive.recv_bytes()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def perform_remote(spec: bytes, unit: bytes) -> bytes:
    """Perform a unit in a worker of another process.

    Args:
        spec: the experiment as text, the same for every unit; the bench is built from it once.
        unit: a Unit as JSON.

    Returns:
        JSON: {"done": a Done} or {"error": an error that ends the run}.
    """
    try:
        bench = _worker_benches.get(spec)
        if bench is None:
            _worker_benches.clear()
            experiment = Experiment.from_json(spec)
            with warnings.catch_warnings():  # the driver's process has said it
                warnings.simplefilter("ignore", SelfVerificationWarning)
                bench = _worker_benches[spec] = Builder().bench(experiment)
            bench.on_round = _send_round if experiment.durable == "round" else None
        work = decode(unit, Unit, "a unit of work")
        done = bench.perform(work)
        try:
            return encode(_Reply(done=done), f"task {work.task.id!r}").encode()
        except ContractError as error:
            done = failed_unit(work, Failure.of(error))
            return encode(_Reply(done=done), "a reply").encode()
    except BaseException as error:
        return encode(_Reply(error=Failure.of(error)), "a reply").encode()


class _Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    done: Done | None = None
    error: Failure | None = None


class _Sent(msgspec.Struct, frozen=True):
    pipeline: str
    task: str
    attempt: int
    round: Round
    texts: Texts | None


def _send_round(pipeline: str, task: str, attempt: int, round: Round, texts: Texts | None) -> None:
    what = f"pipeline {pipeline!r}, task {task!r}, round {round.index}"
    check(round, what)
    data = encode(_Sent(pipeline, task, attempt, round, texts), what).encode()
    assert _worker_sender is not None
    with _worker_lock:
        _worker_sender.send_bytes(data)


@dataclass
class Crew:
    """What performs the units of a run: its workers stay from the first unit to the last, across phases and epochs.

    A worker that dies takes every unit in flight with it, and nothing says whose fault it was: those units
    are run again, each alone, and one whose worker dies then too is recorded as failed.

    Args:
        where: the executor.
        bench: this process's pipelines, for a local executor.
        spec: the experiment, for workers elsewhere.
        on_round: called with each round that workers elsewhere decide, from another thread.
    """

    where: Where | Batch
    bench: Bench | None
    spec: bytes
    on_round: OnRound | None = None
    take: Callable[[Done], None] = field(init=False)
    flying: dict[Future[Any], Callable[[], Unit]] = field(init=False, default_factory=dict)
    suspects: deque[Callable[[], Unit]] = field(init=False, default_factory=deque)
    crashes: int = field(init=False, default=0)
    pool: Executor | None = field(init=False, default=None)
    reader: threading.Thread | None = field(init=False, default=None)
    unread: BaseException | None = field(init=False, default=None)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close(kill=kind is not None)

    def perform(self, units: Iterable[Callable[[], Unit]], take: Callable[[Done], None]) -> None:
        """Perform units, in order of submission, and hand over what comes of each as it comes.

        Args:
            units: functions that make the unit when its turn comes (so that rounds recorded by then are in it).
            take: called in this thread with each Done.

        Raises:
            DraftVerifyError: what a worker says ends the run; units in flight are abandoned, none half committed.
            KeyboardInterrupt: passed on; leaving the crew stops its workers.
        """
        self.take = take
        if isinstance(self.where, Batch):
            assert self.bench is not None
            for done in self.bench.perform_all((make() for make in units), size=self.where.size):
                take(done)
        else:
            self._perform(self.where, iter(units))

    def _perform(self, where: Where, units: Iterator[Callable[[], Unit]]) -> None:
        # One more than there are workers elsewhere, so that none waits for this thread to commit.
        window = where.workers + (not where.local)
        while True:
            while self.suspects:  # nothing else is in flight: it was lost with the worker that died
                self._submit(where, self.suspects.popleft())
                self._await(alone=True)
            for make in islice(units, window - len(self.flying)):
                self._submit(where, make)
            if not self.flying:
                return
            self._await(alone=False)

    def _submit(self, where: Where, make: Callable[[], Unit]) -> None:
        pool = self.pool or self._open(where)
        unit = make()
        future: Future[Any]
        try:
            if self.bench is not None:
                future = pool.submit(self.bench.perform, unit)
            else:
                payload = encode(unit, f"task {unit.task.id!r}").encode()
                future = pool.submit(perform_remote, self.spec, payload)
        except BrokenExecutor as error:
            future = Future()
            future.set_exception(error)
        self.flying[future] = make

    def _await(self, *, alone: bool) -> None:
        finished, _ = wait(self.flying, return_when=FIRST_COMPLETED)
        broken: list[Callable[[], Unit]] = []
        for future in finished:
            make = self.flying.pop(future)
            try:
                reply = future.result()
            except BrokenExecutor:
                broken.append(make)
                continue
            self.take(self._read(reply))
            self.crashes = 0
        if self.unread is not None:
            raise self.unread
        if not broken:
            return
        # Every other unit in flight is lost with the pool.
        for future, make in list(self.flying.items()):
            if not future.cancel() and future.exception() is None:
                self.take(self._read(future.result()))
            else:
                broken.append(make)
        self.flying.clear()
        self._close(kill=True)
        if not alone:
            self.suspects.extend(broken)
            return
        self.crashes += 1
        if self.crashes >= CRASHES_IN_A_ROW:
            raise ResourceError(
                f"{self.crashes} worker processes died one after the other; is there too little memory, or does a part "
                "crash as it is loaded? The run directory is whole: the same command goes on from it"
            )
        for make in broken:
            failure = Failure("error", "WorkerDied", "the worker process died while it ran this task, twice")
            self.take(failed_unit(make(), failure))

    def _read(self, reply: Any) -> Done:
        if isinstance(reply, Done):
            return reply
        read = decode(reply, _Reply, "a worker's reply")
        if read.done is not None:
            return read.done
        assert read.error is not None
        kind = getattr(errors, read.error.error, None)
        if isinstance(kind, type) and issubclass(kind, DraftVerifyError):
            raise kind(read.error.message)
        raise DraftVerifyError(str(read.error))

    def _open(self, where: Where) -> Executor:
        pool = self.pool = where.pool()
        if not where.local and self.on_round is not None:
            if not isinstance(pool, _Processes):
                raise ConfigError(
                    f"the executor {type(where).__name__} cannot send rounds while their task runs; "
                    "write durable: task"
                )
            self.reader = threading.Thread(target=self._read_rounds, args=(pool, self.on_round), daemon=True)
            self.reader.start()
        return pool

    def _read_rounds(self, pool: _Processes, on_round: OnRound) -> None:
        try:
            for data in pool.rounds():
                sent = decode(data, _Sent, "a worker's round")
                on_round(sent.pipeline, sent.task, sent.attempt, sent.round, sent.texts)
        except BaseException as error:  # nobody reads any more: workers would wait for ever to send
            self.unread = error
            pool.stop()

    def _close(self, *, kill: bool) -> None:
        pool, self.pool = self.pool, None
        if pool is None:
            return
        if kill and self.bench is not None:
            self.bench.stop()
        if kill and isinstance(pool, _Processes):
            pool.kill()
        else:
            pool.shutdown(wait=True, cancel_futures=kill)
        if self.reader is not None and isinstance(pool, _Processes):
            pool.end_rounds()
            self.reader.join()
            self.reader = None
