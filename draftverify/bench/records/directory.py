"""A run directory: one run's config, versions, records, summary and report, held by one process at a time.

    RUN/run.json       the run's id, name, tags, config hash, and the versions it was started and resumed with
    RUN/config.json    the resolved config, secrets redacted
    RUN/records.db     the store (unless the config names a PostgreSQL URL)
    RUN/summary.json   every figure of the tables
    RUN/report.html    the same, to be read
    RUN/lock           held while a process drives the run

The same command on the same directory goes on where the last one stopped, however that one ended. Another
config is refused, and nothing is ever deleted: `--fresh` moves the old directory aside.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import struct
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from draftverify.bench.records.database import sqlite_url, store_url
from draftverify.bench.records.entries import Entry, MonitorEntry, Question, StoredPrediction
from draftverify.bench.records.store import Store
from draftverify.errors import StoreError
from draftverify.secret import Secret, hide_urls, redact
from draftverify.values import EMPTY, Task, TaskRecord

if TYPE_CHECKING:
    pass

__all__ = [
    "FREE",
    "TAG",
    "RunDirectory",
    "RunRecords",
    "differences",
    "is_driven",
    "load_run",
    "made_from",
    "marked",
    "read_about",
    "versions",
]

_PACKAGES = ("draftverify", "msgspec", "numpy", "scipy", "sqlalchemy", "torch", "transformers", "xllamacpp")
_CARDS = Path("/proc/driver/nvidia/gpus")
_OWN = {"lock", "run.json", "config.json"}
_driven: set[Path] = set()

FREE = ("currency", "executor", "durable", "metrics", "store", "tags", "telemetry")
"""The keys of a config that change no record: a run goes on though they are others."""

_VARIABLE = re.compile(r"\$\{(\w+)\}")
TAG = re.compile(r"\w[\w.:=/+-]{0,99}")
"""What a tag looks like."""


def versions() -> dict[str, str]:
    """The versions of Python, platform, processor, accelerator and the installed packages that can change a result or a
    time."""
    identities = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count() or 1),
    }
    if accelerator := _accelerator():
        identities["accelerator"] = accelerator
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            identities[package] = version(package)
    return identities


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
        tags: words to find the run by: the config's, and of others those of the last start that gave any.
        fresh: move a run that is there aside, and begin anew.
        accept_changed: go on with a run of other parts, and note what changed.
        url: of another store than the directory's own SQLite file.
        command: the command line of this start.
        served: whether its tasks are a server's, as they come.

    Raises:
        StoreError: another process drives it, it holds a run of another config or of other parts, a server's tasks
            where a run's are to be or the other way round, or it is no run directory.
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
        tags: Sequence[str] = (),
        fresh: bool = False,
        accept_changed: bool = False,
        url: str | None = None,
        command: Sequence[str] = (),
        served: bool = False,
    ) -> None:
        self.path = Path(path)
        self.resumed = False
        self._served = served
        self._name = name
        self._config = config
        self._hash = config_hash
        self._parts = parts
        self._metrics = metrics
        self._marks = {name: list(phrases) for name, phrases in marks.items() if phrases}
        self._tags = list(dict.fromkeys(tags))
        self._fresh = fresh
        self._accept_changed = accept_changed
        self.url = url
        self._command = [hide_urls(argument) for argument in command]
        self._store: Store | None = None
        self._held = ExitStack()
        self._kept: dict[
            str, int | None
        ] = {}  # files by name, and their inodes where another one will not do

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

    def look(self) -> bool:
        """Whether a run is there that would be gone on with. It is compared as on entering, and nothing is written.

        Raises:
            StoreError: it holds a run of another config or of other parts, or it is no run directory.
        """
        about = _read_about(self.path)
        if about is None:
            self._refuse_foreign()
        if about is None or self._fresh:
            return False
        self._same_run(about)
        self._changed((about.get("starts") or [{}])[-1])
        return bool(about.get("begun"))

    def check(self) -> None:
        """See that what this run writes is still kept here: SQLite goes on writing to a file that was removed.

        Raises:
            StoreError: the directory, or a file that it cannot do without, was moved or removed.
        """
        for name, number in self._kept.items():
            try:
                in_place = number in (None, (self.path / name).stat().st_ino)
            except FileNotFoundError:
                in_place = False
            if not in_place:
                raise _gone(self.path / name)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json, whole or not at all."""
        _write(self.path / "summary.json", _dump(summary))

    def write_report(self, name: str, text: str) -> None:
        """Write report.NAME, whole or not at all. Its texts are without secrets: the page is packed, and nothing could
        be taken out of it here."""
        _write_whole(self.path / f"report.{name}", text)

    def _open(self, held: ExitStack) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{self.path}: the run directory cannot be made ({error.strerror or error}); choose another --out"
            ) from error
        self._take_lock(held)
        if self._fresh and (self.path / "run.json").exists():
            self._move_aside()
        about = _read_about(self.path)
        self.resumed = about is not None
        if about is None:
            self._refuse_foreign()
            about = {
                "run": uuid.uuid4().hex,
                "name": self._name,
                "config_hash": self._hash,
                "tags": [],
                "store": self._kind,
                "served": self._served,
                "starts": [],
            }
        else:
            self._same_run(about)
        starts = about.setdefault("starts", [])
        start = _as_written(
            {
                "versions": versions(),
                "parts": dict(self._parts),
                "metrics": dict(self._metrics),
                "marks": self._marks,
            }
        )
        previous = {key: starts[-1].get(key) for key in start} if starts else {}
        tags = self._tagged(about)
        tagged = about.get("tags") != tags
        if tagged:
            about["tags"] = tags
        # The same command noted twice would say nothing; one without --estimate does.
        new_command = bool(starts and self._command) and starts[-1].get("command") != _as_written(
            self._command
        )
        if previous != start or new_command:
            changed = self._changed(previous)
            at = datetime.now(timezone.utc).isoformat(timespec="seconds")
            noted = {"accepted": changed} if changed else {}
            starts.append({"at": at, "command": self._command, **start, **noted})
        config, written = self.path / "config.json", hide_urls(_dump(self._config))
        # What changes no record may be another: readers take the metrics' names from it.
        if (
            previous != start
            or not config.exists()
            or config.read_text(encoding="utf-8", errors="replace") != written
        ):
            _write_whole(config, written)
        if previous != start or new_command or tagged:
            _write(self.path / "run.json", _dump(about))
        url = self.url or sqlite_url(self.path / "records.db")
        begun = bool(about.get("begun"))
        store = Store.open(url, about["run"], config_hash=self._hash, name=self._name, create=not begun)
        self._store = held.enter_context(store)
        if not begun:  # from now on records that are gone are lost, and not those of a start that was killed
            _write(self.path / "run.json", _dump({**about, "begun": True}))
        self._kept = {"run.json": None}
        if self.url is None:
            self._kept["records.db"] = (self.path / "records.db").stat().st_ino

    def _tagged(self, about: Mapping[str, Any]) -> list[str]:
        """The run's tags now; config.json still has the last start's."""
        config = list(self._config.get("tags", ()))
        if set(self._tags) <= set(config):  # none was given beside the config's: those of before stay
            try:
                old_tags = json.loads((self.path / "config.json").read_text(encoding="utf-8")).get("tags", ())
            except (OSError, ValueError, AttributeError):
                old_tags = ()
            config += [tag for tag in about.get("tags", ()) if tag not in old_tags]
        return list(dict.fromkeys((*config, *self._tags)))

    def _take_lock(self, held: ExitStack) -> None:
        key = self.path.resolve()
        mend = "drives this run; wait for it, or choose another --out"
        if key in _driven:
            raise StoreError(f"{self.path}: this process {mend}")
        _driven.add(key)
        held.callback(_driven.discard, key)
        try:
            lock = held.enter_context(open(self.path / "lock", "a+"))  # noqa: SIM115
        except OSError as error:
            raise _unwritable(self.path / "lock", error) from error
        try:
            _lock_file(lock)
        except OSError as error:
            number = _holder(lock)
            raise StoreError(
                f"{self.path}: another process{f' ({number})' if number else ''} {mend}"
            ) from error

    def _move_aside(self) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.old{number}")).exists():
            number += 1
        try:
            aside.mkdir()
            for entry in sorted(self.path.iterdir()):
                if entry.name != "lock":
                    entry.rename(aside / entry.name)
        except OSError as error:
            raise _unwritable(aside, error) from error

    def _changed(self, start: Mapping[str, Any]) -> list[str]:
        """How the run's parts differ from those of the last start, where that is accepted."""
        recorded = start.get("parts")
        changed = [] if recorded is None else list(_changes(recorded, _as_written(dict(self._parts))))
        if changed and not self._accept_changed:
            raise StoreError(
                f"{self.path}: {_some(changed)} since this run was made, and its results are not those of two "
                "versions; choose another --out, start over with --fresh (which moves the old run aside), "
                "or go on with --accept-changed (which notes it)"
            )
        return changed

    @property
    def _kind(self) -> str:
        return "postgresql" if self.url else "records.db"

    def _refuse_foreign(self) -> None:
        entries = self.path.iterdir() if self.path.is_dir() else ()
        foreign = sorted(entry.name for entry in entries if not _is_own(entry.name))
        if foreign:
            raise StoreError(
                f"{self.path}: not a run directory ({foreign[0]} is in it, run.json is not); choose another --out"
            )

    def _same_run(self, about: Mapping[str, Any]) -> None:
        if about.get("served", False) != self._served:
            tasks = "those of a run" if self._served else "what a server recorded"
            raise StoreError(
                f"{self.path}: its tasks are {tasks}, which do not mix with others; choose another --out"
            )
        self._compare(about)
        if about.get("store", self._kind) != self._kind:
            mend = (
                "PostgreSQL; give store: or --store" if self.url is None else "records.db; leave out --store"
            )
            raise StoreError(f"{self.path}: its records are in {mend}, or choose another --out")

    def _compare(self, about: Mapping[str, Any]) -> None:
        if about["config_hash"] == self._hash:
            return
        try:
            old = json.loads((self.path / "config.json").read_text())
        except (OSError, ValueError):
            old = {}
        sides = (old, json.loads(hide_urls(_dump(self._config))))
        recorded, now = ({key: value for key, value in side.items() if key not in FREE} for side in sides)
        differing = _some(list(differences(recorded, now)))
        raise StoreError(
            f"{self.path}: this directory holds a run of another config"
            + (f" ({differing})" if differing else "")
            + "; choose another --out, or start over with --fresh (which moves the old run aside)"
        )


