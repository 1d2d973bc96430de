"""`draftverify compare RUN RUN…`: what differs between runs or pipelines, task by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from textwrap import wrap

import click
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.exits import ExitCode, exit_with
from draftverify.bench.cli.screen import print_json, print_lines
from draftverify.bench.records.directory import load_run
from draftverify.bench.tables.compare import Cell, RunComparison, parse_side
from draftverify.bench.tables.compare import compare as compared
from draftverify.bench.tables.compared import (
    CellWords,
    cell_words,
    compared_how,
    explained,
    side_notes,
    unpaired,
)
from draftverify.bench.tables.words import NAME, clean, words

COLUMNS = 80
"""The width that every table keeps to, on a wider terminal too."""

_STYLES = {
    "better": "green",
    "worse": "red",
    "higher": "cyan",
    "lower": "cyan",
    "config": "dim",
    "warning": "yellow",
}


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN[:PIPELINE]…")
@options.repeated("--on", "only", "OUTCOME", "This alone (solved, accepted, …)")
@click.option("--tasks", is_flag=True, help="List the tasks that changed, and those that are no pair.")
@options.as_json
@click.option("--fail-on-worse", is_flag=True, help=f"Exit with {ExitCode.WORSE} when something is worse.")
@options.store
def compare(
    runs: tuple[str, ...],
    only: tuple[str, ...],
    tasks: bool,
    as_json: bool,
    fail_on_worse: bool,
    store: str | None,
) -> None:
    """Compare the pipelines of runs, paired by task; the first RUN is what the others are compared with.

    One RUN: its pipelines with its baseline. Several: pipelines of one name, or those named as RUN:PIPELINE.
    """
    console = Console(highlight=False)
    width = min(console.width, COLUMNS) if console.is_terminal else COLUMNS
    with ExitStack() as opened:
        sides = []
        for text in runs:
            path, pipeline = parse_side(text)
            sides.append((opened.enter_context(load_run(path, url=store)), pipeline))
        comparison = compared(sides, only=only)
    if as_json:
        print_json(comparison.plain())
    else:
        print_lines(console, lines(comparison, tasks=tasks, width=width))
    if fail_on_worse and comparison.worse:
        exit_with(ExitCode.WORSE)


def lines(comparison: RunComparison, *, tasks: bool = False, width: int = COLUMNS) -> Iterator[Text]:
    """A comparison for a console of so many columns."""
    pairings = {pairing.other: pairing for pairing in comparison.pairings}
    for side in comparison.sides:
        yield Text.assemble((f"{side.label}  ", "bold"), clean(f"{side.run}:{side.pipeline}"))
        for note, kind in side_notes(side, pairings.get(side.label)):
            lines_of_note = wrap(note, max(20, width - 4), break_on_hyphens=False)
            yield from (Text(f"   {line}", style=_STYLES.get(kind, "")) for line in lines_of_note)
    for name in comparison.alone:
        yield Text(f"   {clean(name)} has no counterpart, and is not compared")
    for outcome in dict.fromkeys(cell.outcome for cell in comparison.cells):
        cells = [cell for cell in comparison.cells if cell.outcome == outcome]
        yield Text()
        how = "; ".join(dict.fromkeys(map(compared_how, cells)))
        yield Text.assemble((clean(outcome), "bold"), (f"  {how}", "dim"))
        yield from _rows(cells, width)
    yield Text()
    for sentences in explained(comparison):
        yield from map(Text, wrap(sentences, width))
    if tasks:
        yield from _listed(comparison)


def _rows(cells: Sequence[Cell], width: int) -> Iterator[Text]:
    """A heading and a line a cell, in columns; what is said stands below its line where the width holds not both."""
    heading = CellWords("", "pairs", "from → to", "difference [95 %]", "p", "", "")
    rows = [heading, *map(cell_words, cells)]
    widest = max(len(row.verdict) for row in rows)
    gap, least = "  ", (4, 5, 14, 20, 5)
    if sum(_widths(rows, least)) + 5 * len(gap) + widest > width:
        gap, least = " ", (0, 0, 0, 0, 0)
    widths = _widths(rows, least)
    is_below = sum(widths) + 5 * len(gap) + widest > width
    indent = " " * (widths[0] + len(gap))
    for row, cell in zip(rows, [None, *cells], strict=True):
        aligned = [text.ljust(size) for text, size in zip(row[:5], widths, strict=True)]
        aligned[1] = row.pairs.rjust(widths[1])
        line, style = gap.join(aligned), _STYLES.get(cell.said, "") if cell is not None else ""
        if is_below or not row.verdict:
            yield Text(line.rstrip())
        if row.verdict:
            yield Text.assemble(indent if is_below else line + gap, (row.verdict, style))
        if row.if_people_solve:
            yield Text.assemble(indent, (row.if_people_solve, "dim"))


def _widths(rows: Sequence[CellWords], least: Sequence[int]) -> list[int]:
    columns = zip(least, zip(*(row[:5] for row in rows), strict=True), strict=True)
    return [max(width, *map(len, column)) for width, column in columns]


def _listed(comparison: RunComparison) -> Iterator[Text]:
    """Tasks that changed, those that got worse first, and tasks that are no pair."""
    for cell in comparison.cells:
        for sign, direction in ((-1, "lower"), (1, "higher")):
            changed = [flip for flip in cell.flips if (flip.other - flip.base) * sign > 0]
            if changed:
                kind = f"{clean(cell.outcome)}, {direction} in {cell.other} than in {cell.base}"
                yield Text(f"\n{kind}: {len(changed)}", style="bold")
            for flip in changed:
                is_share = {flip.base, flip.other} == {0.0, 1.0}
                values = "" if is_share else f"  {flip.base:.3g} → {flip.other:.3g}"
                yield Text(f"   {words(flip.task, NAME)}{values}")
    for pairing in comparison.pairings:
        for tasks, kind in unpaired(pairing):
            if tasks:
                yield Text(f"\n{kind}: {len(tasks)}", style="bold")
                yield from (Text(f"   {words(task, NAME)}") for task in tasks)
