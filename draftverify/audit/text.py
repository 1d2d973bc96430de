"""Greedy text: with blocks and by plain steps, and where the two part, in the verifier's own words.

At temperature 0 the output must be equal. Where it is not, the verifier's `explain` says how near the two likeliest
values were, and whether rounding can be the reason: matrix products over several rows round otherwise than over one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from draftverify.audit.driving import with_block
from draftverify.audit.report import Divergence, Text
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ContractError
from draftverify.values import Outcome, Task

__all__ = ["greedy_text"]

# The verdict of `explain` stands after a colon; its words about a bug speak of rounding too.
BUG, ROUNDING = re.compile(r": bug\b"), re.compile(r": rounding\b")

BATCH = 8
"""Tasks under way at once; the others take the places of those that end."""


def greedy_text(pipeline: Pipeline, tasks: Sequence[Task]) -> Text:
    """Decode the tasks by plain steps and with blocks, and where a part serves many sessions in a call, in a batch too.

    Raises:
        ContractError: a task fails, one way or another.
    """
    plain = with_block(pipeline, 0)
    batch: list[tuple[Any, ...] | None] = [None] * len(tasks)
    if _serves_many(pipeline):
        batch = _batch(pipeline, tasks)
    same = 0
    divergences: list[Divergence] = []
    for task, together in zip(tasks, batch, strict=True):
        expected, got = _answer(plain, task), _answer(pipeline, task)
        if expected != got:
            divergences.append(_explained(pipeline, task, expected, got))
        elif together is not None and together != expected:
            found = _explained(pipeline, task, expected, together)
            said = f"alone it is equal, in a batch not: {found.explanation}"
            divergences.append(Divergence(task.id, found.verdict, said))
        else:
            same += 1
    return Text(tasks=len(tasks), same=same, divergences=tuple(divergences))


def _serves_many(pipeline: Pipeline) -> bool:
    parts = [(each, "propose_many") for each in pipeline.generators]
    parts += [(pipeline.verifier, "verify_many"), (pipeline.rule, "decide_many")]
    return any(hasattr(part, name) for part, name in parts)


def _batch(pipeline: Pipeline, tasks: Sequence[Task]) -> list[tuple[Any, ...] | None]:
    outcomes = pipeline.run_batch(tasks, size=BATCH)
    return [_value(pipeline, task, outcome) for task, outcome in zip(tasks, outcomes, strict=True)]


def _answer(pipeline: Pipeline, task: Task) -> tuple[Any, ...]:
    return _value(pipeline, task, pipeline.run(task))


def _value(pipeline: Pipeline, task: Task, outcome: Outcome) -> tuple[Any, ...]:
    if outcome.failure is not None:
        raise ContractError(f"task {task.id} of {pipeline.name}: {outcome.failure}")
    return tuple(outcome.value or ())


def _explained(pipeline: Pipeline, task: Task, expected: tuple[Any, ...], got: tuple[Any, ...]) -> Divergence:
    said = pipeline.explain(task, expected, got)
    if said is None:
        at = next(
            (i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b),
            min(len(expected), len(got)),
        )
        said = f"value {at} is the first that differs; the verifier has no explain() to say why"
        return Divergence(task.id, "unexplained", said)
    verdict = "bug" if BUG.search(said) else "rounding" if ROUNDING.search(said) else "unexplained"
    return Divergence(task.id, verdict, said)
