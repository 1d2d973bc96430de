"""How far a model can check another's answers, and what a family has in common: 44 models on GSM8K's problems.

    DRAFTVERIFY_DATA=DIR python -m benchmarks.trust [--out benchmarks/results/trust.json]

Read is `zeroeval_gsm/gsm.jsonl.gz` under DIR: 44 models, one answer each at temperature 0 to 1,319 problems. Each is
taken as a verifier that solves the problem itself and passes an answer that is the same as its own.

`verifiers`: T, F, π, α, precision and `resampled` of some of them, over the answers of the 43 others.

`blind spots`: F on wrong answers of its own family (by the name of the model) over F on those of other families, over
all ordered pairs; in one stratum, and within verifier and problem, where wrong answers to the same problem are
compared. Pairs that are one model at several hosts are left out, and stand apart as `same weights`.

`errors`: φ of being wrong, over all pairs of a family and over all pairs of two.

Intervals are of 95 % and draw whole problems anew. A few of GSM8K's labels are wrong; where many models agree against
the label they may be right, which adds to every F here.
"""

from __future__ import annotations

import argparse
import json
import os
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from draftverify.stats import Estimate
from draftverify.stats.judgement import BlindSpots, blind_spots, error_correlation, trust
from draftverify_llm import read_rows
from draftverify_reasoning import extract, normalised

FAMILIES = {
    "Llama": ("Llama-3", "Meta-Llama-3"),
    "Mistral": ("Mistral", "Mixtral"),
    "Qwen": ("Qwen",),
    "Yi": ("Yi-", "yi-"),
    "Claude": ("claude",),
    "Command": ("command-r",),
    "DeepSeek": ("deepseek", "DeepSeek"),
    "Gemini": ("gemini",),
    "Gemma": ("gemma",),
    "GPT": ("gpt", "o1"),
    "Reka": ("reka",),
}
SAME_WEIGHTS = ("Llama-3.1-405B", "Meta-Llama-3.1-405B")
SHOWN = (
    "gemma-2-9b-it",
    "Meta-Llama-3.1-8B-Instruct",
    "gpt-4o-mini-2024-07-18",
    "claude-3-5-sonnet-20241022",
)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/trust.json"))
    given = parser.parse_args()
    if not (data := os.environ.get("DRAFTVERIFY_DATA")):
        parser.error("DRAFTVERIFY_DATA is not set: it names the folder that holds zeroeval_gsm")
    found = measured(*answered(Path(data)))
    write(given.out, "benchmarks.trust", found)
    print(json.dumps(found, indent=1))


def answered(data: Path) -> tuple[list[str], Any, Any]:
    """The models; [problems, models] twice: a number of each answer, −1 of one that cannot be read, and if right."""
    rows: dict[str, dict[str, tuple[str | None, str]]] = {}
    models: dict[str, int] = {}
    for _, row in read_rows(data / "zeroeval_gsm" / "gsm.jsonl.gz"):
        models.setdefault(row["model"], len(models))
        answer = extract(row["output"])
        own = None if answer is None else normalised(answer)
        rows.setdefault(row["id"], {})[row["model"]] = own, normalised(row["answer"])
    answers, right = np.full((2, len(rows), len(models)), -1)
    for place, by_model in enumerate(rows.values()):
        numbers: dict[str, int] = {}
        for model, (own, expected) in by_model.items():
            if own is not None:
                answers[place, models[model]] = numbers.setdefault(own, len(numbers))
            right[place, models[model]] = own == expected
    return list(models), answers, right == 1


def family(model: str) -> str:
    """The family that a model's name tells of; its own name where none does."""
    return next((name for name, starts in FAMILIES.items() if model.startswith(starts)), model)


def measured(models: list[str], answers: Any, right: Any) -> dict[str, Any]:
    """All figures."""
    problems = np.arange(len(right))
    passed, related, task, stratum, twins = [], [], [], [], []
    errors: dict[str, list[Any]] = {"of a family": [], "of two families": []}
    for one, other in permutations(range(len(models)), 2):
        wrong = np.flatnonzero(~right[:, other])
        own = family(models[one]) == family(models[other])
        twin = models[one].startswith(SAME_WEIGHTS) and models[other].startswith(SAME_WEIGHTS)
        passed.append(_same(answers, one, other)[wrong])
        related.append(np.full(len(wrong), own))
        twins.append(np.full(len(wrong), twin))
        task.append(problems[wrong])
        stratum.append(one * len(right) + wrong)
        if one < other and not twin:
            errors["of a family" if own else "of two families"].append(
                np.stack([~right[:, one], ~right[:, other], problems])
            )
    said, kin, where, within, same = map(np.concatenate, (passed, related, task, stratum, twins))
    apart = ~same
    verifiers = {name: _trusted(models.index(name), answers, right) for name in SHOWN if name in models}
    spots = {
        "in one stratum": blind_spots(said[apart], kin[apart], where[apart]),
        "within verifier and problem": blind_spots(said[apart], kin[apart], where[apart], within[apart]),
    }
    if same.any():
        spots["same weights"] = blind_spots(
            said[same | ~kin], same[same | ~kin], where[same | ~kin], within[same | ~kin]
        )
    correlated = {}
    for name, pairs in errors.items():
        one, other, tasks = np.concatenate(pairs, axis=1)
        correlated[name] = {"pairs": len(pairs), **_shown(error_correlation(one, other, tasks.tolist()))}
    return {
        "models": len(models),
        "families": len(set(map(family, models))),
        "problems": len(right),
        "verifiers": verifiers,
        "blind spots": {name: _spots(each) for name, each in spots.items()},
        "errors": correlated,
    }


def _same(answers: Any, one: int, other: int) -> Any:
    return (answers[:, one] == answers[:, other]) & (answers[:, other] >= 0)


def _trusted(one: int, answers: Any, right: Any) -> dict[str, Any]:
    others = [other for other in range(answers.shape[1]) if other != one]
    said = np.stack([_same(answers, one, other) for other in others], axis=1)
    tasks = np.repeat(np.arange(len(right)), len(others))
    found = trust(said.ravel(), right[:, others].ravel(), tasks.tolist())
    names = ("true_pass", "false_pass", "base", "acceptance", "precision", "informedness", "resampled")
    return {**{name: _shown(getattr(found, name)) for name in names}, "unpassed": found.unpassed}


def _spots(found: BlindSpots) -> dict[str, Any]:
    compared = {"wrong_answers_compared": found.ratio.trials}
    return {name: _shown(getattr(found, name)) for name in ("related", "others", "ratio")} | compared


def _shown(found: Estimate) -> dict[str, float]:
    return {name: round(getattr(found, name), 4) for name in ("value", "low", "high")}


if __name__ == "__main__":
    main()
