"""Tasks under way: so many at once, others in a queue of a bounded length, each let go of when nobody wants it.

Tasks of one event loop share the passes of parts that take turns, as they come and go. What came of each is told to its
model's monitor and written down, where there are a monitor and a run directory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from draftverify.bench.runner.bench import Done, Person, Unit, done_of, failed_unit
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import DraftVerifyError
from draftverify.serve.lockstep import Lockstep
from draftverify.serve.metrics import Metrics
from draftverify.serve.model import ServedTask
from draftverify.serve.recording import AnsweredQuestion, ServedRecords
from draftverify.values import Failure, TaskRecord

LEFT = Failure("timeout", "Left", "its client went away before it ended, or waited for longer than --timeout")
"""Of a task that nobody waited for any more."""


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
        recording: writes down what comes of them; None for nobody.
    """

    def __init__(
        self,
        concurrency: int,
        queue: int,
        metrics: Metrics,
        lockstep: Lockstep,
        recording: ServedRecords | None,
    ) -> None:
        self._places = asyncio.Semaphore(concurrency)
        self._room = concurrency + queue
        self._taken = 0
        self._metrics = metrics
        self._running: set[asyncio.Task[Any]] = set()
        self._lockstep = lockstep
        self._recording = recording

    def start(self, runs: list[Callable[[], Awaitable[Done]]]) -> list[asyncio.Task[Done]]:
        """Begin a request's tasks, all of them or none.

        Raises:
            Full: there is no room for them.
        """
        if self._taken + len(runs) > self._room:
            raise Full(f"{self._taken} tasks are under way or wait, and there is room for {self._room}")
        return [self._begun(run) for run in runs]

    async def perform(
        self,
        served: ServedTask,
        pipeline: Pipeline,
        *,
        unit: Unit | None = None,
        posted: AnsweredQuestion | None = None,
        **options: Any,
    ) -> Done:
        """Run a task to its end, tell its monitor, and write it down.

        Args:
            served: the task.
            pipeline: under the request's settings.
            unit: what is left of it, where it goes on with a person's answer.
            posted: that answer, where it is not in the records: it is written once it has led on, and where a part
                fails nothing is.
            **options: of `Lockstep.record`.

        Returns:
            The record, and the question where it waits.
        """
        is_first, unit = unit is None, unit or served.unit
        person = Person(unit)
        try:
            record = await self._run_unit(unit, pipeline, ask=person, **options)
            done = Done(pipeline=unit.pipeline, record=record)
            if self._recording is not None or record.outcome.status == "waiting":
                done = await asyncio.to_thread(done_of, unit, pipeline, record, person.asked)
        except asyncio.CancelledError:
            if self._recording is not None and posted is None:
                self._recording.write_soon(served, failed_unit(unit, LEFT))
            raise
        watched = served.model.watch(served, record) if is_first else None
        if self._recording is not None and not (posted and record.outcome.status == "failed"):
            await self._recording.write(served, done, watched, posted)
        return replace(done, record=record)

    async def _run_unit(self, unit: Unit, pipeline: Pipeline, *, rounds: bool, **options: Any) -> TaskRecord:
        """In the lockstep where a part of it takes turns, else on this event loop."""
        options |= {"restore": unit.restore, "inner": unit.inner}
        if _takes_turns(pipeline):
            return await self._lockstep.record(pipeline, unit.task, rounds=rounds, **options)
        record: TaskRecord = await pipeline.arecord(unit.task, **options)
        return record

    async def ended(self) -> None:
        """Until all that is under way has ended."""
        while self._running:
            await asyncio.wait(self._running)

    def _begun(self, run: Callable[[], Awaitable[Done]]) -> asyncio.Task[Done]:
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

    async def _run(self, run: Callable[[], Awaitable[Done]]) -> Done:
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
