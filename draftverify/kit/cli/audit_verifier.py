"""`draftverify audit verifier RUN`: what the word of a run's verifiers is worth, by labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from draftverify.bench.records import load_run
from draftverify.kit.cli.audit_judge import probes_table

if TYPE_CHECKING:
    from rich.table import Table

    from draftverify.stats.judgement import Roc

__all__ = ["verifier"]

ROWS = 9
"""Points of a curve that are printed; the file has the others."""


@click.command(short_help="Say what the word of a run's verifiers is worth.")
@click.argument("run", type=click.Path(file_okay=False))
@click.option("--pipeline", "names", multiple=True, metavar="NAME", help="Only this pipeline; repeatable.")
@click.option(
    "--metric", metavar="NAME", help="The metric whose word is the label; the run's first when absent."
)
@click.option("--people", is_flag=True, help="Take what people decided in the run as labels instead.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    help="The config that the run was made from, where it has moved.",
)
@click.option("--json", "as_json", is_flag=True, help="The audit as JSON, all of it.")
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given.")
def verifier(
    run: str,
    names: tuple[str, ...],
    metric: str | None,
    people: bool,
    config: str | None,
    as_json: bool,
    store: str | None,
) -> None:
    """Hold every item that RUN's verifiers judged against a label, and say how far their word goes.

    A metric of the run is asked about each item as if it had been the answer. Nothing is drafted or verified again. The
    audit is written to RUN/verifiers.json, and the report shows it.
    """
    import msgspec
    from rich.console import Console

    from draftverify.bench.artifact import VERIFIER_AUDIT, write_artifact
    from draftverify.bench.review import labels
    from draftverify.kit.audit.runs import audit_run

    if people and metric is not None:
        raise click.UsageError(
            "--people takes people's word for a label, --metric a metric's; give one of them"
        )
    with load_run(run, url=store) as records:
        decided = [(each.pipeline, each.task, each.value, each.right) for each in labels(records)]
        found = audit_run(
            records, pipelines=names, metric=metric, people=decided if people else None, config=config
        )
        path = records.path / VERIFIER_AUDIT
    # Shown before it is written: labels may have cost much, and are not lost with a file that cannot be.
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = 200  # a table in a file or a log is not to be folded
        click.echo(f"labels: {'people' if people else f'the metric {found.labels}'}")
        console.print(probes_table("pipeline", [*found.pipelines, found.shared]))
        if found.curves:
            console.print()
            console.print(_curves_table(found.curves))
    write_artifact(path, found)
    if not as_json:
        click.echo(f"wrote {path}; `draftverify report {run}` shows it")


def _curves_table(curves: Mapping[str, Roc]) -> Table:
    """Points of each ROC curve, and T at the same F within tasks."""
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    from draftverify.bench.tables.words import clean

    table = Table(box=None, pad_edge=False)
    for heading in ("ROC", "scores from", "T", "F", "T within tasks"):
        table.add_column(heading, justify="left" if heading == "ROC" else "right")
    for name, curve in curves.items():
        points = [each for each in curve.points if each.threshold is not None]
        kept = np.unique(np.linspace(0, len(points) - 1, min(len(points), ROWS)).round().astype(int))
        shares = [each.false_pass for each in curve.within]
        for place, each in enumerate(points[at] for at in kept):
            within = (
                np.interp(each.false_pass, shares, [one.true_pass for one in curve.within])
                if shares
                else None
            )
            table.add_row(
                Text(clean(name) if place == 0 else ""),
                f"{each.threshold:.4g}",
                f"{each.true_pass:.3f}",
                f"{each.false_pass:.3f}",
                "–" if within is None else f"{within:.3f}",
            )
    return table
