"""`draftverify view`: runs in the browser, from a server on this machine's own address; as one file; to be answered."""

from __future__ import annotations

from pathlib import Path

import click

from draftverify.bench.cli import options


@click.command()
@click.argument("run", default="runs", metavar="[RUN|DIRECTORY]", type=click.Path(file_okay=False))
@options.out("FILE", "Write the page of RUN as one file that needs no network, and end.")
@options.optional_file(
    "--review", "answers", "Answer what waits for a person, with keys or by FILE, and end."
)
@click.option("--port", type=click.IntRange(0, 65535), help="The port; any free one when absent.")
@click.option("--open", "open_browser", is_flag=True, help="Open the browser too.")
@options.store
def view(
    run: str, out: str | None, answers: str | None, port: int | None, open_browser: bool, store: str | None
) -> None:
    """Show the page of a run in the browser, or the list of the runs in a directory (runs/ when absent).

    Prints a URL that lets one browser of this machine in, once. A page follows its run while another process drives it,
    and on it people decide what waits for them. Ctrl-C ends it.

    With --review the keys accept a candidate, edit it in $EDITOR, reject it, skip it for now, quit. The same
    `draftverify run` command then goes on with what was answered. A line of FILE is {"task": …, "answer": "accept" |
    "edit" | "reject" | "skip", "value": … (of an edit), "pipeline": …, "note": …}.
    """
    if (out or answers) and (port is not None or open_browser or (out and answers)):
        raise click.UsageError("--out, --review and serving with --port or --open are three ways; choose one")
    if out is not None:
        _write_page(run, Path(out), store)
    elif answers is not None:
        from draftverify.view.cli.review import review

        review(run, None if answers == options.ALONE else answers, store)
    else:
        from draftverify.view import serve

        serve(run, store=store, port=port or 0, open_browser=open_browser)


def _write_page(run: str, target: Path, store: str | None) -> None:
    from draftverify.bench.records import load_run
    from draftverify.bench.records.export import whole
    from draftverify.view.page import page_html

    with load_run(run, url=store) as records:
        html = page_html(records)
    with whole(target) as part:
        part.write_text(html, encoding="utf-8")
    click.echo(f"wrote {target} ({len(html.encode()) / 1e6:.1f} MB)")
