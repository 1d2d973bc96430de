"""Whether a pipeline's answers are distributed as the target's own, by enumeration of a small model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from scipy.stats import chi2

from draftverify import Pipeline, Task
from draftverify_llm import LocalModel
from draftverify_tokens import History, Stop, Target, probabilities
from tests.tokens.tiny import rows


def joint(
    model: LocalModel, prompt: list[int], length: int, settings: Mapping[str, Any]
) -> dict[tuple[int, ...], float]:
    """Every answer of at most `length` tokens and its probability; the model's end tokens end an answer."""
    found: dict[tuple[int, ...], float] = {}
    open_answers: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for answer, mass in open_answers.items():
            history = History(prompt, answer)
            logits = rows(model, [*prompt, *answer], 1)
            row = probabilities(logits, settings, [history], model=model)[0][0].tolist()
            for token, p in enumerate(row):
                if p:
                    (found if token in model.eos_ids else longer)[(*answer, token)] = mass * p
        open_answers = longer
    return found | open_answers


def deviation(
    generator: Any,
    model: LocalModel,
    rule: Any,
    *,
    block: int,
    tasks: int,
    prompt: list[int],
    length: int = 3,
    settings: Mapping[str, Any],
    verifier: Any = None,
    batch: int = 1,
) -> tuple[float, float]:
    """Chi-square of many tasks' answers against the joint, and the value that it exceeds with probability 1e-6.

    Answers that are expected fewer than five times are counted together.
    """
    pipeline = Pipeline(
        generator, verifier or Target(model), rule, block=block, done=Stop(length), settings=settings, seed=11
    )
    waiting = [Task(id=str(i), input={"prompt_ids": prompt}) for i in range(tasks)]
    groups = [waiting[i : i + batch] for i in range(0, tasks, batch)]
    counts = Counter(tuple(outcome.value) for group in groups for outcome in pipeline.run(group))
    expected = joint(model, prompt, length, settings)
    assert counts.keys() <= expected.keys()
    often = {answer for answer, p in expected.items() if tasks * p >= 5}
    cells = [(counts[answer], tasks * expected[answer]) for answer in often]
    rest = tasks - sum(n for n, _ in cells), tasks - sum(e for _, e in cells)
    if rest[1] >= 1:
        cells.append(rest)
    return math.fsum((n - e) ** 2 / e for n, e in cells), float(chi2.isf(1e-6, len(cells) - 1))