def marked(marks: Mapping[str, Sequence[str]], store: Store) -> dict[str, tuple[str, ...]]:
    """The marks of pipelines, with the alarms of those that have had any."""
    alarms = {
        name: [str(a) for entry in entries for a in entry.alarms]
        for name, entries in store.watched(alarmed=True).items()
    }
    return {name: (*marks.get(name, ()), *alarms.get(name, ())) for name in {**marks, **alarms}}


class RunRecords:
    """A run that was made, for reading: in notebooks, `show`, `review`. Iterating gives its TaskRecords.

    Args:
        path: the run directory.
        url: of the store, when its records are in PostgreSQL; of no matter when they are in the directory's own file.
        thorough: look for damage in the whole database first.
        patient: wait for a server that cannot be reached: it was there a moment ago.

    Raises:
        StoreError: it is no run directory, or its database cannot be read.
    """

    def __init__(
        self, path: str | Path, *, url: str | None = None, thorough: bool = True, patient: bool = False
    ) -> None:
        self.path = Path(path)
        self.about: Mapping[str, Any] = read_about(self.path)
        with suppress(OSError):  # its secrets that this process knows are shown by nobody who reads the run
            for name in _VARIABLE.findall(
                (self.path / "config.json").read_text(encoding="utf-8", errors="replace")
            ):
                Secret(os.environ.get(name, ""))
        if self.about.get("store") != "postgresql":
            url = None  # DRAFTVERIFY_STORE is of other runs
        elif url is None:
            written = self.config.get("store") or ""
            url = os.environ.get("DRAFTVERIFY_STORE") or store_url(written)
            if not url or "***" in url:  # a password in a config is not kept
                raise StoreError(
                    f"{self.path}: its records are in PostgreSQL; set DRAFTVERIFY_STORE to its URL"
                )
        self.store = Store.open(
            url or sqlite_url(self.path / "records.db"),
            self.about["run"],
            config_hash="",
            create=False,
            thorough=thorough,
            patient=patient,
        )

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config, secrets redacted."""
        return _read_json(self.path / "config.json")

    @property
    def currency(self) -> str:
        """Of costs; "" where the experiment names none."""
        return str(self.config.get("currency", ""))

    @property
    def summary(self) -> dict[str, Any]:
        """summary.json, or {} while the run is not finished."""
        path = self.path / "summary.json"
        return _read_json(path) if path.exists() else {}

    @property
    def marks(self) -> Mapping[str, Sequence[str]]:
        """The marks of its pipelines, shown wherever they are, by their names: as of its last start, and what
        their monitors said since."""
        starts = self.about.get("starts") or [{}]
        return marked(starts[-1].get("marks", {}), self.store)

    @property
    def tags(self) -> tuple[str, ...]:
        """The words that it was given to be found by."""
        return tuple(map(str, self.about.get("tags", ())))

    @property
    def names(self) -> list[str]:
        """The pipelines, in the config's order; of a sweep those of its cells."""
        config = self.config
        cells = config.get("cells", {})
        return [
            cell
            for name in config.get("pipelines", {})
            for cell in ([cell for cell in cells if cell.partition("@")[0] == name] or [name])
        ]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The measured tasks, in order."""
        return self.store.tasks("measure")

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions to a person, with their answers."""
        return self.store.questions()

    @property
    def watched(self) -> Mapping[str, Sequence[MonitorEntry]]:
        """What its pipelines' monitors were told and said, by pipeline, in task order."""
        return self.store.watched()

    @property
    def predictions(self) -> tuple[StoredPrediction, ...]:
        """What was predicted before the measuring run."""
        return self.store.predictions()

    def entries(
        self, *, pipeline: str | None = None, task: str | None = None, texts: bool = True
    ) -> Iterator[Entry]:
        """Records of the measuring run with pipeline and words, in task order; of a task that waits the one so far."""
        return self.store.entries(pipeline=pipeline, task=task, phase="measure", texts=texts)

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


