"""`draftverify fit`: `scores RUN`, what scores mean, learned from a labelled run; `block` and `part` beside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.screen import new_table, wide_console
from draftverify.bench.tables.words import clean
from draftverify.lab.cli.block import block
from draftverify.lab.cli.part import part

if TYPE_CHECKING:
    from draftverify.lab.fit import Fitted

__all__ = ["fit"]


@click.group(cls=options.Kinds)
def fit() -> None:
    """Learn from tasks what scores mean or how large blocks should be, or train a part."""


fit.add_command(block)
fit.add_command(part)


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
