"""How often a certified threshold breaks its promise, and how much it accepts beside the best possible.

    DRAFTVERIFY_DATA=DIR python -m benchmarks.certified [--repeats 200] [--scores FILE] [--out FILE]

Exact: tasks of one item each, nine in ten of them right, all with one score. `exact` is the chance that so many tasks
certify it for a precision above .9, by enumeration: δ at most is promised.

Simulated: in each repeat 82 tasks, whose items resemble each other, are drawn anew, thresholds are certified on them at
δ = .1, and what these accept and reject is looked up in a population of 20,000 other tasks. `five` are tasks of 5
items, `hundred` of 100, and `alike` of 100 that resemble each other more; `thirty` and `forty_five` are so many tasks
of one item each. `maps` compares two ways to make a
probability of a score, Platt's and isotonic regression, by their Brier score in the population and by their
calibration error.

Recorded: `humaneval_codegen16b` under DIR, 164 problems and 100 programs of each. A program is right where it passes
the hidden tests (`code_hidden.json`). Its score is the `share` of the model's own generated tests that it passes, or
their `agreement`: that times the share of the hundred that pass the same ones (`code.generated_tests`). The generated
tests are run in the sandbox, some minutes; FILE keeps the scores for the next time. Two ways:

- `anew`: the problems are the population. Each repeat draws 82 of them with replacement, so what is promised of a
  population is looked up in the whole of it.
- `halves`: half of the problems are fitted on. `other` looks at the other half, which is a sample too, and an unlucky
  one whenever the first was lucky: a threshold that deserves its promise is broken there by chance. `all` looks at all
  problems, of which the promise is.

Beside the framework's certificate (`cluster`) three others, on the same draws:

- `iid`: the same sequence with the Clopper–Pearson bound, each item a trial.
- `betting`: the same sequence, each threshold tested by betting on the tasks one after the other (Waudby-Smith and
  Ramdas, JRSS B 86 (2024)): valid for every number of tasks, where the bootstrap is approximate.
- `isotonic`: no certificate. The lowest score from which the isotonic probabilities are as high on average.

Rejection is certified on the same draws of `anew`.

Must hold, of the simulations and of `anew`: violations not significantly above δ (one-sided, 5 %); and of the simulated
tasks of a hundred items, of what an oracle would accept at least half on average, where nothing is certified 0. The
exit status is 1 where not. `half_kept` says it of each.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import isotonic_regression

from benchmarks.provenance import write
from draftverify.calibration import Judged, certified, certified_rejection
from draftverify.calibration.scores import platt
from draftverify.calibration.thresholds import columns

TASKS, REPEATS, SEED = 82, 200, 2026
PRECISION, LOST, DELTA = 0.9, 0.1, 0.1
LEVELS = (0.4, 0.5, 0.6, 0.7, 0.8)
"""Precisions that are asked for of the recorded programs, of which a fifth is right."""
POPULATIONS = {
    "five": (5, 1.0, TASKS),
    "hundred": (100, 1.0, TASKS),
    "alike": (100, 2.0, TASKS),
    "thirty": (1, 1.0, 30),
    "forty_five": (1, 1.0, 45),
}
"""Items of a task, the spread of the tasks' ease, in log odds, and how many tasks are labelled."""
EXACT = (22, 30, 40, 45, 60, 82, 120, 200)
"""Tasks of one item each."""
RESULTS = Path(__file__).parent / "results"

FACTORIALS = np.array([math.lgamma(n + 1.0) for n in range(20_001)])
"""log n!"""

Drawn: TypeAlias = "tuple[Sequence[Judged], Mapping[str, Truth]]"
"""Labels, and where what they certify is looked up."""


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
        "exact": {str(tasks): exact(tasks) for tasks in EXACT},
        "simulated": {name: simulated(*each, given.repeats) for name, each in POPULATIONS.items()},
        "humaneval": {
            name: recorded(items, given.repeats) for name, items in scored(Path(data), given.scores).items()
        },
    }
    accepts = {name: each["accept"]["cluster"] for name, each in found["simulated"].items()}
    accepts |= {
        f"{score} {precision}": level["anew"]["all"]["cluster"]
        for score, each in found["humaneval"].items()
        for precision, level in each["levels"].items()
    }
    rejects = [each["reject"] for part in ("simulated", "humaneval") for each in found[part].values()]
    found["promises_held"] = all(each["held"] for each in [*accepts.values(), *rejects]) and all(
        chance <= DELTA for chance in found["exact"].values()
    )
    found["half_kept"] = {name: each["kept"] >= 0.5 for name, each in accepts.items()}
    write(given.out, "benchmarks.certified", found)
    print(json.dumps(found, indent=1))
    return (
        0 if found["promises_held"] and found["half_kept"]["hundred"] and found["half_kept"]["alike"] else 1
    )


