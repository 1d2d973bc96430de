"""Every published figure that rests on recorded data, computed again by the library's own estimators.

    DRAFTVERIFY_DATA=DIR python -m benchmarks.replay [--part gsm8k,math,…] [--out FILE] [--programs FILE]
    python -m benchmarks.replay --show benchmarks/results/replay.json     # the docs' table, nothing is run

DIR holds the recorded data, a folder each. A line is a figure, what was published, what comes out here with its 95 %
interval, the recording and what computed it, and whether that is a hit: it lies as near as the figure was rounded, or
as near as its line says, where programs are run or random numbers drawn. A folder that is not there, and a figure whose
data is nowhere, are named with the reason. The exit status is 1 when a figure was missed, and 2 when there was no data
for any.

`--part` computes some of them. `code` runs 16,400 recorded programs against their hidden tests and against all the
generated ones, in the sandbox, which takes minutes; `--programs FILE` keeps what they did there, and reads it where it
is there. The others take seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from benchmarks import monitors
from benchmarks import ppi as few_labels
from benchmarks.best_of_n import best_of_n
from benchmarks.provenance import provenance
from benchmarks.published import ELSEWHERE, FIGURES, FOLDERS, LAST, NAMES, Figure
from draftverify.bench.monitors.rates import Wealth
from draftverify.stats import Estimate, pass_at_k
from draftverify.stats.intervals import rate
from draftverify.stats.judgement import auroc, auroc_within, trust
from draftverify_llm import read_rows

Found: TypeAlias = "Mapping[str, Estimate | float]"


# ---- the parts ----------------------------------------------------------------------------------------------------


def code(data: Path, kept: Path | None) -> Found:
    """The recorded programs, from what they did."""
    from benchmarks.code.programs import figures, programs

    return figures(programs(data, kept))


def gsm8k(data: Path) -> Found:
    """The systems' accuracy, and any of the four, by the labels."""
    rows = [row for _, row in read_rows(data / "example_model_solutions.jsonl")]
    labels = {system: [row[system]["is_correct"] for row in rows] for system in NAMES}
    figures: dict[str, Estimate | float] = {}
    for system in NAMES:
        figures[system] = trust([True] * len(rows), labels[system], range(len(rows))).base
    right = [sum(labels[system][i] for system in NAMES) for i in range(len(rows))]
    figures["any of the four right"] = rate([pass_at_k(4, count, 4) for count in right], [1.0] * len(rows))
    return figures


def math100(data: Path) -> Found:
    """The reward model on recorded solutions of MATH problems."""
    from benchmarks.reasoning_replay import FIELDS, majority, over_problems
    from draftverify.kit import make_context
    from draftverify_reasoning import Problems, RecordedSolutions

    path = data / "math_cot_100.jsonl"
    pool = RecordedSolutions(path, FIELDS, match="prompt")
    items = [
        pool.propose(make_context(task), 1000).items
        for task in Problems(path, {"id": "idx"}, form="plain").load()
    ]
    scores = [[float(each["score"]) for each in one] for one in items]
    right = [[float(each["correct"]) for each in one] for one in items]
    best = best_of_n(scores, right)
    flat = [value for one in scores for value in one], [value for one in right for value in one]
    problem = [place for place, one in enumerate(scores) for _ in one]
    return {
        "pass@8": rate([pass_at_k(len(one), int(sum(one)), 8) for one in right], [1.0] * len(right)),
        **{f"best of {n} by the reward model": best.at(n) for n in (1, 2, 4, 8)},
        "majority of 8": over_problems(majority(items)),
        "AUC over all": auroc(*flat, problem),
        "AUC within a problem": auroc_within(*flat, problem),
    }


def llmbar(data: Path) -> Found:
    """GPT-4 and ChatGPT on pairs of MT-Bench, audited."""
    from benchmarks.judges import llmbar as recorded

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for judge in ("GPT-4", "ChatGPT"):
            audit = _audited(*recorded(data.parent, judge, Path(folder)))
            found[f"{judge}, swap-consistent"] = audit["order", "swap consistency"]
            found[f"{judge}, accuracy"] = audit["agreement", "accuracy"]
    return found


