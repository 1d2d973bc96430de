"""SQL rewrites on TPC-H and on queries as people write them: time per query against running it as written.

The pipeline of examples/plugin (rules draft, tests refute, times decide) chooses a text for each query; then, apart
from what the verifier measured, the chosen text and the query as written run in turns, and their results are compared
on other data. Written down: the speed-up per query with its interval, geometric means with every query in them (one
that runs as written counts as 1), what was predicted (DuckDB's estimate; the verifier's own times) against what was
measured, what was refuted and where, what choosing cost, and wrong rewrites planted on purpose.

    PYTHONPATH=examples/plugin/src python -m benchmarks.sql_rewrites --scale 0.3
"""

from __future__ import annotations

import argparse
import math
import runpy
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import provenance
from draftverify import Pipeline, Task, TaskRecord, fallback
from draftverify.rules import Best
from draftverify.stats import Estimate, geometric_mean
from draftverify_sql import SHORTCUTS, AsWritten, Queries, Rewrites, SameResult, Tested, Tpch
from draftverify_sql.verifier import paired

ROOT = Path(__file__).parents[1]
PLANTED = ROOT / "examples" / "plugin" / "tests" / "planted.py"
OUT = ROOT / "benchmarks" / "results" / "sql_rewrites.json"
NO_SPEED_UP = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=0.3, help="of TPC-H")
    parser.add_argument(
        "--other", type=float, default=0.2, help="of the data on which results are compared again"
    )
    parser.add_argument("--repeats", type=int, default=15, help="turns of each chosen text with its query")
    parser.add_argument(
        "--threshold", type=float, default=0.05, help="share of time that must be saved for sure"
    )
    parser.add_argument("--only", nargs="*", default=[], help="names of queries")
    parser.add_argument("--cache", type=Path, help="where the data is kept")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    data, other = (Tpch(scale, cache=given.cache) for scale in (given.scale, given.other))
    same = SameResult(other)
    pipeline = Pipeline(
        Rewrites(),
        Tested(data),
        Best(threshold=given.threshold),
        policy=fallback(AsWritten(), verified=False),
    )
    queries = []
    try:
        pipeline.open()
        same.open()
        for task in Queries(only=given.only).load():
            record = pipeline.record(task)
            found = _query(task, record, data, same, given.repeats)
            queries.append((record, found))
            print(f"{task.id:32} {found['chosen']:50} × {found['speed_up']:.2f}", flush=True)
        planted = _planted(data)
    finally:
        pipeline.close()
        same.close()
    figures = {
        "scale": given.scale,
        "threads": data.threads,
        "threshold": given.threshold,
        "repeats": given.repeats,
        "geometric_means": {
            group or "all": _mean([pair for pair in queries if not group or pair[0].group == group])
            for group in (*dict.fromkeys(record.group for record, _ in queries), "")
        },
        "predicted": _predicted([record for record, _ in queries], [found for _, found in queries]),
        "refused": _refused([record for record, _ in queries]),
        "planted": planted,
        "queries": [found for _, found in queries],
    }
    provenance.write(given.out, "benchmarks.sql_rewrites", figures)
    print(figures["geometric_means"], figures["predicted"], sep="\n")


def _query(task: Task, record: TaskRecord, data: Tpch, same: SameResult, repeats: int) -> dict[str, Any]:
    """What became of one query."""
    first = record.rounds[0]
    written, value = task.input["sql"], record.outcome.value
    place = first.items.index(value) if value in first.items else None
    found: dict[str, Any] = {
        "query": task.id,
        "chosen": "as written" if place is None else _rule(value),
        "drafts": len(first.items),
        "passed": sum(check.verdict == "pass" for check in first.checks),
        "choosing_seconds": record.outcome.seconds,
        "samples_that_tell": (first.notes or {}).get("telling"),
        "same_on_other_data": same(task, record.outcome),
        "speed_up": NO_SPEED_UP,
    }
    if place is None:
        return found
    theirs, own = data.ratios(written, value, repeats, 60.0)
    ratio, low, high = paired(own, theirs)
    saved = float(np.mean(theirs) - np.mean(own))
    notes = first.notes or {}
    return {
        **found,
        "speed_up": 1 / ratio,
        "interval": [1 / high, 1 / low if low > 0 else None],
        "milliseconds": [1e3 * float(np.mean(theirs)), 1e3 * float(np.mean(own))],
        "estimated": notes["estimated"][place],
        "verifier_measured": notes["measured"][place],
        "pays_after_runs": found["choosing_seconds"] / saved if saved > 0 else None,
    }


