"""Who says of a task's values that they are right: the run's metric and people; else the verifier and the rule do."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

from draftverify.bench.records.directory import RunRecords
from draftverify.lab.recording import OutcomeScores
from draftverify.protocols import Metric
from draftverify.secret import quiet
from draftverify.values import Outcome, Task

_log = quiet(logging.getLogger(__name__))


class RunMetric:
    """What a run's metric says of values, each as if it had been the task's answer.

    Args:
        run: whose recorded scores are taken where there are some.
        name: the metric's.
        metric: opened; asked about values that no pipeline of the run came to.
        stepwise: of a pipeline's name whether its answers are made of many items, of which none is a whole one.
    """

    def __init__(
        self,
        run: RunRecords,
        name: str,
        metric: Metric,
        stepwise: Callable[[str], bool] = lambda pipeline: False,
    ) -> None:
        self.name = name
        self.stepwise = stepwise
        self._scores = OutcomeScores(run, name, lambda: metric)
        self._failures: set[tuple[str, str]] = set()

    def right(self, task: Task, value: Any) -> bool | None:
        """Whether it says ½ or more; None where it has no say, or failed."""
        share, problem = self._scores.of(task, Outcome(status="accepted", value=value))
        if problem and (task.id, problem) not in self._failures:
            self._failures.add((task.id, problem))
            _log.warning("the metric %s failed on task %r: %s", self.name, task.id, problem)
        return None if share is None else share >= 0.5


class PeopleLabels(NamedTuple):
    """What people said of a task's values, by their JSON: whether each is right, and what they wrote in its place."""

    right: dict[str, bool]
    instead: dict[str, Any]


def people_labels(run: RunRecords) -> dict[tuple[str, str], PeopleLabels]:
    labels_of: dict[tuple[str, str], PeopleLabels] = {}
    for question in chain.from_iterable((*final.before, final) for final in run.questions):
        if not question.answer or question.asking:  # of an inner task, whose items are in no row
            continue
        labels = labels_of.setdefault((question.pipeline, question.task), PeopleLabels({}, {}))
        if question.candidate is not None:
            labels.right[value_key(question.candidate.value)] = question.answer == "accept"
        if question.answer == "edit":
            labels.right[value_key(question.value)] = True
            if question.candidate is not None:
                labels.instead[value_key(question.candidate.value)] = question.value
    return labels_of


class AnswerJudge:
    """Who says of a task's values that they are right.

    Args:
        task: with what it expects.
        metric: the run's.
        people: what they said of the task's values.
        stepwise: no item is a whole answer, so the metric judges none.
    """

    def __init__(self, task: Task, metric: RunMetric | None, people: PeopleLabels, stepwise: bool) -> None:
        self.people = people
        self.stepwise = stepwise
        self.by_metric = metric is not None
        """Whether whole answers are judged by a metric."""
        self._task = task
        self._metric = metric

    def of_answer(self, value: Any) -> tuple[bool | None, str]:
        """Whether a whole answer is right, and by whom; None where nobody can tell, or a person says otherwise."""
        person = self.people.right.get(value_key(value)) if self.people.right else None
        label = None if self._metric is None else self._metric.right(self._task, value)
        if self._metric is None or label is None:
            return person, "person"
        return (None if person is (not label) else label), f"metric {self._metric.name}"

    def of_item(self, value: Any) -> tuple[bool | None, str]:
        """The same of an item, which a metric judges where it is a whole answer."""
        if not self.stepwise:
            return self.of_answer(value)
        return (self.people.right.get(value_key(value)) if self.people.right else None), "person"


def value_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
