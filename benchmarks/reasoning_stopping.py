"""Adaptive stopping on a recorded pool: samples saved against agreement with the vote of all.

    python -m benchmarks.reasoning_stopping --pool POOL.jsonl --out benchmarks/results/reasoning_stopping.json

Where POOL.jsonl is not there it is sampled first (`--each` problems of each dataset, `--samples` answers to each); its
lines are those of `reasoning.recorded`: {"task_id", "question", "gym", "answer", "samples": [{"text", "answer",
"correct", "logprob"}, …]}, `correct` by the dataset's own scorer.

A pool's samples are put into `--orders` random orders. In each a stopping rule sees one sample after the other, as it
would while sampling, and the vote where it stops is compared with the vote of the whole pool: the share of problems on
which they agree, the mean number of samples, and accuracy, with 95 % intervals by bootstrap over problems.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.reasoning_problems import MODEL, STOP, TEMPLATE
from draftverify import Task
from draftverify_llm import LocalModel
from draftverify_reasoning import solution
from draftverify_reasoning.gym import score_answer

TEMPERATURE = 0.8
RESAMPLES = 2000


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
    return {"task_id": task.id, **task.input, "answer": task.truth["answer"], "samples": solutions}
