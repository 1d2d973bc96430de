"""Whether two results of a query are the same: as multisets, in the order that ORDER BY asks for, ties left free.

Floats are compared to nine digits, since a sum over another order of rows differs in the last ones; all other numbers
exactly. A LIMIT may cut anywhere among ties, so a limited result is compared with what the query gives without it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp

from draftverify_sql.schema import DIALECT

__all__ = ["Asked", "Rows", "Untestable", "asked", "difference"]

NEAR = 1e-9


class Untestable(ValueError):
    """A query whose results cannot be compared."""


class Rows(NamedTuple):
    """A result: the columns' names and the rows."""

    names: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


class Asked(NamedTuple):
    """What a query asks of its result.

    Args:
        whole: the query without its LIMIT.
        names: of its columns where it names them; None for one that it leaves to the database, () where a star does.
        order: the columns that it is ordered by, by place or by name.
        limit, offset: of its rows.
    """

    whole: str
    names: tuple[str | None, ...]
    order: tuple[int | str, ...]
    limit: int | None
    offset: int


def asked(sql: str) -> Asked:
    """Read a query.

    Raises:
        Untestable: it is ordered by what is no column of its result, or limited by what is no number.
        sqlglot.errors.SqlglotError: it cannot be read.
    """
    tree = sqlglot.parse_one(sql, read=DIALECT)
    shown = tree.selects if isinstance(tree, exp.Query) else []
    star = not shown or any(each.is_star for each in shown)
    names = () if star else tuple(each.alias_or_name.lower() or None for each in shown)
    order: list[int | str] = []
    for each in tree.args["order"].expressions if tree.args.get("order") else ():
        key = each.this
        if isinstance(key, exp.Literal) and key.is_int:
            order.append(int(key.this) - 1)
        elif isinstance(key, exp.Column) and (star or key.name.lower() in names):
            order.append(key.name.lower())
        else:
            places = [i for i, one in enumerate(shown) if one.unalias() == key]
            if not places:
                raise Untestable(f"ORDER BY {key.sql(DIALECT)} is no column of the result")
            order.append(places[0])
    limit, offset = (_number(tree.args.get(name)) for name in ("limit", "offset"))
    whole = sql
    if limit is not None or offset is not None:
        tree.set("limit", None)
        tree.set("offset", None)
        whole = tree.sql(DIALECT)
    return Asked(whole, names, tuple(order), limit, offset or 0)


def _number(clause: exp.Expression | None) -> int | None:
    if clause is None:
        return None
    if not (isinstance(clause.expression, exp.Literal) and clause.expression.is_int):
        raise Untestable(f"{clause.sql(DIALECT).strip()} is no number of rows")
    return int(clause.expression.this)


def difference(query: Asked, written: Rows, own: Rows) -> str | None:
    """How another query's result differs from what was asked for; None where it is as good.

    Args:
        query: what was asked.
        written: the rows of `query.whole`.
        own: the other query's rows, its LIMIT included.
    """
    if len(own.names) != len(written.names):
        return f"{len(own.names)} columns, not {len(written.names)}"
    wanted = query.names or tuple(name.lower() for name in written.names)
    for name, got in zip(wanted, own.names, strict=True):
        if name is not None and name != got.lower():
            return f"a column is named {got}, not {name}"
    end = None if query.limit is None else query.offset + query.limit
    window = written.rows[query.offset : end]
    if len(own.rows) != len(window):
        return f"{len(own.rows)} rows, not {len(window)}"
    floats = _float_columns([*written.rows, *own.rows])
    order = [_place(each, written.names) for each in query.order]
    for place, (want, got) in enumerate(zip(window, own.rows, strict=True)):
        for column in order:
            if not _same(want[column], got[column], column in floats):
                return f"row {place + 1} in order has {got[column]!r} where {want[column]!r} was"
    return _missing(written.rows, own.rows, floats)


def _place(column: int | str, names: Sequence[str]) -> int:
    if isinstance(column, int):
        return column
    return [name.lower() for name in names].index(column)


def _float_columns(rows: Sequence[tuple[Any, ...]]) -> set[int]:
    return {place for row in rows for place, value in enumerate(row) if isinstance(value, float)}


def _same(want: Any, got: Any, near: bool) -> bool:
    if near and _finite(want) and _finite(got):
        return math.isclose(want, got, rel_tol=NEAR, abs_tol=NEAR * 1e-3)
    return bool(_exact(want) == _exact(got))


def _finite(value: Any) -> bool:
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _exact(value: Any) -> Any:
    """What can be compared and hashed; numbers of all kinds are numbers, and true is none."""
    if value is None or (isinstance(value, (int, Decimal)) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return type(value).__name__, repr(value)


def _missing(
    wanted: Sequence[tuple[Any, ...]], own: Sequence[tuple[Any, ...]], floats: set[int]
) -> str | None:
    """A row of `own` that is not, or not so often, among the wanted ones."""
    left: dict[tuple[Any, ...], list[tuple[float, ...]]] = {}
    for row in wanted:
        key, numbers = _split(row, floats)
        left.setdefault(key, []).append(numbers)
    for each in left.values():
        each.sort()
    for row in own:
        key, numbers = _split(row, floats)
        bucket = left.get(key, [])
        place = _nearest(bucket, numbers)
        if place is None:
            return f"a row {str(row)[:200]} that is not, or not so often, in the result"
        del bucket[place]
    return None


def _split(row: tuple[Any, ...], floats: set[int]) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """A row as what is compared exactly, and its finite floats."""
    near = [place for place in sorted(floats) if _finite(row[place])]
    exact = tuple("float" if place in near else _exact(value) for place, value in enumerate(row))
    return exact, tuple(float(row[place]) for place in near)


def _nearest(bucket: list[tuple[float, ...]], numbers: tuple[float, ...]) -> int | None:
    if not numbers:
        return 0 if bucket else None
    reach = abs(numbers[0]) * NEAR + NEAR * 1e-3
    for place in range(bisect_left(bucket, (numbers[0] - reach,)), len(bucket)):
        if bucket[place][0] > numbers[0] + reach:
            return None
        pairs = zip(bucket[place], numbers, strict=True)
        if all(math.isclose(want, got, rel_tol=NEAR, abs_tol=NEAR * 1e-3) for want, got in pairs):
            return place
    return None
