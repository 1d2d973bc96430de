"""`draftverify cache`: what installed packages keep on disk, and clearing it.

A package shows its cache by an entry point in the group `draftverify.caches`: an object with `entries()`, whose
entries have `name`, `kind`, `bytes` and `path`, and `clear(name)`, which returns the bytes freed.
"""

from __future__ import annotations

from typing import Any

import click

from draftverify.errors import ResourceError, did_you_mean
from draftverify.plugins import CACHES, hooks


@click.group(invoke_without_command=True)
@click.pass_context
def cache(context: click.Context) -> None:
    """Show what is cached on disk, or clear it."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console
    from rich.text import Text

    from draftverify.bench.cli.screen import new_table

    entries = [(owner, entry) for owner, files in _caches().items() for entry in files.entries()]
    if not entries:
        click.echo("the cache is empty")
        return
    table = new_table("of", "name", "kind", ">MB", "path", header_style="bold")
    table.columns[-1].overflow = "fold"
    for owner, entry in entries:
        cells = (owner, entry.name, entry.kind, f"{entry.bytes / 1e6:,.1f}", str(entry.path))
        table.add_row(*map(Text, cells))
    Console(highlight=False).print(table)


@cache.command(short_help="Clear cached files; they are fetched again when next used.")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Clear everything.")
def clear(name: str | None, everything: bool) -> None:
    """Clear what is cached under NAME; it is fetched again when it is next used."""
    if (name is None) != everything:
        raise click.UsageError("give a NAME, as `draftverify cache` lists it, or --all")
    caches = [(files, {entry.name for entry in files.entries()}) for files in _caches().values()]
    if name is not None and not any(name in names for _, names in caches):
        hint = did_you_mean(name, set[str]().union(*(names for _, names in caches)))
        raise ResourceError(f"nothing is cached as {name!r}{hint}")
    freed = sum(files.clear(name) for files, names in caches if everything or name in names)
    click.echo(f"freed {freed / 1e6:,.1f} MB")


def _caches() -> dict[str, Any]:
    """What packages cache, by the names of their entry points."""
    return {hook.name: hook.load() for hook in hooks(CACHES)}
