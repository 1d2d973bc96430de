"""Which commands there are: the bench's own, and those that packages join by an entry point in `draftverify.commands`.

An entry point gives a click command, or a `LazyCommand`, which says what it does before anything of it is imported. So
`draftverify --help` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import click

from draftverify.errors import DraftVerifyError, PluginError
from draftverify.plugins import COMMANDS, Plugin, hooks


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
    joined: dict[str, list[Plugin]] = {}
    for hook in hooks(COMMANDS):
        joined.setdefault(hook.name, []).append(hook)
    return _BENCH | {name: _joined(joined[name]) for name in sorted(joined) if name not in _BENCH}


def _joined(found: list[Plugin]) -> LazyCommand:
    hook, *others = found
    if any(other.target != hook.target for other in others):
        names = " and ".join(map(_package, found))
        return _BrokenCommand(hook.name, f"two packages join by that name: {names}")
    try:
        command: Any = hook.load()
    except DraftVerifyError as error:
        why = error.__cause__ or error
        problem = f"{_package(hook)} cannot be imported: {type(why).__name__}: {why}"
        return _BrokenCommand(hook.name, problem)
    if isinstance(command, LazyCommand):
        return command
    if isinstance(command, click.Command):
        return LazyCommand(hook.target, command.get_short_help_str(100))
    problem = f"{_package(hook)} gives a {type(command).__name__}, which is no click command"
    return _BrokenCommand(hook.name, problem)


def _package(hook: Plugin) -> str:
    return f"{hook.distribution} ({hook.target})"


class _BrokenCommand(LazyCommand):
    """A command that is listed with what is wrong with it."""

    def __new__(cls, name: str, problem: str) -> _BrokenCommand:
        return super().__new__(cls, name, f"cannot be used: {problem}")

    def load(self) -> click.Command:
        raise PluginError(f"the command {self.source!r} {self.help}")
