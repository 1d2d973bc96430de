"""`draftverify report RUN`: a run's report as one HTML file that opens with no network."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["report"]


@click.command()
@click.argument("run", type=click.Path(file_okay=False))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Where to write it; RUN/report.html when absent.",
)
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given.")
def report(run: str, output: str | None, store: str | None) -> None:
    """Write the report of RUN, finished or not, as one HTML file: figures, charts and the list of all tasks.

    The file needs no network and can be sent to somebody; `draftverify view` serves the same page, whole and live.
    """
    from draftverify.bench.records import load_run
    from draftverify.bench.records.export import whole
    from draftverify.view.page import page_html

    with load_run(run, url=store) as records:
        html = page_html(records)
    target = Path(output) if output is not None else Path(run) / "report.html"
    with whole(target) as part:
        part.write_text(html, encoding="utf-8")
    click.echo(f"wrote {target} ({len(html.encode()) / 1e6:.1f} MB)")
