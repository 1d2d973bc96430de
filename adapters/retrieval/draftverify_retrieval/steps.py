"""Retrieval in steps: a query may depend on what was found before.

The value of a task is a chain of `Retrieved`, one per step. The query of the next step is a function of the task and of
what was found so far, `next_query(task, found)`; between two retrievals it may ask a text model to go on writing, which
is where the time of a real system may lie. It is asked for drafted values too, so it must say the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypedDict

from draftverify import Context, ContractError, Task
from draftverify_retrieval.passages import Passage, Passages

Query: TypeAlias = Any
"""What the index searches for: a text, or a vector [d]."""


class Retrieved(TypedDict, total=False):
    """What one step found.

    Keys:
        rows: the rows found, the best first; fewer than asked for where there are no more.
        passages: the passages of these rows, where a corpus is at hand.
    """

    rows: list[int]
    passages: list[Passage]


NextQuery: TypeAlias = Annotated[Callable[[Task, Sequence[Retrieved]], Query | None], "function"]
"""`next_query(task, found)`: the query of the step after those in `found`; None when there is none."""


def listed(task: Task, steps: Sequence[Retrieved]) -> Query | None:
    """The queries that the task's input lists under "queries", one after the other.

    Raises:
        ContractError: there is no list.
    """
    queries = task.input.get("queries")
    if queries is None or isinstance(queries, str):
        raise ContractError(
            "the task's input has no list `queries`; give one, or a function as `next_query` of generator and verifier"
        )
    return queries[len(steps)] if len(steps) < len(queries) else None


def retrieved(rows: Sequence[int], corpus: Passages | None) -> Retrieved:
    """Rows as an item of a chain."""
    rows = [row for row in rows if row >= 0]
    return (
        Retrieved(rows=rows)
        if corpus is None
        else Retrieved(rows=rows, passages=[*map(corpus.passage, rows)])
    )


def rows_of(item: Any) -> tuple[int, ...]:
    """The rows of an item.

    Raises:
        ContractError: it is no mapping with a list of whole numbers under "rows".
    """
    rows = item.get("rows") if isinstance(item, Mapping) else None
    if not isinstance(rows, Sequence) or not all(type(row) is int for row in rows):
        raise ContractError(f"an item is a mapping with `rows`, whole numbers; this one is {item!r:.80}")
    return tuple(rows)


NO_QUERY = object()
"""What follows a draft for which `next_query` failed. On the right path it would fail again, and that counts."""


def query_after(context: Context, next_query: NextQuery, drafted: Sequence[Retrieved]) -> Query | None:
    """The query of the step after the accepted values and these drafted ones; None when there is none, and `NO_QUERY`
    when the drafts make `next_query` fail.

    Each is asked for once a round, by whoever needs it first: the generator, the verifier, or the stopping rule.
    """
    # A list of accepted values is only ever appended to: of this length it is the same place in the task.
    entries, length, queries = context.scratch.get(next_query, (None, 0, {}))
    if entries is not context.accepted.entries or length != len(context.accepted):
        queries = {}
        context.scratch[next_query] = context.accepted.entries, len(context.accepted), queries
    path = tuple([rows_of(item) for item in drafted])
    if path not in queries:
        values: Any = (*context.accepted, *drafted) if drafted else context.accepted
        try:
            queries[path] = next_query(context.task, values)
        except Exception:
            if not drafted:
                raise
            queries[path] = NO_QUERY
    return queries[path]
