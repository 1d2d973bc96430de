"""`draftverify audit verifier RUN`: what the word of a run's verifiers is worth, by labels."""

from __future__ import annotations

import click

from draftverify.cli.audit_judge import probes_table
from draftverify.records import load_run

__all__ = ["verifier"]


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

    from draftverify.calibration import write_artifact
    from draftverify.experiments.trust import audit_run
    from draftverify.report.overview import VERIFIERS
    from draftverify.review import labels

    if people and metric is not None:
        raise click.UsageError(
            "--people takes people's word for a label, --metric a metric's; give one of them"
        )
    with load_run(run, url=store) as records:
        decided = [(each.pipeline, each.task, each.value, each.right) for each in labels(records)]
        found = audit_run(
            records, pipelines=names, metric=metric, people=decided if people else None, config=config
        )
        path = records.path / VERIFIERS
    # Shown before it is written: labels may have cost much, and are not lost with a file that cannot be.
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = 200  # a table in a file or a log is not to be folded
        click.echo(f"labels: {'people' if people else f'the metric {found.labels}'}")
        console.print(probes_table("pipeline", [*found.pipelines, found.shared]))
    write_artifact(path, found)
    if not as_json:
        click.echo(f"wrote {path}; `draftverify report {run}` shows it")
