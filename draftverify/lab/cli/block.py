"""`draftverify fit block CONFIG` or `RUN`: block size, or not to draft at all, predicted and then measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.exits import exit_with_tasks
from draftverify.bench.cli.options import CommandLine
from draftverify.bench.cli.progress import progress_of
from draftverify.bench.cli.screen import new_table, wide_console
from draftverify.bench.tables.figures import NOT_KNOWN, is_known

if TYPE_CHECKING:
    from draftverify.bench.artifact import Interval, ParallelPass
    from draftverify.bench.runner.run import RunResult
    from draftverify.lab.operating_point import OperatingPoint

__all__ = ["block"]


@click.command(short_help="Measure how large blocks should be, and whether to draft at all.")
@options.config_file
@options.overrides
@options.limit
@options.out("DIR", "Where the files and the two runs go; runs/NAME.fitted when absent.")
@options.names
@click.option("--at-most", type=options.COUNT, help="The largest block; 16 when absent.")
@options.fresh
@options.accept_changed
@options.overlap
@click.option("--config", "moved", type=options.FILE, help="The config of a run, where it has moved.")
def block(
    config: str,
    overrides: tuple[str, ...],
    limit: int | None,
    out: str | None,
    names: tuple[str, ...],
    moved: str | None,
    **settings: Any,
) -> None:
    """Measure CONFIG's pipelines at several block sizes, choose one by the cost per solved task, and check the choice.

    Writes DIR/PIPELINE.json, with what the choice should gain on tasks not yet seen, before those run; then runs them.
    A pipeline takes its block from it by `block: {use: fitted, path: DIR/PIPELINE.json}`. The same command goes on with
    one that was stopped. Exits with 6 and 7 as `run` does: tasks that failed count as unsolved.

    CONFIG may be a run with a matrix over the block: then nothing is drafted, and its records are split.
    """
    if Path(config).is_dir():
        if (
            overrides
            or limit is not None
            or any(settings[name] for name in ("at_most", "fresh", "accept_changed"))
        ):
            raise click.UsageError(
                "of a run nothing is drafted: leave out --set, --limit, --at-most and --fresh"
            )
        _of_run(config, out, names, moved, overlap=settings["overlap"])
        return
    if moved is not None:
        raise click.UsageError(f"--config is of a run, and {config} is a config")
    from draftverify.bench.cli.trouble import what_went_wrong
    from draftverify.bench.config.experiment import load_experiment
    from draftverify.bench.records import load_run
    from draftverify.bench.records.about import store_url
    from draftverify.lab.operating_point import fit_blocks

    experiment = load_experiment(config, overrides=overrides, limit=limit)
    directory = Path(out) if out is not None else Path("runs") / f"{experiment.name}.fitted"
    console = wide_console()
    results: list[RunResult] = []
    url = store_url(experiment.store) if experiment.store else None

    def ran(result: RunResult) -> None:
        results.append(result)
        with load_run(result.path, thorough=False, patient=True, url=url) as records:
            what_went_wrong(console, records, str(result.path))

    with progress_of(directory) as progress:
        points = fit_blocks(
            experiment,
            out=directory,
            pipelines=names,
            watcher=progress,
            ran=ran,
            chosen=lambda point: _print_choice(console, point),
            command=("draftverify", *CommandLine.now().arguments),
            **settings,
        )
    _print_points(console, points)
    unjudged = any(pipeline.unjudged for result in results for pipeline in result.summary.pipelines)
    failed = unjudged or any(result.failed for result in results)
    exit_with_tasks(failed=failed, waiting=any(result.waiting for result in results))


def _of_run(run: str, out: str | None, names: tuple[str, ...], config: str | None, *, overlap: bool) -> None:
    """Choose from a run's records."""
    from draftverify.bench.records import load_run
    from draftverify.lab.operating_point import fit_recorded_blocks

    console = wide_console()
    with load_run(run) as records:
        points = fit_recorded_blocks(
            records,
            out=out if out is not None else f"{Path(run)}.fitted",
            config=config,
            pipelines=names,
            overlap=overlap,
            chosen=lambda point: _print_choice(console, point),
        )
    _print_points(console, points)


