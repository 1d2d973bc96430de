"""Git beside a task's files: patches are applied to an index, so that nothing they say is ever written to a work tree.

A repository of our own holds what is made; a user's is read through it, and its configuration and hooks are not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import IO, Any, NamedTuple

from draftverify import ContractError, ResourceError
from draftverify_code.patches.files import Change, GitFile, PackedFiles, remove

VERSION = (2, 32)  # the first git that applies to an index three-way
SECONDS = 60.0  # that git may take for one patch
WRITTEN = 64 << 20
"""Bytes of the files that a patch may write."""
BOUNDED = ("sh", "-c", '(ulimit -v 2097152) 2>&- && ulimit -v 2097152; exec "$@"', "sh")
"""Before git reads what a model wrote: 2 GiB of address space, where that is less than now. A binary patch of a MiB
may hold a thousand."""
READING = (
    "-c", "core.packedGitWindowSize=32m", "-c", "core.packedGitLimit=256m", "-c", "core.protectHFS=true",
)  # fmt: skip
"""How much of a user's packs git maps then, and that it refuses what macOS takes for `.git`."""
OWN = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
THREE_WAY = ("error: repository lacks the necessary blob", "Falling back to direct")
"""What git says where a patch names no blob that is there, which is not why it fails."""
LINK = 0o160000  # the mode of a repository in a repository, which is no file


class Unapplied(Exception):
    """A patch does not apply; the message is git's."""


class Applied(NamedTuple):
    """What a patch changes.

    Attributes:
        change: of the files.
        text: the same as a patch, without the paths that were left out.
    """

    change: Change
    text: str


