"""An index directory: parts that are read back as they were written, replaced in one step, and checked when opened.

    INDEX/manifest.json         the parts by name: file, length, digest, and what the part says about itself
    INDEX/<name>.<digest>.part  one part's bytes
    INDEX/lock                  held while a process looks for changes and writes them

A file is never written twice: a changed part gets a file of its own, and the manifest is replaced in one step when all
files of the change are on disk. A crash at any moment therefore leaves the old parts or the new ones; files that no
manifest names are removed by the next change. What a part says about itself is how its owner knows whether it is
still true (the digest of the rows that it was made of, the identity of the model that made it).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from draftverify import ConfigError, ResourceError

FORMAT = 2
DIGEST = 16
"""Bytes of a digest (BLAKE2b)."""

_MANIFEST = "manifest.json"
T = TypeVar("T")
_PART = re.compile(r"[\w.-]+\.[0-9a-f]{32}\.part")


class DamagedIndexError(ResourceError):
    """A file of an index directory is not what was written there."""


def digest_of(text: str | bytes) -> bytes:
    """The digest of a text or of bytes."""
    return blake2b(text.encode() if isinstance(text, str) else text, digest_size=DIGEST).digest()


def decoded(content: bytes, type: type[T], name: str) -> T:
    """A part's bytes (msgpack) as what they were written from.

    Raises:
        DamagedIndexError: they are something else.
    """
    try:
        return msgspec.msgpack.decode(content, type=type)
    except msgspec.MsgspecError as error:
        raise DamagedIndexError(
            f"the part {name} of the index is not what this version writes: {error}"
        ) from error


def rows_before(old: bytes, new: bytes) -> NDArray[np.int64]:
    """Where each of the new rows stood before, −1 where it is new; of rows that say the same each is another.

    Args:
        old, new: the rows' digests, one after the other.
    """
    before, now = (np.frombuffer(digests, np.uint64).reshape(-1, DIGEST // 8) for digests in (old, new))
    shared = min(len(before), len(now))
    differ = (before[:shared] != now[:shared]).any(axis=1)
    start = int(differ.argmax()) if differ.any() else shared
    places = np.full(len(now), -1)
    places[:start] = np.arange(start)
    left: dict[bytes, list[int]] = {}
    for place in range(len(before) - 1, start - 1, -1):
        left.setdefault(old[DIGEST * place : DIGEST * (place + 1)], []).append(place)
    for row in range(start, len(now)) if left else ():
        if equal := left.get(new[DIGEST * row : DIGEST * (row + 1)]):
            places[row] = equal.pop()
    return places


def runs_of(places: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Rows that follow one another now as they did before, or are all new: start, end, and the place before (or −1)."""
    new = places < 0
    goes_on = np.where(new[1:] | new[:-1], new[1:] & new[:-1], np.diff(places) == 1)
    for start, end in pairwise(sorted({0, *(np.flatnonzero(~goes_on) + 1).tolist(), len(places)})):
        yield start, end, int(places[start])


@contextmanager
def held(corpus: Any) -> Iterator[IndexDirectory | None]:
    """The index directory of a corpus, locked; None of one that has none."""
    directory: IndexDirectory | None = getattr(corpus, "kept", None)
    with directory.locked() if directory is not None else nullcontext():
        yield directory