def pandalm(data: Path) -> Found:
    """GPT-3.5 and three annotators on PandaLM's pairs, audited."""
    from benchmarks.judges import pandalm as recorded

    with tempfile.TemporaryDirectory() as folder:
        audit = _audited(*recorded(data.parent, Path(folder)))
    return {
        "annotators' α": audit["agreement", "annotators' α"],
        "GPT-3.5, agreement": audit["agreement", "accuracy"],
        "GPT-3.5, κ": audit["agreement", "Cohen's κ"],
        "people prefer the longer answer": audit["length", "longer, labels"],
    }


def _audited(judge: Any, comparisons: Any) -> dict[tuple[str, str], Estimate | float]:
    from draftverify.kit.audit import audit_judge

    found: dict[tuple[str, str], Estimate | float] = {}
    for probe in audit_judge(judge, comparisons, probes=("agreement", "order", "length")).probes:
        for each in probe.figures:
            if each.value is not None:
                known = each.low is not None and each.high is not None
                of = (
                    Estimate(each.value, each.low, each.high, each.n, len(comparisons))
                    if known
                    else each.value
                )
                found[probe.name, each.name] = of
    return found


def labels_and_verdicts(data: Path) -> Found:
    """PPI++ on 150 labels, as `benchmarks.ppi` draws them."""
    found = few_labels.measured(*few_labels.answered(data.parent), few_labels.REPEATS)["anew"]
    labels = found["labels"]["width"]
    return {
        "width by 150 labels alone": labels,
        "width by PPI++, at most": found["ppi"]["width"],
        "Rogan–Gladen's width over the labels' own": found["rogan_gladen"]["width"] / labels,
    }


RATE, STEPS, RUNS, WEALTH_RUNS, FIRST_LOOK = 0.8, 2000, 10_000, 2_000, 30


