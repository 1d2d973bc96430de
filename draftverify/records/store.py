"""The store: every committed record of a run, in SQLite by default and in PostgreSQL by URL.

Work is done at least once and committed exactly once: a record is keyed by (run, pipeline, task, attempt),
and it goes in together with its rounds in one transaction, or not at all. A second commit of the same key
changes nothing, so a transaction that met a lock or lost its connection is simply made again. With
`durable: round` each round is committed as it is decided, so that a restart goes on from it; the rounds of a
task that waits for a person are always kept, with the question. Only the process that drives the run writes
records; `review` writes answers, and nothing else.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import partial, wraps
from operator import itemgetter
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from draftverify.errors import StoreError
from draftverify.metrics import Score
from draftverify.records.encoding import check, decode, encode
from draftverify.secret import Secret, quiet
from draftverify.values import Candidate, Failure, Outcome, Round, Task, TaskRecord, Trouble

__all__ = [
    "SCHEMA_VERSION",
    "Entry",
    "Key",
    "Prediction",
    "Question",
    "ScoreKey",
    "Store",
    "Texts",
    "sqlite_url",
]

_log = quiet(logging.getLogger(__name__))

SCHEMA_VERSION = 1
"""Raised when a stored table changes its columns or its meaning; a store of a newer version is refused."""

LOCKED_SECONDS = 30.0
"""How long a statement waits for a SQLite file that another process holds."""

PAUSES = (0.0, 1.0, 5.0)
"""Seconds before each further try at a transaction that met a lock or lost its connection; then the run ends."""

Key: TypeAlias = "tuple[str, str, int]"
"""(pipeline, task, attempt)."""

ScoreKey: TypeAlias = "tuple[str, str, str]"
"""(pipeline, task, metric): the last tells a metric, its settings and the task's truth from others."""


