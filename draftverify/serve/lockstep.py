"""The thread of the pipelines whose verifiers take turns: their tasks join and leave one pool, and share its passes.

Tasks of other pipelines, which wait for something elsewhere, run side by side on the event loop.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

from draftverify.engine.drivers import drive
from draftverify.engine.events import Event, TaskDone
from draftverify.engine.pipeline import Pipeline
from draftverify.engine.requests import AskPerson
from draftverify.engine.scheduler import Scheduler
from draftverify.engine.session import Session
from draftverify.errors import DraftVerifyError
from draftverify.serve.model import ServedModel
from draftverify.values import Round, Task, TaskRecord


class _Entry(NamedTuple):
    session: Session
    record: asyncio.Future[TaskRecord]


class Lockstep:
    """A pool of sessions that goes on while there are any, in a thread of its own.

    Args:
        make: makes the models, by name, which are opened and closed there too: all of it in this thread, since GNU's
            OpenMP lets the threads of a second team sleep between two steps, which makes a forward pass a fifth slower.

    Attributes:
        models: what was made, once it was entered.
    """

    def __init__(self, make: Callable[[], Mapping[str, ServedModel]]) -> None:
        self.models: Mapping[str, ServedModel] = {}
        self._make = make
        self._ready: Future[None] = Future()
        self._coming: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._left: queue.SimpleQueue[Session] = queue.SimpleQueue()
        self._records: dict[Session, asyncio.Future[TaskRecord]] = {}
        self._thread = threading.Thread(target=self._run, name="draftverify-lockstep", daemon=True)

    def __enter__(self) -> Lockstep:
        self._thread.start()
        self._ready.result()
        return self

    def __exit__(self, *_: object) -> None:
        self._coming.put(None)
        self._thread.join()

    async def record(
        self,
        pipeline: Pipeline,
        task: Task,
        *,
        on_event: Callable[[Event], None],
        rounds: bool,
        ask: AskPerson | None = None,
        restore: tuple[Round, ...] = (),
        inner: tuple[TaskRecord, ...] = (),
    ) -> TaskRecord:
        """As `Pipeline.arecord`. Cancelled, the task leaves the pool after the call that it is in.

        Args:
            pipeline, task, ask, restore, inner: as there.
            on_event: called on the event loop.
            rounds: whether it wants every round; else the task's end alone.
        """
        loop = asyncio.get_running_loop()

        def tell(event: Event) -> None:
            if rounds or isinstance(event, TaskDone):
                _on(loop, on_event, event)

        pipeline.check_fitted()
        session = Session(
            pipeline,
            task,
            restore=restore,
            inner=inner,
            person=ask,
            on_event=tell,
        )
        entry = _Entry(session, loop.create_future())
        self._coming.put(entry)
        try:
            return await entry.record
        except asyncio.CancelledError:
            self._left.put(session)
            raise

    def _run(self) -> None:
        opened: set[int] = set()
        with ExitStack() as closing:
            try:
                self.models = self._make()
                for model in self.models.values():
                    model.pipeline.open(opened)
                    closing.callback(model.pipeline.close)
            except BaseException as error:
                self._ready.set_exception(error)
                return
            self._ready.set_result(None)
            self._serve()

    def _serve(self) -> None:
        while (entry := self._coming.get()) is not None:
            pool = Scheduler(self._sessions(entry))
            try:
                for ended in drive(pool):
                    for session in ended:
                        self._end(session, session.record())
                    while not self._left.empty():
                        if self._records.pop(session := self._left.get(), None) is not None:
                            pool.leave(session)
            except Exception as error:
                for session in list(self._records):
                    self._end(session, DraftVerifyError(f"the pool failed: {type(error).__name__}: {error}"))

    def _sessions(self, first: _Entry) -> Iterator[Session | None]:
        """Sessions as they come; None while there is none."""
        entry: _Entry | None = first
        while True:
            if entry is None:
                yield None
            elif not entry.record.done():  # else whoever wanted it has gone by now
                self._records[entry.session] = entry.record
                yield entry.session
            try:
                entry = self._coming.get_nowait()
            except queue.Empty:
                entry = None
            else:
                if entry is None:  # the end, which `_serve` is to see once all have ended
                    self._coming.put(None)

    def _end(self, session: Session, result: TaskRecord | Exception) -> None:
        future = self._records.pop(session, None)
        if future is not None:
            _on(future.get_loop(), _settle, future, result)


def _on(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: Any) -> None:
    """Have a loop make a call; one that was closed has nobody left who waits."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


def _settle(future: asyncio.Future[TaskRecord], result: Any) -> None:
    if future.done():
        return  # nobody waits any more
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
