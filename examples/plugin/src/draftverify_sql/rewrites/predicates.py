"""Rewrites of conditions: OR, functions around columns, casts around keys."""

from __future__ import annotations

from datetime import date

from sqlglot import exp

from draftverify_sql.rewrites.tree import (
    and_where,
    conjuncts,
    each_select,
    inner_joins,
    new_name,
    set_where,
    sources,
    used_columns,
)
from draftverify_sql.schema import Schema

__all__ = ["date_to_range", "keys_without_casts", "or_to_in", "or_to_union", "or_to_union_all"]


def or_to_in(tree: exp.Query, schema: Schema) -> bool:
    """a = 1 OR a = 2 becomes a IN (1, 2)."""
    changed = False
    for each in list(tree.find_all(exp.Or)):
        if isinstance(each.parent, exp.Or):
            continue
        parts = [part.unnest() for part in each.flatten()]
        columns = {
            part.this for part in parts if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column)
        }
        if len(columns) == 1 and all(
            isinstance(part, exp.EQ) and part.this in columns and isinstance(part.expression, exp.Literal)
            for part in parts
        ):
            each.replace(
                exp.In(this=columns.pop().copy(), expressions=[part.expression.copy() for part in parts])
            )
            changed = True
    return changed


def date_to_range(tree: exp.Query, schema: Schema) -> bool:
    """The year or month of a column, compared, becomes a range of the column, which min and max of a block can skip."""
    changed = False
    for each in list(tree.find_all(exp.EQ)):
        found = _span(each.this, each.expression)
        if found is not None:
            column, low, high = found
            low_end, high_end = (exp.cast(exp.Literal.string(day.isoformat()), "DATE") for day in (low, high))
            each.replace(
                exp.paren(
                    exp.and_(
                        exp.GTE(this=column.copy(), expression=low_end),
                        exp.LT(this=column.copy(), expression=high_end),
                    )
                )
            )
            changed = True
    return changed


def _span(made: exp.Expression, value: exp.Expression) -> tuple[exp.Column, date, date] | None:
    if not isinstance(value, exp.Literal):
        return None
    column = made.expression if isinstance(made, exp.Extract) else made.this
    while isinstance(column, (exp.Cast, exp.Paren)):  # sqlglot's own, of a column that is a date already
        column = column.this
    if not isinstance(column, exp.Column):
        return None
    try:
        if isinstance(made, exp.Year) or (isinstance(made, exp.Extract) and made.name.upper() == "YEAR"):
            year = int(value.this)
            return column, date(year, 1, 1), date(year + 1, 1, 1)
        if isinstance(made, exp.TimeToStr) and made.args["format"].name == "%Y-%m":
            first = date.fromisoformat(f"{value.this}-01")
            return column, first, date(first.year + first.month // 12, first.month % 12 + 1, 1)
    except ValueError:
        return None
    return None


def keys_without_casts(tree: exp.Query, schema: Schema) -> bool:
    """CAST(a AS VARCHAR) = CAST(b AS VARCHAR) of two whole numbers becomes a = b."""
    whole = {
        column.name
        for table in schema.tables.values()
        for column in table.columns
        if column.kind in ("INT", "INTEGER", "BIGINT", "SMALLINT", "HUGEINT")
    }
    changed = False
    for each in list(tree.find_all(exp.EQ)):
        sides = [each.this, each.expression]
        if all(
            isinstance(side, exp.Cast)
            and side.is_type("VARCHAR", "TEXT")
            and isinstance(side.this, exp.Column)
            and side.this.name in whole
            for side in sides
        ):
            each.replace(exp.EQ(this=sides[0].this.copy(), expression=sides[1].this.copy()))
            changed = True
    return changed


def or_to_union_all(tree: exp.Query, schema: Schema) -> bool:
    """Rows that meet a, and then those that meet b and not a: each part can be joined by a key of its own."""
    return _split_or(tree, distinct=False)


def or_to_union(tree: exp.Query, schema: Schema) -> bool:
    """Rows that meet a, UNION those that meet b. Rows that are there twice come out once: wrong where that can be."""
    return _split_or(tree, distinct=True)


def _split_or(tree: exp.Query, distinct: bool) -> bool:
    for select in each_select(tree):
        if not select.args.get("from_") or not inner_joins(select):
            continue
        joins = select.args.get("joins") or []
        parts = [*and_where(select), *[part for join in joins for part in conjuncts(join.args.get("on"))]]
        chosen = next((part for part in parts if isinstance(part, exp.Or) and _worth_it(part)), None)
        conditions = [*joins, *filter(None, [select.args.get("where")])]
        columns = {
            (column.table, column.name)
            for column in used_columns(select, but=conditions)
            if column.table in sources(select)
        }
        outer = [each for each in select.expressions if each.find(exp.Query)]
        if chosen is None or not columns or outer or select.args.get("with_"):
            continue
        rest = [part for part in parts if part is not chosen]
        branches: list[exp.Expression] = []
        either = [part.unnest() for part in chosen.flatten()]
        for place, part in enumerate(either):
            before = [] if distinct else either[:place]
            missed = [
                exp.Not(this=exp.Is(this=exp.paren(each.copy()), expression=exp.true())) for each in before
            ]
            shown = [exp.column(name, table).as_(f"{table}_{name}") for table, name in sorted(columns)]
            branch = exp.Select(expressions=shown, from_=select.args["from_"].copy())
            branch.set("joins", [exp.Join(this=join.this.copy(), kind="CROSS") for join in joins])
            set_where(branch, [*rest, part, *missed])
            branches.append(branch)
        union = branches[0]
        for branch in branches[1:]:
            union = exp.Union(this=union, expression=branch, distinct=distinct)
        name = new_name(tree, "either")
        for column in used_columns(select, but=conditions):
            if column.table in sources(select):
                made = exp.column(f"{column.table}_{column.name}", name)
                alone = column.parent is select and column.arg_key == "expressions"
                column.replace(exp.alias_(made, column.name) if alone else made)
        select.set(
            "from_",
            exp.From(this=exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier(name)))),
        )
        select.set("joins", None)
        select.set("where", None)
        return True
    return False


def _worth_it(condition: exp.Or) -> bool:
    """An OR between tables or subqueries; one over a single table is cheap as it is."""
    return (
        bool(condition.find(exp.Query))
        or len({column.table for column in condition.find_all(exp.Column)}) > 1
    )
