"""`draftverify compare RUN RUN…`: what differs between runs or pipelines, task by task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from textwrap import wrap

import click
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli import options
from draftverify.bench.cli.exits import ExitCode, exit_with
from draftverify.bench.cli.screen import print_json
from draftverify.bench.records.directory import load_run
from draftverify.bench.tables.compare import ALPHA, Cell, ComparedSide, Pairing, RunComparison, parse_side
from draftverify.bench.tables.compare import compare as compared
from draftverify.bench.tables.words import NAME, clean, words

__all__ = ["compare", "lines"]

LISTED = 12
"""Differences between two configs that the terminal shows; --json has all."""

COLUMNS = 80
"""The width that every table keeps to."""

_STYLES = {"better": "green", "worse": "red", "higher": "cyan", "lower": "cyan"}


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
    if not console.is_terminal:
        console.width = COLUMNS
    with ExitStack() as opened:
        sides = []
        for text in runs:
            path, pipeline = parse_side(text)
            sides.append((opened.enter_context(load_run(path, url=store)), pipeline))
        comparison = compared(sides, only=only)
    if as_json:
        print_json(comparison.plain())
    else:
        for line in lines(comparison, tasks=tasks):
            console.print(line, soft_wrap=line.no_wrap is True)
    if fail_on_worse and comparison.worse:
        exit_with(ExitCode.WORSE)


def lines(comparison: RunComparison, *, tasks: bool = False) -> Iterator[Text]:
    """A comparison for a rich console of 80 columns or more."""
    pairings = {pairing.other: pairing for pairing in comparison.pairings}
    for side in comparison.sides:
        yield from _legend(side, pairings.get(side.label))
    for name in comparison.alone:
        yield Text(f"   {clean(name)} has no counterpart, and is not compared")
    for outcome in dict.fromkeys(cell.outcome for cell in comparison.cells):
        cells = [cell for cell in comparison.cells if cell.outcome == outcome]
        yield Text()
        yield Text.assemble(
            (clean(outcome), "bold"), (f"  {'; '.join(dict.fromkeys(map(_what, cells)))}", "dim")
        )
        yield from _rows(cells)
    yield Text()
    yield from (Text(line) for line in _explained(comparison))
    if tasks:
        yield from _listed(comparison)


def _legend(side: ComparedSide, pairing: Pairing | None) -> Iterator[Text]:
    """A side, what makes it another than the one it is compared with, and which tasks stand beside each other."""
    yield Text.assemble((f"{side.label}  ", "bold"), clean(f"{side.run}:{side.pipeline}"), no_wrap=True)
    prefix = f"pipelines.{side.pipeline.partition('@')[0]}."
    sets = [f"{clean(path).removeprefix(prefix)}: {words(value, 60)}" for path, value in side.changes.items()]
    if sets:
        yield _indented("; ".join(sets), "dim")
    yield from (_indented(clean(difference), "dim") for difference in side.differs[:LISTED])
    if len(side.differs) > LISTED:
        yield _indented(f"… and {len(side.differs) - LISTED} more in --json", "dim")
    if side.failed:
        yield _indented(f"{side.failed} failed, and count as not accepted (run --retry-errors)", "yellow")
    if side.waiting:
        s = "s" * (side.waiting == 1)
        waiting = f"{side.waiting} wait{s} for a person, and count{s} as not solved"
        yield _indented(f"{waiting} (draftverify view RUN --review)", "yellow")
    if pairing is None:
        return
    missing = ", ".join(f"{len(tasks)} {kind}" for tasks, kind in _unpaired(pairing) if tasks)
    no_pair = f"; no pair: {missing} (--tasks)" if missing else ""
    yield _indented(f"against {pairing.base}: {pairing.pairs} pairs of tasks{no_pair}")
    yield from (_indented(clean(reason), "yellow") for reason in pairing.refused)


def _unpaired(pairing: Pairing) -> tuple[tuple[Sequence[str], str], ...]:
    """The tasks that are no pair, by why they are none."""
    return (
        (pairing.only_base, f"only in {pairing.base}"),
        (pairing.only_other, f"only in {pairing.other}"),
        (pairing.changed, f"of one id but another input in {pairing.other} than in {pairing.base}"),
        (pairing.unfinished, f"not run yet in both {pairing.base} and {pairing.other}"),
    )


def _indented(text: str, style: str = "") -> Text:
    return Text("\n".join(f"   {line}" for line in wrap(text, 76, break_on_hyphens=False)), style=style)


def _what(cell: Cell) -> str:
    if cell.kind == "share":
        return "share of tasks, difference in points"
    if cell.kind == "ratio":
        finished = cell.outcome in ("seconds", "cost")
        return "geometric mean of the tasks' ratios" + (", of tasks that both accepted" if finished else "")
    if cell.kind == "total":
        return f"{cell.unit or 'cost'} of all tasks per solved task"
    return "mean, and mean difference" + (f" in {cell.unit}" if cell.unit else "")


def _rows(cells: Sequence[Cell]) -> Iterator[Text]:
    """A heading and a line a cell, in columns. What is said stands below its line where 80 columns do not hold both."""
    rows = [("", "pairs", "from → to", "difference [95 %]", "p"), *map(_figures, cells)]
    styled = ((cell.said + "*" * _alone(cell), _STYLES.get(cell.said, "")) for cell in cells)
    verdicts = [("", ""), *styled]
    widest = max(len(verdict) for verdict, _ in verdicts)
    gap, least = "  ", (4, 5, 14, 20, 5)
    if sum(_widths(rows, least)) + 5 * len(gap) + widest > COLUMNS:
        gap, least = " ", (0, 0, 0, 0, 0)
    widths = _widths(rows, least)
    is_below = sum(widths) + 5 * len(gap) + widest > COLUMNS
    for row, (verdict, style), cell in zip(rows, verdicts, [None, *cells], strict=True):
        aligned = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        aligned[1] = row[1].rjust(widths[1])
        line, indent = gap.join(aligned), " " * (widths[0] + len(gap))
        if is_below or not verdict:
            yield Text(line.rstrip(), no_wrap=True)
        if verdict:
            yield Text.assemble(indent if is_below else line + gap, (verdict, style), no_wrap=True)
        if cell is not None and cell.if_people_solve is not None:
            if_solved = f"{_arrow(cell, *cell.if_people_solve)} if people solve the tasks that wait"
            yield Text.assemble(indent, (if_solved, "dim"), no_wrap=True)


def _widths(rows: Sequence[Sequence[str]], least: Sequence[int]) -> list[int]:
    columns = zip(least, zip(*rows, strict=True), strict=True)
    return [max(width, *map(len, column)) for width, column in columns]


def _figures(cell: Cell) -> tuple[str, str, str, str, str]:
    corrected = "–" if cell.corrected is None else f"{cell.corrected:.3f}".lstrip("0")
    return (
        f"{cell.other}–{cell.base}",
        str(cell.test.pairs),
        _arrow(cell, cell.test.base, cell.test.other),
        _difference(cell),
        "<.001" if cell.corrected is not None and cell.corrected < 0.001 else corrected,
    )


def _alone(cell: Cell) -> bool:
    """Whether it would pass for a difference, were it the only comparison."""
    return cell.said == "no difference seen" and cell.test.p < ALPHA


def _arrow(cell: Cell, base: float, compared: float) -> str:
    if cell.kind == "share":
        return f"{100 * base:.1f} → {100 * compared:.1f} %"
    return f"{base:.3g} → {compared:.3g}"


def _difference(cell: Cell) -> str:
    test = cell.test
    if math.isnan(test.effect):
        return "–"
    if cell.kind in ("ratio", "total"):
        if not (test.low > 0.0 and math.isfinite(test.high)):
            return f"×{test.effect:.2f} [too few tasks]"
        return f"×{test.effect:.2f} [{test.low:.2f}, {test.high:.2f}]"
    if not math.isfinite(test.low):
        return f"{test.effect:+.3g} [too few tasks]"
    if cell.kind == "share":
        return f"{100 * test.effect:+.1f} [{100 * test.low:+.1f}, {100 * test.high:+.1f}]"
    return f"{test.effect:+.3g} [{test.low:+.3g}, {test.high:+.3g}]"


def _explained(comparison: RunComparison) -> Iterator[str]:
    if not comparison.cells:
        yield "There is nothing to compare: no task has an outcome on both sides."
        return
    count = comparison.counted
    if count > 1:
        yield (
            f"{count} comparisons, and p is corrected for all of them together (Holm): of 100 such tables between "
            "sides that do not differ, at most 5 say anywhere that they do."
        )
    else:
        yield "One comparison: of 100 such between sides that do not differ, at most 5 say that they do."
    if any(cell.said == "no difference seen" for cell in comparison.cells):
        yield "No difference seen is not the same as no difference: the brackets hold what it may still be."
    if any(map(_alone, comparison.cells)):
        yield f"* Alone it would pass for a difference; among {count} comparisons such a one is no surprise."


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
                yield Text(f"   {words(flip.task, NAME)}{values}", no_wrap=True)
    for pairing in comparison.pairings:
        for tasks, kind in _unpaired(pairing):
            if tasks:
                yield Text(f"\n{kind}: {len(tasks)}", style="bold")
                yield from (Text(f"   {words(task, NAME)}", no_wrap=True) for task in tasks)
