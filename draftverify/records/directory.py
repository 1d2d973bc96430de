"""A run directory: one run's config, versions, records, summary and report, held by one process at a time.

    RUN/run.json       the run's id, name, config hash, and the versions it was started and resumed with
    RUN/config.json    the resolved config, secrets redacted
    RUN/records.db     the store (unless the config names a PostgreSQL URL)
    RUN/summary.json   every figure of the tables
    RUN/report.html    the same, to be read
    RUN/lock           held while a process drives the run

The same command on the same directory goes on where the last one stopped, however that one ended. Another
config is refused, and nothing is ever deleted: `--fresh` moves the old directory aside.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from draftverify.errors import StoreError
from draftverify.records.store import Entry, Prediction, Question, Store, sqlite_url
from draftverify.secret import redact
from draftverify.values import EMPTY, Task, TaskRecord

__all__ = ["RunDirectory", "RunRecords", "load_run", "versions"]

_PACKAGES = ("draftverify", "msgspec", "numpy", "scipy", "sqlalchemy", "torch", "transformers", "xllamacpp")
_OWN = {"lock", "run.json", "config.json"}
_driven: set[Path] = set()


def versions() -> dict[str, str]:
    """Python, platform, processor and the installed packages that can change a result or a time."""
    found = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count() or 1),
    }
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


class RunDirectory:
    """A run directory that this process drives. Use it as a context manager.

    Args:
        path: the directory; made if missing.
        name: of the run.
        config: the resolved config as plain data, secrets redacted.
        config_hash: of the whole resolved config.
        parts: what the run's records rest on beside it, by name: plugins and files, each with version and SHA-256.
        metrics: what its metrics rest on, in the same form; noted when it changes, and not refused.
        marks: what is to be said of its pipelines wherever they are shown, by their names; noted likewise.
        fresh: move a run that is there aside, and begin anew.
        accept_changed: go on with a run of other parts, and note what changed.
        url: of another store than the directory's own SQLite file.

    Raises:
        StoreError: another process drives it, it holds a run of another config or of other parts, or it is no run
            directory.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str,
        config: Mapping[str, Any],
        config_hash: str,
        parts: Mapping[str, Mapping[str, str]] = EMPTY,
        metrics: Mapping[str, Mapping[str, str]] = EMPTY,
        marks: Mapping[str, Sequence[str]] = EMPTY,
        fresh: bool = False,
        accept_changed: bool = False,
        url: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.resumed = False
        self._name = name
        self._config = config
        self._hash = config_hash
        self._parts = parts
        self._metrics = metrics
        self._marks = {name: list(own) for name, own in marks.items() if own}
        self._fresh = fresh
        self._accept_changed = accept_changed
        self._url = url
        self._store: Store | None = None
        self._held = ExitStack()

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            raise StoreError(f"{self.path}: the run directory is not open")
        return self._store

    def __enter__(self) -> RunDirectory:
        with ExitStack() as held:
            self._open(held)
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._store = None
        self._held.close()

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json, whole or not at all."""
        _write(self.path / "summary.json", _dump(summary))

    def write_report(self, html: str) -> None:
        """Write report.html, whole or not at all."""
        _write(self.path / "report.html", html)

    def _open(self, held: ExitStack) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path}: the run directory cannot be made: {error}") from error
        self._take_lock(held)
        if self._fresh and (self.path / "run.json").exists():
            self._move_aside()
        about = _read_about(self.path)
        self.resumed = about is not None
        kind = "postgresql" if self._url else "records.db"
        if about is None:
            foreign = sorted(entry.name for entry in self.path.iterdir() if not _is_own(entry.name))
            if foreign:
                raise StoreError(
                    f"{self.path}: not a run directory ({foreign[0]} is in it, run.json is not); "
                    "choose another --out"
                )
            about = {
                "run": uuid.uuid4().hex,
                "name": self._name,
                "config_hash": self._hash,
                "store": kind,
                "starts": [],
            }
        else:
            self._compare(about)
            if about.get("store", kind) != kind:
                mend = "PostgreSQL; give --store" if self._url is None else "records.db; leave out --store"
                raise StoreError(f"{self.path}: its records are in {mend}, or choose another --out")
        starts = about.setdefault("starts", [])
        start = {
            "versions": versions(),
            "parts": dict(self._parts),
            "metrics": dict(self._metrics),
            "marks": self._marks,
        }
        last = {key: starts[-1].get(key) for key in start} if starts else {}
        if last != start:
            changed = self._changed(last)
            at = datetime.now(timezone.utc).isoformat(timespec="seconds")
            starts.append({"at": at, **start, **({"accepted": changed} if changed else {})})
            _write(self.path / "config.json", _dump(self._config))
            _write(self.path / "run.json", _dump(about))
        url = self._url or sqlite_url(self.path / "records.db")
        begun = bool(about.get("begun"))
        store = Store.open(url, about["run"], config_hash=self._hash, name=self._name, create=not begun)
        self._store = held.enter_context(store)
        if not begun:  # from now on records that are gone are lost, and not those of a start that was killed
            _write(self.path / "run.json", _dump({**about, "begun": True}))

    def _take_lock(self, held: ExitStack) -> None:
        key = self.path.resolve()
        busy = StoreError(
            f"{self.path}: another process drives this run; wait for it, or choose another --out"
        )
        if key in _driven:
            raise busy
        _driven.add(key)
        held.callback(_driven.discard, key)
        try:
            lock = held.enter_context(open(self.path / "lock", "a+"))  # noqa: SIM115
            _lock_file(lock)
        except OSError as error:
            raise busy from error

    def _move_aside(self) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.old{number}")).exists():
            number += 1
        aside.mkdir()
        for entry in sorted(self.path.iterdir()):
            if entry.name != "lock":
                entry.rename(aside / entry.name)

    def _changed(self, last: Mapping[str, Any]) -> list[str]:
        """How the parts differ from those of the last start, where that is accepted."""
        before = last.get("parts")
        changed = [] if before is None else list(_changes(before, self._parts))
        if changed and not self._accept_changed:
            raise StoreError(
                f"{self.path}: {_some(changed)} since this run was made, and its results are not those of two "
                "versions; choose another --out, start over with --fresh (which moves the old run aside), "
                "or go on with --accept-changed (which notes it)"
            )
        return changed

    def _compare(self, about: Mapping[str, Any]) -> None:
        if about["config_hash"] == self._hash:
            return
        try:
            old = json.loads((self.path / "config.json").read_text())
        except (OSError, ValueError):
            old = {}
        changed = list(_differences(old, json.loads(_dump(self._config)), ""))
        what = _some(changed)
        raise StoreError(
            f"{self.path}: this directory holds a run of another config"
            + (f" ({what})" if what else "")
            + "; choose another --out, or start over with --fresh (which moves the old run aside)"
        )


class RunRecords:
    """A run that was made, for reading: in notebooks, `show`, `review`. Iterating gives its TaskRecords.

    Args:
        path: the run directory.
        url: of the store, when it is not the directory's own file.

    Raises:
        StoreError: it is no run directory, or its database cannot be read.
    """

    def __init__(self, path: str | Path, *, url: str | None = None) -> None:
        self.path = Path(path)
        about = _read_about(self.path)
        if about is None:
            raise StoreError(f"{self.path}: not a run directory (there is no run.json in it)")
        self.about: Mapping[str, Any] = about
        if self.about.get("store") == "postgresql" and url is None:
            url = os.environ.get("DRAFTVERIFY_STORE")
            if url is None:
                raise StoreError(
                    f"{self.path}: its records are in PostgreSQL; set DRAFTVERIFY_STORE to its URL"
                )
        self.store = Store.open(
            url or sqlite_url(self.path / "records.db"), self.about["run"], config_hash="", create=False
        )

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config, secrets redacted."""
        return _read_json(self.path / "config.json")

    @property
    def summary(self) -> dict[str, Any]:
        """summary.json, or {} while the run is not finished."""
        path = self.path / "summary.json"
        return _read_json(path) if path.exists() else {}

    @property
    def marks(self) -> Mapping[str, Sequence[str]]:
        """What is to be said of its pipelines wherever they are shown, by their names, as of its last start."""
        starts = self.about.get("starts") or [{}]
        found: Mapping[str, Sequence[str]] = starts[-1].get("marks", {})
        return found

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The measured tasks, in order."""
        return self.store.tasks("measure")

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions to a person, with their answers."""
        return self.store.questions()

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """What was predicted before the measuring run."""
        return self.store.predictions()

    def entries(self, *, pipeline: str | None = None, task: str | None = None) -> Iterator[Entry]:
        """Committed records of the measuring run with pipeline and words, in task order."""
        return self.store.entries(pipeline=pipeline, task=task, phase="measure")

    def records(self, pipeline: str) -> list[TaskRecord]:
        """One pipeline's records, in task order."""
        return [entry.record for entry in self.store.entries(pipeline=pipeline, phase="measure", texts=False)]

    def __iter__(self) -> Iterator[TaskRecord]:
        return (entry.record for entry in self.store.entries(phase="measure", texts=False))

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def __enter__(self) -> RunRecords:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def load_run(path: str | Path, *, url: str | None = None) -> RunRecords:
    """Open a run directory for reading.

    Examples:
        >>> from draftverify.records import load_run
        >>> with load_run("runs/summaries") as run:  # doctest: +SKIP
        ...     for record in run:
        ...         print(record.task, record.outcome.status)
    """
    return RunRecords(path, url=url)


