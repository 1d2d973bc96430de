"""The run directory of a server: served tasks and their questions, in the form that `draftverify run` writes.

A task is written before its answer is sent, so a server that is killed loses what was under way, and nothing else. What
cannot be written is logged and counted, and the client has its answer all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from draftverify.bench.records import MonitorEntry, Question, RunDirectory
from draftverify.bench.runner.bench import Done
from draftverify.engine.requests import Answer
from draftverify.errors import StoreError
from draftverify.secret import quiet
from draftverify.serve.body import OWN_FIELD, CompletionRequest
from draftverify.serve.metrics import Metrics
from draftverify.serve.model import ServedModel, ServedTask
from draftverify.serve.questions import OpenQuestion
from draftverify.values import Task

T = TypeVar("T")
_log = quiet(logging.getLogger(__name__))

PATIENCE = 5.0
"""Seconds that an answer waits for its record: longer only where the database is locked or out of reach."""

HOLDER = "server"
"""Who holds a question while an answer that was posted to the server is tried."""


class AnsweredQuestion(NamedTuple):
    """A question with a person's answer to it."""

    question: Question
    answer: Answer


class ServedRecords:
    """Writes and reads a server's run directory, all of it in one thread.

    Args:
        directory: open.
        models: the served ones.
        metrics: counts what could not be written.
    """

    def __init__(self, directory: RunDirectory, models: Mapping[str, ServedModel], metrics: Metrics) -> None:
        self._directory = directory
        self._store = directory.store
        self._models = models
        self._metrics = metrics
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="draftverify-records")
        self._store.set_own_tasks(dict.fromkeys(models, ()))  # a request is a task of one pipeline
        self._tasks = self._store.totals([""])[""]  # all that there are

    async def write(
        self,
        task: ServedTask,
        done: Done,
        watched: MonitorEntry | None = None,
        answered: AnsweredQuestion | None = None,
    ) -> None:
        """Write down what came of a task, and wait until it stands, if that takes no longer than `PATIENCE`.

        Args:
            task: as it was served.
            done: its record, with its question where it waits.
            watched: what its model's monitor was told and said.
            answered: the answer that it went on with, where that was not written yet.
        """
        await asyncio.wait([self.write_soon(task, done, watched, answered)], timeout=PATIENCE)

    def write_soon(
        self,
        task: ServedTask,
        done: Done,
        watched: MonitorEntry | None = None,
        answered: AnsweredQuestion | None = None,
    ) -> asyncio.Future[None]:
        """As `write`, for whoever cannot wait: after all that was given before."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._writer, self._write, task, done, watched, answered)

    async def find(self, name: str) -> OpenQuestion | None:
        """The question about a task, waiting or answered; None where there never was one."""
        return await self._call(self._find, name)

    async def pending(self, limit: int) -> list[str]:
        """The names of tasks that wait, the oldest first."""
        questions = await self._call(self._store.questions, "pending", limit=limit)
        return [question.task for question in questions]

    async def answered(self) -> list[AnsweredQuestion]:
        """Questions that were answered elsewhere, and whose tasks have not gone on."""
        questions = await self._call(self._store.questions, "answered")
        return [AnsweredQuestion(question, _answer(question)) for question in questions]

    async def hold(self, name: str, seconds: float) -> Question | None:
        """Keep the question about a task from reviewers; None where it is answered, or one of them has it."""

        def hold() -> Question | None:
            questions = self._store.questions("pending", task=name)
            return next((q for q in questions if self._store.claim(q, HOLDER, seconds)), None)

        return await self._call(hold)

    async def release(self, question: Question) -> None:
        """Let reviewers have it again."""
        with suppress(StoreError):  # then they have it once the server's time on it is over
            await self._call(self._store.claim, question, HOLDER, 0)

    def close(self) -> None:
        """Write what is to be written."""
        self._writer.shutdown()

    async def _call(self, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, lambda: call(*arguments, **options))

    def _write(
        self, task: ServedTask, done: Done, watched: MonitorEntry | None, answered: AnsweredQuestion | None
    ) -> None:
        store, name = self._store, done.pipeline
        try:
            self._directory.check()
            self._tasks += store.add_task(Task(id=task.name, input=_recorded_input(task)), self._tasks)
            if answered is not None:
                question, answer = answered
                store.answer(question, answer.kind, answer.value, answer.note, holder=HOLDER)
            record = replace(done.record, task=task.name)
            if done.question is None:
                store.commit(name, record, done.texts)
            else:
                store.park(name, record, replace(done.question, task=task.name), done.texts)
            if watched is not None:
                store.watch(name, [watched])
        except Exception as error:
            self._metrics.unrecorded.labels(name).inc()
            _log.error("a task of %s is not recorded: %s: %s", name, type(error).__name__, error)

    def _find(self, name: str) -> OpenQuestion | None:
        questions = self._store.questions(task=name)
        if not questions:
            return None
        (task,) = self._store.tasks(id=name)
        (entry,) = self._store.entries(task=name, texts=False)
        input = dict(task.input)
        request = msgspec.convert(input.pop(OWN_FIELD), _OwnField)
        drawn = Task(id=request.task, input=input)
        served = ServedTask(name, self._models[entry.pipeline], request.query, drawn)
        return OpenQuestion(served, entry.record, questions[-1])


class _OwnField(msgspec.Struct, frozen=True):
    """What is kept of a request beside its task's input, to go on with it after a restart."""

    task: str
    query: CompletionRequest


def _recorded_input(task: ServedTask) -> dict[str, Any]:
    query = replace(task.query, inputs=(), prompts=())  # they are in the task's input
    return {**task.task.input, OWN_FIELD: msgspec.to_builtins(_OwnField(task.task.id, query))}


def _answer(question: Question) -> Answer:
    return Answer(question.answer, question.value, question.note)  # type: ignore[arg-type]
