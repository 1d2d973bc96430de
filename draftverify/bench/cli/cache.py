"""`draftverify cache`: what installed packages keep on disk, and clearing it.

A package shows its cache by an entry point in the group `draftverify.caches`: an object with `entries()`, whose
entries have `name`, `kind`, `bytes` and `path`, and `clear(name)`, which returns the bytes freed.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

import click

from draftverify.errors import ResourceError
from draftverify.plugins import CACHES, Plugin, did_you_mean

__all__ = ["cache"]


@click.group(invoke_without_command=True)
@click.pass_context
def cache(context: click.Context) -> None:
    """Show what is cached on disk, or clear it."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    entries = [(owner, entry) for owner, found in _caches().items() for entry in found.entries()]
    if not entries:
        click.echo("the cache is empty")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("of", "name", "kind"):
        table.add_column(column)
    table.add_column("MB", justify="right")
    table.add_column("path", overflow="fold")
    for owner, entry in entries:
        size = f"{entry.bytes / 1e6:,.1f}"
        table.add_row(owner, Text(entry.name), Text(entry.kind), size, Text(str(entry.path)))
    Console(highlight=False).print(table)


@cache.command(short_help="Clear cached files; they are fetched again when next used.")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Clear everything.")
def clear(name: str | None, everything: bool) -> None:
    """Clear what is cached under NAME; it is fetched again when it is next used."""
    if (name is None) != everything:
        raise click.UsageError("give a NAME, as `draftverify cache` lists it, or --all")
    caches = _caches()
    known = {entry.name for found in caches.values() for entry in found.entries()}
    if name is not None and name not in known:
        raise ResourceError(f"nothing is cached as {name!r}{did_you_mean(name, known)}")
    freed = 0
    for found in caches.values():
        if everything or name in {entry.name for entry in found.entries()}:
            freed += found.clear(name)
    click.echo(f"freed {freed / 1e6:,.1f} MB")


def _caches() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in metadata.entry_points(group=CACHES):
        assert entry.dist is not None
        plugin = Plugin("", entry.name, entry.value, entry.dist.metadata["Name"], entry.dist.version)
        found[entry.name] = plugin.load()
    return found