def _is_own(name: str) -> bool:
    # What a process that was killed while it made the directory can have left.
    return name in _OWN or name.endswith(".part")


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(redact(text), encoding="utf-8")
    os.replace(part, path)


def _read_about(path: Path) -> dict[str, Any] | None:
    """What the run.json of a directory says; None where there is none."""
    file = path / "run.json"
    return _read_json(file, ("run", "config_hash")) if file.exists() else None


def _read_json(path: Path, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: {error}; restore it from a copy, or choose another --out") from error
    if not isinstance(found, dict) or any(not isinstance(found.get(key), str) for key in keys):
        raise StoreError(f"{path}: not what draftverify wrote; restore a copy, or choose another --out")
    return found


def _differences(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}" if path else str(key)
            if key not in new:
                yield f"{inner} is gone"
            elif key not in old:
                yield f"{inner} is new"
            else:
                yield from _differences(old[key], new[key], inner)
    elif old != new:
        yield f"{path} was {_short(old)}, is {_short(new)}"


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """How parts differ, in words; the hashes themselves stand in run.json."""
    for name in dict.fromkeys((*old, *new)):
        before, now = old.get(name), new.get(name)
        if before == now:
            continue
        if before is None or now is None:
            yield f"{name} is {'new' if before is None else 'gone'}"
        elif before.get("version") != now.get("version"):
            yield f"{name} has changed from version {before.get('version')} to {now.get('version')}"
        else:
            yield f"{name} has changed"


def _some(changed: Sequence[str]) -> str:
    return "; ".join(changed[:5]) + ("; …" if len(changed) > 5 else "")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "…"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if sys.platform == "win32":

    def _lock_file(lock: IO[str]) -> None:
        import msvcrt

        msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)

else:

    def _lock_file(lock: IO[str]) -> None:
        # lockf, not flock: a worker that was forked must not keep the lock of a parent that was killed.
        import fcntl

        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
