"""What the rewrites ask of a query's tree. All trees are qualified: each column names its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify

from draftverify_sql.schema import DIALECT, Schema

__all__ = [
    "and_where",
    "conjuncts",
    "correlated",
    "each_select",
    "new_name",
    "inner_joins",
    "qualified",
    "set_where",
    "sources",
    "used_columns",
]


def qualified(sql: str, schema: Schema) -> exp.Query:
    """A query with its columns qualified and its stars spelt out.

    Raises:
        sqlglot.errors.SqlglotError: it cannot be read, or names what is not in the schema.
    """
    tree = sqlglot.parse_one(sql, read=DIALECT)
    if not isinstance(tree, exp.Query):
        raise sqlglot.errors.ParseError("no SELECT")
    for node in tree.walk():
        node.comments = None
    made = qualify(tree, schema=schema.mapping(), dialect=DIALECT, quote_identifiers=False, identify=False)
    assert isinstance(made, exp.Query)
    return made


def each_select(tree: exp.Expression) -> Iterator[exp.Select]:
    """The SELECTs of a tree, outer ones first."""
    yield from list(tree.find_all(exp.Select))


def conjuncts(condition: exp.Expression | None) -> list[exp.Expression]:
    """What a condition is the AND of."""
    if condition is None:
        return []
    condition = condition.unnest()
    parts = condition.flatten() if isinstance(condition, exp.And) else (condition,)
    return [part for each in parts for part in (conjuncts(each) if each is not condition else [each])]


def and_where(select: exp.Select) -> list[exp.Expression]:
    """What its WHERE is the AND of."""
    where = select.args.get("where")
    return conjuncts(where.this) if where else []


def set_where(select: exp.Select, parts: Iterable[exp.Expression]) -> None:
    """Give it this WHERE."""
    found = [part.copy() for part in parts]
    select.set("where", exp.Where(this=exp.and_(*found, copy=False)) if found else None)


def sources(select: exp.Select) -> dict[str, exp.Expression]:
    """Its FROM and JOINs by alias: tables and derived tables."""
    found = [select.args["from_"].this] if select.args.get("from_") else []
    found += [join.this for join in select.args.get("joins") or ()]
    return {each.alias_or_name: each for each in found}


def inner_joins(select: exp.Select) -> bool:
    """Whether all of its joins are inner ones without USING."""
    joins = select.args.get("joins") or ()
    return all(
        not join.side
        and join.kind in ("", "INNER", "CROSS")
        and not join.args.get("using")
        and not join.method
        for join in joins
    )


def correlated(query: exp.Expression) -> list[exp.Column]:
    """The columns in a subquery that are of what stands around it."""
    own = {each.alias_or_name for each in query.find_all(exp.Table, exp.Subquery)}
    return [column for column in query.find_all(exp.Column) if column.table and column.table not in own]


def used_columns(select: exp.Select, *, but: Iterable[exp.Expression] = ()) -> list[exp.Column]:
    """The columns that a SELECT reads, those of its subqueries too, outside of these parts of it."""
    left_out = {id(column) for part in but for column in part.find_all(exp.Column)}
    return [column for column in select.find_all(exp.Column) if id(column) not in left_out]


def new_name(tree: exp.Expression, base: str) -> str:
    """A name that no table of the tree has."""
    root = tree.root()
    taken = {each.alias_or_name for each in root.find_all(exp.Table, exp.Subquery, exp.CTE)}
    return next(name for n in range(1000) if (name := f"{base}{n or ''}") not in taken)
