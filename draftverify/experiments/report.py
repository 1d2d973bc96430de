"""A run's tables, for the terminal and as one HTML file. Model text is hostile in both: it is cleaned and escaped.

Both show the same: per group and over all, how each pipeline's tasks ended and how many are solved, its acceptance and
precision, items per pass, predicted and measured speed-up (losses too), whether its values equal the baseline's and
where they part, and what each policy step cost and brought.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from html import escape
from string import Template
from typing import Any, TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from draftverify.experiments.compare import Divergence, Figure, PipelineSummary, Row, Solved, Summary
from draftverify.secret import redact

__all__ = ["clean", "report_html", "tables", "words"]

SHOWN = 10
"""Divergences that the terminal names; the HTML report and summary.json have all."""

WIDE = 100
"""An interval whose ends differ by more than this factor says only that there are too few tasks."""

_KEPT = "\n\t"
_DANGEROUS = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))


def clean(text: str) -> str:
    """Text without what could steer a terminal: control, format (bidirectional, zero-width) and unpaired characters.

    Each is replaced by the replacement character, so that nothing vanishes unseen; newlines and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in _KEPT or unicodedata.category(char) not in _DANGEROUS else "\ufffd" for char in text
    )


def words(value: Any, limit: int = 200) -> str:
    """A recorded value as clean text on one line; secrets go before it is cut, as half of one is too much of it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = clean(redact(text)).replace("\n", "⏎").replace("\t", " ")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def tables(summary: Summary) -> RenderableType:
    """The run's tables for a rich console."""
    parts: list[RenderableType] = []
    table = Table(title=Text(clean(summary.name)), title_justify="left", pad_edge=False)
    table.add_column("group")
    table.add_column("pipeline")
    headings, rows = _cells(summary)
    for heading in headings[2:]:
        table.add_column(heading, justify="right")
    before = None
    for row in rows:
        if before is not None and row[0] != before:
            table.add_section()
        table.add_row(Text(row[0] if row[0] != before else ""), *(Text(cell) for cell in row[1:]))
        before = row[0]
    parts.append(table)
    parts.extend(Text(line) for line in _remarks(summary, SHOWN))
    steps = list(_step_cells(summary))
    if steps:
        table = Table(title="policy steps", title_justify="left", pad_edge=False)
        for index, heading in enumerate(STEP_HEADINGS):
            table.add_column(heading, justify="left" if index < 3 else "right")
        for cells in steps:
            table.add_row(*(Text(cell) for cell in cells))
        parts.append(table)
    return Group(*parts)


STEP_HEADINGS = ("pipeline", "step", "on", "taken", "tasks", "seconds", "units", "progress", "accepted")


