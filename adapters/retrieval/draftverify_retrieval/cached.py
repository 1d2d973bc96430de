"""The cheap side of draft-verify in an index: steps drafted from what was found before, or by a quicker index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from draftverify import ConfigError, Context, Proposal
from draftverify.traits import GeneratorTraits
from draftverify_llm import Shared, check_least
from draftverify_retrieval.exact_search import ExactSearch
from draftverify_retrieval.passages import Passages, Retriever
from draftverify_retrieval.steps import (
    NO_QUERY,
    NextQuery,
    Query,
    Retrieved,
    listed,
    query_after,
    retrieved,
    rows_of,
)
from draftverify_retrieval.subsets import Cacheable, Subset

T = TypeVar("T")


class _DraftedSearch(Shared[T]):
    """Drafts the searches of a chain one after the other, each from the drafts before it."""

    traits = GeneratorTraits(shape="chain", reads=frozenset())

    index: T
    k: int
    next_query: NextQuery
    corpus: Passages | None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(1, k=self.k)

    def check_verifier(self, verifier: Any) -> None:
        """Refuse a verifier that asks other queries, or for another number of rows."""
        if not isinstance(verifier, ExactSearch):
            return
        if verifier.k != self.k or verifier.next_query != self.next_query:
            raise ConfigError(
                f"{type(self).__name__} drafts k={self.k} rows for the queries of {self.next_query}, but its "
                f"verifier looks for k={verifier.k} for those of {verifier.next_query}: give both the same"
            )

    def _members(self) -> list[Any]:
        return [self.index, self.corpus]

    def _make(self) -> T:
        return self.index

    def _chain(self, context: Context, n: int, search: Callable[[Query], Sequence[int]]) -> Proposal:
        """At most n steps; they end where there is no next query, or no row."""
        drafted: list[Retrieved] = []
        while len(drafted) < n:
            query = query_after(context, self.next_query, drafted)
            if query is None or query is NO_QUERY:
                break
            step = retrieved(search(query), self.corpus)
            if not step["rows"]:
                break
            drafted.append(step)
        return Proposal.chain(drafted)


@dataclass(eq=False)
class CachedSearch(_DraftedSearch[Cacheable]):
    """Drafts each step from a cache of what the task's searches found: the step's own rows, and those near them.

    The cache scores with the index's own scores, so a draft is right whenever the right rows are in the cache. What
    is in it follows from the task's rounds (and from earlier tasks' values): a task taken up again drafts the same.

    Args:
        index: whose rows are cached; the verifier's.
        k, next_query, corpus: as the verifier's.
        capacity: rows in the cache; the ones that came first make room.
        tasks: of how many earlier tasks of the run the values are in the cache too.

    References:
        Zhang et al., Accelerating Retrieval-Augmented Language Model Serving with Speculation, arXiv:2401.14021.
    """

    index: Cacheable
    k: int = 1
    next_query: NextQuery = listed
    capacity: int = 2048
    tasks: int = 0
    corpus: Passages | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self.k, capacity=self.capacity)
        check_least(0, tasks=self.tasks)

    def propose(self, context: Context, n: int) -> Proposal:
        """At most n steps; none while nothing was found yet."""
        if n == 0:  # what came since is put into the cache when it is next drafted from
            return Proposal.chain(())
        subset = self._cache(context)
        return self._chain(context, n, lambda query: subset.search(query, self.k))

    def _cache(self, context: Context) -> Subset:
        """The cache as the context has it: the one of the round before with what came since, or a new one."""
        rounds = context.rounds
        cached: tuple[list[Any], int, Subset] | None = context.scratch.get(self)
        if cached is not None and cached[0] is rounds.entries and cached[1] <= len(rounds):
            _, start, subset = cached
        else:
            start, subset = 0, self.index.subset(self.capacity)
            if self.tasks:
                for record in context.memory.records[-self.tasks :]:
                    subset.add([row for value in record.outcome.value or () for row in rows_of(value)])
        for round in rounds[start:]:
            for rows in (round.notes or {}).get("near", ()):
                subset.add([row for row in rows if row >= 0])
            for value in round.decision.emitted:
                subset.add(rows_of(value))
        context.scratch[self] = (rounds.entries, len(rounds), subset)
        return subset


@dataclass(eq=False)
class ApproximateSearch(_DraftedSearch[Retriever]):
    """Drafts each step with a quicker index of the same rows: HNSW beside an exact one.

    Args:
        index: the quicker one.
        k, next_query, corpus: as the verifier's.
    """

    index: Retriever
    k: int = 1
    next_query: NextQuery = listed
    corpus: Passages | None = None

    def propose(self, context: Context, n: int) -> Proposal:
        """At most n steps."""
        return self._chain(context, n, lambda query: self.index.search([query], self.k)[0][0].tolist())
