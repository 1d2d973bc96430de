"""Whether the stopping rule ends an answer among a block's values where it ends it one value at a time.

The rule on tiny models stops at end items and after a few values; a limit of hundreds, or a stop string, is never met
there, and above temperature 0 no two texts can be compared. But where an answer ends is a question about its values
alone. So real answers, with some values more behind them, are played to the stopping rule again in pieces: one by one,
which is the definition, and in blocks that lie over the end in every way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from draftverify.engine.boundary import read_cut
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ContractError
from draftverify.kit.audit.driving import uncached
from draftverify.kit.contexts import make_context
from draftverify.values import Decision, Round, Task

PLAYED = 8
"""Tasks whose answers are decoded for this, at most."""


def stopping_problems(pipeline: Pipeline, tasks: Sequence[Task], most: int) -> tuple[list[str], list[str]]:
    """Decode the first tasks and play their answers to the pipeline's stopping rule.

    Args:
        pipeline: opened, with a stopping rule.
        tasks: its tasks.
        most: its largest block.

    Returns:
        What is wrong, and remarks.
    """
    failures: list[str] = []
    ended = 0
    verifier: Any = pipeline.verifier
    for task in tasks[:PLAYED]:
        record = pipeline.record(task)
        if record.outcome.failure is not None:
            failures.append(f"task {task.id}: {record.outcome.failure}")
        if not record.rounds or not record.rounds[-1].decision.done:
            continue  # ended by its budget, or by that failure
        answer = tuple(value for round in record.rounds for value in round.decision.emitted)
        try:
            prepared = verifier.prepare(task) if pipeline.prepares else task
            problem = _problem(pipeline, prepared, answer, most)
        except ContractError as error:
            problem = str(error)
        except Exception as error:
            return failures, [
                f"the stopping rule was not played: it needs more than an answer's values ({error})"
            ]
        failures += [f"task {task.id}: {problem}"] if problem else []
        ended += 1
    if ended or failures:
        return failures, []
    return [], ["no answer was ended by the stopping rule, which was not played"]


def _problem(pipeline: Pipeline, task: Task, answer: tuple[Any, ...], most: int) -> str:
    values = answer + answer[: most + 1]
    stepwise = _kept(pipeline, task, values, 1, 1)
    if stepwise != len(answer):
        return (
            f"the answer has {len(answer)} values; one at a time, the stopping rule ends it after {stepwise}"
        )
    for size in sorted({2, most + 1}):
        for first_size in range(1, size + 1):
            count = _kept(pipeline, task, values, first_size, size)
            if count != stepwise:
                return f"one value at a time the stopping rule keeps {stepwise}, in blocks of {size} it keeps {count}"
    return ""


def _kept(pipeline: Pipeline, task: Task, values: tuple[Any, ...], first_size: int, size: int) -> int:
    """How many values are kept that come in blocks of `size` after `first_size` of them."""
    done: Any = pipeline.done
    begin, end = 0, first_size
    with uncached(
        make_context(task, settings=pipeline.settings, seed=pipeline.seed, role="verify")
    ) as context:
        while begin < len(values):
            new = values[begin:end]
            context = replace(context, accepted=context.accepted.then(new))
            keep = read_cut(done(context, new), len(new), done)
            if keep is not None:
                return begin + keep
            round = Round(index=context.round, decision=Decision(spliced=new, emitted=new))
            context = replace(context, rounds=context.rounds.then((round,)))
            begin, end = end, end + size
    return len(values)
