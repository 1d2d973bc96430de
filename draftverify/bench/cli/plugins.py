"""`draftverify plugins`: every installed part, whether it can be imported, and what one of them takes."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from itertools import groupby
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import click

from draftverify.bench.cli.exits import ExitCode, exit_with
from draftverify.bench.tables.words import clean
from draftverify.errors import did_you_mean
from draftverify.plugins import ROLES, Examined, examine, unknown


@click.command()
@click.argument("name", required=False)
@click.option("--role", type=click.Choice(list(ROLES)), help="Only parts of this role.")
@click.option("--broken", is_flag=True, help="Only what cannot be used; exits with 4 when there is any.")
def plugins(name: str | None, role: str | None, broken: bool) -> None:
    """List the installed parts with what each does, or describe the one named NAME."""
    of_role = [part for part in examine() if role in (None, part.plugin.role)]
    parts = [part for part in of_role if name in (None, part.plugin.name)]
    if not parts and name is not None:
        if role is not None:
            raise click.UsageError(unknown(role, name))  # type: ignore[arg-type]
        hint = did_you_mean(name, [part.plugin.name for part in of_role])
        hint = hint if hint.startswith("; did") else "; `draftverify plugins` lists them all"
        raise click.UsageError(f"no part is named {name!r}{hint}")
    if broken:
        parts = [part for part in parts if part.status != "ok"]
    if name is not None:
        for part in parts:
            _describe(part)
    else:
        _print_table(parts)
    if broken and parts:
        exit_with(ExitCode.PLUGIN)


def _print_table(parts: list[Examined]) -> None:
    """A terminal gets the parts by role, with what each does; a pipe one line each, to be searched."""
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(highlight=False)
    if not parts:
        console.print("every installed part can be used")
        return
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in zip(*map(_cells, parts), strict=True)]
        for part in parts:
            cells = "  ".join(f"{cell:<{width}}" for cell, width in zip(_cells(part), widths, strict=True))
            click.echo(f"{cells}  {_sentence(part)}".rstrip())
    else:
        width = min(34, max(len(part.plugin.name) for part in parts))
        for role, group in groupby(parts, key=lambda part: part.plugin.role):
            table = Table.grid(Column(width=width + 2, overflow="fold"), Column(), padding=(0, 2, 0, 0))
            for part in group:
                package = "" if part.plugin.distribution == "draftverify" else f" ({part.plugin.package})"
                sentence = _sentence(part) if part.status == "ok" else Text(part.status, "bold red")
                table.add_row(f"  {part.plugin.name}", Text.assemble(sentence, (package, "dim")))
            console.print(Text(role or "(all)", "bold"))
            console.print(table)
    # Twins have the same.
    troubles = {
        (part.plugin.role, part.plugin.name, part.message): part for part in parts if part.status != "ok"
    }
    for part in troubles.values():
        console.print()
        click.secho(f"{part.plugin.role} {part.plugin.name}".strip() + f" is {part.status}", bold=True)
        _print_trouble(part, part.message)


def _cells(part: Examined) -> tuple[str, str, str, str]:
    return part.plugin.role or "(all)", part.plugin.name, part.plugin.package, part.status


def _sentence(part: Examined) -> str:
    """The first sentence of what a part says of itself."""
    from draftverify.bench.config.parameters import summary

    if part.status != "ok":
        return ""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z(`])", clean(summary(part.plugin.load())), maxsplit=1)[0]


def _print_trouble(part: Examined, message: str) -> None:
    """A message and, of what cannot be imported, the traceback."""
    click.echo(f"  {message}")
    if part.traceback and part.status == "broken":
        click.echo("\n".join("  " + line for line in part.traceback.rstrip().splitlines()))


def _describe(part: Examined) -> None:
    from draftverify.bench.config.parameters import parameters

    plugin = part.plugin
    click.secho(f"{plugin.role} {plugin.name}".strip(), bold=True)
    click.echo(f"  {plugin.target}, of {plugin.package}")
    if part.status != "ok":
        _print_trouble(part, f"{part.status}: {part.message}")
        return
    target = plugin.load()
    arguments = parameters(target)
    click.echo(f"  in a config: {{use: {plugin.name}}}\n")
    for argument in arguments.values():
        default = "" if argument.required else f" = {argument.default!r}"
        click.echo(f"  {argument.name}: {_type_words(argument.annotation)}{default}")
    if not arguments:
        click.echo("  takes no arguments")
    document = inspect.getdoc(target)
    if document:
        click.echo("\n" + "\n".join(f"  {line}".rstrip() for line in document.splitlines()))
    click.echo("")


def _type_words(annotation: Any) -> str:
    """A parameter's type as it is written, with its bounds: `float (ge=0, lt=1)`."""
    if get_origin(annotation) is Annotated:
        kind, *notes = get_args(annotation)
        bounds = [bound for note in notes for bound in getattr(note, "metadata", ()) if is_dataclass(bound)]
        values = [f"{field.name}={getattr(bound, field.name)}" for bound in bounds for field in fields(bound)]
        return _type_words(kind) + (f" ({', '.join(values)})" if values else "")
    if get_origin(annotation) in (Union, UnionType):
        return " | ".join(map(_type_words, get_args(annotation)))
    if annotation is NoneType:
        return "None"
    # The names alone: where `Path` comes from is no news.
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(annotation))
