"""Documents and their passages as columns of bytes: what an index holds of a corpus, and how it takes in new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from draftverify import ConfigError
from draftverify_retrieval.documents import Document, DocumentSource, LinesRead
from draftverify_retrieval.index import DIGEST, digest_of, rows_before, runs_of
from draftverify_retrieval.passages import Passage, indexed
from draftverify_retrieval.progress import progress
from draftverify_retrieval.splitting import Splitting, joined, pieces

_AT_ONCE = 1024
"""Documents that are read between two words of how far it has come."""


class KeptDocuments(msgspec.Struct, frozen=True, dict=True):
    """Documents and their passages, in order. A run of documents is a run of each column, and copied as it is.

    Args:
        ids: of the documents.
        digests: of the documents, one after the other.
        counts: int64 [documents], how many passages each has.
        bad: why a document has none, by id.
        texts: of what is indexed of each passage the digest, one after the other.
        lengths: int64 [passages], the bytes of each passage,
        passages: and these, one after the other: each a mapping in msgpack.
        read: how far the .jsonl file was read that they stand in.
    """

    ids: list[str]
    digests: memoryview
    counts: memoryview
    bad: dict[str, str]
    texts: memoryview
    lengths: memoryview
    passages: memoryview
    read: LinesRead = LinesRead()

    @classmethod
    def joined(cls, parts: Sequence[KeptDocuments], read: LinesRead) -> KeptDocuments:
        """The documents of all parts, read so far."""
        columns = {
            name: memoryview(b"".join([getattr(part, name) for part in parts]))
            for name in ("digests", "counts", "texts", "lengths", "passages")
        }
        bad = {id: problem for part in parts for id, problem in part.bad.items()}
        return cls(ids=[id for part in parts for id in part.ids], bad=bad, read=read, **columns)

    @classmethod
    def split(cls, source: DocumentSource, places: range, splitting: Splitting) -> KeptDocuments:
        """The documents of these places, read and split."""
        ids, bad, counts = list[str](), dict[str, str](), list[int]()
        passages, texts = list[bytes](), list[bytes]()
        for place in places:
            document = source.read(place)
            split = [] if document.problem else _split(document, splitting)
            ids.append(document.id)
            counts.append(len(split))
            if not split:
                bad[document.id] = document.problem or "there is no text in it"
            passages += [msgspec.msgpack.encode(passage) for passage in split]
            texts += [digest_of(indexed(passage)) for passage in split]
        return cls(
            ids=ids,
            digests=memoryview(b"".join(source.digests[places.start : places.stop])),
            counts=memoryview(np.array(counts, dtype=np.int64).tobytes()),
            bad=bad,
            texts=memoryview(b"".join(texts)),
            lengths=memoryview(np.array([len(passage) for passage in passages], dtype=np.int64).tobytes()),
            passages=memoryview(b"".join(passages)),
        )

    def __len__(self) -> int:
        return len(self.lengths) // 8

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """Where each document's rows begin, and where the last one's end."""
        return _ends(self.counts)

    @cached_property
    def _bytes(self) -> NDArray[np.int64]:
        """Where each passage begins, and where the last one ends."""
        return _ends(self.lengths)

    def passage(self, row: int) -> Passage:
        """The passage of a row."""
        if not 0 <= row < len(self):
            raise IndexError(f"there is no row {row}; there are {len(self)}")
        passage: Passage = msgspec.msgpack.decode(self.passages[self._bytes[row] : self._bytes[row + 1]])
        return passage

    def run(self, start: int, end: int) -> KeptDocuments:
        """Documents that follow one another."""
        first, last = self._rows[start], self._rows[end]
        ids = self.ids[start:end]
        return KeptDocuments(
            ids=ids,
            digests=self.digests[DIGEST * start : DIGEST * end],
            counts=self.counts[8 * start : 8 * end],
            bad={id: self.bad[id] for id in ids if id in self.bad} if self.bad else {},
            texts=self.texts[DIGEST * first : DIGEST * last],
            lengths=self.lengths[8 * first : 8 * last],
            passages=self.passages[self._bytes[first] : self._bytes[last]],
        )


def _ends(counts: memoryview) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.frombuffer(counts, dtype=np.int64))])


def read_documents(
    source: DocumentSource, earlier: KeptDocuments, splitting: Splitting, path: Path
) -> KeptDocuments:
    """The documents that are there now; those that were known are not read again.

    Raises:
        ConfigError: an id stands twice.
    """
    known, later = earlier.run(0, source.kept), earlier.run(source.kept, len(earlier.ids))
    digests = b"".join(source.digests)
    if later.digests == digests:
        return earlier
    places = rows_before(bytes(later.digests), digests)
    # A bad line of JSON is called by its number, which other lines may have changed.
    places[np.isin(places, [place for place, id in enumerate(later.ids) if id in later.bad])] = -1
    parts = [known]
    with progress(f"splitting documents of {path.name}", int((places < 0).sum())) as advance:
        for start, end, place in runs_of(places):
            if place >= 0:
                parts.append(later.run(place, place + end - start))
                continue
            for some in range(start, end, _AT_ONCE):
                run = range(some, min(end, some + _AT_ONCE))
                parts.append(KeptDocuments.split(source, run, splitting))
                advance(len(run))
    documents = KeptDocuments.joined(parts, source.lines)
    if len(set(documents.ids)) < len(documents.ids):
        twice = next(id for id, times in Counter(documents.ids).items() if times > 1)
        raise ConfigError(f"two documents have the id {twice!r}; ids must differ", where=str(path))
    return documents


def _split(document: Document, splitting: Splitting) -> list[Passage]:
    times: dict[str, int] = {}
    passages = []
    for start, end, heading in pieces(document.text, splitting, markdown=document.markdown):
        text, heading = document.text[start:end], joined(document.heading, heading)
        id = document.id
        if splitting.by != "document":
            id += "#" + digest_of(f"{heading}\n{text}").hex()[:10]
            times[id] = times.get(id, 0) + 1
            id += f".{times[id]}" if times[id] > 1 else ""
        passage = Passage(id=id, text=text, document=document.id, start=start, end=end)
        if heading:
            passage["heading"] = heading
        if document.metadata:
            passage["metadata"] = document.metadata
        passages.append(passage)
    return passages