def monitor(_: Path) -> Found:
    """False alarms over so many steps at an unchanged rate: looking at a Wald interval each time, and by wealth."""
    rng = np.random.default_rng(2026)
    t = np.arange(1, STEPS + 1)
    wald, wealth = np.zeros(2)
    for block in range(RUNS // 500):
        hits = rng.random((500, STEPS)) < RATE
        share = hits.cumsum(axis=1) / t
        off = np.abs(share - RATE) > few_labels.Z * np.sqrt(share * (1.0 - share) / t)
        wald += off[:, FIRST_LOOK - 1 :].any(axis=1).sum()
        if block < WEALTH_RUNS // 500:
            wealth += (
                monitors.first(Wealth(np.zeros((500, 2)), known_rate=RATE), hits) < monitors.NEVER
            ).sum()
    return {
        "false alarms of the peeked Wald interval": _share(wald, RUNS),
        "false alarms of the e-process, at most": _share(wealth, WEALTH_RUNS),
    }


def _share(count: float, of: int) -> Estimate:
    return rate([1.0] * int(count) + [0.0] * (of - int(count)), [1.0] * of)


PARTS: dict[str, Callable[[Path], Found]] = {
    "gsm8k": gsm8k,
    "math": math100,
    "llmbar": llmbar,
    "pandalm": pandalm,
    "ppi": labels_and_verdicts,
    "monitor": monitor,
}
"""Beside `code`, which may read what the programs did."""


# ---- the table ----------------------------------------------------------------------------------------------------


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a figure, and what became of it."""

    figure: str
    published: str
    recomputed: float | None = None
    low: float | None = None
    high: float | None = None
    within: float | None = None
    source: str = ""
    found: str = "not recomputed"
    note: str = ""


def rows_of(data: Path, parts: Sequence[str], kept: Path | None) -> Iterator[Row]:
    """A line for each figure of these parts, in their order; a part is computed when its first line is asked for."""
    for part in parts:
        folder, figures = FOLDERS[part], [figure for figure in FIGURES if figure.part == part]
        missing = bool(folder) and not (data / folder).is_dir()
        found: Found = {}
        if not missing:
            print(f"computing {part} …", file=sys.stderr, flush=True)
            found = code(data / folder, kept) if part == "code" else PARTS[part](data / folder)
        for figure in figures:
            if missing:
                yield Row(
                    figure=_name(figure),
                    published=_published(figure.published),
                    note=f"{folder} is not in DRAFTVERIFY_DATA",
                )
            else:
                yield judged(figure, found[figure.name])


def judged(figure: Figure, value: Estimate | float) -> Row:
    """A figure beside what was published."""
    known = isinstance(value, Estimate)
    middle = value.value if isinstance(value, Estimate) else value
    least, most = figure.published if isinstance(figure.published, tuple) else (figure.published,) * 2
    # Both are decimals: a hair of binary rounding is no miss.
    near = least - figure.within - 1e-9 <= middle <= most + figure.within + 1e-9
    return Row(
        figure=_name(figure),
        published=_published(figure.published),
        recomputed=float(middle),
        low=value.low if known else None,  # type: ignore[union-attr]
        high=value.high if known else None,  # type: ignore[union-attr]
        within=figure.within,
        source=" by ".join(filter(None, (FOLDERS[figure.part], figure.by))),
        found="hit" if near else "miss",
        note=figure.note,
    )


def _name(figure: Figure) -> str:
    return NAMES.get(figure.name, figure.name)


def _published(value: float | tuple[float, float]) -> str:
    if not isinstance(value, tuple):
        return f"{value:g}"
    return f"above {value[0]:g}" if value[1] > 1.0 else f"{value[0]:g} to {value[1]:g}"


def _line(row: Row) -> str:
    if row.recomputed is None:
        return f"{'–':6} {row.figure}: not recomputed: {row.note}"
    interval = "" if row.low is None else f" [{row.low:.4f}, {row.high:.4f}]"
    note = f"; {row.note}" if row.note else ""
    said = f"{row.recomputed:.4f}{interval}, published {row.published}, within {row.within:g}"
    return f"{row.found:6} {row.figure}: {said} ({row.source}{note})"


def shown(path: Path) -> str:
    """The docs' table of these results."""
    rows = msgspec.convert(msgspec.json.decode(path.read_bytes())["figures"], list[Row])
    lines = ["| figure | published | here | |", "|---|---|---|---|"]
    for row in rows:
        if row.recomputed is None:
            lines.append(f"| {row.figure} | {row.published} | not recomputed: {row.note} | |")
            continue
        digits = 4 if (row.within or 0.0) < LAST else 3
        value = f"{row.recomputed:.{digits}f}"
        if row.low is not None and row.high is not None:
            value += f" [{row.low:.{digits}f}, {row.high:.{digits}f}]"
        lines.append(f"| {row.figure} | {row.published} | {value} | {row.found} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default=",".join(FOLDERS), help="which parts, with commas (all)")
    parser.add_argument("--out", type=Path, help="where the JSON goes (nowhere)")
    parser.add_argument(
        "--programs", type=Path, metavar="FILE", help="what the programs did: read if there, else written"
    )
    parser.add_argument("--show", type=Path, help="print the docs' table of these results and run nothing")
    options = parser.parse_args(arguments)
    if options.show is not None:
        print(shown(options.show))
        return 0
    parts = options.part.split(",")
    if unknown := set(parts) - set(FOLDERS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(FOLDERS)}")
    data = os.environ.get("DRAFTVERIFY_DATA")
    if not data or not Path(data).is_dir():
        parser.error("DRAFTVERIFY_DATA names no folder: it is where the recorded data lies, a folder each")
    rows = []
    for row in rows_of(Path(data), parts, options.programs):
        rows.append(row)
        print(_line(row), flush=True)
    rows += [Row(figure=figure, published="", note=why) for figure, why in ELSEWHERE]
    for row in rows[-len(ELSEWHERE) :]:
        print(_line(row))
    counts = {name: sum(row.found == name for row in rows) for name in ("hit", "miss", "not recomputed")}
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    if options.out is not None:
        told = {"provenance": provenance("benchmarks.replay"), **counts, "figures": rows}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
    if not counts["hit"] + counts["miss"]:
        return 2
    return 1 if counts["miss"] else 0


if __name__ == "__main__":
    sys.exit(main())
