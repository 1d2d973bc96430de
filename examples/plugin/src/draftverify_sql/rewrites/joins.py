"""Rewrites of joins: those that only filter, those that nobody reads, outer ones."""

from __future__ import annotations

from sqlglot import exp

from draftverify_sql.rewrites.tree import (
    and_where,
    conjuncts,
    each_select,
    inner_joins,
    set_where,
    sources,
    used_columns,
)
from draftverify_sql.schema import Schema

__all__ = ["distinct_to_exists", "drop_distinct", "drop_unread_joins", "left_to_inner"]


def drop_unread_joins(tree: exp.Query, schema: Schema) -> bool:
    """A LEFT JOIN by a key of a table of which nothing is read goes: it neither adds nor takes a row."""
    changed = False
    for select in each_select(tree):
        while (join := _unread(select, schema)) is not None:
            join.pop()
            changed = True
    return changed


def _unread(select: exp.Select, schema: Schema) -> exp.Join | None:
    for join in reversed(select.args.get("joins") or []):
        table = schema.tables.get(join.this.name.lower()) if isinstance(join.this, exp.Table) else None
        if join.side != "LEFT" or table is None or join.args.get("using"):
            continue
        name = join.this.alias_or_name
        if any(column.table == name for column in used_columns(select, but=[join])):
            continue
        equal = set()
        for part in conjuncts(join.args.get("on")):
            sides = (part.this, part.expression) if isinstance(part, exp.EQ) else ()
            mine = [side.name for side in sides if isinstance(side, exp.Column) and side.table == name]
            equal |= set(mine) if len(mine) == 1 else set()
        if any(set(key) <= equal for key in table.keys):
            return join  # type: ignore[no-any-return]
    return None


def distinct_to_exists(tree: exp.Query, schema: Schema) -> bool:
    """SELECT DISTINCT of one table's columns over joins that only filter: the joins become EXISTS.

    DISTINCT stays, unless a key of the table is among the columns.
    """
    for select in each_select(tree):
        joins = select.args.get("joins") or []
        if not select.args.get("distinct") or not joins or not inner_joins(select):
            continue
        shown = {column.table for each in select.expressions for column in each.find_all(exp.Column)}
        if (
            len(shown) != 1
            or select.args.get("group")
            or any(each.find(exp.AggFunc) for each in select.expressions)
        ):
            continue
        [kept] = shown
        found = sources(select)
        if not isinstance(found.get(kept), exp.Table):
            continue
        parts = [*and_where(select), *[part for join in joins for part in conjuncts(join.args.get("on"))]]
        own = [part for part in parts if {column.table for column in part.find_all(exp.Column)} == {kept}]
        others = [each for name, each in found.items() if name != kept]
        inner = exp.select("1").from_(others[0].copy())
        for each in others[1:]:
            inner.join(each.copy(), join_type="CROSS", copy=False)
        set_where(inner, [part for part in parts if part not in own])
        table = found[kept].copy()
        names = {each.unalias().name for each in select.expressions if isinstance(each.unalias(), exp.Column)}
        known = schema.tables.get(table.name.lower())
        if known is not None and any(
            set(key) <= names and not any(map(known.nullable, key)) for key in known.keys
        ):
            select.set("distinct", None)
        select.set("from_", exp.From(this=table))
        select.set("joins", None)
        set_where(select, [*own, exp.Exists(this=inner)])
        return True
    return False


def drop_distinct(tree: exp.Query, schema: Schema) -> bool:
    """DISTINCT goes: wrong where a row comes more than once."""
    found = [select for select in each_select(tree) if select.args.get("distinct")]
    for select in found:
        select.set("distinct", None)
    return bool(found)


def left_to_inner(tree: exp.Query, schema: Schema) -> bool:
    """LEFT JOIN becomes an inner one: wrong for rows without a partner, as where the other table is empty."""
    changed = False
    for join in list(tree.find_all(exp.Join)):
        if join.side == "LEFT":
            join.set("side", None)
            join.set("kind", "INNER")
            changed = True
    return changed
