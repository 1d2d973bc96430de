"""Files of JSON objects as they lie about: one a line, or one array of them; gzipped or not; told where each stands."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from draftverify import ConfigError

MISSING: Any = object()
"""Of `value_at`: nothing stands there."""

LONGEST_LINE = 256 << 20  # bytes; a gzipped file may hold more in a line than fits into memory


def read_rows(
    path: Path, *, infinities: bool = False, halves: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file, each with its place ("path:line", or "path: entry N" of an array).

    A `.jsonl` has one object a line, empty lines skipped; a file that begins with `[` is one array of objects. Either
    may be gzipped, whatever it is called. One wrong line refuses the file: a benchmark that quietly lost a
    problem is another benchmark.

    Args:
        path: the file.
        infinities: whether `NaN` and `Infinity` are let through, which are no JSON, and which Python writes.
        halves: whether halves of surrogate pairs are let through, which can be written nowhere later.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8, or a line or entry is no JSON object.
    """

    def decoded(line: bytes, where: str) -> Any:
        try:
            text = line.decode(errors="surrogatepass" if halves else "strict")
            value = json.loads(text, parse_constant=None if infinities else _no_constant)
            if not halves and (b"\\ud" in line or b"\\uD" in line):
                json.dumps(value, ensure_ascii=False).encode()
            return value
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"not JSON: {error}", where=where) from error

    try:
        with open(path, "rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not zipped:
                yield from _rows(raw, path, decoded)
                return
            with gzip.open(raw) as file:
                yield from _rows(file, path, decoded)  # type: ignore[arg-type]
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"the file cannot be read: {reason}", where=str(path)) from error


def value_at(value: Any, path: str, index: int = 0) -> Any:
    """What stands at a path; MISSING where nothing does.

    Args:
        value: an object of a file.
        path: a name, or names with dots into objects and numbers into lists; "" is nowhere.
        index: what a `*` in it stands for.
    """
    if not path:
        return MISSING
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for step in path.split("."):
        if isinstance(value, list):
            place = index if step == "*" else int(step) if step.isdecimal() and len(step) < 10 else len(value)
            value = value[place] if place < len(value) else MISSING
        else:
            value = value.get(step, MISSING) if isinstance(value, Mapping) else MISSING
    return value


def _rows(
    file: BinaryIO, path: Path, decoded: Callable[[bytes, str], Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        where = f"{path}:{number}"
        if len(line) > LONGEST_LINE:
            raise ConfigError(f"a line of more than {LONGEST_LINE:,} bytes", where=where)
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        if number == 1 and line.lstrip().startswith(b"["):
            remainder = file.read(LONGEST_LINE)
            entries = decoded(line + remainder, where)
            for index, entry in enumerate(entries):
                yield _object(entry, f"{path}: entry {index}")
            return
        yield _object(decoded(line, where), where)


def _no_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _object(entry: Any, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(entry, dict):
        raise ConfigError(f"a JSON object is needed, not {type(entry).__name__}", where=where)
    return where, entry
