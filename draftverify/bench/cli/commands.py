"""Which commands there are: the bench's own, and those that packages join by an entry point in `draftverify.commands`.

An entry point gives a click command, or a `LazyCommand`, which says what it does before anything of it is imported. So
`draftverify --help` is quick.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

import click

from draftverify.errors import PluginError
from draftverify.plugins import COMMANDS

__all__ = ["MOVED", "LazyCommand", "commands"]


class LazyCommand(NamedTuple):
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


_BENCH = {
    name: LazyCommand(f"draftverify.bench.cli.{name}:{name}", help)
    for name, help in (
        ("init", "Write a small experiment that runs as it stands, a package of parts, or a schema."),
        ("run", "Run an experiment; the same command resumes it."),
        ("show", "List runs; show a run's tables, its tasks by outcome, or one round by round."),
        ("compare", "Compare runs or pipelines task by task."),
        ("plugins", "List the installed parts with what they do, or describe one."),
        ("cache", "Show or clear cached model files."),
    )
}

MOVED = {
    "runs": "show DIRECTORY",
    "report": "view RUN --out FILE",
    "review": "view RUN --review",
    "calibrate": "fit block CONFIG",
    "train": "fit part NAME CONFIG",
    "tune": "replay RUN --tune",
    "schema": "init --schema CONFIG",
    "adapter": "init --adapter NAME",
    "conform": "audit part NAME",
}
"""Names that commands had, or that are looked for, and what does it."""


def commands() -> dict[str, LazyCommand]:
    """Every command by its name: the bench's own first, then those of packages, by name.

    A package cannot take the name of one of the bench's own. Of two that join by one name neither is there: it raises,
    when it is called, a PluginError that names both.
    """
    entries: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=COMMANDS):
        entries.setdefault(entry.name, []).append(entry)
    return _BENCH | {name: _joined(entries[name]) for name in sorted(entries) if name not in _BENCH}


def _joined(entries: list[EntryPoint]) -> LazyCommand:
    name = entries[0].name
    if len({entry.value for entry in entries}) > 1:
        return _BrokenCommand(name, f"two packages join by that name: {' and '.join(map(_package, entries))}")
    try:
        command = entries[0].load()
    except Exception as error:
        problem = f"{_package(entries[0])} cannot be imported: {type(error).__name__}: {error}"
        return _BrokenCommand(name, problem)
    if isinstance(command, LazyCommand):
        return command
    if isinstance(command, click.Command):
        return LazyCommand(entries[0].value, command.get_short_help_str(100))
    problem = f"{_package(entries[0])} gives a {type(command).__name__}, which is no click command"
    return _BrokenCommand(name, problem)


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} ({entry.value})" if entry.dist is not None else entry.value


class _BrokenCommand(LazyCommand):
    """A command that is listed with what is wrong with it."""

    def __new__(cls, name: str, problem: str) -> _BrokenCommand:
        return super().__new__(cls, name, f"cannot be used: {problem}")

    def load(self) -> click.Command:
        raise PluginError(f"the command {self.source!r} {self.help}")
