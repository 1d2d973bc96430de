"""A corpus: documents split into passages with ids that stay, kept in a directory that opens without new work."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

import msgspec
import numpy as np

from draftverify import ConfigError
from draftverify_llm import Shared
from draftverify_retrieval.documents import BadDocumentError, LinesRead, documents_at
from draftverify_retrieval.index import IndexDirectory, decoded, held, rows_before
from draftverify_retrieval.kept_documents import KeptDocuments, read_documents
from draftverify_retrieval.passages import Passage, indexed
from draftverify_retrieval.splitting import Splitting, Unit

log = logging.getLogger("draftverify.retrieval")

_PART = "passages"
_LISTED = 20
"""Bad documents that are named; the index names all."""


class Changes(msgspec.Struct, frozen=True):
    """What opening a corpus found against its index: the ids of documents.

    `bad` are those that are there and have no passage, each with the reason; they are among the others too.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int
    bad: Mapping[str, str]


class Corpus(Shared["tuple[KeptDocuments, Changes]"]):
    """Passages of documents, by row, in the order of the documents.

    A passage's id is its document's and a digest of what it says ("guide.md#5c1f0a9b7d"; a second one that says the
    same ends in ".2"), so it stays while its words do, whatever is written elsewhere. Of documents that are not split
    (`split: document`) it is the document's own.

    With an `index` the passages lie in that directory: opening it again splits only the documents whose content
    changed. What retrievers make of the passages lies there too. Without one all is in memory.

    Args:
        path: a .jsonl file with a document a line; or a directory of .txt, .md, .html, .rst, .docx and .pdf files
            (hidden ones are left out), or one such file. A document's id is the field `id`, or the file's path in the
            directory. Text is UTF-8. HTML, RST and DOCX are read as Markdown, so that no passage crosses a heading.
        split: what a passage is made of: a document's paragraphs, sentences or words ("window"), whole words of so many
            tokens ("token"), or all of it.
        size: how many in a passage; 1 when absent, 100 words of a window, 200 tokens.
        overlap: how many of them a passage shares with the one before.
        fields: of a .jsonl file, which of its fields are the `id`, the `text`, the `heading` and the `metadata` (an
            object, by which `retrieval.filtered` chooses), where they have other names, e.g. {id: _id, heading: title}.
        index: a directory for passages, tokens and vectors; made when it is not there.
        on_bad_document: what becomes of a document that cannot be read, or has no text (a scan): "skip" leaves it out,
            and says so in the log, in the index's manifest and in `changes`; "error" refuses the corpus, once all of it
            is read.
        tokenizer: of `split: token`, the encoder whose tokens are counted: a catalogue name, a directory or a hub id.
    """

    writes: ClassVar[frozenset[str]] = frozenset({"index"})

    def __init__(
        self,
        path: Path,
        split: Unit = "paragraph",
        size: int | None = None,
        overlap: int = 0,
        fields: Mapping[str, str] = {},
        index: Path | None = None,
        on_bad_document: Literal["skip", "error"] = "skip",
        tokenizer: str | Path = "all-minilm-l6-v2",
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self.split = split
        self.size = size
        self.overlap = overlap
        self.fields = fields
        self.index = None if index is None else Path(index)
        self.on_bad_document = on_bad_document
        self.tokenizer = tokenizer

    @property
    def kept(self) -> IndexDirectory | None:
        """The index directory, where retrievers keep what they made of the passages."""
        return IndexDirectory(self.index) if self.index is not None else None

    @property
    def changes(self) -> Changes:
        """What opening it found; without an index every document is an added one."""
        return self._get()[1]

    def open(self) -> None:
        """Read the documents that are new or changed; nothing to do when it is open.

        Raises:
            ConfigError: an id stands twice, nothing is there, the index was made by another splitting, or a document is
                bad where that is an error.
            DamagedIndexError: a file of the index is not what was written.
            ResourceError: the index cannot be written, or a package is missing.
        """
        super().open()

    @property
    def digests(self) -> bytes:
        """Of what is indexed of each row, one after the other."""
        return bytes(self._get()[0].texts)

    def __len__(self) -> int:
        return len(self._get()[0])

    def passage(self, row: int) -> Passage:
        """The passage of a row, 0 … len − 1."""
        return self._get()[0].passage(row)

    def texts(self) -> Sequence[str]:
        """What is indexed of each row: its heading, where it has one, and its text below."""
        documents = self._get()[0]
        return [indexed(documents.passage(row)) for row in range(len(documents))]

    def _make(self) -> tuple[KeptDocuments, Changes]:
        tokenizer = str(self.tokenizer) if self.split == "token" else ""
        splitting = Splitting(self.split, self.size, self.overlap, tokenizer)
        splitting.check()
        with held(self) as directory:
            earlier = self._before(directory, splitting)
            source = documents_at(self.path, self.fields, earlier.read)
            documents = read_documents(source, earlier, splitting, self.path)
            changes = _changes(documents, earlier)
            if directory is not None and documents is not earlier:
                about = {"splitting": splitting.identity, "bad documents": documents.bad}
                directory.commit({_PART: (about, msgspec.msgpack.encode(documents))})
        if directory is not None:
            log.info(
                "%s: %d documents added, %d changed, %d removed, %d as they were",
                directory.path, len(changes.added), len(changes.changed), len(changes.removed), changes.unchanged,
            )  # fmt: skip
        self._report_bad(documents)
        return documents, changes

    def _report_bad(self, documents: KeptDocuments) -> None:
        """Say which documents have no passage; raise where that is an error, or none has one."""
        bad = documents.bad
        lines = [f"{id}: {problem}" for id, problem in list(bad.items())[:_LISTED]]
        lines += [f"and {len(bad) - _LISTED} more"] if len(bad) > _LISTED else []
        listing = f"{len(bad)} of {len(documents.ids)} documents cannot be used\n  " + "\n  ".join(lines)
        if not len(documents):
            problem = listing if bad else "no document is here"
            raise ConfigError(f"a corpus needs at least one passage, and {problem}", where=str(self.path))
        if bad and self.on_bad_document == "error":
            raise BadDocumentError(listing, where=str(self.path))
        if bad:
            log.warning("%s: %s", self.path, listing)

    def _before(self, directory: IndexDirectory | None, splitting: Splitting) -> KeptDocuments:
        """The documents that the index holds."""
        part = None
        if directory is not None:
            directory.check()
            part = directory.load(_PART)
        if part is None:
            return KeptDocuments.joined((), LinesRead())
        about, content = part
        if about.get("splitting") != splitting.identity:
            raise ConfigError(
                f"this index was split by {about.get('splitting')}, and {splitting.identity} is asked for; give each "
                "splitting an index directory of its own, or delete this one",
                where=str(self.index),
            )
        return decoded(content, KeptDocuments, _PART)


def _changes(documents: KeptDocuments, earlier: KeptDocuments) -> Changes:
    if documents is earlier:
        return Changes((), (), (), len(documents.ids), documents.bad)
    now, before = (bytes(side.digests) for side in (documents, earlier))
    # Dictionaries, which keep their order.
    new = dict.fromkeys(documents.ids[place] for place in np.flatnonzero(rows_before(before, now) < 0))
    gone = dict.fromkeys(earlier.ids[place] for place in np.flatnonzero(rows_before(now, before) < 0))
    return Changes(
        tuple(id for id in new if id not in gone),
        tuple(id for id in new if id in gone),
        tuple(id for id in gone if id not in new),
        len(documents.ids) - len(new),
        documents.bad,
    )
