"""A bench: a process's pipelines, and one unit of work performed with them.

The unit of work is one task of one pipeline. What comes of it is plain data: the record, its rounds in words, and the
question that it waits for. Where benches stand, here or in workers, is the business of `executors`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, TypeAlias, TypeVar

import msgspec

from draftverify.bench.monitors import Monitor, after_alarm
from draftverify.bench.monitors.alarms import check_threshold
from draftverify.bench.records.encoding import check
from draftverify.bench.records.entries import Question, Texts
from draftverify.bench.runner.memory import Memories, Recall
from draftverify.bench.telemetry import Spans
from draftverify.engine.async_driver import adrive
from draftverify.engine.drivers import drive
from draftverify.engine.events import Event, Listener, RoundDone
from draftverify.engine.failures import raised
from draftverify.engine.pipeline import Pipeline
from draftverify.engine.requests import Answer, Ask
from draftverify.engine.scheduler import Scheduler
from draftverify.engine.session import Session
from draftverify.engine.turns import turn
from draftverify.errors import ConfigError, ContractError, DraftVerifyError, PipelineError, StoreError, below
from draftverify.protocols import Closes, Describes, Opens
from draftverify.secret import redact
from draftverify.traits import offers
from draftverify.values import EMPTY, Failure, Memory, Outcome, Round, Task, TaskRecord, utf8

T = TypeVar("T")


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One task of one pipeline, with all that a worker has to know.

    Args:
        pipeline: its name in the config.
        task: the task.
        attempt: the infrastructure re-run.
        restore: rounds recorded before.
        inner: of a task that was left waiting by inner tasks, their records.
        answer: a person's answer to the question that those rounds end in.
        asking: of an inner task that asked it, its id.
        recall: where the snapshot of earlier tasks is; None for none.
        alarmed: whether the pipeline's monitor has alarmed.
    """

    pipeline: str
    task: Task
    attempt: int = 0
    restore: tuple[Round, ...] = ()
    inner: tuple[TaskRecord, ...] = ()
    answer: Answer | None = None
    asking: str = ""
    recall: Recall | None = None
    alarmed: bool = False


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a unit of a pipeline: its record, its rounds in words, and the question it waits for, if it does."""

    pipeline: str
    record: TaskRecord
    texts: tuple[Texts | None, ...] = ()
    question: Question | None = None


OnRound: TypeAlias = "Callable[[str, str, int, Round, Texts | None], None]"
"""Called with pipeline, task, attempt, the round and its words."""


class _Stopped(BaseException):
    """Raised in a worker thread between two rounds when the run is being stopped."""


class Bench:
    """A process's pipelines. A pipeline is opened when its first unit comes.

    Args:
        pipelines: by name.
        places: where each stands in a config ("file:line"), for messages.
        monitors: of those that are watched; once an alarm is acted upon, another pipeline runs their later tasks.
        telemetry: whether their events become OpenTelemetry's spans.

    Attributes:
        on_event: called with every event.
        on_round: called with every new round, as it is decided.
    """

    on_event: Listener | None = None
    on_round: OnRound | None = None

    def __init__(
        self,
        pipelines: Mapping[str, Pipeline],
        places: Mapping[str, str] = EMPTY,
        *,
        monitors: Mapping[str, Monitor] = EMPTY,
        telemetry: bool = False,
    ) -> None:
        self.pipelines = pipelines
        self.monitors = monitors
        self._after = {name: after_alarm(pipelines[name], monitor) for name, monitor in monitors.items()}
        self.places = places
        self._spans = {name: Spans(name) for name in pipelines} if telemetry else {}
        self.memories = Memories()
        self._opened: list[str] = []
        self._parts: set[int] = set()
        self._closing = ExitStack()
        self._opening = threading.Lock()
        self._stopping = threading.Event()
        self._loop = _Loop()

    def perform(self, unit: Unit) -> Done:
        """Run a unit to its end, as `perform_all` does."""
        (done,) = self.perform_all(iter([unit]))
        return done

    def perform_all(self, units: Iterator[Unit | None], *, size: int = 1) -> Iterator[Done]:
        """Run units together, at most `size` at once: those that wait for the same part share its passes.

        Args:
            units: the work; a None among it says that there is none just now, and those under way go on.
            size: how many are under way at once.

        Yields:
            What came of each, as it comes.

        Raises:
            DraftVerifyError: when a part cannot be opened, or parts do not fit. What else goes wrong is in
            the record.
        """
        failed: list[Done] = []

        def sessions() -> Iterator[_Work | None]:
            for unit in units:
                if unit is None:
                    yield None
                    continue
                pipeline = self.open(unit.pipeline)
                if unit.alarmed:
                    pipeline = self._after[unit.pipeline]
                memory = self.memories.recall(unit.recall)
                try:
                    yield _Work(unit, pipeline, memory, self._listener(unit, pipeline))
                except (ConfigError, PipelineError, StoreError):
                    raise
                except DraftVerifyError as error:  # rounds of another policy, say
                    failed.append(failed_unit(unit, Failure.of(error)))

        pool = Scheduler(sessions(), size=size)
        asynchronous = any(pipeline.asynchronous for pipeline in self.pipelines.values())
        for ended in self._loop.steps(adrive(pool)) if asynchronous else drive(pool):
            while failed:
                yield failed.pop(0)
            for work in ended:
                assert isinstance(work, _Work)
                yield work.done()

    def _listener(self, unit: Unit, pipeline: Pipeline) -> Listener:
        spans = self._spans.get(unit.pipeline)

        def listen(event: Event) -> None:
            if self._stopping.is_set():
                raise _Stopped
            if self.on_round is not None and isinstance(event, RoundDone):
                texts = _words(pipeline, (event.round,))[0]
                # Of a round that cannot be recorded the task's record will say so.
                with suppress(ContractError):
                    self.on_round(unit.pipeline, unit.task.id, unit.attempt, event.round, texts)
            if spans is not None:
                spans(event)
            if self.on_event is not None:
                self.on_event(event)

        return listen

    def open(self, name: str) -> Pipeline:
        """The pipeline of this name, its parts opened.

        Raises:
            DraftVerifyError: when one cannot be opened.
        """
        pipeline = self.pipelines[name]
        with self._opening:
            if name not in self._opened:
                with below(f"pipelines.{name}", self.places.get(name, "")):
                    pipeline.open(self._parts)
                    if name in self.monitors:
                        check_threshold(self.monitors[name], pipeline)
                self._opened.append(name)
        return pipeline

    def stop(self) -> None:
        """Make units that run in other threads end at their next round, unfinished."""
        self._stopping.set()

    def opened(self, part: T) -> T:
        """A part that is no pipeline's, a metric, opened; it is closed with the bench, since it may share a model."""
        if id(part) not in self._parts:
            self._parts.add(id(part))
            if offers(part, Closes):
                self._closing.callback(part.close)
            if offers(part, Opens):
                part.open()
        return part

    def close(self) -> None:
        """Close what was opened."""
        while self._opened:
            self.pipelines[self._opened.pop()].close()
        self._closing.close()
        self._loop.close()