def _no_run(path: Path) -> str:
    """What stands where a run directory was looked for, and the runs that are near."""
    if path.is_file():
        return "not a run directory but a file; `draftverify run` says where it wrote the run"
    folder = path if path.is_dir() else path.parent
    near = sorted(str(file.parent) for file in folder.glob("*/run.json"))[:8] if folder.is_dir() else []
    hint = f"; there {'is' if len(near) == 1 else 'are'} {', '.join(near)}" if near else ""
    return (
        "not a run directory (there is no run.json in it)" if path.is_dir() else "there is no such directory"
    ) + hint


def load_run(
    path: str | Path, *, url: str | None = None, thorough: bool = True, patient: bool = False
) -> RunRecords:
    """Open a run directory for reading; the arguments are those of RunRecords.

    Examples:
        >>> from draftverify.bench.records.directory import load_run
        >>> with load_run("runs/summaries") as run:  # doctest: +SKIP
        ...     for record in run:
        ...         print(record.task, record.outcome.status)
    """
    return RunRecords(path, url=url, thorough=thorough, patient=patient)


def _is_own(name: str) -> bool:
    # What a process that was killed while it made the directory can have left.
    return name in _OWN or name.endswith(".part")


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _as_written(value: Any) -> Any:
    """The data as a later start reads it: a name that has a secret in it would otherwise differ from itself."""
    return json.loads(redact(_dump(value)))


