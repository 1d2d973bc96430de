"""`draftverify runs [DIR]`: the runs under a directory."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from draftverify.bench.records.listing import Listed, list_runs
from draftverify.bench.tables.words import clean, words

__all__ = ["runs"]


@click.command()
@click.argument("directory", default="runs", metavar="[DIR]")
@click.option("--tag", "tags", multiple=True, metavar="T", help="Only runs with this tag; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Write the list as JSON.")
def runs(directory: str, tags: tuple[str, ...], as_json: bool) -> None:
    """List the runs at and below DIR (runs/ when absent), the latest first.

    A run that cannot be read is listed with the reason. Its directory's name is what the other commands take.
    """
    root = Path(directory)
    found = list_runs(root, tags=tags)
    if as_json:
        plain = [{**msgspec.to_builtins(each, enc_hook=str), "state": each.state} for each in found]
        click.echo(json.dumps(plain, indent=2))
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a table in a file or a log is not to be folded
    if not found:
        tagged = f" tagged {', '.join(tags)}" if tags else ""
        what = f"no runs{tagged} under" if root.is_dir() else "there is no directory"
        console.print(Text(f"{what} {directory}; `draftverify run CONFIG` makes one in runs/"))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("run", "begun", "tasks", "pipelines", "state", "tags"):
        table.add_column(heading, justify="right" if heading == "tasks" else "left", overflow="fold")
    for each in found:
        if not each.problem:
            table.add_row(*map(Text, _cells(each)))
    if table.rows:
        console.print(table)
    for each in found:
        if each.problem:
            console.print(Text.assemble(("cannot be read: ", "red"), words(each.problem, 600)))


def _cells(each: Listed) -> tuple[str, ...]:
    names = clean(", ".join(each.pipelines[:3])) + (", …" if len(each.pipelines) > 3 else "")
    shown = f"{len(each.pipelines)}: {names}" if len(each.pipelines) > 3 else names
    return (
        clean(str(each.path)),
        _minute(each.begun),
        str(each.tasks),
        shown,
        each.state,
        clean(" ".join(each.tags)),
    )


def _minute(text: str) -> str:
    """A time on this machine's clock, to the minute."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return "–"
