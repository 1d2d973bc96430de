"""A run's tables, for the terminal.

They show, per group and over all, how each pipeline's tasks ended and how many are solved, what was measured, its
acceptance and precision, items per pass, predicted and measured speed-up (losses too), whether its values equal the
baseline's and where they part, and what each policy step cost and brought.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from draftverify.bench.tables.figures import NOT_KNOWN, drafting_words
from draftverify.bench.tables.summary import (
    ALL,
    MeasuredMean,
    PipelineSummary,
    Row,
    Solved,
    Summary,
    SummaryFigure,
    ValueDivergence,
)
from draftverify.bench.tables.words import NAME, clean, cost_words, seconds_words, some_of, words

SHOWN = 10
"""Divergences that the terminal names; the HTML report and summary.json have all."""


def print_tables(console: Console, summary: Summary) -> None:
    """Print the tables: as wide as the console, and lines of words, where it is no terminal, as long as they are."""
    console.print(tables(summary), crop=False)


def tables(summary: Summary) -> RenderableType:
    """The run's tables for a rich console, as wide as it is."""
    headings, rows = cells(summary)
    # Where all tasks are of one kind there is nothing to tell apart.
    keys = 2 if summary.groups != (ALL,) else 1
    main = _Fitted(headings[2 - keys :], [row[2 - keys :] for row in rows], keys, left_columns=keys)
    parts: list[RenderableType] = [Text(clean(summary.name), "bold"), main]
    lines = list(remarks(summary, SHOWN))
    parts += [_Lines([*lines, ""])] if lines else []
    headings, rows = step_cells(summary)
    if rows:
        parts += [Text("policy steps", "bold"), _Fitted(headings, rows, 2, left_columns=3)]
    return Group(*parts)


