"""`draftverify compare RUN RUN…`: what differs between runs or pipelines, task by task."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from textwrap import wrap

import click
from rich.console import Console
from rich.text import Text

from draftverify.bench.cli.exits import Exit
from draftverify.bench.records.directory import load_run
from draftverify.bench.tables.compare import ALPHA, Cell, Comparison, Pairing, Side, parse_side
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
@click.option(
    "--on",
    "only",
    multiple=True,
    metavar="OUTCOME",
    help="Compare this alone (solved, accepted, …); repeatable.",
)
@click.option("--tasks", is_flag=True, help="List the tasks that changed, and those that are no pair.")
@click.option("--json", "as_json", is_flag=True, help="Write everything as JSON.")
@click.option(
    "--fail-on-worse", is_flag=True, help=f"Exit with {Exit.WORSE} when something is seen to be worse."
)
@click.option("--store", envvar="DRAFTVERIFY_STORE", help="The PostgreSQL URL that the runs were given.")
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
        given = []
        for text in runs:
            path, pipeline = parse_side(text)
            given.append((opened.enter_context(load_run(path, url=store)), pipeline))
        found = compared(given, only=only)
    if as_json:
        click.echo(json.dumps(found.plain(), indent=2, allow_nan=False))
    else:
        for line in lines(found, tasks=tasks):
            console.print(line, soft_wrap=line.no_wrap is True)
    if fail_on_worse and found.worse:
        click.get_current_context().exit(Exit.WORSE)


def lines(found: Comparison, *, tasks: bool = False) -> Iterator[Text]:
    """A comparison for a rich console of 80 columns or more."""
    pairings = {each.other: each for each in found.pairings}
    for side in found.sides:
        yield from _legend(side, pairings.get(side.label))
    for name in found.alone:
        yield Text(f"   {clean(name)} has no counterpart, and is not compared")
    for outcome in dict.fromkeys(cell.outcome for cell in found.cells):
        cells = [cell for cell in found.cells if cell.outcome == outcome]
        yield Text()
        yield Text.assemble(
            (clean(outcome), "bold"), (f"  {'; '.join(dict.fromkeys(map(_what, cells)))}", "dim")
        )
        yield from _rows(cells)
    yield Text()
    yield from (Text(line) for line in _explained(found))
    if tasks:
        yield from _listed(found)


def _legend(side: Side, pairing: Pairing | None) -> Iterator[Text]:
    """A side, what makes it another than the one it is compared with, and which tasks stand beside each other."""
    yield Text.assemble((f"{side.label}  ", "bold"), clean(f"{side.run}:{side.pipeline}"), no_wrap=True)
    own = f"pipelines.{side.pipeline.partition('@')[0]}."
    sets = [f"{clean(path).removeprefix(own)}: {words(value, 60)}" for path, value in side.changes.items()]
    told = ["; ".join(sets)] if sets else []
    told += [clean(each) for each in side.differs[:LISTED]]
    told += [f"… and {len(side.differs) - LISTED} more in --json"] if len(side.differs) > LISTED else []
    for each in told:
        yield _indented(each, "dim")
    if side.failed:
        yield _indented(f"{side.failed} failed, and count as not accepted (run --retry-errors)", "yellow")
    if side.waiting:
        s = "s" * (side.waiting == 1)
        yield _indented(
            f"{side.waiting} wait{s} for a person, and count{s} as not solved (draftverify review)", "yellow"
        )
    if pairing is None:
        return
    counts = [
        (len(pairing.only_base), f"only in {pairing.base}"),
        (len(pairing.only_other), f"only in {pairing.other}"),
        (len(pairing.changed), "of one id but another input"),
        (len(pairing.unfinished), "not run yet in both"),
    ]
    missing = ", ".join(f"{count} {what}" for count, what in counts if count)
    yield _indented(
        f"against {pairing.base}: {pairing.pairs} pairs of tasks"
        + (f"; no pair: {missing} (--tasks)" if missing else "")
    )
    for each in pairing.refused:
        yield _indented(clean(each), "yellow")


def _indented(text: str, style: str = "") -> Text:
    return Text("\n".join(f"   {line}" for line in wrap(text, 76, break_on_hyphens=False)), style=style)


def _what(cell: Cell) -> str:
    if cell.kind == "share":
        return "share of tasks, difference in points"
    if cell.kind == "ratio":
        return "geometric mean of the tasks' ratios" + (", of tasks that both accepted" if cell.unit else "")
    if cell.kind == "total":
        return f"{cell.unit} of all tasks per solved task"
    return "mean, and mean difference" + (f" in {cell.unit}" if cell.unit else "")


def _rows(cells: Sequence[Cell]) -> Iterator[Text]:
    """A heading and a line a cell, in columns. What is said stands below its line where 80 columns do not hold both."""
    rows = [("", "pairs", "from → to", "difference [95 %]", "p"), *map(_figures, cells)]
    said = [
        ("", ""),
        *((cell.said + ("*" if _alone(cell) else ""), _STYLES.get(cell.said, "")) for cell in cells),
    ]
    last = max(len(word) for word, _ in said)
    gap, least = "  ", (4, 5, 14, 20, 5)
    if sum(_widths(rows, least)) + 5 * len(gap) + last > COLUMNS:
        gap, least = " ", (0, 0, 0, 0, 0)
    widths = _widths(rows, least)
    below = sum(widths) + 5 * len(gap) + last > COLUMNS
    for row, (word, style), cell in zip(rows, said, [None, *cells], strict=True):
        padded = [
            f"{text:>{width}}" if place == 1 else f"{text:<{width}}"
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        line = Text(gap.join(padded).rstrip() if below or not word else gap.join(padded), no_wrap=True)
        if word and below:
            yield line
            yield Text.assemble(" " * (widths[0] + len(gap)), (word, style), no_wrap=True)
        else:
            yield line.append(gap if word else "").append(word, style=style)
        if cell is not None and cell.if_people_solve is not None:
            if_solved = _arrow(cell, *cell.if_people_solve)
            second = f"{if_solved} if people solve the tasks that wait"
            yield Text.assemble(" " * (widths[0] + len(gap)), (second, "dim"), no_wrap=True)


def _widths(rows: Sequence[Sequence[str]], least: Sequence[int]) -> list[int]:
    return [max(few, *map(len, column)) for few, column in zip(least, zip(*rows, strict=True), strict=True)]


def _figures(cell: Cell) -> tuple[str, str, str, str, str]:
    corrected = "–" if cell.corrected is None else f"{cell.corrected:.3f}".lstrip("0")
    return (
        f"{cell.other}–{cell.base}",
        str(cell.test.pairs),
        _from_to(cell),
        _difference(cell),
        "<.001" if cell.corrected is not None and cell.corrected < 0.001 else corrected,
    )


def _alone(cell: Cell) -> bool:
    """Whether it would pass for a difference, were it the only comparison."""
    return cell.said == "no difference seen" and cell.test.p < ALPHA


def _from_to(cell: Cell) -> str:
    return _arrow(cell, cell.test.base, cell.test.other)


def _arrow(cell: Cell, base: float, other: float) -> str:
    if cell.kind == "share":
        return f"{100 * base:.1f} → {100 * other:.1f} %"
    return f"{base:.3g} → {other:.3g}"


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


def _explained(found: Comparison) -> Iterator[str]:
    if not found.cells:
        yield "There is nothing to compare: no task has an outcome on both sides."
        return
    count = found.counted
    if count > 1:
        yield (
            f"{count} comparisons, and p is corrected for all of them together (Holm): of 100 such tables between "
            "sides that do not differ, at most 5 say anywhere that they do."
        )
    else:
        yield "One comparison: of 100 such between sides that do not differ, at most 5 say that they do."
    if any(cell.said == "no difference seen" for cell in found.cells):
        yield "No difference seen is not the same as no difference: the brackets hold what it may still be."
    if any(map(_alone, found.cells)):
        yield f"* Alone it would pass for a difference; among {count} comparisons such a one is no surprise."


def _listed(found: Comparison) -> Iterator[Text]:
    """Tasks that changed, those that got worse first, and tasks that are no pair."""
    for cell in found.cells:
        for sign, word in ((-1, "lower"), (1, "higher")):
            changed = [each for each in cell.flips if (each.other - each.base) * sign > 0]
            if not changed:
                continue
            yield Text()
            yield Text(
                f"{clean(cell.outcome)}, {word} in {cell.other} than in {cell.base}: {len(changed)}",
                style="bold",
            )
            for each in changed:
                whole = {each.base, each.other} == {0.0, 1.0}
                values = "" if whole else f"  {each.base:.3g} → {each.other:.3g}"
                yield Text(f"   {words(each.task, NAME)}{values}", no_wrap=True)
    for pairing in found.pairings:
        for tasks, what in (
            (pairing.only_base, f"only in {pairing.base}"),
            (pairing.only_other, f"only in {pairing.other}"),
            (pairing.changed, f"another input in {pairing.other} than in {pairing.base}"),
            (pairing.unfinished, f"not run yet in both {pairing.base} and {pairing.other}"),
        ):
            if tasks:
                yield Text()
                yield Text(f"{what}: {len(tasks)}", style="bold")
                yield from (Text(f"   {words(task, NAME)}", no_wrap=True) for task in tasks)
