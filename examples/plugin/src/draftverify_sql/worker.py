"""The process in which queries run: it can be killed, its database is read-only and locked, its environment is empty.

Queries may be a model's, and hostile. Before one runs it is held to a single SELECT over the tables of the schema, so
that it can neither read what is no table nor tell a sample from the data. DuckDB itself may not touch files, load
extensions or change settings; memory, time and rows are bounded. Answers go out as one JSON object a line.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Timer
from time import perf_counter
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from draftverify_sql.results import Asked, Rows, Untestable, asked, difference
from draftverify_sql.samples import samples
from draftverify_sql.schema import DIALECT, Schema
from draftverify_sql.slices import found_by

LOCKED = {
    "enable_external_access": "false",
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
    "lock_configuration": "true",
}
LONGEST = 50_000
"""Characters of a query."""
TRIES = 4
"""Samples that are tried for each one that is to show something."""
SERIES = {"range", "generate_series", "unnest"}
"""Table functions that read nothing."""
WORDS = re.compile(r"\b(current_\w+|localtime\w*|session_user|user)\b")
INSPECTS = re.compile(
    r"^(duckdb_|pg_|current_|session_|txid_|has_|inspect_|pragma_|in_search_path|version|getvariable|query)"
)


class Refused(ValueError):
    """A query that is not run."""


class TooMany(Exception):
    """A result of more rows than are read."""


class Worker:
    """The two databases, and what can be asked of them; each `do_` method answers one request."""

    def __init__(self, path: str, threads: int, memory: str) -> None:
        limits = {**LOCKED, "threads": str(threads), "memory_limit": memory}
        self.data = duckdb.connect(path, read_only=True, config=limits)
        self.small = duckdb.connect(":memory:", config={**limits, "threads": "1", "memory_limit": "512MB"})
        rows = self.data.execute(
            "SELECT sql FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"
        ).fetchall()
        self.ddl = "\n".join(row[0] for row in rows)
        self.schema = Schema.parse(self.ddl)
        unsteady = self.data.execute(
            "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
        ).fetchall()
        self.unsteady = {row[0] for row in unsteady}
        self.made: tuple[Any, ...] = ()
        self.telling = 0
        self.databases: list[tuple[str, str, str]] = []

    def do_schema(self) -> dict[str, Any]:
        """The tables, as CREATE TABLE statements."""
        return {"ddl": self.ddl}

    def do_explain(self, queries: Sequence[str], seconds: float) -> dict[str, Any]:
        """For each query its plan and what DuckDB thinks it will cost, in rows; or why it cannot be run."""
        return {"queries": [self._each(self._explained, sql, seconds) for sql in queries]}

    def do_refute(
        self, written: str, queries: Sequence[str], count: int, seed: int, seconds: float
    ) -> dict[str, Any]:
        """For each query the first sample on which it is not the one as written; and how many samples could tell."""
        query = asked(written)
        self._make(written, count, seed, seconds)
        found: list[dict[str, Any]] = [{} for _ in queries]
        for schema, kind, note in self.databases:
            self.small.execute(f"USE {schema}")
            wanted = self._rows(self.small, query.whole, seconds)
            for place, sql in enumerate(queries):
                if not found[place]:
                    found[place] = self._compared(self.small, query, wanted, sql, seconds)
                    if found[place].get("problem") == "differs":
                        found[place] |= {"kind": kind, "note": note}
        return {"queries": found, "samples": len(self.databases), "telling": self.telling}

    def do_compare(self, written: str, queries: Sequence[str], seconds: float, rows: int) -> dict[str, Any]:
        """For each query how its result on the data differs from that of the one as written."""
        query = asked(written)
        wanted = self._rows(self.data, query.whole, seconds, rows)
        found = [self._compared(self.data, query, wanted, sql, seconds, rows) for sql in queries]
        return {"queries": found, "rows": len(wanted.rows)}

    def do_time(self, queries: Sequence[str], repeats: int, seconds: float) -> dict[str, Any]:
        """Seconds of each query, in turns (ABC, CBA, …) after one turn that is not counted.

        The first query is the one as written; one that takes longer than `seconds` is not run again.
        """
        times: list[list[float]] = [[] for _ in queries]
        slow: set[int] = set()
        for turn in range(repeats + 1):
            places = range(len(queries)) if turn % 2 else range(len(queries) - 1, -1, -1)
            for place in places:
                if place in slow:
                    continue
                started = perf_counter()
                try:
                    with _limit(self.data, seconds):
                        self.data.execute(queries[place]).fetchall()
                except duckdb.Error:  # interrupted, or out of memory: it has run once before
                    slow.add(place)
                    continue
                if turn:
                    times[place].append(perf_counter() - started)
        return {
            "queries": [{"slow": True} if i in slow else {"seconds": each} for i, each in enumerate(times)]
        }

    def _each(self, do: Any, sql: str, seconds: float) -> dict[str, Any]:
        try:
            self.permit(sql)
            with _limit(self.data, seconds):
                return do(sql)  # type: ignore[no-any-return]
        except Refused as error:
            return {"problem": "refused", "text": str(error)}
        except duckdb.InterruptException:
            return {"problem": "timeout", "text": f"not planned within {seconds:g} s"}
        except (duckdb.Error, sqlglot.errors.SqlglotError, RecursionError, ValueError) as error:
            return {"problem": "invalid", "text": _text(error)}

    def permit(self, sql: str) -> None:
        """Hold a query to one SELECT over the tables of the schema, the same at every call.

        Raises:
            Refused: saying what it is instead.
        """
        if len(sql) > LONGEST:
            raise Refused(f"a query of {len(sql)} characters")
        statements = self.data.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise Refused("not one SELECT")
        tree = sqlglot.parse_one(sql, read=DIALECT)
        if not isinstance(tree, exp.Query):
            raise Refused("not one SELECT")
        known = set(self.schema.tables) | {each.alias.lower() for each in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            function = table.this if isinstance(table.this, exp.Func) else None
            if function is not None:
                if function.sql_name().lower() not in SERIES and function.name.lower() not in SERIES:
                    raise Refused(f"it reads {function.sql(DIALECT)[:80]}, which is no table")
            elif table.args.get("db") or table.name.lower() not in known:
                raise Refused(f"it reads {table.sql(DIALECT)[:80]}, which is no table")
        # Names are looked for in the text, since the two parsers need not agree on what is a function.
        plain = re.sub(r"'(?:[^']|'')*'", "''", sql).replace('"', "").lower()
        called = set(re.findall(r"([a-z_]\w*)\s*\(", plain)) | set(WORDS.findall(plain))
        for name in sorted(called):
            if name in self.unsteady or (INSPECTS.match(name) and name not in SERIES):
                raise Refused(f"it calls {name}, which may answer otherwise another time")

    def _explained(self, sql: str) -> dict[str, Any]:
        [(_, text)] = self.data.execute(f"EXPLAIN (FORMAT JSON) {sql.strip().rstrip(';')}").fetchall()
        return {"plan": text, "cost": sum(map(_cost, json.loads(text)))}

    def _make(self, written: str, count: int, seed: int, seconds: float) -> None:
        """The samples of a query, one schema each in the database in memory.

        Samples are made until so many give the query as written something to show; of the others a few stay, since a
        row too many is a difference too. A query that asks for much is given up after TRIES times as many.
        """
        if self.made == (written, count, seed):
            return
        whole = asked(written).whole
        self.small.execute("USE memory.main")
        for schema, _, _ in self.databases:
            self.small.execute(f"DROP SCHEMA {schema} CASCADE")
        self.databases = []
        real = found_by(self.data, self.schema, written)
        mute = self.telling = 0
        for place, sample in enumerate(samples(self.schema, written, real, seed=seed)):
            if self.telling >= count or place > TRIES * count:
                break
            schema = f"sample{place}"
            self.small.execute(f"BEGIN; USE memory.main; CREATE SCHEMA {schema}; USE {schema}")
            for name, rows in sample.tables.items():
                columns = self.schema.tables[name].columns
                kinds = ", ".join(f'"{column.name}" {column.kind}' for column in columns)
                self.small.execute(f'CREATE TABLE "{name}" ({kinds})')
                if rows:
                    marks = f"({', '.join('?' * len(columns))})"
                    flat = [value for row in rows for value in row]
                    self.small.execute(f'INSERT INTO "{name}" VALUES {", ".join([marks] * len(rows))}', flat)
            self.small.execute("COMMIT")
            try:
                rows = self._rows(self.small, whole, seconds).rows
            except (
                duckdb.Error,
                TooMany,
            ):  # as written it fails (a subquery of two rows): nothing is asked of others
                rows, tells, keeps = [], False, False
            else:
                tells = any(value not in (None, 0) for row in rows for value in row)
                keeps = tells or mute <= count // 2
                self.telling += tells
                mute += keeps and not tells
            if keeps:
                self.databases.append((schema, sample.kind, sample.note))
            else:
                self.small.execute(f"USE memory.main; DROP SCHEMA {schema} CASCADE")
        self.made = (written, count, seed)

    def _compared(
        self, where: Any, query: Asked, wanted: Rows, sql: str, seconds: float, rows: int = 100_000
    ) -> dict[str, Any]:
        try:
            own = self._rows(where, sql, seconds, rows)
        except duckdb.InterruptException:
            return {"problem": "timeout", "text": f"no result within {seconds:g} s"}
        except TooMany:
            return {"problem": "differs", "text": f"more than {rows} rows, not {len(wanted.rows)}"}
        except duckdb.Error as error:
            return {"problem": "differs", "text": f"it fails: {_text(error)}"}
        said = difference(query, wanted, own)
        return {"problem": "differs", "text": said} if said else {}

    def _rows(self, where: Any, sql: str, seconds: float, rows: int = 100_000) -> Rows:
        with _limit(where, seconds):
            made = where.execute(sql)
            found = made.fetchmany(rows + 1)
        if len(found) > rows:
            raise TooMany(f"more than {rows} rows")
        return Rows(tuple(column[0] for column in made.description), found)


@contextmanager
def _limit(where: Any, seconds: float) -> Iterator[None]:
    timer = Timer(seconds, where.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _cost(node: Mapping[str, Any]) -> float:
    """The rows that all operators of a plan are expected to give, together."""
    estimate = node.get("extra_info", {}).get("Estimated Cardinality", 0)
    return float(estimate) + sum(map(_cost, node.get("children", ())))


def _text(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:300]


def main() -> None:
    """Answer requests, one JSON object a line, until there are no more."""
    path, threads, memory, address_space = sys.argv[1:]
    with suppress(ImportError, ValueError, OSError):  # DuckDB's own limit does not count what Python holds
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(address_space), int(address_space)))
    answers, sys.stdout = sys.stdout, sys.stderr
    worker = Worker(path, int(threads), memory)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, f"do_{request.pop('do')}")(**request)
        except (Untestable, TooMany, duckdb.Error, sqlglot.errors.SqlglotError) as error:
            answer = {"problem": _text(error), "error": type(error).__name__}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
