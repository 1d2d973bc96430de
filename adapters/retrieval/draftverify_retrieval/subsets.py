"""Some rows of an index, searched alone and by the index's own scores: the cache that steps are drafted from.

Of a row that is in the subset the score is the index's, so that the subset's best row is the index's best whenever it
is there. Rows leave in the order in which they came: what a subset holds follows from what was put into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from draftverify_retrieval.steps import Query


@runtime_checkable
class Subset(Protocol):
    """Some rows of an index, searched by the index's own scores."""

    def add(self, rows: Iterable[int]) -> None:
        """Take in rows that are not there; beyond the capacity the ones taken in first make room."""
        ...

    def search(self, query: Query, k: int) -> Sequence[int]:
        """The k best of its rows, the best first, of equal ones the lowest; fewer where there are fewer."""
        ...


@runtime_checkable
class Cacheable(Protocol):
    """An index of which a part can be searched alone."""

    def subset(self, capacity: int) -> Subset:
        """A subset, empty yet, that holds at most so many rows."""
        ...


class VectorSubset:
    """Some rows of a matrix, searched by inner product.

    Args:
        vectors: float32 [rows, d].
        capacity: how many rows it holds.
    """

    def __init__(self, vectors: NDArray[Any], capacity: int) -> None:
        self.vectors = vectors
        self.capacity = capacity
        self._rows = np.empty(0, dtype=np.int64)
        self._matrix = np.empty((0, vectors.shape[1]), dtype=np.float32)
        self._slots: dict[int, int] = {}
        self._next = 0

    def add(self, rows: Iterable[int]) -> None:
        """Take in rows; the ones taken in first make room."""
        for row in rows:
            if row in self._slots:
                continue
            slot = self._next % self.capacity
            if slot >= len(self._rows):
                size = min(max(64, 2 * slot), self.capacity)
                self._rows = np.resize(self._rows, size)
                self._matrix = np.concatenate(
                    (self._matrix, np.empty((size - len(self._matrix), self._matrix.shape[1]), np.float32))
                )
            if self._next >= self.capacity:
                del self._slots[int(self._rows[slot])]
            self._slots[row] = slot
            self._rows[slot] = row
            self._matrix[slot] = self.vectors[row]
            self._next += 1

    def search(self, query: Any, k: int) -> list[int]:
        """The k best of its rows, the best first, of equal ones the lowest."""
        held = len(self._slots)
        if not held:
            return []
        rows, scores = self._rows[:held], self._matrix[:held] @ np.asarray(query, dtype=np.float32)
        if k == 1:
            return [int(rows[scores == scores.max()].min())]
        best: list[int] = rows[np.lexsort((rows, -scores))[:k]].tolist()
        return best
