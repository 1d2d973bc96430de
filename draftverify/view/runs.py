"""The runs of a directory, as the server sees them: found by looking, opened when asked for, looked at anew each time.

A run is named by its directory, below the one that is shown, and only names that were found are opened: nothing of a
request becomes a path. What happens to a run's files meanwhile (moved aside, removed, damaged) is an error of the
request that meets it.
"""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from draftverify.bench.records import RunRecords, load_run
from draftverify.bench.records.listing import directories, look
from draftverify.bench.tables.words import cost_words, seconds_words
from draftverify.errors import StoreError
from draftverify.view.overview import summary_of

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
        self._found: dict[str, Path] = {}
        if not self.root.is_dir():
            raise StoreError(
                f"{self.root}: there is no such directory; give a run directory, or one that holds them"
            )
        self.single = (self.root / "run.json").exists()
        if self.single:
            self._load(self.root).close()  # what cannot be shown is an error of the command

    def names(self) -> list[str]:
        """The runs that are there, those that were started last first."""
        if self.single:
            self._found = {self.root.resolve().name: self.root}
        else:
            stamped = [
                (_stamps(path).get("run.json", (0, 0))[1], path.relative_to(self.root).as_posix(), path)
                for path in directories(self.root)
            ]
            self._found = {name: path for _, name, path in sorted(stamped, reverse=True)[:LISTED]}
        return list(self._found)

    def open(self, name: str) -> RunRecords:
        """The records of a run; they stay open, and may be used from several threads.

        Raises:
            UnknownRun: there is none of this name.
            StoreError: it cannot be read.
        """
        path = self._found.get(name)
        if path is None or not path.is_dir():
            self.names()
            path = self._found.get(name)
        if path is None:
            raise UnknownRun(f"there is no run {name!r} here (any more?)")
        now = _inodes(path)
        with self._lock:
            earlier, records = self._open.get(name, (None, None))
            if records is not None and earlier == now:
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

    def rows(self) -> list[dict[str, Any]]:
        """The list's row for each run: how far it came, its scores, how many questions there are; or the problem."""
        lost: list[str] = []
        return [self._row(name, lost) for name in self.names()]

    def _row(self, name: str, lost: list[str]) -> dict[str, Any]:
        path = self._found[name]
        now = _stamps(path)
        earlier, row = self._rows.get(name, (None, None))
        if row is not None and earlier == now and "records.db" in now:
            return row
        questions: dict[str, int] = {}
        scores: list[dict[str, str]] = []

        @contextmanager
        def opened(_: Path) -> Iterator[RunRecords]:
            records = self.open(name)
            questions.update(records.store.question_counts())
            scores.extend(_scores(records))
            yield records

        listing = look(path, lost, opened)
        row = {"run": name, **msgspec.to_builtins(listing, enc_hook=str), "done": listing.done}
        self._rows[name] = now, {**row, "questions": questions, "scores": scores}
        return self._rows[name][1]

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            while self._open:
                self._open.popitem()[1][1].close()

    def _load(self, path: Path) -> RunRecords:
        return load_run(path, url=self._url)


def _scores(records: RunRecords) -> Iterator[dict[str, str]]:
    """What each pipeline of a run that came to its end solved, and at what cost, in words."""
    summary = summary_of(records)
    if summary is None:
        return
    metric = summary.metrics[0] if summary.metrics else None
    for pipeline in summary.pipelines:
        row = pipeline.rows[-1]
        solved = row.solved[metric] if metric is not None else None
        share = (row.accepted if solved is None else solved.rate).value
        tasks = row.tasks or math.inf
        seconds = row.seconds / tasks if solved is None else solved.seconds.value
        cost = row.cost / tasks if solved is None else solved.cost and solved.cost.value
        costs = [seconds_words(seconds)] if seconds is not None else []
        costs += [cost_words(cost, summary.currency)] if cost else []
        yield {
            "pipeline": pipeline.name,
            "share": "–" if share is None else f"{100 * share:.0f} %",
            "what": "accepted" if metric is None else f"solved ({metric})",
            "cost": f"{', '.join(costs)} a {'task' if metric is None else 'solved one'}" if costs else "",
        }


def _inodes(path: Path) -> object:
    """A key that tells a directory from another one in its place; run.json is a new file after each start, too."""
    stamps = _stamps(path)
    return tuple(stamps[name][0] if name in stamps else None for name in ("run.json", "records.db"))


def _stamps(path: Path) -> dict[str, tuple[int, int, int]]:
    stamps = {}
    for name in ("run.json", "records.db", "records.db-wal", "summary.json"):
        try:
            stat = os.stat(path / name)
        except OSError:
            continue
        stamps[name] = stat.st_ino, stat.st_mtime_ns, stat.st_size
    return stamps
