"""Which terms stand in which rows of a corpus, and what they score by BM25; its index takes in new rows."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from draftverify_retrieval.index import decoded, digest_of, held, rows_before
from draftverify_retrieval.passages import Passages, indexed
from draftverify_retrieval.progress import progress
from draftverify_retrieval.words import TermExtractor


class Postings(msgspec.Struct, frozen=True):
    """The rows of each term, as the index keeps them.

    Args:
        digests: of the corpus's rows, one after the other; empty where nothing is kept.
        vocabulary: the terms.
        ends: int64 [terms], where each term's rows end in the next two columns.
        rows: int32, the rows term by term, in no order,
        times: int32, and how often the term stands there.
        lengths: int64 [rows], how many terms each row has, with repetitions.
    """

    digests: bytes
    vocabulary: list[str]
    ends: memoryview
    rows: memoryview
    times: memoryview
    lengths: memoryview

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """`ends`, `rows`, `times` and `lengths`."""
        return (
            np.frombuffer(self.ends, np.int64),
            np.frombuffer(self.rows, np.int32),
            np.frombuffer(self.times, np.int32),
            np.frombuffer(self.lengths, np.int64),
        )

    def frequencies(self) -> NDArray[np.int64]:
        """In how many rows each term stands [terms]."""
        return np.diff(np.frombuffer(self.ends, np.int64), prepend=0)


class Bm25Scores:
    """Lucene's BM25, to the bit as bm25s scores (Lù 2024, arXiv:2407.03618).

    bm25s scores all terms when its index is made. Every score depends on all rows, so here a term is scored when it is
    first asked for: a row that is added costs no scores.

    Args:
        postings: of all rows.
        k1, b: of BM25.
    """

    def __init__(self, postings: Postings, k1: float, b: float) -> None:
        self._numbers = {term: number for number, term in enumerate(postings.vocabulary)}
        self._ends, self._rows, self._times, lengths = postings.columns()
        self._norms = k1 * ((1 - b) + b * lengths / (lengths.mean() or 1.0))
        self._columns: dict[str, tuple[NDArray[np.intp], NDArray[np.float32]]] = {}

    def known(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms that stand somewhere."""
        return [term for term in terms if term in self._numbers]

    def scores(self, terms: Sequence[str] | Mapping[str, float]) -> NDArray[Any]:
        """Each row's score [rows], 0 where it has none of these known terms; a term counts as often as it is named, or
        by its weight.
        """
        scores = np.zeros(len(self._norms), dtype=np.float32)
        for term in terms:
            rows, column = self._column(term)
            np.add.at(
                scores, rows, np.float32(terms[term]) * column if isinstance(terms, Mapping) else column
            )
        return scores

    def _column(self, term: str) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """The rows of a term, and what it scores there."""
        column = self._columns.get(term)
        if column is None:
            number = self._numbers[term]
            place = slice(self._ends[number - 1] if number else 0, self._ends[number])
            rows, times = self._rows[place].astype(np.intp), self._times[place]
            idf = np.float32(log(1 + (len(self._norms) - len(rows) + 0.5) / (len(rows) + 0.5)))
            scores = idf.astype(np.float64) * (times / (self._norms[rows] + times))
            column = self._columns[term] = rows, scores.astype(np.float32)
        return column


def postings_of(extractor: TermExtractor, corpus: Passages) -> Postings:
    """The postings of a corpus; where it has an index, only rows that this does not hold are read.

    Args:
        extractor: makes terms.
        corpus: open.
    """
    name, nothing = f"terms.{digest_of(extractor.identity).hex()[:8]}", memoryview(b"")
    with held(corpus) as directory:
        part = directory.load(name) if directory is not None else None
        digests: bytes = corpus.digests if directory is not None else b""  # type: ignore[attr-defined]
        earlier = Postings(b"", [], *[nothing] * 4) if part is None else decoded(part[1], Postings, name)
        if part is not None and earlier.digests == digests:
            return earlier
        postings = _with_rows(earlier, extractor, corpus, digests)
        if directory is not None:
            directory.commit({name: ({"words": extractor.identity}, msgspec.msgpack.encode(postings))})
    return postings


def _with_rows(earlier: Postings, extractor: TermExtractor, corpus: Passages, digests: bytes) -> Postings:
    """The postings of the corpus's rows, made of those of earlier ones: each column is copied, and none is sorted."""
    ends, rows, times, lengths = earlier.columns()
    before = rows_before(earlier.digests, digests) if digests else np.full(len(corpus), -1)
    new, kept = np.flatnonzero(before < 0), np.flatnonzero(before >= 0)
    lengths_now = np.zeros(len(before), dtype=np.int64)
    lengths_now[kept] = lengths[before[kept]]
    rows_now = np.full(len(lengths), -1, dtype=np.int32)
    rows_now[before[kept]] = kept
    rows = rows_now[rows]
    frequencies = earlier.frequencies()
    if len(kept) < len(lengths):
        stays = rows >= 0
        frequencies = np.bincount(np.repeat(np.arange(len(ends)), frequencies)[stays], minlength=len(ends))
        rows, times = rows[stays], times[stays]
    terms = _TermNumbers(extractor, earlier.vocabulary)
    added, lengths_now[new] = _read(new, corpus, terms)
    ends = np.cumsum(np.pad(frequencies, (0, len(terms.vocabulary) - len(frequencies))))
    places = np.repeat(ends, np.diff(added.indptr))
    rows = np.insert(rows, places, new[added.indices])
    times = np.insert(times, places, added.data)
    ends = ends + added.indptr[1:]
    # Terms that stand nowhere any more are dropped.
    used = np.diff(ends, prepend=0) > 0
    vocabulary = [term for term, stands in zip(terms.vocabulary, used.tolist(), strict=True) if stands]
    columns = (ends[used], rows, times, lengths_now)
    return Postings(digests, vocabulary, *(memoryview(column).cast("B") for column in columns))


class _TermNumbers(dict[str, int]):
    """The number of each token's term, −1 of a stop word; a term that is new gets the next number.

    Stems and stop words are looked up once for each token, not each time that it stands somewhere.
    """

    def __init__(self, extractor: TermExtractor, vocabulary: Sequence[str]) -> None:
        self.extractor = extractor
        self.vocabulary = {term: number for number, term in enumerate(vocabulary)}

    def __missing__(self, token: str) -> int:
        term = self.extractor.term_of(token)
        number = -1 if term is None else self.vocabulary.setdefault(term, len(self.vocabulary))
        self[token] = number
        return number


def _read(rows: NDArray[np.int64], corpus: Passages, terms: _TermNumbers) -> tuple[Any, NDArray[np.int64]]:
    """How often each term stands in these rows, a sparse matrix [rows, terms] by columns; and the rows' lengths."""
    from scipy.sparse import csr_array

    ends, lengths, numbers, times = array("q", [0]), array("q"), array("i"), array("i")
    with progress("reading passages for terms", len(rows)) as advance:
        for row in rows.tolist():
            tokens = terms.extractor.tokens(indexed(corpus.passage(row)))
            counted = Counter(map(terms.__getitem__, tokens))
            lengths.append(len(tokens) - counted.pop(-1, 0))
            numbers.extend(counted)
            times.extend(counted.values())
            ends.append(len(numbers))
            advance(1)
    shape = (len(rows), len(terms.vocabulary))
    matrix = csr_array(
        tuple(np.frombuffer(column, column.typecode) for column in (times, numbers, ends)), shape=shape
    )
    return matrix.tocsc(), np.frombuffer(lengths, np.int64)