class Texts(msgspec.Struct, frozen=True):
    """A round's values in words, as the verifier described them when the round was recorded."""

    items: tuple[str, ...] = ()
    spliced: tuple[str, ...] = ()


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person, and the answer once there is one.

    Args:
        pipeline, task, attempt: whose question.
        round: how many rounds had been made; with the above its key.
        group: of the task.
        input: of the task, to be shown.
        candidate: the best refused candidate.
        text: the candidate in words, where the verifier can say it.
        trouble: what stood in the way.
        failure: the failed call, if one stood in the way.
        asking: of an inner task that asks, its id.
        inner: where one does, the records of all those of the round under way.
        state: "pending", "answered", or "used" once a later question or a committed record stands on it.
        answer, value, note: of the person: "accept", "edit" or "reject", the edited item, the reason.
    """

    pipeline: str
    task: str
    attempt: int = 0
    round: int = 0
    group: str = ""
    input: Mapping[str, Any] = {}
    candidate: Candidate | None = None
    text: str = ""
    trouble: tuple[Trouble, ...] = ()
    failure: Failure | None = None
    asking: str = ""
    inner: tuple[TaskRecord, ...] = ()
    state: Literal["pending", "answered", "used"] = "pending"
    answer: str = ""
    value: Any = None
    note: str = ""


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that was predicted before the measuring run, with its interval; None where it has no bound."""

    pipeline: str
    group: str
    kind: str
    value: float | None
    low: float | None
    high: float | None
    detail: Mapping[str, Any] = {}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One committed record, the words of its rounds, and the version of the memory that it was made under."""

    pipeline: str
    record: TaskRecord
    texts: tuple[Texts | None, ...] = ()
    memory: int = 0


_meta = sa.MetaData()

_about = sa.Table(
    "draftverify_meta",
    _meta,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_runs = sa.Table(
    "draftverify_runs",
    _meta,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("config_hash", sa.String(128), nullable=False),
    sa.Column("created", sa.String(40), nullable=False),
)
_tasks = sa.Table(
    "draftverify_tasks",
    _meta,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("task", sa.String(512), primary_key=True),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("phase", sa.String(16), nullable=False),
    sa.Column("grp", sa.Text, nullable=False),
    sa.Column("input", sa.Text, nullable=False),
)
_SAME = {"input": "input", "grp": "group", "phase": "phase"}
"""What stays as it is of a task, in words."""

_records = sa.Table(
    "draftverify_records",
    _meta,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("pipeline", sa.String(256), primary_key=True),
    sa.Column("task", sa.String(512), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("grp", sa.Text, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("memory", sa.Integer, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("committed", sa.String(40), nullable=False),
)
_rounds = sa.Table(
    "draftverify_rounds",
    _meta,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("pipeline", sa.String(256), primary_key=True),
    sa.Column("task", sa.String(512), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("texts", sa.Text),
)
_questions = sa.Table(
    "draftverify_questions",
    _meta,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("pipeline", sa.String(256), primary_key=True),
    sa.Column("task", sa.String(512), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("asked", sa.String(40), nullable=False),
)
_predictions = sa.Table(
    "draftverify_predictions",
    _meta,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("pipeline", sa.String(256), primary_key=True),
    sa.Column("grp", sa.String(256), primary_key=True),
    sa.Column("kind", sa.String(64), primary_key=True),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("made", sa.String(40), nullable=False),
)
_scores = sa.Table(
    "draftverify_scores",
    _meta,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("pipeline", sa.String(256), primary_key=True),
    sa.Column("task", sa.String(512), primary_key=True),
    sa.Column("metric", sa.String(64), primary_key=True),
    sa.Column("data", sa.Text, nullable=False),
)


def _of_key(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(
        *(table.c[name] == sa.bindparam(f"key_{name}") for name in ("run", "pipeline", "task", "attempt"))
    )


def _bound(key: Mapping[str, Any]) -> dict[str, Any]:
    return {f"key_{name}": value for name, value in key.items()}


# Made once: SQLAlchemy takes longer to put a statement together than SQLite to carry it out.
_FORGET_ROUNDS = _rounds.delete().where(_of_key(_rounds))
_ROUNDS, _ROUNDS_AND_TEXTS = (
    sa.select(_rounds.c.round, _rounds.c.data, *texts).where(_of_key(_rounds)).order_by(_rounds.c.round)
    for texts in ((), (_rounds.c.texts,))
)
_USE_QUESTIONS = (
    _questions.update()
    .where(_of_key(_questions), _questions.c.round < sa.bindparam("below"))
    .values(state=sa.literal("used"))
)


P = ParamSpec("P")
T = TypeVar("T")


class _Lost(StoreError):
    """The database could not be reached; a later try may succeed."""


def _persistent(
    method: Callable[Concatenate[Store, P], T],
) -> Callable[Concatenate[Store, P], T]:
    """A method that is one transaction, and that changes nothing when it is carried out again."""

    @wraps(method)
    def call(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        pauses = iter(PAUSES)
        while True:
            try:
                return method(store, *args, **kwargs)
            except _Lost as error:
                pause = next(pauses, None)
                if pause is None:
                    stays = "what was committed stays, and the same command goes on from it"
                    raise StoreError(f"{error}; {stays}") from error
                _log.warning("%s; trying again", error)
                time.sleep(pause)

    return call


def sqlite_url(path: str | Path) -> str:
    """The URL of a SQLite file."""
    return f"sqlite:///{Path(path).resolve()}"


class Store:
    """The records of one run. Open it with `Store.open`; close it when done.

    Safe to call from several threads. Every call is one transaction; one that meets a lock or loses its connection is
    tried again a few times.

    Raises:
        StoreError: by every method, when the database cannot be used, in the end.
    """

    def __init__(self, engine: sa.Engine, run: str, place: str) -> None:
        self._engine = engine
        self._run = run
        self._place = place
        self._lock = threading.RLock()
        self._connection: sa.Connection | None = None
        self._writing = False
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "begin", self._begin_sqlite)
        dialect = sqlite if engine.dialect.name == "sqlite" else postgresql
        self._inserts = {
            table: dialect.insert(table).on_conflict_do_nothing() for table in _meta.sorted_tables
        }
        self._insert_rounds = _rounds.insert().compile(dialect=engine.dialect)

    @staticmethod
    def open(url: str, run: str, *, config_hash: str, name: str = "", create: bool = True) -> Store:
        """Open the store of a run, and make it where it does not exist yet.

        Args:
            url: an SQLAlchemy URL: `sqlite:///file.db`, `postgresql://user:${PASSWORD}@host/database`.
            run: the run's id; several runs can share a PostgreSQL database.
            config_hash: of the run's config. "" takes whatever is there (for reading).
            name: of the run, for people.
            create: make tables and the run's row; else what is missing is an error, and nothing is written, so that
                a directory that cannot be written to can be read.

        Raises:
            StoreError: the file is no database or a damaged one, a newer draftverify wrote it, it belongs to
                another config, or the server cannot be reached.
        """
        try:
            parsed = sa.make_url(url)
        except sa.exc.ArgumentError as error:
            raise StoreError("the store is no database URL; write postgresql://user@host/database") from error
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        kind = parsed.get_backend_name()
        place = parsed.database or "" if kind == "sqlite" else parsed.render_as_string()
        if kind not in ("sqlite", "postgresql"):
            raise StoreError(f"{place}: {kind} is not supported; use SQLite or PostgreSQL")
        Secret(parsed.password or "")
        if kind == "sqlite" and not create:
            if not Path(place).is_file():
                raise StoreError(
                    f"{place}: there is no database (any more?); restore it from a copy, or choose another --out"
                )
            if not os.access(Path(place).parent, os.W_OK) and not Path(f"{place}-wal").exists():
                # SQLite would make its files for readers beside it; of a file that nobody writes it needs none.
                parsed = parsed.set(
                    database=f"file:{quote(place)}", query={"immutable": "1", "mode": "ro", "uri": "true"}
                )
        try:
            engine = sa.create_engine(parsed)
        except (sa.exc.ArgumentError, ImportError) as error:
            raise StoreError(
                f"{place}: no driver for {parsed.drivername!r} ({error}); PostgreSQL needs "
                "`pip install 'psycopg[binary]'`"
            ) from error
        if kind == "sqlite":
            sa.event.listen(engine, "connect", partial(_prepare_sqlite, create))
        store = Store(engine, run, place)
        try:
            store._check(config_hash, name, create)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Give back the connection; committed records stay."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing

    @_persistent
    def add_tasks(self, tasks: Sequence[Task], phase: str = "measure") -> None:
        """Write the run's tasks down, once; on a resume compare them with what was written.

        Raises:
            StoreError: when a task of this id was recorded with another input, group or phase: the task file
                has changed.
        """
        rows = [
            {
                "run": self._run,
                "task": task.id,
                "place": place,
                "phase": phase,
                "grp": task.group,
                "input": encode(dict(task.input), f"task {task.id!r}, input"),
            }
            for place, task in enumerate(tasks)
        ]
        with self._transaction() as connection:
            query = sa.select(_tasks.c.task, _tasks.c.input, _tasks.c.grp, _tasks.c.phase)
            found = connection.execute(query.where(_tasks.c.run == self._run)).mappings()
            known = {row["task"]: row for row in found}
            for row in rows:
                old = known.get(row["task"], row)
                changed = [word for name, word in _SAME.items() if old[name] != row[name]]
                if changed:
                    raise StoreError(
                        f"{self._place}: task {row['task']!r} is not the one that this run began with (its "
                        f"{' and '.join(changed)} changed); choose another --out, or start over with --fresh"
                    )
            missing = [row for row in rows if row["task"] not in known]
            if missing:
                connection.execute(_tasks.insert(), missing)

    @_persistent
    def commit(
        self, pipeline: str, record: TaskRecord, texts: Sequence[Texts | None] = (), *, memory: int = 0
    ) -> bool:
        """Commit a finished task with its rounds, all or nothing.

        Returns:
            False when the record was there already; it is left as it is.

        Raises:
            ContractError: when a value in it is not plain JSON, naming its type.
        """
        what = f"pipeline {pipeline!r}, task {record.task!r}"
        outcome = record.outcome
        key = self._key(pipeline, record.task, record.attempt)
        row = {
            **key,
            "grp": record.group,
            "status": outcome.status,
            "memory": memory,
            "outcome": encode(outcome, what),
            "committed": _now(),
        }
        rounds = self._round_rows(pipeline, record, texts)
        with self._transaction() as connection:
            if not self._insert_new(connection, _records, row):
                return False
            self._replace_rounds(connection, key, rounds)
            connection.execute(_USE_QUESTIONS, {**_bound(key), "below": outcome.rounds + 1})
        return True

    @_persistent
    def commit_round(
        self, pipeline: str, task: str, attempt: int, round: Round, texts: Texts | None = None
    ) -> None:
        """Commit one round of a task that goes on; writing it again changes nothing."""
        row = self._round_row(pipeline, task, attempt, round, texts)
        with self._transaction() as connection:
            self._insert_new(connection, _rounds, row)

    @_persistent
    def park(
        self, pipeline: str, record: TaskRecord, question: Question, texts: Sequence[Texts | None] = ()
    ) -> None:
        """Keep a waiting task: its rounds and its question; there is no record of it yet."""
        rounds = self._round_rows(pipeline, record, texts)
        key = self._key(pipeline, record.task, record.attempt)
        with self._transaction() as connection:
            connection.execute(_USE_QUESTIONS, {**_bound(key), "below": question.round})
            data = encode(question, f"pipeline {pipeline!r}, task {record.task!r}, question")
            row = {**key, "round": question.round, "state": "pending", "data": data, "asked": _now()}
            if question.inner:
                # Inner tasks of one round may ask one after the other: the answer to one has led to the next.
                same = sa.and_(_of_key(_questions), _questions.c.round == question.round)
                old = connection.execute(sa.select(_questions.c.data).where(same), _bound(key)).scalar()
                if old is not None and decode(old, Question, self._place).inner != question.inner:
                    connection.execute(_questions.delete().where(same), _bound(key))
            if self._insert_new(connection, _questions, row):
                self._replace_rounds(connection, key, rounds)

    @_persistent
    def answer(self, question: Question, kind: str, value: Any = None, note: str = "") -> bool:
        """Write a person's answer down.

        Returns:
            False when the question was answered already (or is gone); the first answer stands.
        """
        check(value, f"task {question.task!r}, answer")
        answered = msgspec.structs.replace(question, state="answered", answer=kind, value=value, note=note)
        with self._transaction() as connection:
            done = connection.execute(
                _questions.update()
                .where(_of_key(_questions))
                .where(_questions.c.round == question.round, _questions.c.state == "pending")
                .values(
                    state=sa.literal("answered"),
                    data=sa.literal(encode(answered, f"task {question.task!r}, answer")),
                ),
                _bound(self._key(question.pipeline, question.task, question.attempt)),
            )
        return bool(done.rowcount)

    @_persistent
    def predict(self, predictions: Iterable[Prediction]) -> None:
        """Write predictions down; one that is there already stands: it was made before the measuring."""
        with self._transaction() as connection:
            for prediction in predictions:
                row = {
                    "run": self._run,
                    "pipeline": prediction.pipeline,
                    "grp": prediction.group,
                    "kind": prediction.kind,
                    "data": encode(prediction, f"prediction {prediction.kind!r} of {prediction.pipeline!r}"),
                    "made": _now(),
                }
                self._insert_new(connection, _predictions, row)

    @_persistent
    def add_scores(self, scores: Mapping[ScoreKey, Score]) -> None:
        """Write down what metrics said of committed outcomes."""
        with self._transaction() as connection:
            for (pipeline, task, metric), score in scores.items():
                row = {"run": self._run, "pipeline": pipeline, "task": task, "metric": metric}
                data = encode(score, f"task {task!r}, score")
                self._insert_new(connection, _scores, {**row, "data": data})

    # Reading

    def scores(self) -> dict[ScoreKey, Score]:
        """What metrics said."""
        query = sa.select(_scores).where(_scores.c.run == self._run)
        return {
            (row.pipeline, row.task, row.metric): decode(
                row.data, Score, f"{self._place}, score of {row.task!r}"
            )
            for row in self._read(query)
        }

    def tasks(self, phase: str | None = None) -> tuple[Task, ...]:
        """The run's tasks in their order."""
        query = sa.select(_tasks).where(_tasks.c.run == self._run).order_by(_tasks.c.phase, _tasks.c.place)
        if phase is not None:
            query = query.where(_tasks.c.phase == phase)
        return tuple(
            Task(
                id=row.task, input=decode(row.input, dict, f"{self._place}, task {row.task!r}"), group=row.grp
            )
            for row in self._read(query)
        )

    def committed(self) -> set[Key]:
        """The keys of all committed records."""
        return self._keys(_records)

    def entries(
        self,
        *,
        pipeline: str | None = None,
        task: str | None = None,
        phase: str | None = None,
        texts: bool = True,
    ) -> Iterator[Entry]:
        """Committed records in task order, then by pipeline name and attempt. One that cannot be read comes as a failed
        task whose failure says so, and the others come as they are.

        Args:
            pipeline, task: only theirs.
            phase: only tasks of "calibrate" or of "measure".
            texts: read the words of the rounds too.
        """
        same = (_tasks.c.run == _records.c.run) & (_tasks.c.task == _records.c.task)
        joined = _records.outerjoin(_tasks, same)
        query = sa.select(_records).select_from(joined).where(_records.c.run == self._run)
        wanted = ((_records.c.pipeline, pipeline), (_records.c.task, task), (_tasks.c.phase, phase))
        query = query.where(*(column == value for column, value in wanted if value is not None))
        query = query.order_by(_tasks.c.phase, _tasks.c.place, _records.c.pipeline, _records.c.attempt)
        for row in self._read(query):
            where = f"{self._place}, pipeline {row.pipeline!r}, task {row.task!r}"
            rounds: tuple[Round, ...] = ()
            words: tuple[Texts | None, ...] = ()
            try:
                outcome = decode(row.outcome, Outcome, where)
                rounds, words = self._rounds(row.pipeline, row.task, row.attempt, texts)
            except StoreError as error:
                outcome = Outcome(status="failed", reason=str(error), failure=Failure.of(error))
            record = TaskRecord(
                task=row.task, attempt=row.attempt, outcome=outcome, rounds=rounds, group=row.grp
            )
            yield Entry(pipeline=row.pipeline, record=record, texts=words, memory=row.memory)

    def rounds(self, pipeline: str, task: str, attempt: int) -> tuple[Round, ...]:
        """The rounds of a task, committed or not: what a restart goes on from."""
        return self._rounds(pipeline, task, attempt, False)[0]

    def words(self, pipeline: str, task: str, attempt: int) -> tuple[Texts | None, ...]:
        """The words of those rounds."""
        return self._rounds(pipeline, task, attempt, True)[1]

    def open_tasks(self) -> set[Key]:
        """The keys that have rounds and no committed record."""
        return self._keys(_rounds) - self._keys(_records)

    def questions(self, state: str | None = None) -> tuple[Question, ...]:
        """The questions of the run, oldest first."""
        query = sa.select(_questions).where(_questions.c.run == self._run)
        if state is not None:
            query = query.where(_questions.c.state == state)
        columns = _questions.c
        query = query.order_by(columns.asked, columns.pipeline, columns.task, columns.round)
        found = []
        for row in self._read(query):
            question = decode(row.data, Question, f"{self._place}, question of task {row.task!r}")
            found.append(msgspec.structs.replace(question, state=row.state))
        return tuple(found)

    def predictions(self) -> tuple[Prediction, ...]:
        """The predictions of the run."""
        query = sa.select(_predictions.c.data).where(_predictions.c.run == self._run)
        query = query.order_by(_predictions.c.pipeline, _predictions.c.grp, _predictions.c.kind)
        return tuple(decode(row.data, Prediction, f"{self._place}, prediction") for row in self._read(query))

    # Within

    def _check(self, config_hash: str, name: str, create: bool) -> None:
        """Look before anything is written: damage, another version, another config."""
        if self._engine.dialect.name == "sqlite":
            report = self._read(sa.text("PRAGMA quick_check(1)"))
            if not report or report[0][0] != "ok":
                raise self._damaged(report[0][0] if report else "no answer")
        with self._transaction(writing=create) as connection:
            present = sa.inspect(connection).has_table(_about.name)
            if present:
                query = sa.select(_about.c.value).where(_about.c.name == "schema_version")
                version = connection.execute(query).scalar()
                if version is not None and int(version) != SCHEMA_VERSION:
                    what = "newer" if int(version) > SCHEMA_VERSION else "older"
                    raise StoreError(
                        f"{self._place}: written by a {what} draftverify (record format {version}; this one "
                        f"reads {SCHEMA_VERSION}); use that version, or choose another --out"
                    )
            elif not create:
                raise StoreError(
                    f"{self._place}: there are no draftverify records in it (any more?); restore it from a copy, or "
                    "choose another --out"
                )
            if create:
                _meta.create_all(connection)
                self._insert_new(connection, _about, {"name": "schema_version", "value": str(SCHEMA_VERSION)})
                row = {"run": self._run, "name": name, "config_hash": config_hash, "created": _now()}
                self._insert_new(connection, _runs, row)
            query = sa.select(_runs.c.config_hash).where(_runs.c.run == self._run)
            found = connection.execute(query).scalar()
        if found is None:
            raise StoreError(
                f"{self._place}: it holds no run {self._run!r} (any more?); restore it from a copy, or choose another "
                "--out"
            )
        if config_hash and found != config_hash:
            raise StoreError(
                f"{self._place}: these records belong to another config; choose another --out, or start over "
                "with --fresh (which moves the old run aside)"
            )

    def _key(self, pipeline: str, task: str, attempt: int) -> dict[str, Any]:
        return {"run": self._run, "pipeline": pipeline, "task": task, "attempt": attempt}

    def _keys(self, table: sa.Table) -> set[Key]:
        columns = table.c
        query = sa.select(columns.pipeline, columns.task, columns.attempt).where(columns.run == self._run)
        return {(row.pipeline, row.task, row.attempt) for row in self._read(query.distinct())}

    def _round_row(
        self, pipeline: str, task: str, attempt: int, round: Round, texts: Texts | None
    ) -> dict[str, Any]:
        what = f"pipeline {pipeline!r}, task {task!r}, round {round.index}"
        return {
            **self._key(pipeline, task, attempt),
            "round": round.index,
            "data": encode(round, what),
            "texts": None if texts is None else encode(texts, what),
        }

    def _round_rows(
        self, pipeline: str, record: TaskRecord, texts: Sequence[Texts | None]
    ) -> list[dict[str, Any]]:
        return [
            self._round_row(
                pipeline, record.task, record.attempt, round, texts[place] if place < len(texts) else None
            )
            for place, round in enumerate(record.rounds)
        ]

    def _replace_rounds(
        self, connection: sa.Connection, key: dict[str, Any], rows: list[dict[str, Any]]
    ) -> None:
        connection.execute(_FORGET_ROUNDS, _bound(key))
        if not rows:
            return
        insert = self._insert_rounds
        if insert.positional and insert.positiontup is not None:
            # SQLAlchemy's own way builds a dict of parameters per row, a third of what a commit costs.
            pick = itemgetter(*insert.positiontup)
            connection.exec_driver_sql(str(insert), [pick(row) for row in rows])
        else:
            connection.execute(_rounds.insert(), rows)

    def _rounds(
        self, pipeline: str, task: str, attempt: int, texts: bool
    ) -> tuple[tuple[Round, ...], tuple[Texts | None, ...]]:
        query = _ROUNDS_AND_TEXTS if texts else _ROUNDS
        found: list[Round] = []
        words: list[Texts | None] = []
        for row in self._read(query, _bound(self._key(pipeline, task, attempt))):
            where = f"{self._place}, pipeline {pipeline!r}, task {task!r}, round {row.round}"
            if row.round != len(found):
                raise StoreError(f"{where}: round {len(found)} is missing before it")
            found.append(decode(row.data, Round, where))
            if texts:
                words.append(None if row.texts is None else decode(row.texts, Texts, where))
        return tuple(found), tuple(words)

    def _insert_new(self, connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> bool:
        """Insert a row unless its key is there; whether it was inserted."""
        # Without the option SQLAlchemy reports -1 rows for an INSERT under psycopg.
        result = connection.execute(self._inserts[table], row, execution_options={"preserve_rowcount": True})
        return result.rowcount == 1

    @contextmanager
    def _transaction(self, *, writing: bool = True) -> Iterator[sa.Connection]:
        with self._lock:
            self._writing = writing
            try:
                if self._connection is None:
                    self._connection = self._engine.connect()
                with self._connection.begin():
                    yield self._connection
            except sa.exc.DBAPIError as error:
                raise self._explained(error) from error

    def _begin_sqlite(self, connection: sa.Connection) -> None:
        # Who only reads waits for no writer, and none for it.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if self._writing else "BEGIN")

    @_persistent
    def _read(self, query: Any, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        with self._transaction(writing=False) as connection:
            return list(connection.execute(query, parameters))

    def _explained(self, error: sa.exc.DBAPIError) -> StoreError:
        said = " ".join(str(error.orig).split())
        low = said.lower()
        if "not a database" in low or "malformed" in low or "no such column" in low:
            return self._damaged(said)
        sqlite = self._engine.dialect.name == "sqlite"
        if "locked" in low or (
            not sqlite and isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
        ):
            if self._connection is not None:
                with suppress(sa.exc.DBAPIError):
                    self._connection.close()
                self._connection = None
            lost = "the server cannot be reached, or ended the connection"
            why = "another process keeps it locked" if sqlite else lost
            return _Lost(f"{self._place}: {why} ({said})")
        return StoreError(f"{self._place}: the database cannot be used: {said}")

    def _damaged(self, said: str) -> StoreError:
        return StoreError(
            f"{self._place}: not a database, or a damaged one ({said}). Nothing was changed. Restore it from "
            "a copy (`sqlite3 records.db .recover` saves what is readable), or choose another --out"
        )


def _prepare_sqlite(create: bool, connection: Any, _: Any) -> None:
    # Transactions are begun by hand below: Python's own driver would begin them late and end them early.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={1000 * LOCKED_SECONDS:.0f}")
    if create:
        cursor.execute("PRAGMA journal_mode=WAL")
    # In WAL mode a killed process loses nothing under NORMAL; a power cut may undo the last commits.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")
