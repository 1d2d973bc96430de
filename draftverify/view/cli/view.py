"""`draftverify view [RUN|DIR]`: runs in the browser, from a server on this machine's own address."""

from __future__ import annotations

import click

__all__ = ["view"]


@click.command()
@click.argument("run", default="runs", metavar="[RUN|DIR]", type=click.Path(file_okay=False))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; any free one when absent.")
@click.option("--open", "open_browser", is_flag=True, help="Open the browser too.")
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the run was given.")
def view(run: str, port: int, open_browser: bool, store: str | None) -> None:
    """Show the report of a run in the browser, or the list of the runs in a directory (runs/ when absent).

    Prints a URL that lets one browser of this machine in, once. A page follows its run while another process drives it.
    Ctrl-C ends it.
    """
    from draftverify.view import serve

    serve(run, store=store, port=port, open_browser=open_browser)
