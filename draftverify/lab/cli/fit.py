"""`draftverify fit CONFIG`: what scores mean and which to accept, learned from labelled tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from draftverify.lab.fit import Fitted

__all__ = ["fit"]


@click.command()
@click.argument("config", type=click.Path())
@click.option("--pipeline", "names", multiple=True, metavar="NAME", help="Only this pipeline; repeatable.")
@click.option("--metric", metavar="NAME", help="By which an item is right; the first when absent.")
@click.option(
    "--precision",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="The share of accepted items that is to be right.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="How sure that is to be, on other tasks like these.",
)
@click.option("--best", is_flag=True, help="Count each task's best item alone, for the rule `best`.")
@click.option(
    "--blocks", type=click.IntRange(min=1), default=1, show_default=True, help="Blocks of each task."
)
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=C", help="Override a value of the config; repeatable."
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many tasks of each group.")
def fit(
    config: str,
    names: tuple[str, ...],
    metric: str | None,
    precision: float,
    confidence: float,
    best: bool,
    blocks: int,
    overrides: tuple[str, ...],
    limit: int | None,
) -> None:
    """Learn from CONFIG's tasks what scores mean, and which to accept.

    Drafts and judges a block of each task, asks a metric which items are right, and writes the file that each verifier
    {use: calibrated, scores: FILE} and each threshold {use: calibrated, path: FILE} names: the probability of every
    score, and the lowest score to accept. Give it other tasks than the run will have: --set tasks.path=labelled.jsonl.
    """
    from draftverify.bench.config.experiment import load_experiment
    from draftverify.lab.fit import fit as perform

    experiment = load_experiment(config, overrides=overrides, limit=limit)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a table in a file or a log is not to be folded
    with Progress(
        console=Console(stderr=True), transient=True, disable=not Console(stderr=True).is_terminal
    ) as bars:
        bar: dict[str, object] = {}

        def watcher(name: str, done: int, total: int) -> None:
            if name not in bar:
                bar[name] = bars.add_task(name, total=total)
            bars.update(bar[name], completed=done)  # type: ignore[arg-type]

        found = perform(
            experiment,
            pipelines=names,
            metric=metric,
            blocks=blocks,
            precision=precision,
            confidence=confidence,
            best=best,
            watcher=watcher,
        )
    for each in found:
        _show(console, each)


def _show(console: Console, fitted: Fitted) -> None:
    """What was learned: the threshold, and how far the probabilities can be taken on tasks they were not fitted on."""
    made, artifact = fitted.artifact.fit, fitted.artifact
    unit = "best items of tasks" if artifact.best else "items"
    first, *others = fitted.pipelines
    console.print(Text(f"{first}: {made.right} of {made.items} {unit} right, {made.tasks} tasks"))
    if others:
        also = f"{', '.join(others)} judge by it too; --pipeline fits it on another's drafts"
        console.print(Text(f"fitted on what {first} drafts; {also}"))
    table = Table(box=None, pad_edge=False)
    for heading in ("promised", "right", "[95 %]", "items"):
        table.add_column(heading, justify="right")
    for part in made.reliability:
        right = part.right
        cells = (f"{part.promised:.2f}", f"{right.value:.2f}", f"[{right.low:.2f}, {right.high:.2f}]")
        table.add_row(*map(Text, cells), str(right.trials))
    console.print(table)
    console.print(f"calibration error {made.error:.3f}, on tasks that the probabilities were not fitted on")
    if made.threshold is None:
        console.print(Text(f"no threshold: {made.why}", "bold red"))
    else:
        console.print(
            f"accept from score {made.threshold:.4g}, probability {made.probability(made.threshold):.3f}: "
            f"a precision of {made.precision:g} at {made.confidence:g}; {made.why}"
        )
        passes = [("T", "right", made.true_pass), ("F", "wrong", made.false_pass)]
        told = [
            f"{name} {rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}] of the {which} ones"
            for name, which, rate in passes
            if rate is not None
        ]
        console.print(Text(f"it passes {', '.join(told)}"))
    if fitted.unscored:
        console.print(f"{fitted.unscored} items had no score, or the metric no say on them")
    if fitted.unheard:
        console.print(f"{fitted.unheard} tasks taught nothing: they failed, or nothing was drafted for them")
    console.print(Text(f"wrote {fitted.path}"))
