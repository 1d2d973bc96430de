"""The trusted side of draft-verify in an index: the queries of a whole block in one search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from draftverify import PASS, UNCHECKED, Check, Context, ContractError, Proposal, Verification
from draftverify.traits import VerifierTraits
from draftverify_llm import Shared, check_least
from draftverify_retrieval.passages import Passages, Retriever
from draftverify_retrieval.steps import (
    NO_QUERY,
    NextQuery,
    Query,
    listed,
    query_after,
    retrieved,
    rows_of,
)


@dataclass(eq=False)
class ExactSearch(Shared[Retriever]):
    """Passes what the index finds too, and gives what it finds instead.

    A drafted step is right when it has the rows that the index finds for the step's query, all k in order; the first
    that is wrong is rejected with the index's own as `correction`, and those after it, whose queries rest on it, stay
    unchecked. When all are right the search has answered the next query as well, which is the `correction` of the block
    and, of an empty one, the plain step. So a block of n makes 1 to n + 1 steps, and the value is that of one search
    after the other. It ends when there is no next query.

    Args:
        index: trusted; what it answers to a query must not depend on the others in the search.
        k: rows per step.
        next_query: gives each step's query; without one they stand in the task's input, under "queries".
        prefetch: rows per query of a drafted block, and of a task's first round, k among them, that are noted, and
            recorded, for `CachedSearch` to draft from.
        corpus: of the passages, where the steps are to carry them.

    References:
        Zhang et al., Accelerating Retrieval-Augmented Language Model Serving with Speculation, arXiv:2401.14021.
    """

    traits = VerifierTraits(reads=frozenset(), plain_steps=True)

    index: Retriever
    k: int = 1
    next_query: NextQuery = listed
    prefetch: int = 20
    corpus: Passages | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(1, k=self.k)
        check_least(0, prefetch=self.prefetch)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One search over the queries of the block, and the one after it."""
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """One search over the queries of all blocks."""
        blocks = [self._queries(*block) for block in zip(contexts, proposals, strict=True)]
        # A plain step has nothing drafted from it, but for the first, from which the cache begins.
        near = [
            self.prefetch if len(proposal) or not context.round else 0
            for context, proposal in zip(contexts, proposals, strict=True)
        ]
        queries = [query for block in blocks for query in block.values() if query is not None]
        rankings = iter(self.index.search(queries, max([self.k, *near]))[0].tolist() if queries else ())
        answers = [
            {index: None if query is None else next(rankings) for index, query in block.items()}
            for block in blocks
        ]
        return [self._judge(*answered) for answered in zip(proposals, answers, near, strict=True)]

    def done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """Stop when there is no next query."""
        return len(new) if query_after(context, self.next_query, ()) is None else None

    def _members(self) -> list[Any]:
        return [self.index, self.corpus]

    def _make(self) -> Retriever:
        return self.index

    def _queries(self, context: Context, proposal: Proposal) -> dict[int, Query | None]:
        """The query after each item, by its index (-1: after what was accepted); None where no step is left."""
        queries: dict[int, Query | None] = {}
        for index in sorted({*proposal.parents, len(proposal) - 1}):  # no other leaf's next step is asked for
            path = [proposal.items[place] for place in proposal.path(index)]
            if all(map(_readable, path)):
                query = query_after(context, self.next_query, path)
                if query is not NO_QUERY:
                    queries[index] = query
        return queries

    def _judge(self, proposal: Proposal, answers: dict[int, list[int] | None], near: int) -> Verification:
        """The checks of a block, from what the index found after each item, of which so many rows are noted."""
        checks: list[Check] = []
        passed = {-1}
        for index, (item, parent) in enumerate(zip(proposal.items, proposal.parents, strict=True)):
            if parent not in passed or parent not in answers:
                checks.append(UNCHECKED)
            elif not _readable(item):
                checks.append(Check("error", reason="not an item of this kind"))
            elif (rows := answers[parent]) is None:
                checks.append(Check("reject", reason="no step is left"))
            else:
                right = retrieved(rows[: self.k], self.corpus)
                if list(item["rows"]) == right["rows"]:
                    checks.append(PASS)
                    passed.add(index)
                else:
                    checks.append(Check("reject", reason="another is found", correction=right))
        final = len(proposal) - 1
        following = answers.get(final) if final in passed and proposal.shape == "chain" else None
        return Verification(
            checks=tuple(checks),
            correction=() if following is None else (retrieved(following[: self.k], self.corpus),),
            notes={"near": [rows[:near] for rows in answers.values() if rows]} if near else {},
        )


def _readable(item: Any) -> bool:
    try:
        rows_of(item)
    except ContractError:
        return False
    return True