def _cells(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the main table; columns that say nothing in this run are left out."""
    every = [row for pipeline in summary.pipelines for row in pipeline.rows]
    marks = {pipeline.name: clean(", ".join(pipeline.marks)) for pipeline in summary.pipelines}
    predicted = any(row.predicted is not None for row in every)
    compared = any(row.speedup is not None for row in every)
    retried = any(row.retries.trials for row in every)

    def speedup(row: Row) -> str:
        return "baseline" if row.pipeline == summary.baseline else _figure(row.speedup)

    columns: list[Column] = [
        ("group", True, lambda row: clean(row.group) or "all"),
        (
            "pipeline",
            True,
            lambda row: f"{row.pipeline} ({marks[row.pipeline]})" if marks[row.pipeline] else row.pipeline,
        ),
        ("ended", True, lambda row: _statuses(row.statuses)),
        *(
            column
            for place, name in enumerate(summary.metrics)
            for column in _metric_columns(name, place == 0, every)
        ),
        ("acceptance", True, lambda row: _figure(row.acceptance, percent=True)),
        ("later tries", retried, lambda row: _figure(row.retries, percent=True)),
        ("items/pass", True, lambda row: "–" if row.per_pass.value is None else f"{row.per_pass.value:.2f}"),
        ("s/item", True, lambda row: "–" if row.per_item is None else f"{row.per_item:.3g}"),
        ("s/task", True, lambda row: f"{row.seconds / row.tasks:.3g}" if row.tasks else "–"),
        ("predicted ×", predicted, lambda row: _figure(row.predicted)),
        ("measured ×", compared, speedup),
        ("units", any(row.units for row in every), lambda row: f"{row.units:g}"),
    ]
    shown = [(heading, cell) for heading, says, cell in columns if says]
    places = range(max((len(pipeline.rows) for pipeline in summary.pipelines), default=0))
    rows = [
        [cell(pipeline.rows[place]) for _, cell in shown]
        for place in places
        for pipeline in summary.pipelines
    ]
    return [heading for heading, _ in shown], rows


Column: TypeAlias = tuple[str, bool, Callable[[Row], str]]
"""A heading, whether the column says anything in this run, and a row's cell."""


def _metric_columns(name: str, first: bool, rows: Sequence[Row]) -> Iterator[Column]:
    """The share that a metric calls solved; of the first one its precision and what a solved task costs too."""

    def cell(write: Callable[[Solved], str]) -> Callable[[Row], str]:
        return lambda row: write(row.solved[name])

    def cost(figure: Figure | None) -> str:
        return "–" if figure is None or figure.value is None else f"{figure.value:.3g}"

    rate = cell(lambda solved: _figure(solved.rate, percent=True))
    if not first:
        yield name, True, rate
        return
    units = any(row.solved[name].units is not None for row in rows)
    yield f"solved ({name})", True, rate
    yield "precision", True, cell(lambda solved: _figure(solved.precision, percent=True))
    yield "s/solved", True, cell(lambda solved: cost(solved.seconds))
    yield "units/solved", units, cell(lambda solved: cost(solved.units))


def _statuses(statuses: Any) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "–"


def _figure(figure: Figure | None, *, percent: bool = False) -> str:
    if figure is None or figure.value is None:
        return "–"

    if not percent and (not figure.low or figure.high is None or figure.high > WIDE * figure.low):
        return f"{figure.value:.2f} [too few tasks]"

    def one(value: float | None) -> str:
        if value is None:
            return "∞"
        return f"{100 * value:.0f}%" if percent else f"{value:.2f}"

    return f"{one(figure.value)} [{one(figure.low)}, {one(figure.high)}]"


def _remarks(summary: Summary, limit: int | None) -> Iterator[str]:
    """What stands below the tables, of each pipeline at most so many divergences."""
    for pipeline in summary.pipelines:
        if pipeline.failure is not None:
            yield f"{pipeline.name}: the first failure: {clean(pipeline.failure)}"
        if pipeline.problem is not None:
            failed = sum(solved.failed for solved in pipeline.rows[-1].solved.values())
            yield f"{pipeline.name}: a metric failed {failed} times, first: {clean(pipeline.problem)}"
        weakened = pipeline.rows[-1].tally.weakened()
        if weakened:
            yield f"{pipeline.name}: {words(weakened, 400)}"
        yield from _left_out(pipeline)
        yield from _identical(pipeline, limit)
    if summary.coverage is not None and summary.coverage.value is not None:
        hits = round(summary.coverage.value * summary.coverage.trials)
        yield f"predicted intervals that hold the measured figure: {hits} of {summary.coverage.trials}"
    for pipeline in summary.pipelines:
        if pipeline.block is not None:
            why = pipeline.block.get("why") if isinstance(pipeline.block, dict) else None
            yield f"{pipeline.name}: block size: {words(why if why is not None else pipeline.block)}"


def _left_out(pipeline: PipelineSummary) -> Iterator[str]:
    unpaired = pipeline.rows[-1].unpaired
    if unpaired is None:
        return
    counts = ((unpaired.own, "it"), (unpaired.baseline, "the baseline"), (unpaired.both, "either of them"))
    told = [f"{count} that {who} did not finish" for count, who in counts if count]
    if told:
        yield f"{pipeline.name}: tasks that are in no speed-up: {', '.join(told)}"


def _identical(pipeline: PipelineSummary, limit: int | None) -> Iterator[str]:
    found = pipeline.identical
    if found is None:
        return
    yield f"{pipeline.name}: identical: {found.same} of {found.of}"
    # Without a reason there is nothing to tell but the count: answers of rules that are not exact simply differ.
    told = [divergence for divergence in found.divergences if divergence.why]
    for divergence in told[:limit]:
        yield "  " + _parted(divergence)
    if limit is not None and len(told) > limit:
        yield f"  … and {len(told) - limit} more in summary.json"


def _parted(divergence: Divergence) -> str:
    where = "" if divergence.position is None else f", position {divergence.position}"
    parted = f"expected {words(divergence.expected, 80)}, got {words(divergence.got, 80)}"
    why = f" ({clean(divergence.why)})" if divergence.why else ""
    return f"task {clean(divergence.task)}{where}: {parted}{why}"


def _step_cells(summary: Summary) -> Iterator[list[str]]:
    for pipeline in summary.pipelines:
        for row in pipeline.steps:
            yield [
                pipeline.name,
                f"{row.clause + 1}. {row.do}",
                ", ".join(f"{trouble} {count}" for trouble, count in sorted(row.on.items())),
                str(row.taken),
                str(row.tasks),
                f"{row.seconds:.3g}",
                f"{row.units:g}",
                str(row.progress),
                str(row.accepted),
            ]


_PAGE = Template(
    """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left }
tr.all td { font-weight: 600 }
.scroll { overflow-x: auto }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f6f6; padding: .7rem }
</style>
<h1>$title</h1>
<p>$count tasks. Speed-ups are of seconds per $per, against <b>$baseline</b>, paired by task; below 1 is a loss.
Brackets hold 95 % intervals with the task as the unit.</p>
$body
</html>
"""
)


def report_html(summary: Summary) -> str:
    """The run's tables as one HTML page without scripts, links or anything to load."""
    headings, rows = _cells(summary)
    body = [_html_table(headings, rows)]
    lines = list(_remarks(summary, None))
    if lines:
        body.append(f"<pre>{_escape(chr(10).join(lines))}</pre>")
    steps = list(_step_cells(summary))
    if steps:
        body.append("<h2>Policy steps</h2>" + _html_table(STEP_HEADINGS, steps))
    return _PAGE.substitute(
        title=_escape(clean(summary.name)),
        count=summary.tasks,
        per="solved task" if summary.metrics else "task that both finished",
        baseline=_escape(summary.baseline or "nothing"),
        body="\n".join(body),
    )


def _escape(text: str) -> str:
    return escape(redact(text))


def _html_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_escape(heading)}</th>" for heading in headings)
    lines = []
    for row in rows:
        kind = ' class="all"' if row[0] == "all" else ""
        lines.append(f"<tr{kind}>" + "".join(f"<td>{_escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>\n' + "\n".join(lines) + "\n</table></div>"
