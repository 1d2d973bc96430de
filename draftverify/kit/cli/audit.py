"""`draftverify audit`: `lossless CONFIG`, whether output is the verifier's own; `judge` and `verifier` beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from draftverify.bench.cli.exits import Exit
from draftverify.kit.cli.audit_judge import judge
from draftverify.kit.cli.audit_verifier import verifier

if TYPE_CHECKING:
    from rich.console import RenderableType

    from draftverify.kit.audit.report import Draws, Enumeration, PipelineReport, Report, Text

__all__ = ["audit"]

SHOWN = 6
"""Findings and divergences that the terminal names of each pipeline; --json has all."""


class _Audits(click.Group):
    """Says what comes before a config that stands where the kind of audit should."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            ways = " or ".join(f"draftverify audit {name} {args[0]}" for name in sorted(self.commands))
            raise click.UsageError(f"No such command {args[0]!r}. Write {ways}.", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Audits)
def audit() -> None:
    """Show whether a pipeline does what it promises, and what the word of a judge or a verifier is worth."""


audit.add_command(judge)
audit.add_command(verifier)


@audit.command(short_help="Say whether output is the verifier's own.")
@click.argument("config", type=click.Path())
@click.option("--pipeline", "names", multiple=True, metavar="NAME", help="Only this pipeline; repeatable.")
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=C", help="Override a value of the config; repeatable."
)
@click.option("--limit", type=click.IntRange(min=0), help="At most so many tasks of each group.")
@click.option(
    "--prefixes", type=click.IntRange(min=1), default=20, show_default=True, help="Recorded rounds."
)
@click.option(
    "--draws", type=click.IntRange(min=100), default=4096, show_default=True, help="Rounds played at each."
)
@click.option(
    "--redraws",
    type=click.IntRange(min=2),
    default=64,
    show_default=True,
    help="Proposals that the generator makes anew at each.",
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON, all of it.")
def lossless(
    config: str,
    names: tuple[str, ...],
    overrides: tuple[str, ...],
    limit: int | None,
    prefixes: int,
    draws: int,
    redraws: int,
    as_json: bool,
) -> None:
    """Say of each pipeline of CONFIG whose rule claims to be exact whether it is.

    Three parts: the rule enumerated on tiny models, the rule and the generator played at rounds of the config's own
    tasks, and at temperature 0 the text against that of plain steps. Rules that make no claim are reported with their
    drift. Exits with 8 when a claim does not hold.
    """
    import msgspec
    from rich.console import Console

    from draftverify.bench.config.experiment import load_experiment
    from draftverify.bench.runner.build import Builder
    from draftverify.bench.runner.workload import workload
    from draftverify.errors import ConfigError
    from draftverify.kit.audit.lossless import claims_exact
    from draftverify.kit.audit.lossless import lossless as examine
    from draftverify.kit.audit.report import PipelineReport, Report
    from draftverify.plugins import did_you_mean

    experiment = load_experiment(config, overrides=overrides, limit=limit)
    known = [each.name for each in experiment.pipelines]
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no pipeline {name!r} in {config}{did_you_mean(name, known)}")
    builder = Builder()
    specs = [each for each in experiment.pipelines if not names or each.name in names]
    pipelines = [builder.pipeline(each) for each in specs]
    load = workload(msgspec.structs.replace(experiment, calibrate=None), builder)
    reports: list[PipelineReport] = []
    try:
        for pipeline in pipelines:
            click.echo(f"auditing {pipeline.name} …", err=True)
            # The probability of a false alarm is shared out, so that it holds for the command as a whole.
            error = 1e-6 / len(pipelines)
            try:
                report = examine(
                    pipeline,
                    load.tasks(pipeline.name),
                    prefixes=prefixes,
                    copies=draws,
                    redraws=redraws,
                    error=error,
                )
            except ConfigError as wrong:
                path = f"pipelines.{pipeline.name}.{wrong.path}"
                raise ConfigError(wrong.message, where=wrong.where, path=path) from wrong
            except Exception as broken:
                report = PipelineReport(
                    pipeline=pipeline.name,
                    rule=type(pipeline.rule).__name__,
                    exact=claims_exact(pipeline),
                    failures=(f"the audit was cut short by {type(broken).__name__}: {broken}",),
                )
            reports.append(report)
    finally:
        for pipeline in pipelines:
            pipeline.close()
    whole = Report(experiment=experiment.name, pipelines=tuple(reports))
    if as_json:
        click.echo(whole.to_json().decode())
    else:
        console = Console(highlight=False)
        if not console.is_terminal:
            console.width = 200  # a table in a file or a log is not to be folded
        console.print(audit_table(whole))
    if not whole.passed:
        click.get_current_context().exit(Exit.NOT_LOSSLESS)


def audit_table(report: Report) -> RenderableType:
    """The report for a rich console: a table, and under it what was found and left out."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text as Line

    from draftverify.bench.tables.words import clean

    table = Table(title=Line(clean(report.experiment)), title_justify="left", pad_edge=False)
    for heading in (
        "pipeline",
        "rule",
        "claim",
        "verdict",
        "tiny models",
        "recorded prefixes",
        "greedy text",
    ):
        table.add_column(heading)
    lines: list[RenderableType] = []
    for each in report.pipelines:
        color = "bold red" if not each.passed else "green" if each.exact and not each.untested else "yellow"
        verdict = Line(each.verdict, color)
        cells = (_enumerated(each.enumeration), _drawn(each.draws), _decoded(each.text))
        names = (Line(clean(each.pipeline)), Line(clean(each.rule)))
        table.add_row(*names, "exact" if each.exact else "none", verdict, *cells)
        rounding = [d for d in (each.text.divergences if each.text else ()) if d.why.cause == "rounding"]
        looks = (("tested", each.tested), ("not tested", each.untested)) if each.exact else ()
        remarks = [
            *(("", f"{word}: {'; '.join(what)}") for word, what in looks if what),
            *(("red", found) for found in each.found),
            *(("dim", f"task {d.task}: {d.why.text}") for d in rounding),
            *(("dim", note) for note in each.notes),
        ]
        lines += [Line(f"{each.pipeline}: {clean(text)}", style) for style, text in remarks[:SHOWN]]
        if len(remarks) > SHOWN:
            lines.append(Line(f"{each.pipeline}: … and {len(remarks) - SHOWN} more; see --json"))
    return Group(table, *lines)


def _enumerated(part: Enumeration | None) -> str:
    if part is None:
        return "–"
    if part.failures:
        return f"{len(part.failures)} of {part.cases} cases differ"
    sizes = ", ".join(map(str, part.blocks))
    return f"{part.cases} cases, {part.paths} paths, blocks {sizes}: within {part.worst:.0e}"


def _drawn(part: Draws | None) -> str:
    if part is None:
        return "–"
    if part.failures:
        return f"{len(part.failures)} findings at {part.prefixes} prefixes"
    if part.detects is None or part.detects_together is None:
        return f"{part.prefixes} prefixes; the generator draws from its q" if part.redrawn else "–"
    return (
        f"{part.prefixes} × {part.copies} draws agree with p (error {part.error:.0e}; sees TV {part.detects:.3f}, "
        f"{part.detects_together:.3f} over all)"
    )


def _decoded(part: Text | None) -> str:
    if part is None:
        return "–"
    words = [f"{part.same} of {part.tasks} equal"]
    rounding = len(part.divergences) - len(part.failures)
    words += [f"{rounding} part by rounding"] if rounding else []
    words += [f"{len(part.failures)} wrong"] if part.failures else []
    return ", ".join(words)
