"""`draftverify show`: the runs of a directory; a run's tables, lists of its tasks, or one task round by round."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from shlex import quote

import click
import msgspec
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.options import CommandLine
from draftverify.bench.cli.screen import new_table, print_json, print_lines, wide_console
from draftverify.bench.cli.trouble import what_went_wrong
from draftverify.bench.records.directory import RunRecords, load_run
from draftverify.bench.records.listing import ListedRun, list_runs
from draftverify.bench.tables.listing import KINDS, listed
from draftverify.bench.tables.summarise import so_far
from draftverify.bench.tables.summary import Summary
from draftverify.bench.tables.tables import print_tables
from draftverify.bench.tables.task_rows import all_rows
from draftverify.bench.tables.trace import trace_lines
from draftverify.bench.tables.words import clean, words
from draftverify.errors import StoreError, check_known

RUNS = "runs"
"""The directory that is listed when none is named."""


@click.command()
@click.argument("run", default=RUNS, metavar="[RUN|DIRECTORY]", type=click.Path())
@click.option("--trace", metavar="TASK", help="Step through one task: drafted, kept, struck, spliced.")
@click.option(
    "--tasks",
    type=click.Choice(KINDS),
    is_flag=False,
    flag_value="all",
    metavar="[KIND]",
    help=f"List tasks instead: {', '.join(KINDS)}.",
)
@click.option("--search", metavar="TEXT", help="With --tasks: whose id, group or beginning holds it.")
@click.option("--limit", type=options.COUNT, help="With --tasks: so many; 20 when absent.")
@click.option("--pipeline", metavar="NAME", help="With --trace or --tasks: only this pipeline.")
@options.repeated("--tag", "tags", "T", "Of runs: that have this tag")
@click.option("--json", "as_json", is_flag=True, help="Of runs: write the list as JSON.")
@options.store
def show(
    run: str,
    trace: str | None,
    tasks: str | None,
    search: str | None,
    limit: int | None,
    pipeline: str | None,
    tags: tuple[str, ...],
    as_json: bool,
    store: str | None,
) -> None:
    """Show the tables of RUN, finished or not; list its tasks; step through one; or list the runs below DIRECTORY.

    \b
    draftverify show runs/NAME --tasks failed
    draftverify show runs/NAME --trace TASK
    """
    if pipeline is not None and trace is None and tasks is None:
        raise click.UsageError("--pipeline goes with --trace TASK or --tasks")
    if trace is not None and tasks is not None:
        raise click.UsageError("--trace shows one task, --tasks lists them; give one of them")
    if tasks is None and (search is not None or limit is not None):
        raise click.UsageError("--search and --limit go with --tasks")
    folder = Path(run)
    if trace is None and tasks is None and (_holds_runs(folder) or (run == RUNS and not folder.exists())):
        _print_runs(folder, tags, as_json)
        return
    if tags or as_json:
        raise click.UsageError(f"--tag and --json go with a directory of runs; {run} is none")
    console = Console(highlight=False)
    with load_run(run, url=store) as records:
        if pipeline is not None:
            check_known("pipeline", pipeline, records.names, path="--pipeline", holder="the run has")
        if trace is not None:
            tracebacks = CommandLine.now().tracebacks
            marks = console.color_system is None
            print_lines(console, trace_lines(records, trace, pipeline, marks=marks, tracebacks=tracebacks))
        elif tasks is not None:
            rows, currency = list(all_rows(records)), records.currency
            lines = list(
                listed(
                    rows, tasks, pipeline=pipeline, search=search or "", limit=limit or 20, currency=currency
                )
            )
            if len(lines) > 1:
                lines.append(Text(f"round by round: draftverify show {quote(run)} --trace TASK", style="dim"))
            print_lines(console, lines)
        else:
            print_tables(console, summary_of(records))
            what_went_wrong(console, records, run)


def _holds_runs(folder: Path) -> bool:
    """Whether it is a directory and no run itself."""
    return folder.is_dir() and not (folder / "run.json").exists()


def _print_runs(folder: Path, tags: tuple[str, ...], as_json: bool) -> None:
    """The runs at and below a directory, the latest first; one that cannot be read with the reason."""
    runs = list_runs(folder, tags=tags)
    if as_json:
        print_json([{**msgspec.to_builtins(run, enc_hook=str), "state": run.state} for run in runs])
        return
    console = wide_console()
    if not runs:
        tagged = f" tagged {', '.join(tags)}" if tags else ""
        place = f"no runs{tagged} under" if folder.is_dir() else "there is no directory"
        console.print(Text(f"{place} {folder}; `draftverify run CONFIG` makes one in runs/"))
        return
    table = new_table("run", "begun", ">tasks", "pipelines", "state", "tags")
    for column in table.columns:
        column.overflow = "fold"
    for run in runs:
        if not run.problem:
            table.add_row(*map(Text, _run_cells(run)))
    if table.rows:
        console.print(table)
    for run in runs:
        if run.problem:
            console.print(Text.assemble(("cannot be read: ", "red"), words(run.problem, 600)))


def _run_cells(run: ListedRun) -> tuple[str, ...]:
    names = clean(", ".join(run.pipelines[:3]))
    if len(run.pipelines) > 3:
        names = f"{len(run.pipelines)}: {names}, …"
    try:
        begun = datetime.fromisoformat(run.begun).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        begun = "–"
    return clean(str(run.path)), begun, str(run.tasks), names, run.state, clean(" ".join(run.tags))


def summary_of(records: RunRecords) -> Summary:
    """The finished run's summary, or what can be said of one that is not finished, or goes on again."""
    if records.summary:
        try:
            summary = msgspec.convert(records.summary, Summary)
        except msgspec.ValidationError as error:
            place = records.path / "summary.json"
            raise StoreError(f"{place}: {error}; delete it, and the run command writes it again") from error
        if summary.is_of(records.store.counts()):
            return summary
    partial = so_far(records, {name: records.records(name) for name in records.names})
    return msgspec.structs.replace(partial, name=f"{partial.name} (not finished)")
