"""The store: every committed record of a run, in SQLite by default and in PostgreSQL by URL.

Work is done at least once and committed exactly once: a record is keyed by (run, pipeline, task, attempt),
and it goes in together with its rounds in one transaction, or not at all. A second commit of the same key
changes nothing, so a transaction that met a lock or lost its connection is simply made again. With
`durable: round` each round is committed as it is decided, so that a restart goes on from it; the rounds of a
task that waits for a person are always kept, with the question. Only the process that drives the run writes
records; those who review write claims and answers, and nothing else.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import partial, wraps
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
import sqlalchemy as sa

from draftverify.errors import ConfigError, ContractError, StoreError
from draftverify.metrics import Score
from draftverify.records.encoding import check, decode, encode
from draftverify.secret import Secret, quiet
from draftverify.values import Candidate, Failure, Outcome, Round, Task, TaskRecord, Trouble

__all__ = [
    "SCHEMA_VERSION",
    "Ending",
    "Entry",
    "Key",
    "Prediction",
    "Progress",
    "Question",
    "ScoreKey",
    "Store",
    "Texts",
    "sqlite_url",
    "store_url",
]

_log = quiet(logging.getLogger(__name__))

SCHEMA_VERSION = 2
"""Raised when a stored table changes its columns or its meaning; a store of another version is refused."""

LOCKED_SECONDS = 30.0
"""How long a statement waits for a SQLite file that another process holds."""

SHARED_BYTES = 64 << 10
"""Of a file that SQLite makes beside a database that is read, more than its size."""

LOT = 200
"""Records whose rounds are read by one query."""

PAUSES = (0.0, 1.0, 4.0, 10.0, 30.0)
"""Seconds before each further try at a transaction that met a lock or lost its connection; then the run ends. A server
that is restarted is back within them."""

Key: TypeAlias = "tuple[str, str, int]"
"""(pipeline, task, attempt)."""

ScoreKey: TypeAlias = "tuple[str, str, int, str]"
"""(pipeline, task, attempt, metric): the last tells a metric, its settings and the task's truth from others."""


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
        asked: when it was asked; with its key it tells the question from a later one in its place.
        holder: the reviewer who claimed it last; of one that is answered, who answered.
        held_until: when that claim ends, "" for none.
        before: answered ones of other inner tasks of the same round, in whose place it stands.
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
    asked: str = ""
    holder: str = ""
    held_until: str = ""
    before: tuple[Question, ...] = ()

    @property
    def held(self) -> bool:
        """Whether a reviewer's claim on it runs."""
        return self.held_until > _now()


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


class Progress(NamedTuple):
    """How far a run came.

    Args:
        tasks: how many there are, by phase.
        statuses: how many units (a task of a pipeline) ended how, of each the latest attempt.
        waiting: units that wait for a person.
        last: when the last record was committed, an ISO time in UTC; "" for never.
    """

    tasks: dict[str, int]
    statuses: dict[str, int]
    waiting: int
    last: str


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a task of a pipeline ended, without its rounds; `committed` is an ISO time in UTC."""

    pipeline: str
    task: str
    attempt: int
    group: str
    outcome: Outcome
    memory: int
    committed: str


class _RecordRows(NamedTuple):
    """A finished task as it is stored: its key, its row, those of its rounds, and which questions it has used up."""

    key: dict[str, Any]
    record: dict[str, Any]
    rounds: list[dict[str, Any]]
    below: int


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
    sa.Column("retrying", sa.Text),
    sa.Column("own", sa.Text),
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
    sa.Column("holder", sa.String(200)),
    sa.Column("held_until", sa.String(40)),
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
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("metric", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text),
    sa.Column("data", sa.Text, nullable=False),
)


_EMPTY = {
    table: {column.name: None for column in table.columns if column.nullable} for table in _meta.sorted_tables
}
"""What a new row holds where nothing is given."""


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
_INSERT_ROUND = _rounds.insert()
_USE_QUESTIONS = (
    _questions.update()
    .where(_of_key(_questions), _questions.c.round < sa.bindparam("below"))
    .values(state=sa.literal_column("'used'"))  # a bound one would be a parameter of each row
)


def _later(table: sa.Table) -> sa.ColumnElement[bool]:
    """A row of the same run, pipeline and task as a record's, of a later attempt."""
    same = (table.c[name] == _records.c[name] for name in ("run", "pipeline", "task"))
    return sa.and_(*same, table.c.attempt > _records.c.attempt)


