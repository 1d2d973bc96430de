"""The dense drafter: passages and questions as vectors of one encoder, searched by faiss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from draftverify import ConfigError, Context, ContractError
from draftverify_llm import need, question_text
from draftverify_retrieval.index import DIGEST, IndexDirectory, decoded, held, rows_before
from draftverify_retrieval.passages import Passages, indexed
from draftverify_retrieval.progress import progress
from draftverify_retrieval.ranking import Ranking, RankingDrafter, nothing

Structure: TypeAlias = Literal["flat", "hnsw", "ivf"]

_VECTORS = "vectors"
_AT_ONCE = 256
KEEP_EVERY = 60.0
"""Seconds of encoding after which the index keeps what has come."""

_BREADTH = {"flat": 0, "hnsw": 64, "ivf": 16}


class SentenceEncoder(Protocol):
    """What `Dense` asks of an encoder.

    Attributes:
        dimension: the length of a vector.
        identity: the same for encoders that give the same vectors.
    """

    @property
    def dimension(self) -> int: ...

    @property
    def identity(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of length 1, float32 [n, dimension]."""
        ...


@dataclass(eq=False)
class Dense(RankingDrafter[Any]):
    """Drafts passages by the inner product of their vectors with the question's.

    A block goes on where the last one ended. A question that is white space finds nothing. With an index directory of
    the corpus the vectors are kept there: only passages that are new are encoded, and another encoder is refused.

    Args:
        corpus: the passages.
        encoder: makes the vectors.
        index: "flat" looks at every vector and is exact; "hnsw" and "ivf" are approximate, pay above some 100,000
            passages, and may find fewer than there are.
        breadth: how far an approximate index looks: efSearch of HNSW (64 when absent), nprobe of IVF (16).

    References:
        faiss: Douze et al. 2024, arXiv:2401.08281. HNSW: Malkov and Yashunin, TPAMI 2020.
    """

    corpus: Passages
    encoder: SentenceEncoder
    index: Structure = "flat"
    breadth: int | None = None

    @property
    def faiss(self) -> Any:
        """The faiss index, a row each."""
        return self._get()

    def rank(self, contexts: Sequence[Context], k: int) -> Ranking:
        """The k best rows for each task."""
        return self.search([question_text(context.task) for context in contexts], k)

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        """The k best rows of each query, as `Retriever` says."""
        index = self._get()
        lines = [line for line, query in enumerate(queries) if query.strip()]
        if not lines or not k:
            return nothing(len(queries), k)
        vectors = _encoded(self.encoder, [queries[line] for line in lines])
        nearest = _nearest(index, vectors, min(k, index.ntotal))
        if nearest[0].shape == (len(queries), k):
            return nearest
        rows, scores = nothing(len(queries), k)
        rows[lines, : nearest[0].shape[1]], scores[lines, : nearest[1].shape[1]] = nearest
        return rows, scores

    def _members(self) -> list[Any]:
        return [self.corpus, self.encoder]

    def _make(self) -> Any:
        """The index, of passages that are encoded where they are not yet.

        Raises:
            ConfigError: the corpus cannot be read, its index holds another encoder's vectors, or `breadth` is wrong.
            ContractError: the encoder gives something else than vectors of its dimension.
            DamagedIndexError: a file of the corpus's index is not what was written.
            ResourceError: a package or the encoder's weights are missing.
        """
        need("faiss", doing="dense retrieval", extra="retrieval")
        import faiss

        breadth = _BREADTH[self.index] if self.breadth is None else self.breadth
        if self.breadth is not None and (self.index == "flat" or self.breadth < 1):
            raise ConfigError(
                f"breadth is {self.breadth}; it is for hnsw and ivf, at least 1 (a flat index looks at everything)",
                path="breadth",
            )
        with held(self.corpus) as directory:
            rows: bytes = self.corpus.digests if directory is not None else b""  # type: ignore[attr-defined]
            vectors = self._vectors(rows, directory)
            index = _built(self.index, vectors, rows, directory)
        if self.index == "hnsw":
            faiss.downcast_index(index.index).hnsw.efSearch = breadth
        elif self.index == "ivf":
            lists = faiss.downcast_index(index.index)
            lists.nprobe = min(breadth, lists.nlist)
        return index

    def _vectors(self, rows: bytes, directory: IndexDirectory | None) -> NDArray[np.float32]:
        """The vector of every row; those that the index holds are not made again."""
        about = {"encoder": self.encoder.identity, "dimension": self.encoder.dimension}
        part = directory.load(_VECTORS) if directory is not None else None
        if part is not None and directory is not None and part[0] != about:
            raise ConfigError(
                f"this index holds vectors of the encoder {part[0]['encoder']} ({part[0]['dimension']} dimensions), "
                f"and {about['encoder']} ({about['dimension']}) is asked for; vectors of two encoders cannot be "
                "compared. Give this encoder an index directory of its own, or delete this one",
                where=str(directory.path),
            )
        earlier = _Keyed(b"", memoryview(b"")) if part is None else decoded(part[1], _Keyed, _VECTORS)
        old = np.frombuffer(earlier.content, np.float32).reshape(-1, self.encoder.dimension)
        if part is not None and earlier.rows == rows:
            return old
        places = rows_before(earlier.rows, rows) if rows else np.full(len(self.corpus), -1)
        vectors = np.empty((len(places), self.encoder.dimension), dtype=np.float32)
        vectors[places >= 0] = old[places[places >= 0]]
        new = np.flatnonzero(places < 0)
        digests = np.frombuffer(rows, dtype=np.uint8).reshape(-1, DIGEST)

        def keep(those: NDArray[np.bool_] | slice) -> None:
            if directory is not None:
                kept = _Keyed(digests[those].tobytes(), memoryview(vectors[those].ravel()).cast("B"))
                directory.commit({_VECTORS: (about, msgspec.msgpack.encode(kept))})

        saved_at = perf_counter()
        with progress("encoding passages", len(new)) as advance:
            for start in range(0, len(new), _AT_ONCE):
                # Who is interrupted after hours goes on from here.
                if perf_counter() - saved_at > KEEP_EVERY:
                    keep(~np.isin(np.arange(len(places)), new[start:]))
                    saved_at = perf_counter()
                some = new[start : start + _AT_ONCE]
                texts = [indexed(self.corpus.passage(row)) for row in some.tolist()]
                vectors[some] = _encoded(self.encoder, texts)
                advance(len(some))
        keep(slice(None))
        return vectors


