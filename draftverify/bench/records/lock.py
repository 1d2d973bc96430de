"""The lock of a run directory: held by the process that drives the run, and free once that has ended."""

from __future__ import annotations

import os
import struct
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from draftverify.bench.records.files import unwritable
from draftverify.errors import StoreError

_driven: set[Path] = set()


def take_lock(path: Path, held: ExitStack) -> None:
    """Take a directory's lock.

    Args:
        path: the directory.
        held: gives the lock up when it is closed.

    Raises:
        StoreError: this process or another one has it, or it cannot be made.
    """
    key = path.resolve()
    mend = "drives this run; wait for it, or choose another --out"
    if key in _driven:
        raise StoreError(f"{path}: this process {mend}")
    _driven.add(key)
    held.callback(_driven.discard, key)
    try:
        lock = held.enter_context(open(path / "lock", "a+"))  # noqa: SIM115
    except OSError as error:
        raise unwritable(path / "lock", error) from error
    try:
        _lock_file(lock)
    except OSError as error:
        number = _holder(lock)
        raise StoreError(f"{path}: another process{f' ({number})' if number else ''} {mend}") from error


def is_driven(path: str | Path) -> bool:
    """Whether a process drives the run of this directory now. Asking disturbs nobody."""
    lock = Path(path) / "lock"
    # Closing any handle of a POSIX record lock's file in the process that holds it would give the lock up.
    if Path(path).resolve() in _driven:
        return True
    try:
        with open(lock, encoding="utf-8") as file:
            return _holder(file) is not None
    except OSError:
        return False


if sys.platform == "win32":

    def _holder(lock: IO[str]) -> int | None:
        import msvcrt

        try:
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return 0
        msvcrt.locking(lock.fileno(), msvcrt.LK_UNLCK, 1)
        return None

    def _lock_file(lock: IO[str]) -> None:
        import msvcrt

        msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)

else:

    def _holder(lock: IO[str]) -> int | None:
        """The process that has the lock, 0 where it is not known, None where nobody has it."""
        import fcntl

        # struct flock: whole file, exclusive; the kernel answers with who would be in the way (man 2 fcntl, F_GETLK).
        linux = sys.platform == "linux"
        form = "hhqqi4x" if linux else "qqihh"
        query = (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0) if linux else (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET)
        answer = struct.unpack(form, fcntl.fcntl(lock, fcntl.F_GETLK, struct.pack(form, *query)))
        number: int = answer[4 if linux else 2]
        return None if answer[0 if linux else 3] == fcntl.F_UNLCK else max(number, 0)

    def _lock_file(lock: IO[str]) -> None:
        # lockf, not flock: a worker that was forked must not keep the lock of a parent that was killed.
        import fcntl

        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
