"""`draftverify run CONFIG`: run an experiment, or go on with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace
from rich.console import Console

from draftverify.bench.cli.asked import Asked
from draftverify.bench.cli.exits import Exit
from draftverify.bench.cli.plan import forecast_lines, plan_lines
from draftverify.bench.cli.progress import Progress
from draftverify.bench.records.directory import TAG
from draftverify.bench.tables.words import NAME, block, words

__all__ = ["run"]

TRACEBACKS = 5
"""So many are shown; a part that fails usually fails in one way."""


def checked(_: click.Context, option: click.Parameter, tags: tuple[str, ...]) -> tuple[str, ...]:
    """Tags as they may be."""
    for tag in tags:
        if not TAG.fullmatch(tag):
            raise click.BadParameter(
                f"{tag!r}: at most 100 letters, digits and _ . : = / + -, with a letter or digit first",
                param=option,
            )
    return tags


@click.command()
@click.argument("config", type=click.Path())
@click.option("--out", metavar="DIR", help="The run directory; runs/NAME when absent.")
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=C", help="Override a value of the config; repeatable."
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many tasks of each group.")
@click.option("--fresh", is_flag=True, help="Move a run that is there aside and begin anew.")
@click.option(
    "--accept-changed",
    is_flag=True,
    help="Go on though a plugin or a parts file has changed since; run.json notes it.",
)
@click.option("--retry-errors", is_flag=True, help="Make tasks that failed again, as their next attempt.")
@click.option(
    "--dry-run", is_flag=True, help="Check everything, list cells, tasks and what is done; run nothing."
)
@click.option(
    "--estimate",
    "estimated",
    is_flag=True,
    help="Do the first tasks of each pipeline, say what the rest takes; stop.",
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="T",
    callback=checked,
    help="A word to find the run by; repeatable.",
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
    tags: tuple[str, ...],
    retry_errors: bool,
    dry_run: bool,
    estimated: bool,
    store: str | None,
) -> None:
    """Run the experiment CONFIG; the same command goes on with one that was stopped.

    Prints the tables and which tasks went wrong. Exits with 6 when tasks failed, or nothing of them could be judged,
    and with 7 when tasks wait for a person. With --traceback it shows where the calls of parts failed.
    """
    from draftverify.bench.cli.show import what_went_wrong
    from draftverify.bench.config.experiment import load_experiment
    from draftverify.bench.records.directory import load_run
    from draftverify.bench.runner.forecast import Forecast
    from draftverify.bench.runner.run import RunResult, estimate, plan
    from draftverify.bench.runner.run import run as perform
    from draftverify.bench.tables.tables import print_tables

    chosen = [
        option
        for option, given in (
            ("--dry-run", dry_run),
            ("--estimate", estimated),
            ("--retry-errors", retry_errors),
        )
        if given
    ]
    if len(chosen) > 1:
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} do not go together")
    console = Console(highlight=False)
    experiment = load_experiment(config, overrides=overrides, limit=limit)
    experiment = replace(experiment, tags=(*experiment.tags, *tags))
    directory = Path(out) if out is not None else Path("runs") / experiment.name
    if dry_run:
        made = plan(experiment, out=directory, fresh=fresh, accept_changed=accept_changed, store=store)
        for line in plan_lines(experiment, made, directory):
            click.echo(line)
        return
    asked = Asked.now()
    call: Callable[..., Forecast | RunResult] = (
        estimate if estimated else partial(perform, retry_errors=retry_errors)
    )
    try:
        with Progress(tracebacks=asked.tracebacks) as progress:
            result = call(
                experiment,
                out=directory,
                fresh=fresh,
                accept_changed=accept_changed,
                store=store,
                watcher=progress,
                command=("draftverify", *asked.arguments),
            )
    except KeyboardInterrupt:
        click.echo(f"{directory}: what was committed stays; the same command goes on from it", err=True)
        raise
    if isinstance(result, Forecast):
        for line in forecast_lines(result):
            click.echo(line)
        click.echo(f"what was done is in {directory}; without --estimate the same command goes on from it")
        _tell_failures(progress)
        if result.failed:
            click.echo(f"which failed, and why: draftverify show {directory} --tasks failed")
            click.get_current_context().exit(Exit.FAILED_TASKS)
        return
    print_tables(console, result.summary)
    with load_run(result.path, url=store, thorough=False, patient=True) as records:
        places = {spec.name: spec.where for spec in experiment.pipelines}
        what_went_wrong(console, records, str(result.path), places)
    went = "went on with" if result.resumed else "wrote"
    click.echo(f"{went} {result.path} (task runs now: {result.ran})")
    click.echo(f"  {result.path / 'report.html'}\n  draftverify show {result.path} --tasks")
    if result.failed:
        click.echo("with --retry-errors the same command makes the failed tasks again")
    _tell_failures(progress)
    if result.failed or any(pipeline.unjudged for pipeline in result.summary.pipelines):
        click.get_current_context().exit(Exit.FAILED_TASKS)
    if result.waiting:
        click.get_current_context().exit(Exit.WAITING)


def _tell_failures(progress: Progress) -> None:
    """With --traceback: where the calls failed, each way once."""
    for (pipeline, where), (task, _) in list(progress.failures.items())[:TRACEBACKS]:
        lines = "\n".join(f"  {line}" for line in block(where, 8000))
        click.echo(f"{pipeline}, task {words(task, NAME)}:\n{lines}", err=True)
    if len(progress.failures) > TRACEBACKS:
        click.echo(f"… and {len(progress.failures) - TRACEBACKS} other tracebacks", err=True)
