"""A bench: a process's pipelines, and one unit of work performed with them.

The unit of work is one task of one pipeline. What comes of it is plain data: the record, its rounds in words, and the
question that it waits for. Where benches stand, here or in workers, is the business of `executors`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TypeAlias

import msgspec

from draftverify.engine.events import Event, RoundDone
from draftverify.engine.pipeline import Pipeline
from draftverify.engine.requests import Answer, Ask
from draftverify.errors import ConfigError, PipelineError, StoreError, below
from draftverify.records.encoding import check
from draftverify.records.store import Question, Texts
from draftverify.values import EMPTY, Failure, Memory, Outcome, Round, Task, TaskRecord

__all__ = ["Bench", "Done", "OnRound", "Unit", "failed_record", "key_of"]


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One task of one pipeline, with all that a worker has to know.

    Args:
        pipeline: its name in the config.
        task: the task.
        attempt: the infrastructure re-run.
        restore: rounds recorded before.
        answer: a person's answer to the question that those rounds end in.
        memory: a snapshot of earlier tasks.
    """

    pipeline: str
    task: Task
    attempt: int = 0
    restore: tuple[Round, ...] = ()
    answer: Answer | None = None
    memory: Memory = Memory()


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a unit: its record, its rounds in words, and the question it waits for, if it does."""

    unit: tuple[str, str, int]
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

    Pipelines with a part that says `concurrent = False` run one task at a time, since such parts may share a model: in
    threads they take turns by whole tasks, and the wait is in nobody's times.
    """

    def __init__(self, pipelines: Mapping[str, Pipeline], places: Mapping[str, str] = EMPTY) -> None:
        self.pipelines = pipelines
        self.places = places
        self._opened: list[str] = []
        self._opening = threading.Lock()
        self._turn = threading.Lock()
        self._stopping = threading.Event()

    def perform(
        self, unit: Unit, *, on_event: Callable[[Event], None] | None = None, on_round: OnRound | None = None
    ) -> Done:
        """Run a unit to its end.

        Args:
            unit: the work.
            on_event: called with every event.
            on_round: called with every new round, as it is decided.

        Raises:
            DraftVerifyError: when a part cannot be opened, or parts do not fit. What else goes wrong is in
            the record.
        """
        pipeline = self.open(unit.pipeline)
        task = unit.task
        answers = [unit.answer] if unit.answer is not None else []
        asked: list[Ask] = []

        def ask(request: Ask) -> Answer | None:
            if answers:
                return answers.pop()
            asked.append(request)
            return None

        def listen(event: Event) -> None:
            if self._stopping.is_set():
                raise _Stopped
            if on_round is not None and isinstance(event, RoundDone):
                words = _words(pipeline, (event.round,))[0]
                on_round(unit.pipeline, task.id, unit.attempt, event.round, words)
            if on_event is not None:
                on_event(event)

        with nullcontext() if pipeline.concurrent else self._turn:
            try:
                record = pipeline.record(
                    task,
                    on_event=listen,
                    ask=ask,
                    memory=unit.memory,
                    attempt=unit.attempt,
                    restore=unit.restore,
                )
                check(record, f"pipeline {unit.pipeline!r}, task {task.id!r}")
            except (ConfigError, PipelineError, StoreError):
                raise
            except Exception as error:
                # A block controller or a stopping rule that raises, or values that cannot be recorded.
                asked.clear()
                record = failed_record(unit, Failure.of(error))
            texts = _words(pipeline, record.rounds)
            question = None
            if asked and record.outcome.status == "waiting":
                question = _question(unit, pipeline, asked[0], record)
        return Done(unit=key_of(unit), record=record, texts=texts, question=question)

    def open(self, name: str) -> Pipeline:
        """The pipeline of this name, its parts opened.

        Raises:
            DraftVerifyError: when one cannot be opened.
        """
        pipeline = self.pipelines[name]
        with self._opening:
            if name not in self._opened:
                with below(f"pipelines.{name}", self.places.get(name, "")):
                    pipeline.open()
                self._opened.append(name)
        return pipeline

    def stop(self) -> None:
        """Make units that run in other threads end at their next round, unfinished."""
        self._stopping.set()

    def close(self) -> None:
        """Close what was opened."""
        while self._opened:
            self.pipelines[self._opened.pop()].close()


def key_of(unit: Unit) -> tuple[str, str, int]:
    """The unit's (pipeline, task, attempt)."""
    return unit.pipeline, unit.task.id, unit.attempt


def failed_record(unit: Unit, failure: Failure) -> TaskRecord:
    """The record of a task that could not be run to an end."""
    outcome = Outcome(status="failed", reason=str(failure), failure=failure, rounds=len(unit.restore))
    return TaskRecord(
        task=unit.task.id,
        attempt=unit.attempt,
        outcome=outcome,
        rounds=unit.restore,
        group=unit.task.group,
    )


def _words(pipeline: Pipeline, rounds: Sequence[Round]) -> tuple[Texts | None, ...]:
    """The rounds' values in words; None where the verifier cannot say them.

    What was emitted is described as one sequence, as pieces of one text, and what was not as another.
    """
    describe = getattr(pipeline.verifier, "describe", None)
    if describe is None:
        return (None,) * len(rounds)
    emitted = [value for round in rounds for value in round.decision.emitted]
    others = [
        item for round in rounds for index, item in enumerate(round.items) if index not in _joined(round)
    ]
    try:
        of_emitted = iter([str(word) for word in describe(emitted)] if emitted else [])
        of_others = iter([str(word) for word in describe(others)] if others else [])
        found = []
        for round in rounds:
            words = [next(of_emitted) for _ in round.decision.emitted]
            joined = _joined(round)
            of_items = dict(zip(joined, words, strict=False))
            items = [of_items[i] if i in of_items else next(of_others) for i in range(len(round.items))]
            found.append(Texts(tuple(items), tuple(words[len(joined) :])))
        return tuple(found)
    except Exception:
        return (None,) * len(rounds)  # words are for people; a record does without


def _joined(round: Round) -> tuple[int, ...]:
    """The items that joined the answer: those kept, unless the stopping rule cut them off."""
    return round.decision.kept[: len(round.decision.emitted)]


def _question(unit: Unit, pipeline: Pipeline, asked: Ask, record: TaskRecord) -> Question:
    text = ""
    describe = getattr(pipeline.verifier, "describe", None)
    if describe is not None and asked.candidate is not None:
        try:
            text = str(describe([asked.candidate.value])[0])
        except Exception:
            text = ""  # the candidate itself is shown instead
    return Question(
        pipeline=unit.pipeline,
        task=unit.task.id,
        attempt=unit.attempt,
        round=len(record.rounds),
        group=unit.task.group,
        input=unit.task.input,
        candidate=asked.candidate,
        text=text,
        trouble=asked.trouble,
        failure=asked.failure,
    )
