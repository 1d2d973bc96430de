"""Where documents come from: lines of JSON, or files of text, Markdown and PDF; each with a digest of its content."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from draftverify import ConfigError
from draftverify_llm import need
from draftverify_retrieval.index import digest_of

__all__ = ["FIELDS", "Document", "documents_at"]

log = logging.getLogger("draftverify.retrieval")

FIELDS = ("id", "text", "heading")
"""What a line of JSON is asked for; `heading` may be absent."""

_MARKDOWN = frozenset({".md", ".markdown"})
_SUFFIXES = frozenset({".txt", ".pdf"}) | _MARKDOWN


class Document(NamedTuple):
    """A document that is read when its text is needed.

    Args:
        id: unique in its corpus.
        digest: of all that its passages depend on.
        read: its text; raises ConfigError where that cannot be had.
        heading: above all of its passages.
        markdown: whether the text is Markdown.
    """

    id: str
    digest: bytes
    read: Callable[[], str]
    heading: str = ""
    markdown: bool = False


def documents_at(path: Path, fields: Mapping[str, str]) -> Iterator[Document]:
    """The documents of a JSONL file, in its order; of a directory or of another file, by path.

    Raises:
        ConfigError: nothing is there, or a line or a file cannot be read as what it is; with its place.
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
                if file.suffix.lower() in _SUFFIXES:
                    yield _file(file, place.as_posix())
                else:
                    log.info("%s is left out: it is none of %s", file, ", ".join(sorted(_SUFFIXES)))
    elif path.suffix.lower() in _SUFFIXES and path.exists():
        yield _file(path, path.name)
    else:
        problem = "this kind of file is not read" if path.exists() else "there is no such file or directory"
        raise ConfigError(
            f"{problem}; documents are a .jsonl file, or a directory of {', '.join(sorted(_SUFFIXES))} files",
            where=str(path),
        )


def _lines(path: Path, fields: Mapping[str, str]) -> Iterator[Document]:
    names = {name: fields.get(name, name) for name in FIELDS}
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _line(line, names, f"{path}:{number}")
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=str(path)) from error


def _line(line: bytes, names: Mapping[str, str], where: str) -> Document:
    try:
        entry = json.loads(_decoded(line, where))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"no JSON object: {error}", where=where) from error
    if not isinstance(entry, dict):
        raise ConfigError(f"a line is a JSON object with `id` and `text`, not {entry!r:.60}", where=where)

    def value(name: str) -> Any:
        field = names[name]
        if entry.get(field) is None and name != "heading":
            present = ", ".join(map(str, entry)) or "nothing"
            raise ConfigError(
                f"no field {field!r} for the {name}; the line has {present} (say which one as fields: "
                f"{{{name}: …}})",
                where=where,
            )
        return entry.get(field)

    id, text, heading = value("id"), value("text"), value("heading") or ""
    if isinstance(id, bool) or not isinstance(id, (str, int)):
        raise ConfigError(f"the id is {id!r:.60}; a text or a whole number is needed", where=where)
    for name, value_of_field in (("text", text), ("heading", heading)):
        if not isinstance(value_of_field, str):
            raise ConfigError(f"the {name} is {value_of_field!r:.60}; a text is needed", where=where)
    try:
        digest = digest_of(f"{len(str(id))} {len(heading)} {id}{heading}{text}")
    except UnicodeEncodeError:
        raise ConfigError("half of a surrogate pair is in it, which is no text", where=where) from None
    return Document(str(id), digest, lambda: text, heading)


def _file(path: Path, id: str) -> Document:
    try:
        id.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"the name {id!r} is no UTF-8, and it is to be an id; rename the file") from None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", where=str(path)) from error
    kind, digest = path.suffix.lower(), digest_of(content)

    def read() -> str:
        # Not kept from above: the text of all files at once would be the whole corpus a second time.
        content_now = path.read_bytes()
        if digest_of(content_now) != digest:
            raise ConfigError("it was written to while it was read; open the corpus again", where=str(path))
        return _pdf(content_now, path) if kind == ".pdf" else _decoded(content_now, str(path))

    return Document(id, digest, read, markdown=kind in _MARKDOWN)


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"byte {error.start} (line {line}) is no UTF-8; save the file as UTF-8", where=where
        ) from None


def _pdf(content: bytes, path: Path) -> str:
    """The text of a PDF's pages, with a blank line between them."""
    need("pypdf", doing=f"reading {path}", extra="retrieval")
    from pypdf import PdfReader

    try:
        text = "\n\n".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)
    # A reader of files from anywhere raises whatever it trips over.
    except Exception as error:
        raise ConfigError(
            f"cannot be read as PDF ({type(error).__name__}: {error})", where=str(path)
        ) from error
    return text.encode("utf-8", "replace").decode()