class _Lines:
    """Lines that a terminal wraps between words, and nothing else does."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.lines:
            yield Text(
                line, no_wrap=not console.is_terminal, overflow="fold" if console.is_terminal else "ignore"
            )


@dataclass(frozen=True)
class _Fitted:
    """A table that is cut into several where the console is narrower: the first columns stand in each of them.

    Args:
        headings, rows: of all columns.
        keys: how many columns say what a row is of. Where the first of several repeats, it is left out.
        left_columns: so many columns stand to the left, the others are figures.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    keys: int
    left_columns: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fitting: list[int] = []
        for column in range(self.keys, len(self.headings)):
            wider = self._table([*fitting, column], options.max_width)
            if (
                fitting
                and console.measure(wider, options=options.update(max_width=9999)).maximum > options.max_width
            ):
                yield from (self._table(fitting, options.max_width), "")
                fitting = []
            fitting.append(column)
        yield from (self._table(fitting, options.max_width), "")

    def _table(self, columns: Sequence[int], width: int) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for column in range(self.keys):
            table.add_column(self.headings[column], overflow="fold")
        for column in columns:
            table.add_column(
                self.headings[column],
                justify="left" if column < self.left_columns else "right",
                overflow="fold",
            )
        previous = None
        for row in self.rows:
            if self.keys > 1 and previous is not None and row[0] != previous:
                table.add_section()
            # A pipeline of a sweep has a long name: what is left must hold a figure.
            keys = [_broken(cell, max(12, (width - 24) // self.keys)) for cell in row[: self.keys]]
            if self.keys > 1 and row[0] == previous:
                keys[0] = ""
            table.add_row(*map(Text, keys), *(Text(_broken(row[column], 28)) for column in columns))
            previous = row[0]
        return table


def _broken(text: str, width: int) -> str:
    """A name or a list of words on as many lines as it needs, broken after @ , / or a space and not within a word."""
    lines = [""]
    for piece in re.findall(r"[^@,/ ]+[@,/ ]*|[@,/ ]+", text):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def cells(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the main table; columns that say nothing in this run are left out."""
    every = [row for pipeline in summary.pipelines for row in pipeline.rows]
    predicted = any(row.predicted is not None for row in every)
    compared = any(row.speedup is not None for row in every)
    retried = any(row.retries.trials for row in every)
    unsolved = not summary.metrics and any(row.if_people_solve is not None for row in every)

    def speedup(row: Row) -> str:
        return (
            "baseline"
            if row.pipeline in (summary.baseline, summary.baselines.get(row.pipeline))
            else _figure(row.speedup)
        )

    measured = list(
        dict.fromkeys((name, _unit(measure)) for row in every for name, measure in row.measures.items())
    )

    columns: list[Column] = [
        ("group", True, lambda row: words(row.group, NAME) or "all"),
        ("pipeline", True, lambda row: row.pipeline),
        ("ended", True, lambda row: _statuses(row.statuses)),
        ("accepted", unsolved, lambda row: _share(row.accepted, row.if_people_solve, row)),
        *(
            column
            for place, name in enumerate(summary.metrics)
            for column in _metric_columns(name, place == 0, every)
        ),
        *((f"{name}{unit}", True, _measure_cell(name)) for name, unit in measured),
        ("acceptance", True, lambda row: _figure(row.acceptance, percent=True)),
        ("later tries", retried, lambda row: _figure(row.retries, percent=True)),
        ("pass@1", any(row.samples and row.samples.pass_1 for row in every), _passed),
        ("pass@k", any(row.samples and row.samples.k > 1 for row in every), _passed_at_k),
        ("samples", any(row.samples for row in every), _drawn),
        ("checks failed", any(_failed(row) != "–" for row in every), _failed),
        ("items/pass", True, lambda row: "–" if row.per_pass.value is None else f"{row.per_pass.value:.2f}"),
        ("time/item", True, lambda row: "–" if row.per_item is None else seconds_words(row.per_item)),
        ("time/task", True, lambda row: seconds_words(row.seconds / row.tasks) if row.tasks else "–"),
        ("predicted ×", predicted, lambda row: _figure(row.predicted)),
        ("measured ×", compared, speedup),
        ("cost", any(row.cost for row in every), lambda row: f"{row.cost:.4g}"),
    ]
    kept_columns = [(in_currency(heading, summary), cell) for heading, says, cell in columns if says]
    places = range(max((len(pipeline.rows) for pipeline in summary.pipelines), default=0))
    rows = [
        [cell(pipeline.rows[place]) for _, cell in kept_columns]
        for place in places
        for pipeline in summary.pipelines
    ]
    return [heading for heading, _ in kept_columns], rows


def in_currency(heading: str, summary: Summary) -> str:
    """A heading; of a column of costs with the experiment's currency, where it names one."""
    costly = summary.currency and heading.split("/")[0] == "cost"
    return f"{heading} ({summary.currency})" if costly else heading


Column: TypeAlias = tuple[str, bool, Callable[[Row], str]]
"""A heading, whether the column says anything in this run, and a row's cell."""


def _metric_columns(name: str, is_first: bool, rows: Sequence[Row]) -> Iterator[Column]:
    """The share that a metric calls solved; of the first one its precision and what a solved task costs too."""

    def cell(write: Callable[[Solved], str]) -> Callable[[Row], str]:
        return lambda row: write(row.solved[name])

    def rate(row: Row) -> str:
        return _share(row.solved[name].rate, row.solved[name].if_people_solve, row)

    def cost(figure: SummaryFigure | None, write: Callable[[float], str]) -> str:
        return "–" if figure is None or figure.value is None else write(figure.value)

    if not is_first:
        yield name, True, rate
        return
    costly = any(row.solved[name].cost is not None for row in rows)
    yield f"solved ({name})", True, rate
    yield "precision", True, cell(lambda solved: _figure(solved.precision, percent=True))
    yield "time/solved", True, cell(lambda solved: cost(solved.seconds, seconds_words))
    yield "cost/solved", costly, cell(lambda solved: cost(solved.cost, "{:.3g}".format))


def _unit(measured: MeasuredMean) -> str:
    """What follows a measure's name in a heading."""
    in_cells = measured.unit in ("", "s")  # a time has its unit with it
    parts = [] if in_cells else [clean(measured.unit)]
    parts += ["geometric mean"] if measured.mean == "geometric" else []
    return f" ({', '.join(parts)})" if parts else ""


def _measure_cell(name: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        measured = row.measures.get(name)
        if measured is None or measured.figure.value is None:
            return "–"
        value, low, high = measured.figure.value, measured.figure.low, measured.figure.high
        write = seconds_words if measured.unit == "s" else "{:.3g}".format
        if low is None or high is None or not measured.figure.known or measured.figure.clusters < 2:
            return write(value)
        return f"{write(value)} [{write(low)}, {write(high)}]"

    return cell


def _statuses(statuses: Any) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "–"


def _failed(row: Row) -> str:
    """Checks that came to no word, which no rate counts, and calls that failed whole."""
    counts = ((row.tally.errors, "error"), (row.tally.timeouts, "timeout"), (row.broken, "call"))
    return ", ".join(f"{count} {noun}" + "s" * (count > 1) for count, noun in counts if count) or "–"


def _share(figure: SummaryFigure, if_people_solve: SummaryFigure | None, row: Row) -> str:
    """A share of tasks; where some wait for a person, what it would be if people solved them all."""
    share = _figure(figure, percent=True)
    if if_people_solve is None or if_people_solve.value is None:
        return share
    waiting = row.statuses["waiting"]
    return f"{share} ({100 * if_people_solve.value:.0f}% if people solve the {waiting} that wait{'s' * (waiting == 1)})"


def _passed(row: Row) -> str:
    return _figure(None if row.samples is None else row.samples.pass_1, percent=True)


def _passed_at_k(row: Row) -> str:
    """pass@k with its k, which each pipeline and group has of its own."""
    if row.samples is None or row.samples.k < 2:
        return "–"
    return f"@{row.samples.k} {_figure(row.samples.pass_k, percent=True)}"


def _drawn(row: Row) -> str:
    """Samples of a task, on average."""
    return "–" if row.samples is None or row.samples.drawn.value is None else f"{row.samples.drawn.value:.3g}"


def _figure(figure: SummaryFigure | None, *, percent: bool = False) -> str:
    if figure is None or figure.value is None:
        return "–"

    if not figure.known:
        return NOT_KNOWN

    def one(value: float | None) -> str:
        if value is None:
            return "∞"
        return f"{100 * value:.0f}%" if percent else f"{value:.2f}"

    return f"{one(figure.value)} [{one(figure.low)}, {one(figure.high)}]"


def remarks(summary: Summary, limit: int | None) -> Iterator[str]:
    """What stands below the tables, of each pipeline at most so many divergences."""
    for pipeline in summary.pipelines:
        if pipeline.marks:
            yield f"{pipeline.name}: {clean(', '.join(pipeline.marks))}"
        if pipeline.monitor:
            yield f"{pipeline.name}: monitor: {'; '.join(map(str, pipeline.monitor))}"
        if pipeline.failure is not None:
            yield f"{pipeline.name}: the first failure: {words(pipeline.failure, 600)}"
        if pipeline.unjudged:
            yield f"{pipeline.name}: tasks of which nothing was judged, since every check failed: {pipeline.unjudged}"
        if pipeline.problem is not None:
            row = pipeline.rows[-1]
            failed = sum(solved.failed for solved in row.solved.values())
            failed += sum(measured.failed for measured in row.measures.values())
            yield f"{pipeline.name}: a metric failed {failed} times, first: {words(pipeline.problem, 600)}"
        if pipeline.judging:
            judging = cost_words(pipeline.judging, summary.currency)
            yield f"{pipeline.name}: its metrics, apart from its own cost: {judging}"
        weakened = pipeline.rows[-1].tally.weakened()
        if weakened:
            yield f"{pipeline.name}: {words(weakened, 400)}"
        yield from _samples(pipeline, limit)
        yield from _left_out(pipeline)
        yield from _identical(pipeline, limit)
    if summary.coverage is not None and summary.coverage.value is not None:
        hits = round(summary.coverage.value * summary.coverage.trials)
        yield f"predicted intervals that hold the measured figure: {hits} of {summary.coverage.trials}"
    for pipeline in summary.pipelines:
        if pipeline.block is not None:
            why = pipeline.block.get("why") if isinstance(pipeline.block, dict) else None
            yield f"{pipeline.name}: block size: {words(why if why is not None else pipeline.block)}"
        if pipeline.drafting is not None:
            yield f"{pipeline.name}: {drafting_words(pipeline.drafting)}"


def _samples(pipeline: PipelineSummary, limit: int | None) -> Iterator[str]:
    """Which tasks are in no pass@k, and why one is not shown."""
    samples = pipeline.rows[-1].samples
    if samples is None:
        return
    if samples.left_out:
        tasks_of: dict[str, list[str]] = {}
        for task, why in samples.left_out.items():
            tasks_of.setdefault(words(why, 120), []).append(task)
        reasons = [f"{some_of(tasks)}: {why}" for why, tasks in tasks_of.items()]
        more = [] if limit is None or len(reasons) <= limit else ["others in summary.json"]
        yield f"{pipeline.name}: in no pass@k are {'; '.join([*reasons[:limit], *more])}"
    if samples.biased:
        which = " and ".join(
            name
            for name, rate in (("pass@1", samples.pass_1), (f"pass@{samples.k}", samples.pass_k))
            if rate is None
        )
        yield f"{pipeline.name}: no {which}: {words(samples.biased, 300)}"


def _left_out(pipeline: PipelineSummary) -> Iterator[str]:
    unpaired = pipeline.rows[-1].unpaired
    if unpaired is None:
        return
    counts = (
        (unpaired.own, "it did not finish"),
        (unpaired.baseline, "the baseline did not finish"),
        (unpaired.both, "neither of them finished"),
    )
    phrases = [f"{count} that {reason}" for count, reason in counts if count]
    if phrases:
        yield f"{pipeline.name}: tasks that are in no speed-up: {', '.join(phrases)}"


def _identical(pipeline: PipelineSummary, limit: int | None) -> Iterator[str]:
    identity = pipeline.identical
    if identity is None:
        return
    yield f"{pipeline.name}: identical: {identity.same} of {identity.of}"
    # Without a reason there is nothing to tell but the count: answers of rules that are not exact simply differ.
    explained = [divergence for divergence in identity.divergences if divergence.why]
    for divergence in explained[:limit]:
        yield "  " + _parted(divergence)
    if limit is not None and len(explained) > limit:
        yield f"  … and {len(explained) - limit} more in summary.json"


def _parted(divergence: ValueDivergence) -> str:
    where = "" if divergence.position is None else f", position {divergence.position}"
    why = words(divergence.why, 600)
    if divergence.position is not None or divergence.expected != divergence.got:
        parted = f"expected {words(divergence.expected, 80)}, got {words(divergence.got, 80)}"
        why = f"{parted} ({why})" if why else parted
    return f"task {words(divergence.task, NAME)}{where}: {why}"


def step_cells(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the table of policy steps; without costs where there were none."""
    costly = any(row.cost for pipeline in summary.pipelines for row in pipeline.steps)
    headings = ["pipeline", "step", "on", "taken", "tasks", "time", "progress", "accepted"]
    rows = [
        [
            pipeline.name,
            f"{row.clause + 1}. {row.do}",
            ", ".join(f"{trouble} {count}" for trouble, count in sorted(row.on.items())),
            str(row.taken),
            str(row.tasks),
            seconds_words(row.seconds),
            *([f"{row.cost:.4g}"] if costly else []),
            str(row.progress),
            str(row.accepted),
        ]
        for pipeline in summary.pipelines
        for row in pipeline.steps
    ]
    return headings[:6] + [in_currency("cost", summary)] * costly + headings[6:], rows
