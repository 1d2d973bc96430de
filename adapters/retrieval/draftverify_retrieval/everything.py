"""The expensive way: every passage of the corpus, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from draftverify import Context
from draftverify_retrieval.passages import Passages, Retriever
from draftverify_retrieval.ranking import Ranking, RankingDrafter, nothing, padded, rank_with


@dataclass(eq=False)
class Everything(RankingDrafter[int]):
    """Drafts all passages that were not proposed before, for a `fallback` that reads on until something is found.

    Args:
        corpus: the passages; they come in its order.
        retriever: of the same corpus: what it ranks comes first, as it ranks it, and the rest after it.
    """

    corpus: Passages
    retriever: Retriever | None = None

    def rank(self, contexts: Sequence[Context], k: int) -> Ranking:
        """The first k rows for each task; none of them has a score."""
        count = self._get()
        ranked, _ = (
            nothing(len(contexts), 1)
            if self.retriever is None
            else rank_with(self.retriever, contexts, count)
        )
        lines = [
            np.concatenate([first[first >= 0], np.setdiff1d(np.arange(count), first)])[:k] for first in ranked
        ]
        return padded([(rows, np.zeros(len(rows))) for rows in lines], k)

    def _members(self) -> list[Any]:
        return [self.corpus, self.retriever]

    def _make(self) -> int:
        return len(self.corpus)
