"""How often a monitor alarms when nothing has changed, how soon when something has, and how often it names the part.

    python -m benchmarks.monitors --out benchmarks/results/monitors.json
    python -m benchmarks.monitors --show FILE --table delay    # of the docs, nothing is run; also: references, naming

Simulated tasks of one draft each, in many runs at once: `Wealth`, by which `RateMonitor` and `Monitor` do theirs.

`false alarms`: 10,000 runs of 2,000 tasks at an unchanged rate of .8 (1,000 where it is estimated); in how many there
ever was an alarm. `wald` looks at the 95 % Wald interval after each task from the 30th on, and alarms when it does not
hold the known rate.

`delay`: the rate falls from .8 to .7, at once or after 500 unchanged tasks; how many tasks later the alarm comes
(quantiles over 1,000 runs of those that had no alarm before, `never` within 2,000 tasks being the longest). The
same after 30,000 unchanged tasks, of 20 runs.

`references`: the rate goes from .8 to another, at once or after 500 unchanged tasks, after references of 30 tasks and
more; in how many of 500 runs that is seen within 1,000 tasks. Beside it, on the same draws, the plain way: half of the
level for a Clopper–Pearson interval of the reference, half for a bet that the rate is below its lower end or above its
upper one (uniformly on either side). `at .8` is in how many there is an alarm though nothing has changed.

`neighbours`: false alarms within 1,000 tasks where a task is, with a chance of .2, as the one before it; and in how
many runs the check of the reference says so.

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
from scipy.special import betainc, betaln, xlog1py, xlogy

from benchmarks.provenance import write
from draftverify.bench.monitors.monitor import likeness, part_of
from draftverify.bench.monitors.rates import Earlier, Wealth
from draftverify.stats import Estimate
from draftverify.stats.intervals import rate

LEVEL, RATE, AFTER, STEPS, BLOCK, FIRST_LOOK, Z = 0.05, 0.8, 0.7, 2_000, 250, 30, 1.959963984540054
RUNS, ESTIMATED_RUNS, LONG_RUNS = 10_000, 1_000, 20
REFERENCES, UNCHANGED, LONG = (100, 1_000), 500, 30_000
SHORT, NOW, WITHIN, SHORT_RUNS = (30, 100, 300, 1_000), (0.5, 0.6, 0.7, 0.9, 0.95), 1_000, 500
LIKENESS = 0.2
BEFORE = {"right": 0.7, "true_pass": 0.95, "false_pass": 0.1}
CHANGES: dict[str, tuple[str, dict[str, float]]] = {
    "nothing": ("", {}),
    "generator, π to .5": ("generator", {"right": 0.5}),
    "verifier, T to .75": ("verifier", {"true_pass": 0.75}),
    "verifier, F to .4": ("verifier", {"false_pass": 0.4}),
}
EVERY, LABELLED, NAMED_STEPS, NAMED_RUNS = (20, 10, 1), 500, 3_000, 500
NEVER = np.iinfo(np.int64).max

Array = np.ndarray[Any, Any]


def first(wealth: Wealth, hits: Array) -> Array:
    """Of each run the step, from 0, at which it alarms; NEVER where it does not."""
    found = np.full(len(hits), NEVER)
    for step in range(hits.shape[1]):
        if wealth.alarmed.all():
            break
        found[wealth.observe(hits[:, step].astype(float)) & (found == NEVER)] = step
    return found


def gamblers(name: str, rng: np.random.Generator, runs: int) -> Wealth:
    """Against the known rate, or against that of so many earlier tasks."""
    if name == "known":
        return Wealth(np.zeros((runs, 2)), known_rate=RATE, level=LEVEL)
    return estimated(rng.binomial(int(name), RATE, runs), int(name))


def estimated(hits: Array, of: int | Array, level: float = LEVEL) -> Wealth:
    """Against the rate of so many hits of so many earlier tasks, in each run."""
    return Wealth(np.stack([of - hits, hits], axis=1), level=level)


def plain(hits: Array, of: int, observed: Array) -> Array:
    """The plain way: of each run the step at which it alarms; NEVER where it does not."""
    low, high = Earlier(hits, np.full(len(hits), of)).ends(LEVEL / 2)
    sides = np.stack(
        [beta_bet(0.0 * low, low, low, observed), beta_bet(high, 0.0 * high + 1.0, high, observed)]
    )
    over = np.logaddexp(*sides) - np.log(2.0) >= -np.log(LEVEL / 2)
    return np.where(over.any(axis=1), over.argmax(axis=1), NEVER)


def beta_bet(low: Array, high: Array, null: Array, observed: Array) -> Array:
    """log of the mean of ∏ l(y; r) over r between two rates, [runs, steps]; −inf where there are none between them."""
    hits = observed.cumsum(axis=1)
    misses = np.arange(1, observed.shape[1] + 1) - hits
    low, high, null = low[:, None], high[:, None], null[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        between = betainc(hits + 1, misses + 1, high) - betainc(hits + 1, misses + 1, low)
        mean = np.log(between / (high - low)) + betaln(hits + 1, misses + 1)
        return np.nan_to_num(mean - xlogy(hits, null) - xlog1py(misses, -null), nan=-np.inf, neginf=-np.inf)


# ---- false alarms and delays --------------------------------------------------------------------------------------


def false_alarms(rng: np.random.Generator) -> dict[str, Any]:
    """In how many runs there is ever an alarm, at an unchanged rate."""
    names = ("wald", "known", *map(str, REFERENCES))
    counts, runs = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for block in range(RUNS // BLOCK):
        hits = rng.random((BLOCK, STEPS)) < RATE
        t = np.arange(1, STEPS + 1)
        share = hits.cumsum(axis=1) / t
        off = np.abs(share - RATE) > Z * np.sqrt(share * (1.0 - share) / t)
        counts["wald"] += int(off[:, FIRST_LOOK - 1 :].any(axis=1).sum())
        runs["wald"] += BLOCK
        for name in names[1:] if block < ESTIMATED_RUNS // BLOCK else names[1:2]:
            counts[name] += int((first(gamblers(name, rng, BLOCK), hits) < NEVER).sum())
            runs[name] += BLOCK
    return {name: {**figure(share_of(counts[name], runs[name])), "runs": runs[name]} for name in names}


def delays(rng: np.random.Generator) -> dict[str, Any]:
    """How many tasks after a fall from RATE to AFTER the alarm comes."""
    found: dict[str, Any] = {}
    for unchanged, runs in ((0, ESTIMATED_RUNS), (UNCHANGED, ESTIMATED_RUNS), (LONG, LONG_RUNS)):
        chance = np.repeat([RATE, AFTER], [unchanged, STEPS])
        for name in ("known", *map(str, REFERENCES)):
            hits = rng.random((runs, len(chance)), dtype=np.float32) < chance
            steps = first(gamblers(name, rng, runs), hits)
            steps = steps[steps >= unchanged]
            seen = np.where(steps == NEVER, NEVER, steps - unchanged + 1)
            ends = [int(np.quantile(seen, q, method="higher")) for q in (0.1, 0.5, 0.9)]
            quantiles = [end if end < NEVER else None for end in ends]
            found[f"{name}, after {unchanged}"] = {
                **dict(zip(("tenth", "median", "ninetieth"), quantiles, strict=True)),
                "never": float((seen == NEVER).mean()),
                "runs": len(seen),
            }
    return found


def references(rng: np.random.Generator) -> dict[str, Any]:
    """How often a change is seen within so many tasks, by the monitor and by the plain way, on the same draws."""
    found: dict[str, Any] = {}
    for of in SHORT:
        for now, unchanged in [(RATE, 0), *((now, unchanged) for unchanged in (0, UNCHANGED) for now in NOW)]:
            steps: dict[str, list[Array]] = {"monitor": [], "plain": []}
            for _ in range(SHORT_RUNS // BLOCK):
                before = rng.binomial(of, RATE, BLOCK)
                hits = rng.random((BLOCK, unchanged + WITHIN)) < np.repeat([RATE, now], [unchanged, WITHIN])
                steps["monitor"].append(first(estimated(before, of), hits))
                steps["plain"].append(plain(before, of, hits))
            found[f"{of} to {now}, after {unchanged}"] = {
                way: after(np.concatenate(blocks), unchanged) for way, blocks in steps.items()
            }
    return found


def after(steps: Array, unchanged: int) -> dict[str, Any]:
    """Of the runs without an alarm before: in how many it came, and after how many tasks in half of them."""
    since = steps[steps >= unchanged]
    middle = median(np.where(since == NEVER, NEVER, since - unchanged))
    return {**figure(share_of(int((since < NEVER).sum()), len(since))), "median": middle, "runs": len(since)}


def neighbours(rng: np.random.Generator) -> dict[str, Any]:
    """False alarms where neighbours resemble each other, in the reference as in the run."""
    most = max(SHORT)
    hits = rng.random((SHORT_RUNS, most + WITHIN)) < RATE
    for step in range(1, most + WITHIN):
        repeats = rng.random(SHORT_RUNS) < LIKENESS
        hits[repeats, step] = hits[repeats, step - 1]
    found: dict[str, Any] = {}
    for of in (0, *SHORT):
        own = hits[:, most - of : most]
        wealth = estimated(own.sum(axis=1), of) if of else gamblers("known", rng, SHORT_RUNS)
        alarms = first(wealth, hits[:, most:]) < NEVER
        found[str(of or "known")] = figure(share_of(int(alarms.sum()), SHORT_RUNS))
        if of:
            warned = sum(likeness(run.astype(float)) is not None for run in own)
            found[f"{of}, warned"] = figure(share_of(warned, SHORT_RUNS))
    return found


# ---- which part ---------------------------------------------------------------------------------------------------


def naming(rng: np.random.Generator) -> dict[str, Any]:
    """What the monitor says changed, at its first alarm and in the end."""
    level = LEVEL / 4
    found: dict[str, Any] = {}
    for change, (part, now) in CHANGES.items():
        alarms: dict[int, list[Array]] = {every: [] for every in EVERY}
        for _ in range(NAMED_RUNS // BLOCK):
            before, after = drawn(rng, BEFORE, LABELLED), drawn(rng, {**BEFORE, **now}, NAMED_STEPS)
            acceptance = of_rate(RATES[0], before, after, np.ones(NAMED_STEPS, dtype=bool), level)
            for every in EVERY:
                labels = np.arange(NAMED_STEPS) % every == 0
                steps = [acceptance, *(of_rate(name, before, after, labels, level) for name in RATES[1:])]
                alarms[every].append(np.stack(steps, axis=1))
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
) -> Array:
    """Of each run the task at which a rate alarms; NEVER where it does not."""
    hits, says = told(name, *before, np.ones(before[0].shape[1], dtype=bool))
    k0, n0 = (hits & says).sum(axis=1), says.sum(axis=1)
    hits, says = told(name, *after, labels)
    # Each run's own tasks that say something, one after the other; after them come others, whose alarms do not count.
    order = np.argsort(~says, axis=1, kind="stable")[:, : says.sum(axis=1).max()]
    at = first(estimated(k0, n0, level), np.take_along_axis(hits, order, axis=1))
    there = np.minimum(at, order.shape[1] - 1)[:, None]
    seen = (at < NEVER) & np.take_along_axis(says, np.take_along_axis(order, there, axis=1), axis=1)[:, 0]
    return np.where(seen, np.take_along_axis(order, there, axis=1)[:, 0], NEVER)


def said(steps: Array, part: str) -> dict[str, Any]:
    """What is said at the first alarm, and in the end; and how many tasks that took."""
    soonest = steps.min(axis=1)
    found: dict[str, Any] = {}
    ever: Array = steps < NEVER
    for when, seen in (("first", ever & (steps == soonest[:, None])), ("end", ever)):
        words = [part_of(name for name, yes in zip(RATES, row, strict=True) if yes) for row in seen]
        some: Array = np.any(seen, axis=1)
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
    unchanged = list(dict.fromkeys(int(key.rpartition(" ")[2]) for key in found["delay"]))
    heads = ["at once" if not tasks else f"after {tasks:,} unchanged tasks" for tasks in unchanged]
    print(f"| reference | {' | '.join(heads)} |")
    print("|---" * (len(heads) + 1) + "|")
    for name in ("known", *map(str, REFERENCES)):
        cells = []
        for tasks in unchanged:
            each = found["delay"][f"{name}, after {tasks}"]
            cells.append(
                ", ".join(
                    "–" if each[q] is None else f"{each[q]:,}" for q in ("tenth", "median", "ninetieth")
                )
            )
        print(f"| {'known' if name == 'known' else f'{int(name):,} tasks'} | {' | '.join(cells)} |")


def show_references(found: Mapping[str, Any]) -> None:
    """Print how often a change is seen as a table of the docs: the monitor, then the plain way."""
    print(f"| reference | task of the change | {' | '.join(f'to {now:g}' for now in NOW)} | at {RATE:g} |")
    print("|---" * (len(NOW) + 3) + "|")
    for of in SHORT:
        for unchanged in (0, UNCHANGED):
            keys = [f"{of} to {now}, after {unchanged}" for now in (*NOW, *([] if unchanged else [RATE]))]
            ways = [found["references"][key] for key in keys]
            cells = [
                f"{100 * way['monitor']['value']:.0f}, {100 * way['plain']['value']:.0f} %" for way in ways
            ]
            print(f"| {of:,} | {unchanged + 1} | {' | '.join([*cells, ''][: len(NOW) + 1])} |")


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
    parser.add_argument("--table", choices=("delay", "references", "naming"), default="naming")
    options = parser.parse_args()
    if options.show is not None:
        shows = {"delay": show_delay, "references": show_references, "naming": show_naming}
        shows[options.table](json.loads(options.show.read_text()))
        return
    rng = np.random.default_rng(2026)
    found = {
        "level": LEVEL,
        "runs": RUNS,
        "estimated runs": ESTIMATED_RUNS,
        "long runs": LONG_RUNS,
        "steps": STEPS,
        "reference": LABELLED,
        "named runs": NAMED_RUNS,
        "false alarms": false_alarms(rng),
        "delay": delays(rng),
        "short runs": SHORT_RUNS,
        "within": WITHIN,
        "references": references(rng),
        "neighbours": neighbours(rng),
        "naming": naming(rng),
    }
    print(json.dumps(found, indent=1))
    if options.out is not None:
        write(options.out, "benchmarks.monitors", found)


if __name__ == "__main__":
    main()
