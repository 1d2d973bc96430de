"""How often a stopping rule elects the wrong answer, and what it saves: simulated votes of known distributions.

    python -m benchmarks.stopping --out benchmarks/results/stopping.json
    python -m benchmarks.stopping --show benchmarks/results/stopping.json    # the docs' table, nothing is run

Each pool is a sequence of independent ballots. A rule looks after every ballot and stops a vote; the answer that leads
then is its answer. Said of each rule, distribution and α: the share of votes that it ever stops with another answer
than the most likely one (its error, with the 95 % Clopper–Pearson interval), the ballots that it used, how often it was
still going on at the end, and how often its answer is that of the full vote of `FULL` ballots. `sure_majority` must
keep its error at or below α on every distribution, whatever the horizon; the last line says whether it did.
`adaptive_consistency` stands beside it at confidence 1 − α, which is not a promise about the whole vote.

Where the first two answers are nearly equally likely every stop is nearly a toss, so there the error is hardest to
keep; such distributions are looked at for `LONG` ballots. The pools are gone through all at once, in arrays; of the
first `CHECKED` of each distribution the evidence is compared with the library's own, ballot for ballot.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

from benchmarks.provenance import write
from draftverify.rules import leader_confidence, leader_evidence
from draftverify.rules.stopping import log_capital

POOLS, FULL, LONG, CHECKED = 10_000, 40, 400, 20
RULES = ("sure_majority", "adaptive_consistency")
ALPHAS = (0.05, 0.1)
HAIR = 1e-6
DISTRIBUTIONS: dict[str, tuple[float, ...]] = {
    "sure": (0.9, 0.1),
    "clear": (0.6, 0.2, 0.1, 0.1),
    "lead of .10": (0.4, 0.3, 0.2, 0.1),
    "lead of .04": (0.32, 0.28, 0.25, 0.15),
    "lead of .02, two": (0.51, 0.49),
    "a hair, two": (0.5 + HAIR, 0.5 - HAIR),
    "a hair, three": (1 / 3 + HAIR, *[1 / 3 - HAIR / 2] * 2),
    "a hair, ten": (0.1 + HAIR, *[0.1 - HAIR / 9] * 9),
    "a hair, then a tail": (0.3 + HAIR, 0.3 - HAIR, *[0.4 / 40] * 40),
}


Votes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
"""[pools, ballots], answers by their numbers."""


def looked_at(votes: Votes, answers: int) -> Iterator[tuple[Votes, Any, Any]]:
    """After each ballot of all pools: the leader [pools], log E_b of the rival that is least refuted, as
    `leader_evidence` has it, and the confidence of `adaptive_consistency`."""
    pools, ballots = votes.shape
    capital, confidence = _table(ballots, log_capital), _table(ballots, leader_confidence)
    rows = np.arange(pools)
    # The last answer is one that nobody ever votes for.
    counts, hits, against = (np.zeros((pools, answers + 1), dtype=np.int64) for _ in range(3))
    rank = np.full((pools, answers + 1), -np.inf)  # by ballots, of equals the earliest first ballot
    for t in range(ballots):
        vote = votes[:, t]
        first = rank.argmax(axis=1)
        others = rank.copy()
        others[rows, first] = -np.inf
        second = others.argmax(axis=1)
        contested = others[rows, second] > 0
        if t:
            led, hit = hits[rows, first], vote == first
            hits += hit[:, None]
            hits[rows, first] = led + (contested & (vote == second))
            against[rows, vote] += ~hit | contested
        counts[rows, vote] += 1
        fresh = counts[rows, vote] == 1
        rank[rows, vote] = np.where(fresh, 1 - (t + 1) / (ballots + 1), rank[rows, vote] + 1)
        leader = rank.argmax(axis=1)
        logs = capital[hits, against]
        logs[rows, leader] = np.inf
        top = np.partition(counts, -2, axis=1)[:, -2:]
        yield leader, logs.min(axis=1), confidence[top[:, 1], top[:, 0]]


@cache
def _table(ballots: int, of: Callable[[int, int], float]) -> Any:
    """[ballots + 1, ballots + 1], of two counts that are no more than the ballots together."""
    found = np.full((ballots + 1, ballots + 1), np.nan)
    for first in range(ballots + 1):
        for second in range(ballots + 1 - first):
            found[first, second] = of(first, second)
    return found


def check(votes: Votes, answers: int) -> None:
    """What is looked at is what the library's own function says, ballot for ballot."""
    found = np.stack([logs for _, logs, _ in looked_at(votes, answers)], axis=1)
    expected = [list(leader_evidence(own)) for own in votes.tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def figures(votes: Votes, chances: Sequence[float], horizons: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The figures of both rules on one distribution, at each horizon and α."""
    best, pools = int(np.argmax(chances)), len(votes)
    stops = {(rule, alpha): np.full(pools, LONG + 1) for rule in RULES for alpha in ALPHAS}
    leaders = []
    for n, (leader, logs, confidence) in enumerate(looked_at(votes, len(chances)), 1):
        leaders.append(leader)
        for (rule, alpha), stop in stops.items():
            sure = logs >= -math.log(alpha) if rule == "sure_majority" else confidence >= 1 - alpha
            stop[sure & (stop > n)] = n
    led = np.stack(leaders, axis=1)
    for horizon, rule, alpha in product(horizons, RULES, ALPHAS):
        stop = stops[rule, alpha]
        stopped, used = stop <= horizon, np.minimum(stop, horizon)
        answer = led[np.arange(pools), used - 1]
        wrong = int((stopped & (answer != best)).sum())
        interval = stats.binomtest(wrong, pools).proportion_ci(0.95, "exact")
        yield {
            "rule": rule,
            "alpha": alpha,
            "horizon": horizon,
            "error": wrong / pools,
            "error_low": interval.low,
            "error_high": interval.high,
            "not_stopped": float((~stopped).mean()),
            "ballots_mean": float(used.mean()),
            "ballots_median": float(np.median(used)),
            "right_at_the_end": float((answer == best).mean()),
            "agrees_with_full_vote": float((answer == led[:, FULL - 1]).mean()),
        }


SHOWN = {"sure": FULL, "clear": FULL, "lead of .10": FULL, "lead of .02, two": FULL, "a hair, two": LONG}
"""The distributions that stand in the docs, each at one horizon."""


def shown(found: dict[str, Any]) -> str:
    """The table in docs/rules/stopping.md."""
    cells = {(row["distribution"], row["horizon"], row["rule"], row["alpha"]): row for row in found["rows"]}
    lines = [
        "| the answers' chances | ballots looked at | error of `sure_majority` | ballots it used | "
        "error of `adaptive_consistency` | ballots it used |",
        "|---|---|---|---|---|---|",
    ]
    for name, horizon in SHOWN.items():
        chances = ", ".join(f"{chance:.2g}".removeprefix("0") for chance in DISTRIBUTIONS[name])
        line = [chances if "hair" not in name else ".5 and a hair less", str(horizon)]
        for rule in RULES:
            of = [cells[name, horizon, rule, alpha] for alpha in ALPHAS]
            line.append(" / ".join(f"{row['error']:.4f}".removeprefix("0") for row in of))
            line.append(" / ".join(f"{row['ballots_mean']:.1f}" for row in of))
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines)


def main() -> None:
    """Simulate, print a line for each, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pools", type=int, default=POOLS)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--show", type=Path, help="print the docs' table of these results and run nothing")
    given = parser.parse_args()
    if given.show is not None:
        print(shown(json.loads(given.show.read_text())))
        return
    rng = np.random.default_rng(given.seed)
    rows = []
    for name, chances in DISTRIBUTIONS.items():
        near = sorted(chances)[-1] - sorted(chances)[-2] < 0.05
        horizons = (FULL, LONG) if near else (FULL,)
        votes = rng.choice(len(chances), size=(given.pools, horizons[-1]), p=chances)
        check(votes[:CHECKED], len(chances))
        for row in figures(votes, chances, horizons):
            rows.append({"distribution": name, "chances": list(chances), **row})
            print(
                f"{name:20} {row['horizon']:4} {row['rule']:21} α {row['alpha']:.2f}: error {row['error']:.4f} "
                f"[{row['error_low']:.4f}, {row['error_high']:.4f}], ballots {row['ballots_mean']:.1f}, "
                f"not stopped {row['not_stopped']:.3f}, as the full vote {row['agrees_with_full_vote']:.3f}",
                flush=True,
            )
    kept = all(row["error"] <= row["alpha"] for row in rows if row["rule"] == "sure_majority")
    print(f"sure_majority kept its α everywhere: {kept}")
    if given.out is not None:
        found = {
            "pools": given.pools,
            "seed": given.seed,
            "full_vote": FULL,
            "sure_majority_kept_alpha": kept,
        }
        write(given.out, "benchmarks.stopping", {**found, "rows": rows})


if __name__ == "__main__":
    main()
