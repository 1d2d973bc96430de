"""Rows of the real data that a query finds, and what belongs to them: what a small database can begin with."""

from __future__ import annotations

from typing import Any

import duckdb
from sqlglot import exp
from sqlglot.errors import SqlglotError

from draftverify_sql.rewrites.tree import correlated, each_select, qualified, sources
from draftverify_sql.schema import DIALECT, Schema, Table

__all__ = ["found_by"]

ROWS = 3
"""Rows that are taken of each SELECT of the query."""
RELATED = 6
"""Rows of a table that refer to these."""


def found_by(data: duckdb.DuckDBPyConnection, schema: Schema, sql: str) -> dict[str, list[tuple[Any, ...]]]:
    """By table, rows behind a few rows of each SELECT's FROM and WHERE, rows that refer to them, and those referred to.

    Args:
        data: the real data.
        schema: of its tables.
        sql: the query as written; it is run, in parts, with a limit.
    """
    picked: dict[str, set[int]] = {name: set() for name in schema.tables}
    try:
        tree = qualified(sql, schema)
    except SqlglotError:
        tree = exp.Select()
    read = {each.name.lower() for each in tree.find_all(exp.Table)} & set(schema.tables)
    for select in each_select(tree):
        for name, row in _behind(data, schema, select):
            picked[name].add(row)
    for name, table in schema.tables.items():
        for reference in table.references if name in read else ():
            known = picked[reference.table]
            if known and len(picked[name]) < RELATED:
                own, keys = ", ".join(reference.columns), ", ".join(reference.keys)
                picked[name] |= _rows(
                    data,
                    f"SELECT rowid FROM {name} WHERE ({own}) IN "
                    f"(SELECT ({keys}) FROM {reference.table} WHERE rowid IN {_list(known)}) LIMIT {RELATED}",
                )
    for table in reversed(schema.tables.values()):
        _refer(data, table, picked)
    return {
        name: data.execute(f"SELECT * FROM {name} WHERE rowid IN {_list(rows)}").fetchall() if rows else []
        for name, rows in picked.items()
    }


def _refer(data: duckdb.DuckDBPyConnection, table: Table, picked: dict[str, set[int]]) -> None:
    for reference in table.references:
        if picked[table.name]:
            own, keys = ", ".join(reference.columns), ", ".join(reference.keys)
            picked[reference.table] |= _rows(
                data,
                f"SELECT rowid FROM {reference.table} WHERE ({keys}) IN "
                f"(SELECT ({own}) FROM {table.name} WHERE rowid IN {_list(picked[table.name])})",
            )


def _behind(data: duckdb.DuckDBPyConnection, schema: Schema, select: exp.Select) -> list[tuple[str, int]]:
    """Tables and row numbers behind a few rows of a SELECT that reads nothing from outside."""
    tables = {
        alias: each.name.lower()
        for alias, each in sources(select).items()
        if isinstance(each, exp.Table) and each.name.lower() in schema.tables
    }
    if not tables or correlated(select):
        return []
    made = exp.Select(
        expressions=[exp.column("rowid", alias) for alias in tables],
        limit=exp.Limit(expression=exp.Literal.number(ROWS)),
        **{name: select.args[name].copy() for name in ("with_", "from_", "where") if select.args.get(name)},
    )
    made.set("joins", [join.copy() for join in select.args.get("joins") or ()])
    try:
        rows = data.execute(made.sql(DIALECT)).fetchall()
    except duckdb.Error:  # it reads what another part of the query defines
        return []
    return [
        (name, value)
        for row in rows
        for name, value in zip(tables.values(), row, strict=True)
        if value is not None
    ]


def _rows(data: duckdb.DuckDBPyConnection, sql: str) -> set[int]:
    return {row[0] for row in data.execute(sql).fetchall()}


def _list(rows: set[int]) -> str:
    return f"({', '.join(map(str, sorted(rows)))})"