def _write(path: Path, text: str) -> None:
    _write_whole(path, redact(text))


def _write_whole(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StoreError:
    """The error for a file that cannot be written: what to do depends on what is in the way; in any case nothing that
    was written before is lost."""
    if isinstance(error, FileNotFoundError):
        return _gone(path)
    room = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    mend = "make room" if room else "make it writable, or choose another --out"
    return StoreError(
        f"{path}: cannot be written ({error.strerror or error}); {mend}: what was committed stays, and the same "
        "command goes on from it"
    )


def _gone(path: Path) -> StoreError:
    return StoreError(
        f"{path}: moved or removed while the run goes on, and what comes now would be lost; put it back where it was, "
        "and the same command goes on from it, or choose another --out"
    )


def read_about(path: Path) -> dict[str, Any]:
    """What a run directory's run.json says.

    Raises:
        StoreError: it is no run directory, or run.json cannot be read.
    """
    about = _read_about(path)
    if about is None:
        raise StoreError(f"{path}: {_no_run(path)}")
    return about


def _read_about(path: Path) -> dict[str, Any] | None:
    """What the run.json of a directory says; None where there is none."""
    file = path / "run.json"
    return _read_json(file, ("run", "config_hash")) if file.exists() else None


def _read_json(path: Path, keys: tuple[str, ...] = ()) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: {error}; restore it from a copy, or choose another --out") from error
    if not isinstance(content, dict) or any(not isinstance(content.get(key), str) for key in keys):
        raise StoreError(f"{path}: not what draftverify wrote; restore a copy, or choose another --out")
    return content


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """How two configs differ, in words, by dotted paths."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}" if path else str(key)
            if key not in new:
                yield f"{inner} is gone"
            elif key not in old:
                yield f"{inner} is new"
            else:
                yield from differences(old[key], new[key], inner)
    elif old != new:
        yield f"{path} was {_short(old)}, is {_short(new)}"


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """How parts differ, in words; the hashes themselves stand in run.json."""
    for name in dict.fromkeys((*old, *new)):
        old_part, now = old.get(name), new.get(name)
        if old_part == now:
            continue
        if old_part is None or now is None:
            yield f"{name} is {'new' if old_part is None else 'gone'}"
        elif old_part.get("version") != now.get("version"):
            yield f"{name} has changed from version {old_part.get('version')} to {now.get('version')}"
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


def _accelerator() -> str:
    """The models of NVIDIA's cards as the driver names them, each once; asking torch would begin to use them."""
    models = set()
    for file in _CARDS.glob("*/information"):
        with suppress(OSError):
            for line in file.read_text().splitlines():
                if line.startswith("Model:"):
                    models.add(line.partition(":")[2].strip())
    return ", ".join(sorted(models))


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


def made_from(run: RunRecords) -> Path:
    """The directory of the config that the run's last command named, while it stands there."""
    for start in reversed(run.about.get("starts") or []):
        for argument in start.get("command", ()):
            if str(argument).endswith((".yaml", ".yml")) and Path(argument).is_file():
                return Path(argument).parent
    return run.path
