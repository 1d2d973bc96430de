"""Where documents come from: lines of JSON, or files of several kinds; each known again by its digest."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from draftverify import ConfigError, ResourceError
from draftverify.plugins import did_you_mean
from draftverify_llm import need
from draftverify_retrieval.index import DIGEST, digest_of

log = logging.getLogger("draftverify.retrieval")


class BadDocumentError(ConfigError):
    """A document cannot be read as what it is."""


class Document(NamedTuple):
    """A document as it was read.

    Args:
        id: unique in its corpus.
        text: what it says.
        heading: above all of its passages.
        markdown: whether the text is Markdown.
        metadata: what is known of it beside its text, as JSON.
        problem: why nothing of it can be had; "" where it was read.
    """

    id: str
    text: str = ""
    heading: str = ""
    markdown: bool = False
    metadata: Mapping[str, Any] = {}
    problem: str = ""


class _DocumentFields(msgspec.Struct):
    """What is asked for of a line of JSON."""

    id: str | int
    text: str
    heading: str | None = None
    metadata: dict[str, Any] | None = None


FIELDS = _DocumentFields.__struct_fields__
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class LinesRead(msgspec.Struct, frozen=True):
    """How far a .jsonl file was read: what is still true of it when lines were added at its end.

    Args:
        length: in bytes, to the end of the last whole line.
        digest: of these.
        lines, documents: how many they are.
    """

    length: int = 0
    digest: str = ""
    lines: int = 0
    documents: int = 0


class DocumentSource(NamedTuple):
    """Documents that are read when they are not known yet.

    Args:
        digests: of each the digest of its id and of all that its passages depend on.
        read: the document of a place in that list.
        kept: how many documents, known from before, stand ahead of these.
        lines: how far a .jsonl file was read for all of them.
    """

    digests: Sequence[bytes]
    read: Callable[[int], Document]
    kept: int = 0
    lines: LinesRead = LinesRead()


def documents_at(path: Path, fields: Mapping[str, str], before: LinesRead) -> DocumentSource:
    """The documents of a JSONL file, in its order; of a directory or of another file, by path.

    Args:
        path: the file, or the directory.
        fields: of a JSONL file, the names of its fields.
        before: how far it was read the last time.

    Raises:
        ConfigError: nothing is there.
    """
    for name in fields:
        if name not in FIELDS:
            raise ConfigError(f"there is no {name!r}{did_you_mean(name, FIELDS)}", path=f"fields.{name}")
    if path.suffix == ".jsonl" and not path.is_dir():
        return _lines(path, fields, before)
    if fields:
        raise ConfigError(f"fields are for a .jsonl file, which {path} is not", path="fields")
    if not path.is_dir() and (path.suffix.lower() not in _KINDS or not path.exists()):
        problem = "this kind of file is not read" if path.exists() else "there is no such file or directory"
        raise ConfigError(
            f"{problem}; documents are a .jsonl file, or a directory of {', '.join(_KINDS)} files",
            where=str(path),
        )
    files = _files(path) if path.is_dir() else {path.name: path}
    documents = [_file(file, id) for id, file in files.items()]
    return DocumentSource([digest for digest, _ in documents], lambda place: documents[place][1]())


def _files(folder: Path) -> dict[str, Path]:
    """The files of a directory that can be read, by their paths in it; hidden ones are left out."""
    files = {}
    for file in sorted(folder.rglob("*"), key=lambda file: file.relative_to(folder).as_posix()):
        place = file.relative_to(folder)
        if file.is_file() and not any(part.startswith(".") for part in place.parts):
            if file.suffix.lower() in _KINDS:
                files[place.as_posix()] = file
            else:
                log.info("%s is left out: it is none of %s", file, ", ".join(_KINDS))
    return files


def _lines(path: Path, fields: Mapping[str, str], before: LinesRead) -> DocumentSource:
    names = {name: fields.get(name, name) for name in FIELDS}
    prefix = json.dumps(names).encode()
    try:
        content = memoryview(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=str(path)) from error
    digest = blake2b(prefix, digest_size=DIGEST)
    digest.update(content[: before.length])
    if digest.hexdigest() != before.digest:
        before, digest = LinesRead(), blake2b(prefix, digest_size=DIGEST)
    lines = bytes(content[before.length :]).split(b"\n")
    length = len(content) - len(lines[-1])
    digest.update(content[before.length : length])
    places = [place for place, line in enumerate(lines) if line.strip()]

    def read(number: int) -> Document:
        place = places[number]
        line = before.lines + place + 1
        try:
            return _document(lines[place].strip(), names, f"{path}:{line}")
        except BadDocumentError as error:
            return Document(f"{path.name}:{line}", problem=error.message)

    whole = before.documents + sum(place < len(lines) - 1 for place in places)
    now = LinesRead(length, digest.hexdigest(), before.lines + len(lines) - 1, whole)
    digests = [digest_of(prefix + lines[place].strip()) for place in places]
    return DocumentSource(digests, read, before.documents, now)


def _document(line: bytes, names: Mapping[str, str], where: str) -> Document:
    try:
        entry = _OBJECT.decode(line.removeprefix(b"\xef\xbb\xbf"))
    except ValueError:  # in words, and with what Python writes beyond JSON
        try:
            entry = msgspec.convert(json.loads(_decoded(line, where)), dict[str, Any])
        except (ValueError, RecursionError) as error:
            raise BadDocumentError(f"no JSON object: {error}", where=where) from error
    try:
        fields = {name: entry[key] for name, key in names.items() if key in entry}
        id, text, heading, metadata = msgspec.structs.astuple(msgspec.convert(fields, _DocumentFields))
    except msgspec.ValidationError as error:
        raise BadDocumentError(
            f"{error}; the line has {', '.join(entry) or 'nothing'} (say which is which as fields: {{text: …}})",
            where=where,
        ) from error
    document = Document(str(id), text, heading or "", metadata=metadata or {})
    if metadata or b"\\u" in line:  # nothing else can hold what is not written down
        try:
            msgspec.msgpack.encode(document)
        except OverflowError:
            raise BadDocumentError("a number of the metadata has more than 64 bits", where=where) from None
        except UnicodeEncodeError:
            raise BadDocumentError(
                "half of a surrogate pair is in it, which is no text", where=where
            ) from None
    return document


def _file(path: Path, id: str) -> tuple[bytes, Callable[[], Document]]:
    """A file's digest, and how it is read."""
    try:
        name = id.encode()
    except UnicodeEncodeError:
        problem = f"the name {id!r} is no UTF-8, and it is to be an id; rename the file"
        return digest_of(ascii(id)), partial(Document, ascii(id), problem=problem)
    try:
        digest = digest_of(name + b"\0" + path.read_bytes())
    except OSError as error:
        return digest_of(name), partial(Document, id, problem=f"cannot be read ({error.strerror})")

    def read() -> Document:
        # Not kept from above: the text of all files at once would be the whole corpus a second time.
        content, suffix = path.read_bytes(), path.suffix.lower()
        if digest_of(name + b"\0" + content) != digest:
            raise ConfigError("it was written to while it was read; open the corpus again", where=str(path))
        try:
            text = _KINDS[suffix](content, str(path)).encode("utf-8", "replace").decode()
        except BadDocumentError as error:
            return Document(id, problem=error.message)
        except (ConfigError, ResourceError):
            raise
        # A reader of files from anywhere raises whatever it trips over.
        except Exception as error:
            kind = suffix[1:].upper()
            return Document(id, problem=f"cannot be read as {kind} ({type(error).__name__}: {error})")
        return Document(id, text, markdown=suffix not in (".txt", ".pdf"))

    return digest, read


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadDocumentError(
            f"byte {error.start} (line {line}) is no UTF-8; save the file as UTF-8", where=where
        ) from None


