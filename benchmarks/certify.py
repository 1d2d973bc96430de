"""How often certified thresholds break their promise, and how much is answered: whole pipelines, simulated judges.

    python -m benchmarks.certify [--fits 400] [--out benchmarks/results/certify.json]
    python -m benchmarks.certify --show benchmarks/results/certify.json    # the table of the docs, nothing is run

A task draws how hard it is. A pipeline drafts a block, twice more where nothing is good enough, and once with a better
generator; its rule answers with the first item at or above the threshold, or with the best; or those that the judge
passes (1 and more) vote, and the threshold is the elected answer's share. The judge's scores are normal, two apart for
right and wrong items; on some tasks it is fooled, and scores all items as right ones, of which the wrong ones there are
one and the same answer, and elsewhere one of four. Each fit is
of other tasks; the precision of what it certified is that of its threshold on 20,000 tasks that no fit saw. Beside it
stand what an oracle would answer, and conformal risk control (Angelopoulos et al., 2208.02814), which bounds the mean
of wrong answers among all tasks and promises nothing of a single fit.

Answers at each threshold are computed here in NumPy, again and apart from the library's replay: `checked` says that
`draftverify certify` on real runs of the same tasks finds the same threshold, answers and mistakes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from benchmarks.provenance import write
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.records.directory import load_run
from draftverify.bench.runner.complete import complete
from draftverify.bench.runner.run import run
from draftverify.lab import Promise, Recording, certify
from draftverify.lab.certificate import last_kept

SIZES = (40, 80, 200)
RULES = ("first", "best", "majority")
KINDS = [(rule, items) for rule in RULES for items in (1, 5, 10) if (rule, items) != ("majority", 1)]
PASSES = 1.0  # what the judge passes where items vote
WRONG = 4  # wrong answers that there are
FOOLED = (0.0, 0.15)
ROUNDS = 4  # a block, two regenerates, a fallback
PROMISES = {"precision .9": Promise("precision", 0.9, 0.1), "wrong .1": Promise("wrong", 0.1, 0.1)}

PARTS = """
import json
from pathlib import Path

from draftverify import Check, GeneratorTraits, Proposal, Verification, VerifierTraits
from draftverify.rules import Majority

DATA = json.loads((Path(__file__).parent / "data.json").read_text())


class Drawn:
    traits = GeneratorTraits(shape="alternatives", drafts_from="round", deterministic=True)

    def propose(self, context, n):
        items = DATA[int(context.task.id)][context.round][:n]
        return Proposal.alternatives([dict(zip(("answer", "score"), item)) for item in items])


class Fallback(Drawn):
    pass


class Judge:
    traits = VerifierTraits(provides={"verdicts", "scores"}, deterministic=True)

    def __init__(self, passes=None):
        self.passes = passes

    def verify(self, context, proposal):
        passed = [self.passes is None or item["score"] >= self.passes for item in proposal.items]
        verdicts = ["pass" if good else "reject" for good in passed]
        return Verification(
            checks=tuple(Check(v, score=item["score"]) for v, item in zip(verdicts, proposal.items))
        )


class OneVote(Majority):
    def done(self, context, new):
        return len(new) if context.held else None


def right(task, outcome):
    return outcome.status == "accepted" and outcome.value["answer"] == 0
"""

CONFIG = """
parts: [own.py]
tasks: {{use: jsonl, path: tasks.jsonl, id: id, expected: {{a: a}}}}
metrics: {{right: {{use: python, function: own.right}}}}
pipelines:
  one:
    generator: {{use: own.Drawn}}
    verifier: {{use: own.Judge, passes: {passes}}}
    rule: {rule}
    block: {items}
    budget: {{rounds: 4}}
    on_rejection: [{{do: regenerate, times: 2}}, {{do: fallback, generator: {{use: own.Fallback}}}}]
"""


def main() -> None:
    """Fit, count and write."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--fits", type=int, default=400)
    options.add_argument("--out", default="benchmarks/results/certify.json")
    options.add_argument("--show", type=Path)
    arguments = options.parse_args()
    if arguments.show is not None:
        show(json.loads(arguments.show.read_text()))
        return
    alike = [checked(rule, seed) for rule in RULES for seed in range(3)]
    cells = []
    for rule, items in KINDS:
        for fooled in FOOLED:
            unseen = Drawn(np.random.default_rng(99), 20_000, items, fooled)
            for size in SIZES:
                cells += cell(rule, items, fooled, size, unseen, arguments.fits)
                print(cells[-2], cells[-1], sep="\n", flush=True)
    broken = [each["broken"]["value"] for each in cells]
    write(
        Path(arguments.out),
        "benchmarks.certify",
        {
            "fits": arguments.fits,
            "most broken": max(broken),
            "cells above delta by its interval": sum(each["broken"]["low"] > 0.1 for each in cells),
            "cells": cells,
            "checked": alike,
        },
    )


