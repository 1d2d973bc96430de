"""The terms of every row of a corpus, by number; kept in its index, where only new rows are read for terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from draftverify_retrieval.index import IndexDirectory, decoded, digest_of, rows_before
from draftverify_retrieval.progress import progress
from draftverify_retrieval.words import TermExtractor

__all__ = ["Terms", "part_of", "terms_of"]


class Terms(msgspec.Struct, frozen=True):
    """The terms of every row, by number.

    Args:
        vocabulary: the number of each term.
        numbers: int32, the terms of all rows one after the other.
        ends: int64 [rows], where each row's terms end.
    """

    vocabulary: Mapping[str, int]
    numbers: NDArray[np.int32]
    ends: NDArray[np.int64]

    def row(self, row: int) -> NDArray[np.int32]:
        """The numbers of a row's terms, in order."""
        return self.numbers[self.ends[row - 1] if row else 0 : self.ends[row]]

    def rows(self) -> list[list[int]]:
        """All rows."""
        return [row.tolist() for row in np.split(self.numbers, self.ends[:-1])]


class _KeptTerms(msgspec.Struct):
    """Terms as the index keeps them, with the digests of the rows that they are of."""

    rows: bytes
    vocabulary: list[str]
    numbers: bytes
    ends: bytes

    def terms(self) -> Terms:
        return Terms(
            {term: number for number, term in enumerate(self.vocabulary)},
            np.frombuffer(self.numbers, dtype=np.int32),
            np.frombuffer(self.ends, dtype=np.int64),
        )


def part_of(extractor: TermExtractor) -> str:
    """The name under which the index keeps these words' terms."""
    return f"terms.{digest_of(extractor.identity).hex()[:8]}"


def terms_of(
    extractor: TermExtractor, texts: Sequence[str], rows: bytes, directory: IndexDirectory | None
) -> Terms:
    """The terms of every row.

    Args:
        extractor: makes terms.
        texts: of the rows.
        rows: their digests, one after the other.
        directory: where the terms of rows may lie already, and these are put; held by the caller.
    """
    name = part_of(extractor)
    part = directory.load(name) if directory is not None else None
    earlier = decoded(part[1], _KeptTerms, name) if part is not None else _KeptTerms(b"", [], b"", b"")
    if part is not None and earlier.rows == rows:
        return earlier.terms()
    terms = _made(extractor, texts, earlier.terms(), rows_before(earlier.rows, rows))
    if directory is not None:
        content = _KeptTerms(rows, list(terms.vocabulary), terms.numbers.tobytes(), terms.ends.tobytes())
        directory.commit({name: ({"words": extractor.identity}, msgspec.msgpack.encode(content))})
    return terms


def _made(extractor: TermExtractor, texts: Sequence[str], old: Terms, places: NDArray[np.int64]) -> Terms:
    vocabulary = dict(old.vocabulary)
    numbers = []
    with progress("reading passages for terms", int((places < 0).sum())) as advance:
        for text, place in zip(texts, places.tolist(), strict=True):
            if place >= 0:
                numbers.append(old.row(place))
                continue
            row = [vocabulary.setdefault(term, len(vocabulary)) for term in extractor.terms(text)]
            numbers.append(np.array(row, dtype=np.int32))
            advance(1)
    ends = np.cumsum([len(row) for row in numbers], dtype=np.int64)
    # Terms that stand nowhere any more are dropped, so that the index is the one that would be made anew.
    used, renumbered = np.unique(np.concatenate(numbers), return_inverse=True)
    names = list(vocabulary)
    return Terms({names[n]: i for i, n in enumerate(used.tolist())}, renumbered.astype(np.int32), ends)
