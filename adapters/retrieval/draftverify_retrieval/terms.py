"""The terms of every row of a corpus, by number; kept in its index, where only new rows are read for terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from draftverify_retrieval.index import IndexDirectory, decoded, digest_of, rows_before
from draftverify_retrieval.progress import progress
from draftverify_retrieval.words import Words

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
        return [each.tolist() for each in np.split(self.numbers, self.ends[:-1])]


class _Kept(msgspec.Struct):
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


def part_of(words: Words) -> str:
    """The name under which the index keeps these words' terms."""
    return f"terms.{digest_of(words.identity).hex()[:8]}"


def terms_of(words: Words, texts: Sequence[str], rows: bytes, kept: IndexDirectory | None) -> Terms:
    """The terms of every row.

    Args:
        words: makes terms.
        texts: of the rows.
        rows: their digests, one after the other.
        kept: where the terms of rows may lie already, and these are put; held by the caller.
    """
    name = part_of(words)
    found = kept.load(name) if kept is not None else None
    before = decoded(found[1], _Kept, name) if found is not None else _Kept(b"", [], b"", b"")
    if found is not None and before.rows == rows:
        return before.terms()
    made = _made(words, texts, before.terms(), rows_before(before.rows, rows))
    if kept is not None:
        content = _Kept(rows, list(made.vocabulary), made.numbers.tobytes(), made.ends.tobytes())
        kept.commit({name: ({"words": words.identity}, msgspec.msgpack.encode(content))})
    return made


def _made(words: Words, texts: Sequence[str], old: Terms, places: NDArray[np.int64]) -> Terms:
    vocabulary = dict(old.vocabulary)
    numbers = []
    with progress("reading passages for terms", int((places < 0).sum())) as advance:
        for text, place in zip(texts, places.tolist(), strict=True):
            if place >= 0:
                numbers.append(old.row(place))
                continue
            each = [vocabulary.setdefault(term, len(vocabulary)) for term in words.terms(text)]
            numbers.append(np.array(each, dtype=np.int32))
            advance(1)
    ends = np.cumsum([len(each) for each in numbers], dtype=np.int64)
    # Terms that stand nowhere any more are dropped, so that the index is the one that would be made anew.
    used, renumbered = np.unique(np.concatenate(numbers), return_inverse=True)
    names = list(vocabulary)
    return Terms({names[n]: i for i, n in enumerate(used.tolist())}, renumbered.astype(np.int32), ends)
