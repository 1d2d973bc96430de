"""How often a failed task is released, and what the guarantee costs: simulated tasks, and recorded programs.

    python -m benchmarks.release --out benchmarks/results/release.json
    DRAFTVERIFY_DATA=DIR python -m benchmarks.release --programs FILE --out benchmarks/results/release.json
    python -m benchmarks.release --show benchmarks/results/release.json --table failed    # of the docs, nothing is run

Simulated: each of 5,000 runs draws a pool of failed tasks, one more failed task, and one that is solved in some of its
tries, all from one source. A rule looks after every try and may release; `ever` is the share of failed tasks that it
ever released, with the 95 % Clopper–Pearson interval. Looking after every try is the worst that anybody who stops when
he likes can do. Ten tries a task, and for failed tasks and one size of pool a hundred too.

- `release`: above the ⌊α (n + 1)⌋-th highest of the pool's tasks, each by its highest score.
- `single`: above the same rank among all of the pool's scores, as if every try were a task.
- `product`: each try's p-value among the pool's scores at its place becomes an e-value, (1 − p + p ln p)/(p ln² p), and
  the product of them is released from 1/α on: Ville's inequality, if tries of one task did not depend on each other.
- `ranked`: `release` with `evidence: product`, by the library's own p-value.
- `best of n`: no threshold; the best of all tries is the answer, always.

Recorded: CodeGen-16B's programs for HumanEval, scored by the share of generated tests that they pass, and right by the
hidden tests. DIR has the folder `humaneval_codegen16b`; FILE keeps what the programs did, which takes minutes, as
`benchmarks.replay` has it. Problems are split in halves, pool and new tasks, again and again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

from benchmarks.provenance import write
from draftverify.calibration import release_pool

RUNS, TRIES, LONG, ALPHA, RATE, GAP = 5_000, 10, 100, 0.05, 0.3, 3.0
POOLS, LONG_POOL = (19, 60, 200), 60
SPLITS, ALPHAS = 500, (0.05, 0.1, 0.2)
RULES = ("release", "single", "product")
CHECKED, PART = 50, 500

Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
"""Scores, the last axis the tries."""


# ---- sources of failed tasks: [runs, tasks, tries] ----------------------------------------------------------------


def alike(rng: np.random.Generator, shape: tuple[int, int, int]) -> Rows:
    """Tries of all tasks are independent and of one distribution."""
    return rng.standard_normal(shape)


def levels(rng: np.random.Generator, shape: tuple[int, int, int]) -> Rows:
    """Each task has a level of its own, as wide as its tries are."""
    return rng.standard_normal((*shape[:2], 1)) + rng.standard_normal(shape)


def spreads(rng: np.random.Generator, shape: tuple[int, int, int]) -> Rows:
    """Levels with heavy tails, and each task has a spread of its own."""
    own = rng.standard_t(3, (*shape[:2], 1))
    return own + rng.gamma(1.0, 1.0, (*shape[:2], 1)) * rng.standard_normal(shape)


def traps(rng: np.random.Generator, shape: tuple[int, int, int]) -> Rows:
    """One task in twenty has wrong answers that score like right ones."""
    return GAP * (rng.random((*shape[:2], 1)) < 0.05) + rng.standard_normal(shape)


def learning(rng: np.random.Generator, shape: tuple[int, int, int]) -> Rows:
    """Each try scores higher than the one before it, of some tasks more than of others."""
    steps = rng.exponential(0.3, (*shape[:2], 1)) * np.arange(shape[2])
    return steps + rng.standard_normal(shape)


def five_tests(rng: np.random.Generator, shape: tuple[int, int, int]) -> Rows:
    """The share of five tests passed: six scores, many ties."""
    chance = np.broadcast_to(rng.beta(0.5, 2.0, (*shape[:2], 1)), shape)
    return rng.binomial(5, chance) / 5


SOURCES: dict[str, tuple[str, Callable[..., Rows]]] = {
    "alike": ("all tasks alike", alike),
    "levels": ("each task its own level", levels),
    "spreads": ("its own level and spread", spreads),
    "traps": ("one task in twenty a trap", traps),
    "learning": ("scores rise from try to try", learning),
    "five_tests": ("the share of five tests passed", five_tests),
}


def solved(rng: np.random.Generator, name: str, runs: int) -> tuple[Rows, Any]:
    """Tasks of the same source that are solved in some tries: their scores [runs, tries], and which are right."""
    scores = SOURCES[name][1](rng, (runs, 1, TRIES))[:, 0]
    chance = rng.beta(1.5, 1.5 / RATE - 1.5, (runs, 1))
    right = rng.random((runs, TRIES)) < chance
    right[np.arange(runs), rng.integers(TRIES, size=runs)] |= ~right.any(axis=1)
    return np.where(right, 1.0 if name == "five_tests" else scores + GAP, scores), right


# ---- rules: the first try at which each of some tasks is released, or TRIES ----------------------------------------


def thresholds(pools: Rows, alpha: float) -> Rows:
    """[runs], from [runs, scores]: the ⌊α (n + 1)⌋-th highest, or ∞."""
    rank = int(alpha * (pools.shape[1] + 1) + 1e-9)
    if rank < 1:
        return np.full(len(pools), np.inf)
    return -np.partition(-pools, rank - 1, axis=1)[:, rank - 1]


def looked_at(rule: str, pools: Rows, scores: Rows, alpha: float) -> Any:
    """[runs], of pools [runs, n, tries] and tasks [runs, tries]: the place of the released try, `tries` for none."""
    if rule == "ranked":
        parts = [slice(first, first + PART) for first in range(0, len(pools), PART)]
        return np.concatenate([by_product(pools[part], scores[part], alpha) for part in parts])
    if rule == "product":
        n = pools.shape[1]
        p = (1 + (pools >= scores[:, None]).sum(axis=1)) / (n + 1)
        above = np.cumsum(np.log(e_value(p)), axis=1) >= -np.log(alpha)
    else:
        of = pools.max(axis=2) if rule == "release" else pools.reshape(len(pools), -1)
        above = scores > thresholds(of, alpha)[:, None]
    return np.where(above.any(axis=1), above.argmax(axis=1), scores.shape[1])


def by_product(pools: Rows, scores: Rows, alpha: float) -> Any:
    """As `looked_at`: the share of n + 1 tasks whose largest product is as large as the task's own."""
    n, tries = pools.shape[1:]
    own = np.log(e_value((1 + (pools >= scores[:, None]).sum(axis=1)) / (n + 1))).cumsum(axis=1)
    largest = np.maximum.accumulate(own, axis=1)
    alone, beside = stats.rankdata(-pools, method="max", axis=1), scores[:, None] >= pools
    places, left = np.full(len(pools), tries), np.arange(len(pools))
    # From the last try back, since p never rises: where it is too large, it always was.
    for t in range(tries, 0, -1):
        counts = alone[left] + (beside[left] & (np.arange(tries) < t))
        theirs = np.log(e_value(counts / (n + 1))).cumsum(axis=2).max(axis=2)
        above = (theirs >= largest[left, t - 1, None] - 1e-9).sum(axis=1)
        left = left[(1 + above) / (n + 1) <= alpha]
        places[left] = t - 1
    return places


