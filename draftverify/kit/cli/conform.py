"""`draftverify conform`: the conformance kit on one part, told check by check."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from draftverify.bench.cli.exits import Exit

if TYPE_CHECKING:
    from draftverify.kit.conformance import Report
    from draftverify.kit.subject import Role

__all__ = ["conform"]

CHECKED: tuple[Role, ...] = ("generator", "verifier", "rule")
INDENT = " " * 10
WORDS = {
    "passed": ("passed", "green"),
    "failed": ("FAILED", "red"),
    "expected": ("expected", "yellow"),
    "unexercised": ("not run", "yellow"),
    "skipped": ("not run", "yellow"),
}
COUNTED = ("passed", "failed", "expected", "not run")


@click.command()
@click.argument("name")
@click.option(
    "--inputs", "file", type=click.Path(dir_okay=False), help="A YAML file of arguments, tasks, proposals, …"
)
@click.option("--role", type=click.Choice(CHECKED), help="In which role, where NAME has several.")
def conform(name: str, file: str | None, role: Role | None) -> None:
    """Hold the part NAME to the contract that all parts keep.

    NAME is that of an installed part, as after `use:`, or FILE.py:Class. What its constructor needs, and tasks and
    proposals of its domain, stand in the file of --inputs (docs/testing.md). A check that had nothing to look at is
    told as not run, with what would give it something. Exits with 9 when a check fails.
    """
    from draftverify.bench.runner.build import Builder
    from draftverify.errors import ConfigError
    from draftverify.kit.conformance import ConformanceError, check_component
    from draftverify.kit.inputs import load_inputs

    path, colon, own = name.rpartition(":")
    use, parts = (f"{Path(path).stem}.{own}", [path]) if colon else (name, [])
    if role is None and not parts:
        _ensure_one(name, may_be_local=file is not None)
    try:
        inputs = load_inputs(use, file, role=role, parts=parts)
        assert inputs.part is not None
        part, how = Builder().part(inputs.part), inputs.subject()
    except ConfigError as error:
        if file is not None or not error.path.startswith("arguments"):
            raise
        hint = "its arguments stand in the file of --inputs, under arguments:"
        raise ConfigError(f"{error.message.rstrip('.')}; {hint}", where=name, path=error.path) from error
    try:
        report = check_component(part, role=role, expected_failures=inputs.expected_failures, **how)
    except ConformanceError as error:
        report = error.report
    _tell(report)
    if report.failed:
        click.get_current_context().exit(Exit.NOT_CONFORMING)


def _ensure_one(name: str, *, may_be_local: bool) -> None:
    """Refuse a name that is installed in several roles, or in none.

    Raises:
        click.UsageError: it is.
    """
    from draftverify.plugins import installed, unknown

    named = {plugin.role for plugin in installed() if plugin.name == name}
    roles = [role for role in CHECKED if role in named]
    if len(roles) > 1:
        raise click.UsageError(f"{name} is a {' and a '.join(roles)}; say which with --role")
    if roles or may_be_local:
        return
    if name.endswith(".py"):
        raise click.UsageError(f"a part of a file is written {name}:Class, with the name of the class")
    stem, _, own = name.partition(".")
    if own and Path(f"{stem}.py").is_file():
        raise click.UsageError(
            f"no installed part is named {name!r}; for one of {stem}.py write {stem}.py:{own}"
        )
    raise click.UsageError(unknown(CHECKED, name))


def _tell(report: Report) -> None:
    from draftverify.bench.tables.words import clean

    width = min(shutil.get_terminal_size().columns, 110)

    def told(text: str) -> None:
        lines = textwrap.wrap(clean(text), width, initial_indent=INDENT, subsequent_indent=INDENT)
        click.echo("\n".join(lines))

    click.secho(clean(report.component), bold=True)
    for result in report.results:
        word, color = WORDS[result.status]
        click.echo(click.style(f"{word:<10}", color) + result.check)
        if result.status in ("failed", "expected"):
            told(result.law)
        if result.status == "expected":
            told(f"Expected: {result.reason}")
        if result.message:
            told(result.message)
    found = Counter(WORDS[result.status][0].lower() for result in report.results)
    click.echo("\n" + ", ".join(f"{found[word]} {word}" for word in COUNTED if found[word]))
    if report.ended("unexercised"):
        click.echo("What was not run has not been tested; `passed` is what had something to look at.")
