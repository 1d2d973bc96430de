"""`draftverify audit verifier RUN`: what the word of a run's verifiers is worth, by labels."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.screen import new_table, print_json, wide_console
from draftverify.bench.records import load_run
from draftverify.bench.tables.words import clean
from draftverify.kit.cli.judge import probes_table

if TYPE_CHECKING:
    from draftverify.stats.judgement import Roc

ROWS = 9
"""Points of a curve that are printed; the file has the others."""

PEOPLE = "people"


@click.command(short_help="Say what the word of a run's verifiers is worth.")
@options.run
@options.names
@click.option(
    "--metric", metavar="NAME", help="Whose word is the label; the first when absent; `people`: theirs."
)
@options.moved_config
@options.as_json
@options.store
def verifier(
    run: str,
    names: tuple[str, ...],
    metric: str | None,
    config: str | None,
    as_json: bool,
    store: str | None,
) -> None:
    """Hold every item that RUN's verifiers judged against a label, and say how far their word goes.

    A metric of the run is asked about each item as if it had been the answer. Nothing is drafted or verified again. The
    audit is written to RUN/verifiers.json, and the report shows it.
    """
    from draftverify.bench.artifact import VERIFIER_AUDIT, write_artifact
    from draftverify.bench.review import labels
    from draftverify.kit.audit.runs import audit_run

    with load_run(run, url=store) as records:
        people = None
        if metric == PEOPLE and PEOPLE not in records.config.get("metrics", ()):
            metric = None
            people = [(label.pipeline, label.task, label.value, label.right) for label in labels(records)]
        audit = audit_run(records, pipelines=names, metric=metric, people=people, config=config)
        path = records.path / VERIFIER_AUDIT
    # Shown before it is written: labels may have cost much, and are not lost with a file that cannot be.
    if as_json:
        print_json(audit)
    else:
        console = wide_console()
        click.echo(f"labels: {f'the metric {audit.labels}' if people is None else PEOPLE}")
        console.print(probes_table("pipeline", [*audit.pipelines, audit.shared]))
        if audit.curves:
            console.print()
            console.print(_curves_table(audit.curves))
    write_artifact(path, audit)
    if not as_json:
        click.echo(f"wrote {path}; `draftverify view {quote(run)}` shows it")


def _curves_table(curves: Mapping[str, Roc]) -> Table:
    """Points of each ROC curve, and T at the same F within tasks."""
    import numpy as np

    table = new_table("ROC", ">scores from", ">T", ">F", ">T within tasks")
    for name, curve in curves.items():
        points = [point for point in curve.points if point.threshold is not None]
        places = np.unique(np.linspace(0, len(points) - 1, min(len(points), ROWS)).round().astype(int))
        false = [point.false_pass for point in curve.within]
        true = [point.true_pass for point in curve.within]
        label = clean(name)
        for point in (points[place] for place in places):
            in_tasks = f"{np.interp(point.false_pass, false, true):.3f}" if false else "–"
            rates = (f"{point.threshold:.4g}", f"{point.true_pass:.3f}", f"{point.false_pass:.3f}", in_tasks)
            table.add_row(Text(label), *rates)
            label = ""
    return table
