"""Rewrites by rule: each takes a query's tree and gives another that should say the same, sooner.

Fifteen are right wherever they apply. The others are the shortcuts that people and models take, wrong under NULLs,
duplicates or empty tables; where the data or the schema rules that out they are right too, and finding that out is the
verifier's work. Nine more are sqlglot's own: eight rules of its optimizer, and all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp, optimizer
from sqlglot.errors import SqlglotError
from sqlglot.optimizer import (
    eliminate_ctes,
    eliminate_joins,
    merge_subqueries,
    optimize_joins,
    pushdown_predicates,
    pushdown_projections,
    simplify,
    unnest_subqueries,
)

from draftverify_sql.rewrites import aggregates, joins, predicates, subqueries
from draftverify_sql.rewrites.tree import qualified
from draftverify_sql.schema import DIALECT, Schema

__all__ = ["OWN", "SHORTCUTS", "SQLGLOT", "rewritten"]

Rewrite: TypeAlias = Callable[[exp.Query, Schema], bool]
"""Changes the tree that it is given; False where it does not apply."""

SOUND: tuple[Rewrite, ...] = (
    predicates.or_to_in,
    predicates.date_to_range,
    predicates.keys_without_casts,
    predicates.or_to_union_all,
    subqueries.count_to_exists,
    subqueries.counters_to_join,
    subqueries.in_to_join,
    subqueries.in_to_exists,
    subqueries.exists_to_in,
    joins.drop_unread_joins,
    joins.distinct_to_exists,
    aggregates.group_by_key,
    aggregates.aggregate_before_join,
    aggregates.materialise_ctes,
    aggregates.inline_ctes,
)
WRONG_SOMEWHERE: tuple[Rewrite, ...] = (
    predicates.or_to_union,
    subqueries.in_to_join_all,
    subqueries.not_in_to_not_exists,
    subqueries.counters_to_inner_join,
    joins.drop_distinct,
    joins.left_to_inner,
    aggregates.count_column_to_star,
    aggregates.union_to_union_all,
)
OWN: Mapping[str, Rewrite] = {each.__name__: each for each in (*SOUND, *WRONG_SOMEWHERE)}
SHORTCUTS = frozenset(each.__name__ for each in WRONG_SOMEWHERE)
"""Those that are wrong under NULLs, duplicates or empty tables."""

SQLGLOT: Mapping[str, Callable[[exp.Query, Schema], exp.Expression]] = {
    "sqlglot.eliminate_ctes": lambda tree, schema: eliminate_ctes.eliminate_ctes(tree),
    "sqlglot.eliminate_joins": lambda tree, schema: eliminate_joins.eliminate_joins(tree),
    "sqlglot.merge_subqueries": lambda tree, schema: merge_subqueries.merge_subqueries(tree),
    "sqlglot.optimize_joins": lambda tree, schema: optimize_joins.optimize_joins(tree),
    "sqlglot.pushdown_predicates": lambda tree, schema: pushdown_predicates.pushdown_predicates(
        tree, DIALECT
    ),
    "sqlglot.pushdown_projections": lambda tree, schema: pushdown_projections.pushdown_projections(tree),
    "sqlglot.unnest_subqueries": lambda tree, schema: unnest_subqueries.unnest_subqueries(tree),
    "sqlglot.simplify": lambda tree, schema: simplify.simplify(tree, dialect=DIALECT),
    "sqlglot.optimize": lambda tree, schema: optimizer.optimize(
        tree, schema=schema.mapping(), dialect=DIALECT, quote_identifiers=False, identify=False
    ),
}
"""sqlglot's own, each alone, and all of them in its own order."""


def rewritten(sql: str, schema: Schema, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What these rewrites make of a query: names and texts, each text once.

    All own ones that are always right come together first, then each alone.

    Args:
        sql: the query.
        schema: of the tables.
        names: of OWN and SQLGLOT, in the order wanted.
    """
    try:
        tree = qualified(sql, schema)
    except SqlglotError:
        return
    seen = {tree.sql(DIALECT)}
    sound = [name for name in names if name in OWN and name not in SHORTCUTS and not name.endswith("_ctes")]
    together = [
        (" + ".join(name for name in sound if (_own(made, name, schema))), made) for made in [tree.copy()]
    ]
    for name, made in [*together, *_alone(tree, schema, names)]:
        text = made.sql(DIALECT, pretty=True) if name else sql
        if name and made.sql(DIALECT) not in seen:
            seen.add(made.sql(DIALECT))
            yield name, text


def _alone(tree: exp.Query, schema: Schema, names: Sequence[str]) -> Iterator[tuple[str, exp.Expression]]:
    for name in names:
        made = tree.copy()
        if name in OWN:
            if _own(made, name, schema):
                yield name, made
        else:
            try:
                yield name, SQLGLOT[name](made, schema)
            except (SqlglotError, AttributeError, KeyError, ValueError, IndexError):
                continue  # a rule that cannot do with the query makes no draft of it


def _own(tree: exp.Query, name: str, schema: Schema) -> bool:
    return OWN[name](tree, schema)
