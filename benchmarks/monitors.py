"""How often a monitor alarms when nothing has changed, how soon when something has, and how often it names the part.

    python -m benchmarks.monitors --out benchmarks/results/monitors.json
    python -m benchmarks.monitors --show FILE --table delay    # of the docs, nothing is run

Simulated tasks of one draft each, so that all runs are made at once: with hits and misses alone the wealth has a closed
form, for a known rate and for an estimated one. On the first runs it is compared with the monitor's own, step by step.

`false alarms`: 10,000 runs of 2,000 tasks at an unchanged rate of .8; in how many there ever was an alarm. `wald` looks
at the 95 % Wald interval after each task from the 30th on, and alarms when it does not hold the known rate.

`delay`: the rate falls from .8 to .7, at once or after 500 unchanged tasks; how many tasks later the alarm comes
(quantiles over 10,000 runs of those that had no alarm before, `never` within 2,000 tasks being the longest).

`naming`: π, T and F are .7, .95 and .1; after a reference of 500 tasks with labels one of them changes, and of the
tasks that follow every 20th, every 10th or each has a label. `first` is what is said at the first alarm, `end` what is
said after 3,000 tasks: the changed part alone ("right"), another or one more ("wrong"), "cannot tell", or no alarm at
all ("silent").
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify.calibration import Estimate, Monitor, RateMonitor, Shares, part_of
from draftverify.calibration.intervals import rate
from draftverify.calibration.monitor import FIRST, OUTSIDE, SEARCH

LEVEL, RATE, AFTER, STEPS, RUNS, BLOCK, FIRST_LOOK, Z = (
    0.05,
    0.8,
    0.7,
    2_000,
    10_000,
    500,
    30,
    1.959963984540054,
)
REFERENCES, UNCHANGED = (100, 1_000), 500
BEFORE = {"right": 0.7, "true_pass": 0.95, "false_pass": 0.1}
CHANGES: dict[str, tuple[str, dict[str, float]]] = {
    "nothing": ("", {}),
    "generator, π to .5": ("generator", {"right": 0.5}),
    "verifier, T to .75": ("verifier", {"true_pass": 0.75}),
    "verifier, F to .4": ("verifier", {"false_pass": 0.4}),
}
EVERY, LABELLED, NAMED_STEPS, NAMED_RUNS = (20, 10, 1), 500, 3_000, 2_000
NEVER = np.iinfo(np.int64).max

LOG = np.concatenate([[0.0], np.log(np.arange(1, 20_000)).cumsum()])
"""log n!."""

Array = np.ndarray[Any, Any]


# ---- the wealth of many runs at once ------------------------------------------------------------------------------


def mixture(k: Array, n: Array) -> Array:
    """log ∫ q^k (1 − q)^(n − k) dq, of k hits in n."""
    found: Array = LOG[k] + LOG[n - k] - LOG[n + 1]
    return found


def known(hits: Array, p: float) -> Array:
    """log of the wealth against a known rate: [runs, steps]."""
    k, t = hits.cumsum(axis=1), np.arange(1, hits.shape[1] + 1)
    found: Array = mixture(k, t) - k * np.log(p) - (t - k) * np.log(1.0 - p)
    return found


def estimated(hits: Array, k0: Array, n0: Array, level: float) -> Array:
    """log of the least wealth against the rates that k0 hits in n0 do not refute: [runs, steps].

    The mixture over alternatives of all hits up to s, times that of those after s, is one gambler's; where "unchanged"
    means p, each is divided by the same p^K (1 − p)^(N − K), so the least is at K/N, or at the end nearest to it.
    """
    runs, steps = hits.shape
    t = np.arange(1, steps + 1)
    after = hits.cumsum(axis=1)
    k, n = k0[:, None] + after, n0[:, None] + t
    starts = [0]
    while FIRST << (len(starts) - 1) < steps:
        starts.append(FIRST << (len(starts) - 1))
    playing = 1 + np.searchsorted(np.array(starts[1:]), t, side="left")  # gamblers by each step
    wealth = mixture(k, n) - np.log(playing + 1.0)
    for place, start in enumerate(starts, start=1):
        begun = after[:, start - 1][:, None] if start else np.zeros((runs, 1), dtype=int)
        own = slice(start, None)
        before = mixture(k0 + begun[:, 0], n0 + start)[:, None]
        added = (
            mixture(after[:, own] - begun, (t[own] - start)[None, :]) + before - np.log(place * (place + 1.0))
        )
        wealth[:, own] = np.logaddexp(wealth[:, own], added)
    low, high = bounds(k0, n0, level)
    p = np.clip(k / n, low[:, None], high[:, None])
    found: Array = wealth - k * np.log(p) - (n - k) * np.log(1.0 - p)
    return found


def bounds(k0: Array, n0: Array, level: float) -> tuple[Array, Array]:
    """The least and the greatest rate that a reference does not refute."""
    p = np.sin((np.arange(SEARCH) + 0.5) * (np.pi / 2 / SEARCH)) ** 2
    against = mixture(k0, n0)[:, None] - k0[:, None] * np.log(p) - (n0 - k0)[:, None] * np.log(1.0 - p)
    stays = against < -np.log(OUTSIDE * level)
    return p[stays.argmax(axis=1)], p[SEARCH - 1 - stays[:, ::-1].argmax(axis=1)]


def first(over: Array) -> Array:
    """Of each run the first step at which it holds; NEVER where there is none."""
    return np.where(over.any(axis=1), over.argmax(axis=1), NEVER)


def compare(own: Any, tell: Any, evidence: Array, steps: int) -> None:
    """Raise where the monitor itself says another evidence than the closed form of the first run."""
    for step in range(steps):
        tell(own, step)
        if abs(own.evidence - evidence[step]) > 0.1:
            raise AssertionError(
                f"step {step}: the monitor's evidence is {own.evidence}, not {evidence[step]}"
            )


# ---- false alarms and delays --------------------------------------------------------------------------------------


def false_alarms(rng: np.random.Generator) -> dict[str, Any]:
    """In how many runs there is ever an alarm, at an unchanged rate."""
    counts = dict.fromkeys(["wald", "known", *map(str, REFERENCES)], 0)
    for block in range(RUNS // BLOCK):
        hits = (rng.random((BLOCK, STEPS)) < RATE).astype(int)
        t = np.arange(1, STEPS + 1)
        share = hits.cumsum(axis=1) / t
        off = np.abs(share - RATE) > Z * np.sqrt(share * (1.0 - share) / t)
        counts["wald"] += int(off[:, FIRST_LOOK - 1 :].any(axis=1).sum())
        evidence = known(hits, RATE)
        counts["known"] += int((evidence >= -np.log(LEVEL)).any(axis=1).sum())
        if not block:
            compare(
                RateMonitor(RATE), lambda own, i, hits=hits: own.observe(float(hits[0, i])), evidence[0], 300
            )
        for size in REFERENCES:
            before = rng.binomial(size, RATE, BLOCK)
            evidence = estimated(hits, before, np.full(BLOCK, size), LEVEL)
            counts[str(size)] += int((evidence >= -np.log((1.0 - OUTSIDE) * LEVEL)).any(axis=1).sum())
            if not block:
                own = RateMonitor([1.0] * int(before[0]) + [0.0] * int(size - before[0]), level=LEVEL)
                compare(own, lambda own, i, hits=hits: own.observe(float(hits[0, i])), evidence[0], 300)
    return {name: figure(share_of(count, RUNS)) for name, count in counts.items()}


def delays(rng: np.random.Generator) -> dict[str, Any]:
    """How many tasks after a fall from RATE to AFTER the alarm comes."""
    found: dict[str, Any] = {}
    for unchanged in (0, UNCHANGED):
        late: dict[str, list[Array]] = {name: [] for name in ("known", *map(str, REFERENCES))}
        for _ in range(RUNS // BLOCK):
            chance = np.where(np.arange(unchanged + STEPS) < unchanged, RATE, AFTER)
            hits = (rng.random((BLOCK, unchanged + STEPS)) < chance).astype(int)
            late["known"].append(first(known(hits, RATE) >= -np.log(LEVEL)))
            for size in REFERENCES:
                before = rng.binomial(size, RATE, BLOCK)
                evidence = estimated(hits, before, np.full(BLOCK, size), LEVEL)
                late[str(size)].append(first(evidence >= -np.log((1.0 - OUTSIDE) * LEVEL)))
        for name, each in late.items():
            steps = np.concatenate(each)
            steps = steps[steps >= unchanged]
            seen = np.where(steps == NEVER, NEVER, steps - unchanged + 1)
            ends = {f"{q:g}": int(np.quantile(seen, q, method="higher")) for q in (0.1, 0.5, 0.9)}
            found[f"{name}, after {unchanged}"] = {
                "median": ends["0.5"] if ends["0.5"] < NEVER else None,
                "tenth": ends["0.1"] if ends["0.1"] < NEVER else None,
                "ninetieth": ends["0.9"] if ends["0.9"] < NEVER else None,
                "never": float((seen == NEVER).mean()),
                "runs": len(seen),
            }
    return found


# ---- which part ---------------------------------------------------------------------------------------------------


def naming(rng: np.random.Generator) -> dict[str, Any]:
    """What the monitor says changed, at its first alarm and in the end."""
    level = LEVEL / 4
    found: dict[str, Any] = {}
    for change, (part, now) in CHANGES.items():
        alarms: dict[int, list[Array]] = {every: [] for every in EVERY}
        for block in range(NAMED_RUNS // BLOCK):
            before, after = drawn(rng, BEFORE, LABELLED), drawn(rng, {**BEFORE, **now}, NAMED_STEPS)
            for every in EVERY:
                labels = np.arange(NAMED_STEPS) % every == 0
                steps = [of_rate(name, before, after, labels, level)[0] for name in RATES]
                alarms[every].append(np.stack(steps, axis=1))
            if not block:
                compare_monitor(before, after, EVERY[1], alarms[EVERY[1]][0])
        found[change] = {f"every {every}": said(np.concatenate(alarms[every]), part) for every in EVERY}
    return found


RATES = ("acceptance", "right", "true_pass", "false_pass")


def drawn(rng: np.random.Generator, rates: Mapping[str, float], tasks: int) -> tuple[Array, Array]:
    """Whether drafts are right and whether they are accepted, each [runs, tasks]."""
    right = rng.random((BLOCK, tasks)) < rates["right"]
    chance = np.where(right, rates["true_pass"], rates["false_pass"])
    return right, rng.random((BLOCK, tasks)) < chance


def told(name: str, right: Array, accepted: Array, labels: Array) -> tuple[Array, Array]:
    """What each task says of a rate, and whether it says anything."""
    if name == "acceptance":
        return accepted, np.ones_like(accepted)
    if name == "right":
        return right, np.broadcast_to(labels, right.shape)
    return accepted, labels & (right if name == "true_pass" else ~right)


def of_rate(
    name: str, before: tuple[Array, Array], after: tuple[Array, Array], labels: Array, level: float
) -> tuple[Array, Array]:
    """Of each run the task at which a rate alarms, and the evidence in the order of what was told."""
    hits, says = told(name, *before, np.ones(before[0].shape[1], dtype=bool))
    k0, n0 = (hits & says).sum(axis=1), says.sum(axis=1)
    hits, says = told(name, *after, labels)
    order = np.argsort(~says, axis=1, kind="stable")[:, : says.sum(axis=1).max()]
    told_of = np.take_along_axis(says, order, axis=1)
    evidence = estimated(np.take_along_axis(hits, order, axis=1).astype(int), k0, n0, level)
    at = first((evidence >= -np.log((1.0 - OUTSIDE) * level)) & told_of)
    there = np.minimum(at, order.shape[1] - 1)
    return np.where(at == NEVER, NEVER, np.take_along_axis(order, there[:, None], axis=1)[:, 0]), evidence


def compare_monitor(
    before: tuple[Array, Array], after: tuple[Array, Array], every: int, steps: Array
) -> None:
    """Raise where the monitor itself alarms elsewhere in the first runs than the closed form has it."""

    def shares(right: bool, accepted: bool, labelled: bool) -> Shares:
        passed = float(accepted)
        if not labelled:
            return Shares(acceptance=passed)
        own = {"true_pass": passed} if right else {"false_pass": passed}
        return Shares(acceptance=passed, right=float(right), **own)

    for run in range(3):
        reference = [shares(r, a, True) for r, a in zip(before[0][run], before[1][run], strict=True)]
        monitor = Monitor(reference, level=LEVEL, metric=lambda task, outcome: None)
        for task in range(600):
            monitor.observe(str(task), shares(after[0][run, task], after[1][run, task], task % every == 0))
        own = {alarm.rate: int(alarm.task) for alarm in monitor.alarms}
        ours = {name: int(at) for name, at in zip(RATES, steps[run], strict=True) if at < 600}
        # The closed form bets on all alternatives, the monitor on fifty of them.
        if set(own) ^ set(ours) or any(abs(own[name] - ours[name]) > 2 * every for name in own):
            raise AssertionError(f"the monitor alarms at {own}, and not at {ours}")


def said(steps: Array, part: str) -> dict[str, Any]:
    """What is said at the first alarm, and in the end; and how many tasks that took."""
    soonest = steps.min(axis=1)
    found: dict[str, Any] = {}
    for when, seen in (("first", (steps == soonest[:, None]) & (steps < NEVER)), ("end", steps < NEVER)):
        words = [part_of(name for name, yes in zip(RATES, row, strict=True) if yes) for row in seen]
        some = seen.any(axis=1)
        counts = {"right": 0, "wrong": 0, "cannot tell": 0, "silent": int((~some).sum())}
        for word, alarm in zip(words, some, strict=True):
            if alarm:
                counts["cannot tell" if word == "cannot tell" else "right" if word == part else "wrong"] += 1
        found[when] = {name: figure(share_of(count, len(steps))) for name, count in counts.items()}
    own = {"generator": [1], "verifier": [2, 3]}.get(part)
    named = steps[:, own].min(axis=1) if own else None
    found["tasks to an alarm"] = median(soonest)
    found["tasks to the name"] = None if named is None else median(named)
    return found


def median(steps: Array) -> int | None:
    """Tasks until half of the runs have it; None where fewer ever do."""
    middle = int(np.quantile(steps, 0.5, method="higher"))
    return None if middle == NEVER else middle + 1


def share_of(count: int, of: int) -> Estimate:
    """A share of independent runs with its 95 % interval."""
    return rate([1.0] * count + [0.0] * (of - count), [1.0] * of)


def figure(estimate: Estimate) -> dict[str, float]:
    """As plain JSON."""
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def show_delay(found: Mapping[str, Any]) -> None:
    """Print how late the alarms come as a table of the docs."""
    print("| reference | at once | after 500 unchanged tasks |")
    print("|---|---|---|")
    for name in ("known", *map(str, REFERENCES)):
        cells = []
        for unchanged in (0, UNCHANGED):
            each = found["delay"][f"{name}, after {unchanged}"]
            cells.append(
                ", ".join(
                    "–" if each[q] is None else f"{each[q]:,}" for q in ("tenth", "median", "ninetieth")
                )
            )
        print(f"| {'known' if name == 'known' else f'{int(name):,} tasks'} | {' | '.join(cells)} |")


def show_naming(found: Mapping[str, Any]) -> None:
    """Print what was named as a table of the docs."""
    print(
        "| changed | labels | first alarm after | names it rightly then | wrongly | in the end rightly | wrongly |"
    )
    print("|---|---|---|---|---|---|---|")
    for change, by in found["naming"].items():
        for every, each in by.items():
            labels = {"every 20": "5 %", "every 10": "10 %", "every 1": "all"}[every]
            after = "–" if each["tasks to an alarm"] is None else f"{each['tasks to an alarm']} tasks"
            cells = [
                "–" if change == "nothing" and name == "right" else f"{100 * each[when][name]['value']:.1f} %"
                for when in ("first", "end")
                for name in ("right", "wrong")
            ]
            print(f"| {change} | {labels} | {after} | {' | '.join(cells)} |")


def main() -> None:
    """Measure and write, or show."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--table", choices=("delay", "naming"), default="naming")
    options = parser.parse_args()
    if options.show is not None:
        show = show_delay if options.table == "delay" else show_naming
        show(json.loads(options.show.read_text()))
        return
    rng = np.random.default_rng(2026)
    found = {
        "level": LEVEL,
        "runs": RUNS,
        "steps": STEPS,
        "reference": LABELLED,
        "named runs": NAMED_RUNS,
        "false alarms": false_alarms(rng),
        "delay": delays(rng),
        "naming": naming(rng),
    }
    print(json.dumps(found, indent=1))
    if options.out is not None:
        write(options.out, "benchmarks.monitors", found)


if __name__ == "__main__":
    main()
