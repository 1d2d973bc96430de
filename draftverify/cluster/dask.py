"""The executor of a Dask cluster: its client carries the units, and processes beside its workers perform them.

A Dask worker hands a unit to a process of its own (watched.py), so that a task that crashes or hangs costs the worker
nothing but that process. Units of a worker that is gone are given to another one by Dask itself. Only bytes of JSON are
sent to workers and come back from them.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from time import monotonic_ns
from typing import Any, ClassVar, NamedTuple

import msgspec

from draftverify.bench.executors.frames import Begin, Frame, bundled, failing, lost, unbundled
from draftverify.bench.executors.watched import WatchedProcess
from draftverify.bench.executors.workers import (
    Count,
    OnSent,
    Pace,
    Seconds,
    Workers,
    at_least_one,
    check_deadline,
)
from draftverify.errors import DraftVerifyError, ResourceError
from draftverify.plugins import required

PATIENCE = 300.0
"""Seconds to wait for a first worker: a cluster that grows on demand takes its time."""

SENT = 2
"""Bundles that a worker has at once: one that it performs, and one that it need not wait for."""

IDLE = 60.0
"""Seconds after which a process without units ends, since its driver may be gone for good."""


class Dask:
    """The workers of a Dask cluster.

    Args:
        address: of the scheduler (`tcp://host:8786`); None for a cluster of our own on this machine, which ends with
            the run.
        workers: how many units at once; None for as many as the workers have threads when the run begins, or one per
            core of this machine.
        batch: how many tasks are under way at once in each process: those that wait for the same part share one pass of
            it. A Dask worker has a process for so many of its threads.
        deadline: seconds after which a task that has begun and not ended is recorded as failed, and its process ended,
            whatever it is doing; None for no bound.
    """

    local: ClassVar[bool] = False

    def __init__(
        self,
        address: str | None = None,
        workers: Count | None = None,
        batch: Count = 1,
        deadline: Seconds | None = None,
    ) -> None:
        self.address = address
        self.workers: Any = workers
        self.batch = batch
        self.deadline = deadline
        at_least_one("batch", batch)
        if workers is not None:
            at_least_one("workers", workers)
        check_deadline(deadline)

    def pool(self) -> Workers:
        """A fresh client of the cluster."""
        return _Client(self)


class _DaskUnit(NamedTuple):
    data: bytes
    solitary: bool
    future: Future[bytes]


class _Client(Workers):
    """The cluster's end in the driver's process. A Dask task is a bundle of units: of short ones as many as take a
    quarter of a second."""

    carries_rounds: ClassVar[bool] = False

    def __init__(self, where: Dask) -> None:
        self._where = where
        self._client: Any = None
        self._cluster: Any = None
        self._begin = b""
        self._flying: set[Any] = set()
        self._waiting: deque[_DaskUnit] = deque()
        self._pace = Pace()
        self._workers = 1
        self._closing = False
        self._lock = threading.RLock()

    @property
    def room(self) -> int:
        # A bundle for each beside those that are sent out, so that the next one is not waited for.
        return (SENT + 1) * self._workers * self._size

    @property
    def _size(self) -> int:
        """The number of units in a bundle."""
        return max(1, self._pace.ahead // SENT)

    def begin(self, spec: bytes, on_sent: OnSent | None) -> None:
        from draftverify.bench.config.specs import Experiment  # not with the module, which workers import

        distributed = required("distributed", "executor 'dask'", "dask")
        where = self._where
        parts = Experiment.from_json(spec).parts()
        self._begin = msgspec.json.encode(Begin(spec, where.batch, parts=parts))
        try:
            if where.address is None:
                process_count = -(-(where.workers or os.cpu_count() or 1) // where.batch)
                self._cluster = distributed.LocalCluster(
                    n_workers=process_count,
                    threads_per_worker=where.batch,
                    processes=True,
                    # No dashboard; and what it serves instead only here.
                    dashboard_address=None,
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                    silence_logs=50,
                )
            else:
                # A client of what is no address is never closed, and holds the process up as it ends.
                distributed.comm.get_address_host_port(where.address)
            self._client = distributed.Client(self._cluster or where.address, set_as_default=False)
            self._client.wait_for_workers(1, timeout=PATIENCE)
            self._workers = where.workers or sum(self._client.nthreads().values())
        except Exception as error:  # of an address that is none it has several
            self.close(kill=True)
            if where.address is None:
                problem = f"a Dask cluster of our own cannot begin: {error}; a script that calls run() does so below "
                raise ResourceError(problem + "`if __name__ == '__main__':`") from error
            raise ResourceError(f"no Dask at {where.address}: {error}") from error

    def perform(self, pipeline: str, unit: bytes, *, solo: bool) -> Future[bytes]:
        future: Future[bytes] = Future()
        with self._lock:
            self._waiting.append(_DaskUnit(unit, solo, future))
            self._send()
        return future

    def _send(self) -> None:
        """Send bundles, so many for each worker: one that it performs, and one that it need not wait for."""
        while self._waiting and not self._closing and len(self._flying) < SENT * self._workers:
            size = min(self._size, -(-len(self._waiting) // self._workers))  # the last ones are shared out
            bundle = [self._waiting.popleft()]
            while len(bundle) < size and not (bundle[0].solitary or self._waiting[0].solitary):
                bundle.append(self._waiting.popleft())
            frames = bundled(Frame(b"a" if unit.solitary else b"u", data=unit.data) for unit in bundle)
            try:
                dask_future = self._client.submit(
                    perform_in_worker, self._begin, frames, self._where.deadline, pure=False, retries=0
                )
            except Exception as error:  # in whichever thread: the run's own hears of it
                _answer(bundle, [_failure_reply(error)] * len(bundle))
                continue
            self._flying.add(dask_future)
            dask_future.add_done_callback(partial(self._ended, bundle))

    def _ended(self, bundle: Sequence[_DaskUnit], dask_future: Any) -> None:
        try:
            frames = list(unbundled(dask_future.result()))
            replies = [frame.data for frame in frames if frame.kind == b"r"]
            self._pace.ended(len(bundle), frames[-1].number / 1e9)
        except BaseException as error:
            replies = [_failure_reply(error)] * len(bundle)
        with self._lock:
            self._flying.discard(dask_future)
            self._send()
        _answer(bundle, replies)

    def close(self, *, kill: bool) -> None:
        with self._lock:
            self._closing = True
        if self._client is not None:
            with suppress(Exception):  # of a cluster that is gone there is nothing to close
                if kill:
                    self._client.cancel(list(self._flying), force=True)
                self._client.run(_end_processes, self._begin, kill)
            self._client.close(timeout=5)
        if self._cluster is not None:
            self._cluster.close(timeout=20)


def _answer(bundle: Sequence[_DaskUnit], replies: Sequence[bytes]) -> None:
    for unit, reply in zip(bundle, replies, strict=True):
        unit.future.set_result(reply)


def _failure_reply(error: BaseException) -> bytes:
    if type(error).__name__ == "KilledWorker":
        return lost(f"Dask lost its workers ({error})")
    if type(error).__name__ in ("CancelledError", "FutureCancelledError"):
        error = ResourceError(
            "the Dask cluster gave a task up, or is gone; the run directory is whole: the same command goes on from it"
        )
    return failing(
        error if isinstance(error, DraftVerifyError) else DraftVerifyError(f"Dask failed: {error}")
    )


# In a Dask worker

_processes: dict[bytes, list[WatchedProcess]] = {}
_loads: dict[WatchedProcess, int] = {}
_lock = threading.Lock()


def perform_in_worker(begin: bytes, bundle: bytes, deadline: float | None) -> bytes:
    """Perform units in a process beside this Dask worker: the one that has the fewest, or a new one where all are
    full.

    Args:
        begin: the first message to the process.
        bundle: frames of units: "u", and "a" those that are to be alone.
        deadline: seconds for each unit.

    Returns:
        A bundle: the reply to each, in their order ("r"), and how many nanoseconds that took ("t").
    """
    message = msgspec.json.decode(begin, type=Begin)
    with _lock:
        processes = _processes.setdefault(begin, [])
        watched = min(processes, key=_loads.__getitem__, default=None)
        if watched is None or _loads[watched] >= message.size:
            watched = WatchedProcess(message, deadline=deadline, idle=IDLE)
            processes.append(watched)
            _loads[watched] = 0
        _loads[watched] += 1
    start = monotonic_ns()
    try:
        futures = [watched.perform(frame.data, solo=frame.kind == b"a") for frame in unbundled(bundle)]
        replies = [Frame(b"r", data=future.result()) for future in futures]
    finally:
        with _lock:
            _loads[watched] -= 1
    return bundled([*replies, Frame(b"t", monotonic_ns() - start)])


def _end_processes(begin: bytes, kill: bool) -> None:
    with _lock:
        processes = _processes.pop(begin, [])
        for watched in processes:
            del _loads[watched]
    for watched in processes:
        watched.close(kill=kill)
