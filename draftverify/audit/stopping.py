"""Whether the stopping rule ends an answer among a block's values where it ends it one value at a time.

The rule on tiny models stops at end items and after a few values; a limit of hundreds, or a stop string, is never met
there, and above temperature 0 no two texts can be compared. But where an answer ends is a question about its values
alone. So real answers, with some values more behind them, are played to the stopping rule again in pieces: one by one,
which is the definition, and in blocks that lie over the end in every way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftverify.engine.pipeline import Pipeline
from draftverify.values import Context, Decision, Proposal, Task, Verification

__all__ = ["stopping_problems"]

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
    for task in tasks[:PLAYED]:
        rounds = pipeline.record(task).rounds
        if not rounds or not rounds[-1].decision.done:
            continue  # ended by its budget, or by a failure that other parts of the audit report
        answer = tuple(value for round in rounds for value in round.decision.emitted)
        try:
            problem = _problem(pipeline, task, answer, most)
        except Exception as error:
            return failures, [
                f"the stopping rule was not played: it needs more than an answer's values ({error})"
            ]
        failures += [f"task {task.id}: {problem}"] if problem else []
        ended += 1
    return failures, [] if ended else ["no answer was ended by the stopping rule, which was not played"]


def _problem(pipeline: Pipeline, task: Task, answer: tuple[Any, ...], most: int) -> str:
    values = answer + answer[: most + 1]
    alone = _kept(pipeline, task, values, 1, 1)
    if alone != len(answer):
        return f"the answer has {len(answer)} values; one at a time, the stopping rule ends it after {alone}"
    for size in sorted({2, most + 1}):
        for first in range(1, size + 1):
            kept = _kept(pipeline, task, values, first, size)
            if kept != alone:
                return f"one value at a time the stopping rule keeps {alone}, in blocks of {size} it keeps {kept}"
    return ""


def _kept(pipeline: Pipeline, task: Task, values: tuple[Any, ...], first: int, size: int) -> int:
    """How many values are kept that come in blocks of `size` after `first` of them."""
    replay = Pipeline(
        _Nothing(),
        _Preparing(pipeline.verifier) if pipeline.prepares else _Silent(),
        _Replay(values, first, size),
        block=0,
        done=pipeline.done,
        settings=pipeline.settings,
    )
    outcome = replay.run(task)
    if outcome.status != "accepted":
        raise ValueError(outcome.reason)
    return len(outcome.value)


class _Nothing:
    def propose(self, context: Context, n: int) -> Proposal:
        raise AssertionError("blocks of 0 ask for nothing")


class _Silent:
    def verify(self, context: Context, proposal: Proposal) -> Verification:
        return Verification()


class _Preparing(_Silent):
    """Prepares a task as the pipeline's verifier does, since the stopping rule may read what that puts into it."""

    def __init__(self, verifier: Any) -> None:
        self.prepare = verifier.prepare


class _Replay:
    needs: frozenset[str] = frozenset()

    def __init__(self, values: tuple[Any, ...], first: int, size: int) -> None:
        self.values = values
        self.first = first
        self.size = size

    def decide(self, context: Context, proposal: Proposal, verification: Verification, rng: Any) -> Decision:
        begin = len(context.accepted)
        end = begin + (self.size if begin else self.first)
        return Decision(spliced=self.values[begin:end], done=end >= len(self.values))
