"""Exact inner-product search in float32 vectors, the same for a query alone and in a batch; and approximate indices.

One query reads all vectors from memory, and a batch of eight reads them once: that is what verifying a block gains
from. But a batch is summed in another order than a query alone, so that of two vectors which are nearly as good the
other may come first. Here float32 only finds candidates: all rows that its rounding leaves a chance. These are scored
again in float64, in one order, and of equal ones the lowest row comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftverify import ConfigError
from draftverify_retrieval.ranking import Ranking, nothing
from draftverify_retrieval.subsets import VectorSubset

PRODUCTS = 1024
"""Products of a row and a query in one call of BLAS. From twice that OpenBLAS first copies both sides into an order of
its own, which takes longer than the products of so few queries (measured: three times as long for eight).
"""
SHORTEST, LONGEST = 64, 256
"""Rows in such a block: their maximum is taken, which has a price of its own for each block."""
AT_ONCE = 24
"""Queries that are searched at once: their products with all rows are held."""
SPARE = 4
"""Rows beyond k that the search of a single query asks faiss for."""


class Vectors:
    """Exact search by inner product: faiss's flat index for one query, blocks of products for several.

    Args:
        vectors: float32 [rows, d]; copied into the index.

    Raises:
        ConfigError: they are no finite matrix, or empty.
    """

    def __init__(self, vectors: NDArray[Any]) -> None:
        import faiss

        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if vectors.ndim != 2 or not vectors.size or not np.isfinite(vectors).all():
            raise ConfigError(f"vectors are a finite matrix [rows, d], not one of shape {vectors.shape}")
        rows, d = vectors.shape
        self._flat = faiss.IndexFlatIP(d)
        self._flat.add(vectors)
        self.vectors: NDArray[Any] = faiss.rev_swig_ptr(self._flat.get_xb(), rows * d).reshape(rows, d)
        longest = float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64).max()))
        # d products and their sums round by γ_d Σ|x·q| ≤ γ_d |x||q| at most, in any order (Higham 2002, 3.1).
        self._rounding = 1.05 * d * 2.0**-24 * longest

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Sequence[Any] | NDArray[Any], k: int) -> Ranking:
        """The k best rows of each query [n, d].

        Returns:
            rows int64 [n, k] and scores float32 [n, k], the best first, of equal ones the lowest row first; -1 and -inf
            where there are fewer than k.
        """
        matrix = _matrix(queries, self.vectors.shape[1])
        rows, scores = nothing(len(matrix), k)
        # What float32 makes of two scores may be the wrong way round by this much.
        slack = 2.0 * self._rounding * np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
        for place, near in enumerate(self._candidates(matrix, k, slack)):
            query = matrix[place]
            exact = (self.vectors[near].astype(np.float64) * query).sum(axis=1)
            order = np.lexsort((near, -exact))[:k]
            rows[place, : len(order)], scores[place, : len(order)] = near[order], exact[order]
        return rows, scores

    def subset(self, capacity: int) -> VectorSubset:
        """Some of its rows, searched alone."""
        return VectorSubset(self.vectors, capacity)

    def _candidates(self, queries: NDArray[Any], k: int, slack: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """For each query all rows that may be among its k best."""
        for start in range(0, len(queries), AT_ONCE):
            some, slacks = queries[start : start + AT_ONCE], slack[start : start + AT_ONCE]
            rows = self._candidates_alone(some, k, slacks) if len(some) == 1 else None
            yield from self._candidates_together(some, k, slacks) if rows is None else [rows]

    def _candidates_alone(self, query: NDArray[Any], k: int, slack: NDArray[Any]) -> NDArray[Any] | None:
        """All rows that may be among the query's k best; None where faiss would have to be asked for more."""
        scores, rows = self._flat.search(query, k + SPARE)
        if rows[0, -1] < 0:  # these are all
            every: NDArray[Any] = rows[0, rows[0] >= 0]
            return every
        floor = scores[0, k - 1] - slack[0]
        return rows[0, scores[0] >= floor] if scores[0, -1] < floor else None

    def _candidates_together(
        self, queries: NDArray[Any], k: int, slack: NDArray[Any]
    ) -> Iterator[NDArray[Any]]:
        """For each of some queries all rows that may be among its k best."""
        n, (rows, d) = len(queries), self.vectors.shape
        block = max(SHORTEST, min(LONGEST, PRODUCTS // n // 16 * 16))
        full_blocks = rows // block
        sums = np.empty((-(-rows // block), n, block), dtype=np.float32)
        sums[full_blocks:] = -np.inf
        np.matmul(
            queries,
            self.vectors[: full_blocks * block].reshape(full_blocks, block, d).transpose(0, 2, 1),
            out=sums[:full_blocks],
        )
        if full_blocks < len(sums):
            np.matmul(
                queries,
                self.vectors[full_blocks * block :].T,
                out=sums[full_blocks, :, : rows - full_blocks * block],
            )
        best = sums.max(axis=2)
        for place in range(n):
            maxima = best[:, place]
            # A block's best is some row's score, so the k-th of them is no higher than the k-th best row's. Where there
            # are few blocks it would be much lower: then the rows' own scores are looked at.
            bests = maxima if len(maxima) > 4 * k else sums[:, place].ravel()
            floor = np.partition(bests, -k)[-k] - slack[place] if k < len(bests) else -np.inf
            near = np.flatnonzero(maxima >= floor)
            which, where = np.nonzero(sums[near, place] >= floor)
            near_rows = near[which] * block + where
            yield near_rows[near_rows < rows]  # with no floor the last block's empty places are found too


class ApproximateVectors:
    """A faiss graph (HNSW): quicker than all vectors, and not always right. The same vectors make the same index.

    Args:
        vectors: float32 [rows, d].
        effort: how many candidates a search keeps (efSearch).
    """

    def __init__(self, vectors: NDArray[Any], effort: int = 32) -> None:
        import faiss

        self.d = vectors.shape[1]
        self.index: Any = faiss.IndexHNSWFlat(self.d, 16, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = 64
        self.index.hnsw.efSearch = effort
        self.index.add(vectors)

    def search(self, queries: Sequence[Any] | NDArray[Any], k: int) -> Ranking:
        """k good rows of each query [n, d], as `Vectors.search` gives the best."""
        scores, rows = self.index.search(_matrix(queries, self.d), k)
        return rows, scores


def _matrix(queries: Sequence[Any] | NDArray[Any], d: int) -> NDArray[Any]:
    """Queries as float32 [n, d].

    Raises:
        ConfigError: they are no finite vectors of the index's dimension.
    """
    try:
        matrix = np.ascontiguousarray(queries, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"queries are vectors of {d} numbers each: {error}") from error
    if matrix.ndim != 2 or matrix.shape[1] != d or not np.isfinite(matrix).all():
        raise ConfigError(f"queries are finite vectors of {d} numbers; these have the shape {matrix.shape}")
    return matrix