def e_value(p: Rows) -> Rows:
    """(1 − p + p ln p)/(p ln² p), the mean of κ p^(κ − 1) over κ in [0, 1]; ½ at p = 1."""
    p = np.minimum(p, 1 - 1e-4)
    logs = np.log(p)
    return (1 - p + p * logs) / (p * logs * logs)


def check(pools: Rows, scores: Rows) -> None:
    """What is simulated in arrays is what the library's own pool says."""
    for rule, evidence in (("release", "highest"), ("ranked", "product")):
        places = looked_at(rule, pools, scores, ALPHA)
        for pool, own, place in zip(pools.tolist(), scores.tolist(), places, strict=True):
            made, at = release_pool(pool), min(int(place) + 1, len(own))
            # p never rises, so the two tries around the place say all.
            assert (made.p_value(own[:at], evidence) <= ALPHA) == (place < len(own))
            assert at < 2 or place == len(own) or made.p_value(own[: at - 1], evidence) > ALPHA


# ---- figures -------------------------------------------------------------------------------------------------------


def simulated(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each source, size of pool, number of tries and rule; what is solved has TRIES alone."""
    for place, name in enumerate(SOURCES):
        for n, tries in [*((n, TRIES) for n in POOLS), (LONG_POOL, LONG)]:
            rng = np.random.default_rng([seed, n, tries, place])
            tasks = SOURCES[name][1](rng, (runs, n + 1, tries))
            pools, failed = tasks[:, 1:], tasks[:, 0]
            check(pools[:CHECKED], failed[:CHECKED])
            scores, right = solved(rng, name, runs)
            first = right[np.arange(runs), scores.argmax(axis=1)]
            for rule in (*RULES, "ranked"):
                ever = int((looked_at(rule, pools, failed, ALPHA) < tries).sum())
                interval = stats.binomtest(ever, runs).proportion_ci(0.95, "exact")
                row = {"source": name, "pool": n, "tries_at_most": tries, "rule": rule, "ever": ever / runs}
                row |= {"ever_low": interval.low, "ever_high": interval.high}
                if tries == TRIES:
                    row |= power(looked_at(rule, pools, scores, ALPHA), right)
                    row["best_of_n_right"] = float(first.mean())
                yield row


def power(places: Any, right: Any) -> dict[str, float]:
    """Of solved tasks: the share released, the share released with a right answer, and the tries used, all together."""
    tries = right.shape[1]
    released = places < tries
    good = released & right[np.arange(len(right)), np.minimum(places, tries - 1)]
    return {
        "released": float(released.mean()),
        "released_right": float(good.mean()),
        "tries": float(np.minimum(places + 1, tries).mean()),
    }


def recorded(programs: Any, seed: int) -> dict[str, Any]:
    """The figures of recorded programs.

    `wrong_only`: every problem is made a failed one, TRIES wrong programs of it in an order drawn anew. `as_run`: TRIES
    programs of each, right or wrong; those without a right one are the failed ones.
    """
    scores = np.array([each.scores for each in programs])
    right = np.array([[letter == "p" for letter in each.alone] for each in programs])
    rng = np.random.default_rng(seed)
    wanted = {
        (part, rule, alpha): []
        for part in ("wrong_only", "as_run")
        for rule in (*RULES, "ranked")
        for alpha in ALPHAS
    }
    found: dict[Any, list[Any]] = dict(wanted)
    best: list[float] = []
    enough = (~right).sum(axis=1) >= TRIES
    for _ in range(SPLITS):
        half = rng.permutation(len(scores)) < len(scores) // 2
        drawn = np.argsort(rng.random(scores.shape), axis=1)
        tries = np.take_along_axis(scores, drawn, axis=1)
        hits = np.take_along_axis(right, drawn, axis=1)
        wrong = np.array(
            [
                row[~hit][:TRIES] if ok else [0] * TRIES
                for row, hit, ok in zip(tries, hits, enough, strict=True)
            ]
        )
        tries, hits = tries[:, :TRIES], hits[:, :TRIES]
        failed = ~hits.any(axis=1)
        answered = hits[np.arange(len(hits)), tries.argmax(axis=1)]
        best.append(float(answered[~half & ~failed].mean()))
        for (part, rule, alpha), rows in found.items():
            of, pool = (wrong, enough & half) if part == "wrong_only" else (tries, failed & half)
            new = (enough if part == "wrong_only" else failed) & ~half
            if rule == "ranked":
                places = ranked(of[pool], of, half, alpha)
            else:
                spread = np.broadcast_to(of[pool], (len(of), *of[pool].shape))
                places = looked_at(rule, spread, of, alpha)
            ever = places[new] < TRIES
            row = {"ever": float(ever.mean()), "pool": int(pool.sum()), "new": int(new.sum())}
            if part == "as_run":
                others = ~failed & ~half
                row |= power(places[others], hits[others])
            rows.append(row)
    rows = [
        {"part": part, "rule": rule, "alpha": alpha}
        | {key: float(np.mean([each[key] for each in of])) for key in of[0]}
        | {"splits": len(of)}
        for (part, rule, alpha), of in found.items()
    ]
    return {
        "problems": len(scores),
        "with_enough_wrong": int(enough.sum()),
        "pass_at_1": float(right.mean()),
        "best_of_n_right": float(np.mean(best)),
        "rows": rows,
    }


def ranked(pool: Rows, scores: Rows, known: Any, alpha: float) -> Any:
    """As `looked_at`, by the library's own p-value of the product; of tasks that are in the pool nothing is said."""
    places = np.full(len(scores), scores.shape[1])
    for index in np.flatnonzero(~known):
        places[index] = released(pool, scores[index], alpha)
    return places


def released(pool: Rows, scores: Rows, alpha: float) -> int:
    """The place of the try at which a task is released by the product, or how many it has."""
    made, own = release_pool(pool.tolist()), scores.tolist()
    # p never rises: where it is too large after the last try, it always was.
    if made.p_value(own, "product") > alpha:
        return len(own)
    return next(t for t in range(len(own)) if made.p_value(own[: t + 1], "product") <= alpha)


# ---- the docs' tables ------------------------------------------------------------------------------------------------


def failed_shown(found: Mapping[str, Any]) -> str:
    """The table of failed tasks in docs/release.md."""
    cells = {(row["source"], row["pool"], row["tries_at_most"], row["rule"]): row for row in found["rows"]}
    looks = [*((n, TRIES) for n in POOLS), (LONG_POOL, LONG)]
    rules = ("release", "ranked", "single", "product")
    lines = [
        "| failed tasks | `release` | `release` by the product | single scores | product of e-values |",
        "|---|---|---|---|---|",
    ]
    for name, (told, _) in SOURCES.items():
        own = [" / ".join(percent(cells[(name, *look, rule)]["ever"]) for look in looks) for rule in rules]
        lines.append(f"| {told} | {' | '.join(own)} |")
    return "\n".join(lines)


def solved_shown(found: Mapping[str, Any]) -> str:
    """The table of solved tasks there."""
    cells = {
        (row["source"], row["rule"]): row for row in found["rows"] if row["pool"] == 60 and "tries" in row
    }
    lines = [
        "| solved tasks | `release`: released | right | tries | by the product: released | right | tries | single "
        "scores: released | right | tries | best of 10: right |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (told, _) in SOURCES.items():
        line = [told]
        for rule in ("release", "ranked", "single"):
            row = cells[name, rule]
            line += [percent(row["released"]), percent(row["released_right"]), f"{row['tries']:.1f}"]
        line.append(percent(cells[name, "release"]["best_of_n_right"]))
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def recorded_shown(found: Mapping[str, Any]) -> str:
    """The table of recorded programs there."""
    cells = {(row["part"], row["rule"], row["alpha"]): row for row in found["recorded"]["rows"]}
    lines = [
        "| α | rule | wrong programs alone: released | as run, failed tasks: released | solved tasks: released | "
        "right | tries |",
        "|---|---|---|---|---|---|---|",
    ]
    names = {
        "release": "`release`",
        "ranked": "`release` by the product",
        "single": "single scores",
        "product": "product of e-values",
    }
    for alpha in ALPHAS:
        for rule in ("release", "ranked", "single", "product"):
            alone, run = cells["wrong_only", rule, alpha], cells["as_run", rule, alpha]
            shares = [alone["ever"], run["ever"], run["released"], run["released_right"]]
            told = " | ".join(map(percent, shares))
            lines.append(f"| {alpha:g} | {names[rule]} | {told} | {run['tries']:.1f} |")
    return "\n".join(lines)


TABLES = {"failed": failed_shown, "solved": solved_shown, "recorded": recorded_shown}


def percent(share: float) -> str:
    """0.0512 as 5.1 %."""
    return f"{100 * share:.1f} %"


def main() -> None:
    """Simulate, replay what is recorded, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--programs", type=Path, help="where what the recorded programs did is kept")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument(
        "--show", type=Path, help="print a table of the docs of these results, and run nothing"
    )
    parser.add_argument("--table", choices=TABLES, default="failed", help="which one")
    given = parser.parse_args()
    if given.show is not None:
        print(TABLES[given.table](json.loads(given.show.read_text())))
        return
    rows = []
    for row in simulated(given.runs, given.seed):
        rows.append(row)
        told = ", ".join(f"{key} {value:.4f}" for key, value in row.items() if isinstance(value, float))
        print(
            f"{row['source']:10} pool {row['pool']:3} tries {row['tries_at_most']:3} {row['rule']:8} {told}",
            flush=True,
        )
    kept = all(row["ever_low"] <= ALPHA for row in rows if row["rule"] in ("release", "ranked"))
    print(f"release kept its α everywhere, as far as {given.runs} runs can tell: {kept}")
    found = {
        "runs": given.runs,
        "seed": given.seed,
        "alpha": ALPHA,
        "tries": TRIES,
        "gap": GAP,
        "kept_alpha": kept,
        "rows": rows,
        "recorded": None,
    }
    data = os.environ.get("DRAFTVERIFY_DATA")
    if data is None:
        print("recorded programs: DRAFTVERIFY_DATA is not set, so they are left out")
    else:
        from benchmarks.code.programs import programs

        found["recorded"] = recorded(
            programs(Path(data) / "humaneval_codegen16b", given.programs), given.seed
        )
        print(json.dumps(found["recorded"], indent=1))
    if given.out is not None:
        write(given.out, "benchmarks.release", found)


if __name__ == "__main__":
    main()