class Person:
    """Plays the person of a unit: gives the answer that the unit came with, and keeps the first question beyond it.

    Attributes:
        asked: that question; None while there is none.
    """

    def __init__(self, unit: Unit) -> None:
        self.asked: Ask | None = None
        self._task = unit.asking or unit.task.id
        self._known = unit.answer

    def __call__(self, request: Ask) -> Answer | None:
        """The answer; None where nobody has given one."""
        answer = None
        if request.task.id == self._task:
            answer, self._known = self._known, None
        if answer is None and self.asked is None:
            self.asked = request
        return answer


class _Work(Session):
    """A unit under way."""

    pipeline: Pipeline

    def __init__(self, unit: Unit, pipeline: Pipeline, memory: Memory, listener: Listener) -> None:
        self.unit = unit
        self._person = Person(unit)
        super().__init__(
            pipeline,
            unit.task,
            attempt=unit.attempt,
            memory=memory,
            restore=unit.restore,
            inner=unit.inner,
            person=self._person,
            on_event=listener,
        )

    def done(self) -> Done:
        """What came of the unit."""
        return done_of(self.unit, self.pipeline, self.record(), self._person.asked)


class _Loop:
    """An event loop in a thread of its own, for parts with coroutine methods; it begins when it is first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def steps(self, driven: AsyncGenerator[T, None]) -> Iterator[T]:
        """What an asynchronous generator yields, one by one."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), daemon=True)
                self._thread.start()
        ended = object()

        async def following() -> Any:
            return await anext(driven, ended)

        try:
            while (step := self._result(following())) is not ended:
                yield step
        finally:
            with suppress(RuntimeError):  # it is at work, and was cancelled
                self._result(driven.aclose())

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                loop.run_forever()
                return  # stopped
            except (SystemExit, KeyboardInterrupt):  # of an asyncio task that a part began: it has it too
                continue

    def _result(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine gives in the loop; it is cancelled when this thread is interrupted."""
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None


def done_of(unit: Unit, pipeline: Pipeline, record: TaskRecord, asked: Ask | None) -> Done:
    """What came of a unit, as it can be recorded.

    Args:
        unit: the work.
        pipeline: what ran it.
        record: of the task; with values that JSON cannot hold it is a failed one.
        asked: the question that nobody has answered, if one was asked.
    """
    try:
        check(record, f"pipeline {unit.pipeline!r}, task {unit.task.id!r}")
    except ContractError as error:
        return failed_unit(unit, Failure.of(error))
    question = None
    if asked is not None and record.outcome.status == "waiting":
        question = _question(unit, pipeline, asked, record)
    texts = _words(pipeline, record.rounds)
    return Done(pipeline=unit.pipeline, record=record, texts=texts, question=question)


def failed_unit(unit: Unit, failure: Failure) -> Done:
    """What comes of a unit that could not be run to an end."""
    outcome = Outcome(status="failed", reason=str(failure), failure=failure, rounds=len(unit.restore))
    task = unit.task
    record = TaskRecord(
        task=task.id, attempt=unit.attempt, outcome=outcome, rounds=unit.restore, group=task.group
    )
    return Done(pipeline=unit.pipeline, record=record)


def _words(pipeline: Pipeline, rounds: Sequence[Round]) -> tuple[Texts | None, ...]:
    """The rounds' values in words; None where the verifier cannot say them.

    What was emitted is described as one sequence, as pieces of one text, and what was not as another.
    """
    verifier = pipeline.verifier
    if not offers(verifier, Describes):
        return (None,) * len(rounds)
    emitted = [value for round in rounds for value in round.decision.emitted]
    joins = [round.decision.joined for round in rounds]
    unemitted = [
        item
        for round, joined in zip(rounds, joins, strict=True)
        for index, item in enumerate(round.items)
        if index not in joined
    ]
    try:
        of_emitted, of_others = iter(_described(pipeline, emitted)), iter(_described(pipeline, unemitted))
        described = []
        for round, joined in zip(rounds, joins, strict=True):
            emitted_words = [(index, next(of_emitted)) for index in joined]
            of_items = {index: text for index, text in emitted_words if index is not None}
            items = [of_items[i] if i in of_items else next(of_others) for i in range(len(round.items))]
            described.append(
                Texts(tuple(items), tuple([text for index, text in emitted_words if index is None]))
            )
        return tuple(described)
    except BaseException as error:
        raised(error)
        return (None,) * len(rounds)  # words are for people; a record does without


def _described(pipeline: Pipeline, values: list[Any]) -> list[str]:
    verifier: Any = pipeline.verifier
    with turn(verifier, pipeline.turn_of(verifier)):
        return [redact(utf8(str(text))) for text in verifier.describe(values)] if values else []


def _question(unit: Unit, pipeline: Pipeline, ask: Ask, record: TaskRecord) -> Question:
    text = ""
    if ask.candidate is not None:
        try:
            text = _described(pipeline, [ask.candidate.value])[0]
        except BaseException as error:
            raised(error)  # of a verifier that has no words the candidate itself is shown
    return Question(
        pipeline=unit.pipeline,
        task=unit.task.id,
        attempt=unit.attempt,
        round=len(record.rounds),
        group=unit.task.group,
        input=unit.task.input,
        candidate=ask.candidate,
        text=text,
        trouble=ask.trouble,
        failure=ask.failure,
        asking=ask.task.id if record.inner else "",
        inner=record.inner,
    )
