"""The runs of a directory, as the server sees them: found by looking, opened when asked for, looked at anew each time.

A run is named by its directory's name, and only names that were found are opened: nothing of a request becomes a path.
What happens to a run's files meanwhile (moved aside, removed, damaged) is an error of the request that meets it.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from draftverify.errors import DraftVerifyError, StoreError
from draftverify.records import RunRecords, load_run
from draftverify.report.overview import changes
from draftverify.secret import redact

__all__ = ["Runs", "UnknownRun"]

OPEN = 32
"""Runs that are kept open."""

LISTED = 500
"""Runs of a directory that are listed: the newest."""


class UnknownRun(StoreError):
    """No run of this name is there (any more)."""


class Runs:
    """One run, or those in a directory.

    Args:
        root: a run directory, or one that holds run directories.
        url: of their store, where it is PostgreSQL.

    Raises:
        StoreError: there is no such directory.
    """

    def __init__(self, root: str | Path, url: str | None = None) -> None:
        self.root = Path(root)
        self._url = url
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[object, RunRecords]] = OrderedDict()
        self._rows: dict[str, tuple[object, dict[str, Any]]] = {}
        if not self.root.is_dir():
            raise StoreError(
                f"{self.root}: there is no such directory; give a run directory, or one that holds them"
            )
        self.single = (self.root / "run.json").exists()
        if self.single:
            self._load(self.root).close()  # what cannot be shown is an error of the command

    def names(self) -> list[str]:
        """The runs that are there, newest first."""
        if self.single:
            return [self.root.resolve().name]
        found = []
        try:
            entries = list(os.scandir(self.root))
        except OSError as error:
            raise StoreError(f"{self.root}: {error.strerror or error}") from error
        for entry in entries:
            try:
                if entry.is_dir():
                    found.append((os.stat(os.path.join(entry.path, "run.json")).st_mtime_ns, entry.name))
            except OSError:
                continue  # no run, or gone since
        return [name for _, name in sorted(found, reverse=True)[:LISTED]]

    def open(self, name: str) -> RunRecords:
        """The records of a run; they stay open, and may be used from several threads.

        Raises:
            UnknownRun: there is none of this name.
            StoreError: it cannot be read.
        """
        if name not in self.names():
            raise UnknownRun(f"there is no run {name!r} here (any more?)")
        path = self._path(name)
        now = _inodes(path)
        with self._lock:
            before, records = self._open.get(name, (None, None))
            if records is not None and before == now:
                self._open.move_to_end(name)
                return records
            if records is not None:
                del self._open[name]
                records.close()
            records = self._load(path)
            self._open[name] = now, records
            while len(self._open) > OPEN:
                # One that is at work opens its connection again.
                self._open.popitem(last=False)[1][1].close()
        return records

    def row(self, name: str) -> dict[str, Any]:
        """What the list says of a run: name, title, when it began, tags, pipelines, progress, or the error."""
        path = self._path(name)
        now = _stamps(path)
        before, row = self._rows.get(name, (None, None))
        if row is not None and before == now and "records.db" in now:
            return row
        row = {"run": name}
        try:
            records = self.open(name)
            starts = records.about.get("starts") or [{}]
            found = changes(records)
            row |= {
                "name": str(records.about.get("name", name)),
                "began": str(starts[0].get("at", "")),
                "tags": [str(tag) for tag in records.about.get("tags", ())],
                **{key: found[key] for key in ("done", "total", "waiting", "failed", "finished")},
                "questions": records.store.question_counts(),
            }
        except DraftVerifyError as error:
            row["error"] = str(error)
        except (
            Exception
        ) as error:  # whatever a file that somebody else wrote makes of us, the others are listed
            row["error"] = redact(f"{path}: {type(error).__name__}: {error}")
        self._rows[name] = now, row
        return row

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            while self._open:
                self._open.popitem()[1][1].close()

    def _load(self, path: Path) -> RunRecords:
        return load_run(path, url=self._url)

    def _path(self, name: str) -> Path:
        return self.root if self.single else self.root / name


def _inodes(path: Path) -> object:
    """What tells a directory from another one in its place; run.json is a new file after each start, too."""
    stamps = _stamps(path)
    return tuple(stamps[name][0] if name in stamps else None for name in ("run.json", "records.db"))


def _stamps(path: Path) -> dict[str, tuple[int, int, int]]:
    found = {}
    for name in ("run.json", "records.db", "records.db-wal", "summary.json"):
        try:
            stat = os.stat(path / name)
        except OSError:
            continue
        found[name] = stat.st_ino, stat.st_mtime_ns, stat.st_size
    return found
