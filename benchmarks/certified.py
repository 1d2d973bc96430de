"""How often a certified threshold breaks its promise, and how much it accepts beside the best possible.

    DRAFTVERIFY_DATA=DIR python -m benchmarks.certified [--repeats 200] [--scores FILE] [--out FILE]

Simulated: in each repeat 82 tasks, whose items resemble each other, are drawn anew, thresholds are certified on them at
δ = .1, and what these accept and reject is looked up in a population of 20,000 other tasks. `five` are tasks of 5
items, `hundred` of 100, and `alike` of 100 that resemble each other more.

Recorded: `humaneval_codegen16b` under DIR, 164 problems and the first 20 programs of each. A program's score is the
share of the model's own generated tests that it passes, and it is right where it passes the hidden tests
(`code_hidden.json`). The generated tests are run in the sandbox, some minutes; FILE keeps the scores for the next time.
Two ways:

- `anew`: the 164 problems are the population. Each repeat draws 82 of them with replacement, so what is promised of
  a population is looked up in the whole of it.
- `splits`: half of the problems are fitted on, and the other half is looked at. That half is a sample too, so a
  threshold that deserves its promise is broken there by chance: `splits` counts that as well, and is told beside.

Beside it the i.i.d. certificate: the same sequence with the Clopper–Pearson bound, each item a trial.

Must hold, of the simulations and of `anew`: violations not significantly above δ (one-sided, 5 %), and of what an
oracle would accept at least half on average, where nothing is certified 0. The exit status is 1 where not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify.calibration import Judged, certified, certified_rejection

TASKS, REPEATS, SEED = 82, 200, 2026
PRECISION, LOST, DELTA = 0.9, 0.1, 0.1
LEVELS = (0.4, 0.5, 0.6, 0.7, 0.8)
"""Precisions that are asked for of the recorded programs, of which a fifth is right."""
PROGRAMS = 20
"""Of each recorded problem, the first."""
POPULATIONS = {"five": (5, 1.0), "hundred": (100, 1.0), "alike": (100, 2.0)}
"""Items of a task, and the spread of the tasks' ease, in log odds."""
RESULTS = Path(__file__).parent / "results"

FACTORIALS = np.array([math.lgamma(n + 1.0) for n in range(20_001)])
"""log n!"""

Way = Callable[[Sequence[Judged], float], "float | None"]


def main() -> int:
    """Measure, print, write; 1 where a promise was broken too often or too little was accepted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--scores", type=Path, help="keeps the scores of the recorded programs")
    parser.add_argument("--out", type=Path, default=RESULTS / "certified.json")
    given = parser.parse_args()
    if not (data := os.environ.get("DRAFTVERIFY_DATA")):
        parser.error("DRAFTVERIFY_DATA is not set: it names the folder that holds humaneval_codegen16b")
    found = {
        "tasks": TASKS,
        "repeats": given.repeats,
        "seed": SEED,
        "precision": PRECISION,
        "lost": LOST,
        "delta": DELTA,
        "most_violations": most(given.repeats) / given.repeats,
        "simulated": {name: simulated(*each, given.repeats) for name, each in POPULATIONS.items()},
        "humaneval": recorded(scored(Path(data), given.scores), given.repeats),
    }
    accepts = [each["accept"]["cluster"] for each in found["simulated"].values()]
    accepts += [each["anew"]["cluster"] for each in found["humaneval"]["levels"].values()]
    rejects = [each["reject"] for each in found["simulated"].values()]
    found["promises_held"] = all(each["held"] for each in [*accepts, *rejects])
    found["half_kept"] = all(each["kept"] >= 0.5 for each in accepts)
    write(given.out, "benchmarks.certified", found)
    print(json.dumps(found, indent=1))
    return 0 if found["promises_held"] and found["half_kept"] else 1


def most(repeats: int) -> int:
    """The most violations that are not significantly above δ: P(Binomial(repeats, δ) > most) ≤ .05."""
    k = np.arange(repeats + 1)
    logs = FACTORIALS[repeats] - FACTORIALS[k] - FACTORIALS[repeats - k]
    chances = np.exp(logs + k * math.log(DELTA) + (repeats - k) * math.log1p(-DELTA))
    return int(np.searchsorted(np.cumsum(chances), 0.95))


def cluster(judged: Sequence[Judged], precision: float) -> float | None:
    """The framework's."""
    return certified(judged, precision=precision, confidence=1 - DELTA)[0]


