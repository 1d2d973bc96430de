"""Small databases that are made to part queries which are not the same: empty tables, NULLs, duplicates, near misses.

A sample keeps what the schema promises (keys are unique, NOT NULL holds, foreign keys are there) and breaks what it
does not. Half of the samples begin with rows of the real data that the query finds there, less some of them, and with
values changed; the others are made up. Values come from the query's own constants and one step to either side of them,
so that its conditions are met, and just not met, on a handful of rows. A query with many conditions is met by few
samples, and the caller goes on until there are enough.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import count
from typing import Any, Literal, NamedTuple, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from draftverify_sql.schema import DIALECT, Column, Schema, Table

__all__ = ["Kind", "Sample", "samples"]

Kind: TypeAlias = Literal["empty", "null", "duplicate", "plain"]
TURNS: tuple[Kind, ...] = ("null", "duplicate", "empty", "plain")
ROWS = 6
"""The most rows of a table; of a kind that is no duplicate there are as many different keys."""


class Sample(NamedTuple):
    """One small database: its kind, what is special in it, and the rows of each table."""

    kind: Kind
    note: str
    tables: Mapping[str, Sequence[tuple[Any, ...]]]


def samples(
    schema: Schema, sql: str, real: Mapping[str, Sequence[tuple[Any, ...]]], *, seed: int
) -> Iterator[Sample]:
    """Small databases for one query, without end: all tables empty, then each one empty, NULLs, duplicates, plain rows.

    Args:
        schema: of the tables.
        sql: the query; its constants are used.
        real: rows of the real data, by table, that the query finds, and those that they refer to.
        seed: the same gives the same databases.
    """
    tree = simplify(sqlglot.parse_one(sql, read=DIALECT), dialect=DIALECT)
    read = {each.name.lower() for each in tree.find_all(exp.Table)}
    named = {each.name.lower() for each in tree.find_all(exp.Column)}
    tables = [table for table in schema.tables.values() if table.name in _with_referred(schema, read)]
    constants = _constants(tree)
    yield Sample("empty", "all tables are empty", {table.name: () for table in tables if table.name in read})
    empty = [table.name for table in tables if table.name in read]
    for place in count():
        rng = random.Random(f"{seed}/{place}/{sql}")
        kind: Kind = TURNS[place % len(TURNS)]
        without = empty[place // len(TURNS) % len(empty)] if kind == "empty" and empty else None
        made: dict[str, list[tuple[Any, ...]]] = {}
        for table in tables:
            values = _Values(rng, constants, named, real.get(table.name, ()), table, kind)
            begin = real.get(table.name, ()) if place // len(TURNS) % 2 == 0 else ()
            made[table.name] = (
                [] if table.name == without else _rows(rng, table, values, begin, made, kind, schema)
            )
        found = {name: rows for name, rows in made.items() if name in read}
        counts = ", ".join(f"{name} {len(rows)}" for name, rows in found.items())
        yield Sample(kind, f"rows: {counts}", found)


def _with_referred(schema: Schema, names: set[str]) -> set[str]:
    found = set(names)
    for table in reversed(schema.tables.values()):
        if table.name in found:
            found |= {reference.table for reference in table.references}
    return found


def _rows(
    rng: random.Random,
    table: Table,
    values: _Values,
    begin: Sequence[tuple[Any, ...]],
    made: Mapping[str, list[tuple[Any, ...]]],
    kind: Kind,
    schema: Schema,
) -> list[tuple[Any, ...]]:
    names = [column.name for column in table.columns]
    found: list[dict[str, Any]] = []
    seen: set[tuple[str, tuple[Any, ...]]] = set()
    rows = [values.changed(dict(zip(names, row, strict=True))) for row in begin if rng.random() < 0.85]
    more = rng.randint(1, ROWS) if kind == "duplicate" or not rows else rng.randint(0, 3)
    for _ in range(more):
        again = kind == "duplicate" and bool(rows) and rng.random() < 0.8
        row = dict(rng.choice(rows)) if again else {each.name: values.of(each) for each in table.columns}
        if again:  # all is the same but its keys
            row |= {name: values.of(values.columns[name]) for key in table.keys for name in key}
        rows.append(row)
    for row in rows:
        if not _refer(rng, table, row, made, kind, schema):
            continue
        # What is unique is unique; NULLs are not each other's equal.
        keys = [(str(key), tuple(row[name] for name in key)) for key in table.keys]
        keys = [each for each in keys if None not in each[1]]
        if seen.isdisjoint(keys):
            seen.update(keys)
            found.append(row)
    return [tuple(row[name] for name in names) for row in found]


def _refer(
    rng: random.Random,
    table: Table,
    row: dict[str, Any],
    made: Mapping[str, list[tuple[Any, ...]]],
    kind: Kind,
    schema: Schema,
) -> bool:
    """Make the foreign keys hold; False where one cannot, since there is nothing to refer to and NULL is forbidden."""
    for reference in table.references:
        nullable = all(table.nullable(name) for name in reference.columns)
        rows = made.get(reference.table, [])
        if nullable and (not rows or (kind == "null" and rng.random() < 0.4)):
            row |= dict.fromkeys(reference.columns)
        elif not rows:
            return False
        else:
            names = [column.name for column in schema.tables[reference.table].columns]
            there = {tuple(each[names.index(key)] for key in reference.keys) for each in rows}
            if tuple(row[name] for name in reference.columns) in there:
                continue
            chosen = rng.choice(rows)
            row |= {
                own: chosen[names.index(key)]
                for own, key in zip(reference.columns, reference.keys, strict=True)
            }
    return True


class _Values:
    """Values for the columns of one table in one sample."""

    def __init__(
        self,
        rng: random.Random,
        constants: Mapping[str, Sequence[Any]],
        named: set[str],
        real: Sequence[tuple[Any, ...]],
        table: Table,
        kind: Kind,
    ) -> None:
        self.rng = rng
        self.kind = kind
        self.columns = {column.name: column for column in table.columns}
        self.keys = {name for key in table.keys for name in key}
        self.near = {each.name: _fitting(each, constants.get(each.name, ())) for each in table.columns}
        self.share = {name: rng.choice((0.3, 0.75, 1.0)) for name in self.near}
        self.favourite = {name: rng.choice(near) for name, near in self.near.items() if near}
        # NULLs in one or two columns that the query reads: where all have some, few rows meet its conditions.
        open_ = [each.name for each in table.columns if each.nullable and each.name in named]
        self.often = set(rng.sample(open_, min(len(open_), rng.randint(1, 2)))) if kind == "null" else set()
        self.real = {
            column.name: [row[place] for row in real if row[place] is not None]
            for place, column in enumerate(table.columns)
        }

    def of(self, column: Column) -> Any:
        """One value of a column."""
        if self._is_null(column):
            return None
        near = self.near[column.name]
        if near and self.rng.random() < self.share[column.name]:
            again = 0.9 if self.kind == "duplicate" else 0.5
            return self.favourite[column.name] if self.rng.random() < again else self.rng.choice(near)
        if column.name in self.keys:
            return _small(column, self.rng.randint(1, ROWS))
        others = self.real[column.name][: 2 if self.kind == "duplicate" else 8]
        if others and self.rng.random() < 0.5:
            return self.rng.choice(others)
        return _small(column, self.rng.randint(0, 1 if self.kind == "duplicate" else 3))

    def changed(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row of the real data, some of its values changed: to NULL, or to another value of the column."""
        for name, column in self.columns.items():
            if self._is_null(column):
                row[name] = None
            elif name not in self.keys and self.near[name] and self.rng.random() < 0.08:
                row[name] = self.rng.choice(self.near[name])
        return row

    def _is_null(self, column: Column) -> bool:
        often = 0.5 if column.name in self.often else 0.05 if self.kind == "null" else 0.01
        return column.nullable and self.rng.random() < often