def most(repeats: int) -> int:
    """The most violations that are not significantly above δ: P(Binomial(repeats, δ) > most) ≤ .05."""
    k = np.arange(repeats + 1)
    logs = FACTORIALS[repeats] - FACTORIALS[k] - FACTORIALS[repeats - k]
    chances = np.exp(logs + k * math.log(DELTA) + (repeats - k) * math.log1p(-DELTA))
    return int(np.searchsorted(np.cumsum(chances), 0.95))


def exact(tasks: int) -> float:
    """The chance that tasks of one item each, right with a chance of `PRECISION`, certify one more precise."""
    total = 0.0
    for right in range(tasks, 0, -1):
        items = [Judged(str(task), 1.0, task < right) for task in range(tasks)]
        if certified(items, precision=PRECISION, confidence=1 - DELTA)[0] is None:
            break
        total += math.comb(tasks, right) * PRECISION**right * (1 - PRECISION) ** (tasks - right)
    return total


class Labels:
    """Labelled items in the order of their scores, the highest first, and the thresholds that may be tried on them."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        scores, right, groups = columns(judged)
        order = np.argsort(-scores, kind="stable")
        self.judged, self.tasks = judged, int(groups.max()) + 1
        self.scores, self.right, self.groups = scores[order], right[order], groups[order]
        ends = np.append(np.flatnonzero(np.diff(self.scores)) + 1, len(order))
        self.ends = sorted({int(end) for end in ends[:: max(len(ends) // 200, 1)]} | {len(order)})
        self.hits = self.right.cumsum()

    def lowest(self, holds: Callable[[int], bool], *, tasks: int = 0, items: int = 0) -> float | None:
        """The last threshold, from the strictest down, before the first that does not hold.

        Those that take items of fewer tasks, or fewer items, are left out.
        """
        best, seen = None, set[int]()
        begin = 0
        for end in self.ends:
            seen.update(self.groups[begin:end].tolist())
            begin = end
            if len(seen) < tasks or end < items:
                continue
            if not holds(end):
                break
            best = float(self.scores[end - 1])
        return best


def cluster(labels: Labels, precision: float) -> float | None:
    """The framework's."""
    return certified(labels.judged, precision=precision, confidence=1 - DELTA)[0]


def iid(labels: Labels, precision: float) -> float | None:
    """The same sequence of thresholds, each item a trial of its own."""

    def holds(end: int) -> bool:
        # The Clopper–Pearson bound is below the precision where so many hits are likelier than δ at that precision.
        k = np.arange(int(labels.hits[end - 1]), end + 1)
        logs = FACTORIALS[end] - FACTORIALS[k] - FACTORIALS[end - k]
        terms = logs + k * math.log(precision) + (end - k) * math.log1p(-precision)
        return float(np.exp(terms).sum()) <= DELTA

    return labels.lowest(holds, items=math.ceil(math.log(DELTA) / math.log(precision)))


