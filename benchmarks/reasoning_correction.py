"""Self-correction measured: one answer, the model's own review, and an outside checker's word.

    python -m benchmarks.reasoning_correction --out benchmarks/results/reasoning_correction.json

SmolLM2-135M-Instruct, asked in turns, on sums and products of reasoning-gym (`DATASETS`), each question once:

- one answer: what `reasoning.sample` draws first;
- own review, 1 and 2 rounds: `reasoning.self_refine` without outside feedback;
- outside feedback: `reasoning.self_refine` with the dataset's scorer as verifier and at most 2 answers more, each
  after the refused answer and the scorer's word ("the answer '5' is wrong");
- resampling: `reasoning.sample`, the same verifier, and at most 2 answers more, drawn anew without a word.

All of them have the same first answer to a question, since they share its draws. The last two stop at the first right
answer, so their accuracy is that of three tries with a perfect checker: it is their difference that says what the
feedback is worth. Each difference comes with its 95 % interval by paired bootstrap over problems, and with the
discordant pairs and McNemar's exact two-sided p: of b + c problems on which two ways differ, 2 · P(Bin(b + c, ½) ≤
min(b, c)).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from benchmarks.reasoning_problems import CONFIG, MODEL, Counted, distinct
from draftverify import Pipeline, Task, feedback, give_up, retry, verifier
from draftverify.rules import First
from draftverify.stats import bootstrap
from draftverify_llm import LocalModel
from draftverify_reasoning import Gym, GymScorer, SelfRefine, SolutionSampler, solution
from draftverify_reasoning.gym import score_answer

DATASETS = {"chain_sum": 120, "products": 90}
TEMPLATE = "{question}\nEnd with: The answer is X."
HOW: Mapping[str, Any] = {"template": TEMPLATE, "max_tokens": 64, "temperature": 0.7}
AGAIN = 2
OWN = f"own review, {AGAIN} rounds"


def main() -> None:
    """Run every way over all problems, compare, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0, help="of the problems, for a rehearsal")
    asked = parser.parse_args()
    tasks = problems(asked.share)
    model = Counted(MODEL, dtype="bfloat16")
    right, tokens = run(model, tasks)
    figures = {
        "model": MODEL,
        "problems": len(tasks),
        "datasets": {name: sum(task.group == name for task in tasks) for name in DATASETS},
        "ways": {
            name: {"accuracy": interval(found)}
            | ({"sampled tokens a problem": tokens[name] / len(tasks)} if name in tokens else {})
            for name, found in right.items()
        },
        "differences": {
            f"{one} - {other}": difference(right[one], right[other])
            for one, other in [
                ("own review, 1 round", "one answer"),
                (OWN, "one answer"),
                ("outside feedback", "one answer"),
                ("outside feedback", "resampling"),
            ]
        },
    }
    write(asked.out, "benchmarks.reasoning_correction", figures)
    for name, found in {**figures["ways"], **figures["differences"]}.items():  # type: ignore[dict-item]
        print(name, found)


def problems(share: float) -> list[Task]:
    """The problems of all datasets, each question once."""
    return [
        task
        for name, many in DATASETS.items()
        for task in distinct(Gym(name, size=6 * many, seed=11, config={name: CONFIG[name]}).load())[
            : round(share * many)
        ]
    ]


def run(model: LocalModel, tasks: Sequence[Task]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """For each way whether it solved each task, and the tokens that it sampled."""
    anything: Any = verifier(lambda context, item: True)
    scorer = GymScorer()
    alone = SelfRefine(model, "it may make answers worse", rounds=AGAIN, **HOW)
    ways = {
        "one answer": Pipeline(SolutionSampler(model, **HOW), anything, First()),
        OWN: Pipeline(alone, anything, First()),
        "outside feedback": Pipeline(
            SelfRefine(model, **HOW), scorer, First(), policy=feedback(AGAIN).then(give_up())
        ),
        "resampling": Pipeline(
            SolutionSampler(model, **HOW), scorer, First(), policy=retry(AGAIN).then(give_up())
        ),
    }
    values: dict[str, list[Any]] = {}
    tokens: dict[str, float] = {}
    for name, pipeline in ways.items():
        outcomes = list(pipeline.run(tasks))
        values[name] = [outcome.value for outcome in outcomes]
        tokens[name] = sum(outcome.cost for outcome in outcomes)
        print(name, tokens[name], flush=True)
    values["own review, 1 round"] = [solution(value["drafts"][1]) for value in values[OWN]]
    same = [
        one["text"] == own["drafts"][0] for one, own in zip(values["one answer"], values[OWN], strict=True)
    ]
    print("same first answers", sum(same), "of", len(same), flush=True)
    right = {
        name: np.array([solved(task, value) for task, value in zip(tasks, found, strict=True)], float)
        for name, found in values.items()
    }
    return right, tokens


def solved(task: Task, value: Any) -> bool:
    """Whether a solution, None for none, is right."""
    answer = None if value is None else value["answer"]
    return answer is not None and score_answer(task, answer) >= 1


def interval(values: np.ndarray) -> dict[str, float]:
    """A mean with its 95 % interval by bootstrap over problems."""
    found = bootstrap(lambda counts: float((counts * values).sum() / counts.sum()), range(len(values)))
    return {"mean": found.value, "low": found.low, "high": found.high}


def difference(one: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """The paired difference, its interval, and McNemar's exact test."""
    gained, lost = int((one > other).sum()), int((one < other).sum())
    tail = sum(comb(gained + lost, k) for k in range(min(gained, lost) + 1)) / 2 ** (gained + lost)
    return {**interval(one - other), "gained": gained, "lost": lost, "McNemar p": min(1.0, 2 * tail)}


if __name__ == "__main__":
    main()
