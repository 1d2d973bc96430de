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


@fit.command(short_help="Learn from labelled tasks what scores mean, and which to accept.")
@options.experiment
@options.names
@click.option("--metric", metavar="NAME", help="By which an item is right; the first when absent.")
@click.option(
    "--precision", type=options.SHARE, default=0.9, help="Of accepted items so many are to be right."
)
@click.option(
    "--confidence", type=options.SHARE, default=0.9, help="How sure that is, on other tasks like these."
)
@click.option("--best", is_flag=True, help="Count each task's best item alone, for the rule `best`.")
@click.option("--blocks", type=options.COUNT, default=1, help="Blocks of each task.")
def scores(
    experiment: Experiment,
    names: tuple[str, ...],
    metric: str | None,
    best: bool,
    blocks: int,
    **shares: float,
) -> None:
    """Learn from CONFIG's tasks what scores mean, and which to accept.

    Drafts and judges a block of each task, asks a metric which items are right, and writes the file that each verifier
    {use: calibrated, scores: FILE} and each threshold {use: calibrated, path: FILE} names: the probability of every
    score, and the lowest score to accept. Give it other tasks than the run will have: --set tasks.path=labelled.jsonl.
    """
    from draftverify.lab.fit import fit as fit_scores

    console = wide_console()
    with new_bars(Console(stderr=True)) as bars:
        bar_of: dict[str, Any] = {}

        def watcher(name: str, done: int, total: int) -> None:
            if name not in bar_of:
                bar_of[name] = bars.add_task(name, total=total, now="")
            bars.update(bar_of[name], completed=done)

        fitted = fit_scores(
            experiment, pipelines=names, metric=metric, blocks=blocks, best=best, watcher=watcher, **shares
        )
    for scores in fitted:
        _print_fitted(console, scores)


def _print_fitted(console: Console, fitted: Fitted) -> None:
    """Print the threshold, and how the probabilities held on tasks that they were not fitted on."""
    figures, artifact = fitted.artifact.fit, fitted.artifact
    unit = "best items of tasks" if artifact.best else "items"
    pipeline, *sharers = fitted.pipelines
    console.print(Text(f"{pipeline}: {figures.right} of {figures.items} {unit} right, {figures.tasks} tasks"))
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
    if figures.threshold is None:
        console.print(Text(f"no threshold: {figures.why}", "bold red"))
    else:
        probability = figures.probability(figures.threshold)
        lines.append(
            f"accept from score {figures.threshold:.4g}, probability {probability:.3f}: "
            f"a precision of {figures.precision:g} at {figures.confidence:g}; {figures.why}"
        )
        passes = (("T", "right", figures.true_pass), ("F", "wrong", figures.false_pass))
        rates = (
            f"{name} {rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}] of the {which} ones"
            for name, which, rate in passes
            if rate is not None
        )
        lines.append(f"it passes {', '.join(rates)}")
    if fitted.unscored:
        lines.append(f"{fitted.unscored} items had no score, or the metric no say on them")
    if fitted.unheard:
        lines.append(f"{fitted.unheard} tasks taught nothing: they failed, or nothing was drafted for them")
    console.print(Text("\n".join([*lines, f"wrote {fitted.path}"])))
