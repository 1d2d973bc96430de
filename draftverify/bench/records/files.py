"""The text files of a run directory: written whole or not at all, read as JSON, and refused with what to do."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from draftverify.errors import StoreError


def dump(value: Any) -> str:
    """Plain data as the text of a JSON file."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        StoreError: it cannot be read, or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: {error}; restore it from a copy, or choose another --out") from error
    if not isinstance(content, dict):
        raise StoreError(f"{path}: not what draftverify wrote; restore a copy, or choose another --out")
    return content


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A file beside the path that takes its place when it is written, and is gone when it is not.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        yield part
        os.replace(part, path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_changed(path: Path, text: str) -> None:
    """Write a file as `write_whole` does, unless it holds that text already."""
    if not path.exists() or path.read_text(encoding="utf-8", errors="replace") != text:
        write_whole(path, text)


def write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        with beside(path) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> StoreError:
    """The error for a file that cannot be written: what to do depends on what is in the way; in any case nothing that
    was written before is lost."""
    if isinstance(error, FileNotFoundError):
        return gone(path)
    room = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    mend = "make room" if room else "make it writable, or choose another --out"
    return StoreError(
        f"{path}: cannot be written ({error.strerror or error}); {mend}: what was committed stays, and the same "
        "command goes on from it"
    )


def gone(path: Path) -> StoreError:
    """The error for a file that is no longer where it was."""
    return StoreError(
        f"{path}: moved or removed while the run goes on, and what comes now would be lost; put it back where it was, "
        "and the same command goes on from it, or choose another --out"
    )