_other = _records.alias("later")
_LATEST = ~sa.exists().where(_later(_other))  # type: ignore[arg-type]
_NOT_ASKING = ~sa.exists().where(_later(_questions), _questions.c.state != "used")


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


def store_url(written: str) -> str:
    """A store's URL as a config writes it, with what the environment holds for each ${NAME} in it.

    Raises:
        ConfigError: it holds nothing of that name.
    """

    def held(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            raise ConfigError(
                f"the environment variable {name} is not set; export {name}=… first", path="store"
            )
        return Secret(os.environ[name])

    return re.sub(r"\$\{(\w+)\}", held, written)


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
        # By name, since PostgreSQL's brings many drivers, which few runs need.
        dialect = import_module(f"sqlalchemy.dialects.{engine.dialect.name}")
        self._inserts = {
            table: dialect.insert(table).on_conflict_do_nothing() for table in _meta.sorted_tables
        }
        self._own: dict[str, frozenset[str]] | None = None
        self._compiled: dict[Any, tuple[str, Callable[[Mapping[str, Any]], Any] | None]] = {}

    @staticmethod
    def open(
        url: str, run: str, *, config_hash: str, name: str = "", create: bool = True, thorough: bool = True
    ) -> Store:
        """Open the store of a run, and make it where it does not exist yet.

        Args:
            url: an SQLAlchemy URL: `sqlite:///file.db`, `postgresql://user:${PASSWORD}@host/database`.
            run: the run's id; several runs can share a PostgreSQL database.
            config_hash: of the run's config. "" takes whatever is there (for reading).
            name: of the run, for people.
            create: make tables and the run's row; else what is missing is an error, and nothing is written, so that
                a directory that cannot be written to can be read.
            thorough: look for damage in the whole of a SQLite file first, which takes longer the larger it is.

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
            folder, wal = Path(place).parent, Path(f"{place}-wal")
            settled = not wal.exists() or wal.stat().st_size == 0
            if settled and (not os.access(folder, os.W_OK) or _is_full(folder)):
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
            store._check(config_hash, name, create, thorough)
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
    def set_own(self, own: Mapping[str, Collection[str]]) -> None:
        """Write down which pipelines do not run over all tasks, and over which they do."""
        of_tasks: dict[tuple[str, ...], list[str]] = {}
        for pipeline, tasks in own.items():
            of_tasks.setdefault(tuple(sorted(tasks)), []).append(pipeline)
        text = encode([[names, tasks] for tasks, names in of_tasks.items()], "the pipelines' own tasks")
        with self._transaction() as connection:
            here = _runs.c.run == self._run
            if connection.execute(sa.select(_runs.c.own).where(here)).scalar() != text:
                connection.execute(_runs.update().where(here).values(own=text))

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

    @_persistent
    def _commit(self, entries: Sequence[_RecordRows]) -> int:
        """How many of them were new."""
        with self._transaction() as connection:
            new = [each for each in entries if self._insert_new(connection, _records, each.record)]
            self._replace_rounds(
                connection, [each.key for each in new], [row for each in new for row in each.rounds]
            )
            self._execute_many(
                connection, _USE_QUESTIONS, [{**_bound(each.key), "below": each.below} for each in new]
            )
        return len(new)

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
            if question.inner:
                # Inner tasks of one round may ask one after the other: the answer to one has led to the next.
                same = sa.and_(_of_key(_questions), _questions.c.round == question.round)
                row = connection.execute(sa.select(_questions).where(same), _bound(key)).one_or_none()
                old = None if row is None else self._question(row)
                if old is not None and old.inner != question.inner:
                    connection.execute(_questions.delete().where(same), _bound(key))
                    told = (msgspec.structs.replace(old, inner=(), before=()),) if old.answer else ()
                    question = msgspec.structs.replace(question, before=(*old.before, *told))
            data = encode(question, f"pipeline {pipeline!r}, task {record.task!r}, question")
            new = {**key, "round": question.round, "state": "pending", "data": data, "asked": _now()}
            if self._insert_new(connection, _questions, new):
                self._replace_rounds(connection, [key], rounds)

    @_persistent
    def claim(self, question: Question, holder: str, seconds: float) -> bool:
        """Keep a question for one reviewer for a while, so that no other answers it meanwhile.

        Args:
            question: as it was read.
            holder: who asks for it; who holds it already may claim it anew, which makes the claim last longer.
            seconds: how long, by this machine's clock; 0 lets go of it.

        Returns:
            False when another holds it, or when it is no longer the question that waits.
        """
        until = _time(datetime.now(timezone.utc) + timedelta(seconds=seconds))
        return self._change_question(question, holder, {"holder": holder, "held_until": until})

    @_persistent
    def answer(
        self, question: Question, kind: str, value: Any = None, note: str = "", *, holder: str = ""
    ) -> bool:
        """Write a person's answer down.

        Args:
            question: as it was read.
            kind: "accept", "edit" or "reject".
            value, note: the edited item, the reason.
            holder: who answers.

        Returns:
            False when it was answered already (the first answer stands), when another holds it, or when the run has
            gone on and it is no longer the question that waits.
        """
        check(value, f"task {question.task!r}, answer")
        answered = msgspec.structs.replace(question, state="answered", answer=kind, value=value, note=note)
        data = encode(answered, f"task {question.task!r}, answer")
        new = {"state": "answered", "data": data, "holder": holder or None, "held_until": None}
        return self._change_question(question, holder, new)

    def _change_question(self, question: Question, holder: str, new: Mapping[str, Any]) -> bool:
        """Change a question that still waits, unless another than `holder` holds it."""
        columns = _questions.c
        free = columns.holder.is_(None) | columns.held_until.is_(None) | (columns.held_until <= _now())
        query = _questions.update().where(
            _of_key(_questions),
            columns.round == question.round,
            columns.state == "pending",
            free | (columns.holder == holder),
        )
        if question.asked:
            # Inner tasks of one round ask one after the other under one key.
            query = query.where(columns.asked == question.asked)
        key = _bound(self._key(question.pipeline, question.task, question.attempt))
        with self._transaction() as connection:
            done = connection.execute(
                query.values({name: sa.literal(value) for name, value in new.items()}), key
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
    def add_scores(self, scores: Mapping[ScoreKey, Score], name: str | None = None) -> None:
        """Write down what metrics said of committed outcomes, as that of the metric of this name."""
        with self._transaction() as connection:
            for (pipeline, task, attempt, metric), score in scores.items():
                row = {**self._key(pipeline, task, attempt), "metric": metric, "name": name}
                data = encode(score, f"task {task!r}, score")
                self._insert_new(connection, _scores, {**row, "data": data})

    @_persistent
    def name_scores(self, names: Mapping[ScoreKey, str]) -> None:
        """Say which scores are the metrics' present ones, and of which names; all others keep their value and none."""
        columns = _scores.c
        parts = ("pipeline", "task", "attempt", "metric")
        query = sa.select(*(columns[part] for part in parts), columns.name)
        with self._transaction() as connection:
            found = connection.execute(query.where(columns.run == self._run)).all()
            changed = [
                {**_bound(dict(zip(parts, key, strict=True))), "now": names.get(key)}
                for *place, name in found
                if name != names.get(key := (place[0], place[1], place[2], place[3]))
            ]
            if changed:
                same = (columns[part] == sa.bindparam(f"key_{part}") for part in parts)
                update = _scores.update().where(columns.run == self._run, *same)
                connection.execute(update.values(name=sa.bindparam("now")), changed)

    @_persistent
    def begin_retry(self) -> set[Key]:
        """Write down which failed records are to be made again, as attempt + 1; what was written stands until
        `end_retry`, so that a retry that was killed goes on with what is left of it, and nothing is made a third time.

        Returns:
            The keys of the failed records; those whose next attempt was committed before the kill are left out.
        """
        latest = sa.select(_records.c.pipeline, _records.c.task, _records.c.attempt)
        latest = latest.where(_records.c.run == self._run, _records.c.status == "failed", _LATEST)
        own = _runs.c.run == self._run
        with self._transaction() as connection:
            failed = {(row.pipeline, row.task, row.attempt) for row in connection.execute(latest)}
            text = connection.execute(sa.select(_runs.c.retrying).where(own)).scalar()
            begun: set[Key] = (
                set()
                if text is None
                else set(decode(text, list[tuple[str, str, int]], f"{self._place}, retry"))
            )
            # What failed again is done with in this retry; what else failed since it began is taken too.
            failed -= {(pipeline, task, attempt + 1) for pipeline, task, attempt in begun}
            written = encode(sorted(begun | failed), "the failed tasks")
            connection.execute(_runs.update().where(own).values(retrying=written))
        return failed

    @_persistent
    def end_retry(self) -> None:
        """The retry has come to its end: what failed in it may be made again by another."""
        with self._transaction() as connection:
            connection.execute(_runs.update().where(_runs.c.run == self._run).values(retrying=None))

    # Reading

    def scores(self) -> dict[ScoreKey, Score]:
        """What metrics said."""
        query = sa.select(_scores).where(_scores.c.run == self._run)
        return {
            (row.pipeline, row.task, row.attempt, row.metric): decode(
                row.data, Score, f"{self._place}, score of {row.task!r}"
            )
            for row in self._read(query)
        }

    def named_scores(self) -> dict[tuple[str, str, str], float | None]:
        """What the metrics say now of the latest attempts, by (pipeline, task, name)."""
        columns = _scores.c
        # Until a retry's scores are written the failed attempts' still bear the names.
        scored = sa.and_(
            *(columns[each] == _records.c[each] for each in ("run", "pipeline", "task", "attempt"))
        )
        query = sa.select(columns.pipeline, columns.task, columns.name, columns.data)
        query = query.select_from(_scores.join(_records, scored))
        query = query.where(columns.run == self._run, columns.name.is_not(None), _LATEST, _NOT_ASKING)
        return {
            (row.pipeline, row.task, name): decode(
                row.data, Score, f"{self._place}, score of {row.task!r}"
            ).value
            for row in self._read(query)
            for name in row.name.split(" ")
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
        columns = _records.c
        query = sa.select(columns.pipeline, columns.task, columns.attempt).where(columns.run == self._run)
        return {(row.pipeline, row.task, row.attempt) for row in self._read(query)}

    def failures(self) -> int:
        """How many tasks of pipelines ended as failed, in their latest attempt; none whose next one waits."""
        own = sa.and_(_records.c.run == self._run, _records.c.status == "failed", _LATEST, _NOT_ASKING)
        return int(self._read(sa.select(sa.func.count()).select_from(_records).where(own))[0][0])

    def entries(
        self,
        *,
        pipeline: str | None = None,
        task: str | None = None,
        phase: str | None = None,
        texts: bool = True,
        every_attempt: bool = False,
    ) -> Iterator[Entry]:
        """Committed records in task order, then by pipeline name and attempt: the latest attempt of each, and none of a
        task whose later attempt waits for a person. One that cannot be read comes as a failed task whose failure says
        so, and the others come as they are. The rounds of some hundred records are read at a time; no more are held.

        Args:
            pipeline, task: only theirs.
            phase: only tasks of "calibrate" or of "measure".
            texts: read the words of the rounds too.
            every_attempt: the failed attempts before the latest too.
        """
        same = (_tasks.c.run == _records.c.run) & (_tasks.c.task == _records.c.task)
        joined = _records.outerjoin(_tasks, same)
        query = sa.select(_records).select_from(joined).where(_records.c.run == self._run)
        wanted = ((_records.c.pipeline, pipeline), (_records.c.task, task), (_tasks.c.phase, phase))
        query = query.where(*(column == value for column, value in wanted if value is not None))
        if not every_attempt:
            query = query.where(_LATEST, _NOT_ASKING)
        query = query.order_by(_tasks.c.phase, _tasks.c.place, _records.c.pipeline, _records.c.attempt)
        rows = self._read(query)
        for start in range(0, len(rows), LOT):
            some = rows[start : start + LOT]
            try:
                lot = self._lot(some, texts)
            except StoreError:  # damage, of which we know where it is only when each is read alone
                lot = None
            for row in some:
                yield self._entry(row, texts, lot)

    def endings(self, *, phase: str = "measure", pages: int = 200) -> Iterator[Ending]:
        """How tasks ended, without their rounds: in task order, then by pipeline name, of each the latest attempt.

        So many tasks are read at a time, each lot in a transaction of its own; no more are held. One that cannot be
        read comes as a failed task whose failure says so.
        """
        columns = _records.c
        ids = sa.select(_tasks.c.task).where(_tasks.c.run == self._run, _tasks.c.phase == phase)
        tasks = [row.task for row in self._read(ids.order_by(_tasks.c.place))]
        every = sa.select(columns.pipeline).where(columns.run == self._run).distinct()
        pipelines = sorted(row.pipeline for row in self._read(every))
        query = sa.select(_records).where(columns.run == self._run, columns.pipeline.in_(pipelines))
        query = query.where(_LATEST, _NOT_ASKING)
        for start in range(0, len(tasks), pages):
            some = tasks[start : start + pages]
            latest = {
                (row.task, row.pipeline): row for row in self._read(query.where(columns.task.in_(some)))
            }
            for key in ((task, pipeline) for task in some for pipeline in pipelines):
                if (row := latest.get(key)) is None:
                    continue
                where = f"{self._place}, pipeline {row.pipeline!r}, task {row.task!r}"
                try:
                    outcome = decode(row.outcome, Outcome, where)
                except StoreError as error:
                    outcome = Outcome(status="failed", reason=str(error), failure=Failure.of(error))
                yield Ending(
                    pipeline=row.pipeline,
                    task=row.task,
                    attempt=row.attempt,
                    group=row.grp,
                    outcome=outcome,
                    memory=row.memory,
                    committed=row.committed,
                )

    def progress(self) -> Progress:
        """How far the run came; no record is decoded."""
        phases = sa.select(_tasks.c.phase, sa.func.count()).where(_tasks.c.run == self._run)
        columns = _records.c
        ended = sa.select(columns.pipeline, columns.task, columns.status, columns.committed)
        records = self._read(ended.where(columns.run == self._run, _LATEST, _NOT_ASKING))
        asked = sa.select(_questions.c.pipeline, _questions.c.task).where(
            _questions.c.run == self._run, _questions.c.state != "used"
        )
        waiting = {(row.pipeline, row.task) for row in self._read(asked)}
        return Progress(
            tasks={row[0]: row[1] for row in self._read(phases.group_by(_tasks.c.phase))},
            statuses=dict(Counter(row.status for row in records)),
            waiting=len(waiting),
            last=max((row.committed for row in records), default=""),
        )

    def counts(self) -> dict[tuple[str, str, str], int]:
        """How many tasks ended how, by (phase, pipeline, status): of each the latest attempt, as `entries` has it."""
        same = (_tasks.c.run == _records.c.run) & (_tasks.c.task == _records.c.task)
        key = (_tasks.c.phase, _records.c.pipeline, _records.c.status)
        query = sa.select(*key, sa.func.count()).select_from(_records.join(_tasks, same))
        query = query.where(_records.c.run == self._run, _LATEST, _NOT_ASKING).group_by(*key)
        return {
            (phase, pipeline, status): count
            for phase, pipeline, status, count in self._read(query.order_by(*key))
        }

    def waiting(self) -> dict[str, int]:
        """How many tasks wait for a person, by pipeline; answers that no run has taken up yet are waited for too."""
        columns = _questions.c
        query = sa.select(columns.pipeline, sa.func.count(columns.task.distinct()))
        query = query.where(columns.run == self._run, columns.state != "used").group_by(columns.pipeline)
        return {row.pipeline: row[1] for row in self._read(query)}

    def own(self) -> Mapping[str, frozenset[str]]:
        """Of pipelines that do not run over all tasks, the ids of theirs."""
        if self._own is None:
            text = self._read(sa.select(_runs.c.own).where(_runs.c.run == self._run))[0][0]
            if text is None:
                return {}  # the run has not come so far
            found = decode(text, list[tuple[list[str], frozenset[str]]], f"{self._place}, own tasks")
            self._own = {name: tasks for names, tasks in found for name in names}
        return self._own

    def totals(self, names: Iterable[str], phase: str | None = None) -> dict[str, int]:
        """How many tasks these pipelines have to do, in one phase or in all."""
        own = self.own()
        query = sa.select(_tasks.c.task).where(_tasks.c.run == self._run)
        if phase is not None:
            query = query.where(_tasks.c.phase == phase)
        if not own:
            counted = sa.select(sa.func.count()).select_from(query.subquery())
            return dict.fromkeys(names, int(self._read(counted)[0][0]))
        tasks = {row.task for row in self._read(query)}
        return {name: len(tasks & own[name]) if name in own else len(tasks) for name in names}

    def written(self) -> tuple[str | None, str]:
        """When the last record was committed, and a word that changes with every record, question and answer."""
        own, asked = _records.c, _questions.c
        records = sa.select(sa.func.count(), sa.func.max(own.committed)).where(own.run == self._run)
        questions = (
            sa.select(asked.state, sa.func.count(), sa.func.max(asked.asked))
            .where(asked.run == self._run)
            .group_by(asked.state)
            .order_by(asked.state)
        )
        count, last = self._read(records)[0]
        rest = [f"{state}{number}@{when}" for state, number, when in self._read(questions)]
        return last, "/".join([f"{count}@{last}", *rest])

    def rounds(self, pipeline: str, task: str, attempt: int) -> tuple[Round, ...]:
        """The rounds of a task, committed or not: what a restart goes on from."""
        return self._rounds(pipeline, task, attempt, False)[0]

    def words(self, pipeline: str, task: str, attempt: int) -> tuple[Texts | None, ...]:
        """The words of those rounds."""
        return self._rounds(pipeline, task, attempt, True)[1]

    def open_tasks(self) -> set[Key]:
        """The keys that have rounds and no committed record."""
        columns = _rounds.c
        ended = sa.exists().where(
            *(_records.c[name] == columns[name] for name in ("run", "pipeline", "task", "attempt"))
        )
        query = sa.select(columns.pipeline, columns.task, columns.attempt)
        query = query.where(columns.run == self._run, columns.round == 0, ~ended)
        return {(row.pipeline, row.task, row.attempt) for row in self._read(query)}

    def questions(
        self, state: str | None = None, *, free_for: str | None = None, limit: int | None = None
    ) -> tuple[Question, ...]:
        """The questions of the run, oldest first.

        Args:
            state: only those in it.
            free_for: only those that wait and that this reviewer may claim.
            limit: at most so many.
        """
        columns = _questions.c
        query = sa.select(_questions).where(columns.run == self._run)
        if free_for is not None:
            ended = columns.held_until.is_(None) | (columns.held_until <= _now())
            query = query.where(columns.state == "pending", ended | (columns.holder == free_for))
        if state is not None:
            query = query.where(columns.state == state)
        query = query.order_by(columns.asked, columns.pipeline, columns.task, columns.round).limit(limit)
        return tuple(map(self._question, self._read(query)))

    def question(self, like: Question) -> Question | None:
        """The question as it stands now; None when it is gone, or another stands in its place."""
        key = _bound(self._key(like.pipeline, like.task, like.attempt))
        query = sa.select(_questions).where(_of_key(_questions), _questions.c.round == like.round)
        found = [self._question(row) for row in self._read(query, key)]
        return next((each for each in found if like.asked in ("", each.asked)), None)

    def question_counts(self) -> dict[str, int]:
        """How many questions are "pending", "answered" and "used"; of the first, how many a reviewer has ("held")."""
        columns = _questions.c
        held = sa.func.sum(sa.case((columns.held_until > _now(), 1), else_=0))
        query = sa.select(columns.state, sa.func.count(), held).where(columns.run == self._run)
        found = {
            state: (number, int(held)) for state, number, held in self._read(query.group_by(columns.state))
        }
        counts = {state: found.get(state, (0, 0))[0] for state in ("pending", "answered", "used")}
        return {**counts, "held": found.get("pending", (0, 0))[1]}

    def predictions(self) -> tuple[Prediction, ...]:
        """The predictions of the run."""
        query = sa.select(_predictions.c.data).where(_predictions.c.run == self._run)
        query = query.order_by(_predictions.c.pipeline, _predictions.c.grp, _predictions.c.kind)
        return tuple(decode(row.data, Prediction, f"{self._place}, prediction") for row in self._read(query))

    # Within

    def _question(self, row: Any) -> Question:
        question = decode(row.data, Question, f"{self._place}, question of task {row.task!r}")
        return msgspec.structs.replace(
            question,
            state=row.state,
            asked=row.asked,
            holder=row.holder or "",
            held_until=row.held_until or "",
        )

    def _check(self, config_hash: str, name: str, create: bool, thorough: bool) -> None:
        """Look before anything is written: damage, another version, another config."""
        if thorough and self._engine.dialect.name == "sqlite":
            report = self._read(sa.text("PRAGMA quick_check(1)"))
            if not report or report[0][0] != "ok":
                raise self._damaged(report[0][0] if report else "no answer")
        with self._transaction(writing=create) as connection:
            present = sa.inspect(connection).has_table(_about.name)
            if present:
                query = sa.select(_about.c.value).where(_about.c.name == "schema_version")
                version = connection.execute(query).scalar()
                if version is not None and int(version) != SCHEMA_VERSION:
                    what = "a newer" if int(version) > SCHEMA_VERSION else "an older"
                    fresh = "start over with --fresh (which moves the old run aside), or choose another --out"
                    mend = fresh if self._engine.dialect.name == "sqlite" else "give --store another database"
                    raise StoreError(
                        f"{self._place}: written by {what} draftverify (record format {version}; this one "
                        f"reads {SCHEMA_VERSION}). Nothing was changed. Read it with the version that wrote it "
                        f"(run.json names it), or {mend}"
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

    def _record_rows(self, entry: Entry) -> _RecordRows:
        record, outcome = entry.record, entry.record.outcome
        key = self._key(entry.pipeline, record.task, record.attempt)
        row = {
            **key,
            "grp": record.group,
            "status": outcome.status,
            "memory": entry.memory,
            "outcome": encode(outcome, f"pipeline {entry.pipeline!r}, task {record.task!r}"),
            "committed": _now(),
        }
        rounds = self._round_rows(entry.pipeline, record, entry.texts)
        return _RecordRows(key, row, rounds, outcome.rounds + 1)

    def _replace_rounds(
        self, connection: sa.Connection, keys: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]
    ) -> None:
        self._execute_many(connection, _FORGET_ROUNDS, list(map(_bound, keys)))
        self._execute_many(connection, _INSERT_ROUND, rows)

    def _execute_many(
        self, connection: sa.Connection, statement: Any, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Carry a statement out for each row."""
        if not rows:
            return
        text, pick = self._raw(statement)
        if pick is not None:
            connection.exec_driver_sql(text, [pick(row) for row in rows])
        else:
            connection.execute(statement, list(rows))

    def _raw(self, statement: Any) -> tuple[str, Callable[[Mapping[str, Any]], Any] | None]:
        """A statement as the driver takes it, and what picks its parameters out of a row; None where it takes them by
        name. SQLAlchemy's own way builds a dict of parameters per row, a third of what a commit costs."""
        raw = self._compiled.get(statement)
        if raw is None:
            compiled = statement.compile(dialect=self._engine.dialect)
            pick = itemgetter(*compiled.positiontup) if compiled.positional and compiled.positiontup else None
            raw = self._compiled[statement] = str(compiled), pick
        return raw

    def _lot(self, records: Sequence[Any], texts: bool) -> dict[Key, list[Any]]:
        """The rows of the rounds of some records, by a single query."""
        columns = _rounds.c
        wanted = (columns.pipeline, columns.task, columns.attempt, columns.round, columns.data)
        query = sa.select(*wanted, *((columns.texts,) if texts else ()))
        # By all parts of the key that an index begins with, or the whole run would be looked through.
        query = query.where(
            columns.run == self._run,
            columns.pipeline.in_(sorted({row.pipeline for row in records})),
            columns.task.in_(list(dict.fromkeys(row.task for row in records))),
        )
        found: dict[Key, list[Any]] = {(row.pipeline, row.task, row.attempt): [] for row in records}
        for row in self._read(query):
            if (own := found.get(row[:3])) is not None:
                own.append(row[3:])
        for own in found.values():
            own.sort(key=itemgetter(0))
        return found

    def _entry(self, row: Any, texts: bool, lot: Mapping[Key, list[Any]] | None) -> Entry:
        key = (row.pipeline, row.task, row.attempt)
        rounds: tuple[Round, ...] = ()
        words: tuple[Texts | None, ...] = ()
        try:
            outcome = decode(row.outcome, Outcome, self._whose(*key[:2]))
            rounds, words = (
                self._rounds(*key, texts) if lot is None else self._decoded(*key[:2], lot[key], texts)
            )
        except StoreError as error:
            outcome = Outcome(status="failed", reason=str(error), failure=Failure.of(error))
        record = TaskRecord(task=row.task, attempt=row.attempt, outcome=outcome, rounds=rounds, group=row.grp)
        return Entry(pipeline=row.pipeline, record=record, texts=words, memory=row.memory)

    def _rounds(
        self, pipeline: str, task: str, attempt: int, texts: bool
    ) -> tuple[tuple[Round, ...], tuple[Texts | None, ...]]:
        query = _ROUNDS_AND_TEXTS if texts else _ROUNDS
        rows = self._read(query, _bound(self._key(pipeline, task, attempt)))
        return self._decoded(pipeline, task, rows, texts)

    def _decoded(
        self, pipeline: str, task: str, rows: Iterable[Sequence[Any]], texts: bool
    ) -> tuple[tuple[Round, ...], tuple[Texts | None, ...]]:
        """Rounds, and their words where they were read, of rows (round, data, texts)."""
        found: list[Round] = []
        words: list[Texts | None] = []
        whose = self._whose(pipeline, task)
        for row in rows:
            if row[0] != len(found):
                raise StoreError(f"{whose}, round {row[0]}: round {len(found)} is missing before it")
            found.append(decode(row[1], Round, whose))
            if texts:
                words.append(None if row[2] is None else decode(row[2], Texts, whose))
        return tuple(found), tuple(words)

    def _whose(self, pipeline: str, task: str) -> str:
        return f"{self._place}, pipeline {pipeline!r}, task {task!r}"

    def _insert_new(self, connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> bool:
        """Insert a row unless its key is there; whether it was inserted."""
        statement = self._inserts[table]
        row = {**_EMPTY[table], **row}
        text, pick = self._raw(statement)
        if pick is not None:
            return connection.exec_driver_sql(text, pick(row)).rowcount == 1
        # Without the option SQLAlchemy reports -1 rows for an INSERT under psycopg.
        result = connection.execute(statement, row, execution_options={"preserve_rowcount": True})
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
            return list(connection.execute(query, parameters).all())

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
        stays = "what was committed stays, and the same command goes on from it"
        full = sqlite and "disk i/o error" in low and _is_full(Path(self._place).parent)
        if full or "disk is full" in low or "no space left" in low or "could not extend file" in low:
            return StoreError(
                f"{self._place}: there is no room left on the disk ({said}); make some: {stays}"
            )
        if sqlite and ("disk i/o error" in low or "readonly" in low or "unable to open" in low):
            return StoreError(
                f"{self._place}: the file cannot be written or read ({said}); look for a full or failing disk, a limit "
                f"on the size of files, and who may write to {Path(self._place).parent}: {stays}"
            )
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


def _is_full(folder: Path) -> bool:
    """Whether the disk has no room for the file that SQLite's readers share."""
    try:
        return shutil.disk_usage(folder).free < SHARED_BYTES
    except OSError:
        return False


def _now() -> str:
    return _time(datetime.now(timezone.utc))


def _time(time: datetime) -> str:
    return time.isoformat(timespec="microseconds")
