"""Tasks under way: so many at once, others in a queue of a bounded length, each let go of when nobody wants it.

Tasks of one event loop share the passes of parts that take turns, as they come and go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from draftverify.engine.pipeline import Pipeline
from draftverify.errors import DraftVerifyError
from draftverify.serve.lockstep import Lockstep
from draftverify.serve.metrics import Metrics
from draftverify.values import Task, TaskRecord

__all__ = ["Full", "Tasks"]


def _takes_turns(pipeline: Pipeline) -> bool:
    """Whether one of its parts does, or one of a pipeline inside it."""
    return any(
        _takes_turns(part) if isinstance(part, Pipeline) else pipeline.takes_turns(part)
        for part in pipeline.parts()
    )


class Full(DraftVerifyError):
    """There is no room for another task."""


class Tasks:
    """What runs the tasks of all models.

    Args:
        concurrency: tasks under way at once.
        queue: tasks that may wait beside them.
        metrics: told how many there are.
        lockstep: runs those whose verifiers take turns.
    """

    def __init__(self, concurrency: int, queue: int, metrics: Metrics, lockstep: Lockstep) -> None:
        self._places = asyncio.Semaphore(concurrency)
        self._room = concurrency + queue
        self._taken = 0
        self._metrics = metrics
        self._running: set[asyncio.Task[Any]] = set()
        self._lockstep = lockstep

    def start(self, runs: list[Callable[[], Awaitable[TaskRecord]]]) -> list[asyncio.Task[TaskRecord]]:
        """Begin a request's tasks, all of them or none.

        Raises:
            Full: there is no room for them.
        """
        if self._taken + len(runs) > self._room:
            raise Full(f"{self._taken} tasks are under way or wait, and there is room for {self._room}")
        return [self._begun(run) for run in runs]

    async def record(self, pipeline: Pipeline, task: Task, *, rounds: bool, **options: Any) -> TaskRecord:
        """Run a task to its end: in the lockstep where a part of it takes turns, else on this event loop."""
        if _takes_turns(pipeline):
            return await self._lockstep.record(pipeline, task, rounds=rounds, **options)
        record: TaskRecord = await pipeline.arecord(task, **options)
        return record

    async def ended(self) -> None:
        """Until all that is under way has ended."""
        while self._running:
            await asyncio.wait(self._running)

    def _begun(self, run: Callable[[], Awaitable[TaskRecord]]) -> asyncio.Task[TaskRecord]:
        self._taken += 1
        self._metrics.queued.inc()
        task = asyncio.get_running_loop().create_task(self._run(run))
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._taken -= 1
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody is warned of one that nobody waited for

    async def _run(self, run: Callable[[], Awaitable[TaskRecord]]) -> TaskRecord:
        try:
            await self._places.acquire()
        finally:
            self._metrics.queued.dec()
        self._metrics.under_way.inc()
        try:
            return await run()
        finally:
            self._metrics.under_way.dec()
            self._places.release()
