"""`draftverify run CONFIG`: run an experiment, or go on with it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from draftverify.cli.exits import Exit
from draftverify.engine.events import Event, RoundDone
from draftverify.values import TaskRecord

__all__ = ["run"]


@click.command()
@click.argument("config", type=click.Path())
@click.option("--out", metavar="DIR", help="The run directory; runs/NAME when absent.")
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=C", help="Override a value of the config; repeatable."
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many tasks.")
@click.option("--fresh", is_flag=True, help="Move a run that is there aside and begin anew.")
@click.option(
    "--accept-changed",
    is_flag=True,
    help="Go on though a plugin or a parts file has changed since; run.json notes it.",
)
@click.option(
    "--store", envvar="DRAFTVERIFY_STORE", help="A PostgreSQL URL for the records, instead of a file."
)
def run(
    config: str,
    out: str | None,
    overrides: tuple[str, ...],
    limit: int | None,
    fresh: bool,
    accept_changed: bool,
    store: str | None,
) -> None:
    """Run the experiment CONFIG; the same command goes on with one that was stopped.

    Prints the tables and exits with 6 when tasks failed and 7 when tasks wait for a person.
    """
    from draftverify.experiments.config import load_experiment
    from draftverify.experiments.report import tables
    from draftverify.experiments.run import run as perform

    console = Console(highlight=False)
    experiment = load_experiment(config, overrides=overrides, limit=limit)
    directory = Path(out) if out is not None else Path("runs") / experiment.name
    try:
        with Bars() as bars:
            result = perform(
                experiment,
                out=directory,
                fresh=fresh,
                accept_changed=accept_changed,
                store=store,
                watcher=bars,
            )
    except KeyboardInterrupt:
        click.echo(f"{directory}: what was committed stays; the same command goes on from it", err=True)
        raise
    if not console.is_terminal:
        console.width = 200  # a table in a file or a log is not to be folded
    console.print(tables(result.summary))
    went = "went on with" if result.resumed else "wrote"
    console.print(
        Text(f"{went} {result.path} (task runs now: {result.ran}); see report.html, or draftverify show")
    )
    if result.waiting:
        console.print(Text(f"{result.waiting} wait for a person: draftverify review {result.path}"))
    if result.failed:
        click.get_current_context().exit(Exit.FAILED_TASKS)
    if result.waiting:
        click.get_current_context().exit(Exit.WAITING)


class Bars:
    """Progress bars on stderr, one per pipeline; a line per phase when that is no terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}", markup=False),
            console=self._console,
            transient=True,
        )
        self._bars: dict[str, Any] = {}
        self._rounds = 0
        self._lock = threading.Lock()

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
        """Show a phase's bars."""
        for bar in self._bars.values():
            self._progress.remove_task(bar)
        self._bars = {
            name: self._progress.add_task(f"{phase} {name}", completed=done, total=total, now="")
            for name, (done, total) in totals.items()
        }
        if not self._console.is_terminal:
            done, total = (sum(pair[place] for pair in totals.values()) for place in (0, 1))
            before = f" ({done} done before)" if done else ""
            self._console.print(Text(f"{phase}: {total} runs of tasks{before}"))

    def event(self, event: Event) -> None:
        """Count rounds, and show the count now and then."""
        if not isinstance(event, RoundDone):
            return
        with self._lock:
            self._rounds += 1
            if self._rounds % 16 or not self._console.is_terminal:
                return
            for bar in self._bars.values():
                self._progress.update(bar, now=f"{self._rounds} rounds")

    def done(self, pipeline: str, record: TaskRecord) -> None:
        """Advance a pipeline's bar."""
        self._progress.advance(self._bars[pipeline])
