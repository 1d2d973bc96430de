"""The store: every committed record of a run, in SQLite by default and in PostgreSQL by URL.

Work is done at least once and committed exactly once: a record is keyed by (run, pipeline, task, attempt),
and it goes in together with its rounds in one transaction, or not at all. A second commit of the same key
changes nothing, so a transaction that met a lock or lost its connection is simply made again. With
`durable: round` each round is committed as it is decided, so that a restart goes on from it. A task that waits for
a person has its record so far, with its rounds and the question; the record that it comes to once it was answered
takes that one's place. Only the process that drives the run writes
records; those who review write claims and answers, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from draftverify.bench.records import tables
from draftverify.bench.records.database import persistent
from draftverify.bench.records.encoding import decode, encode
from draftverify.bench.records.entries import Entry, Key, MonitorEntry, Question, StoredPrediction, Texts, now
from draftverify.bench.records.questions import Questions
from draftverify.bench.records.reading import RecordReader
from draftverify.bench.records.scores import Scores
from draftverify.engine.canonical import plain_problem
from draftverify.errors import ContractError, StoreError
from draftverify.values import Round, Task, TaskRecord

_SAME = {"input": "input", "grp": "group", "phase": "phase"}
"""What stays as it is of a task, in words."""


def _labels(task: Task) -> dict[str, Any]:
    """What a task expects, for people to see; metrics may compare with more than JSON holds, and are not asked here."""
    return {name: value for name, value in task.expected.items() if plain_problem({name: value}) is None}


class _RecordRows(NamedTuple):
    """A task's record as it is stored: its key, its row, those of its rounds, and which questions it has used up."""

    key: dict[str, Any]
    record: dict[str, Any]
    rounds: list[dict[str, Any]]
    next_round: int


