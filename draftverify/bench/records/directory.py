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

import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from draftverify.bench.records.about import (
    FREE,
    About,
    RunStart,
    find_about,
    read_about,
    store_url,
    versions,
)
from draftverify.bench.records.database import sqlite_url
from draftverify.bench.records.entries import Entry, MonitorEntry, Question, StoredPrediction
from draftverify.bench.records.files import dump, gone, read_json, unwritable, write_changed, write_whole
from draftverify.bench.records.lock import take_lock
from draftverify.bench.records.store import Store
from draftverify.errors import StoreError
from draftverify.secret import Secret, hide_urls, redact
from draftverify.values import Task, TaskRecord

_OWN = {"lock", "run.json", "config.json"}

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def _redacted(value: Any) -> Any:
    return json.loads(redact(dump(msgspec.to_builtins(value))))


@dataclass(eq=False, repr=False)
class RunDirectory:
    """A run directory that this process drives. Use it as a context manager.

    Args:
        directory: its path; made if missing.
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

    directory: InitVar[str | Path]
    _: KW_ONLY
    name: str
    config: Mapping[str, Any]
    config_hash: str
    parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    tags: Sequence[str] = ()
    fresh: bool = False
    accept_changed: bool = False
    url: str | None = None
    command: Sequence[str] = ()
    served: bool = False
    path: Path = field(init=False)
    resumed: bool = field(default=False, init=False)
    _store: Store | None = field(default=None, init=False)
    _held: ExitStack = field(default_factory=ExitStack, init=False)
    _inodes: dict[str, int | None] = field(default_factory=dict, init=False)

    def __post_init__(self, directory: str | Path) -> None:
        self.path = Path(directory)

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
        about = find_about(self.path)
        if about is None:
            self._refuse_foreign()
        if about is None or self.fresh:
            return False
        self._same_run(about)
        self._changed(about)
        return about.begun

    def check(self) -> None:
        """See that what this run writes is still kept here: SQLite goes on writing to a file that was removed.

        Raises:
            StoreError: the directory, or a file that it cannot do without, was moved or removed.
        """
        for name, number in self._inodes.items():
            try:
                in_place = number in (None, (self.path / name).stat().st_ino)
            except FileNotFoundError:
                in_place = False
            if not in_place:
                raise gone(self.path / name)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json, whole or not at all."""
        write_whole(self.path / "summary.json", redact(dump(summary)))

    def write_report(self, name: str, text: str) -> None:
        """Write report.NAME, whole or not at all. Its texts are without secrets: the page is packed, and nothing could
        be taken out of it here."""
        write_whole(self.path / f"report.{name}", text)

    def _open(self, held: ExitStack) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{self.path}: the run directory cannot be made ({error.strerror or error}); choose another --out"
            ) from error
        take_lock(self.path, held)
        if self.fresh and (self.path / "run.json").exists():
            self._move_aside()
        about = find_about(self.path)
        self.resumed = about is not None
        if about is None:
            self._refuse_foreign()
            run = uuid.uuid4().hex
            about = About(
                run=run,
                name=self.name,
                config_hash=self.config_hash,
                store=self._kind,
                served=self.served,
                starts=(),
            )
        else:
            self._same_run(about)
        about = replace(about, tags=self._tagged(about), starts=(*about.starts, *self._new_start(about)))
        # What changes no record may be another: readers take the metrics' names from it.
        write_changed(self.path / "config.json", hide_urls(dump(self.config)))
        self._write_about(about)
        url = self.url or sqlite_url(self.path / "records.db")
        store = Store.open(
            url, about.run, config_hash=self.config_hash, name=self.name, create=not about.begun
        )
        self._store = held.enter_context(store)
        # From now on records that are gone are lost, and not those of a start that was killed.
        self._write_about(replace(about, begun=True))
        self._inodes = {"run.json": None}
        if self.url is None:
            self._inodes["records.db"] = (self.path / "records.db").stat().st_ino

    def _write_about(self, about: About) -> None:
        write_changed(self.path / "run.json", redact(dump(msgspec.to_builtins(about))))

    def _new_start(self, about: About) -> Iterator[RunStart]:
        """This start, where it is another than the last one; the same command noted twice would say nothing."""
        marks = {name: phrases for name, phrases in self.marks.items() if phrases}
        command = [hide_urls(argument) for argument in self.command]
        facts = {"command": command, "versions": versions(), "parts": self.parts, "metrics": self.metrics}
        # As it will be read: a name that has a secret in it would otherwise differ from itself.
        start = msgspec.convert(_redacted({**facts, "marks": marks}), RunStart)
        if about.starts:
            last = replace(about.starts[-1], at="", accepted=UNSET)
            if start == (last if command else replace(last, command=())):
                return
        changed = self._changed(about)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        yield replace(start, at=at, accepted=tuple(changed) if changed else UNSET)

    def _tagged(self, about: About) -> tuple[str, ...]:
        """The run's tags now; config.json still has the last start's."""
        config = list(self.config.get("tags", ()))
        if set(self.tags) <= set(config):  # none was given beside the config's: those of before stay
            try:
                old_tags = json.loads((self.path / "config.json").read_text(encoding="utf-8")).get("tags", ())
            except (OSError, ValueError, AttributeError):
                old_tags = ()
            config += [tag for tag in about.tags if tag not in old_tags]
        return tuple(dict.fromkeys((*config, *self.tags)))

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
            raise unwritable(aside, error) from error

    def _changed(self, about: About) -> list[str]:
        """How the run's parts differ from those of the last start, where that is accepted."""
        parts = _redacted(self.parts)
        changed = [change for start in about.starts[-1:] for change in _changes(start.parts, parts)]
        if changed and not self.accept_changed:
            raise StoreError(
                f"{self.path}: {_some(changed)} since this run was made, and its results are not those of two "
                "versions; choose another --out, start over with --fresh (which moves the old run aside), "
                "or go on with --accept-changed (which notes it)"
            )
        return changed

    @property
    def _kind(self) -> Literal["records.db", "postgresql"]:
        return "postgresql" if self.url else "records.db"

    def _refuse_foreign(self) -> None:
        entries = self.path.iterdir() if self.path.is_dir() else ()
        foreign = sorted(entry.name for entry in entries if not _is_own(entry.name))
        if foreign:
            raise StoreError(
                f"{self.path}: not a run directory ({foreign[0]} is in it, run.json is not); choose another --out"
            )

    def _same_run(self, about: About) -> None:
        if about.served != self.served:
            tasks = "those of a run" if self.served else "what a server recorded"
            raise StoreError(
                f"{self.path}: its tasks are {tasks}, which do not mix with others; choose another --out"
            )
        self._compare(about)
        if about.store != self._kind:
            mend = (
                "PostgreSQL; give store: or --store" if self.url is None else "records.db; leave out --store"
            )
            raise StoreError(f"{self.path}: its records are in {mend}, or choose another --out")

    def _compare(self, about: About) -> None:
        if about.config_hash == self.config_hash:
            return
        try:
            old = json.loads((self.path / "config.json").read_text())
        except (OSError, ValueError):
            old = {}
        sides = (old, json.loads(hide_urls(dump(self.config))))
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
        self.about = read_about(self.path)
        with suppress(OSError):  # its secrets that this process knows are shown by nobody who reads the run
            for name in _VARIABLE.findall(
                (self.path / "config.json").read_text(encoding="utf-8", errors="replace")
            ):
                Secret(os.environ.get(name, ""))
        if self.about.store != "postgresql":
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
            self.about.run,
            config_hash="",
            create=False,
            thorough=thorough,
            patient=patient,
        )

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config, secrets redacted."""
        return read_json(self.path / "config.json")

    @property
    def currency(self) -> str:
        """Of costs; "" where the experiment names none."""
        return str(self.config.get("currency", ""))

    @property
    def summary(self) -> dict[str, Any]:
        """summary.json, or {} while the run is not finished."""
        path = self.path / "summary.json"
        return read_json(path) if path.exists() else {}

    @property
    def marks(self) -> Mapping[str, Sequence[str]]:
        """The marks of its pipelines, shown wherever they are, by their names: as of its last start, and what
        their monitors said since."""
        return marked(self.about.starts[-1].marks, self.store)

    @property
    def tags(self) -> tuple[str, ...]:
        """The words that it was given to be found by."""
        return self.about.tags

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


def made_from(run: RunRecords) -> Path:
    """The directory of the config that the run's last command named, while it stands there."""
    for start in reversed(run.about.starts):
        for argument in start.command:
            if argument.endswith((".yaml", ".yml")) and Path(argument).is_file():
                return Path(argument).parent
    return run.path
