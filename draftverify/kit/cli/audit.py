"""`draftverify audit`: `lossless CONFIG`, whether output is the verifier's own; `judge`, `verifier`, `part` beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text as Line

from draftverify.bench.cli import options
from draftverify.bench.cli.exits import ExitCode, exit_with
from draftverify.bench.cli.screen import new_table, wide_console
from draftverify.bench.tables.words import clean
from draftverify.kit.cli.judge import judge
from draftverify.kit.cli.part import part
from draftverify.kit.cli.verifier import verifier

if TYPE_CHECKING:
    from draftverify.bench.config.specs import Experiment
    from draftverify.engine.pipeline import Pipeline
    from draftverify.kit.audit.report import AuditReport, PipelineReport
    from draftverify.values import Task

SHOWN = 6
"""Findings and divergences that the terminal names of each pipeline; --json has all."""

DRAWS_PER_REDRAW = 64
"""A generator is asked anew as many times less often than the rule is played: its proposal has several items."""


@click.group(cls=options.Kinds)
def audit() -> None:
    """Show whether a pipeline or a part does what it promises, and what the word of a judge or a verifier is worth."""


audit.add_command(judge)
audit.add_command(verifier)
audit.add_command(part)


@audit.command(short_help="Say whether output is the verifier's own.")
@options.experiment
@options.names
@click.option("--prefixes", type=options.COUNT, default=20, help="Recorded rounds.")
@click.option("--draws", type=click.IntRange(min=128), default=4096, help="Rounds played at each.")
@options.as_json
def lossless(
    experiment: Experiment,
    names: tuple[str, ...],
    prefixes: int,
    draws: int,
    as_json: bool,
) -> None:
    """Say of each pipeline of CONFIG whose rule claims to be exact whether it is.

    Three parts: the rule enumerated on tiny models, the rule and the generator played at rounds of the config's own
    tasks, and at temperature 0 the text against that of plain steps. Rules that make no claim are reported with their
    drift. Exits with 8 when a claim does not hold.
    """
    import msgspec

    from draftverify.bench.runner.build import Builder
    from draftverify.bench.runner.workload import workload
    from draftverify.kit.audit.report import AuditReport

    builder = Builder()
    pipelines = [builder.pipeline(spec) for spec in experiment.only(names)]
    load = workload(msgspec.structs.replace(experiment, predict=None), builder)
    # The probability of a false alarm is shared out, so that it holds for the command as a whole.
    how: dict[str, Any] = {"prefixes": prefixes, "copies": draws, "redraws": draws // DRAWS_PER_REDRAW}
    how["error"] = 1e-6 / len(pipelines)
    try:
        reports = tuple(_examined(pipeline, load.tasks(pipeline.name), how) for pipeline in pipelines)
    finally:
        for pipeline in pipelines:
            pipeline.close()
    report = AuditReport(experiment=experiment.name, pipelines=reports)
    if as_json:
        click.echo(report.to_json().decode())
    else:
        _print_report(report)
    if not report.passed:
        exit_with(ExitCode.NOT_LOSSLESS)


def _examined(pipeline: Pipeline, tasks: Sequence[Task], how: Mapping[str, Any]) -> PipelineReport:
    """The audit of a pipeline, also where it was cut short."""
    from draftverify.errors import ConfigError
    from draftverify.kit.audit.lossless import claims_exact
    from draftverify.kit.audit.lossless import lossless as examine
    from draftverify.kit.audit.report import PipelineReport

    click.echo(f"auditing {pipeline.name} …", err=True)
    try:
        return examine(pipeline, tasks, **how)
    except ConfigError as error:
        path = f"pipelines.{pipeline.name}.{error.path}"
        raise ConfigError(error.message, where=error.where, path=path) from error
    except Exception as error:
        return PipelineReport(
            pipeline=pipeline.name,
            rule=type(pipeline.rule).__name__,
            exact=claims_exact(pipeline),
            failures=(f"the audit was cut short by {type(error).__name__}: {error}",),
        )


def _print_report(report: AuditReport) -> None:
    """Print a table of the pipelines, and under it what was found and left out."""

    table = new_table("pipeline", "rule", "claim", "verdict", title=Line(clean(report.experiment)))
    for row in report.pipelines:
        color = "bold red" if not row.passed else "green" if row.exact and not row.untested else "yellow"
        claim, verdict = "exact" if row.exact else "none", Line(row.verdict, color)
        table.add_row(Line(clean(row.pipeline)), Line(clean(row.rule)), claim, verdict)
    console = wide_console()
    console.print(table)
    for row in report.pipelines:
        remarks = list(_remarks(row))
        for style, text in remarks[:SHOWN]:
            console.print(Line(f"{row.pipeline}: {clean(text)}", style))
        if len(remarks) > SHOWN:
            console.print(Line(f"{row.pipeline}: … and {len(remarks) - SHOWN} more; see --json"))


def _remarks(report: PipelineReport) -> Iterator[tuple[str, str]]:
    """The lines on what was tested, found and explained, each with its style."""
    for verdict, looks in (
        ("tested", report.tested),
        ("not tested", report.untested if report.exact else ()),
    ):
        if looks:
            yield "", f"{verdict}: {'; '.join(looks)}"
    yield from (("red", finding) for finding in report.found)
    for divergence in report.text.divergences if report.text else ():
        if divergence.why.cause == "rounding":
            yield "dim", f"task {divergence.task}: {divergence.why.text}"
    yield from (("dim", note) for note in report.notes)
