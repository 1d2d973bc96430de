"""What several commands have: options and arguments, each with one spelling and one meaning, and the command line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import click

Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]

config_file = click.argument("config", type=click.Path())
run = click.argument("run", type=click.Path(file_okay=False))

ALONE = "-"
"""The value of an option that may name a file, and names none."""


class FiniteRange(click.FloatRange):
    """A number within bounds. To click NaN is within all of them, and infinity where one is missing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is no finite number", param, ctx)
        return number


COUNT = click.IntRange(min=1)
FILE = click.Path(exists=True, dir_okay=False)
SHARE = FiniteRange(0, 1, min_open=True, max_open=True)


def repeated(option: str, name: str, metavar: str, help: str, **settings: Any) -> Decorator:
    """An option that may stand several times."""
    return click.option(option, name, multiple=True, metavar=metavar, help=f"{help}; repeatable.", **settings)


def optional_file(option: str, name: str, help: str) -> Decorator:
    """An option that may name a file; where it stands alone its value is ALONE."""
    kind = click.Path(exists=True, dir_okay=False, allow_dash=True)
    return click.option(option, name, type=kind, is_flag=False, flag_value=ALONE, metavar="[FILE]", help=help)


def out(metavar: str, help: str) -> Decorator:
    """Where a command writes to."""
    return click.option("-o", "--out", metavar=metavar, help=help)


overrides = repeated("--set", "overrides", "A.B=C", "Override a value of the config")
limit = click.option("--limit", type=click.IntRange(min=0), help="At most so many tasks of each group.")
names = repeated("--pipeline", "names", "NAME", "Only this pipeline")
fresh = click.option("--fresh", is_flag=True, help="Move what is there aside and begin anew.")
accept_changed = click.option("--accept-changed", is_flag=True, help="Go on though parts have changed since.")
as_json = click.option("--json", "as_json", is_flag=True, help="Write it as JSON, all of it.")
moved_config = click.option("--config", type=FILE, help="The config of the run, where it has moved.")
overlap = click.option("--overlap", is_flag=True, help="Though a part was learned from some of these tasks.")
store = click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL of the records.")


def experiment(command: Callable[..., None]) -> Callable[..., None]:
    """The argument CONFIG with --set and --limit; the command is given the experiment."""

    @functools.wraps(command)
    def loaded(config: str, overrides: tuple[str, ...], limit: int | None, **arguments: Any) -> None:
        from draftverify.bench.config.experiment import load_experiment

        command(load_experiment(config, overrides=overrides, limit=limit), **arguments)

    return config_file(overrides(limit(loaded)))


class CommandLine(NamedTuple):
    """What stands on the command line, for commands that need to know it beside their own options.

    Args:
        arguments: after the program's name.
        tracebacks: whether failures are to show where they came from, those of parts too, which end no command.
    """

    arguments: tuple[str, ...] = ()
    tracebacks: bool = False

    @staticmethod
    def now() -> CommandLine:
        """That of the command under way."""
        return click.get_current_context().find_object(CommandLine) or CommandLine()


class Kinds(click.Group):
    """A command of several kinds: says what comes before a name that stands where the kind should."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            forms = " or ".join(
                f"{ctx.command_path} {kind} {argument}" for kind, argument in self.kinds_of_one_argument()
            )
            raise click.UsageError(f"No such command {args[0]!r}. Write {forms}.", ctx)
        return super().resolve_command(ctx, args)

    def kinds_of_one_argument(self) -> Iterator[tuple[str, str]]:
        """The kinds that a single word can follow, each with what that is."""
        for kind, command in self.commands.items():
            arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
            if len(arguments) == 1:
                yield kind, arguments[0].human_readable_name
