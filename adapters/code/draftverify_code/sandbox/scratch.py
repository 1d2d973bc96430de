"""The directory that a candidate may write to: a new one for each, and thrown away before the next one's clock starts.

Where the keeper may mount, it is a small file system in memory; elsewhere a directory of its own, in one that nobody
may write to. Standard library only; this file runs inside the keeper.
"""

from __future__ import annotations

import os
import stat
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress

from draftverify_code.sandbox import confine

BLOCK = 4096
MIB = 1 << 20
REMOVALS = (("rm", "-rf", "--"), ("chmod", "-R", "u+rwX", "--"), ("rm", "-rf", "--"))
"""Modes may forbid the first, and a path may be too deep for Python: these programs know both."""


class Scratch:
    """One place, empty for each candidate.

    Args:
        path: where it is; the directory above exists.
        mounts: whether it is a file system of its own, whose size holds what is in it.
    """

    def __init__(self, path: str, *, mounts: bool) -> None:
        self.path = path
        self.mounts = mounts
        self._size = 0, 0  # bytes and entries that it holds; none: it is not there
        self._untouched: tuple[object, ...] = ()

    def ready(self, disk: int, files: int, encoded_files: Mapping[str, str] | None = None) -> None:
        """Have it there, with nothing in it but the files of `encoded_files`.

        Args:
            disk: bytes that may be written beside these.
            files: entries that may be made beside these.
            encoded_files: relative path → content in base64.

        Raises:
            OSError: the machine has no room for so much, or a file cannot be written.
        """
        contents = {name: b64decode(text) for name, text in (encoded_files or {}).items()}
        folders = {name[: i + 1] for name in contents for i, letter in enumerate(name) if letter == "/"}
        blocks = sum(-(-len(content) // BLOCK) for content in contents.values())
        size = disk + blocks * BLOCK, files + len(contents) + len(folders)
        if size != self._size:
            if self.mounts:
                self.discard(even_untouched=True)
                confine.mount_scratch(self.path, *size)
                self._untouched = self._trace()
            elif not any(self._size):
                self._make()
            self._size = size
        if not self.mounts and (free := _free(self.path)) < size[0]:
            raise OSError(f"{self.path} has {free // MIB} MiB left, and {size[0] // MIB} may be written")
        for name, content in contents.items():
            place = os.path.join(self.path, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            # Executable, as what a compiler made is to be run.
            number = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700)
            with open(number, "wb") as file:
                file.write(content)

    def discard(self, *, even_untouched: bool = False) -> None:
        """Throw it away, unless nothing was done in it nor to it; this may take a while.

        Raises:
            OSError: something in it cannot be removed.
        """
        if not any(self._size):
            return
        if self.mounts:
            if even_untouched or self._trace() != self._untouched:
                confine.unmount(self.path)
                self._size = 0, 0
            return
        self._size = 0, 0
        os.chmod(os.path.dirname(self.path), 0o700)
        with suppress(OSError):
            os.rmdir(self.path)
        for argv in REMOVALS:
            if not os.path.lexists(self.path):
                return
            # Nobody reads what it says of modes.
            silent = [(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)]
            os.waitpid(os.posix_spawnp(argv[0], [*argv, self.path], os.environ, file_actions=silent), 0)
        if os.path.lexists(self.path):
            raise OSError("the scratch directory could not be removed")

    def _make(self) -> None:
        parent = os.path.dirname(self.path)
        os.chmod(parent, 0o700)
        os.mkdir(self.path, 0o700)
        # What a candidate did beside its own directory would be there for the next one.
        os.chmod(parent, 0o500)

    def _trace(self) -> tuple[object, ...]:
        """What changes with anything that is done in the directory itself, or to it."""
        status, attributes = os.stat(self.path), list[str]()
        with suppress(OSError):  # a file system that has none
            attributes = os.listxattr(self.path)
        # Clocks of file systems may tick slowly: within a tick something is seen only while it is there.
        times = status.st_ctime_ns, status.st_mtime_ns
        return *times, status.st_ino, status.st_mode, os.listdir(self.path), attributes

    def overfull(self) -> bool:
        """Where no file system counts: whether there is too much in it, as far as it can be listed."""
        if self.mounts:
            return False
        size, count = 0, 0
        waiting = [self.path]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        count += 1
                        size += entry.stat(follow_symlinks=False).st_size
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        if size > self._size[0] or count > self._size[1]:
                            return True
            except OSError:
                continue  # gone meanwhile, or closed to us
        return False

    def collect(self, names: Sequence[str], most: int) -> dict[str, bytes]:
        """Those of some files that are regular, not larger than `most` bytes, and that no symbolic link leads to."""
        contents = {name: self._content(name, most) for name in names}
        return {name: content for name, content in contents.items() if content is not None}

    def _content(self, name: str, most: int) -> bytes | None:
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            *folders, file_name = name.split("/")
            for folder in folders:
                inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                os.close(directory)
                directory = inner
            number = os.open(file_name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
            with open(number, "rb") as file:
                if not stat.S_ISREG(os.fstat(number).st_mode):
                    return None
                content = file.read(most + 1)
                return content if len(content) <= most else None
        except OSError:
            return None
        finally:
            os.close(directory)


def _free(path: str) -> int:
    """Bytes that are left on a file system for who is not root."""
    usage = os.statvfs(path)
    return usage.f_bavail * usage.f_frsize
