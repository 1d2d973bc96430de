"""Rewrites of subqueries: IN, EXISTS, joins and counters into each other. Some are wrong, and say where."""

from __future__ import annotations

from sqlglot import exp

from draftverify_sql.rewrites.tree import and_where, correlated, each_select, new_name, set_where
from draftverify_sql.schema import Schema

__all__ = [
    "count_to_exists",
    "counters_to_inner_join",
    "counters_to_join",
    "exists_to_in",
    "in_to_exists",
    "in_to_join",
    "in_to_join_all",
    "not_in_to_not_exists",
]


def in_to_join(tree: exp.Query, schema: Schema) -> bool:
    """x IN (SELECT y …) becomes a join with the distinct y."""
    return _joined(tree, distinct=True)


def in_to_join_all(tree: exp.Query, schema: Schema) -> bool:
    """The same without DISTINCT: wrong where y comes more than once."""
    return _joined(tree, distinct=False)


def _joined(tree: exp.Query, distinct: bool) -> bool:
    changed = False
    for select in each_select(tree):
        kept = []
        for part in and_where(select):
            query = _uncorrelated(part)
            if query is None or part.this.find(exp.Query):
                kept.append(part)
                continue
            name = new_name(tree, "listed")
            inner = _keyed(query)
            if distinct:
                inner.set("distinct", exp.Distinct())
            select.join(
                exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(name))),
                on=exp.EQ(this=exp.column("key", name), expression=part.this.copy()),
                copy=False,
            )
            changed = True
        if changed:
            set_where(select, kept)
    return changed


def _uncorrelated(part: exp.Expression) -> exp.Select | None:
    """The subquery of `x IN (SELECT y …)` that reads nothing of what stands around it."""
    query = part.args.get("query") if isinstance(part, exp.In) else None
    select = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(select, exp.Select) or len(select.expressions) != 1 or correlated(select):
        return None
    return select


def _keyed(query: exp.Select) -> exp.Select:
    made = query.copy()
    made.set("expressions", [exp.alias_(made.expressions[0].unalias().copy(), "key")])
    return made


def in_to_exists(tree: exp.Query, schema: Schema) -> bool:
    """x IN (SELECT y …) becomes EXISTS (… y = x)."""
    return _existing(tree, negated=False)


def not_in_to_not_exists(tree: exp.Query, schema: Schema) -> bool:
    """x NOT IN (SELECT y …) becomes NOT EXISTS (… y = x): wrong where x or a y is NULL."""
    return _existing(tree, negated=True)


def _existing(tree: exp.Query, negated: bool) -> bool:
    changed = False
    for select in each_select(tree):
        for part in and_where(select):
            listed = part.this.unnest() if negated and isinstance(part, exp.Not) else part
            query = _uncorrelated(listed)
            if query is None or isinstance(part, exp.Not) != negated:
                continue
            name = new_name(tree, "listed")
            same = exp.EQ(this=exp.column("key", name), expression=listed.this.copy())
            inner = exp.select("1").from_(
                exp.Subquery(this=_keyed(query), alias=exp.TableAlias(this=exp.to_identifier(name)))
            )
            listed.replace(exp.Exists(this=inner.where(same)))
            changed = True
    return changed


def exists_to_in(tree: exp.Query, schema: Schema) -> bool:
    """EXISTS (SELECT … WHERE y = x) becomes x IN (SELECT y …), where that is all that it reads from outside."""
    changed = False
    for select in each_select(tree):
        for part in and_where(select):
            query = part.this if isinstance(part, exp.Exists) else None
            if not isinstance(query, exp.Select) or query.args.get("group") or query.args.get("limit"):
                continue
            outside = {id(column) for column in correlated(query)}
            ties = [
                each for each in and_where(query) if any(id(c) in outside for c in each.find_all(exp.Column))
            ]
            if len(ties) != 1 or not isinstance(ties[0], exp.EQ) or len(outside) != 1:
                continue
            sides = (ties[0].this, ties[0].expression)
            x, y = sides if id(sides[0]) in outside else sides[::-1]
            if id(x) not in outside:
                continue
            inner = query.copy()
            set_where(inner, [each for each in and_where(query) if each is not ties[0]])
            inner.set("expressions", [y.copy()])
            part.replace(exp.In(this=x.copy(), query=exp.Subquery(this=inner)))
            changed = True
    return changed


