"""Where other texts of a query come from: rewrite rules, and the query itself.

A text model needs no part of its own: draftverify's `llm.sample` drafts from the task's `sql` and the `schema` that
the verifier adds to it (see the README).
"""

from __future__ import annotations

from collections.abc import Sequence

from draftverify import ConfigError, Context, GeneratorTraits, Proposal
from draftverify_sql.rewrites import OWN, SQLGLOT, rewritten
from draftverify_sql.schema import Schema

__all__ = ["AsWritten", "Rewrites"]


class Rewrites:
    """Proposes what rewrite rules make of the task's query, as alternatives; each names its rule in a comment.

    Args:
        rules: the names of the rules, in the order in which they are tried; all of them when empty.
    """

    traits = GeneratorTraits(shape="alternatives")

    def __init__(self, rules: Sequence[str] = ()) -> None:
        self.rules = rules

    def open(self) -> None:
        """Check the names.

        Raises:
            ConfigError: there is no such rule.
        """
        unknown = [name for name in self.rules if name not in OWN and name not in SQLGLOT]
        if unknown:
            raise ConfigError(
                f"there is no rewrite {unknown[0]!r}; there are {', '.join([*OWN, *SQLGLOT])}", path="rules"
            )

    def default_block(self) -> int:
        """All of them in one block: planning and testing many costs little more than one."""
        return len(OWN) + len(SQLGLOT) + 1

    def propose(self, context: Context, n: int) -> Proposal:
        """The next `n` rewrites.

        Raises:
            ConfigError: the task has no query, or no verifier has added the schema.
        """
        sql, schema = query_of(context), context.task.input.get("schema")
        if not isinstance(schema, str):
            raise ConfigError(f"task {context.task.id} has no schema; use it with the verifier sql.tested")
        names = self.rules or [*OWN, *SQLGLOT]
        texts = [f"-- {name}\n{text}" for name, text in rewritten(sql, Schema.parse(schema), names)]
        end = context.drafted + n
        return Proposal.alternatives(texts[context.drafted : end], exhausted=end >= len(texts))


class AsWritten:
    """Proposes the query itself: the baseline, and what a pipeline falls back to."""

    traits = GeneratorTraits(shape="alternatives")

    def propose(self, context: Context, n: int) -> Proposal:
        """The query, once."""
        return Proposal.alternatives([query_of(context)][:n], exhausted=n > 0)


def query_of(context: Context) -> str:
    """The task's query.

    Raises:
        ConfigError: it has none.
    """
    sql = context.task.input.get("sql")
    if not isinstance(sql, str):
        raise ConfigError(f"task {context.task.id} has no query in its field sql")
    return sql
