"""What people decided, as labels: which drafts are right and which are not, in the words of those who looked at them.

A decision counts the same whether it was made on the page, at the terminal or in a file of answers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from draftverify.bench.records.directory import RunRecords, load_run
from draftverify.values import Outcome, Task


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said of one value.

    Args:
        pipeline, task: where it was drafted.
        value: a candidate, or what a person wrote in its place.
        right: accepted, or written by the person; else rejected, or replaced.
        score: the verifier's, of a candidate that has one.
        note: the person's reason.
        holder: who said so.
    """

    pipeline: str
    task: str
    value: Any
    right: bool
    score: float | None = None
    note: str = ""
    holder: str = ""


def labels(run: RunRecords) -> tuple[Label, ...]:
    """The labels of a run, in the order in which people were asked.

    An edit gives two: its value is right, and the candidate that it replaced is not. People are asked about drafts
    that were refused, so a run's labels say how often a refusal was wrong, and nothing of what was accepted.
    """
    collected = []
    for question in (question for latest in run.questions for question in (*latest.before, latest)):
        if not question.answer:
            continue
        candidate, edited = question.candidate, question.answer == "edit"
        label = partial(
            Label,
            pipeline=question.pipeline,
            task=question.asking or question.task,
            note=question.note,
            holder=question.holder,
        )
        if candidate is not None and not (edited and _text(question.value) == _text(candidate.value)):
            right = question.answer == "accept"
            collected.append(label(value=candidate.value, right=right, score=candidate.score))
        if edited:
            collected.append(label(value=question.value, right=True))
    return tuple(collected)


class Reviewed:
    """What people said of the same value of the same task in a reviewed run; no say on any other.

    Where two people differ about one value, the last one counts.

    Args:
        run: the directory of the run.

    Examples:
        `metrics: {people: {use: reviewed, run: runs/first}}` in a config, and `draftverify fit scores RUN
        --metric people` learns what scores mean from what people decided.
    """

    def __init__(self, run: Path) -> None:
        self.run = run
        self._said: dict[tuple[str, str], bool] | None = None

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Read the labels, before any task is paid for.

        Raises:
            StoreError: there is no such run.
        """
        with load_run(self.run) as run:
            self._said = {(label.task, _text(label.value)): label.right for label in labels(run)}

    def __call__(self, task: Task, outcome: Outcome) -> bool | None:
        """Whether the value is right; None where nobody said, or nothing was accepted.

        Raises:
            StoreError: there is no such run.
        """
        if self._said is None:
            self.check_tasks(())
        return (
            None if outcome.status != "accepted" else (self._said or {}).get((task.id, _text(outcome.value)))
        )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
