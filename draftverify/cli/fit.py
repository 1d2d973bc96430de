"""`draftverify fit CONFIG`: what the scores of its calibrated verifiers mean, learned from labelled tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from draftverify.experiments.fit import Fitted
    from draftverify.experiments.release import Pooled

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
@click.option("--best", is_flag=True, help="Count each task's best item alone, as for a rule that takes one.")
@click.option(
    "--release", is_flag=True, help="Make the pools of rules `release` instead: their tasks' failures."
)
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
    release: bool,
    blocks: int,
    overrides: tuple[str, ...],
    limit: int | None,
) -> None:
    """Learn from CONFIG's tasks what the scores of its calibrated verifiers mean.

    Drafts and judges a block of each task, asks a metric which items are right, and writes the file that each
    {use: calibrated, scores: FILE} names: the probability of every score, and the lowest score to trust. Give it other
    tasks than the run will have: --set tasks.path=labelled.jsonl.

    With --release it runs each pipeline with {use: release, pool: FILE} and releases nothing, asks the metric which
    tasks had no right try, and writes their scores to FILE.
    """
    from draftverify.experiments.config import load_experiment
    from draftverify.experiments.fit import fit as perform
    from draftverify.experiments.release import fit_release

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

        if release:
            pools = fit_release(experiment, pipelines=names, metric=metric, watcher=watcher)
        else:
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
    if release:
        for pooled in pools:
            _show_pool(console, pooled)
    else:
        for each in found:
            _show(console, each)


def _show_pool(console: Console, pooled: Pooled) -> None:
    """How many tasks failed, and from which score an answer is released."""
    from draftverify.calibration import failures_needed

    pool, alpha = pooled.artifact.pool, pooled.alpha
    console.print(
        Text(
            f"{', '.join(pooled.pipelines)}: {len(pool.scores)} of {pooled.artifact.tasks} tasks failed in all "
            f"their tries, {pool.tries} at most; {pooled.solved} had a try that is right"
        )
    )
    if pooled.unheard:
        console.print(
            f"of {pooled.unheard} tasks nothing is known: they broke off, or had no try or no verdict"
        )
    above = pool.threshold(alpha)
    if above is None:
        needed = failures_needed(alpha)
        console.print(
            Text(f"too few: alpha {alpha:g} needs {needed} failed tasks, and nothing is released", "bold red")
        )
    else:
        console.print(f"released above score {above:.4g}, at alpha {alpha:g}")
    console.print(Text(f"wrote {pooled.path}"))


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
    if fitted.unscored:
        console.print(f"{fitted.unscored} items had no score, or the metric no say on them")
    if fitted.unheard:
        console.print(f"{fitted.unheard} tasks taught nothing: they failed, or nothing was drafted for them")
    console.print(Text(f"wrote {fitted.path}"))
