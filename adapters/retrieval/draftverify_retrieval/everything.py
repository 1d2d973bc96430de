"""The expensive way: every passage of the corpus, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from draftverify import Context, Proposal
from draftverify.traits import GeneratorTraits
from draftverify_llm import Shared
from draftverify_retrieval.passages import Passages, Retriever
from draftverify_retrieval.ranking import proposed, rank_with

__all__ = ["Everything"]


@dataclass(eq=False)
class Everything(Shared[int]):
    """Drafts all passages that were not proposed before, for a `fallback` that reads on until something is found.

    Args:
        corpus: the passages; they come in its order.
        retriever: of the same corpus: what it ranks comes first, as it ranks it, and the rest after it.
    """

    traits = GeneratorTraits(shape="alternatives", reads=frozenset())

    corpus: Passages
    retriever: Retriever | None = None

    def propose(self, context: Context, n: int) -> Proposal:
        """The next n passages; `exhausted` when they are the last."""
        ids = proposed(context)
        rows = (row for row in self._order(context) if self.corpus.passage(row).get("id") not in ids)
        next_rows = list(islice(rows, n + 1))
        items = tuple(self.corpus.passage(row) for row in next_rows[:n])
        return Proposal.alternatives(items, evidence={"row": next_rows[:n]}, exhausted=len(next_rows) <= n)

    def _members(self) -> list[Any]:
        return [self.corpus, self.retriever]

    def _make(self) -> int:
        return len(self.corpus)

    def _order(self, context: Context) -> Iterator[int]:
        count = self._get()
        if self.retriever is None:
            yield from range(count)
            return
        ranked = [row for row in rank_with(self.retriever, [context], count)[0][0].tolist() if row >= 0]
        yield from ranked
        yield from sorted(set(range(count)) - set(ranked))
