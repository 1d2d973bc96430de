"""A corpus: documents split into passages with ids that stay, kept in a directory that opens without new work."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from draftverify import ConfigError
from draftverify_retrieval.documents import BadDocumentError, Document, documents_at
from draftverify_retrieval.index import IndexDirectory, decoded, digest_of
from draftverify_retrieval.passages import Passage
from draftverify_retrieval.progress import progress
from draftverify_retrieval.shared import Shared
from draftverify_retrieval.splitting import Splitting, Unit, joined, pieces

__all__ = ["Changes", "Corpus"]

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


class _Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    id: str
    start: int
    end: int
    heading: str
    text: str


class _Split(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A document as the index keeps it."""

    id: str
    digest: bytes
    pieces: list[_Piece]
    metadata: dict[str, Any] = {}
    problem: str = ""


class Corpus(Shared["_OpenCorpus"]):
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
        return self._get().changes

    def open(self) -> None:
        """Read the documents that are new or changed; nothing to do when it is open.

        Raises:
            ConfigError: an id stands twice, nothing is there, the index was made by another splitting, or a document is
                bad where that is an error.
            DamagedIndexError: a file of the index is not what was written.
            ResourceError: the index cannot be written, or a package is missing.
        """
        super().open()

    def __len__(self) -> int:
        return len(self._get().rows)

    def passage(self, row: int) -> Passage:
        """The passage of a row, 0 … len − 1."""
        document, piece = self._get().rows[row]
        passage = Passage(
            id=piece.id, text=piece.text, document=document.id, start=piece.start, end=piece.end
        )
        if piece.heading:
            passage["heading"] = piece.heading
        if document.metadata:
            passage["metadata"] = document.metadata
        return passage

    def texts(self) -> Sequence[str]:
        """What is indexed of each row: its heading, where it has one, and its text below."""
        return [
            f"{piece.heading}\n{piece.text}" if piece.heading else piece.text for _, piece in self._get().rows
        ]

    def _make(self) -> _OpenCorpus:
        tokenizer = str(self.tokenizer) if self.split == "token" else ""
        splitting = Splitting(self.split, self.size, self.overlap, tokenizer)
        splitting.check()
        directory = self.kept
        with directory.locked() if directory is not None else nullcontext():
            earlier = self._before(directory, splitting) if directory is not None else {}
            documents = _unique(documents_at(self.path, self.fields), self.path)
            opened = _read(documents, earlier, splitting, self.path)
            changes = opened.changes
            if directory is not None and (changes.added or changes.changed or changes.removed):
                content = msgspec.msgpack.encode(opened.documents)
                about = {"splitting": splitting.identity, "bad documents": dict(changes.bad)}
                directory.commit({_PART: (about, content)})
        if directory is not None:
            log.info(
                "%s: %d documents added, %d changed, %d removed, %d as they were",
                directory.path, len(changes.added), len(changes.changed), len(changes.removed), changes.unchanged,
            )  # fmt: skip
        self._report_bad(opened)
        return opened

    def _report_bad(self, opened: _OpenCorpus) -> None:
        """Say which documents have no passage; raise where that is an error, or none has one."""
        bad = opened.changes.bad
        lines = [f"{id}: {problem}" for id, problem in list(bad.items())[:_LISTED]]
        lines += [f"and {len(bad) - _LISTED} more"] if len(bad) > _LISTED else []
        listing = f"{len(bad)} of {len(opened.documents)} documents cannot be used\n  " + "\n  ".join(lines)
        if not opened.documents or not opened.rows:
            problem = listing if bad else "no document is here"
            raise ConfigError(f"a corpus needs at least one passage, and {problem}", where=str(self.path))
        if bad and self.on_bad_document == "error":
            raise BadDocumentError(listing, where=str(self.path))
        if bad:
            log.warning("%s: %s", self.path, listing)

    def _before(self, directory: IndexDirectory, splitting: Splitting) -> dict[str, _Split]:
        """The documents that the index holds."""
        directory.check()
        part = directory.load(_PART)
        if part is None:
            return {}
        about, content = part
        if about.get("splitting") != splitting.identity:
            raise ConfigError(
                f"this index was split by {about.get('splitting')}, and {splitting.identity} is asked for; give each "
                "splitting an index directory of its own, or delete this one",
                where=str(directory.path),
            )
        documents = decoded(content, list[_Split], _PART)
        return {document.id: document for document in documents}


class _OpenCorpus:
    """An open corpus: its documents in order, and its rows."""

    def __init__(self, documents: list[_Split], changes: Changes) -> None:
        self.documents = documents
        self.changes = changes
        self.rows = [(document, piece) for document in documents for piece in document.pieces]


def _unique(documents: Iterable[Document], path: Path) -> Iterator[Document]:
    ids: set[str] = set()
    for document in documents:
        if document.id in ids:
            raise ConfigError(f"two documents have the id {document.id!r}; ids must differ", where=str(path))
        ids.add(document.id)
        yield document


def _read(
    documents: Iterable[Document], earlier: Mapping[str, _Split], splitting: Splitting, path: Path
) -> _OpenCorpus:
    present = list(documents)
    new = [
        document
        for document in present
        if document.id not in earlier or earlier[document.id].digest != document.digest
    ]
    split: dict[str, _Split] = {}
    with progress(f"splitting documents of {path.name}", len(new)) as advance:
        for document in new:
            pieces_of, problem = list[_Piece](), ""
            try:
                pieces_of = _split(document, splitting)
                problem = "" if pieces_of else "there is no text in it"
            except BadDocumentError as error:
                problem = error.message
            split[document.id] = _Split(
                document.id, document.digest, pieces_of, dict(document.metadata), problem
            )
            advance(1)
    ids = {document.id for document in present}
    documents_now = [split.get(document.id) or earlier[document.id] for document in present]
    changes = Changes(
        tuple(document.id for document in new if document.id not in earlier),
        tuple(document.id for document in new if document.id in earlier),
        tuple(id for id in earlier if id not in ids),
        len(present) - len(new),
        {document.id: document.problem for document in documents_now if document.problem},
    )
    return _OpenCorpus(documents_now, changes)


def _split(document: Document, splitting: Splitting) -> list[_Piece]:
    text = document.read()
    times: dict[str, int] = {}
    split = []
    for start, end, heading in pieces(text, splitting, markdown=document.markdown):
        content, heading = text[start:end], joined(document.heading, heading)
        id = document.id
        if splitting.by != "document":
            id += "#" + digest_of(f"{heading}\n{content}").hex()[:10]
            times[id] = times.get(id, 0) + 1
            id += f".{times[id]}" if times[id] > 1 else ""
        split.append(_Piece(id, start, end, heading, content))
    return split
