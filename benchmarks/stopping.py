"""How often a stopping rule elects the wrong answer, and what it saves: simulated votes of known distributions.

    python -m benchmarks.stopping --out benchmarks/results/stopping.json

Each pool is a sequence of independent ballots. A rule looks after every ballot and stops a vote; the answer that leads
then is its answer. Said of each rule, distribution and α: the share of votes that it ever stops with another answer
than the most likely one (its error, with the 95 % Clopper–Pearson interval), the ballots that it used, how often it was
still going on at the end, and how often its answer is that of the full vote of `FULL` ballots. `sure_majority` must
keep its error at or below α on every distribution, whatever the horizon; the last line says whether it did.
`adaptive_consistency` stands beside it at confidence 1 − α, which is not a promise about the whole vote.

Where the first two answers are nearly equally likely every stop is nearly a toss, so there the error is hardest to
keep; such distributions are looked at for `LONG` ballots.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.provenance import write
from draftverify.rules import leader_confidence, leader_evidence

POOLS, FULL, LONG = 10_000, 40, 400
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


def adaptive(votes: Sequence[int]) -> Iterator[float]:
    """After each ballot, how sure `adaptive_consistency` is."""
    counts: Counter[int] = Counter()
    for vote in votes:
        counts[vote] += 1
        first, second = ([n for _, n in counts.most_common(2)] + [0])[:2]
        yield _confidence(first, second)


_known: dict[tuple[int, int], float] = {}


def _confidence(first: int, second: int) -> float:
    if (first, second) not in _known:
        _known[first, second] = leader_confidence(first, second)
    return _known[first, second]


def leader(votes: Sequence[int]) -> int:
    """The answer with the most ballots, of equals the one with the earliest."""
    counts = Counter(votes)  # in the order of first ballots
    return max(counts, key=counts.__getitem__)


def looked_at(pools: Sequence[Sequence[int]], rule: str, horizon: int) -> list[dict[str, Any]]:
    """What the rule does in each pool, at each α.

    Returns:
        For each α the stops (None for none within the horizon) and the answers then, or at the end.
    """
    found: list[dict[str, Any]] = [{"stops": [], "answers": []} for _ in ALPHAS]
    for votes in pools:
        if rule == "sure_majority":
            signal, bars = leader_evidence(votes[:horizon]), [-math.log(alpha) for alpha in ALPHAS]
        else:
            signal, bars = adaptive(votes[:horizon]), [1 - alpha for alpha in ALPHAS]
        stops: list[int | None] = [None for _ in ALPHAS]
        for n, value in enumerate(signal, 1):
            for place, bar in enumerate(bars):
                if stops[place] is None and value >= bar:
                    stops[place] = n
            if None not in stops:
                break
        for one, stop in zip(found, stops, strict=True):
            one["stops"].append(stop)
            one["answers"].append(leader(votes[: stop or horizon]))
    return found


def figures(
    pools: list[list[int]], chances: Sequence[float], rule: str, horizon: int
) -> list[dict[str, Any]]:
    """The figures of a rule on one distribution, at each α."""
    best = int(np.argmax(chances))
    full = [leader(votes[:FULL]) for votes in pools]
    rows = []
    for alpha, one in zip(ALPHAS, looked_at(pools, rule, horizon), strict=True):
        stopped = [place for place, stop in enumerate(one["stops"]) if stop is not None]
        wrong = sum(one["answers"][place] != best for place in stopped)
        interval = stats.binomtest(wrong, len(pools)).proportion_ci(0.95, "exact")
        used = [stop if stop is not None else horizon for stop in one["stops"]]
        rows.append(
            {
                "rule": rule,
                "alpha": alpha,
                "horizon": horizon,
                "error": wrong / len(pools),
                "error_low": interval.low,
                "error_high": interval.high,
                "not_stopped": 1 - len(stopped) / len(pools),
                "ballots_mean": float(np.mean(used)),
                "ballots_median": float(np.median(used)),
                "right_at_the_end": sum(answer == best for answer in one["answers"]) / len(pools),
                "agrees_with_full_vote": sum(map(int.__eq__, one["answers"], full)) / len(pools),
            }
        )
    return rows


def main() -> None:
    """Simulate, print a line for each, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pools", type=int, default=POOLS)
    parser.add_argument("--seed", type=int, default=2026)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    rows = []
    for name, chances in DISTRIBUTIONS.items():
        near = sorted(chances)[-1] - sorted(chances)[-2] < 0.05
        pools = rng.choice(len(chances), size=(given.pools, LONG), p=chances).tolist()
        for horizon in (FULL, LONG) if near else (FULL,):
            for rule in ("sure_majority", "adaptive_consistency"):
                for row in figures(pools, chances, rule, horizon):
                    rows.append({"distribution": name, "chances": list(chances), **row})
                    print(
                        f"{name:20} {horizon:4} {rule:21} α {row['alpha']:.2f}: error {row['error']:.4f} "
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
