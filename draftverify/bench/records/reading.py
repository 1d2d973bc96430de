"""Reading the records of a run: how tasks ended or how they wait, with their rounds and their words or without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa

from draftverify.bench.records import tables
from draftverify.bench.records.database import Database
from draftverify.bench.records.encoding import decode
from draftverify.bench.records.entries import (
    Entry,
    Key,
    MonitorEntry,
    Question,
    StoredPrediction,
    TaskEnding,
    Texts,
)
from draftverify.errors import StoreError
from draftverify.values import Failure, Outcome, Round, Task, TaskRecord

LOT = 200
"""Records whose rounds are read by one query."""


class RecordReader(Database):
    """Reads what has been committed. What is damaged is told where it is met, and the rest is read."""

    _own_tasks: dict[str, frozenset[str]] | None = None

    def tasks(self, phase: str | None = None, *, id: str | None = None) -> tuple[Task, ...]:
        """The run's tasks in their order: all, those of a phase, or the one of an id."""
        query = sa.select(tables.tasks).where(tables.tasks.c.run == self._run).order_by(*tables.in_order)
        if phase is not None:
            query = query.where(tables.tasks.c.phase == phase)
        if id is not None:
            query = query.where(tables.tasks.c.task == id)
        return tuple(
            Task(
                id=row.task,
                input=decode(row.input, dict, f"{self._place}, task {row.task!r}"),
                group=row.grp,
                expected=decode(row.expected, dict, f"{self._place}, what task {row.task!r} expects"),
            )
            for row in self._read(query)
        )

    def own_tasks(self) -> Mapping[str, frozenset[str]]:
        """The ids of the tasks of those pipelines that do not run over all."""
        if self._own_tasks is None:
            text = self._read(sa.select(tables.runs.c.own).where(tables.runs.c.run == self._run))[0][0]
            if text is None:
                return {}  # the run has not come so far
            pairs = decode(text, list[tuple[list[str], frozenset[str]]], f"{self._place}, own tasks")
            self._own_tasks = {name: tasks for names, tasks in pairs for name in names}
        served = {name: set[str]() for name, tasks in self._own_tasks.items() if not tasks}
        if served:
            columns = tables.records.c
            query = sa.select(columns.pipeline, columns.task).where(columns.run == self._run)
            for row in self._read(query.where(columns.pipeline.in_(sorted(served)))):
                served[row.pipeline].add(row.task)
        return {**self._own_tasks, **{name: frozenset(tasks) for name, tasks in served.items()}}

    def totals(self, names: Iterable[str], phase: str | None = None) -> dict[str, int]:
        """How many tasks these pipelines have to do, in one phase or in all."""
        task_ids = self.own_tasks()
        query = sa.select(tables.tasks.c.task).where(tables.tasks.c.run == self._run)
        if phase is not None:
            query = query.where(tables.tasks.c.phase == phase)
        if not task_ids:
            counted = sa.select(sa.func.count()).select_from(query.subquery())
            return dict.fromkeys(names, int(self._read(counted)[0][0]))
        tasks = {row.task for row in self._read(query)}
        return {name: len(tasks & task_ids[name]) if name in task_ids else len(tasks) for name in names}

    def retrying(self) -> bool:
        """Whether a retry of failed tasks has begun and not come to its end."""
        begun = sa.select(tables.runs.c.retrying).where(tables.runs.c.run == self._run)
        return any(row.retrying is not None for row in self._read(begun))

    def committed(self) -> set[Key]:
        """The keys of the records of tasks that have ended."""
        columns = tables.records.c
        query = sa.select(columns.pipeline, columns.task, columns.attempt)
        query = query.where(columns.run == self._run, columns.status != "waiting")
        return {(row.pipeline, row.task, row.attempt) for row in self._read(query)}

    def open_tasks(self) -> set[Key]:
        """The keys of tasks that were begun and have not ended: those that have rounds, waiting ones among them."""
        columns = tables.rounds.c
        ended = sa.exists().where(
            *(tables.records.c[name] == columns[name] for name in ("run", "pipeline", "task", "attempt")),
            tables.records.c.status != "waiting",
        )
        query = sa.select(columns.pipeline, columns.task, columns.attempt)
        query = query.where(columns.run == self._run, columns.round == 0, ~ended)
        return {(row.pipeline, row.task, row.attempt) for row in self._read(query)}

    def entries(
        self,
        *,
        pipeline: str | None = None,
        task: str | None = None,
        phase: str | None = None,
        texts: bool = True,
        every_attempt: bool = False,
    ) -> Iterator[Entry]:
        """Records in task order, then by pipeline name and attempt: the latest attempt of each; of a task that waits
        for a person the record so far. One that cannot be read comes as a failed task whose failure says so, and the
        others come as they are. Some hundred are read at a time; no more are held.

        Args:
            pipeline, task: only theirs.
            phase: only tasks of "predict" or of "measure".
            texts: read the words of the rounds too.
            every_attempt: the failed attempts before the latest too.
        """
        for rows in self._lots(pipeline, task, phase, every_attempt):
            try:
                rounds = self._rounds_of(rows, texts)
            except StoreError:  # damage, of which we know where it is only when each is read alone
                rounds = None
            inner = self._inner([row for row in rows if row.status == "waiting"])
            for row in rows:
                yield self._entry(row, texts, rounds, inner)

    def endings(self, *, phase: str = "measure") -> Iterator[TaskEnding]:
        """How tasks ended, or that they wait, without their rounds: in task order, then by pipeline name, of each the
        latest attempt. Some hundred are read at a time; no more are held. One that cannot be read comes as a failed
        task whose failure says so.
        """
        for rows in self._lots(phase=phase):
            for row in rows:
                yield TaskEnding(
                    pipeline=row.pipeline,
                    task=row.task,
                    attempt=row.attempt,
                    group=row.grp,
                    outcome=self._outcome(row),
                    memory=row.memory,
                    committed=row.committed,
                )

    def _lots(
        self,
        pipeline: str | None = None,
        task: str | None = None,
        phase: str | None = None,
        every_attempt: bool = False,
    ) -> Iterator[list[Any]]:
        """The rows of records, some hundred at a time, each lot in a transaction of its own."""
        columns = tables.records.c
        on = (tables.tasks.c.run == columns.run) & (tables.tasks.c.task == columns.task)
        query = sa.select(columns.pipeline, columns.task, columns.attempt)
        query = query.select_from(tables.records.outerjoin(tables.tasks, on)).where(columns.run == self._run)
        filters = ((columns.pipeline, pipeline), (columns.task, task), (tables.tasks.c.phase, phase))
        query = query.where(*(column == value for column, value in filters if value is not None))
        if not every_attempt:
            query = query.where(tables.LATEST)
        keys = self._read(query.order_by(*tables.in_order, columns.pipeline, columns.attempt))
        for start in range(0, len(keys), LOT):
            lot = keys[start : start + LOT]
            rows = {
                (row.pipeline, row.task, row.attempt): row for row in self._rows_of(tables.records.c, lot)
            }
            yield [row for key in lot if (row := rows.get(tuple(key))) is not None]

    def _rows_of(
        self, columns: Iterable[sa.Column[Any]], keys: Sequence[Any], *conditions: sa.ColumnElement[bool]
    ) -> list[Any]:
        """These columns of a table, of some tasks of some pipelines, by a single query."""
        query = sa.select(*columns)
        (table,) = query.get_final_froms()
        # By all parts of the key that an index begins with, or the whole run would be looked through.
        query = query.where(
            table.c.run == self._run,
            table.c.pipeline.in_(sorted({key.pipeline for key in keys})),
            table.c.task.in_(list(dict.fromkeys(key.task for key in keys))),
            *conditions,
        )
        return self._read(query)

    def counts(self) -> dict[tuple[str, str, str], int]:
        """How many tasks ended how or are "waiting", by (phase, pipeline, status): of each the latest attempt, as
        `entries` has it."""
        on = (tables.tasks.c.run == tables.records.c.run) & (tables.tasks.c.task == tables.records.c.task)
        key = (tables.tasks.c.phase, tables.records.c.pipeline, tables.records.c.status)
        query = sa.select(*key, sa.func.count()).select_from(tables.records.join(tables.tasks, on))
        query = query.where(tables.records.c.run == self._run, tables.LATEST).group_by(*key)
        return {
            (phase, pipeline, status): count
            for phase, pipeline, status, count in self._read(query.order_by(*key))
        }

    def written(self) -> tuple[str | None, str]:
        """When the last record was committed, and a word that changes with every record, question and answer."""
        of_records, of_questions = tables.records.c, tables.questions.c
        records = sa.select(sa.func.count(), sa.func.max(of_records.committed)).where(
            of_records.run == self._run
        )
        questions = (
            sa.select(of_questions.state, sa.func.count(), sa.func.max(of_questions.asked))
            .where(of_questions.run == self._run)
            .group_by(of_questions.state)
            .order_by(of_questions.state)
        )
        count, latest = self._read(records)[0]
        counts = [f"{state}{number}@{when}" for state, number, when in self._read(questions)]
        return latest, "/".join([f"{count}@{latest}", *counts])

    def rounds(self, pipeline: str, task: str, attempt: int) -> tuple[Round, ...]:
        """The rounds of a task, committed or not: what a restart goes on from."""
        return self._rounds(pipeline, task, attempt, False)[0]

    def words(self, pipeline: str, task: str, attempt: int) -> tuple[Texts | None, ...]:
        """The words of those rounds."""
        return self._rounds(pipeline, task, attempt, True)[1]

    def predictions(self) -> tuple[StoredPrediction, ...]:
        """The predictions of the run."""
        query = sa.select(tables.predictions.c.data).where(tables.predictions.c.run == self._run)
        query = query.order_by(
            tables.predictions.c.pipeline, tables.predictions.c.grp, tables.predictions.c.kind
        )
        return tuple(
            decode(row.data, StoredPrediction, f"{self._place}, prediction") for row in self._read(query)
        )

    def watched(self, *, phase: str | None = None, alarmed: bool = False) -> dict[str, list[MonitorEntry]]:
        """What the pipelines' monitors were told and said, by pipeline, in task order.

        Args:
            phase: only of tasks of "predict" or of "measure".
            alarmed: only of those tasks at which one alarmed.
        """
        with self._transaction(writing=False) as connection:
            if not sa.inspect(connection).has_table(tables.watched.name):
                return {}  # written before there were monitors
        columns, of_tasks = tables.watched.c, tables.tasks.c
        joined = tables.watched.join(
            tables.tasks, (of_tasks.run == columns.run) & (of_tasks.task == columns.task)
        )
        query = sa.select(columns.pipeline, columns.data, columns.written).select_from(joined)
        query = query.where(columns.run == self._run).order_by(*tables.in_order)
        if phase is not None:
            query = query.where(of_tasks.phase == phase)
        if alarmed:
            query = query.where(columns.alarms > 0)
        by_pipeline: dict[str, list[MonitorEntry]] = {}
        for row in self._read(query):
            entry = decode(row.data, MonitorEntry, f"{self._place}, monitor of pipeline {row.pipeline!r}")
            by_pipeline.setdefault(row.pipeline, []).append(
                msgspec.structs.replace(entry, written=row.written)
            )
        return by_pipeline

    def _rounds_of(self, records: Sequence[Any], texts: bool) -> dict[Key, list[Any]]:
        """The rows of the rounds of some records, by a single query."""
        columns = tables.rounds.c
        selected = [columns.pipeline, columns.task, columns.attempt, columns.round, columns.data]
        by_key: dict[Key, list[Any]] = {(row.pipeline, row.task, row.attempt): [] for row in records}
        for row in self._rows_of([*selected, columns.texts] if texts else selected, records):
            if (round_rows := by_key.get(row[:3])) is not None:
                round_rows.append(row[3:])
        for round_rows in by_key.values():
            round_rows.sort(key=itemgetter(0))
        return by_key

    def _outcome(self, row: Any) -> Outcome:
        try:
            return decode(row.outcome, Outcome, self._whose(row.pipeline, row.task))
        except StoreError as error:
            return _unread(error)

    def _inner(self, waiting: Sequence[Any]) -> dict[Key, tuple[TaskRecord, ...]]:
        """The records of inner tasks of waiting tasks, those of the round under way: the question has them."""
        if not waiting:
            return {}
        inner: dict[Key, tuple[TaskRecord, ...]] = {}
        for row in self._rows_of(tables.questions.c, waiting, tables.questions.c.state != "used"):
            with suppress(StoreError):  # whoever reads the questions is told of it
                question = decode(row.data, Question, self._whose(row.pipeline, row.task))
                inner[row.pipeline, row.task, row.attempt] = question.inner
        return inner

    def _entry(
        self,
        row: Any,
        texts: bool,
        round_rows: Mapping[Key, list[Any]] | None,
        inner: Mapping[Key, tuple[TaskRecord, ...]],
    ) -> Entry:
        key = (row.pipeline, row.task, row.attempt)
        outcome = self._outcome(row)
        rounds: tuple[Round, ...] = ()
        texts_read: tuple[Texts | None, ...] = ()
        try:
            rounds, texts_read = (
                self._rounds(*key, texts)
                if round_rows is None
                else self._decoded(*key[:2], round_rows[key], texts)
            )
        except StoreError as error:
            outcome = _unread(error)
        if outcome.status == "waiting":
            # What was made since, of a task that was answered and then interrupted, comes with its next record.
            rounds, texts_read = rounds[: outcome.rounds], texts_read[: outcome.rounds]
        record = TaskRecord(
            task=row.task,
            attempt=row.attempt,
            outcome=outcome,
            rounds=rounds,
            group=row.grp,
            inner=inner.get(key, ()),
        )
        return Entry(pipeline=row.pipeline, record=record, texts=texts_read, memory=row.memory)

    def _rounds(
        self, pipeline: str, task: str, attempt: int, texts: bool
    ) -> tuple[tuple[Round, ...], tuple[Texts | None, ...]]:
        query = tables.ROUNDS_AND_TEXTS if texts else tables.ROUNDS
        rows = self._read(query, tables.bound(self._key(pipeline, task, attempt)))
        return self._decoded(pipeline, task, rows, texts)

    def _decoded(
        self, pipeline: str, task: str, rows: Iterable[Sequence[Any]], texts: bool
    ) -> tuple[tuple[Round, ...], tuple[Texts | None, ...]]:
        """Rounds, and their words where they were read, of rows (round, data, texts)."""
        decoded: list[Round] = []
        texts_read: list[Texts | None] = []
        owner = self._whose(pipeline, task)
        for row in rows:
            if row[0] != len(decoded):
                raise StoreError(f"{owner}, round {row[0]}: round {len(decoded)} is missing before it")
            decoded.append(decode(row[1], Round, owner))
            if texts:
                texts_read.append(None if row[2] is None else decode(row[2], Texts, owner))
        return tuple(decoded), tuple(texts_read)

    def _whose(self, pipeline: str, task: str) -> str:
        return f"{self._place}, pipeline {pipeline!r}, task {task!r}"


def _unread(error: StoreError) -> Outcome:
    return Outcome(status="failed", reason=str(error), failure=Failure.of(error))
