"""Few labels and many verdicts on recorded answers: PPI++ beside the labels alone and Rogan and Gladen's formula.

    DRAFTVERIFY_DATA=DIR python -m benchmarks.ppi [--repeats 2000] [--out benchmarks/results/ppi.json]

Read is `gsm8k/example_model_solutions.jsonl` under DIR: 1,319 problems, each answered by four systems. What is wanted
is the accuracy of one of them, the 6B model with a verifier. The judge is another, the 175B model with a verifier: it
passes an answer that is the same as its own, and knows no label. In each repeat 150 labels are drawn, and the others
are judged only.

`anew` draws the 1,319 problems with replacement first, so that they are a sample of all problems like these and the
interval owes its coverage to nothing else. `of the recording` asks for the accuracy on these very problems: then
the labels are a share of all there is, and every interval here is a little wider than it needs to be.

`clusters` is the same of all four systems at once: an item is a system's answer, four of a task, labelled or not, by
tasks. The judge there is the vote: it passes an answer that another system gave too.

Rogan and Gladen's is (p + Sp − 1)/(Se + Sp − 1), Se and Sp from the labels and p from all verdicts, its interval by the
delta method.

Must hold: PPI++ covers in .95 of the repeats or more, less two standard errors of that many repeats, and is .12 wide or
less on average. The exit status is 1 where it does not.
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
from draftverify.stats.judgement import assisted_rate, trust
from draftverify_llm import read_rows
from draftverify_reasoning import extract, same

SYSTEMS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
JUDGED, JUDGE = "6b_verification", "175b_verification"
LABELS, REPEATS, SEED = 150, 2000, 2026
WIDEST, COVERED = 0.12, 0.95
Z = 1.959963984540054


def main() -> int:
    """Measure, print, write; 1 where coverage or width fall short."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/ppi.json"))
    given = parser.parse_args()
    if not (data := os.environ.get("DRAFTVERIFY_DATA")):
        parser.error("DRAFTVERIFY_DATA is not set: it names the folder that holds gsm8k")
    found = measured(*answered(Path(data)), given.repeats)
    write(given.out, "benchmarks.ppi", found)
    print(json.dumps(found, indent=1))
    return 0 if found["held"] else 1


def answered(data: Path) -> tuple[Any, Any]:
    """[problems, systems] twice: whether each answer is right, and which of a problem's answers it is.

    Answers of one problem that are the same have the same number; one that cannot be read has −1.
    """
    path = data / "gsm8k" / "example_model_solutions.jsonl"
    rows = [row for _, row in read_rows(path)]
    right = np.array([[float(row[system]["is_correct"]) for system in SYSTEMS] for row in rows])
    return right, np.array(
        [_numbered([extract(row[name]["solution"], "gsm8k") for name in SYSTEMS]) for row in rows]
    )


def _numbered(answers: Sequence[str | None]) -> list[int]:
    """Which of the answers each is the same as, by the first of them."""
    return [
        -1 if one is None else next(i for i, other in enumerate(answers) if other and same(one, other))
        for one in answers
    ]


def measured(right: Any, answers: Any, repeats: int) -> dict[str, Any]:
    """All figures of the answers of `answered`."""
    rng = np.random.default_rng(SEED)
    own, judge = SYSTEMS.index(JUDGED), SYSTEMS.index(JUDGE)
    label = right[:, own]
    said = ((answers[:, own] == answers[:, judge]) & (answers[:, own] >= 0)).astype(float)
    problems = len(label)
    word = trust(said, label, range(problems))

    def replaced() -> Any:
        return rng.integers(0, problems, problems)

    def mixed() -> Any:
        return rng.permutation(problems)

    anew = repeated(replaced, label, said, repeats)
    ppi = anew["ppi"]
    least = COVERED - 2.0 * math.sqrt(COVERED * (1.0 - COVERED) / repeats)
    return {
        "problems": problems,
        "labels": LABELS,
        "repeats": repeats,
        "seed": SEED,
        "judged": JUDGED,
        "judge": JUDGE,
        "accuracy": float(label.mean()),
        "the_judge": {
            name: _shown(getattr(word, name))
            for name in ("true_pass", "false_pass", "base", "acceptance", "precision")
        },
        "correlation": float(np.corrcoef(label, said)[0, 1]),
        "anew": anew,
        "of the recording": repeated(mixed, label, said, repeats),
        "clusters": clustered(right, answers, repeats, rng),
        "least_coverage": least,
        "widest": WIDEST,
        "held": bool(ppi["coverage"] >= least and ppi["width"] <= WIDEST),
    }


