"""Adaptive stopping on a recorded pool: samples saved against agreement with the vote of all.

    python -m benchmarks.reasoning_stopping --pool POOL.jsonl --out benchmarks/results/reasoning_stopping.json

Where POOL.jsonl is not there it is sampled first (`--each` problems of each dataset, `--samples` answers to each); its
lines are those of `reasoning.recorded`: {"task_id", "question", "gym", "answer", "samples": [{"text", "answer",
"correct", "logprob"}, …]}, `correct` by the dataset's own scorer.

A pool's samples are put into `--orders` random orders. In each a stopping rule sees one sample after the other, as it
would while sampling, and the vote where it stops is compared with the vote of the whole pool: the share of problems on
which they agree (with any of equals), the mean number of samples, and accuracy, with 95 % intervals by bootstrap over
problems.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import write
from benchmarks.reasoning_problems import MODEL, STOP, TEMPLATE, problems
from draftverify import Context, Held, Task
from draftverify.kit import make_context
from draftverify.rules import AdaptiveConsistency, Majority, SureMajority
from draftverify.stats import bootstrap
from draftverify_llm import LocalModel
from draftverify_reasoning import solution
from draftverify_reasoning.gym import score_answer

TEMPERATURE = 0.8
FIXED = (5, 10, 20)
RULES: Mapping[str, Callable[[Context, tuple[Any, ...]], int | None]] = {
    "adaptive_consistency .95": AdaptiveConsistency(),
    "adaptive_consistency .99": AdaptiveConsistency(0.99),
    "sure_majority .05": SureMajority(0.05),
    "sure_majority .2": SureMajority(0.2),
}


def main() -> None:
    """Sample where needed, measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pool", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--each", type=int, default=25)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--orders", type=int, default=20)
    asked = parser.parse_args()
    if not asked.pool.exists():
        sample_pool(asked.pool, problems(asked.each, 7), asked.samples)
    pool = [json.loads(line) for line in asked.pool.open()]
    figures = measure(pool, asked.orders)
    write(asked.out, "benchmarks.reasoning_stopping", {"model": MODEL, "temperature": TEMPERATURE, **figures})
    for name, found in figures["ways"].items():
        print(name, {key: round(value["mean"], 3) for key, value in found.items()})


def measure(pool: Sequence[Mapping[str, Any]], orders: int) -> dict[str, Any]:
    """All ways of stopping, over all problems and orders."""
    rng = np.random.default_rng(0)
    found: dict[str, list[np.ndarray]] = {}
    for problem in pool:
        samples = problem["samples"]
        counts = Counter(each["answer"] for each in samples if each["answer"] is not None)
        full = {answer for answer, many in counts.items() if many == max(counts.values())}
        correct = {each["answer"]: each["correct"] for each in samples}
        rows: dict[str, list[tuple[float, bool, bool]]] = {}
        for _ in range(orders):
            drawn = [samples[i] for i in rng.permutation(len(samples))]
            for name, n in stops(drawn).items():
                elected = vote(drawn[:n])
                rows.setdefault(name, []).append((n, elected in full, bool(correct.get(elected))))
        for name, each in rows.items():
            found.setdefault(name, []).append(np.array(each, float).mean(axis=0))
    return {
        "problems": len(pool),
        "samples": len(pool[0]["samples"]),
        "orders": orders,
        "accuracy of one sample": interval(
            [np.mean([each["correct"] for each in problem["samples"]]) for problem in pool]
        ),
        "ways": {
            name: {
                word: interval([row[k] for row in rows])
                for k, word in enumerate(("samples", "agrees with the full vote", "accuracy"))
            }
            for name, rows in found.items()
        },
    }


def stops(drawn: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """After how many samples, in this order, each way stops; where a rule never does, after all."""
    held = tuple([Held(each, None, i, 0) for i, each in enumerate(drawn)])
    contexts = [make_context(held=held[: n + 1]) for n in range(len(held))]
    found = {f"fixed {n}": n for n in FIXED} | {"all": len(drawn)}
    for name, rule in RULES.items():
        found[name] = next(
            (n for n, context in enumerate(contexts, 1) if rule(context, ()) is not None), len(held)
        )
    return found


def vote(samples: Sequence[Mapping[str, Any]]) -> str | None:
    """The answer of the majority; None where no sample has one."""
    held = [Held(each, None, i, 0) for i, each in enumerate(samples)]
    elected = Majority().finish(make_context(held=held))
    return None if elected is None else elected.value["answer"]


def interval(values: Sequence[Any]) -> dict[str, float]:
    """A mean over problems with its 95 % interval by bootstrap over them."""
    numbers = np.array(values, float)
    found = bootstrap(lambda counts: float((counts * numbers).sum() / counts.sum()), range(len(numbers)))
    return {"mean": found.value, "low": found.low, "high": found.high}


def sample_pool(path: Path, tasks: Sequence[Task], samples: int) -> None:
    """Write a line per problem; one that is there already is not sampled again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    there = {json.loads(line)["task_id"] for line in path.open()} if path.exists() else set()
    left = [task for task in tasks if task.id not in there]
    model = LocalModel(MODEL, dtype="bfloat16", at_once=2 * samples)
    for start in range(0, len(left), 2):
        some = left[start : start + 2]
        begun = time.perf_counter()
        made = model.complete_many(
            [TEMPLATE.format(question=task.input["question"]) for task in some],
            n=[samples] * len(some),
            seeds=[start + k for k in range(len(some))],
            max_tokens=16,
            temperature=TEMPERATURE,
            stop=STOP,
            chat=False,
        )
        with path.open("a") as file:
            for task, answers in zip(some, made, strict=True):
                file.write(json.dumps(line_of(task, answers)) + "\n")
        print(f"{start + len(some)}/{len(left)}: {time.perf_counter() - begun:.1f} s", flush=True)


def line_of(task: Task, answers: Sequence[Any]) -> dict[str, Any]:
    """A problem with its solutions."""
    solutions = []
    for each in answers:
        found = solution(each.text, "phrase", logprob=each.logprob)
        found["correct"] = found["answer"] is not None and score_answer(task, found["answer"]) >= 1
        solutions.append(found)
    return {"task_id": task.id, **task.input, "answer": task.expected["answer"], "samples": solutions}


if __name__ == "__main__":
    main()
