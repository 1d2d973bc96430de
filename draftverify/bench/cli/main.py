"""The `draftverify` command: subcommands imported only when they are asked for, and one place where errors are told.

A command of the bench lives in `<name>.py` beside this file as a click command named `<name>`; others join by entry
points (`commands`). A command raises what goes wrong; it prints no error itself. To end with another code than 0 it
calls `click.get_current_context().exit(code)`.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import click

from draftverify.bench.cli.commands import MOVED, commands
from draftverify.bench.cli.exits import ExitCode, exit_for
from draftverify.bench.cli.options import CommandLine
from draftverify.errors import DraftVerifyError, self_verification_told
from draftverify.secret import redact

ERRORS_SHOWN = 8
CHARACTERS_SHOWN = 800


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = commands().get(cmd_name)
        return None if command is None else command.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in (names := commands()):
            # difflib costs a few milliseconds, so it is imported for the mistake alone.
            from difflib import get_close_matches

            near = ["--help"] if name == "help" else get_close_matches(name, [*names, *MOVED], n=1)
            if near and near[0] in MOVED:
                raise click.UsageError(f"No such command {name!r}. Write draftverify {MOVED[near[0]]}.", ctx)
            hint = f" Did you mean {near[0]}?" if near else f" There are {', '.join(names)}."
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in commands().items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code.value), code.meaning) for code in ExitCode])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
)
@click.version_option(None, "-V", "--version", package_name="draftverify", message="%(package)s %(version)s")
@click.option("--traceback", is_flag=True, help="Show where an error came from; may stand anywhere.")
def draftverify(traceback: bool) -> None:
    """Guess cheaply, check the whole guess in one pass, keep what survives."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        args: the arguments; those of the process when None.

    Returns:
        The exit code, see `draftverify.bench.cli.exits.ExitCode`.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    show_traceback = "--traceback" in options
    if show_traceback:
        arguments.remove("--traceback")
    output = sys.stdout
    try:
        with _warnings_told():
            code = draftverify.main(
                args=arguments,
                prog_name="draftverify",
                standalone_mode=False,
                obj=CommandLine(tuple(arguments), show_traceback),
            )
        return code if isinstance(code, int) else ExitCode.OK
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.USAGE
    except click.ClickException as error:
        _tell_usage(error)
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) went away. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except (Exception, SystemExit) as error:  # a part that exits as it is opened says nothing of the command
        # click put another in its place, or rich exits, since the reader went away
        if sys.stdout is not output or isinstance(error.__context__, BrokenPipeError):
            return ExitCode.OK
        if show_traceback:
            click.echo(redact("".join(traceback.format_exception(error))), err=True)
        with suppress(BrokenPipeError, SystemExit):  # whoever read the message has gone; the code stays
            tell(error)
        return exit_for(error)


@contextmanager
def _warnings_told() -> Iterator[None]:
    """A pipeline that checks itself is told of on stderr, in a line as errors are; of one that is built twice, once."""
    messages = set[str]()

    def tell_once(message: str) -> None:
        if message not in messages:
            messages.add(message)
            click.echo(f"warning: {_printable(message)}", err=True)

    before = self_verification_told.set(tell_once)
    try:
        yield
    finally:
        self_verification_told.reset(before)


def _tell_usage(error: click.ClickException) -> None:
    """Write what click says to stderr, on a terminal wrapped between words."""
    from rich.console import Console
    from rich.text import Text

    message = io.StringIO()
    error.show(message)
    Console(stderr=True, soft_wrap=not sys.stderr.isatty()).print(Text(message.getvalue().rstrip()))


def tell(error: BaseException) -> None:
    """Write an error to stderr, on one screen and without a traceback."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=not sys.stderr.isatty(), highlight=False)
    if not isinstance(error, DraftVerifyError):
        message = _printable(f"{type(error).__name__}: {error}")
        console.print(Text.assemble(("unexpected error: ", "bold red"), message))
        console.print(
            "This is a defect of draftverify or of a plugin. The same command with --traceback shows where."
        )
        return
    errors = getattr(error, "errors", (error,))
    if len(errors) > 1:
        console.print(Text(f"{len(errors)} errors", "bold red"))
    for cause in errors[:ERRORS_SHOWN]:
        place = "  ".join(filter(None, (getattr(cause, "where", ""), getattr(cause, "path", ""))))
        if place:
            message = _printable(getattr(cause, "message", str(cause)))
            console.print(Text.assemble(("error: ", "bold red"), (_printable(place), "bold")))
            console.print(Text("  " + message.replace("\n", "\n  ")))
        else:
            console.print(Text.assemble(("error: ", "bold red"), _printable(str(cause))))
    if len(errors) > ERRORS_SHOWN:
        console.print(f"… and {len(errors) - ERRORS_SHOWN} more")


def _printable(text: str) -> str:
    """What a hostile file made us say, without secrets and control characters, and no longer than a screen."""
    text = redact(text)
    text = text if len(text) <= CHARACTERS_SHOWN else text[:CHARACTERS_SHOWN] + "…"
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