def betting(labels: Labels, precision: float) -> float | None:
    """The same sequence, each threshold tested by a wager on every task in turn that its precision is higher."""
    size = np.bincount(labels.groups, minlength=labels.tasks).max()
    turn = np.random.default_rng(SEED).permutation(labels.tasks)
    n = np.arange(1, labels.tasks + 1)

    def holds(end: int) -> bool:
        gained = np.bincount(labels.groups[:end], labels.right[:end] - precision, labels.tasks)[turn] / size
        # What is wagered on a task rests on those before it alone.
        before = np.concatenate([[0.0], gained.cumsum()[:-1]]) / n
        spread = (0.05 + np.concatenate([[0.0], ((gained - before) ** 2).cumsum()[:-1]])) / n
        wager = np.minimum(np.sqrt(2 * math.log(1 / DELTA) / (labels.tasks * spread)), 0.75 / precision)
        return float(np.log1p(wager * gained).cumsum().max()) >= math.log(1 / DELTA)

    return labels.lowest(holds, tasks=min(20, labels.tasks // 4))


def isotonic(labels: Labels, precision: float) -> float | None:
    """The lowest score from which the probabilities of an isotonic regression are as high on average."""
    means = isotonic_regression(labels.right, increasing=False).x.cumsum()
    fit = [end for end in labels.ends if means[end - 1] >= precision * end]
    return float(labels.scores[fit[-1] - 1]) if fit else None


Way: TypeAlias = "Callable[[Labels, float], float | None]"
WAYS: dict[str, Way] = {"cluster": cluster, "iid": iid, "betting": betting, "isotonic": isotonic}


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
    drawn: Callable[[np.random.Generator], Drawn],
    precisions: Sequence[float],
    repeats: int,
    ways: Mapping[str, Way] = WAYS,
) -> dict[float, dict[str, dict[str, Any]]]:
    """Each way on the same draws: by precision, by where it was looked up, by way."""
    found: dict[tuple[float, str, str], tuple[list[bool], list[float], int]] = {}
    rng = np.random.default_rng(SEED)
    for _ in range(repeats):
        judged, truths = drawn(rng)
        labels = Labels(judged)
        for precision in precisions:
            for way, threshold in ((name, each(labels, precision)) for name, each in ways.items()):
                for where, truth in truths.items():
                    best = truth.oracle(precision)
                    hit, share, _ = (1.0, 0.0, 1.0) if threshold is None else truth.at(threshold)
                    broken, kept, certain = found.setdefault((precision, where, way), ([], [], 0))
                    broken.append(hit < precision)
                    kept.append(share / best if best else 0.0)
                    found[precision, where, way] = broken, kept, certain + (threshold is not None)
    told_: dict[float, dict[str, dict[str, Any]]] = {}
    for (precision, where, way), each in found.items():
        told_.setdefault(precision, {}).setdefault(where, {})[way] = told(*each)
    return told_


def simulated(each: int, spread: float, tasks: int, repeats: int) -> dict[str, Any]:
    """Both thresholds, and the probabilities, on fresh tasks of one population."""
    rng = np.random.default_rng(SEED + each)
    # As good as 100 of each: the law is the same.
    judged = population(20_000, rng, min(each, 20), spread)
    truth = Truth(judged)
    return {
        "tasks": tasks,
        "items_of_a_task": each,
        "spread": spread,
        "oracle": truth.oracle(PRECISION),
        "accept": compared(
            lambda rng: (population(tasks, rng, each, spread), {"all": truth}), (PRECISION,), repeats
        )[PRECISION]["all"],
        "reject": rejected(lambda rng: population(tasks, rng, each, spread), truth, repeats),
        "maps": maps(partial(population, tasks, each=each, spread=spread), judged[:20_000], repeats),
    }


def rejected(
    draw: Callable[[np.random.Generator], Sequence[Judged]], truth: Truth, repeats: int
) -> dict[str, Any]:
    """How often a certified rejection loses too much, and how many items it rejects."""
    rng = np.random.default_rng(SEED)
    found = [certified_rejection(draw(rng), lost=LOST, confidence=1 - DELTA)[0] for _ in range(repeats)]
    at = [truth.at(-math.inf if threshold is None else threshold) for threshold in found]
    lost = [gone > LOST for _, _, gone in at]
    return {
        "violated": sum(lost) / repeats,
        "certified": sum(threshold is not None for threshold in found) / repeats,
        "rejected": float(np.mean([1 - share for _, share, _ in at])),
        "held": sum(lost) <= most(repeats),
    }


def maps(
    draw: Callable[[np.random.Generator], Sequence[Judged]], population: Sequence[Judged], repeats: int
) -> dict[str, Any]:
    """How far probabilities that were fitted on one draw hold in the population, on average over draws."""
    scores, right = arrays(population)
    rng = np.random.default_rng(SEED)
    errors: dict[str, list[tuple[float, float]]] = {"platt": [], "isotonic": []}
    for _ in range(repeats):
        labels = Labels(draw(rng))
        slope, intercept = platt(labels.scores, labels.right)
        steps = isotonic_regression(labels.right, increasing=False).x[::-1]
        made = {
            "platt": 1 / (1 + np.exp(-(slope * scores + intercept))),
            "isotonic": np.interp(scores, labels.scores[::-1], steps),
        }
        for name, promised in made.items():
            parts = np.array_split(np.argsort(promised, kind="stable"), 10)
            off = [abs(float(promised[at].mean() - right[at].mean())) for at in parts]
            errors[name].append((float(np.mean(off)), float(((promised - right) ** 2).mean())))
    return {
        name: dict(zip(("calibration_error", "brier"), np.mean(each, axis=0).tolist(), strict=True))
        for name, each in errors.items()
    }


Items: TypeAlias = "dict[str, list[tuple[float, bool]]]"
"""Of every problem its programs' scores and whether they are right."""


def scored(data: Path, kept: Path | None) -> dict[str, Items]:
    """The recorded programs by each score; a program without one is left out."""
    hidden = json.loads((RESULTS / "code_hidden.json").read_text())["verdicts"]["recording"]
    if kept is not None and kept.exists():
        scores = json.loads(kept.read_text())
    else:
        scores = run_tests(data / "humaneval_codegen16b")
        if kept is not None:
            kept.write_text(json.dumps(scores))
    return {
        way: {
            name: [
                (float(score), letter == "p")
                for score, letter in zip(each, hidden[name], strict=True)
                if score is not None
            ]
            for name, each in of.items()
        }
        for way, of in scores.items()
    }


def run_tests(directory: Path) -> dict[str, dict[str, list[float | None]]]:
    """Both scores of every program, in its problem's order; equal programs of a problem are run once."""
    from benchmarks.code.codet import verified
    from benchmarks.code.recorded import load
    from draftverify_code.agreement import agreeing
    from draftverify_code.sandbox import Sandbox

    recordings = load(directory)
    with Sandbox() as sandbox:
        pools = [list(dict.fromkeys(one.programs)) for one in recordings]
        work = [(one.task, pool) for one, pool in zip(recordings, pools, strict=True)]
        found = verified(work, directory / "generated_tests.jsonl", sandbox)
    scores: dict[str, dict[str, list[float | None]]] = {"share": {}, "agreement": {}}
    for one, pool, each in zip(recordings, pools, found, strict=True):
        assert each.evidence is not None
        places = [pool.index(program) for program in one.programs]
        shares = [each.checks[place].score for place in places]
        weights = agreeing(np.asarray(each.evidence.cross)[places])
        scores["share"][one.task.id] = shares
        scores["agreement"][one.task.id] = [
            None if share is None else share * float(weight)
            for share, weight in zip(shares, weights, strict=True)
        ]
    return scores


def recorded(items: Items, repeats: int) -> dict[str, Any]:
    """Thresholds on recorded programs, at several precisions."""
    names = sorted(name for name, each in items.items() if each)

    def judged(chosen: Any) -> list[Judged]:
        return [Judged(f"{place} {name}", *one) for place, name in enumerate(chosen) for one in items[name]]

    everyone = Truth(judged(names))

    def anew(rng: np.random.Generator) -> Drawn:
        return judged(rng.choice(names, TASKS)), {"all": everyone}

    def halves(rng: np.random.Generator) -> Drawn:
        mixed = rng.permutation(names)
        other = Truth(judged(mixed[len(mixed) // 2 :]))
        return judged(mixed[: len(mixed) // 2]), {"other": other, "all": everyone}

    ways = {"anew": compared(anew, LEVELS, repeats), "halves": compared(halves, LEVELS, repeats)}
    return {
        "problems": len(names),
        "programs": sum(map(len, items.values())),
        "right": float(np.mean([right for each in items.values() for _, right in each])),
        "levels": {
            f"{precision:g}": {
                "oracle": everyone.oracle(precision),
                **{name: each[precision] for name, each in ways.items()},
            }
            for precision in LEVELS
        },
        "reject": rejected(lambda rng: anew(rng)[0], everyone, repeats),
        "maps": maps(lambda rng: anew(rng)[0], judged(names), repeats),
    }


if __name__ == "__main__":
    sys.exit(main())
