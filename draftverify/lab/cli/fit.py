"""`draftverify fit CONFIG`: what scores mean and which to accept and reject, learned from labelled tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from draftverify.lab.fit import Fitted
    from draftverify.lab.thresholds import Beforehand

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
@click.option(
    "--lost",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="The share of right items that may be rejected, by reject: certified.",
)
@click.option(
    "--plan", "dry", is_flag=True, help="Say what the labels at hand can certify, and draft nothing."
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
    lost: float,
    dry: bool,
    best: bool,
    blocks: int,
    overrides: tuple[str, ...],
    limit: int | None,
) -> None:
    """Learn from CONFIG's tasks what scores mean, and which to accept and to reject.

    Drafts and judges a block of each task, asks a metric which items are right, and writes the file that each verifier
    {use: calibrated, scores: FILE} and each threshold {use: calibrated, path: FILE} names: the probability of every
    score, the lowest score to accept and the lowest not to reject. Give it other tasks than the run will have: --set
    tasks.path=labelled.jsonl.
    """
    from draftverify.bench.config.experiment import load_experiment
    from draftverify.lab.fit import fit as perform
    from draftverify.lab.fit import plan

    experiment = load_experiment(config, overrides=overrides, limit=limit)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a table in a file or a log is not to be folded
    if dry:
        able_by_path = plan(
            experiment, pipelines=names, precision=precision, confidence=confidence, lost=lost
        )
        for path, able in able_by_path.items():
            _show_plan(console, path, able, precision, lost, confidence)
        return
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
            lost=lost,
            best=best,
            watcher=watcher,
        )
    for each in found:
        _show(console, each)


def _show_plan(
    console: Console, path: str, able: Beforehand, precision: float, lost: float, confidence: float
) -> None:
    """What so many tasks can certify, before anything is paid for."""
    from draftverify.lab.thresholds import least_abstained

    console.print(Text(f"{path}: {able.tasks} tasks with labels"))
    can = "enough" if able.can_accept else "too few"
    console.print(
        f"to accept at a precision of {precision:g}: {able.needed} tasks are needed at {confidence:g}, all of them "
        f"right; {able.tasks} are {can}, and {able.best:.3f} is the most that they can certify"
    )
    can = "enough" if able.can_reject else "too few"
    console.print(
        f"to reject and lose {lost:g} of the right items: {able.needed_to_reject} tasks that have one are needed; "
        f"{able.tasks} are {can}"
    )
    left = ", ".join(
        f"{least_abstained(wrong, precision):.0%} where {wrong:.0%} are wrong" for wrong in (0.2, 0.5, 0.8)
    )
    console.print(f"whatever the method, it leaves unaccepted at least {left}")
    console.print("a threshold is certified of one item a task: a block of 1, or --best")


def _show(console: Console, fitted: Fitted) -> None:
    """What was learned: the thresholds, and how far the probabilities can be taken on tasks they were not fitted on."""
    from draftverify.lab.thresholds import least_abstained

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
    wrong = 1 - made.right / made.items
    console.print(
        f"{wrong:.0%} are wrong: a precision of {made.precision:g} leaves at least "
        f"{least_abstained(wrong, made.precision):.0%} unaccepted, whatever the method"
    )
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
    if made.reject is None:
        console.print(Text(f"nothing to reject: {made.why_reject}"))
    else:
        console.print(
            f"reject below score {made.reject:.4g}: {made.lost:g} of the right items are lost at most, at "
            f"{made.confidence:g}; {made.why_reject}"
        )
    if fitted.unscored:
        console.print(f"{fitted.unscored} items had no score, or the metric no say on them")
    if fitted.unheard:
        console.print(f"{fitted.unheard} tasks taught nothing: they failed, or nothing was drafted for them")
    console.print(Text(f"wrote {fitted.path}"))
