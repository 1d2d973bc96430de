"""`draftverify audit judge CONFIG`: what a judge's word is worth, probe by probe, with intervals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from draftverify.kit.audit.judge_audit import JudgeAudit, Planned
    from draftverify.kit.audit.judge_probes import Figure, Probe

__all__ = ["judge", "judge_table", "probes_table"]


@click.command(short_help="Say what the word of a judge is worth.")
@click.argument("config", type=click.Path())
@click.option(
    "--plan",
    "width",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="WIDTH",
    help="Audit nothing; say how many labels a 95 % interval of this width needs.",
)
@click.option(
    "--out",
    metavar="FILE",
    help="Where the audit is kept; audits/NAME.json beside CONFIG when absent.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="A.B=C", help="Override a value of the config; repeatable."
)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many comparisons.")
@click.option("--json", "as_json", is_flag=True, help="The audit as JSON, all of it.")
def judge(
    config: str,
    width: float | None,
    out: str | None,
    overrides: tuple[str, ...],
    limit: int | None,
    as_json: bool,
) -> None:
    """Ask the judge of CONFIG about labelled pairs of answers, and say what its word is worth.

    CONFIG has a `judge` ({use: llm.pairwise_judge, …}, recorded verdicts, or any verifier that gives scores) and
    `comparisons`: tasks with question, first and second, whose truth are labels. The audit is kept under the judge's
    identity; runs whose config lies beside the directory `audits` find it there.
    """
    import msgspec
    from rich.console import Console

    from draftverify.bench.artifact import write_artifact
    from draftverify.kit.audit.judging import audit_of, load_judge_audit, plan_of

    spec = load_judge_audit(config, overrides=overrides, limit=limit)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a table in a file or a log is not to be folded
    if width is not None:
        planned = plan_of(spec, width)
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(planned)).decode())
        else:
            console.print(plan_table(planned, width))
        return
    found = audit_of(spec, lambda asked: click.echo(f"asked {asked} times …", err=True))
    name = re.sub(r"[^\w.-]+", "-", Path(config).stem)
    path = Path(out) if out is not None else _place(Path(config).parent / "audits", name, found.judge)
    # Shown before it is written: what was paid for is not lost with a file that cannot be.
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        console.print(judge_table(found))
    write_artifact(path, found)
    if not as_json:
        click.echo(f"wrote {path}")


def _place(directory: Path, name: str, judge: str) -> Path:
    """The file of this name, or where another judge's audit lies there one that names the judge too."""
    from draftverify.errors import ConfigError
    from draftverify.kit.audit.judge_audit import load_audit

    path = directory / f"{name}.json"
    try:
        taken = path.exists() and load_audit(path).judge != judge
    except ConfigError:
        taken = True
    return directory / f"{name}-{judge[:8]}.json" if taken else path


def judge_table(audit: JudgeAudit) -> RenderableType:
    """The audit for a rich console: a line for each figure, and what was not tested."""
    from rich.console import Group
    from rich.text import Text

    from draftverify.bench.tables.words import clean

    head = f"{audit.name} ({audit.judge}): {audit.comparisons} comparisons of {audit.questions} questions, "
    head += f"{audit.labelled} with a label; {audit.asked} judgements in {audit.seconds:.1f} s"
    return Group(Text(clean(head)), probes_table("probe", audit.probes))


def probes_table(of: str, probes: Sequence[Probe]) -> Table:
    """A line for each figure, and what was not tested.

    Args:
        of: what the first column names.
        probes: with their figures.
    """
    from rich.table import Table
    from rich.text import Text

    from draftverify.bench.tables.words import clean

    table = Table(box=None, pad_edge=False)
    for heading, justify in (
        (of, "left"),
        ("figure", "left"),
        ("", "right"),
        ("[95 %]", "left"),
        ("n", "right"),
        ("reads", "left"),
    ):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for probe in probes:
        for place, each in enumerate(probe.figures):
            cells = (
                clean(probe.name) if place == 0 else "",
                clean(each.name),
                *_cells(each),
                str(each.n),
                each.reads,
            )
            table.add_row(*map(Text, cells))
        if probe.untested:
            table.add_row(
                Text(clean(probe.name)), Text("not tested", "yellow"), "", "", "", Text(clean(probe.untested))
            )
    return table


def _cells(each: Figure) -> tuple[str, str]:
    if each.value is None or each.low is None:
        return "–", ""
    value, low, high = (
        "∞" if at is None else f"{at:.3f}" if at == 0 or abs(at) >= 0.01 else f"{at:.2g}"
        for at in (each.value, each.low, each.high)
    )
    return value, f"[{low}, {high}]"


def plan_table(planned: Sequence[Planned], width: float) -> RenderableType:
    """How many labels, for a rich console."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"labels for a 95 % interval {width:g} wide", title_justify="left", box=None, pad_edge=False
    )
    for heading, justify in (("figure", "left"), ("labels", "right"), ("assuming", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for each in planned:
        table.add_row(*map(Text, (each.figure, str(each.labels), each.assumed)))
    return table
