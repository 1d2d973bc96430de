"""Executors of this process: one task after the other, several in lockstep, threads; and a pool of somebody's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any, ClassVar

from draftverify.bench.executors.workers import Count, at_least_one
from draftverify.engine.parts import Parts
from draftverify.errors import ResourceError


class Batch:
    """An executor that has so many tasks together in this thread, in lockstep: those that wait for the same part share
    one pass of it.

    Args:
        size: how many tasks are under way at once; one that ends is replaced by the next.
    """

    local: ClassVar[bool] = True

    def __init__(self, size: Count = 16) -> None:
        at_least_one("size", size)
        self.size = size


class Serial(Batch):
    """An executor of one task after the other, in this thread."""

    def __init__(self) -> None:
        super().__init__(1)


class Auto(Serial):
    """What runs tasks where a config does not say: one after the other, since then their times mean most; but where
    parts wait for a model elsewhere, or are coroutines, as many at once as these take."""

    def chosen(self, pipelines: Iterable[Parts]) -> Batch | Thread:
        """What runs the tasks of these pipelines."""
        pipelines = list(pipelines)
        remote = max((pipeline.remote for pipeline in pipelines), default=0)
        if any(pipeline.asynchronous for pipeline in pipelines):
            return Batch(max(remote, Batch().size))
        return Thread(remote) if remote > 1 else self


class Thread:
    """An executor of threads of this process: for parts that wait for something else, such as a remote model.

    Args:
        workers: how many tasks at once.
    """

    local: ClassVar[bool] = True

    def __init__(self, workers: Count = 8) -> None:
        at_least_one("workers", workers)
        self.workers = workers

    def pool(self) -> Executor:
        """A thread pool."""
        return ThreadPoolExecutor(self.workers, thread_name_prefix="draftverify")


class Pooled:
    """An executor of a pool of somebody's own, which goes on after the run.

    Args:
        executor: threads share this process's pipelines; any other is given a function of this package and bytes.
        workers: how many tasks at once; None for as many as a pool of the standard library has, else one per core.
    """

    def __init__(self, executor: Executor, workers: int | None = None) -> None:
        self.local = isinstance(executor, ThreadPoolExecutor)
        usual = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        self.workers: int = usual if workers is None else workers
        at_least_one("workers", self.workers)
        self._lent: _Lent | None = None
        self._executor = executor

    def pool(self) -> Executor:
        """The pool, once.

        Raises:
            ResourceError: it broke, and nobody else can make another.
        """
        if self._lent is not None:
            raise ResourceError(
                "a worker of the executor died, and its pool is broken; make another: the run directory is whole, and "
                "the same call goes on from it"
            )
        self._lent = _Lent(self._executor)
        return self._lent


class _Lent(Executor):
    """A pool that is not shut down: what was begun here is waited for."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._begun: set[Future[Any]] = set()

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future = self._executor.submit(call, *args, **named)
        self._begun.add(future)
        future.add_done_callback(self._begun.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        wait_for([future for future in [*self._begun] if not (cancel_futures and future.cancel())])
