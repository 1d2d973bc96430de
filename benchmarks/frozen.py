"""What it costs a round that inputs and items are frozen: lists and dicts that no part can change by accident.

    python -m benchmarks.frozen [--rounds 300] [--repeats 15] [--out benchmarks/results/frozen.json]

Each round drafts four items and checks them with parts that do next to nothing. The same tasks run with frozen
containers and with ordinary ones in their place, copied as the boundary copies them, in turn (ABBA). The figure is the
ratio of the medians of each pair, with a 95 % interval over repeats (Student's t on its logarithm), for items that are
numbers, small dicts, and nested ones of some kilobyte.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

from benchmarks.provenance import write
from draftverify import Budget, Pipeline, Proposal, Task, Verification, retry
from draftverify.engine import canonical, ending
from draftverify.rules import First
from draftverify.values import REJECT

ITEMS = {
    "numbers": (1, 2, 3, 4),
    "small dicts": tuple({"answer": str(place), "score": 0.5} for place in range(4)),
    "nested dicts": tuple(
        {"steps": [{"text": f"step {step} of {place}", "cites": [step, place]} for step in range(20)]}
        for place in range(4)
    ),
}
T_975 = {4: 2.776, 9: 2.262, 14: 2.145, 19: 2.093}


class Constant:
    """A generator of always the same items, and a verifier that refuses them."""

    def __init__(self, items: tuple[Any, ...]) -> None:
        self.items = items

    def propose(self, context: Any, n: int) -> Proposal:
        return Proposal.alternatives(self.items)

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(checks=(REJECT,) * len(proposal))


@contextmanager
def ordinary() -> Iterator[None]:
    """Lists and dicts in the place of frozen ones, copied all the same."""
    with (
        mock.patch.object(canonical, "FrozenList", list),
        mock.patch.object(canonical, "FrozenDict", dict),
        mock.patch.object(ending, "thaw", lambda value: value),
    ):
        yield


def seconds(pipeline: Pipeline, task: Task) -> float:
    """Of one task."""
    start = perf_counter()
    pipeline.record(task)
    return perf_counter() - start


def measure(items: tuple[Any, ...], rounds: int, repeats: int) -> dict[str, Any]:
    """Both ways in turn: microseconds a round, and their ratio."""
    part = Constant(items)
    budget = Budget(rounds=rounds)
    pipeline = Pipeline(part, part, First(), policy=retry(None), block=len(items), budget=budget)
    task = Task(id="0", input={"items": list(items)})
    ratios, frozen_times, plain_times = [], [], []
    for repeat in range(-1, repeats):
        frozen, plain = [], []
        for way in "fppf":
            if way == "f":
                frozen.append(seconds(pipeline, task))
            else:
                with ordinary():
                    plain.append(seconds(pipeline, task))
        if repeat >= 0:
            frozen_times.append(min(frozen) / rounds)
            plain_times.append(min(plain) / rounds)
            ratios.append(math.log(frozen_times[-1] / plain_times[-1]))
    middle = statistics.fmean(ratios)
    half = T_975[repeats - 1] * statistics.stdev(ratios) / math.sqrt(repeats)
    return {
        "frozen_us": statistics.median(frozen_times) * 1e6,
        "ordinary_us": statistics.median(plain_times) * 1e6,
        "ratio": {"value": math.exp(middle), "low": math.exp(middle - half), "high": math.exp(middle + half)},
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=15, choices=[each + 1 for each in T_975])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/frozen.json")
    options = parser.parse_args()
    rows = {name: measure(items, options.rounds, options.repeats) for name, items in ITEMS.items()}
    for name, row in rows.items():
        ratio = row["ratio"]
        print(
            f"{name:12} {row['ordinary_us']:.1f} -> {row['frozen_us']:.1f} us a round, "
            f"{ratio['value']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"
        )
    write(
        options.out,
        "benchmarks.frozen",
        {"rounds": options.rounds, "repeats": options.repeats, "items": rows},
    )


if __name__ == "__main__":
    main()