def repeated(drawn: Callable[[], Any], label: Any, said: Any, repeats: int) -> dict[str, Any]:
    """Coverage and mean width of each way over the repeats."""
    expected = float(label.mean())
    rows: dict[str, list[tuple[float, float, float]]] = {"ppi": [], "labels": [], "rogan_gladen": []}
    weights = []
    for _ in range(repeats):
        problems = drawn()
        own, others = problems[:LABELS], problems[LABELS:]
        found = assisted_rate(label[own], said[own], said[others])
        weights.append(found.weight)
        for name, one in (("ppi", found.rate), ("labels", found.alone)):
            rows[name].append((one.value, one.low, one.high))
        rows["rogan_gladen"].append(rogan_gladen(label[own], said[own], said[problems]))
    return {**{name: told(each, expected) for name, each in rows.items()}, "weight": float(np.mean(weights))}


def clustered(right: Any, answers: Any, repeats: int, rng: np.random.Generator) -> dict[str, Any]:
    """The mean accuracy of the four systems, whose answers to one problem resemble each other."""
    said = np.array([[float(a >= 0 and (row == a).sum() > 1) for a in row] for row in answers])
    problems, width = right.shape
    of_labels = LABELS // width  # problems, all four answers of which have a label
    found: dict[str, list[tuple[float, float, float]]] = {"by task": [], "as if independent": []}
    for _ in range(repeats):
        each = rng.integers(0, problems, problems)
        own, others = each[:of_labels], each[of_labels:]
        given = right[own].ravel(), said[own].ravel(), said[others].ravel()
        for name, tasks in (("by task", np.repeat(np.arange(problems), width)), ("as if independent", None)):
            one = assisted_rate(*given, tasks if tasks is None else tasks.tolist()).rate
            found[name].append((one.value, one.low, one.high))
    figures = {name: told(rows, float(right.mean())) for name, rows in found.items()}
    return {"labels": of_labels * width, "labelled_problems": of_labels, **figures}


def rogan_gladen(label: Any, said: Any, everyone: Any) -> tuple[float, float, float]:
    """(p + Sp − 1)/(Se + Sp − 1) with its 95 % interval by the delta method; of (0, 1) where it is not defined."""
    right, wrong, p = label == 1.0, label == 0.0, float(everyone.mean())
    if not right.any() or not wrong.any():
        return math.nan, 0.0, 1.0
    se, sp = float(said[right].mean()), float(1.0 - said[wrong].mean())
    if not se + sp > 1.0:
        return math.nan, 0.0, 1.0
    value = (p + sp - 1.0) / (se + sp - 1.0)
    variances = (p * (1 - p) / len(everyone), se * (1 - se) / right.sum(), sp * (1 - sp) / wrong.sum())
    slopes = (1.0, value, 1.0 - value)
    spread = sum(slope**2 * variance for slope, variance in zip(slopes, variances, strict=True))
    reach = Z * math.sqrt(spread) / (se + sp - 1.0)
    return value, max(value - reach, 0.0), min(value + reach, 1.0)


def told(rows: Sequence[tuple[float, float, float]], expected: float) -> dict[str, float]:
    """Of intervals: how often they hold the expected, their mean width, and the mean of their middle less the truth."""
    values, lows, highs = np.array(rows).T
    return {
        "coverage": float(((lows <= expected) & (expected <= highs)).mean()),
        "width": float((highs - lows).mean()),
        "bias": float(np.nanmean(values) - expected),
    }


def _shown(found: Any) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}


if __name__ == "__main__":
    sys.exit(main())
