"""`draftverify plugins`: every installed part, whether it can be imported, and what one of them takes."""

from __future__ import annotations

import inspect
import re
from dataclasses import asdict, is_dataclass
from itertools import groupby
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import click

from draftverify.bench.cli.exits import Exit
from draftverify.bench.tables.words import clean
from draftverify.plugins import ROLES, Examined, did_you_mean, examine, unknown

__all__ = ["plugins"]


@click.command()
@click.argument("name", required=False)
@click.option("--role", type=click.Choice(list(ROLES)), help="Only parts of this role.")
@click.option(
    "--broken", is_flag=True, help="Only what cannot be used; the exit code is 4 when there is any."
)
def plugins(name: str | None, role: str | None, broken: bool) -> None:
    """List the installed parts with what each does, or describe the one named NAME."""
    examined = [each for each in examine() if role in (None, each.plugin.role)]
    shown = [each for each in examined if name in (None, each.plugin.name)]
    if not shown and name is not None:
        if role is not None:
            raise click.UsageError(unknown(role, name))  # type: ignore[arg-type]
        near = did_you_mean(name, [each.plugin.name for each in examined])
        near = near if near.startswith("; did") else "; `draftverify plugins` lists them all"
        raise click.UsageError(f"no part is named {name!r}{near}")
    if broken:
        shown = [each for each in shown if each.status != "ok"]
    if name is not None:
        for each in shown:
            _describe(each)
    else:
        _table(shown)
    if broken and shown:
        click.get_current_context().exit(Exit.PLUGIN)


def _table(shown: list[Examined]) -> None:
    """A terminal gets the parts by role, with what each does; a pipe one line each, to be searched."""
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(highlight=False)
    if not shown:
        console.print("every installed part can be used")
        return
    if not console.is_terminal:
        widths = [max(len(each) for each in column) for column in zip(*map(_cells, shown), strict=True)]
        for each in shown:
            told = "  ".join(f"{cell:<{width}}" for cell, width in zip(_cells(each), widths, strict=True))
            click.echo(f"{told}  {_sentence(each)}".rstrip())
    else:
        width = min(34, max(len(each.plugin.name) for each in shown))
        for role, parts in groupby(shown, key=lambda each: each.plugin.role):
            table = Table.grid(Column(width=width + 2, overflow="fold"), Column(), padding=(0, 2, 0, 0))
            for each in parts:
                table.add_row(f"  {each.plugin.name}", _told(each))
            console.print(Text(role or "(all)", "bold"))
            console.print(table)
    seen: set[tuple[str, str, str]] = set()
    for each in shown:
        trouble = (each.plugin.role, each.plugin.name, each.message)
        if each.status != "ok" and trouble not in seen:
            console.print()
            _trouble(each)
        seen.add(trouble)  # twins have the same


def _cells(each: Examined) -> tuple[str, str, str, str]:
    plugin = each.plugin
    return plugin.role or "(all)", plugin.name, plugin.package, each.status


def _told(each: Examined) -> Any:
    from rich.text import Text

    told = Text(_sentence(each))
    if each.plugin.distribution != "draftverify":
        told.append(f" ({each.plugin.package})", "dim")
    return (
        told if each.status == "ok" else Text.assemble((each.status, "bold red"), f" ({each.plugin.package})")
    )


def _sentence(each: Examined) -> str:
    """The first sentence of what a part says of itself."""
    from draftverify.bench.config.parameters import summary

    if each.status != "ok":
        return ""
    said = clean(summary(each.plugin.load()))
    return re.split(r"(?<=[.!?])\s+(?=[A-Z(`])", said, maxsplit=1)[0]


def _trouble(each: Examined) -> None:
    click.secho(f"{each.plugin.role} {each.plugin.name}".strip() + f" is {each.status}", bold=True)
    click.echo("  " + each.message)
    _traceback(each)


def _traceback(each: Examined) -> None:
    if each.traceback and each.status == "broken":
        click.echo("\n".join("  " + line for line in each.traceback.rstrip().splitlines()))


def _describe(each: Examined) -> None:
    from draftverify.bench.config.parameters import parameters

    plugin = each.plugin
    click.secho(f"{plugin.role} {plugin.name}".strip(), bold=True)
    click.echo(f"  {plugin.target}, of {plugin.package}")
    if each.status != "ok":
        click.echo(f"  {each.status}: " + each.message)
        _traceback(each)
        return
    target = plugin.load()
    takes = parameters(target)
    click.echo(f"  in a config: {{use: {plugin.name}}}\n")
    for parameter in takes.values():
        default = "" if parameter.required else f" = {parameter.default!r}"
        click.echo(f"  {parameter.name}: {_words(parameter.annotation)}{default}")
    if not takes:
        click.echo("  takes no arguments")
    document = inspect.getdoc(target)
    if document:
        click.echo("\n" + "\n".join(f"  {line}".rstrip() for line in document.splitlines()))
    click.echo("")


def _words(annotation: Any) -> str:
    """A parameter's type as it is written, with its bounds: `float (ge=0, lt=1)`."""
    if get_origin(annotation) is Annotated:
        kind, *notes = get_args(annotation)
        bounds = [bound for note in notes for bound in getattr(note, "metadata", ())]
        told = [
            f"{name}={value}"
            for bound in bounds
            if is_dataclass(bound) and not isinstance(bound, type)
            for name, value in asdict(bound).items()
        ]
        return _words(kind) + (f" ({', '.join(told)})" if told else "")
    if get_origin(annotation) in (Union, UnionType):
        return " | ".join(map(_words, get_args(annotation)))
    # The names alone: where `Path` comes from is no news.
    return (
        "None"
        if annotation is NoneType
        else re.sub(r"\b(?:\w+\.)+(?=\w)", "", inspect.formatannotation(annotation))
    )
