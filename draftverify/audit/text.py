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
from draftverify.values import Task

__all__ = ["greedy_text"]

# The verdict of `explain` stands after a colon; its words about a bug speak of rounding too.
BUG, ROUNDING = re.compile(r": bug\b"), re.compile(r": rounding\b")


def greedy_text(pipeline: Pipeline, tasks: Sequence[Task]) -> Text:
    """Decode the tasks both ways.

    Raises:
        ContractError: a task fails, either way.
    """
    plain = with_block(pipeline, 0)
    same = 0
    divergences: list[Divergence] = []
    for task in tasks:
        expected, got = _answer(plain, task), _answer(pipeline, task)
        if expected == got:
            same += 1
        else:
            divergences.append(_explained(pipeline.verifier, task, expected, got))
    return Text(tasks=len(tasks), same=same, divergences=tuple(divergences))


def _answer(pipeline: Pipeline, task: Task) -> tuple[Any, ...]:
    outcome = pipeline.run(task)
    if outcome.failure is not None:
        raise ContractError(f"task {task.id} of {pipeline.name}: {outcome.failure}")
    return tuple(outcome.value or ())


def _explained(verifier: Any, task: Task, expected: tuple[Any, ...], got: tuple[Any, ...]) -> Divergence:
    if not hasattr(verifier, "explain"):
        at = next(
            (i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b),
            min(len(expected), len(got)),
        )
        said = f"value {at} is the first that differs; the verifier has no explain() to say why"
        return Divergence(task.id, "unexplained", said)
    said = verifier.explain(task, expected, got)
    verdict = "bug" if BUG.search(said) else "rounding" if ROUNDING.search(said) else "unexplained"
    return Divergence(task.id, verdict, said)
