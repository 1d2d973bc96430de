"""Exact inner-product search in float32 vectors, the same for a query alone and in a batch; and approximate indices.

One query reads all vectors from memory, and a batch of eight reads them once: that is what verifying a block gains
from. But a batch is summed in another order than a query alone, so that of two vectors which are nearly as good the
other may come first. Here float32 only finds candidates: all rows that its rounding leaves a chance. These are scored
again in float64, in one order, and of equal ones the lowest row comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from draftverify import ConfigError

__all__ = ["ApproximateVectors", "VectorSubset", "Vectors"]

BLOCK, GROUPS = 1024, 32
"""Rows multiplied at once, so that they stay in the processor's cache, and the groups whose maxima are kept."""
SPARE = 4
"""Candidates beyond k that the search of a single query asks for."""


class Vectors:
    """Exact search by inner product.

    Args:
        vectors: float32 [rows, d]; kept, not copied.

    Raises:
        ConfigError: they are no finite matrix, or empty.
    """

    def __init__(self, vectors: NDArray[Any]) -> None:
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if vectors.ndim != 2 or not vectors.size or not np.isfinite(vectors).all():
            raise ConfigError(f"vectors are a finite matrix [rows, d], not one of shape {vectors.shape}")
        self.vectors = vectors
        longest = float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64).max()))
        # Each of the d sums and products rounds by 2^-24 of Σ|x·q| ≤ |x||q| at most (γ_d, Higham 2002, 3.1).
        self._rounding = 1.05 * vectors.shape[1] * 2.0**-24 * longest

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Sequence[Any] | NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The k best rows of each query [n, d].

        Returns:
            rows int64 [n, k] and scores float32 [n, k], the best first, of equal ones the lowest row first; -1 and -inf
            where there are fewer than k.
        """
        asked = _matrix(queries, self.vectors.shape[1])
        rows = np.full((len(asked), k), -1, dtype=np.int64)
        scores = np.full((len(asked), k), -np.inf, dtype=np.float32)
        for place, (query, candidates) in enumerate(zip(asked, self._candidates(asked, k), strict=True)):
            exact = (self.vectors[candidates].astype(np.float64) * query).sum(axis=1)
            order = np.lexsort((candidates, -exact))[:k]
            rows[place, : len(order)], scores[place, : len(order)] = candidates[order], exact[order]
        return rows, scores

    def subset(self, capacity: int) -> VectorSubset:
        """Some of its rows, searched alone."""
        return VectorSubset(self.vectors, capacity)

    def _candidates(self, queries: NDArray[Any], k: int) -> Iterable[NDArray[Any]]:
        """For each query all rows that may be among its k best."""
        n = len(queries)
        blocks = -(-len(self.vectors) // BLOCK)
        across = np.ascontiguousarray(queries.T)
        best = np.full((blocks, GROUPS * n), -np.inf, dtype=np.float32)
        sums = np.empty((BLOCK, n), dtype=np.float32)
        for place in range(blocks):
            part = self.vectors[place * BLOCK : (place + 1) * BLOCK]
            if len(part) < BLOCK:
                sums[len(part) :] = -np.inf
            np.matmul(part, across, out=sums[: len(part)])
            np.maximum.reduce(sums.reshape(-1, GROUPS * n), axis=0, out=best[place])
        # A group's maximum is some row's score: the k-th largest of them is no higher than the k-th best row's.
        for place, query in enumerate(queries):
            maxima = best.reshape(blocks, GROUPS, n)[:, :, place]
            slack = 2.0 * self._rounding * float(np.sqrt(np.square(query, dtype=np.float64).sum()))
            flat = maxima.ravel()
            floor = -np.inf if flat.size <= k else np.partition(flat, flat.size - k)[flat.size - k] - slack
            found = []
            for block in np.flatnonzero(maxima.max(axis=1) >= floor):
                part = self.vectors[block * BLOCK : (block + 1) * BLOCK]
                found.append(block * BLOCK + np.flatnonzero(part @ query >= floor))
            yield np.concatenate(found)


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
                more = min(max(64, 2 * slot), self.capacity)
                self._rows = np.resize(self._rows, more)
                self._matrix = np.concatenate(
                    (self._matrix, np.empty((more - len(self._matrix), self._matrix.shape[1]), np.float32))
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


class ApproximateVectors:
    """A faiss index: quicker than all vectors, and not always right. The same vectors make the same index.

    Args:
        vectors: float32 [rows, d].
        kind: "hnsw", a graph; "ivf", lists of near vectors.
        effort: of HNSW how many candidates a search keeps (efSearch), of IVF how many lists it reads (nprobe).
    """

    def __init__(
        self, vectors: NDArray[Any], kind: Literal["hnsw", "ivf"] = "hnsw", effort: int = 32
    ) -> None:
        import faiss

        d = vectors.shape[1]
        self.d = d
        self.index: Any
        if kind == "hnsw":
            self.index = faiss.IndexHNSWFlat(d, 16, faiss.METRIC_INNER_PRODUCT)
            self.index.hnsw.efConstruction = 64
            self.index.hnsw.efSearch = effort
        else:
            lists = max(1, int(2 * len(vectors) ** 0.5))
            self.index = faiss.index_factory(d, f"IVF{lists},Flat", faiss.METRIC_INNER_PRODUCT)
            self.index.cp.niter = 5
            self.index.nprobe = effort
            self.index.train(vectors[:: max(1, len(vectors) // (40 * lists))])
        self.index.add(vectors)

    def search(self, queries: Sequence[Any] | NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """k good rows of each query [n, d], as `Vectors.search` gives the best."""
        scores, rows = self.index.search(_matrix(queries, self.d), k)
        return rows, scores


def _matrix(queries: Sequence[Any] | NDArray[Any], d: int) -> NDArray[Any]:
    """Queries as float32 [n, d].

    Raises:
        ConfigError: they are no finite vectors of the index's dimension.
    """
    matrix = np.ascontiguousarray(queries, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[1] != d or not np.isfinite(matrix).all():
        raise ConfigError(f"queries are finite vectors of {d} numbers; these have the shape {matrix.shape}")
    return matrix
