"""What commands print their tables and their JSON with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text


def wide_console() -> Console:
    """The terminal; elsewhere a wide one, since a table in a file or a log is not to be folded."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    return console


def new_table(*headings: str, **style: Any) -> Table:
    """A table without lines. A heading that begins with ">" is that of figures, which stand to the right."""
    table = Table(box=None, pad_edge=False, **style)
    for heading in headings:
        table.add_column(Text(heading.removeprefix(">")), justify="right" if heading[:1] == ">" else "left")
    return table


def print_json(value: Any) -> None:
    """Print a value as JSON; what is no number, as an interval's unknown end, is null."""
    click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode())


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print lines, on a terminal wrapped between words and under their own beginning; elsewhere as long as they are."""
    for line in lines:
        lead = len(line.plain) - len(line.plain.lstrip(" │"))
        if not console.is_terminal or "\n" in line.plain:
            console.print(line, soft_wrap=True)
            continue
        for part in line[lead:].wrap(console, max(20, console.width - lead)) or [Text("")]:
            console.print(Text.assemble(line[:lead], part), soft_wrap=True)
