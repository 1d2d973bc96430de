"""BM25 by bm25s: scores of all rows for terms, plain or weighted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from draftverify_retrieval.index import IndexDirectory, decoded, digest_of
from draftverify_retrieval.progress import progress
from draftverify_retrieval.terms import Terms

__all__ = ["Postings", "postings_of"]


class Postings:
    """What every term scores in every row is computed once (Lucene's BM25; Lù 2024, arXiv:2407.03618).

    Terms are those of the corpus, by number, and there is at least one.

    Args:
        data, indices, indptr: its matrix by columns, a term each: scores, rows, and where each column begins.
        rows: how many.
    """

    def __init__(self, data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], rows: int) -> None:
        import bm25s

        self.index = bm25s.BM25()
        self.index.scores = {"data": data, "indices": indices, "indptr": indptr, "num_docs": rows}
        self.index.nonoccurrence_array = None
        self._data, self._indices, self._indptr, self._rows = data, indices, indptr, rows

    def scores(self, terms: Sequence[int]) -> NDArray[Any]:
        """Each row's score [rows], 0 where it has none of the terms; a term counts as often as it is named."""
        scores: NDArray[Any] = self.index.get_scores_from_ids(terms)
        return scores

    def weighted(self, weights: Mapping[int, float]) -> NDArray[Any]:
        """The same for terms with weights."""
        scores = np.zeros(self._rows, dtype=np.float32)
        for term, weight in weights.items():
            column = slice(self._indptr[term], self._indptr[term + 1])
            scores[self._indices[column]] += np.float32(weight) * self._data[column]
        return scores


class _Matrix(msgspec.Struct):
    """bm25s's matrix as the index keeps it."""

    data: bytes
    indices: bytes
    indptr: bytes


def postings_of(terms: Terms, k1: float, b: float, part: str, directory: IndexDirectory | None) -> Postings:
    """The postings of these terms, from the index where it holds them.

    Args:
        terms: of every row.
        k1, b: of BM25.
        part: the name under which the index keeps the terms.
        directory: the index; held by the caller.
    """
    if not terms.vocabulary:
        return Postings(
            np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(1, np.int64), len(terms.ends)
        )
    # By the terms as they are numbered: the same rows may have been numbered otherwise when the matrix was made.
    numbered = terms.numbers.tobytes() + terms.ends.tobytes()
    name, about = f"{part}.bm25s.{digest_of(f'{k1} {b}').hex()[:8]}", {"terms": digest_of(numbered).hex()}
    part_content = directory.load(name) if directory is not None else None
    if part_content is not None and part_content[0] == about:
        matrix = decoded(part_content[1], _Matrix, name)
        arrays = (
            np.frombuffer(matrix.data, np.float32),
            np.frombuffer(matrix.indices, np.int32),
            np.frombuffer(matrix.indptr, np.int64),
        )
        return Postings(*arrays, len(terms.ends))
    import bm25s

    with progress("indexing passages by bm25s", len(terms.ends)):
        matrix_parts = bm25s.BM25(k1=k1, b=b).build_index_from_ids(
            list(terms.vocabulary.values()), terms.rows(), show_progress=False
        )
    data, indices, indptr = (matrix_parts[key] for key in ("data", "indices", "indptr"))
    if directory is not None:
        content = _Matrix(data.tobytes(), indices.tobytes(), indptr.tobytes())
        directory.commit({name: (about, msgspec.msgpack.encode(content))})
    return Postings(data, indices, indptr, len(terms.ends))