class Store(RecordReader, Questions, Scores):
    """The records of one run. Open it with `Store.open`; close it when done.

    Safe to call from several threads. Every call is one transaction; one that meets a lock or loses its connection is
    tried again a few times.

    Raises:
        StoreError: by every method, when the database cannot be used, in the end.
    """

    @persistent
    def add_tasks(self, tasks: Sequence[Task], phase: str = "measure") -> None:
        """Write the run's tasks down, once; on a resume compare them with what was written. Labels may change.

        Raises:
            StoreError: when a task of this id was recorded with another input, group or phase: the task file
                has changed.
        """
        rows = [self._task_row(task, place, phase) for place, task in enumerate(tasks)]
        with self._transaction() as connection:
            this_run = tables.tasks.c.run == self._run
            stored = connection.execute(sa.select(tables.tasks).where(this_run)).mappings()
            stored_rows = {row["task"]: row for row in stored}
            for row in rows:
                old = stored_rows.get(row["task"], row)
                changed = [changed_part for name, changed_part in _SAME.items() if old[name] != row[name]]
                if changed:
                    raise StoreError(
                        f"{self._place}: task {row['task']!r} is not the one that this run began with (its "
                        f"{' and '.join(changed)} changed); choose another --out, or start over with --fresh"
                    )
            missing = [row for row in rows if row["task"] not in stored_rows]
            if missing:
                connection.execute(tables.tasks.insert(), missing)
            for row in rows:
                if stored_rows.get(row["task"], row)["expected"] != row["expected"]:
                    labelled = tables.tasks.update().where(this_run, tables.tasks.c.task == row["task"])
                    connection.execute(labelled.values(expected=row["expected"]))

    @persistent
    def add_task(self, task: Task, place: int) -> bool:
        """Write one more task down, which came up while the run goes on.

        Args:
            task: to be measured.
            place: in the order of the tasks.

        Returns:
            False when one of its id was there already; it is left as it is.
        """
        row = self._task_row(task, place, "measure")
        with self._transaction() as connection:
            return self._insert_new(connection, tables.tasks, row)

    @persistent
    def set_own_tasks(self, task_ids: Mapping[str, Collection[str]]) -> None:
        """Write down which pipelines do not run over all tasks, and over which they do: over none stands for those
        that they have a record of."""
        of_tasks: dict[tuple[str, ...], list[str]] = {}
        for pipeline, tasks in task_ids.items():
            of_tasks.setdefault(tuple(sorted(tasks)), []).append(pipeline)
        text = encode([[names, tasks] for tasks, names in of_tasks.items()], "the pipelines' own tasks")
        with self._transaction() as connection:
            this_run = tables.runs.c.run == self._run
            if connection.execute(sa.select(tables.runs.c.own).where(this_run)).scalar() != text:
                connection.execute(tables.runs.update().where(this_run).values(own=text))

    def commit(
        self, pipeline: str, record: TaskRecord, texts: Sequence[Texts | None] = (), *, memory: int = 0
    ) -> bool:
        """Commit a finished task with its rounds, all or nothing.

        Returns:
            False when the record was there already; it is left as it is.

        Raises:
            ContractError: when a value in it is not plain JSON, naming its type.
        """
        rows = self._record_rows(Entry(pipeline=pipeline, record=record, texts=tuple(texts), memory=memory))
        return self._commit([rows]) == 1

    def commit_all(self, entries: Sequence[Entry]) -> dict[Key, ContractError]:
        """Commit finished tasks with their rounds in one transaction; those that were there already stay as they are.

        Returns:
            By their keys those of which nothing was committed, since a value in them is not plain JSON, and why.
        """
        rows: list[_RecordRows] = []
        refused: dict[Key, ContractError] = {}
        for entry in entries:
            try:
                rows.append(self._record_rows(entry))
            except ContractError as error:
                refused[entry.pipeline, entry.record.task, entry.record.attempt] = error
        if rows:
            self._commit(rows)
        return refused

    @persistent
    def _commit(self, entries: Sequence[_RecordRows]) -> int:
        """Commit records with their rounds; says how many of them were new."""
        with self._transaction() as connection:
            new = [entry for entry in entries if self._put_record(connection, entry)]
            self._replace_rounds(
                connection, [entry.key for entry in new], [row for entry in new for row in entry.rounds]
            )
            self._execute_many(
                connection,
                tables.USE_QUESTIONS,
                [{**tables.bound(entry.key), "below": entry.next_round} for entry in new],
            )
        return len(new)

    @persistent
    def commit_round(
        self, pipeline: str, task: str, attempt: int, round: Round, texts: Texts | None = None
    ) -> None:
        """Commit one round of a task that goes on; writing it again changes nothing."""
        row = self._round_row(pipeline, task, attempt, round, texts)
        with self._transaction() as connection:
            self._insert_new(connection, tables.rounds, row)

    @persistent
    def park(
        self,
        pipeline: str,
        record: TaskRecord,
        question: Question,
        texts: Sequence[Texts | None] = (),
        *,
        memory: int = 0,
    ) -> None:
        """Keep a waiting task: its record so far with its rounds, and its question."""
        rows = self._record_rows(Entry(pipeline=pipeline, record=record, texts=tuple(texts), memory=memory))
        key = rows.key
        with self._transaction() as connection:
            connection.execute(tables.USE_QUESTIONS, {**tables.bound(key), "below": question.round})
            if question.inner:
                # Inner tasks of one round may ask one after the other: the answer to one has led to the next.
                same_round = sa.and_(
                    tables.of_key(tables.questions), tables.questions.c.round == question.round
                )
                row = connection.execute(
                    sa.select(tables.questions).where(same_round), tables.bound(key)
                ).one_or_none()
                old = None if row is None else self._question(row)
                if old is not None and old.inner != question.inner:
                    connection.execute(tables.questions.delete().where(same_round), tables.bound(key))
                    answered = (msgspec.structs.replace(old, inner=(), before=()),) if old.answer else ()
                    question = msgspec.structs.replace(question, before=(*old.before, *answered))
            data = encode(question, f"pipeline {pipeline!r}, task {record.task!r}, question")
            new = {**key, "round": question.round, "state": "pending", "data": data, "asked": now()}
            if self._insert_new(connection, tables.questions, new) and self._put_record(connection, rows):
                self._replace_rounds(connection, [key], rows.rounds)

    @persistent
    def predict(self, predictions: Iterable[StoredPrediction]) -> None:
        """Write predictions down; one that is there already stands: it was made before the measuring."""
        with self._transaction() as connection:
            for prediction in predictions:
                row = {
                    "run": self._run,
                    "pipeline": prediction.pipeline,
                    "grp": prediction.group,
                    "kind": prediction.kind,
                    "data": encode(prediction, f"prediction {prediction.kind!r} of {prediction.pipeline!r}"),
                    "made": now(),
                }
                self._insert_new(connection, tables.predictions, row)

    @persistent
    def watch(self, pipeline: str, entries: Sequence[MonitorEntry]) -> None:
        """Write down what a pipeline's monitor was told and said; what stands there of a task stays."""
        with self._transaction() as connection:
            for entry in entries:
                row = {
                    "run": self._run,
                    "pipeline": pipeline,
                    "task": entry.task,
                    "alarms": len(entry.alarms),
                    "data": encode(entry, f"pipeline {pipeline!r}, task {entry.task!r}, monitor"),
                    "written": now(),
                }
                self._insert_new(connection, tables.watched, row)

    @persistent
    def begin_retry(self) -> set[Key]:
        """Write down which failed records are to be made again, as attempt + 1; what was written stands until
        `end_retry`, so that a retry that was killed goes on with what is left of it, and nothing is made a third time.

        Returns:
            The keys of the failed records; those whose next attempt was committed before the kill are left out.
        """
        latest = sa.select(tables.records.c.pipeline, tables.records.c.task, tables.records.c.attempt)
        latest = latest.where(
            tables.records.c.run == self._run, tables.records.c.status == "failed", tables.LATEST
        )
        this_run = tables.runs.c.run == self._run
        with self._transaction() as connection:
            failed = {(row.pipeline, row.task, row.attempt) for row in connection.execute(latest)}
            text = connection.execute(sa.select(tables.runs.c.retrying).where(this_run)).scalar()
            begun: set[Key] = (
                set()
                if text is None
                else set(decode(text, list[tuple[str, str, int]], f"{self._place}, retry"))
            )
            # What failed again is done with in this retry; what else failed since it began is taken too.
            failed -= {(pipeline, task, attempt + 1) for pipeline, task, attempt in begun}
            written = encode(sorted(begun | failed), "the failed tasks")
            connection.execute(tables.runs.update().where(this_run).values(retrying=written))
        return failed

    @persistent
    def end_retry(self) -> None:
        """The retry has come to its end: what failed in it may be made again by another."""
        with self._transaction() as connection:
            connection.execute(
                tables.runs.update().where(tables.runs.c.run == self._run).values(retrying=None)
            )

    def _put_record(self, connection: sa.Connection, rows: _RecordRows) -> bool:
        """Write a record down, in the place of that of the waiting task if there is one; False where the task has
        ended."""
        if self._insert_new(connection, tables.records, rows.record):
            return True
        key = tables.bound(rows.key)
        columns = {name: value for name, value in rows.record.items() if name not in rows.key}
        written = connection.execute(tables.GO_ON, {**key, **columns})
        if written.rowcount:
            connection.execute(tables.FORGET_SCORES, key)  # they are of the task as it waited
        return bool(written.rowcount)

    def _task_row(self, task: Task, place: int, phase: str) -> dict[str, Any]:
        return {
            "run": self._run,
            "task": task.id,
            "place": place,
            "phase": phase,
            "grp": task.group,
            "input": encode(dict(task.input), f"task {task.id!r}, input"),
            "expected": encode(_labels(task), f"task {task.id!r}, expected"),
        }

    def _record_rows(self, entry: Entry) -> _RecordRows:
        record, outcome = entry.record, entry.record.outcome
        key = self._key(entry.pipeline, record.task, record.attempt)
        row = {
            **key,
            "grp": record.group,
            "status": outcome.status,
            "memory": entry.memory,
            "outcome": encode(outcome, f"pipeline {entry.pipeline!r}, task {record.task!r}"),
            "committed": now(),
        }
        rounds = self._round_rows(entry.pipeline, record, entry.texts)
        return _RecordRows(key, row, rounds, outcome.rounds + 1)

    def _round_rows(
        self, pipeline: str, record: TaskRecord, texts: Sequence[Texts | None]
    ) -> list[dict[str, Any]]:
        return [
            self._round_row(
                pipeline, record.task, record.attempt, round, texts[place] if place < len(texts) else None
            )
            for place, round in enumerate(record.rounds)
        ]

    def _round_row(
        self, pipeline: str, task: str, attempt: int, round: Round, texts: Texts | None
    ) -> dict[str, Any]:
        where = f"pipeline {pipeline!r}, task {task!r}, round {round.index}"
        return {
            **self._key(pipeline, task, attempt),
            "round": round.index,
            "data": encode(round, where),
            "texts": None if texts is None else encode(texts, where),
        }

    def _replace_rounds(
        self, connection: sa.Connection, keys: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]
    ) -> None:
        self._execute_many(connection, tables.FORGET_ROUNDS, list(map(tables.bound, keys)))
        self._execute_many(connection, tables.INSERT_ROUND, rows)