def _print_choice(console: Console, point: OperatingPoint) -> None:
    """Print what the sizes cost, the one that was chosen, and its predicted gain."""
    artifact = point.artifact
    unit = f"solved ({artifact.metric})" if artifact.metric else "accepted"
    counts = f"{len(artifact.learned_from)} tasks to fit on, of which {artifact.counted} count"
    console.print(Text(f"\n{point.path.stem}: {counts}, {artifact.unseen.tasks} unseen"))
    if artifact.metric is None:
        console.print(Text("no metric says what is solved, so accepted tasks are counted"))
    table = new_table(
        "pipeline", ">block", ">draft ms", ">verify ms", ">rest ms",
        f">{unit.partition(' ')[0]}", f">{artifact.of}/{unit}", f">× {artifact.baseline}",
    )  # fmt: skip
    for size in artifact.tried:
        is_chosen = size.pipeline == artifact.pipeline and size.block == artifact.tested
        cells = (
            size.pipeline, str(size.block), _ms(size.draft), _ms(size.verify), _ms(size.rest),
            f"{size.solved:g}", _interval(size.cost, 3), _interval(size.gain),
        )  # fmt: skip
        table.add_row(*(Text(cell, style="bold" if is_chosen else "") for cell in cells))
    console.print(table)
    lines = [] if artifact.parallel is None else [_parallel(artifact.parallel)]
    lines.append(artifact.why)
    if artifact.changes:
        lines.append(f"the chosen cell is {artifact.pipeline}; it changes {artifact.changed}")
    predicted = f"predicted × {_interval(artifact.predicted)} for blocks of {artifact.tested}"
    lines.append(f"{predicted} ({artifact.basis}), in {point.path}")
    if artifact.doubt and artifact.predicted.value is not None:
        lines.append(f"{artifact.doubt} on {artifact.unseen.tasks} others")
    console.print(Text("\n".join(lines)))


def _parallel(parallel: ParallelPass) -> str:
    """What a block costs in single passes."""
    verdict = {
        "one pass": "it checks a block in one pass",
        "cheaper": f"more than one pass, and less than {parallel.size}",
        "no gain shown": "no gain of checking them together is shown",
    }[parallel.verdict]
    passes = _interval(parallel.passes)
    return f"a block of {parallel.size} costs the verifier {passes} passes of one item: {verdict}"


def _print_points(console: Console, points: list[OperatingPoint]) -> None:
    """All pipelines, predicted beside measured."""
    table = new_table("pipeline", ">acceptance", ">cost ratio", ">block", ">predicted ×", ">measured ×", "")
    for point in points:
        artifact, measured = point.artifact, point.artifact.measured
        held = "as predicted" if measured and artifact.predicted.holds(measured.value) else "outside"
        cells = (
            artifact.pipeline,
            _interval(artifact.acceptance),
            "–" if artifact.cost_ratio is None else f"{artifact.cost_ratio:.3g}",
            f"{artifact.block}" if artifact.drafts else f"{artifact.block} (do not draft)",
            _interval(artifact.predicted),
            "–" if measured is None else _interval(measured),
            artifact.unmeasured or artifact.doubt or held,
        )
        table.add_row(*map(Text, cells))
    console.print()
    console.print(table)
    for point in points:
        console.print(Text(f"wrote {point.path}"), soft_wrap=True)


def _interval(figure: Interval, digits: int = 2) -> str:
    def number(value: float) -> str:
        return f"{value:.{digits}g}" if digits != 2 else f"{value:.2f}"

    low, high = figure.low, figure.high
    if figure.value is None:
        return "–"
    if low is None or high is None or not is_known(low, high, "ratio"):
        return NOT_KNOWN
    return f"{number(figure.value)} [{number(low)}, {number(high)}]"


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * seconds:.3g}"
