"""`draftverify plugins`: every installed part, whether it can be imported, and what one of them takes."""

from __future__ import annotations

import inspect
from dataclasses import asdict, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import click

from draftverify.cli.exits import Exit
from draftverify.plugins import Examined, did_you_mean, examine

__all__ = ["plugins"]


@click.command()
@click.argument("name", required=False)
@click.option(
    "--broken", is_flag=True, help="Only what cannot be used; the exit code is 4 when there is any."
)
def plugins(name: str | None, broken: bool) -> None:
    """List the installed parts, or describe the one named NAME."""
    examined = examine()
    shown = [each for each in examined if name in (None, each.plugin.name)]
    if not shown:
        known = did_you_mean(str(name), [each.plugin.name for each in examined])
        raise click.UsageError(f"no part is named {name!r}{known}")
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
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not shown:
        console.print("every installed part can be used")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("role", "name", "package", "status"):
        table.add_column(column, overflow="fold")
    for each in shown:
        plugin = each.plugin
        status = Text(each.status, "green" if each.status == "ok" else "bold red")
        table.add_row(plugin.role, Text(plugin.name), Text(plugin.package), status)
    console.print(table)
    for each in shown:
        if each.status != "ok":
            console.print()
            _trouble(each)


def _trouble(each: Examined) -> None:
    click.secho(f"{each.plugin.role} {each.plugin.name}".strip() + f" is {each.status}", bold=True)
    click.echo("  " + each.message)
    if each.traceback and each.status == "broken":
        click.echo("\n".join("  " + line for line in each.traceback.rstrip().splitlines()))


def _describe(each: Examined) -> None:
    from draftverify.experiments.parameters import parameters

    plugin = each.plugin
    click.secho(f"{plugin.role} {plugin.name}", bold=True)
    click.echo(f"  {plugin.target}, of {plugin.package}")
    if each.status != "ok":
        _trouble(each)
        return
    target = plugin.load()
    takes = parameters(target)
    click.echo("")
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
    return "None" if annotation is NoneType else inspect.formatannotation(annotation)