def show(figures: dict[str, Any]) -> None:
    """Print the table of the docs: of each kind of pipeline the percentages at each size of a run."""
    heads = ["rule", "block", "fooled"]
    for name in PROMISES:
        heads += [f"{name}: broken", "answered", "an oracle"]
    print(f"| {' | '.join([*heads, 'conformal, wrong .1: broken', 'answered'])} |")
    print("|---" * (len(heads) + 2) + "|")
    for rule, items in KINDS:
        for fooled in FOOLED:
            row = [rule, str(items), f"{100 * fooled:g}"]
            for name in PROMISES:
                kind = [
                    cell for cell in figures["cells"]
                    if (cell["rule"], cell["items"], cell["fooled"], cell["promise"]) == (rule, items, fooled, name)
                ]  # fmt: skip
                row += [percentages(cell["broken"]["value"] for cell in kind)]
                row += [percentages(cell["answered"] for cell in kind), percentages([kind[0]["oracle"]])]
            row += [percentages(cell["conformal"][key] for cell in kind) for key in ("broken", "answered")]
            print(f"| {' | '.join(row)} |")


def percentages(shares: Iterable[float]) -> str:
    """So many of a hundred each."""
    return ", ".join(f"{100 * share:.0f}" for share in shares)


class Drawn:
    """Items of tasks, as they are drafted and judged.

    Args:
        random: draws them.
        tasks, items: how many tasks, and items of a block.
        fooled: of how many tasks the judge takes every item for a right one.
    """

    def __init__(self, random: np.random.Generator, tasks: int, items: int, fooled: float) -> None:
        ease = random.normal(0.0, 1.0, (tasks, 1, 1))
        better = np.array([0.0] * (ROUNDS - 1) + [1.5])[None, :, None]
        chance = 1 / (1 + np.exp(-(ease + better)))
        self.right = random.random((tasks, ROUNDS, items)) < chance
        taken_in = random.random((tasks, 1, 1)) < fooled
        self.scores = np.round(random.normal(2.0 * (self.right | taken_in), 1.0), 6)
        wrong = np.where(taken_in, 1, random.integers(1, 1 + WRONG, self.right.shape))
        self.votes = np.where(self.right, 0, wrong)

    def values(self, rule: str) -> np.ndarray:
        """What thresholds are compared with: every item's score, or the share of each task that comes to a vote."""
        if rule != "majority":
            return self.scores.ravel()
        shares = self.elected[0]
        return shares[shares > 0]

    @cached_property
    def elected(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each task the share of the vote of its answer, 0 where nothing was passed, and whether that is right."""
        passed = self.scores >= PASSES
        rounds = passed.any(axis=2)
        tasks, number = np.arange(len(rounds)), rounds.argmax(axis=1)
        ballots, votes = passed[tasks, number], self.votes[tasks, number]
        cast = ballots[:, :, None] & (votes[:, :, None] == np.arange(1 + WRONG))
        counts = cast.sum(axis=1)
        # Of equals the one whose first ballot is the earliest.
        ahead = np.lexsort((cast.argmax(axis=1), -counts), axis=1)[:, 0]
        return counts[tasks, ahead] / np.maximum(ballots.sum(axis=1), 1), ahead == 0

    def answers(self, rule: str, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Which tasks are answered, and which wrongly, [tasks] each."""
        if rule == "majority":
            shares, right = self.elected
            answered = (shares >= threshold) & (shares > 0)
            return answered, answered & ~right
        good = self.scores >= threshold
        rounds = good.any(axis=2)
        answered = rounds.any(axis=1)
        number = rounds.argmax(axis=1)
        tasks = np.arange(len(number))
        scores = np.where(good, self.scores, -np.inf)[tasks, number]
        place = good[tasks, number].argmax(axis=1) if rule == "first" else scores.argmax(axis=1)
        return answered, answered & ~self.right[tasks, number, place]


def cell(rule: str, items: int, fooled: float, size: int, unseen: Drawn, fits: int) -> list[dict[str, Any]]:
    """Both promises of one kind of pipeline and run, over fits."""
    values = unseen.values(rule)
    grid = np.unique(values) if rule == "majority" else np.quantile(values, np.linspace(0, 1, 501))
    truth = [tuple(part.mean() for part in unseen.answers(rule, threshold)) for threshold in grid]
    answered, wrong = np.array(truth).T
    cells = []
    for name, promise in PROMISES.items():
        risk = wrong / np.maximum(answered, 1e-12) if promise.of == "precision" else wrong
        oracle = float(answered[risk <= promise.bound].max(initial=0.0))
        broken = conformal_broken = 0
        shares: list[float] = []
        conformal_shares: list[float] = []
        for seed in range(fits):
            drawn = Drawn(
                np.random.default_rng([seed, size, items, round(100 * fooled)]), size, items, fooled
            )
            threshold = certified(drawn, rule, promise)
            share, is_broken = at(threshold, grid, answered, risk, promise.bound)
            broken, shares = broken + is_broken, [*shares, share]
            if promise.of == "wrong":
                share, is_broken = at(
                    conformal(drawn, rule, promise.share), grid, answered, risk, promise.bound
                )
                conformal_broken, conformal_shares = conformal_broken + is_broken, [*conformal_shares, share]
        interval = binomtest(broken, fits).proportion_ci()
        cells.append(
            {
                "rule": rule,
                "items": items,
                "fooled": fooled,
                "tasks": size,
                "promise": name,
                "broken": {"value": broken / fits, "low": interval.low, "high": interval.high},
                "answered": float(np.mean(shares)),
                "oracle": oracle,
                **(
                    {
                        "conformal": {
                            "broken": conformal_broken / fits,
                            "answered": float(np.mean(conformal_shares)),
                        }
                    }
                    if conformal_shares
                    else {}
                ),
            }
        )
    return cells


def at(threshold: float | None, grid: Any, answered: Any, risk: Any, bound: float) -> tuple[float, bool]:
    """Of unseen tasks the share that is answered from a threshold on, and whether too many are wrong."""
    if threshold is None:
        return 0.0, False
    share, wrong = (float(np.interp(threshold, grid, curve)) for curve in (answered, risk))
    return share, wrong > bound


def certified(drawn: Drawn, rule: str, promise: Promise) -> float | None:
    """The threshold that the library's sequence of tests keeps."""
    tasks = len(drawn.scores)
    scores = np.sort(drawn.values(rule))[::-1]
    thresholds = sorted({scores[round(step * (len(scores) - 1) / 100)] for step in range(101)}, reverse=True)

    def trials() -> Iterator[tuple[int, int]]:
        for threshold in thresholds:
            answered, wrong = drawn.answers(rule, threshold)
            yield int(answered.sum()), int(wrong.sum())

    last, _ = last_kept(trials(), promise, tasks=tasks)
    return None if last is None else float(thresholds[last])


def conformal(drawn: Drawn, rule: str, alpha: float) -> float | None:
    """Conformal risk control: the lowest threshold from which on n/(n + 1) · wrong + 1/(n + 1) stays at most alpha."""
    tasks, kept = len(drawn.scores), None
    for threshold in np.quantile(drawn.values(rule), np.linspace(1, 0, 101), method="inverted_cdf"):
        if (drawn.answers(rule, threshold)[1].sum() + 1) / (tasks + 1) > alpha:
            break
        kept = float(threshold)
    return kept


def checked(rule: str, seed: int, tasks: int = 60, items: int = 3) -> dict[str, Any]:
    """A real run of the same tasks, certified by the library, beside what is computed here."""
    drawn = Drawn(np.random.default_rng(seed), tasks, items, 0.1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = [
            [[[int(v), float(s)] for v, s in zip(*block, strict=True)] for block in zip(*task, strict=True)]
            for task in zip(drawn.votes, drawn.scores, strict=True)
        ]
        (folder / "data.json").write_text(json.dumps(data))
        (folder / "own.py").write_text(f"# of {rule} {seed}: equal files are one module\n{PARTS}")
        (folder / "tasks.jsonl").write_text("".join(f'{{"id": "{i}", "a": 1}}\n' for i in range(tasks)))
        voting = rule == "majority"
        written = "{use: own.OneVote}" if voting else f"{{use: {rule}, threshold: 0}}"
        passes = PASSES if voting else "null"
        (folder / "e.yaml").write_text(CONFIG.format(rule=written, items=items, passes=passes))
        experiment = load_experiment(folder / "e.yaml")
        run(experiment if voting else complete(experiment), out=folder / "run")
        promise = Promise("precision", 0.8, 0.1)
        with load_run(folder / "run") as records, Recording(records, config=folder / "e.yaml") as recording:
            made = certify(recording, promise)
    here = certified(drawn, rule, promise)
    counts = {
        trial.threshold: (trial.answered, trial.wrong)
        == tuple(int(part.sum()) for part in drawn.answers(rule, trial.threshold))
        for trial in made.tried
    }
    if made.threshold != here or not all(counts.values()):
        raise AssertionError(f"{rule} {seed}: the library certifies {made.threshold}, and here it is {here}")
    return {"rule": rule, "seed": seed, "threshold": here, "thresholds alike": len(counts)}


if __name__ == "__main__":
    main()
