"""`draftverify audit part NAME`: the conformance kit on one part, told check by check."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from draftverify.bench.cli.exits import ExitCode, exit_with

if TYPE_CHECKING:
    from draftverify.kit.conformance import ConformanceReport
    from draftverify.kit.subject import Role

CHECKED: tuple[Role, ...] = ("generator", "verifier", "rule")
INDENT = " " * 10
WORDS = {
    "passed": ("passed", "green"),
    "failed": ("FAILED", "red"),
    "expected": ("expected", "yellow"),
    "unexercised": ("not run", "yellow"),
    "skipped": ("not run", "yellow"),
}


@click.command(short_help="Hold a part to the contract that all parts keep.")
@click.argument("name")
@click.option(
    "--inputs", "file", type=click.Path(dir_okay=False), help="YAML: arguments, tasks, proposals, …"
)
@click.option("--role", type=click.Choice(CHECKED), help="In which role, where NAME has several.")
def part(name: str, file: str | None, role: Role | None) -> None:
    """Hold the part NAME to the contract that all parts keep.

    NAME is that of an installed part, as after `use:`, or FILE.py:Class. What its constructor needs, and tasks and
    proposals of its domain, stand in the file of --inputs (docs/testing.md). A check that had nothing to look at is
    told as not run, with what would give it something. Exits with 9 when a check fails.
    """
    from draftverify.bench.runner.build import Builder
    from draftverify.errors import ConfigError
    from draftverify.kit.conformance import ConformanceError, check_component
    from draftverify.kit.inputs import load_inputs

    path, colon, class_name = name.rpartition(":")
    use, parts = (f"{Path(path).stem}.{class_name}", [path]) if colon else (name, [])
    if role is None and not parts:
        _ensure_one(name, may_be_local=file is not None)
    try:
        inputs = load_inputs(use, file, role=role, parts=parts)
        assert inputs.part is not None
        component, data = Builder().part(inputs.part), inputs.subject()
    except ConfigError as error:
        if file is not None or not error.path.startswith("arguments"):
            raise
        hint = "its arguments stand in the file of --inputs, under arguments:"
        raise ConfigError(f"{error.message.rstrip('.')}; {hint}", where=name, path=error.path) from error
    try:
        report = check_component(component, role=role, expected_failures=inputs.expected_failures, **data)
    except ConformanceError as error:
        report = error.report
    _print_report(report)
    if report.failed:
        exit_with(ExitCode.NOT_CONFORMING)


def _ensure_one(name: str, *, may_be_local: bool) -> None:
    """Refuse a name that is installed in several roles, or in none.

    Raises:
        click.UsageError: it is.
    """
    from draftverify.plugins import installed, unknown

    roles = [role for role in CHECKED if (role, name) in {(p.role, p.name) for p in installed()}]
    if len(roles) > 1:
        raise click.UsageError(f"{name} is a {' and a '.join(roles)}; say which with --role")
    if roles or may_be_local:
        return
    if name.endswith(".py"):
        raise click.UsageError(f"a part of a file is written {name}:Class, with the name of the class")
    stem, _, class_name = name.partition(".")
    if class_name and Path(f"{stem}.py").is_file():
        form = f"for one of {stem}.py write {stem}.py:{class_name}"
        raise click.UsageError(f"no installed part is named {name!r}; {form}")
    raise click.UsageError(unknown(CHECKED, name))


def _print_report(report: ConformanceReport) -> None:
    from draftverify.bench.tables.words import clean

    width = min(shutil.get_terminal_size().columns, 110)
    click.secho(clean(report.component), bold=True)
    for result in report.results:
        ending, color = WORDS[result.status]
        click.echo(click.style(f"{ending:<10}", color) + result.check)
        remarks = [result.law] if result.status in ("failed", "expected") else []
        remarks += [f"Expected: {result.reason}"] if result.status == "expected" else []
        remarks += [result.message] if result.message else []
        for remark in remarks:
            lines = textwrap.wrap(clean(remark), width, initial_indent=INDENT, subsequent_indent=INDENT)
            click.echo("\n".join(lines))
    counts = Counter(WORDS[result.status][0].lower() for result in report.results)
    endings = dict.fromkeys(ending.lower() for ending, _ in WORDS.values())
    click.echo("\n" + ", ".join(f"{counts[ending]} {ending}" for ending in endings if counts[ending]))
    if report.ended("unexercised"):
        click.echo("What was not run has not been tested; `passed` is what had something to look at.")
