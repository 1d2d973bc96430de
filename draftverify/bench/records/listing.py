"""The runs under a directory: what each is and how far it came. One that cannot be read is listed with the reason."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from draftverify.bench.records.about import About, read_about
from draftverify.bench.records.directory import RunRecords, load_run
from draftverify.bench.records.lock import is_driven
from draftverify.errors import StoreError
from draftverify.secret import redact

DEPTH = 4
"""Folders below the directory; what lies deeper is no run that `--out` of the documentation names."""


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory as a list of runs shows it.

    Args:
        path: the directory.
        problem: why it cannot be read; what follows is then as far as it was found.
        name: of the experiment.
        begun, last: when it was first started and last committed a task, ISO times in UTC; "" where unknown.
        tags: words to find it by.
        pipelines: their names, in the config's order.
        tasks: how many are measured.
        units: a task of a pipeline each, those that predict too: how many there are to do.
        statuses: how many of those ended how.
        waiting: how many wait for a person.
        driven: whether a process drives it now.
        retrying: a retry of failed tasks has begun and not come to its end.
        finished: every unit has ended, or waits, the summary is written, and no retry is left to go on with.
    """

    path: Path
    problem: str = ""
    name: str = ""
    begun: str = ""
    last: str = ""
    tags: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    tasks: int = 0
    units: int = 0
    statuses: dict[str, int] = {}
    waiting: int = 0
    driven: bool = False
    retrying: bool = False
    finished: bool = False

    @property
    def done(self) -> int:
        """How many units ended."""
        return sum(self.statuses.values())

    @property
    def state(self) -> str:
        """The state of the run in words: being driven, finished or how far it came; then what failed and what waits."""
        if self.problem:
            return "damaged"
        parts = []
        if self.finished and not self.driven:
            parts.append("finished")
        else:
            parts += ["being driven"] if self.driven else []
            of = f" of {self.units}" if self.units else " done" if self.done else ""
            parts.append(f"{self.done}{of}" if of else "not begun")
        failed = self.statuses.get("failed", 0)
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{self.waiting} waiting"] if self.waiting else []
        parts += ["the retry has not ended"] if self.retrying and not self.driven else []
        return ", ".join(parts)


def list_runs(root: str | Path, *, tags: Iterable[str] = ()) -> list[ListedRun]:
    """The runs at and below a directory, the latest first.

    Args:
        root: the directory; it may be a run itself.
        tags: only runs that have all of them; those that cannot be read are listed always.
    """
    required = set(tags)
    lost: list[str] = []
    runs = [look(path, lost, lambda path: load_run(path, thorough=False)) for path in directories(root)]
    listed = [run for run in runs if run.problem or required <= set(run.tags)]
    return sorted(listed, key=lambda run: (run.begun, str(run.path)), reverse=True)


def directories(root: str | Path, depth: int = DEPTH) -> Iterator[Path]:
    """Run directories at and below a directory; nothing within one is looked at."""
    path = Path(root)
    if (path / "run.json").exists() or (path / "records.db").exists():
        yield path
        return
    if depth == 0:
        return
    try:
        with os.scandir(path) as entries:
            names = sorted(
                entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()
            )
    except OSError:
        return
    for name in names:
        yield from directories(path / name, depth - 1)


def look(
    path: Path, lost: list[str], opened: Callable[[Path], AbstractContextManager[RunRecords]]
) -> ListedRun:
    """A run, or what is wrong with it.

    Args:
        path: its directory.
        lost: why the server of another run was out of reach, if it was; noted of this one.
        opened: opens its records.
    """
    run_listed = ListedRun(path=path, driven=is_driven(path))
    about: About | None = None
    try:
        about = read_about(path)
        began = about.starts[0].at
        run_listed = replace(run_listed, name=about.name, begun=began, tags=about.tags)
        if lost and about.store == "postgresql":
            raise StoreError(lost[0])
        with opened(path) as run:
            counts = run.store.counts()
            pipelines = tuple(run.names)
            tasks = run.store.totals([""], "measure")[""]
            units = sum(run.store.totals(pipelines).values())
            last_commit = run.store.written()[0] or ""
            retrying = run.store.retrying()
    except StoreError as error:
        if about is not None and about.store == "postgresql":
            lost.append(str(error))
        return replace(run_listed, problem=str(error))
    except Exception as error:  # whatever a file that somebody else wrote makes of us, the others are listed
        return replace(run_listed, problem=redact(f"{path}: {type(error).__name__}: {error}"))
    statuses = Counter[str]()
    for (*_, status), count in counts.items():
        statuses[status] += count
    waiting = statuses.pop("waiting", 0)
    return replace(
        run_listed,
        last=last_commit,
        pipelines=pipelines,
        tasks=tasks,
        units=units,
        statuses=dict(statuses),
        waiting=waiting,
        retrying=retrying,
        finished=(path / "summary.json").exists()
        and 0 < units <= statuses.total() + waiting
        and not retrying,
    )
