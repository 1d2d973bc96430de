"""Rewrites of grouping, UNION and common table expressions."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from draftverify_sql.rewrites.tree import (
    and_where,
    conjuncts,
    each_select,
    inner_joins,
    new_name,
    set_where,
    sources,
)
from draftverify_sql.schema import Schema

__all__ = [
    "aggregate_before_join",
    "count_column_to_star",
    "group_by_key",
    "inline_ctes",
    "materialise_ctes",
    "union_to_union_all",
]


def group_by_key(tree: exp.Query, schema: Schema) -> bool:
    """GROUP BY a key and what depends on it becomes GROUP BY the key alone, with ANY_VALUE of the rest.

    Columns that are joined by equality to a grouped one count as grouped, and so does what their keys determine.
    """
    changed = False
    for select in each_select(tree):
        group = select.args.get("group")
        if group is None or not group.expressions or not inner_joins(select):
            continue
        columns = [each for each in group.expressions if isinstance(each, exp.Column)]
        if len(columns) != len(group.expressions) or len(columns) < 2:
            continue
        dependent: set[exp.Expression] = set()
        for column in sorted(columns, key=lambda each: _is_key(select, schema, each)):
            others = [each for each in columns if each not in dependent and each != column]
            if column in _determined(select, schema, others):
                dependent.add(column)
        if not dependent:
            continue
        group.set("expressions", [each.copy() for each in columns if each not in dependent])
        for place in ("expressions", "having", "order"):
            parts = select.args.get(place) or []
            for part in parts if isinstance(parts, list) else [parts]:
                for column in list(part.find_all(exp.Column)):
                    if column in dependent and not column.find_ancestor(exp.AggFunc):
                        made = exp.AnyValue(this=column.copy())
                        alone = column is part and place == "expressions"
                        column.replace(exp.alias_(made, column.name) if alone else made)
        changed = True
    return changed


def _is_key(select: exp.Select, schema: Schema, column: exp.Column) -> bool:
    table = _table(select, schema, column.table)
    return table is not None and (column.name,) in table.keys


def _table(select: exp.Select, schema: Schema, name: str):  # type: ignore[no-untyped-def]
    source = sources(select).get(name)
    return schema.tables.get(source.name.lower()) if isinstance(source, exp.Table) else None


def _determined(select: exp.Select, schema: Schema, columns: list[exp.Column]) -> set[exp.Column]:
    """All columns whose values these determine: by equalities, and by keys of tables."""
    joins = select.args.get("joins") or []
    parts = [*and_where(select), *[part for join in joins for part in conjuncts(join.args.get("on"))]]
    pairs = [(part.this, part.expression) for part in parts if isinstance(part, exp.EQ)]
    known: set[exp.Column] = set(columns)
    while True:
        before = len(known)
        for left, right in pairs:
            if (
                isinstance(left, exp.Column)
                and isinstance(right, exp.Column)
                and (left in known or right in known)
            ):
                known |= {left, right}
        for name in sources(select):
            table = _table(select, schema, name)
            if table is not None and any(
                all(exp.column(each, name) in known and not table.nullable(each) for each in key)
                for key in table.keys
            ):
                known |= {exp.column(column.name, name) for column in table.columns}
        if len(known) == before:
            return known


def aggregate_before_join(tree: exp.Query, schema: Schema) -> bool:
    """Sums and counts over a join are made per join key first, so that fewer rows are joined.

    Of SELECT with inner joins in which one table is read in SUM, MIN, MAX and COUNT(*) and by equality joins alone.
    """
    for select in each_select(tree):
        if not select.args.get("group") or not select.args.get("joins") or not inner_joins(select):
            continue
        aggregates = [each for part in _above(select) for each in part.find_all(exp.AggFunc)]
        if not aggregates or not all(_splits(each) for each in aggregates):
            continue
        fact = {column.table for each in aggregates for column in each.find_all(exp.Column)}
        if len(fact) != 1 or any(each.find(exp.Query) for each in [*_above(select), *and_where(select)]):
            continue
        [name] = fact
        source = sources(select).get(name)
        if not isinstance(source, exp.Table):
            continue
        joins = select.args["joins"]
        parts = [*and_where(select), *[part for join in joins for part in conjuncts(join.args.get("on"))]]
        own = [part for part in parts if {column.table for column in part.find_all(exp.Column)} == {name}]
        ties = [part for part in parts if part not in own]
        inside = {id(column) for each in aggregates for column in each.find_all(exp.Column)}
        read = [
            column
            for part in [*_above(select), *ties, *select.args["group"].expressions]
            for column in part.find_all(exp.Column)
            if column.table == name and id(column) not in inside
        ]
        keys = sorted({column.name for column in read})
        if not keys or any(set(key) <= set(keys) for key in schema.tables[source.name.lower()].keys):
            continue  # each row would be a group of its own
        derived = new_name(tree, "summed")
        made: list[exp.Expression] = [exp.column(key, name) for key in keys]
        for place, each in enumerate(aggregates):
            made.append(exp.alias_(each.copy(), f"value{place}"))
            value = exp.column(f"value{place}", derived)
            each.replace(type(each)(this=value) if not isinstance(each, exp.Count) else exp.Sum(this=value))
        inner = exp.Select(expressions=made, from_=exp.From(this=source.copy()))
        set_where(inner, own)
        inner.set("group", exp.Group(expressions=[exp.column(key, name) for key in keys]))
        set_where(select, ties)
        for column in [*read, *[c for part in and_where(select) for c in part.find_all(exp.Column)]]:
            if column.table == name:
                column.set("table", exp.to_identifier(derived))
        alias = exp.TableAlias(this=exp.to_identifier(derived))
        for join in joins:
            join.set("on", None)
            join.set("kind", "CROSS")
        source.replace(exp.Subquery(this=inner, alias=alias))
        return True
    return False


def _above(select: exp.Select) -> list[exp.Expression]:
    """What stands above the joins: the columns shown, HAVING and ORDER BY."""
    having, order = select.args.get("having"), select.args.get("order")
    return [*select.expressions, *([having.this] if having else []), *(order.expressions if order else [])]


def _splits(aggregate: exp.AggFunc) -> bool:
    """Whether the aggregate of a whole can be made of those of its parts."""
    if isinstance(aggregate, exp.Count):
        return isinstance(aggregate.this, exp.Star)
    return isinstance(aggregate, (exp.Sum, exp.Min, exp.Max)) and not isinstance(aggregate.this, exp.Distinct)


def count_column_to_star(tree: exp.Query, schema: Schema) -> bool:
    """COUNT(x) becomes COUNT(*): wrong where x is NULL."""
    found = [each for each in tree.find_all(exp.Count) if isinstance(each.this, exp.Column)]
    for each in found:
        each.set("this", exp.Star())
    return bool(found)


def union_to_union_all(tree: exp.Query, schema: Schema) -> bool:
    """UNION becomes UNION ALL: wrong where a row comes twice."""
    found = [each for each in tree.find_all(exp.Union) if each.args.get("distinct")]
    for each in found:
        each.set("distinct", False)
    return bool(found)


def materialise_ctes(tree: exp.Query, schema: Schema) -> bool:
    """Each common table expression is computed once and kept."""
    return _marked(tree, True)


def inline_ctes(tree: exp.Query, schema: Schema) -> bool:
    """Each common table expression is computed where it is used, with what is asked of it there."""
    return _marked(tree, False)


def _marked(tree: exp.Query, materialised: bool) -> bool:
    found = list(_ctes(tree))
    for each in found:
        each.set("materialized", materialised)
    return bool(found)


def _ctes(tree: exp.Query) -> Iterator[exp.CTE]:
    for each in tree.find_all(exp.With):
        if not each.recursive:
            yield from each.expressions
