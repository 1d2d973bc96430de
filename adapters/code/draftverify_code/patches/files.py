"""The files of a task: read once and packed into one archive, which every candidate's own copy is laid out from."""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

from draftverify import ContractError

SMALL = 1 << 20
"""Bytes of an archive that goes to the sandbox with each candidate; a larger one lies where all of them read it."""
BASE = ".draftverify-files"
"""The name of a small archive in the scratch directory."""
BLOCK = 4096
LEFT_OUT = frozenset({"__pycache__", "node_modules"})
IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.M)


class GitFile(NamedTuple):
    """A file as git has it: 0o100644, 0o100755, or 0o120000 with the target of a symbolic link as its content."""

    mode: int
    content: bytes


Change: TypeAlias = Mapping[str, GitFile | None]
"""What a candidate changes: path → the new file, or None where it removes one."""


class PackedFiles:
    """Files in an archive.

    Args:
        files: (path, file), each path once.

    Attributes:
        modes: path → mode.
        archive: its bytes, or where it lies.
        size: bytes that the files take, in blocks of a file system.
        entries: how many files and directories there are.
        imports: the modules that Python files import.
    """

    def __init__(self, files: Iterable[tuple[str, GitFile]]) -> None:
        self.modes: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.size = 0
        imports: set[bytes] = set()
        body: IO[bytes] = io.BytesIO()
        for path, file in files:
            self.modes[path] = file.mode
            self._sizes[path] = len(file.content)
            self.size += -(-len(file.content) // BLOCK) * BLOCK
            if path.endswith(".py"):
                imports.update(IMPORT.findall(file.content))
            body.write(file.content)
            if isinstance(body, io.BytesIO) and body.tell() > SMALL:
                on_disk = tempfile.NamedTemporaryFile(dir=shelf(), delete=False)  # noqa: SIM115 - closed below
                on_disk.write(body.getvalue())
                body = on_disk
        folders = {path[:place] for path in self.modes for place, letter in enumerate(path) if letter == "/"}
        self.entries = len(self.modes) + len(folders)
        self.imports = sorted(name.decode() for name in imports)
        body.write(_index((path, mode, self._sizes[path]) for path, mode in self.modes.items()))
        self.archive: bytes | Path
        if isinstance(body, io.BytesIO):
            self.archive = body.getvalue()
            return
        self.archive = Path(body.name)
        body.close()
        self.archive.chmod(0o644)
        weakref.finalize(self, remove, self.archive, os.getpid())

    def files(self) -> Iterator[tuple[str, GitFile]]:
        """All of them, in their order."""
        with io.BytesIO(self.archive) if isinstance(self.archive, bytes) else self.archive.open("rb") as file:
            for path, mode in self.modes.items():
                yield path, GitFile(mode, file.read(self._sizes[path]))


def pack(change: Change) -> bytes:
    """An archive of a change, what it removes first."""
    ordered = sorted(change.items(), key=lambda item: item[1] is not None)
    index = _index(
        (path, file.mode, len(file.content)) if file is not None else (path, 0, 0) for path, file in ordered
    )
    return b"".join(file.content for _, file in ordered if file is not None) + index


def _index(rows: Iterable[tuple[str, int, int]]) -> bytes:
    index = b"\0".join(b"%b\0%d\0%d" % (os.fsencode(path), mode, size) for path, mode, size in rows)
    return index + len(index).to_bytes(8, "big")


@lru_cache(maxsize=1)
def shelf() -> Path:
    """The directory of this process for archives that candidates read."""
    folder = Path(tempfile.mkdtemp(prefix="draftverify-files-"))
    folder.chmod(0o755)
    weakref.finalize(shelf, remove, folder, os.getpid())
    return folder


def remove(path: Path, process: int) -> None:
    """Remove what a process made; what a fork has is its parent's."""
    if os.getpid() != process:
        return
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def files_in(directory: Path) -> Iterator[tuple[str, GitFile]]:
    """The files of a directory, without hidden ones, `__pycache__` and `node_modules`; links as links.

    Raises:
        ContractError: one cannot be read, or is neither a file nor a link.
    """
    for folder, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in LEFT_OUT)
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*links, *(name for name in names if not name.startswith("."))]):
            place = Path(folder, name)
            try:
                mode = place.lstat().st_mode
                if stat.S_ISLNK(mode):
                    file = GitFile(0o120000, os.fsencode(os.readlink(place)))
                elif stat.S_ISREG(mode):
                    file = GitFile(0o100755 if mode & 0o100 else 0o100644, place.read_bytes())
                else:
                    raise ContractError(f"{place} is neither a file nor a link")
            except OSError as error:
                raise ContractError(f"{place} cannot be read: {error.strerror or error}") from error
            yield place.relative_to(directory).as_posix(), file
