"""`draftverify show RUN`: a run's tables, lists of its tasks, or one task round by round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click
import msgspec
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli.asked import Asked
from draftverify.bench.records.directory import RunRecords, load_run
from draftverify.bench.tables.listing import KINDS, listed, trouble
from draftverify.bench.tables.summarise import so_far
from draftverify.bench.tables.summary import Summary
from draftverify.bench.tables.tables import print_tables
from draftverify.bench.tables.task_rows import all_rows
from draftverify.bench.tables.trace import trace_lines
from draftverify.errors import ConfigError, StoreError
from draftverify.plugins import did_you_mean
from draftverify.values import EMPTY

__all__ = ["print_lines", "show", "what_went_wrong"]


@click.command()
@click.argument("run", type=click.Path())
@click.option("--trace", metavar="TASK", help="Step through one task: drafted, kept, struck, spliced.")
@click.option(
    "--tasks",
    type=click.Choice(KINDS),
    is_flag=False,
    flag_value="all",
    metavar="[KIND]",
    help=f"List tasks instead: {', '.join(KINDS)}.",
)
@click.option(
    "--search", default="", metavar="TEXT", help="With --tasks: whose id, group or beginning holds it."
)
@click.option("--limit", type=click.IntRange(min=1), help="With --tasks: so many; 20 when absent.")
@click.option("--pipeline", metavar="NAME", help="With --trace or --tasks: only this pipeline.")
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given.")
def show(
    run: str,
    trace: str | None,
    tasks: str | None,
    search: str,
    limit: int | None,
    pipeline: str | None,
    store: str | None,
) -> None:
    """Show the tables of RUN, finished or not; list its tasks; or step through one.

    \b
    draftverify show runs/NAME --tasks failed
    draftverify show runs/NAME --trace TASK
    """
    if pipeline is not None and trace is None and tasks is None:
        raise click.UsageError("--pipeline goes with --trace TASK or --tasks")
    if trace is not None and tasks is not None:
        raise click.UsageError("--trace shows one task, --tasks lists them; give one of them")
    if tasks is None and (search or limit is not None):
        raise click.UsageError("--search and --limit go with --tasks")
    console = Console(highlight=False)
    with load_run(run, url=store) as records:
        names = records.names
        if pipeline is not None and pipeline not in names:
            near = did_you_mean(pipeline, names)
            raise ConfigError(f"the run has no pipeline {pipeline!r}{near}", path="--pipeline")
        if trace is not None:
            tracebacks = Asked.now().tracebacks
            marks = console.color_system is None
            print_lines(console, trace_lines(records, trace, pipeline, marks=marks, tracebacks=tracebacks))
        elif tasks is not None:
            rows = list(all_rows(records))
            found = list(listed(rows, tasks, pipeline=pipeline, search=search, limit=limit or 20))
            print_lines(console, found)
            if len(found) > 1:
                told = f"round by round: draftverify show {run} --trace TASK"
                print_lines(console, [Text(told, style="dim")])
        else:
            print_tables(console, summary_of(records))
            what_went_wrong(console, records, run)


def what_went_wrong(
    console: Console, records: RunRecords, run: str, places: Mapping[str, str] = EMPTY
) -> None:
    """Print which tasks ended without a right answer, and how many wait for a person.

    Args:
        console: where to.
        records, run: the run and its directory.
        places: "file:line" of pipelines in the config, where that is at hand.
    """
    print_lines(console, trouble(list(all_rows(records)), run, places))
    waiting = len(records.store.questions("pending"))
    if waiting:
        told = f"{waiting} wait{'s' * (waiting == 1)} for a person: draftverify review {run}"
        print_lines(console, [Text(told, style="yellow")])


def summary_of(records: RunRecords) -> Summary:
    """The finished run's summary, or what can be said of one that is not finished, or goes on again."""
    if written := records.summary:
        try:
            summary = msgspec.convert(written, Summary)
        except msgspec.ValidationError as error:
            place = records.path / "summary.json"
            raise StoreError(f"{place}: {error}; delete it, and the run command writes it again") from error
        if summary.is_of(records.store.counts()):
            return summary
    made = so_far(records, {name: records.records(name) for name in records.names})
    return msgspec.structs.replace(made, name=f"{made.name} (not finished)")


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print lines, on a terminal wrapped between words and under their own beginning; elsewhere as long as they are."""
    for line in lines:
        lead = len(line.plain) - len(line.plain.lstrip(" │"))
        if not console.is_terminal or "\n" in line.plain:
            console.print(line, soft_wrap=True)
            continue
        for part in line[lead:].wrap(console, max(20, console.width - lead)) or [Text("")]:
            console.print(Text.assemble(line[:lead], part), soft_wrap=True)
