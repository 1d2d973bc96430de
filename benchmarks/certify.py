"""How often certified thresholds break their promise, and how much is answered: whole pipelines, simulated judges.

    python -m benchmarks.certify [--fits 400] [--out benchmarks/results/certify.json]

A task draws how hard it is. A pipeline drafts a block, twice more where nothing is good enough, and once with a better
generator; its rule answers with the first item at or above the threshold, or with the best. The judge's scores are
normal, two apart for right and wrong items; on some tasks it is fooled, and scores all items as right ones. Each fit is
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
from collections.abc import Iterator
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
ITEMS = (1, 5, 10)
FOOLED = (0.0, 0.15)
ROUNDS = 4  # a block, two regenerates, a fallback
PROMISES = {"precision .9": Promise("precision", 0.9, 0.1), "wrong .1": Promise("wrong", 0.1, 0.1)}

PARTS = """
import json
from pathlib import Path

from draftverify import Check, GeneratorTraits, Proposal, Verification, VerifierTraits

DATA = json.loads((Path(__file__).parent / "data.json").read_text())


class Drawn:
    traits = GeneratorTraits(shape="alternatives", drafts_from="round", deterministic=True)

    def propose(self, context, n):
        items = DATA[int(context.task.id)][context.round][:n]
        return Proposal.alternatives([{"right": right, "score": score} for right, score in items])


class Fallback(Drawn):
    pass


class Judge:
    traits = VerifierTraits(provides={"verdicts", "scores"}, deterministic=True)

    def verify(self, context, proposal):
        return Verification(checks=tuple(Check("pass", score=item["score"]) for item in proposal.items))


def right(task, outcome):
    return outcome.status == "accepted" and outcome.value["right"]
"""

CONFIG = """
parts: [own.py]
tasks: {{use: jsonl, path: tasks.jsonl, id: id, expected: {{a: a}}}}
metrics: {{right: {{use: python, function: own.right}}}}
pipelines:
  one:
    generator: {{use: own.Drawn}}
    verifier: {{use: own.Judge}}
    rule: {{use: {rule}, threshold: 0}}
    block: {items}
    on_rejection: [{{do: regenerate, times: 2}}, {{do: fallback, generator: {{use: own.Fallback}}}}]
"""


def main() -> None:
    """Fit, count and write."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--fits", type=int, default=400)
    options.add_argument("--out", default="benchmarks/results/certify.json")
    arguments = options.parse_args()
    alike = [checked(rule, seed) for rule in ("first", "best") for seed in range(3)]
    cells = []
    for rule in ("first", "best"):
        for items in ITEMS:
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

    def answers(self, rule: str, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """Which tasks are answered, and which wrongly, [tasks] each."""
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
    grid = np.quantile(unseen.scores, np.linspace(0, 1, 501))
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
    scores = np.sort(drawn.scores.ravel())[::-1]
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
    for threshold in np.quantile(drawn.scores, np.linspace(1, 0, 101)):
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
            [[[bool(r), float(s)] for r, s in zip(*block, strict=True)] for block in zip(*task, strict=True)]
            for task in zip(drawn.right, drawn.scores, strict=True)
        ]
        (folder / "data.json").write_text(json.dumps(data))
        (folder / "own.py").write_text(f"# of {rule} {seed}: equal files are one module\n{PARTS}")
        (folder / "tasks.jsonl").write_text("".join(f'{{"id": "{i}", "a": 1}}\n' for i in range(tasks)))
        (folder / "e.yaml").write_text(CONFIG.format(rule=rule, items=items))
        run(complete(load_experiment(folder / "e.yaml")), out=folder / "run")
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
