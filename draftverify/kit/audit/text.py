"""Greedy text: with blocks and by plain steps, and where the two part, in the verifier's own words.

At temperature 0 the output must be equal. Where it is not, the verifier's `explain` says how near the two likeliest
values were, and whether rounding can be the reason: matrix products over several rows round otherwise than over one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ContractError
from draftverify.kit.audit.report import TextDivergence, TextReport
from draftverify.protocols import DecidesMany, ProposesMany, VerifiesMany
from draftverify.traits import offers
from draftverify.values import Explanation, Outcome, Task

BATCH = 8
"""Tasks under way at once; the others take the places of those that end."""


def greedy_text(pipeline: Pipeline, tasks: Sequence[Task]) -> TextReport:
    """Decode the tasks by plain steps and with blocks, and where a part serves many sessions in a call, in a batch too.

    Raises:
        ContractError: a task fails, one way or another.
    """
    plain = pipeline.with_parts(block=0)
    batch: Sequence[Outcome | None] = [None] * len(tasks)
    if _serves_many(pipeline):
        batch = pipeline.run(tasks, size=BATCH)
    equal_count = 0
    divergences: list[TextDivergence] = []
    for task, together in zip(tasks, batch, strict=True):
        expected, got = (_value(variant, task, variant.run(task)) for variant in (plain, pipeline))
        if expected != got:
            divergences.append(TextDivergence(task.id, _explained(pipeline, task, expected, got)))
        elif together is not None and (batched := _value(pipeline, task, together)) != expected:
            explanation = _explained(pipeline, task, expected, batched)
            batch_explanation = Explanation(
                explanation.cause, f"alone it is equal, in a batch not: {explanation.text}"
            )
            divergences.append(TextDivergence(task.id, batch_explanation))
        else:
            equal_count += 1
    return TextReport(tasks=len(tasks), same=equal_count, divergences=tuple(divergences))


def _serves_many(pipeline: Pipeline) -> bool:
    if offers(pipeline.verifier, VerifiesMany) or offers(pipeline.rule, DecidesMany):
        return True
    return any(offers(generator, ProposesMany) for generator in pipeline.generators)


def _value(pipeline: Pipeline, task: Task, outcome: Outcome) -> tuple[Any, ...]:
    if outcome.failure is not None:
        raise ContractError(f"task {task.id} of {pipeline.name}: {outcome.failure}")
    return tuple(outcome.value or ())


def _explained(
    pipeline: Pipeline, task: Task, expected: tuple[Any, ...], got: tuple[Any, ...]
) -> Explanation:
    explanation = pipeline.explain(task, expected, got)
    if explanation is not None:
        return explanation
    at = next(
        (i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b),
        min(len(expected), len(got)),
    )
    return Explanation(
        "unexplained", f"value {at} is the first that differs; the verifier has no explain() to say why"
    )