class IndexDirectory:
    """A directory of parts.

    Args:
        path: the directory; it is made when something is first written.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory, across processes and threads; the system frees it when a process dies.

        Raises:
            ResourceError: it cannot be written.
            ConfigError: it is no directory, or holds other things and no index.
        """
        import filelock

        if self.path.exists() and not self.path.is_dir():
            raise ConfigError("this is a file; an index is a directory", where=str(self.path))
        strange = [] if not self.path.is_dir() or (self.path / _MANIFEST).exists() else self._strangers()
        if strange:
            raise ConfigError(
                f"{strange[0]!r} is here and no index is; give a directory that is new or empty",
                where=str(self.path),
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(self.path / "lock")
            lock.acquire()
        except OSError as error:
            raise ResourceError(f"the index directory {self.path} cannot be written: {error}") from error
        try:
            yield
        finally:
            lock.release()

    def check(self) -> None:
        """Refuse a directory of which a part is missing, or of another length than was written; the bytes of a part are
        looked at when it is loaded.

        Raises:
            DamagedIndexError: naming the file.
        """
        for entry in self._manifest().values():
            self._check_length(entry)

    def load(self, name: str) -> tuple[dict[str, Any], bytes] | None:
        """What a part says about itself, and its bytes; None where there is no such part.

        Raises:
            DamagedIndexError: its bytes are not those that were written.
        """
        entry = self._manifest().get(name)
        if entry is None:
            return None
        self._check_length(entry)
        content = (self.path / entry["file"]).read_bytes()
        if digest_of(content).hex() != entry["digest"]:
            raise self._damaged(entry["file"], "has other bytes than were written")
        return entry["about"], content

    def _check_length(self, entry: Mapping[str, Any]) -> None:
        try:
            length = (self.path / entry["file"]).stat().st_size
        except OSError as error:
            raise self._damaged(entry["file"], f"cannot be read ({error})") from error
        if length != entry["bytes"]:
            raise self._damaged(entry["file"], f"has {length:,} bytes; {entry['bytes']:,} were written")

    def commit(self, parts: Mapping[str, tuple[Mapping[str, Any], bytes]]) -> None:
        """Write these parts, all or none of them, beside those that are there; call it under `locked`.

        Raises:
            ResourceError: the disk is full, or cannot be written.
        """
        entries = dict(self._manifest())
        try:
            for name, (about, content) in parts.items():
                digest = digest_of(content).hex()
                file = f"{name}.{digest}.part"
                if entries.get(name, {}).get("file") != file:
                    _write(self.path / file, content)
                entries[name] = {"file": file, "bytes": len(content), "digest": digest, "about": dict(about)}
            listed = json.dumps(entries, sort_keys=True)
            manifest = {"format": FORMAT, "digest": digest_of(listed).hex(), "parts": entries}
            _write(self.path / "manifest.new", json.dumps(manifest, indent=1).encode())
            os.replace(self.path / "manifest.new", self.path / _MANIFEST)
            _sync(self.path)
            self._sweep({entry["file"] for entry in entries.values()})
        except OSError as error:
            raise ResourceError(f"the index directory {self.path} cannot be written: {error}") from error

    def _manifest(self) -> dict[str, Any]:
        try:
            manifest = json.loads((self.path / _MANIFEST).read_bytes())
            parts = manifest["parts"]
            intact = manifest["digest"] == digest_of(json.dumps(parts, sort_keys=True)).hex()
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._damaged(_MANIFEST, f"cannot be read ({type(error).__name__})") from error
        if manifest.get("format") != FORMAT:
            raise ConfigError(
                f"this index has format {manifest.get('format')}; this version of draftverify reads and writes "
                f"{FORMAT}; delete the directory, and it is made anew",
                where=str(self.path),
            )
        if not intact:
            raise self._damaged(_MANIFEST, "has other bytes than were written")
        return dict(parts)

    def _damaged(self, file: str, problem: str) -> DamagedIndexError:
        return DamagedIndexError(
            f"the index at {self.path} is damaged: {file} {problem}. Delete the directory, and it is made anew "
            "from the documents"
        )

    def _strangers(self) -> list[str]:
        ours = {"lock", "manifest.new"}
        names = sorted(path.name for path in self.path.iterdir())
        return [name for name in names if name not in ours and not _PART.fullmatch(name)]

    def _sweep(self, named: set[str]) -> None:
        for path in list(self.path.iterdir()):
            if _PART.fullmatch(path.name) and path.name not in named:
                path.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Make the names in a directory durable, where the system can (Windows cannot)."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
