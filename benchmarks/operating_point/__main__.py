"""The operating point in several domains, one table: predicted, written down, and held against what was measured.

    DRAFTVERIFY_DATA=../shared/data python -m benchmarks.operating_point [DOMAIN …] --work DIR
        [--out benchmarks/results/operating_point.json]
    python -m benchmarks.operating_point --show benchmarks/results/operating_point.json

Each domain is a config beside this file: a pipeline whose block is chosen, and a baseline. Every size of the ladder and
the baseline run over all tasks once, a task's candidates one after the other, the next task in the opposite order, as a
a fit runs them. Twenty random halves of these tasks then fit: each chooses a block and predicts its gain by
the very code of `draftverify fit block`, writes its file, and is held against the other half's records. In the domain
`surrogate` the first of the twenty is done once more, for real: `fit_blocks` runs its half, then the other.

A run that was stopped goes on where it was, in DIR. Domains that are not named keep their figures in --out.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.operating_point.domains import DOMAINS, prepared
from benchmarks.operating_point.splits import UNSEEN, Measured, held, row_of, summed
from benchmarks.provenance import provenance, write
from draftverify.bench import load_experiment
from draftverify.bench.artifact import ParallelPass
from draftverify.bench.cli.progress import RunProgress
from draftverify.lab import fit_blocks
from draftverify.stats import Estimate

FOR_REAL = "surrogate"


def measured(name: str, data: Path, work: Path, accept_changed: bool) -> dict[str, Any]:
    """The figures of one domain."""
    config = prepared(name, data, work)
    experiment = load_experiment(config)
    with RunProgress(tracebacks=True) as progress:
        found = Measured(experiment, config.parent / "sizes", DOMAINS[name].at_most, accept_changed, progress)
    rows = held(found, config.parent)
    figures = {
        "provenance": provenance("benchmarks.operating_point"),
        "drafts": DOMAINS[name].drafts,
        "tasks": len(found.tasks),
        "sizes": sorted({each.size for each in found.family.candidates}),
        **summed(rows),
        "first": rows[0],
        "rows": rows,
    }
    if name == FOR_REAL:
        with RunProgress(tracebacks=True) as progress:
            (made,) = fit_blocks(
                experiment,
                out=config.parent / "fitted",
                unseen=UNSEEN,
                at_most=DOMAINS[name].at_most,
                accept_changed=accept_changed,
                watcher=progress,
            )
        gain = msgspec.to_builtins(made.artifact.measured)
        figures["for_real"] = {
            "provenance": figures["provenance"],
            **row_of(made.artifact, Estimate(**gain, trials=0, clusters=0)),
        }
    return figures


def shown(figures: Mapping[str, Any]) -> str:
    """The table in docs/operating-point.md."""
    lines = [
        "| domain | drafts; verifier | tasks | α | cost ratio | n: a block of n against n of one | block | predicted × "
        "| measured × | intervals that held | median error |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in figures["domains"].items():
        told = f"{found['held']} of {found['splits']}", f"{100 * found['median_error']:.1f} %"
        lines.append(line(name, found["drafts"], found["tasks"], found["first"], *told))
        if real := found.get("for_real"):
            told = "held" if real["holds"] else "did not hold", f"{100 * real['error']:.1f} %"
            lines.append(line(name, "the first split, its other half run anew", found["tasks"], real, *told))
    return "\n".join(lines)


def line(name: str, drafts: str, tasks: int, split: Mapping[str, Any], held: str, error: str) -> str:
    """A line of the table."""
    ratio, parallel = split["cost_ratio"], split["parallel"]
    cells = [
        name,
        drafts,
        str(tasks),
        interval(split["acceptance"]),
        "–" if ratio is None else f"{ratio:.2g}",
        "–"
        if parallel is None
        else f"{parallel['size']}: {interval(parallel['ratio'])}, {verdict(parallel)}",
        chosen(split),
        interval(split["predicted"]),
        interval(split["measured"]),
        held,
        error,
    ]
    return f"| {' | '.join(cells)} |"


def verdict(parallel: Mapping[str, Any]) -> str:
    """What the file's own property says of it."""
    return msgspec.convert(parallel, ParallelPass).verdict


def chosen(split: Mapping[str, Any]) -> str:
    """The block, and where it is none that drafts more than the baseline, so in words."""
    if not split["drafts"]:
        return f"{split['block']} (do not draft)"
    return (
        f"{split['block']}" if split["block"] == split["tested"] else f"{split['block']} (more does not pay)"
    )


def interval(figure: Mapping[str, float | None]) -> str:
    """A figure with its interval."""
    if any(figure[end] is None for end in ("value", "low", "high")):
        return "–" if figure["value"] is None else f"{figure['value']:.2f}"
    return f"{figure['value']:.2f} [{figure['low']:.2f}, {figure['high']:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "domains", nargs="*", metavar="DOMAIN", help=f"of {', '.join(DOMAINS)}; all when none"
    )
    parser.add_argument("--work", type=Path, help="where the runs go, and go on")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/operating_point.json"))
    parser.add_argument(
        "--accept-changed", action="store_true", help="go on with runs that another version of the code began"
    )
    parser.add_argument("--show", type=Path, help="print the table of these results, and run nothing")
    options = parser.parse_args()
    if options.show is not None:
        print(shown(json.loads(options.show.read_text())))
        return
    for name in options.domains:
        if name not in DOMAINS:
            parser.error(f"there is no domain {name!r}; there are {', '.join(DOMAINS)}")
    data = os.environ.get("DRAFTVERIFY_DATA")
    if options.work is None or data is None:
        parser.error("--work DIR and the variable DRAFTVERIFY_DATA are needed")
    kept = json.loads(options.out.read_text())["domains"] if options.out.exists() else {}
    for name in options.domains or DOMAINS:
        kept[name] = measured(name, Path(data), options.work, options.accept_changed)
        figures = {"unseen": UNSEEN, "domains": {each: kept[each] for each in DOMAINS if each in kept}}
        write(options.out, "benchmarks.operating_point", figures)
        print(shown(figures), flush=True)


if __name__ == "__main__":
    main()
