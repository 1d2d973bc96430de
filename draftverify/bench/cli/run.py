"""`draftverify run CONFIG`: run an experiment, or go on with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.exits import exit_with_tasks
from draftverify.bench.cli.options import CommandLine
from draftverify.bench.cli.progress import RunProgress, amounts, forecast_line, progress_of
from draftverify.bench.cli.screen import print_lines
from draftverify.bench.records.about import TAG
from draftverify.bench.tables.words import NAME, block, clean, words

if TYPE_CHECKING:
    from draftverify.bench.config.specs import Experiment
    from draftverify.bench.runner.forecast import Forecast
    from draftverify.bench.runner.run import Plan, RunResult

TRACEBACKS = 5
"""So many are shown; a part that fails usually fails in one way."""


def valid_tags(_: click.Context, option: click.Parameter, tags: tuple[str, ...]) -> tuple[str, ...]:
    """Tags as they may be."""
    for tag in tags:
        if not TAG.fullmatch(tag):
            form = "at most 100 letters, digits and _ . : = / + -, with a letter or digit first"
            raise click.BadParameter(f"{tag!r}: {form}", param=option)
    return tags


@click.command()
@options.experiment
@options.out("DIR", "The run directory; runs/NAME when absent.")
@options.fresh
@options.accept_changed
@click.option("--retry-errors", is_flag=True, help="Make tasks that failed again, as their next attempt.")
@click.option("--max-failures", type=options.COUNT, help="Stop once so many tasks failed.")
@click.option(
    "--max-cost", type=options.FiniteRange(0), help="Stop once they cost more, in the experiment's currency."
)
@click.option("--complete", is_flag=True, help="Judge all that any threshold could need, for certify.")
@click.option("--dry-run", is_flag=True, help="Check everything, say what there is to do; run nothing.")
@click.option("--estimate", is_flag=True, help="Run each pipeline's first tasks, say what the rest takes.")
@options.repeated("--tag", "tags", "T", "A word to find the run by", callback=valid_tags)
@options.store
def run(
    experiment: Experiment,
    out: str | None,
    tags: tuple[str, ...],
    retry_errors: bool,
    max_failures: int | None,
    max_cost: float | None,
    complete: bool,
    dry_run: bool,
    estimate: bool,
    **settings: Any,
) -> None:
    """Run the experiment CONFIG; the same command goes on with one that was stopped.

    Stops where the first three tasks of a pipeline fail alike, or at --max-failures. Prints the tables and which tasks
    went wrong. Exits with 6 when tasks failed, or nothing of them could be judged,
    and with 7 when tasks wait for a person. With --traceback it shows where the calls of parts failed.
    """
    from draftverify.bench.runner import run as runner
    from draftverify.bench.runner.complete import complete as completed
    from draftverify.bench.runner.forecast import Forecast

    modes = {"--dry-run": dry_run, "--estimate": estimate, "--retry-errors": retry_errors}
    chosen = [option for option, is_on in modes.items() if is_on]
    if len(chosen) > 1:
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} do not go together")
    experiment = replace(experiment, tags=(*experiment.tags, *tags))
    directory = Path("runs") / experiment.name
    if complete:
        experiment, directory = completed(experiment), directory.with_name(f"{directory.name}.complete")
    directory = Path(out) if out is not None else directory
    if dry_run:
        plan = runner.plan(experiment, out=directory, **settings)
        print_lines(Console(highlight=False), map(Text, _plan_lines(experiment, plan, directory)))
        return
    perform: Callable[..., Forecast | RunResult] = (
        runner.estimate
        if estimate
        else partial(runner.run, retry_errors=retry_errors, max_failures=max_failures, max_cost=max_cost)
    )
    with progress_of(directory) as progress:
        command = ("draftverify", *CommandLine.now().arguments)
        result = perform(experiment, out=directory, watcher=progress, command=command, **settings)
    if isinstance(result, Forecast):
        print_lines(Console(highlight=False), map(Text, _forecast_lines(result, directory)))
        failed, waiting = bool(result.failed), False
    else:
        _print_result(result, experiment, settings["store"])
        failed = bool(result.failed) or any(pipeline.unjudged for pipeline in result.summary.pipelines)
        waiting = bool(result.waiting)
    _print_failures(progress)
    exit_with_tasks(failed=failed, waiting=waiting)


def _forecast_lines(forecast: Forecast, directory: Path) -> Iterator[str]:
    yield forecast_line(forecast)
    for name, work in forecast.pipelines.items():
        yield f"  {clean(name)}: {work.units} to do, {amounts(work, forecast.currency)}"
    yield f"what was done is in {directory}; without --estimate the same command goes on from it"
    if forecast.failed:
        yield f"which failed, and why: draftverify show {quote(str(directory))} --tasks failed"


def _print_result(result: RunResult, experiment: Experiment, store: str | None) -> None:
    from draftverify.bench.cli.trouble import what_went_wrong
    from draftverify.bench.records.directory import load_run
    from draftverify.bench.tables.tables import print_tables

    console = Console(highlight=False)
    print_tables(console, result.summary)
    with load_run(result.path, url=store, thorough=False, patient=True) as records:
        places = {spec.name: spec.where for spec in experiment.pipelines}
        what_went_wrong(console, records, str(result.path), places)
    verb = "went on with" if result.resumed else "wrote"
    lines = [f"{verb} {result.path} (task runs now: {result.ran})", f"  {result.path / 'report.html'}"]
    lines.append(f"  draftverify show {quote(str(result.path))} --tasks")
    lines += ["with --retry-errors the same command makes the failed tasks again"] if result.failed else []
    print_lines(console, map(Text, lines))


def _print_failures(progress: RunProgress) -> None:
    """With --traceback: where the calls failed, each way once."""
    for (pipeline, where), (task, _) in list(progress.failures.items())[:TRACEBACKS]:
        lines = "\n".join(f"  {line}" for line in block(where, 8000))
        click.echo(f"{pipeline}, task {words(task, NAME)}:\n{lines}", err=True)
    if len(progress.failures) > TRACEBACKS:
        click.echo(f"… and {len(progress.failures) - TRACEBACKS} other tracebacks", err=True)


def _plan_lines(experiment: Experiment, plan: Plan, directory: Path) -> Iterator[str]:
    """What `--dry-run` prints."""
    yield f"{clean(experiment.name)}: {len(plan.units)} pipelines"
    for name, (done, total) in plan.units.items():
        before = f", {done} done" if done else ""
        base = experiment.compared_with(name)
        against = f"; against {clean(base)}" if base is not None and experiment.cells else ""
        yield f"  {clean(name)}: {total} tasks{before}{against}"
        for path, value in experiment.cells.get(name, {}).items():
            text = json.dumps(value, ensure_ascii=False)
            yield f"      {clean(path)} = {clean(text if len(text) <= 80 else text[:77] + '…')}"
    for phase, groups in plan.tasks.items():
        sizes = ", ".join(f"{clean(group)} {count}" for group, count in groups.items() if group)
        yield f"{phase}: {sum(groups.values())} tasks" + (f" ({sizes})" if sizes else "")
    done, total = (sum(counts[place] for counts in plan.units.values()) for place in (0, 1))
    todo = total - done - plan.waiting
    are = "are" if done != 1 else "is"
    yield f"{total} runs of tasks in all; in {directory} {done or 'none'} {are} done, {todo} to do"
    if plan.waiting:
        command = f"draftverify view {quote(str(directory))} --review"
        yield f"{plan.waiting} wait{'s' * (plan.waiting == 1)} for a person: {command}"
    if plan.failed:
        yield f"{plan.failed} failed: --retry-errors makes them again"
