"""`draftverify audit judge CONFIG`: what a judge's word is worth, probe by probe, with intervals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.screen import new_table, print_json, wide_console
from draftverify.bench.tables.words import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from draftverify.kit.audit.judge_audit import JudgeAudit
    from draftverify.kit.audit.judge_probes import Probe, ProbeFigure


@click.command(short_help="Say what the word of a judge is worth.")
@options.config_file
@click.option(
    "--plan", type=options.SHARE, metavar="WIDTH", help="Say how many labels such a 95 % interval needs."
)
@options.out("FILE", "Where the audit is kept; audits/NAME.json beside CONFIG when absent.")
@options.overrides
@options.limit
@options.as_json
def judge(
    config: str,
    plan: float | None,
    out: str | None,
    overrides: tuple[str, ...],
    limit: int | None,
    as_json: bool,
) -> None:
    """Ask the judge of CONFIG about labelled pairs of answers, and say what its word is worth.

    CONFIG has a `judge` ({use: llm.pairwise_judge, …}, recorded verdicts, or any verifier that gives scores) and
    `comparisons`: tasks with question, first and second, whose `expected` are labels. The audit is kept under the
    judge's identity; runs whose config lies beside the directory `audits` find it there.
    """

    from draftverify.bench.artifact import write_artifact
    from draftverify.bench.config.experiment import load_form
    from draftverify.kit.audit.judge_audit import audit_judge, plan_labels
    from draftverify.kit.audit.judging import AUDIT, opened

    spec = load_form(AUDIT, config, overrides=overrides, limit=limit)
    if plan is not None:
        with opened(spec) as (judge, comparisons):
            figures = plan_labels(plan, comparisons, judge)
        if as_json:
            print_json(figures)
            return
        title = f"labels for a 95 % interval {plan:g} wide"
        table = new_table("figure", ">labels", "assuming", title=title, title_justify="left")
        for figure in figures:
            table.add_row(*map(Text, (figure.figure, str(figure.labels), figure.assumed)))
        wide_console().print(table)
        return

    def report(count: int) -> None:
        click.echo(f"asked {count} times …", err=True)

    with opened(spec) as (judge, comparisons):
        audit = audit_judge(judge, comparisons, probes=spec.probes, watcher=report)
    name = re.sub(r"[^\w.-]+", "-", Path(config).stem)
    path = (
        Path(out) if out is not None else _place(Path(config).parent / "audits", name, audit.judge.identity)
    )
    # Shown before it is written: what was paid for is not lost with a file that cannot be.
    if as_json:
        print_json(audit)
    else:
        _print_audit(audit)
    write_artifact(path, audit)
    if not as_json:
        click.echo(f"wrote {path}")


def _place(directory: Path, name: str, judge: str) -> Path:
    """The file of this name, or where another judge's audit lies there one that names the judge too."""
    from draftverify.errors import ConfigError
    from draftverify.kit.audit.judge_audit import load_audit

    path = directory / f"{name}.json"
    try:
        is_taken = path.exists() and load_audit(path).judge.identity != judge
    except ConfigError:
        is_taken = True
    return directory / f"{name}-{judge[:8]}.json" if is_taken else path


def _print_audit(audit: JudgeAudit) -> None:
    """Print a line for each figure, and what was not tested."""
    judge, questions = audit.judge, f"{audit.comparisons} comparisons of {audit.questions} questions"
    head = f"{judge.name} ({judge.identity}): {questions}, {audit.labelled} with a label; "
    head += f"{audit.asked} judgements in {audit.seconds:.1f} s"
    wide_console().print(Text(clean(head)), probes_table("probe", audit.probes), sep="\n")


def probes_table(of: str, probes: Sequence[Probe]) -> Table:
    """A table with a line for each figure, and what was not tested.

    Args:
        of: what the first column names.
        probes: with their figures.
    """

    table = new_table(of, "figure", ">", "[95 %]", ">n", "reads")
    for probe in probes:
        name = clean(probe.name)
        for figure in probe.figures:
            cells = (name, clean(figure.name), *_cells(figure), str(figure.n), figure.reads)
            table.add_row(*map(Text, cells))
            name = ""
        if probe.untested:
            untested = (Text("not tested", "yellow"), "", "", "", Text(clean(probe.untested)))
            table.add_row(Text(clean(probe.name)), *untested)
    return table


def _cells(figure: ProbeFigure) -> tuple[str, str]:
    if figure.value is None or figure.low is None:
        return "–", ""
    value, low, high = (
        "∞" if number is None else f"{number:.3f}" if number == 0 or abs(number) >= 0.01 else f"{number:.2g}"
        for number in (figure.value, figure.low, figure.high)
    )
    return value, f"[{low}, {high}]"
