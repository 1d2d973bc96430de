"""A trained verifier on GSM8K's recorded solutions: what it sees in a solution beyond which system wrote it.

    python -m benchmarks.reasoning_verifier SOLUTIONS.jsonl --work DIR --out benchmarks/results/reasoning_verifier.json

The same command goes on where it was stopped, in the training and in the scoring.

SOLUTIONS.jsonl is example_model_solutions.jsonl of github.com/openai/grade-school-math: 1,319 problems, each with one
solution of four systems and whether it is right. A verifier is trained by `draftverify fit part verifier` on the
problems of even index and scores the four solutions of those of odd index.

- Selection: the share of problems of which the chosen solution is right: by the verifier, by majority of the answers
  (of equals the first in the file's order), at random, always one system's, and the oracle's. Choosing at random and
  the oracle bound what choosing can bring; always taking the best system is what a verifier must beat to be of use
  here, since a score that knows nothing but the system does as well.
- Within a problem: the AUC over its pairs of a right and a wrong solution.
- Style controlled: for each two systems a and b the mean of the share of problems, among those with a right and b
  wrong, in which a scores more, and the same with b right and a wrong. What only tells the systems apart has ½.
- The control: a score that is the system's accuracy on the even problems.
- Calibrated: on a half of the odd problems a fit (`fit_scores`) of what the scores mean, tried on the other half.

All intervals are 95 %, by bootstrap over problems; differences are of the same problems.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify import Proposal
from draftverify.kit import make_context
from draftverify.lab import LabelledScore, fit_scores, reliability
from draftverify.stats import Estimate, auroc, auroc_within, bootstrap
from draftverify_reasoning import TrainedVerifier, extract

SYSTEMS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
SETTINGS = {
    "model": "smollm2-135m-instruct", "depth": 14, "layers": 2, "epochs": 4, "held_out": 0.15,
}  # fmt: skip
AT_ONCE = 8


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="where the verifier is trained")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="A=B", help="of the training"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    rows = [json.loads(line) for line in options.data.read_text(encoding="utf-8").splitlines()]
    even, odd = rows[0::2], rows[1::2]
    report, seconds = train(even, options.work, options.settings)
    scores, scoring = scored(odd, options.work)
    figures = {
        "repeats": 1,
        "problems": {"trained": len(even), "measured": len(odd)},
        "settings": {**SETTINGS, **dict(each.split("=", 1) for each in options.settings)},
        "report": report,
        "cpu_seconds": {"training": seconds, "scoring": scoring},
        **measured(even, odd, scores),
    }
    write(options.out, "benchmarks.reasoning_verifier", figures)
    for name, found in figures["selection"].items():
        print(name, shown(found))
    print("within", shown(figures["auc"]["within"]), "style controlled", shown(figures["style"]["mean"]))


def shown(found: dict[str, float]) -> str:
    return f"{found['value']:.4f} [{found['low']:.4f}, {found['high']:.4f}]"


def plain(found: Estimate) -> dict[str, float]:
    return {"value": found.value, "low": found.low, "high": found.high}


def train(rows: list[dict[str, Any]], work: Path, settings: list[str]) -> tuple[dict[str, Any], float | None]:
    """The report of the verifier that lies in `work`, trained by the command unless it is there; and the processor's
    seconds, None where an earlier call did a part of it.
    """
    report = work / "verifier" / "report.json"
    seconds = None
    if not report.exists():
        begun = (work / "verifier").exists()
        work.mkdir(parents=True, exist_ok=True)
        (work / "solutions.jsonl").write_text("".join(json.dumps(labelled(row)) + "\n" for row in rows))
        config = {"data": "./solutions.jsonl", **SETTINGS}
        (work / "verifier.yaml").write_text("".join(f"{name}: {value}\n" for name, value in config.items()))
        command = ["fit", "part", "verifier", str(work / "verifier.yaml"), "--out", str(work / "verifier")]
        for each in settings:
            command += ["--set", each]
        subprocess.run([sys.executable, "-m", "draftverify", *command], check=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = None if begun else used.ru_utime + used.ru_stime
    return json.loads(report.read_text())["figures"], seconds


def labelled(row: dict[str, Any]) -> dict[str, Any]:
    solutions = [
        {"text": row[each]["solution"], "correct": row[each]["is_correct"], "system": each}
        for each in SYSTEMS
    ]
    return {"question": row["question"], "solutions": solutions}


def scored(rows: list[dict[str, Any]], work: Path) -> tuple[np.ndarray, float | None]:
    """The verifier's scores [problems, systems], each problem's solutions a block; −inf where it has none. And the
    processor's seconds, None where an earlier call did a part.
    """
    verifier = TrainedVerifier(work / "verifier")
    path = work / f"scores-{verifier.identity}.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    begun, start = bool(found), time.process_time()
    verifier.open()
    for first in range(len(found), len(rows), AT_ONCE):
        some = rows[first : first + AT_ONCE]
        contexts = [make_context({"question": row["question"]}) for row in some]
        blocks = [Proposal.alternatives([row[each]["solution"] for each in SYSTEMS]) for row in some]
        scores = [[check.score for check in each.checks] for each in verifier.verify_many(contexts, blocks)]
        with open(path, "a") as file:
            file.write("".join(json.dumps(each) + "\n" for each in scores))
        found += scores
    matrix = [[-np.inf if score is None else score for score in each] for each in found]
    return np.array(matrix), None if begun else time.process_time() - start


def measured(even: list[dict[str, Any]], odd: list[dict[str, Any]], scores: np.ndarray) -> dict[str, Any]:
    right = np.array([[row[each]["is_correct"] for each in SYSTEMS] for row in odd])
    prior = np.array([np.mean([row[each]["is_correct"] for row in even]) for each in SYSTEMS])
    control = np.tile(prior, (len(odd), 1))
    chosen = {
        "verifier": pick(right, scores.argmax(1)),
        "majority": pick(right, np.array([majority(row) for row in odd])),
        "random": right.mean(1),
        "oracle": right.any(1).astype(float),
        **{f"always {each}": right[:, k].astype(float) for k, each in enumerate(SYSTEMS)},
    }
    best = f"always {SYSTEMS[int(prior.argmax())]}"
    selection = {name: of_problems(values) for name, values in chosen.items()}
    for other in (best, "random", "majority"):
        selection[f"verifier - {other}"] = of_problems(chosen["verifier"] - chosen[other])
    problems = np.repeat(np.arange(len(odd)), len(SYSTEMS)).tolist()
    flat, labels = scores.ravel().tolist(), right.ravel().tolist()
    return {
        "selection": selection,
        "unscored": int(np.isinf(scores).sum()),
        "auc": {
            "within": plain(auroc_within(flat, labels, problems)),
            "over_all": plain(auroc(flat, labels, problems)),
            "control: the system alone, within": plain(auroc_within(control.ravel(), labels, problems)),
            "control: the system alone, over all": plain(auroc(control.ravel(), labels, problems)),
        },
        "style": style(scores, right),
        "calibrated": calibrated(scores, right),
    }


def pick(right: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return right[np.arange(len(right)), chosen].astype(float)


def of_problems(values: np.ndarray) -> dict[str, float]:
    return plain(bootstrap(lambda w: float(w @ values / w.sum()), range(len(values))))


def majority(row: dict[str, Any]) -> int:
    """The first solution of the answer that most have; one without an answer does not vote."""
    answers = [extract(row[each]["solution"], "gsm8k") for each in SYSTEMS]
    votes = Counter(answer for answer in answers if answer is not None)
    return answers.index(max(votes, key=lambda answer: votes[answer])) if votes else 0


def style(scores: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """For each two systems the mean of both directions, and the mean over all pairs of systems."""
    directions = {}
    for a, b in itertools.permutations(range(len(SYSTEMS)), 2):
        both = right[:, a] & ~right[:, b]
        won = (scores[:, a] > scores[:, b]) + (scores[:, a] == scores[:, b]) / 2
        directions[a, b] = both.astype(float), won

    def share(pair: tuple[int, int], w: np.ndarray) -> float:
        both, won = directions[pair]
        return float((w * both) @ won / (w @ both)) if w @ both else float("nan")

    def two(a: int, b: int, w: np.ndarray) -> float:
        return (share((a, b), w) + share((b, a), w)) / 2

    everyone = range(len(scores))
    pairs = list(itertools.combinations(range(len(SYSTEMS)), 2))
    found: dict[str, Any] = {}
    for a, b in pairs:
        found[f"{SYSTEMS[a]} and {SYSTEMS[b]}"] = {
            **plain(bootstrap(lambda w, a=a, b=b: two(a, b, w), everyone)),
            "problems": [int(directions[a, b][0].sum()), int(directions[b, a][0].sum())],
        }
    found["mean"] = plain(bootstrap(lambda w: float(np.mean([two(a, b, w) for a, b in pairs])), everyone))
    return found


def calibrated(scores: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Fitted on every second of the problems, tried on the others."""
    judged = [
        LabelledScore(str(i), float(scores[i, k]), bool(right[i, k]))
        for i in range(0, len(scores), 2)
        for k in range(scores.shape[1])
        if np.isfinite(scores[i, k])
    ]
    fit = fit_scores(judged)
    held = [
        (fit.probability(scores[i, k]), bool(right[i, k]), i)
        for i in range(1, len(scores), 2)
        for k in range(scores.shape[1])
        if np.isfinite(scores[i, k])
    ]
    bins = reliability(*map(list, zip(*held, strict=True)))
    error = sum(each.right.trials * abs(each.promised - each.right.value) for each in bins) / len(held)
    return {
        "slope": fit.slope,
        "intercept": fit.intercept,
        "error": error,
        "bins": [{"promised": each.promised, **plain(each.right)} for each in bins],
    }


if __name__ == "__main__":
    main()
