"""`draftverify calibrate CONFIG`: block size, or not to draft at all, predicted and then measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from draftverify.bench.cli.asked import Asked
from draftverify.bench.cli.exits import Exit
from draftverify.bench.cli.progress import Progress
from draftverify.bench.tables.tables import WIDE

if TYPE_CHECKING:
    from draftverify.bench.artifact import Interval, ParallelPass
    from draftverify.bench.runner.run import RunResult
    from draftverify.lab.calibration import OperatingPoint

__all__ = ["calibrate"]


@click.command()
@click.argument("config", type=click.Path())
@click.option(
    "--out", metavar="DIR", help="Where the files and the two runs go; runs/NAME.calibrated when absent."
)
@click.option(
    "--pipeline",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this pipeline, with its cells; repeatable.",
)
@click.option(
    "--unseen",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.3,
    show_default=True,
    help="The share of tasks that the choice is measured on.",
)
@click.option(
    "--at-most", type=click.IntRange(min=1), default=16, show_default=True, help="The largest block to try."
)
@click.option("--split", "seed", type=click.IntRange(min=0), default=0, help="Another number, another split.")
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=C", help="Override a value of the config; repeatable."
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many tasks of each group.")
@click.option("--fresh", is_flag=True, help="Move what is there aside and begin anew.")
@click.option(
    "--accept-changed", is_flag=True, help="Go on though a plugin or a parts file has changed since."
)
def calibrate(
    config: str,
    out: str | None,
    names: tuple[str, ...],
    unseen: float,
    at_most: int,
    seed: int,
    overrides: tuple[str, ...],
    limit: int | None,
    fresh: bool,
    accept_changed: bool,
) -> None:
    """Measure CONFIG's pipelines at several block sizes, choose one by the cost per solved task, and check the choice.

    Writes DIR/PIPELINE.json, with what the choice should gain on tasks not yet seen, before those run; then runs them.
    A pipeline takes its block from it by `calibration: DIR/PIPELINE.json`. The same command goes on with one that was
    stopped. Exits with 6 and 7 as `run` does: tasks that failed count as unsolved.
    """
    from draftverify.bench.cli.show import what_went_wrong
    from draftverify.bench.config.experiment import load_experiment
    from draftverify.bench.records import load_run
    from draftverify.bench.records.database import store_url
    from draftverify.lab.calibration import calibrate as perform

    experiment = load_experiment(config, overrides=overrides, limit=limit)
    directory = Path(out) if out is not None else Path("runs") / f"{experiment.name}.calibrated"
    asked = Asked.now()
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a table in a file or a log is not to be folded

    results: list[RunResult] = []
    url = store_url(experiment.store) if experiment.store else None

    def ran(result: RunResult) -> None:
        results.append(result)
        with load_run(result.path, thorough=False, patient=True, url=url) as records:
            what_went_wrong(console, records, str(result.path))

    def chosen(each: OperatingPoint) -> None:
        _show(console, each)

    try:
        with Progress(tracebacks=asked.tracebacks) as progress:
            found = perform(
                experiment,
                out=directory,
                pipelines=names,
                unseen=unseen,
                at_most=at_most,
                seed=seed,
                fresh=fresh,
                accept_changed=accept_changed,
                watcher=progress,
                ran=ran,
                chosen=chosen,
                command=("draftverify", *asked.arguments),
            )
    except KeyboardInterrupt:
        click.echo(f"{directory}: what was committed stays; the same command goes on from it", err=True)
        raise
    _table(console, found)
    if any(each.failed or any(one.unjudged for one in each.summary.pipelines) for each in results):
        click.get_current_context().exit(Exit.FAILED_TASKS)
    if any(each.waiting for each in results):
        click.get_current_context().exit(Exit.WAITING)


def _show(console: Console, calibrated: OperatingPoint) -> None:
    """What the sizes cost, what was chosen, and what it should gain."""
    made = calibrated.artifact
    unit = f"solved ({made.metric})" if made.metric else "accepted"
    family = calibrated.path.stem
    tasks = (
        f"{made.data.tasks} tasks to calibrate on, of which {made.counted} count, {made.unseen.tasks} unseen"
    )
    console.print(Text(f"\n{family}: {tasks}"))
    if made.metric is None:
        console.print(Text("no metric says what is solved, so accepted tasks are counted"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    cells = len({each.pipeline for each in made.tried}) > 1
    headings = (
        *(["pipeline"] if cells else []), "block", "draft ms", "verify ms", "rest ms", unit.partition(" ")[0],
        f"s/{unit}", f"× {made.baseline}",
    )  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "pipeline" else "right")
    for each in made.tried:
        taken = each.pipeline == made.pipeline and each.block == made.tested
        row = (
            *([each.pipeline] if cells else []), str(each.block),
            *(_ms(seconds) for seconds in (each.draft, each.verify, each.rest)),
            f"{each.solved:g}", _interval(each.cost, 3), _interval(each.gain),
        )  # fmt: skip
        table.add_row(*(Text(cell, style="bold" if taken else "") for cell in row))
    console.print(table)
    if made.parallel is not None:
        console.print(Text(_parallel(made.parallel)))
    console.print(Text(made.why))
    if made.changes:
        console.print(Text(f"the chosen cell is {made.pipeline}; it changes {made.changed}"))
    said = f"predicted × {_interval(made.predicted)} for blocks of {made.tested} ({made.basis})"
    console.print(Text(f"{said}, in {calibrated.path}"))
    if made.doubt and made.predicted.value is not None:
        console.print(Text(f"{made.doubt} on {made.unseen.tasks} others"))


def _parallel(made: ParallelPass) -> str:
    """What a block costs in single passes."""
    said = f"a block of {made.size} costs the verifier {_interval(made.passes)} passes of one item"
    return {
        "one pass": f"{said}: it checks a block in one pass",
        "cheaper": f"{said}: more than one pass, and less than {made.size}",
        "no gain shown": f"{said}: no gain of checking them together is shown",
    }[made.verdict]


def _table(console: Console, found: list[OperatingPoint]) -> None:
    """All pipelines, predicted beside measured."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("pipeline", "acceptance", "cost ratio", "block", "predicted ×", "measured ×", ""):
        table.add_column(heading, justify="left" if heading in ("pipeline", "") else "right")
    for each in found:
        made = each.artifact
        measured = made.measured
        held = "as predicted" if measured and made.predicted.holds(measured.value) else "outside"
        if made.unmeasured or made.doubt:
            held = made.unmeasured or made.doubt
        table.add_row(
            Text(made.pipeline),
            _interval(made.acceptance),
            "–" if made.cost_ratio is None else f"{made.cost_ratio:.3g}",
            str(made.block) if made.drafts else f"{made.block} (do not draft)",
            _interval(made.predicted),
            "–" if measured is None else _interval(measured),
            held,
        )
    console.print()
    console.print(table)
    for each in found:
        console.print(Text(f"wrote {each.path}"), soft_wrap=True)


def _interval(figure: Interval, digits: int = 2) -> str:
    def said(value: float) -> str:
        return f"{value:.{digits}g}" if digits != 2 else f"{value:.2f}"

    if figure.value is None:
        return "–"
    low, high = figure.low, figure.high
    if low is None or high is None or high > WIDE * low:
        return f"{said(figure.value)} [too few tasks]"
    return f"{said(figure.value)} [{said(low)}, {said(high)}]"


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * seconds:.3g}"
