"""`draftverify fit`: `scores CONFIG`, what scores mean, learned from labelled tasks; `block` and `part` beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.progress import new_bars
from draftverify.bench.cli.screen import new_table, wide_console
from draftverify.lab.cli.block import block
from draftverify.lab.cli.part import part

if TYPE_CHECKING:
    from draftverify.bench.config.specs import Experiment
    from draftverify.lab.fit import Fitted

__all__ = ["fit"]


@click.group(cls=options.Kinds)
def fit() -> None:
    """Learn from tasks what scores mean or how large blocks should be, or train a part."""


fit.add_command(block)
fit.add_command(part)


@fit.command(short_help="Learn from labelled tasks what scores mean.")
@options.experiment
@options.names
@click.option("--metric", metavar="NAME", help="By which an item is right; the first when absent.")
@click.option("--blocks", type=options.COUNT, default=1, help="Blocks of each task.")
def scores(
    experiment: Experiment,
    names: tuple[str, ...],
    metric: str | None,
    blocks: int,
) -> None:
    """Learn from CONFIG's tasks what scores mean.

    Drafts and judges a block of each task, asks a metric which items are right, and writes the file that each verifier
    {use: calibrated, scores: FILE} names: the probability of every score. Give it other tasks than the run will have:
    --set tasks.path=labelled.jsonl.
    """
    from draftverify.lab.fit import fit as fit_scores

    console = wide_console()
    with new_bars(Console(stderr=True)) as bars:
        bar_of: dict[str, Any] = {}

        def watcher(name: str, done: int, total: int) -> None:
            if name not in bar_of:
                bar_of[name] = bars.add_task(name, total=total, now="")
            bars.update(bar_of[name], completed=done)

        fitted = fit_scores(experiment, pipelines=names, metric=metric, blocks=blocks, watcher=watcher)
    for scores in fitted:
        _print_fitted(console, scores)


def _print_fitted(console: Console, fitted: Fitted) -> None:
    """Print how the probabilities held on tasks that they were not fitted on."""
    figures = fitted.artifact.fit
    pipeline, *sharers = fitted.pipelines
    console.print(Text(f"{pipeline}: {figures.right} of {figures.items} items right, {figures.tasks} tasks"))
    if sharers:
        also = f"{', '.join(sharers)} judge by it too; --pipeline fits it on another's drafts"
        console.print(Text(f"fitted on what {pipeline} drafts; {also}"))
    table = new_table(">promised", ">right", ">[95 %]", ">items")
    for bin in figures.reliability:
        right = bin.right
        cells = (f"{bin.promised:.2f}", f"{right.value:.2f}", f"[{right.low:.2f}, {right.high:.2f}]")
        table.add_row(*map(Text, cells), str(right.trials))
    console.print(table)
    console.print(
        f"calibration error {figures.error:.3f}, on tasks that the probabilities were not fitted on"
    )
    lines = []
    if fitted.unscored:
        lines.append(f"{fitted.unscored} items had no score, or the metric no say on them")
    if fitted.unheard:
        lines.append(f"{fitted.unheard} tasks taught nothing: they failed, or nothing was drafted for them")
    console.print(Text("\n".join([*lines, f"wrote {fitted.path}"])))
