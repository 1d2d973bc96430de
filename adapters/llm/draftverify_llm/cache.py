"""The user cache: where downloaded and converted weights live, whole or not at all.

```
<root>/weights/<name>/model.gguf     a model's file as it was downloaded and checked
<root>/weights/<name>/torch/         the same weights, or such as came that way, as a directory that transformers loads
<root>/unfinished/<name>/            work in progress; what an interrupted process left here is never used
<root>/locks/<name>.lock             held while one process downloads, converts or clears
```

Files are made under `unfinished` and moved into `weights` in one step, so what stands in `weights` is complete.
The root is the platform's user cache directory, or the directory that the environment variable
DRAFTVERIFY_CACHE names.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from draftverify.errors import ResourceError

log = logging.getLogger("draftverify.llm")


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One thing in the cache.

    Args:
        name: the model's name; several kinds may stand under one name.
        kind: "gguf" (a downloaded file), "torch" (a directory for transformers), "unfinished" (left by an
            interrupted process, or being made right now).
        bytes: space on disk.
        path: where it is.
    """

    name: str
    kind: Literal["gguf", "torch", "unfinished"]
    bytes: int
    path: Path


@dataclass(frozen=True, slots=True)
class WeightsProgress:
    """How far a download or a conversion has come.

    Args:
        name: the model.
        stage: "download" or "convert".
        done: bytes so far; 0 while a conversion runs.
        total: bytes in all.
    """

    name: str
    stage: Literal["download", "convert"]
    done: int
    total: int


Report: TypeAlias = Callable[[WeightsProgress], None]
"""A plain callable that is told about progress, several times a second at most."""


def log_progress() -> Report:
    """A report that writes to the logger "draftverify.llm": when a stage begins, and at each further quarter."""
    logged: set[tuple[str, int]] = set()

    def report(progress: WeightsProgress) -> None:
        quarter = 4 * progress.done // progress.total if progress.total else 0
        if (progress.stage, quarter) in logged:
            return
        logged.add((progress.stage, quarter))
        size = f"{progress.total / 1e6:,.0f} MB"
        if progress.stage == "convert":
            log.info("converting %s (%s) for torch, once", progress.name, size)
        else:
            log.info("downloading %s: %d %% of %s", progress.name, 25 * quarter, size)

    return report


def root() -> Path:
    """The cache's root directory; it need not exist yet."""
    named = os.environ.get("DRAFTVERIFY_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("draftverify", appauthor=False))


def entries() -> list[CacheEntry]:
    """What the cache holds, by name and kind."""
    files = []
    for place, name in _names():
        if place == "unfinished":
            files.append(
                CacheEntry(name, "unfinished", bytes_in(root() / place / name), root() / place / name)
            )
            continue
        for kind, path in (
            ("gguf", root() / place / name / "model.gguf"),
            ("torch", root() / place / name / "torch"),
        ):
            if path.exists():
                files.append(CacheEntry(name, kind, bytes_in(path), path))  # type: ignore[arg-type]
    return sorted(files, key=lambda entry: (entry.name, entry.kind))


def clear(name: str | None = None) -> int:
    """Remove one model, or everything.

    Args:
        name: as `entries` names it; None for all.

    Returns:
        Bytes freed.

    Raises:
        ResourceError: no such name, or another process is at work on it.
    """
    names = sorted({name_ for _, name_ in _names()})
    if name is not None and name not in names:
        raise ResourceError(
            f"the cache at {root()} holds no {name!r}; it holds {', '.join(names) or 'nothing'}"
        )
    freed = 0
    for entry in names if name is None else [name]:
        with locked(entry, wait=False):
            for place in ("weights", "unfinished"):
                path = root() / place / entry
                freed += bytes_in(path)
                shutil.rmtree(path, ignore_errors=True)
                if path.exists():
                    raise ResourceError(f"{path} could not be removed; look at its permissions")
    return freed


@contextmanager
def locked(name: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the model's lock, across processes and threads; the system frees it when a process dies.

    Raises:
        ResourceError: the lock is held elsewhere and `wait` is False, or the cache cannot be written.
    """
    import filelock

    path = root() / "locks" / f"{name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            if not wait:
                raise ResourceError(
                    f"another process is at work on {name} in {root()}; try again when it is done"
                ) from None
            log.info("waiting for another process that is at work on %s", name)
            lock.acquire()
    except OSError as error:
        raise ResourceError(
            f"the cache at {root()} cannot be written ({error}); set DRAFTVERIFY_CACHE"
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def building(name: str, kind: Literal["gguf", "torch"]) -> Iterator[Path]:
    """Make one thing whole or not at all; call it under `locked(name)`.

    Yields:
        An empty directory to work in. What stands at `result` in it when the block ends without an exception is
        moved into the cache in one step; the directory is removed either way.

    Raises:
        ResourceError: the disk is full or cannot be written.
    """
    work = root() / "unfinished" / name
    final = root() / "weights" / name / ("model.gguf" if kind == "gguf" else "torch")
    try:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        yield work
        final.parent.mkdir(parents=True, exist_ok=True)
        if final.is_dir():
            shutil.rmtree(final)
        os.replace(work / "result", final)
    except OSError as error:
        raise ResourceError(f"{name} could not be written into the cache at {root()}: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _names() -> list[tuple[str, str]]:
    return [
        (place, path.name)
        for place in ("weights", "unfinished")
        if (root() / place).is_dir()
        for path in (root() / place).iterdir()
        if path.is_dir()
    ]


def bytes_in(path: Path) -> int:
    """The size of a file, or of all files below a directory."""
    if path.is_file():
        return path.stat().st_size
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            with suppress(OSError):  # another process finished, moved or cleared it meanwhile
                total += os.lstat(os.path.join(folder, file)).st_size
    return total