class Repository:
    """A git repository of our own with one tree.

    Args:
        objects: the objects of a user's repository, to be read beside our own.
    """

    def __init__(self, objects: str = "") -> None:
        _check_version()
        self.folder = Path(tempfile.mkdtemp(prefix="draftverify-git-"))
        weakref.finalize(self, remove, self.folder, os.getpid())
        _read(_run(["git", "init", "--bare", "-q", "--template=", str(self.folder)], self._environment))
        if objects:
            (self.folder / "objects/info").mkdir(exist_ok=True)
            (self.folder / "objects/info/alternates").write_text(objects + "\n")
        self.tree = ""

    @staticmethod
    def of(files: Iterable[tuple[str, GitFile]]) -> Repository:
        """One that holds these files."""
        repository = Repository()
        with tempfile.TemporaryFile(dir=repository.folder) as stream:
            stream.write(b"commit refs/heads/files\ncommitter draftverify <> 0 +0000\ndata 0\n")
            for path, file in files:
                name = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
                stream.write(b'M %o inline "%s"\ndata %d\n' % (file.mode, name, len(file.content)))
                stream.write(file.content + b"\n")
            stream.write(b"done\n")
            stream.seek(0)
            _read(repository._git("fast-import", "--quiet", "--done", stdin=stream))
        repository._take("refs/heads/files^{tree}")
        return repository

    def _take(self, tree: str) -> None:
        self.tree = _read(self._git("rev-parse", "--verify", "--end-of-options", tree)).decode().strip()
        _read(self._git("read-tree", self.tree))

    def files(self) -> Iterator[tuple[str, GitFile]]:
        """The tree's files; what is a repository itself is left out."""
        rows = _read(self._git("ls-tree", "-r", "-z", "--full-tree", self.tree)).split(b"\0")[:-1]
        entries = [(*about.split(), path) for about, _, path in (row.partition(b"\t") for row in rows)]
        entries = [entry for entry in entries if int(entry[0], 8) != LINK]
        contents = self._contents(identity for _, _, identity, _ in entries)
        for (mode, _, _, path), content in zip(entries, contents, strict=True):
            yield os.fsdecode(path), GitFile(int(mode, 8), content)

    def apply(self, patch: bytes, left_out: Iterable[str] | None = None) -> Applied:
        """Apply a patch to the tree, three-way where it names blobs that are there.

        Args:
            patch: a unified diff, whole or as git writes it.
            left_out: paths without which the change is to be given as a text; None for no text.

        Raises:
            Unapplied: git refuses it.
        """
        with tempfile.NamedTemporaryFile(dir=self.folder) as index:
            shutil.copyfile(self.folder / "index", index.name)
            own = {"GIT_INDEX_FILE": index.name}
            applying = (*READING, "apply", "--cached", "--3way", "--whitespace=nowarn", "-")
            done = self._git(*applying, stdin=patch, environment=own, bounded=True)
            if done.returncode:
                lines = done.stderr.decode(errors="replace").strip().splitlines()
                message = "\n".join(line for line in lines if not line.startswith(THREE_WAY))
                raise Unapplied(message or f"git apply ended with status {done.returncode}")
            compared = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", self.tree)
            fields = _read(self._git(*compared, environment=own)).split(b"\0")[:-1]
            change = self._changed(dict(zip(map(os.fsdecode, fields[1::2]), fields[::2], strict=True)))
            if left_out is None:
                return Applied(change, "")
            without = [f":(exclude,literal){path}" for path in left_out]
            written = ("diff-index", "--cached", "-p", "--binary", "--full-index", self.tree, "--", ".")
            return Applied(
                change, _read(self._git(*written, *without, environment=own)).decode(errors="replace")
            )

    def _changed(self, rows: Mapping[str, bytes]) -> Change:
        """What raw rows of a diff say: `:mode mode blob blob status`."""
        modes = {path: int(row.split()[1], 8) for path, row in rows.items()}
        there = [path for path, mode in modes.items() if mode and mode != LINK]
        blobs = self._contents((rows[path].split()[3] for path in there), WRITTEN)
        contents = dict(zip(there, blobs, strict=True))
        return {
            path: GitFile(mode, contents.get(path, b"")) if mode else None for path, mode in modes.items()
        }

    def _contents(self, identities: Iterable[bytes], most: float = inf) -> Iterator[bytes]:
        """The blobs, one after the other.

        Raises:
            Unapplied: they hold more bytes than `most` together.
        """
        with tempfile.TemporaryFile(dir=self.folder) as wanted:
            wanted.write(b"".join(identity + b"\n" for identity in identities))
            wanted.seek(0)
            command = ["git", "cat-file", "--batch"]
            with subprocess.Popen(
                command, stdin=wanted, stdout=subprocess.PIPE, env=self._environment
            ) as git:
                assert git.stdout is not None
                while header := git.stdout.readline():
                    identity, *about = header.split()
                    if len(about) != 2:
                        raise ContractError(f"the repository lacks the object {identity.decode()}")
                    most -= (size := int(about[1]))
                    if most < 0:
                        git.kill()
                        raise Unapplied(f"it writes more than {WRITTEN >> 20} MiB")
                    content = git.stdout.read(size)
                    git.stdout.read(1)
                    yield content

    @property
    def _environment(self) -> dict[str, str]:
        return {**_inherited(), **OWN, "GIT_DIR": str(self.folder)}

    def _git(
        self,
        *arguments: str,
        stdin: bytes | IO[bytes] = b"",
        environment: Mapping[str, str] = {},
        bounded: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        command = [*(BOUNDED if bounded else ()), "git", *arguments]
        return _run(command, {**self._environment, **environment}, stdin, SECONDS if bounded else None)


def commit_at(directory: str, commit: str) -> tuple[Repository, PackedFiles]:
    """A commit of a user's repository and its files, which are read once.

    Args:
        directory: the work tree, a directory in it (whose part of the tree is meant), or a bare repository.
        commit: the name of a revision.

    Raises:
        ContractError: there is no such repository or revision.
    """
    if not os.path.isdir(directory):
        raise ContractError(f"there is no repository {directory}")

    def ask(*arguments: str) -> str:
        # By the user's own configuration, which says whose repositories are safe.
        done = _run(["git", "-C", directory, "rev-parse", *arguments], {**_inherited(), "LC_ALL": "C"})
        if done.returncode:
            message = done.stderr.decode(errors="replace").strip()
            raise ContractError(f"{directory} has no revision {commit}: {message}")
        return done.stdout.decode().strip()

    revision = ask("--verify", "--end-of-options", f"{commit}^{{commit}}")
    prefix = ask("--show-prefix").rstrip("/")
    objects = os.path.abspath(os.path.join(directory, ask("--git-path", "objects")))
    return _tree_at(objects, f"{revision}:{prefix}")


@lru_cache(maxsize=4)
def _tree_at(objects: str, name: str) -> tuple[Repository, PackedFiles]:
    repository = Repository(objects)
    repository._take(name)
    return repository, PackedFiles(repository.files())


def _inherited() -> dict[str, str]:
    """This process's variables without git's: a hook that runs this has some."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


@lru_cache(maxsize=1)
def _check_version() -> None:
    text = _read(_run(["git", "--version"], _inherited())).decode()
    found = re.search(r"(\d+)\.(\d+)", text)
    if found is None or tuple(map(int, found.groups())) < VERSION:
        raise ResourceError(f"patches need git {VERSION[0]}.{VERSION[1]}; this is {text.strip()}")


def _run(
    command: list[str],
    environment: Mapping[str, str],
    stdin: bytes | IO[bytes] = b"",
    seconds: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    try:
        return subprocess.run(command, capture_output=True, env=environment, timeout=seconds, **given)
    except FileNotFoundError:
        raise ResourceError("git, which applies patches, is not installed") from None
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, b"", f"git took more than {seconds:g} s".encode())


def _read(done: subprocess.CompletedProcess[bytes]) -> bytes:
    if done.returncode:
        raise ContractError(
            f"git {' '.join(map(str, done.args[1:4]))}: {done.stderr.decode(errors='replace')}"
        )
    return done.stdout
