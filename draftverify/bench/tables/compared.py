"""A comparison in words: what the terminal prints and what the page of runs shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from draftverify.bench.tables.compare import ALPHA, Cell, ComparedSide, Pairing, RunComparison
from draftverify.bench.tables.figures import NOT_KNOWN, is_known
from draftverify.bench.tables.words import clean, seconds_words, words

DIFFERENCES = 12
"""Between two configs; --json has all."""


class CellWords(NamedTuple):
    """One outcome of two sides in words.

    Args:
        sides: their labels, "B–A".
        pairs: of tasks.
        change: from what to what.
        difference: with its interval.
        p: corrected.
        verdict: what is said; with a * where alone it would pass for a difference.
        if_people_solve: the change if people solved what waits for them; "" where nothing waits.
    """

    sides: str
    pairs: str
    change: str
    difference: str
    p: str
    verdict: str
    if_people_solve: str


def comparison_words(comparison: RunComparison) -> dict[str, Any]:
    """A whole comparison as plain data for a page: {"sides", "outcomes": [{"outcome", "how", "rows"}], "explained"}."""
    pairings = {pairing.other: pairing for pairing in comparison.pairings}
    outcomes: dict[str, list[Cell]] = {}
    for cell in comparison.cells:
        outcomes.setdefault(cell.outcome, []).append(cell)
    return {
        "sides": [
            {
                "label": side.label,
                "name": f"{side.run}:{side.pipeline}",
                "notes": [note for note, _ in side_notes(side, pairings.get(side.label))],
            }
            for side in comparison.sides
        ],
        "outcomes": [
            {
                "outcome": outcome,
                "how": compared_how(cells[0]),
                "rows": [{**cell_words(cell)._asdict(), "said": cell.said} for cell in cells],
            }
            for outcome, cells in outcomes.items()
        ],
        "explained": [
            *(f"{name} has no counterpart, and is not compared" for name in comparison.alone),
            *explained(comparison),
        ],
    }


def cell_words(cell: Cell) -> CellWords:
    """One outcome of two sides in words."""
    corrected = "–" if cell.corrected is None else f"{cell.corrected:.3f}".lstrip("0")
    solved = "" if cell.if_people_solve is None else _change(cell, *cell.if_people_solve)
    return CellWords(
        sides=f"{cell.other}–{cell.base}",
        pairs=str(cell.test.pairs),
        change=_change(cell, cell.test.base, cell.test.other),
        difference=_difference(cell),
        p="<.001" if cell.corrected is not None and cell.corrected < 0.001 else corrected,
        verdict=cell.said + "*" * _alone(cell),
        if_people_solve=f"{solved} if people solve the tasks that wait" if solved else "",
    )


def compared_how(cell: Cell) -> str:
    """What the figures of an outcome are."""
    if cell.kind == "share":
        return "share of tasks, difference in points"
    if cell.kind == "ratio":
        finished = cell.outcome in ("seconds", "cost")
        return "geometric mean of the tasks' ratios" + (", of tasks that both accepted" if finished else "")
    if cell.kind == "total":
        return f"{cell.unit or 'cost'} of all tasks per solved task"
    return "mean, and mean difference" + (f" in {cell.unit}" if cell.unit else "")


def side_notes(side: ComparedSide, pairing: Pairing | None) -> Iterator[tuple[str, str]]:
    """What makes a side another than the one it is compared with, and which tasks stand beside each other; each with
    its kind: "config", "warning" or ""."""
    prefix = f"pipelines.{side.pipeline.partition('@')[0]}."
    sets = [f"{clean(path).removeprefix(prefix)}: {words(value, 60)}" for path, value in side.changes.items()]
    if sets:
        yield "; ".join(sets), "config"
    yield from ((clean(difference), "config") for difference in side.differs[:DIFFERENCES])
    if len(side.differs) > DIFFERENCES:
        yield f"… and {len(side.differs) - DIFFERENCES} more in --json", "config"
    if side.failed:
        yield f"{side.failed} failed, and count as not accepted (run --retry-errors)", "warning"
    if side.waiting:
        s = "s" * (side.waiting == 1)
        waiting = f"{side.waiting} wait{s} for a person, and count{s} as not solved"
        yield f"{waiting} (draftverify view RUN --review)", "warning"
    if pairing is not None:
        missing = ", ".join(f"{len(tasks)} {kind}" for tasks, kind in unpaired(pairing) if tasks)
        no_pair = f"; no pair: {missing} (--tasks)" if missing else ""
        yield f"against {pairing.base}: {pairing.pairs} pairs of tasks{no_pair}", ""
        yield from ((clean(reason), "warning") for reason in pairing.refused)


def unpaired(pairing: Pairing) -> tuple[tuple[Sequence[str], str], ...]:
    """The tasks that are no pair, by why they are none."""
    return (
        (pairing.only_base, f"only in {pairing.base}"),
        (pairing.only_other, f"only in {pairing.other}"),
        (pairing.changed, f"of one id but another input in {pairing.other} than in {pairing.base}"),
        (pairing.unfinished, f"not run yet in both {pairing.base} and {pairing.other}"),
    )


def explained(comparison: RunComparison) -> Iterator[str]:
    """How a comparison is to be read, a sentence or two each."""
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


def _alone(cell: Cell) -> bool:
    """Whether it would pass for a difference, were it the only comparison."""
    return cell.said == "no difference seen" and cell.test.p < ALPHA


def _amount(cell: Cell, value: float) -> str:
    return seconds_words(value) if cell.unit == "s" else f"{value:.3g}"


def _change(cell: Cell, base: float, other: float) -> str:
    if cell.kind == "share":
        return f"{100 * base:.1f} → {100 * other:.1f} %"
    return f"{_amount(cell, base)} → {_amount(cell, other)}"


def _difference(cell: Cell) -> str:
    test = cell.test
    if cell.kind in ("ratio", "total"):
        if not is_known(test.low, test.high, "ratio"):
            return NOT_KNOWN
        return f"×{test.effect:.2f} [{test.low:.2f}, {test.high:.2f}]"
    if not is_known(test.low, test.high, "number"):
        return NOT_KNOWN
    if cell.kind == "share":
        return f"{100 * test.effect:+.1f} [{100 * test.low:+.1f}, {100 * test.high:+.1f}]"
    effect, low, high = (
        f"{'-' if value < 0.0 else '+'}{_amount(cell, abs(value))}"
        for value in (test.effect, test.low, test.high)
    )
    return f"{effect} [{low}, {high}]"
