"""`draftverify export RUN`: a run's results as a table for other programs."""

from __future__ import annotations

import sys
from io import TextIOWrapper

import click

from draftverify.records import load_run
from draftverify.records.export import Format, write
from draftverify.records.rows import Level

__all__ = ["export"]


@click.command()
@click.argument("run", type=click.Path(file_okay=False))
@click.option(
    "--to", "form", type=click.Choice(("csv", "jsonl", "parquet")), default="csv", show_default=True
)
@click.option("-o", "--out", metavar="FILE", help="The file; the standard output when absent.")
@click.option("--rounds", "level", flag_value="rounds", help="One row per round instead of per task.")
@click.option("--items", "level", flag_value="items", help="One row per drafted item.")
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given.")
def export(run: str, form: Format, out: str | None, level: Level | None, store: str | None) -> None:
    """Write what RUN has come to, a row per task of a pipeline, finished or not.

    docs/runs.md says what the columns hold, and how text that a model wrote is kept from being taken for a formula.
    """
    with load_run(run, url=store) as records:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="")
        count = write(records, form, sys.stdout if out is None else out, level or "tasks")
    if out is not None:
        click.echo(f"wrote {count} rows to {out}", err=True)
