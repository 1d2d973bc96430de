"""Which commands there are: the bench's own, and those that packages join by an entry point in `draftverify.commands`.

An entry point gives a click command, or a `Command`, which says what it does before anything of it is imported. So
`draftverify --help` is quick.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

import click

from draftverify.errors import PluginError
from draftverify.plugins import COMMANDS

__all__ = ["Command", "commands"]


class Command(NamedTuple):
    """A command that is imported when it is called.

    Args:
        source: where the click command is, as "package.module:name".
        help: what it does, in one line.
    """

    source: str
    help: str

    def load(self) -> click.Command:
        """The click command."""
        module, _, name = self.source.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command


def _own(name: str, help: str) -> tuple[str, Command]:
    return name, Command(f"draftverify.bench.cli.{name}:{name}", help)


_OWN = dict(
    (
        _own("init", "Write a small experiment that runs as it stands."),
        _own("run", "Run an experiment; the same command resumes it."),
        _own("runs", "List the runs under a directory."),
        _own("compare", "Compare runs or pipelines task by task."),
        _own("show", "Show a run's tables, its tasks by outcome, or one round by round."),
        _own("export", "Write a run's results as csv, jsonl or parquet."),
        _own("plugins", "List the installed parts with what they do, or describe one."),
        _own("schema", "Write the JSON schema of a config, for editors."),
        _own("adapter", "Write a package of parts of your own, to be published."),
        _own("cache", "Show or clear cached model files."),
    )
)


def commands() -> dict[str, Command]:
    """Every command by its name: the bench's own first, then those of packages, by name.

    A package cannot take the name of one of the bench's own. Of two that join by one name neither is there: it raises,
    when it is called, a PluginError that names both.
    """
    joined: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=COMMANDS):
        joined.setdefault(entry.name, []).append(entry)
    return _OWN | {name: _joined(joined[name]) for name in sorted(joined) if name not in _OWN}


def _joined(entries: list[EntryPoint]) -> Command:
    name = entries[0].name
    if len({entry.value for entry in entries}) > 1:
        return _Broken(name, f"two packages join by that name: {' and '.join(map(_package, entries))}")
    try:
        command = entries[0].load()
    except Exception as error:
        return _Broken(name, f"{_package(entries[0])} cannot be imported: {type(error).__name__}: {error}")
    if isinstance(command, Command):
        return command
    if isinstance(command, click.Command):
        return Command(entries[0].value, command.get_short_help_str(100))
    return _Broken(
        name, f"{_package(entries[0])} gives a {type(command).__name__}, which is no click command"
    )


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} ({entry.value})" if entry.dist is not None else entry.value


class _Broken(Command):
    """A command that is listed with what is wrong with it."""

    def __new__(cls, name: str, problem: str) -> _Broken:
        return super().__new__(cls, name, f"cannot be used: {problem}")

    def load(self) -> click.Command:
        raise PluginError(f"the command {self.source!r} {self.help}")
