"""`draftverify fit`: `scores RUN`, what scores mean; `block CONFIG` or `RUN`, how large blocks should be, predicted and
then measured; `part NAME CONFIG`, a part trained from data.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.exits import exit_with_tasks
from draftverify.bench.cli.options import CommandLine
from draftverify.bench.cli.progress import new_bars, progress_of
from draftverify.bench.cli.screen import new_table, wide_console
from draftverify.bench.tables.figures import NOT_KNOWN, is_known
from draftverify.bench.tables.words import clean
from draftverify.errors import ConfigError

if TYPE_CHECKING:
    from draftverify.bench.artifact import Interval, ParallelPass
    from draftverify.bench.runner.run import RunResult
    from draftverify.lab.fit import Fitted
    from draftverify.lab.operating_point import OperatingPoint

LINES = 20
"""Lines that a whole training takes where there is no terminal."""


@click.group(cls=options.Kinds)
def fit() -> None:
    """Learn from tasks what scores mean or how large blocks should be, or train a part."""


@fit.command(short_help="Measure how large blocks should be, and whether to draft at all.")
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


@fit.command(short_help="Learn from a labelled run what scores mean.")
@options.run
@click.option("--metric", metavar="NAME", help="By which an item is right; the first when absent.")
@click.option("--pipeline", metavar="NAME", help="Of a run of several, which one.")
@options.out("FILE", "Where the fit goes")
@options.overlap
@options.moved_config
@options.store
def scores(
    run: str,
    metric: str | None,
    pipeline: str | None,
    out: str | None,
    overlap: bool,
    config: str | None,
    store: str | None,
) -> None:
    """Learn from RUN, whose tasks have labels, what the scores of a pipeline's verifier mean.

    Nothing is drafted, judged or sent: a metric says which of the recorded items are right. `run --complete` has every
    item judged. Writes a file that a verifier takes: {use: calibrated, verifier: …, scores: FILE}. Give it other tasks
    than it will be used on.
    """
    from draftverify.bench.artifact import write_artifact
    from draftverify.bench.records import load_run
    from draftverify.lab.fit import fit as fit_scores
    from draftverify.lab.recording import Recording

    with load_run(run, url=store) as records:
        recording = Recording(records, pipeline, config=config, metric=metric)
    with recording:
        fitted = fit_scores(recording, overlap=overlap)
    file = Path(out) if out is not None else Path(run) / f"{recording.name}.scores.json"
    write_artifact(file, fitted.artifact)
    _print_fitted(wide_console(), recording.name, fitted)
    click.echo(f"wrote {file}")


def _print_fitted(console: Console, pipeline: str, fitted: Fitted) -> None:
    """Print how the probabilities held on tasks that they were not fitted on."""
    figures = fitted.artifact.fit
    right_of = f"{figures.right} of {figures.items} items right, {figures.tasks} tasks"
    console.print(Text(clean(f"{pipeline}: {right_of}, by the metric {fitted.artifact.metric}")))
    table = new_table(">promised", ">right", ">[95 %]", ">items")
    for bin in figures.reliability:
        right = bin.right
        cells = (f"{bin.promised:.2f}", f"{right.value:.2f}", f"[{right.low:.2f}, {right.high:.2f}]")
        table.add_row(*map(Text, cells), str(right.trials))
    console.print(table)
    console.print(
        f"calibration error {figures.error:.3f}, on tasks that the probabilities were not fitted on"
    )
    if fitted.unscored:
        console.print(f"{fitted.unscored} items had no score, or the metric no say on them")
    if fitted.unheard:
        console.print(f"{fitted.unheard} tasks taught nothing: they failed, or no item of them was judged")


@fit.command(short_help="Train a part from data.")
@click.argument("name")
@options.config_file
@options.out("DIR", "Where what was trained lies; when absent named like CONFIG, of a run RUN-NAME.")
@options.overrides
def part(name: str, config: str, out: str | None, overrides: tuple[str, ...]) -> None:
    """Train NAME ("reader", "drafter", …) as CONFIG says; the same command goes on with a training that was stopped.

    CONFIG is YAML: the trainer's arguments. `draftverify plugins NAME` lists them. Of a trainer that learns from a run
    CONFIG may be the run's directory.
    """
    from draftverify.bench.artifact import identify_parts, read_artifact, write_artifact
    from draftverify.bench.config.experiment import load_training
    from draftverify.bench.runner.build import Builder
    from draftverify.lab.lineage import REPORT, TrainingReport, digests_of

    trainer = Builder().part(load_training(name, config, overrides=overrides))
    path = Path(config)
    directory = Path(out or (f"{path.resolve().name}-{name}" if path.is_dir() else path.stem))
    parts = identify_parts(trainer=trainer)
    trained = read_artifact(directory / REPORT, TrainingReport) if (directory / REPORT).exists() else None
    if trained is not None and trained.parts == parts:
        click.echo(f"{directory} holds it already, of the same data and settings; remove it to train anew")
        return
    if trained is not None:
        raise ConfigError(
            "here lies what was trained with other data or settings; choose another --out, or remove it",
            where=str(directory),
        )
    console = Console(stderr=True, highlight=False)
    lines: set[int] = set()
    try:
        with new_bars(console) as bars:
            bar = bars.add_task(name, total=None, now="")

            def show(step: int, total: int, status: str) -> None:
                bars.update(bar, completed=step, total=total, now=status)
                line = LINES * step // max(total, 1)
                if not console.is_terminal and line not in lines:
                    lines.add(line)
                    click.echo(f"step {step} of {total}: {status}", err=True)

            report: dict[str, Any] = trainer.train(directory, show)
    except KeyboardInterrupt:
        click.echo(f"{directory}: the same command goes on from the last checkpoint", err=True)
        raise
    artifact = TrainingReport(
        parts=parts,
        learned_from=digests_of(report.pop("learned_from", ())),
        versions={"draftverify": version("draftverify")},
        # An end of an interval that is not known, infinity, is null: JSON knows no other word for it.
        figures=json.loads(json.dumps(report), parse_constant=lambda _: None),
    )
    write_artifact(directory / REPORT, artifact)
    for key, value in report.items():
        if isinstance(value, (bool, int, float, str)):
            click.echo(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")
    click.echo(f"wrote {directory}; all figures are in {directory / REPORT}")
