"""The experiments of an example package, run again and again: what their pipelines take, each beside its baseline.

A figure is over the tasks, with all repeats of a task as one cluster: its interval is that of other tasks of the kind.
What a package's README runs before its experiment (a log, fits) has been run.

    pip install -e examples/proofs -e examples/physics -e examples/distilled
    python -m benchmarks.example_packages proofs --repeats 5
"""

from __future__ import annotations

import argparse
import math
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import provenance
from draftverify import TaskRecord
from draftverify.bench import load_experiment, run
from draftverify.bench.records import load_run
from draftverify.stats import Estimate, acceptance_rate, cost_per_solved, solved_ratio

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("package", help="a folder of examples/")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="benchmarks/results/PACKAGE.json when absent")
    given = parser.parse_args()
    figures = {
        name: measured(ROOT / "examples" / given.package / f"{name}.yaml", given.repeats)
        for name in ("experiment", "sweep")
    }
    out = given.out or ROOT / "benchmarks" / "results" / f"{given.package}.json"
    provenance.write(out, "benchmarks.example_packages", {"repeats": given.repeats, **figures})


def measured(file: Path, repeats: int) -> dict[str, Any]:
    """By group of tasks ("all" for all of them) and pipeline, the figures of an experiment."""
    records: dict[str, list[TaskRecord]] = defaultdict(list)
    for _ in range(repeats):
        with TemporaryDirectory() as folder:
            summary = run(load_experiment(file), out=Path(folder) / "run").summary
            with load_run(Path(folder) / "run") as loaded:
                for name in loaded.names:
                    records[name] += loaded.records(name)
    figures: dict[str, Any] = defaultdict(dict)
    for row in [row for pipeline in summary.pipelines for row in pipeline.rows]:
        own, base = (
            [record for record in records.get(name or "", ()) if row.group in ("", record.group)]
            for name in (row.pipeline, summary.baseline)
        )
        checks = Counter(
            f"{check.verdict} {check.reason}".strip()
            for record in own
            for round in record.rounds
            for check in round.checks
        )
        figures[row.group or "all"][row.pipeline] = {
            "tasks": row.tasks,
            "accepted": row.statuses.get("accepted", 0),
            "seconds_per_accepted": _figure(cost_per_solved(_scored(own))),
            "times_faster": _figure(solved_ratio(_scored(own), _scored(base))) if base else None,
            "acceptance": _figure(acceptance_rate(own)),
            "checks_per_run": {word: count / repeats for word, count in sorted(checks.items())},
            **{name: _figure(measure.figure) for name, measure in row.measures.items()},
        }
    return dict(figures)


def _scored(records: list[TaskRecord]) -> list[tuple[TaskRecord, float]]:
    return [(record, float(record.outcome.status == "accepted")) for record in records]


def _figure(estimate: Estimate) -> dict[str, float | None]:
    ends = {end: getattr(estimate, end) for end in ("value", "low", "high")}
    return {end: value if value is not None and math.isfinite(value) else None for end, value in ends.items()}


if __name__ == "__main__":
    main()