def _rule(text: str) -> str:
    return text.partition("\n")[0].removeprefix("-- ")


def _mean(pairs: Sequence[tuple[TaskRecord, dict[str, Any]]]) -> dict[str, Any]:
    changed = [pair for pair in pairs if pair[1]["chosen"] != "as written"]
    return {
        "queries": len(pairs),
        "rewritten": len(changed),
        "slower_than_as_written": sum(found["speed_up"] < 1 for _, found in changed),
        "same_results": sum(found["same_on_other_data"] for _, found in pairs),
        "all": _figure(geometric_mean([(record, found["speed_up"]) for record, found in pairs])),
        "of_the_rewritten": _figure(
            geometric_mean([(record, found["speed_up"]) for record, found in changed])
        ),
    }


def _figure(found: Estimate) -> dict[str, float | None]:
    ends = {"value": found.value, "low": found.low, "high": found.high}
    return {end: value if math.isfinite(value) else None for end, value in ends.items()}


def _predicted(records: Sequence[TaskRecord], queries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How well DuckDB's estimate orders the texts that were timed, and how far the chosen ones were overrated."""
    pairs = [
        (estimated, measured)
        for record in records
        for estimated, measured in zip(
            (record.rounds[0].notes or {}).get("estimated", ()),
            (record.rounds[0].notes or {}).get("measured", ()),
            strict=True,
        )
        if estimated is not None and measured is not None
    ]
    logs = np.log(np.array(pairs).reshape(-1, 2))
    said = logs[np.abs(logs[:, 0]) > 0.01]  # the others are planned as dear as the query as written
    chosen = [each for each in queries if "interval" in each]
    over = [math.log(each["verifier_measured"] / each["speed_up"]) for each in chosen]
    return {
        "texts_timed": len(pairs),
        "rank_correlation_of_the_estimate": _spearman(*logs.T) if len(pairs) > 2 else None,
        "right_side_of_1": float(np.mean((said[:, 0] > 0) == (said[:, 1] > 0))) if len(said) else None,
        "verifier_over_measured": math.exp(sum(over) / len(over)) if over else None,
        "verifier_within_interval": sum(
            each["interval"][0] <= each["verifier_measured"] <= (each["interval"][1] or math.inf)
            for each in chosen
        ),
        "chosen": len(chosen),
    }


def _spearman(x: Any, y: Any) -> float:
    """Rank correlation; equal values share their mean rank."""

    def ranks(values: Any) -> Any:
        _, inverse, counts = np.unique(np.round(values, 6), return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[inverse]

    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def _refused(records: Sequence[TaskRecord]) -> dict[str, Any]:
    """Why texts were refused, and what became of the shortcuts that are wrong somewhere."""
    pairs = [
        pair
        for record in records
        for pair in zip(record.rounds[0].items, record.rounds[0].checks, strict=True)
    ]
    reasons = Counter(check.reason for _, check in pairs if check.verdict != "pass")
    shortcuts = Counter(
        f"{_rule(item)}: {check.reason or check.verdict}" for item, check in pairs if _rule(item) in SHORTCUTS
    )
    return {"drafts": len(pairs), "reasons": dict(reasons), "shortcuts": dict(sorted(shortcuts.items()))}


def _planted(data: Tpch) -> list[dict[str, Any]]:
    """Each planted wrong rewrite: whether the data agrees with it, and the sample that refutes it."""
    found = []
    for name, (written, wrong) in runpy.run_path(str(PLANTED))["PLANTED"].items():
        both = {"written": written, "queries": [wrong], "limit": 120.0}
        whole = data.ask("compare", **both, seconds=30.0, rows=1_000_000)["queries"][0]
        [small] = data.ask("refute", **both, count=30, seed=0, seconds=3.0)["queries"]
        found.append({"wrong": name, "data_agrees": not whole, "refuted": bool(small), **small})
    return found


if __name__ == "__main__":
    main()