def iid(judged: Sequence[Judged], precision: float) -> float | None:
    """The same sequence of thresholds, each item a trial of its own."""
    scores, right = arrays(judged)
    order = np.argsort(-scores, kind="stable")
    ends = [*(np.flatnonzero(np.diff(scores[order])) + 1), len(order)]
    step = max(len(ends) // 200, 1)
    hits, best = right[order].cumsum(), None
    for end in sorted({int(end) for end in ends[::step]} | {len(order)}):
        if end < math.log(DELTA) / math.log(precision):
            continue
        # The Clopper–Pearson bound is below the precision where so many hits are likelier than δ at that precision.
        k = np.arange(int(hits[end - 1]), end + 1)
        logs = FACTORIALS[end] - FACTORIALS[k] - FACTORIALS[end - k]
        if float(np.exp(logs + k * math.log(precision) + (end - k) * math.log1p(-precision)).sum()) > DELTA:
            break
        best = float(scores[order[end - 1]])
    return best


WAYS: dict[str, Way] = {"cluster": cluster, "iid": iid}


def arrays(judged: Sequence[Judged]) -> tuple[Any, Any]:
    """Scores and rightness, [n] each."""
    return np.array([each.score for each in judged]), np.array([float(each.right) for each in judged])


def population(tasks: int, rng: np.random.Generator, each: int, spread: float) -> list[Judged]:
    """Items whose chance to be right rises with the score, and from task to task."""
    ease = rng.normal(scale=spread, size=(tasks, 1))
    scores = 2 * rng.normal(size=(tasks, each))
    right = rng.random((tasks, each)) < 1 / (1 + np.exp(-(1.5 * scores - 1 + ease)))
    return [
        Judged(str(task), float(scores[task, i]), bool(right[task, i]))
        for task in range(tasks)
        for i in range(each)
    ]


class Truth:
    """What every threshold comes to in a population: precision and share from a score on, right items lost below."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        scores, right = arrays(judged)
        order = np.argsort(-scores, kind="stable")
        self.scores, self.hits = scores[order], right[order].cumsum()

    def at(self, threshold: float) -> tuple[float, float, float]:
        """Precision (1 where nothing is accepted), share accepted, share of the right items that is not."""
        n = int(np.searchsorted(-self.scores, -threshold, side="right"))
        hits = float(self.hits[n - 1]) if n else 0.0
        return hits / n if n else 1.0, n / len(self.scores), 1 - hits / float(self.hits[-1])

    def oracle(self, precision: float) -> float:
        """The largest share that can be accepted from a score on."""
        ends = np.append(np.flatnonzero(np.diff(self.scores)), len(self.scores) - 1)
        fit = ends[self.hits[ends] / (ends + 1) >= precision]
        return float(fit.max() + 1) / len(self.scores) if len(fit) else 0.0


def told(broken: Sequence[bool], kept: Sequence[float], certain: int) -> dict[str, Any]:
    """Of repeats: how often broken, what was accepted beside the oracle, where nothing was certified 0."""
    repeats = len(broken)
    return {
        "violated": sum(broken) / repeats,
        "certified": certain / repeats,
        "kept": float(np.mean(kept)) if kept else None,
        "kept_where_certified": float(np.sum(kept)) / certain if certain else None,
        "held": sum(broken) <= most(repeats),
    }


def compared(
    drawn: Callable[[np.random.Generator], tuple[list[Judged], Truth]], precision: float, repeats: int
) -> dict[str, Any]:
    """Each way on the same draws."""
    found: dict[str, tuple[list[bool], list[float], int]] = {name: ([], [], 0) for name in WAYS}
    rng = np.random.default_rng(SEED)
    for _ in range(repeats):
        judged, truth = drawn(rng)
        best = truth.oracle(precision)
        for name, way in WAYS.items():
            broken, kept, certain = found[name]
            threshold = way(judged, precision)
            hit, share, _ = (1.0, 0.0, 1.0) if threshold is None else truth.at(threshold)
            broken.append(hit < precision)
            kept.append(share / best if best else 0.0)
            found[name] = broken, kept, certain + (threshold is not None)
    return {name: told(*each) for name, each in found.items()}


def simulated(each: int, spread: float, repeats: int) -> dict[str, Any]:
    """Both thresholds on fresh tasks of one population."""
    rng = np.random.default_rng(SEED + each)
    judged = population(
        20_000, rng, each if each < 20 else 20, spread
    )  # as good as 100 of each: the law is the same
    truth = Truth(judged)
    lost: list[bool] = []
    shares, certain = [], 0
    draws = np.random.default_rng(SEED)
    for _ in range(repeats):
        threshold, _why = certified_rejection(
            population(TASKS, draws, each, spread), lost=LOST, confidence=1 - DELTA
        )
        certain += threshold is not None
        gone = 0.0 if threshold is None else truth.at(threshold)[2]
        lost.append(gone > LOST)
        shares.append(0.0 if threshold is None else 1 - truth.at(threshold)[1])
    reject = {
        "violated": sum(lost) / repeats,
        "certified": certain / repeats,
        "rejected": float(np.mean(shares)),
    }
    return {
        "items_of_a_task": each,
        "spread": spread,
        "oracle": truth.oracle(PRECISION),
        "accept": compared(lambda rng: (population(TASKS, rng, each, spread), truth), PRECISION, repeats),
        "reject": {**reject, "held": sum(lost) <= most(repeats)},
    }


def scored(data: Path, kept: Path | None) -> dict[str, list[tuple[float, bool]]]:
    """Of every problem its programs' scores and whether they are right; a program without a score is left out."""
    hidden = json.loads((RESULTS / "code_hidden.json").read_text())["verdicts"]["recording"]
    if kept is not None and kept.exists():
        scores = json.loads(kept.read_text())
    else:
        from benchmarks.code.codet import verified
        from benchmarks.code.recorded import load
        from draftverify_code.sandbox import Sandbox

        directory = data / "humaneval_codegen16b"
        recordings = load(directory)
        with Sandbox() as sandbox:
            pools = [list(dict.fromkeys(one.programs[:PROGRAMS])) for one in recordings]
            work = [(one.task, pool) for one, pool in zip(recordings, pools, strict=True)]
            found = verified(work, directory / "generated_tests.jsonl", sandbox)
        scores = {}
        for one, pool, each in zip(recordings, pools, found, strict=True):
            of = {program: check.score for program, check in zip(pool, each.checks, strict=True)}
            scores[one.task.id] = [of[program] for program in one.programs[:PROGRAMS]]
        if kept is not None:
            kept.write_text(json.dumps(scores))
    return {
        name: [
            (float(score), letter == "p")
            for score, letter in zip(each, hidden[name][:PROGRAMS], strict=True)
            if score is not None
        ]
        for name, each in scores.items()
    }


def recorded(items: dict[str, list[tuple[float, bool]]], repeats: int) -> dict[str, Any]:
    """Thresholds on recorded programs, at several precisions."""
    names = sorted(name for name, each in items.items() if each)

    def judged(chosen: Any) -> list[Judged]:
        return [Judged(f"{place} {name}", *one) for place, name in enumerate(chosen) for one in items[name]]

    everyone = Truth(judged(names))

    def anew(rng: np.random.Generator) -> tuple[list[Judged], Truth]:
        return judged(rng.choice(names, TASKS)), everyone

    def split(rng: np.random.Generator) -> tuple[list[Judged], Truth]:
        mixed = rng.permutation(names)
        return judged(mixed[: len(mixed) // 2]), Truth(judged(mixed[len(mixed) // 2 :]))

    return {
        "problems": len(names),
        "programs": sum(map(len, items.values())),
        "right": float(np.mean([right for each in items.values() for _, right in each])),
        "levels": {
            f"{precision:g}": {
                "oracle": everyone.oracle(precision),
                "anew": compared(anew, precision, repeats),
                "splits": compared(split, precision, repeats),
            }
            for precision in LEVELS
        },
    }


if __name__ == "__main__":
    sys.exit(main())
