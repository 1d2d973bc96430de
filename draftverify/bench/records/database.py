"""The database of a store, SQLite or PostgreSQL: opening it, transactions, tried again, and its errors in words."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import sqlalchemy as sa

from draftverify.bench.records import tables
from draftverify.bench.records.entries import now
from draftverify.errors import StoreError
from draftverify.secret import Secret, quiet

_log = quiet(logging.getLogger(__name__))

LOCKED_SECONDS = 30.0
"""How long a statement waits for a SQLite file that another process holds."""

SHARED_BYTES = 64 << 10
"""Of a file that SQLite makes beside a database that is read, more than its size."""

PAUSES = (0.0, 1.0, 4.0, 10.0, 30.0)
"""Seconds before each further try at a transaction that met a lock or lost its connection; then the run ends. A server
that is restarted is back within them."""

P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D", bound="Database")


class ConnectionLost(StoreError):
    """The database could not be reached; a later try may succeed."""


def persistent(method: Callable[Concatenate[D, P], T]) -> Callable[Concatenate[D, P], T]:
    """A method that is one transaction, and that changes nothing when it is carried out again."""

    @wraps(method)
    def call(database: D, /, *args: P.args, **kwargs: P.kwargs) -> T:
        pauses = iter(PAUSES)
        while True:
            try:
                return method(database, *args, **kwargs)
            except ConnectionLost as error:
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


class Database:
    """The connection of one run's store. Safe to use from several threads: one transaction at a time."""

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
            table: dialect.insert(table).on_conflict_do_nothing() for table in tables.meta.sorted_tables
        }
        self._compiled: dict[Any, tuple[str, Callable[[Mapping[str, Any]], Any] | None]] = {}

    @classmethod
    def open(
        cls: type[D],
        url: str,
        run: str,
        *,
        config_hash: str,
        name: str = "",
        create: bool = True,
        thorough: bool = True,
        patient: bool = False,
    ) -> D:
        """Open the store of a run, and make it where it does not exist yet.

        Args:
            url: an SQLAlchemy URL: `sqlite:///file.db`, `postgresql://user:${PASSWORD}@host/database`.
            run: the run's id; several runs can share a PostgreSQL database.
            config_hash: of the run's config. "" takes whatever is there (for reading).
            name: of the run, for people.
            create: make tables and the run's row; else what is missing is an error, and nothing is written, so that
                a directory that cannot be written to can be read.
            thorough: look for damage in the whole of a SQLite file first, which takes longer the larger it is.
            patient: wait for a server that cannot be reached, as every later call does: it was there a moment ago.

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
            if settled and (not os.access(folder, os.W_OK) or is_full(folder)):
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
        store = cls(engine, run, place)
        try:
            look = persistent(Database._check) if patient else Database._check
            look(store, config_hash, name, create, thorough)
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

    def __enter__(self: D) -> D:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, config_hash: str, name: str, create: bool, thorough: bool) -> None:
        """Look at the database before anything is written: damage, another version, another config."""
        if thorough and self._engine.dialect.name == "sqlite":
            report = self._read(sa.text("PRAGMA quick_check(1)"))
            if not report or report[0][0] != "ok":
                raise self._damaged(report[0][0] if report else "no answer")
        with self._transaction(writing=create) as connection:
            present = sa.inspect(connection).has_table(tables.about.name)
            if present:
                query = sa.select(tables.about.c.value).where(tables.about.c.name == "schema_version")
                version = connection.execute(query).scalar()
                if version is not None and int(version) != tables.SCHEMA_VERSION:
                    age = "a newer" if int(version) > tables.SCHEMA_VERSION else "an older"
                    fresh = "start over with --fresh (which moves the old run aside), or choose another --out"
                    mend = fresh if self._engine.dialect.name == "sqlite" else "give --store another database"
                    raise StoreError(
                        f"{self._place}: written by {age} draftverify (record format {version}; this one "
                        f"reads {tables.SCHEMA_VERSION}). Nothing was changed. Read it with the version that wrote it "
                        f"(run.json names it), or {mend}"
                    )
            elif not create:
                raise StoreError(
                    f"{self._place}: there are no draftverify records in it (any more?); restore it from a copy, or "
                    "choose another --out"
                )
            if create:
                tables.meta.create_all(connection)
                self._insert_new(
                    connection, tables.about, {"name": "schema_version", "value": str(tables.SCHEMA_VERSION)}
                )
                row = {"run": self._run, "name": name, "config_hash": config_hash, "created": now()}
                self._insert_new(connection, tables.runs, row)
            query = sa.select(tables.runs.c.config_hash).where(tables.runs.c.run == self._run)
            stored_hash = connection.execute(query).scalar()
        if stored_hash is None:
            raise StoreError(
                f"{self._place}: it holds no run {self._run!r} (any more?); restore it from a copy, or choose another "
                "--out"
            )
        if config_hash and stored_hash != config_hash:
            raise StoreError(
                f"{self._place}: these records belong to another config; choose another --out, or start over "
                "with --fresh (which moves the old run aside)"
            )

    def _key(self, pipeline: str, task: str, attempt: int) -> dict[str, Any]:
        return {"run": self._run, "pipeline": pipeline, "task": task, "attempt": attempt}

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

    @persistent
    def _read(self, query: Any, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        with self._transaction(writing=False) as connection:
            return list(connection.execute(query, parameters).all())

    def _insert_new(self, connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> bool:
        """Insert a row unless its key is there; says whether it was inserted."""
        statement = self._inserts[table]
        row = {**tables.EMPTY[table], **row}
        text, pick = self._raw(statement)
        if pick is not None:
            return connection.exec_driver_sql(text, pick(row)).rowcount == 1
        # Without the option SQLAlchemy reports -1 rows for an INSERT under psycopg.
        result = connection.execute(statement, row, execution_options={"preserve_rowcount": True})
        return result.rowcount == 1

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

    def _explained(self, error: sa.exc.DBAPIError) -> StoreError:
        message = " ".join(str(error.orig).split())
        low = message.lower()
        if "not a database" in low or "malformed" in low or "no such column" in low:
            return self._damaged(message)
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
            return ConnectionLost(f"{self._place}: {why} ({message})")
        stays = "what was committed stays, and the same command goes on from it"
        full = sqlite and "disk i/o error" in low and is_full(Path(self._place).parent)
        if full or "disk is full" in low or "no space left" in low or "could not extend file" in low:
            return StoreError(
                f"{self._place}: there is no room left on the disk ({message}); make some: {stays}"
            )
        if sqlite and ("disk i/o error" in low or "readonly" in low or "unable to open" in low):
            return StoreError(
                f"{self._place}: the file cannot be written or read ({message}); look for a full or failing disk, a "
                f"limit on the size of files, and who may write to {Path(self._place).parent}: {stays}"
            )
        return StoreError(f"{self._place}: the database cannot be used: {message}")

    def _damaged(self, message: str) -> StoreError:
        return StoreError(
            f"{self._place}: not a database, or a damaged one ({message}). Nothing was changed. Restore it from "
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


def is_full(folder: Path) -> bool:
    """Whether the disk has no room for the file that SQLite's readers share."""
    try:
        return shutil.disk_usage(folder).free < SHARED_BYTES
    except OSError:
        return False