def count_to_exists(tree: exp.Query, schema: Schema) -> bool:
    """(SELECT COUNT(*) …) > 0 becomes EXISTS (…)."""
    changed = False
    for each in list(tree.find_all(exp.GT)):
        query = each.this.this if isinstance(each.this, exp.Subquery) else None
        zero = isinstance(each.expression, exp.Literal) and each.expression.this == "0"
        if not zero or not isinstance(query, exp.Select) or len(query.expressions) != 1:
            continue
        count = query.expressions[0].unalias()
        plain = not any(query.args.get(name) for name in ("group", "having", "limit", "distinct"))
        if isinstance(count, exp.Count) and isinstance(count.this, exp.Star) and plain:
            inner = query.copy()
            inner.set("expressions", [exp.Literal.number(1)])
            each.replace(exp.Exists(this=inner))
            changed = True
    return changed


def counters_to_join(tree: exp.Query, schema: Schema) -> bool:
    """Counters over the same rows, each a correlated subquery, become one LEFT JOIN with the rows grouped once."""
    return _counters(tree, side="LEFT")


def counters_to_inner_join(tree: exp.Query, schema: Schema) -> bool:
    """The same with an inner join: wrong for what has no rows, which is lost (the count bug)."""
    return _counters(tree, side="")


def _counters(tree: exp.Query, side: str) -> bool:
    for select in each_select(tree):
        groups: dict[tuple[str, ...], list[tuple[exp.Subquery, exp.AggFunc, exp.Column, exp.Column]]] = {}
        for shown in select.expressions:
            for each in shown.find_all(exp.Subquery):
                found = _counter(each)
                if found is not None:
                    aggregate, own, outer, rest = found
                    query = each.this
                    key = (str(query.args["from_"].this.this), own.name, str(outer), *sorted(rest))
                    groups.setdefault(key, []).append((each, aggregate, own, outer))
        for members in groups.values():
            first, _, own, outer = members[0]
            name = new_name(tree, "counted")
            inner = first.this.copy()
            kept = [part for part in and_where(inner) if not _ties(part, own, outer)]
            set_where(inner, kept)
            alias = inner.args["from_"].this.alias_or_name
            columns: list[exp.Expression] = [exp.alias_(exp.column(own.name, alias), "key")]
            for place, (each, aggregate, theirs, _) in enumerate(members):
                made = aggregate.copy()
                for column in made.find_all(exp.Column):
                    if column.table == theirs.table:
                        column.set("table", exp.to_identifier(alias))
                columns.append(exp.alias_(made, f"value{place}"))
                value: exp.Expression = exp.column(f"value{place}", name)
                if isinstance(aggregate, exp.Count) and side:
                    value = exp.Coalesce(this=value, expressions=[exp.Literal.number(0)])
                each.replace(value)
            inner.set("expressions", columns)
            inner.set("group", exp.Group(expressions=[exp.column(own.name, alias)]))
            derived = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(name)))
            same = exp.EQ(this=exp.column("key", name), expression=outer.copy())
            select.join(derived, on=same, join_type=side, copy=False)
        if groups:
            return True
    return False


def _counter(
    each: exp.Subquery,
) -> tuple[exp.AggFunc, exp.Column, exp.Column, list[str]] | None:
    """Of (SELECT aggregate FROM t WHERE t.own = outer AND rest): the aggregate, own, outer, the rest as text."""
    query = each.this
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or query.args.get("joins"):
        return None
    if any(query.args.get(name) for name in ("group", "having", "limit", "distinct", "order")):
        return None
    aggregate = query.expressions[0].unalias()
    outside = correlated(query)
    if not isinstance(aggregate, exp.AggFunc) or len(outside) != 1:
        return None
    outer = outside[0]
    tie = next(
        (
            part
            for part in and_where(query)
            if isinstance(part, exp.EQ) and outer in (part.this, part.expression)
        ),
        None,
    )
    if tie is None:
        return None
    own = tie.expression if tie.this == outer else tie.this
    if not isinstance(own, exp.Column):
        return None
    rest = [part.sql().replace(f"{own.table}.", "") for part in and_where(query) if part is not tie]
    return aggregate, own, outer, rest


def _ties(part: exp.Expression, own: exp.Column, outer: exp.Column) -> bool:
    return isinstance(part, exp.EQ) and {part.this, part.expression} == {own, outer}