def _constants(tree: exp.Expression) -> dict[str, list[Any]]:
    """For each column's name the constants that the query compares it with, or what is made of it."""
    found: dict[str, list[Any]] = {}
    tied: list[set[str]] = []
    for each in tree.find_all(exp.Binary, exp.In, exp.Between):
        if isinstance(each, (exp.Connector, exp.Dot)):
            continue
        scope = [
            each.this,
            *each.args.get("expressions", ()),
            each.expression,
            each.args.get("low"),
            each.args.get("high"),
        ]
        parts = [part for part in scope if isinstance(part, exp.Expression) and not part.find(exp.Query)]
        names = {column.name.lower() for part in parts for column in part.find_all(exp.Column)}
        # An aggregate's bound is a value of a group: of one row, or two.
        values = [_value(part) for part in parts if not part.find(exp.Column)]
        for name in names:
            known = found.setdefault(name, [])
            known += [value for value in values if value is not None and value not in known]
        if len(names) > 1:
            tied.append(names)
    for _ in range(2):  # what is compared with each other gets the other's constants
        for names in tied:
            both = list(dict.fromkeys(value for name in sorted(names) for value in found[name]))
            found |= dict.fromkeys(names, both)
    return found


def _value(part: exp.Expression) -> Any:
    literal = part.find(exp.Literal)
    if literal is None:
        return None
    if not literal.is_string:
        sign = -1 if isinstance(literal.parent, exp.Neg) else 1
        return sign * Decimal(literal.this)
    try:
        return date.fromisoformat(literal.this)
    except ValueError:
        return literal.this


def _fitting(column: Column, constants: Sequence[Any]) -> list[Any]:
    """The constants as values of the column, and what is a step beside them."""
    kind = column.kind.upper()
    exact: list[Any] = []
    beside: list[Any] = []
    for value in constants:
        if kind.startswith(("VARCHAR", "TEXT", "CHAR")):
            if isinstance(value, (str, date)):
                text = str(value)
                exact.append(text.replace("%", "").replace("_", "a"))
                beside += [text.replace("%", " x ").replace("_", "b"), text.replace("%", "") + "~", "~"]
        elif kind.startswith(("DATE", "TIMESTAMP")):
            if isinstance(value, Decimal) and 1 <= value < 9999 and value == int(value):  # a year
                exact.append(date(int(value), 3, 1))
                beside += [date(int(value), 12, 31), date(int(value) + 1, 1, 1)]
            elif isinstance(value, date):
                exact.append(value)
                beside += [value - timedelta(1), value + timedelta(1), value + timedelta(20)]
            elif isinstance(value, str) and re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", value):  # a month as text
                day = date.fromisoformat(f"{value}-15")
                exact.append(day)
                beside += [day + timedelta(30), day - timedelta(30)]
        elif isinstance(value, Decimal):
            whole = kind.startswith(("INTEGER", "INT", "BIGINT", "SMALLINT", "HUGEINT", "TINYINT"))
            exact.append(int(value) if whole else value)
            step = 1 if whole else Decimal("0.01")
            beside += [exact[-1] - step, exact[-1] + step, exact[-1] + 1]
    return list(dict.fromkeys(exact + beside))


def _small(column: Column, n: int) -> Any:
    """A small value of the column's type."""
    kind = column.kind.upper()
    if kind.startswith(("VARCHAR", "TEXT", "CHAR")):
        return "abcdef"[n % 6] * (n > 0)
    if kind.startswith(("DATE", "TIMESTAMP")):
        return date(1995, 1, 1) + timedelta(100 * n)
    if kind.startswith("BOOL"):
        return bool(n % 2)
    return n
