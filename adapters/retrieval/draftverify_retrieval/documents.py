"""Where documents come from: lines of JSON, or files of several kinds; each with a digest of its content."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec

from draftverify import ConfigError, ResourceError
from draftverify_llm import need
from draftverify_retrieval.index import digest_of

__all__ = ["FIELDS", "BadDocumentError", "Document", "documents_at"]

log = logging.getLogger("draftverify.retrieval")

FIELDS = ("id", "text", "heading", "metadata")
"""What a line of JSON is asked for; `heading` and `metadata` may be absent."""


class BadDocumentError(ConfigError):
    """A document cannot be read as what it is."""


class Document(NamedTuple):
    """A document that is read when its text is needed.

    Args:
        id: unique in its corpus.
        digest: of all that its passages depend on.
        read: its text; raises BadDocumentError where that cannot be had.
        heading: above all of its passages.
        markdown: whether the text is Markdown.
        metadata: what is known of it beside its text, as JSON.
    """

    id: str
    digest: bytes
    read: Callable[[], str]
    heading: str = ""
    markdown: bool = False
    metadata: Mapping[str, Any] = {}


def documents_at(path: Path, fields: Mapping[str, str]) -> Iterator[Document]:
    """The documents of a JSONL file, in its order; of a directory or of another file, by path.

    Raises:
        ConfigError: nothing is there.
    """
    for name in fields:
        if name not in FIELDS:
            raise ConfigError(f"there is no {name!r}; there are {', '.join(FIELDS)}", path=f"fields.{name}")
    if path.suffix == ".jsonl" and not path.is_dir():
        yield from _lines(path, fields)
        return
    if fields:
        raise ConfigError(f"fields are for a .jsonl file, which {path} is not", path="fields")
    if path.is_dir():
        for file in sorted(path.rglob("*"), key=lambda file: file.relative_to(path).as_posix()):
            place = file.relative_to(path)
            if file.is_file() and not any(part.startswith(".") for part in place.parts):
                if file.suffix.lower() in _KINDS:
                    yield _file(file, place.as_posix())
                else:
                    log.info("%s is left out: it is none of %s", file, ", ".join(_KINDS))
    elif path.suffix.lower() in _KINDS and path.exists():
        yield _file(path, path.name)
    else:
        problem = "this kind of file is not read" if path.exists() else "there is no such file or directory"
        raise ConfigError(
            f"{problem}; documents are a .jsonl file, or a directory of {', '.join(_KINDS)} files",
            where=str(path),
        )


def _lines(path: Path, fields: Mapping[str, str]) -> Iterator[Document]:
    names = {name: fields.get(name, name) for name in FIELDS}
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    place = f"{path}:{number}"
                    try:
                        yield _line(line, names, place)
                    except BadDocumentError as error:
                        yield _unreadable(f"{path.name}:{number}", line, error)
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=str(path)) from error


def _unreadable(id: str, content: bytes, error: BadDocumentError) -> Document:
    """A document of which nothing can be had but why."""

    def read() -> NoReturn:
        raise error

    return Document(id, digest_of(content), read)


def _line(line: bytes, names: Mapping[str, str], where: str) -> Document:
    try:
        entry = json.loads(_decoded(line, where))
    except (ValueError, RecursionError) as error:
        raise BadDocumentError(f"no JSON object: {error}", where=where) from error
    if not isinstance(entry, dict):
        raise BadDocumentError(
            f"a line is a JSON object with `id` and `text`, not {entry!r:.60}", where=where
        )

    def value(name: str) -> Any:
        field = names[name]
        if entry.get(field) is None and name in ("id", "text"):
            present = ", ".join(map(str, entry)) or "nothing"
            raise BadDocumentError(
                f"no field {field!r} for the {name}; the line has {present} (say which one as fields: "
                f"{{{name}: …}})",
                where=where,
            )
        return entry.get(field)

    id, text, heading, metadata = value("id"), value("text"), value("heading") or "", value("metadata") or {}
    if isinstance(id, bool) or not isinstance(id, (str, int)):
        raise BadDocumentError(f"the id is {id!r:.60}; a text or a whole number is needed", where=where)
    for name, value_of_field in (("text", text), ("heading", heading)):
        if not isinstance(value_of_field, str):
            raise BadDocumentError(f"the {name} is {value_of_field!r:.60}; a text is needed", where=where)
    if not isinstance(metadata, dict):
        raise BadDocumentError(f"the metadata are {metadata!r:.60}; an object is needed", where=where)
    try:
        more = msgspec.msgpack.encode(metadata, order="sorted") if metadata else b""
        digest = digest_of(f"{len(str(id))} {len(heading)} {id}{heading}{text}".encode() + more)
    except OverflowError:
        raise BadDocumentError("a number of the metadata has more than 64 bits", where=where) from None
    except UnicodeEncodeError:
        raise BadDocumentError("half of a surrogate pair is in it, which is no text", where=where) from None
    return Document(str(id), digest, lambda: text, heading, metadata=metadata)


def _file(path: Path, id: str) -> Document:
    try:
        id.encode()
    except UnicodeEncodeError:
        problem = f"the name {id!r} is no UTF-8, and it is to be an id; rename the file"
        return _unreadable(ascii(id), b"", BadDocumentError(problem))
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        return _unreadable(id, b"", BadDocumentError(problem, where=str(path)))
    suffix, digest = path.suffix.lower(), digest_of(content)

    def read() -> str:
        # Not kept from above: the text of all files at once would be the whole corpus a second time.
        content_now = path.read_bytes()
        if digest_of(content_now) != digest:
            raise ConfigError("it was written to while it was read; open the corpus again", where=str(path))
        try:
            return _KINDS[suffix](content_now, str(path)).encode("utf-8", "replace").decode()
        except (ConfigError, ResourceError):
            raise
        # A reader of files from anywhere raises whatever it trips over.
        except Exception as error:
            raise BadDocumentError(
                f"cannot be read as {suffix[1:].upper()} ({type(error).__name__}: {error})", where=str(path)
            ) from error

    return Document(id, digest, read, markdown=suffix not in (".txt", ".pdf"))


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