def _pdf(content: bytes, where: str) -> str:
    """The text of a PDF's pages, with a blank line between them."""
    need("pypdf", doing=f"reading {where}", extra="retrieval")
    from pypdf import PdfReader

    return "\n\n".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)


def _html(content: bytes | str, where: str) -> str:
    """HTML as Markdown: headings, lists, tables and code; of links and pictures the words. Scripts are left out."""
    need("markdownify", doing=f"reading {where}", extra="retrieval")
    from markdownify import markdownify

    plain = dict.fromkeys(("escape_asterisks", "escape_underscores", "escape_misc"), False)
    text: str = markdownify(
        content, heading_style="ATX", strip=["a", "img", "b", "strong", "em", "i"], **plain
    )
    return text


def _docx(content: bytes, where: str) -> str:
    need("mammoth", doing=f"reading {where}", extra="retrieval")
    import mammoth

    no_picture = mammoth.images.img_element(lambda image: {"src": ""})
    return _html(mammoth.convert_to_html(io.BytesIO(content), convert_image=no_picture).value, where)


def _rst(content: bytes, where: str) -> str:
    """reStructuredText as Markdown; no other file is read for it, and unknown directives are left out."""
    need("docutils", doing=f"reading {where}", extra="retrieval")
    from docutils.core import publish_parts

    settings = {"file_insertion_enabled": False, "raw_enabled": False, "_disable_config": True}
    quiet = {"report_level": 5, "halt_level": 5}
    parts = publish_parts(_decoded(content, where), writer="html5", settings_overrides=settings | quiet)
    return _html(parts["html_body"], where)


_KINDS: Mapping[str, Callable[[bytes, str], str]] = {
    ".txt": _decoded, ".md": _decoded, ".markdown": _decoded, ".html": _html, ".htm": _html, ".rst": _rst,
    ".docx": _docx, ".pdf": _pdf,
}  # fmt: skip
"""How the text of a file is had, by its suffix; but for .txt and .pdf it is Markdown."""