class _Keyed(msgspec.Struct, frozen=True):
    """What the index keeps of rows: their digests, one after the other, and what was made of them."""

    rows: bytes
    content: memoryview


def _encoded(encoder: SentenceEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    vectors = np.ascontiguousarray(encoder.encode(texts), dtype=np.float32)
    # The sum of squares is finite when they all are, since their sum is 1 a row; it takes a quarter of looking at each.
    if vectors.shape != (len(texts), encoder.dimension) or not math.isfinite(np.vdot(vectors, vectors)):
        raise ContractError(
            f"the encoder {type(encoder).__name__} gave {vectors.shape} for {len(texts)} texts; finite numbers "
            f"[{len(texts)}, {encoder.dimension}] are needed"
        )
    return vectors


def _built(
    structure: Structure, vectors: NDArray[np.float32], rows: bytes, directory: IndexDirectory | None
) -> Any:
    """faiss's index of these vectors; an approximate one is kept, since making it takes long, and takes in new rows.

    It is made anew where rows are gone, or where it has twice the rows that an `ivf` was trained on.
    """
    import faiss

    count, dimension = vectors.shape
    if structure == "flat":
        index: Any = faiss.IndexFlatIP(dimension)
        index.add(vectors)
        return index
    part = directory.load(structure) if directory is not None else None
    order = np.zeros(0, dtype=np.int64)
    made_of = count
    if part is not None:
        kept = decoded(part[1], _Keyed, structure)
        before, made_of = rows_before(kept.rows, rows), part[0]["made of"]
        order = np.full(len(kept.rows) // DIGEST, -1)
        order[before[before >= 0]] = np.flatnonzero(before >= 0)
        if (order < 0).any() or (structure == "ivf" and count > 2 * made_of):
            order, made_of = order[:0], count
    index = (
        faiss.deserialize_index(np.frombuffer(kept.content, dtype=np.uint8))
        if len(order)
        else _empty(structure, count, dimension)
    )
    new = np.setdiff1d(np.arange(count), order)
    threads = faiss.omp_get_max_threads()
    # One thread: the graph and the lists of many depend on who came first, and every process is to search alike.
    faiss.omp_set_num_threads(1)
    try:
        with progress(f"building the {structure} index", len(new)) as advance:
            if not index.is_trained:
                index.train(vectors)
            for start in range(0, len(new), 4096):
                some = new[start : start + 4096]
                index.add_with_ids(vectors[some], some)
                advance(len(some))
    finally:
        faiss.omp_set_num_threads(threads)
    order = np.concatenate([order, new])
    if directory is not None and len(new):
        digests = np.frombuffer(rows, dtype=np.uint8).reshape(-1, DIGEST)[order]
        entry = _Keyed(digests.tobytes(), memoryview(faiss.serialize_index(index)))
        directory.commit({structure: ({"made of": made_of}, msgspec.msgpack.encode(entry))})
    faiss.copy_array_to_vector(order, index.id_map)
    return index


def _empty(structure: Structure, count: int, dimension: int) -> Any:
    """An approximate index for so many rows."""
    import faiss

    if structure == "hnsw":
        index: Any = faiss.IndexHNSWFlat(dimension, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = 200
    else:
        # 4 √n lists (faiss's guideline), and no fewer than the 39 vectors for each that its training asks for.
        lists = max(1, min(int(4 * math.sqrt(count)), count // 39))
        flat = faiss.IndexFlatIP(dimension)
        index = faiss.IndexIVFFlat(flat, dimension, lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = 1
    return faiss.IndexIDMap(index)


def _nearest(index: Any, vectors: NDArray[np.float32], k: int) -> Ranking:
    """The k rows of the largest products, equal ones by row; where fewer are found, row −1 and −inf.

    faiss keeps any of several equal ones where k cuts them, so one more than k is asked for, and more while the last
    ones are equal.
    """
    wide = min(k + 1, index.ntotal)
    scores, rows = index.search(vectors, wide)
    if rows[:, -1].min() < 0:
        scores[rows < 0] = -np.inf
    equal = scores[:, 1:] == scores[:, :-1]
    if not equal.any():
        return rows[:, :k], scores[:, :k]
    while wide < index.ntotal and (cut := (scores[:, -1] == scores[:, k - 1]) & (rows[:, -1] >= 0)).any():
        extra = min(wide, index.ntotal - wide)
        wide += extra
        scores = np.pad(scores, ((0, 0), (0, extra)), constant_values=-np.inf)
        rows = np.pad(rows, ((0, 0), (0, extra)), constant_values=-1)
        scores[cut], rows[cut] = index.search(vectors[cut], wide)
        scores[rows < 0] = -np.inf
    order = np.lexsort((rows, -scores), axis=1)[:, :k]
    return np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1)
