"""Equal queries are searched once: for traffic that repeats itself, where a dictionary beats every index."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from draftverify_llm import Shared, check_least
from draftverify_retrieval.passages import Retriever
from draftverify_retrieval.ranking import Ranking, nothing
from draftverify_retrieval.steps import Query


@dataclass(eq=False)
class Memo(Shared[OrderedDict[Any, Any]]):
    """A retriever that keeps what its own found, for queries that are equal (texts, or vectors to the last bit).

    Args:
        retriever: whose answer to a query does not depend on the others in the search.
        size: how many queries are kept; those that were not asked for longest make room.
    """

    retriever: Retriever
    size: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(1, size=self.size)

    @property
    def corpus(self) -> Any:
        """The corpus of its retriever."""
        return getattr(self.retriever, "corpus", None)

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best rows of each query, as `Retriever` says; the new ones in one search."""
        kept = self._get()
        keys = [(query if isinstance(query, str) else np.asarray(query).tobytes(), k) for query in queries]
        rows, scores = nothing(len(queries), k)
        with self._lock:
            hits = [kept.get(key) for key in keys]
        new = {key: place for place, (key, hit) in enumerate(zip(keys, hits, strict=True)) if hit is None}
        if new:
            found = self.retriever.search([queries[place] for place in new.values()], k)
            fresh = dict(zip(new, zip(*found, strict=True), strict=True))
            hits = [fresh[key] if hit is None else hit for key, hit in zip(keys, hits, strict=True)]
        with self._lock:
            for place, (key, hit) in enumerate(zip(keys, hits, strict=True)):
                rows[place], scores[place] = kept[key] = hit
                kept.move_to_end(key)
            while len(kept) > self.size:
                kept.popitem(last=False)
        return rows, scores

    def _members(self) -> list[Any]:
        return [self.retriever]

    def _make(self) -> OrderedDict[Any, Any]:
        return OrderedDict()
