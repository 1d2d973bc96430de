"""Executors of this process: one task after the other, several in lockstep, or threads."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import ClassVar

from draftverify.bench.executors.workers import at_least_one
from draftverify.engine.parts import Parts


class Batch:
    """An executor that has so many tasks together in this thread, in lockstep: those that wait for the same part share
    one pass of it.

    Args:
        size: how many tasks are under way at once; one that ends is replaced by the next.
    """

    local: ClassVar[bool] = True

    def __init__(self, size: int = 16) -> None:
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

    def __init__(self, workers: int = 8) -> None:
        at_least_one("workers", workers)
        self.workers = workers

    def pool(self) -> Executor:
        """A thread pool."""
        return ThreadPoolExecutor(self.workers, thread_name_prefix="draftverify")
