"""Several retrievers as one, by reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from draftverify import ConfigError, Context
from draftverify_llm import check_least
from draftverify_retrieval.passages import Passages, Retriever
from draftverify_retrieval.ranking import Ranking, RankingDrafter, padded, rank_with

_DEPTH = 100


@dataclass(eq=False)
class Hybrid(RankingDrafter[Passages]):
    """Drafts passages by the sum of 1 / (k + rank) over its retrievers; one that did not find a passage adds nothing.

    Each is asked for 100 passages, or as many as are needed. Passages with equal sums stand in the order of the first
    retriever that ranks them apart. Feedback reaches those retrievers that read it.

    Args:
        retrievers: two or more, of one corpus.
        k: how little the first ranks count more than the next.

    References:
        Cormack, Clarke and Büttcher, Reciprocal rank fusion, SIGIR 2009.
    """

    retrievers: list[Retriever]
    k: int = 60

    @property
    def corpus(self) -> Passages:  # type: ignore[override]
        """The corpus of its retrievers."""
        return self._get()

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        """The k best rows of each query, as `Retriever` says; equal ones as the class says."""
        return self._fused(lambda retriever, depth: retriever.search(queries, depth), k)

    def rank(self, contexts: Sequence[Context], k: int) -> Ranking:
        """The k best rows for each task."""
        return self._fused(lambda retriever, depth: rank_with(retriever, contexts, depth), k)

    def _fused(self, ranked: Callable[[Retriever, int], Ranking], k: int) -> Ranking:
        """The k rows of the largest sums, of what each retriever ranks so deep."""
        self._get()
        rankings_of = [ranked(retriever, max(_DEPTH, k))[0] for retriever in self.retrievers]
        lines = []
        for line in range(len(rankings_of[0])):
            rankings = [ranking[line][ranking[line] >= 0] for ranking in rankings_of]
            union = np.unique(np.concatenate(rankings))
            # The rank in each list, from 1; infinite where it is not in it.
            ranks = np.full((len(rankings), len(union)), np.inf)
            for place, ranking in enumerate(rankings):
                ranks[place, np.searchsorted(union, ranking)] = np.arange(1, len(ranking) + 1)
            sums = (1 / (self.k + ranks)).sum(axis=0)
            # Equal sums of other terms may differ in their last bit.
            order = np.lexsort((union, *ranks[::-1], -np.round(sums, 12)))[:k]
            lines.append((union[order], sums[order]))
        return padded(lines, k)

    def _members(self) -> list[Any]:
        return [*self.retrievers]

    def _make(self) -> Passages:
        """The retrievers' corpus.

        Raises:
            ConfigError: there are fewer than two, they rank different corpora, or one cannot be opened.
        """
        if len(self.retrievers) < 2:
            raise ConfigError(
                f"{len(self.retrievers)} retrievers; at least two can be fused", path="retrievers"
            )
        check_least(0, k=self.k)
        corpus, *corpora = [getattr(retriever, "corpus", None) for retriever in self.retrievers]
        for place, another in enumerate(corpora, 1):
            if corpus is None or another is not corpus:
                raise ConfigError(
                    "it ranks another corpus than the first; rows of two corpora do not mean the same (name one "
                    "corpus under `models`, and give it to all)",
                    path=f"retrievers.{place}",
                )
        return cast(Passages, corpus)
