"""What a run has left to do, and doing it: phase by phase, epoch by epoch, each unit committed before it is told of.

A unit is one attempt at one task of one pipeline. What is done is not done again, what waits for a person waits, and
what was answered is taken up.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from draftverify.bench.config.specs import Experiment
from draftverify.bench.executors.crew import Crew
from draftverify.bench.monitors.watching import Watching
from draftverify.bench.records.directory import RunDirectory
from draftverify.bench.records.entries import Entry, Key, Question
from draftverify.bench.records.store import Store
from draftverify.bench.runner.bench import Bench, Done, Unit, failed_unit
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.forecast import Forecast, Meter
from draftverify.bench.runner.limits import RunLimits
from draftverify.bench.runner.memory import Recall, Recollection
from draftverify.bench.runner.workload import Workload
from draftverify.engine.events import Event
from draftverify.engine.requests import Answer
from draftverify.errors import ContractError, StoreError
from draftverify.secret import quiet
from draftverify.values import Failure, Round, Task, TaskRecord

_log = quiet(logging.getLogger(__name__))


class Watcher(Protocol):
    """Watches how a run goes on; all methods are called from the driver's process, `event` from worker threads too."""

    def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
        """A phase ("predict", "measure") begins: for each pipeline, units done before and units in all."""
        ...

    def event(self, event: Event) -> None:
        """A task went on; never called for workers of other processes."""
        ...

    def done(self, pipeline: str, record: TaskRecord) -> None:
        """A unit ended: committed, or waiting for a person."""
        ...

    def forecast(self, forecast: Forecast) -> None:
        """What is left will take more than a few minutes; told once, when enough tasks are done to say so."""
        ...


class _Prior(NamedTuple):
    """What stood in the store before a phase: attempts, questions, and tasks that were begun and did not end.

    `latest` has the last committed attempt of each (pipeline, task), `questions` the question that its
    next one waits for.
    """

    latest: dict[tuple[str, str], int]
    questions: dict[tuple[str, str], Question]
    begun: set[Key]


@dataclass
class Work:
    """What the phases of one run share. `retried` are the failed records whose next attempt is to be made."""

    experiment: Experiment
    load: Workload
    builder: Builder
    bench: Bench
    directory: RunDirectory
    marks: Mapping[str, Sequence[str]]
    watcher: Watcher | None
    crew: Crew
    retried: set[Key]
    limits: RunLimits = field(default_factory=RunLimits)
    recollection: Recollection = field(default_factory=Recollection)
    meter: Meter = field(init=False)
    watching: Watching = field(init=False)
    foretold: bool = True  # on the way, once; an estimate does it at its end, from all that it did
    ran: int = 0

    def __post_init__(self) -> None:
        prior = self._prior()
        remaining: Counter[tuple[str, str]] = Counter()
        for name in self.experiment.names:
            for task in self.load.tasks(name):
                remaining[name, task.group] += self._attempt(name, task.id, prior) is not None
        self.meter = Meter(remaining, self.experiment.currency)
        self.watching = Watching(self.experiment, self.load, self.bench, self.store)

    @property
    def store(self) -> Store:
        """The run's records."""
        return self.directory.store

    def first_of(self, tasks: Sequence[Task], most: int) -> set[str]:
        """The first of these tasks that some pipeline has not done yet: `most` or more, two or more of each group.

        They are of one epoch: what the next one sees has to be complete. Where it has fewer, all of them.
        """
        prior = self._prior()
        length = self.experiment.memory or max(len(tasks), 1)
        for start in range(0, len(tasks), length):
            groups: dict[str, list[str]] = {}
            for task in tasks[start : start + length]:
                if any(self._attempt(name, task.id, prior) is not None for name in self.experiment.names):
                    groups.setdefault(task.group, []).append(task.id)
            if groups:
                deep = max(2, math.ceil(most / len(groups)))
                enough = min(most, sum(map(len, groups.values())))
                while sum(len(group[:deep]) for group in groups.values()) < enough:  # some groups are short
                    deep += 1
                return {task for group in groups.values() for task in group[:deep]}
        return set()

    def perform(self, tasks: Sequence[Task], phase: str, only: Collection[str] | None = None) -> None:
        """Perform what is not done yet of these tasks, or of some of them, epoch by epoch."""
        prior = self._prior()
        places = [place for place, task in enumerate(tasks) if only is None or task.id in only]
        totals: dict[str, tuple[int, int]] = {}
        for name in self.experiment.names:
            own_tasks = self.load.of(name, [tasks[place] for place in places])
            remaining = sum(self._attempt(name, task.id, prior) is not None for task in own_tasks)
            totals[name] = (len(own_tasks) - remaining, len(own_tasks))
            if remaining and self.crew.bench is not None:
                # What cannot be opened ends the run before a task of another pipeline has been paid for.
                self.crew.bench.open(name)
        if self.watcher is not None:
            self.watcher.started(phase, totals)
        length = self.experiment.memory
        if length is None:
            self.crew.perform(self._units(tasks, places, prior, 0), partial(self._take, 0, None))
            self.limits.check()
            return
        self.recollection.forget()
        past: dict[tuple[str, str], TaskRecord] = {}
        if prior.latest:  # a run that is taken up again
            entries = self.store.entries(texts=False)
            past = {(entry.pipeline, entry.record.task): entry.record for entry in entries}
        questioned = {(question.pipeline, question.task) for question in self.store.questions()}
        for epoch, start in enumerate(range(0, max(places, default=-1) + 1, length)):
            stop = min(start + length, len(tasks))
            now = [place for place in places if start <= place < stop]
            self.crew.perform(self._units(tasks, now, prior, epoch), partial(self._take, epoch, past))
            self.limits.check()
            # A task that waited for a person is left out for good: when it is answered is no business of the others.
            questioned |= {(question.pipeline, question.task) for question in self.store.questions("pending")}
            for name in self.experiment.names:
                for place in range(start, stop):
                    record = past.pop((name, tasks[place].id), None)
                    if record is not None and (name, tasks[place].id) not in questioned:
                        self.recollection.add(name, record)

    def _prior(self) -> _Prior:
        """What stood in the store before this phase, looked up once: a unit comes up once, and the store grows
        meanwhile."""
        latest: dict[tuple[str, str], int] = {}
        for pipeline, task, attempt in self.store.committed():
            latest[pipeline, task] = max(attempt, latest.get((pipeline, task), 0))
        questions = {
            (question.pipeline, question.task): question
            for question in self.store.questions()
            if question.state != "used"
        }
        return _Prior(latest, questions, self.store.open_tasks())

    def _attempt(self, name: str, task: str, prior: _Prior) -> int | None:
        """Which attempt at a task is to be made now; None where it is done or waits, or is not this pipeline's."""
        if not self.load.has(name, task):
            return None
        attempt, question = prior.latest.get((name, task)), prior.questions.get((name, task))
        if question is not None and (attempt is None or question.attempt > attempt):
            return None if question.state == "pending" else question.attempt
        if attempt is None:
            return 0
        return attempt + 1 if (name, task, attempt) in self.retried else None

    def _units(
        self, tasks: Sequence[Task], places: Sequence[int], prior: _Prior, epoch: int
    ) -> Iterator[Callable[[], Unit]]:
        for place in places:
            task = tasks[place]
            for name in self.experiment.names if place % 2 == 0 else reversed(self.experiment.names):
                attempt = self._attempt(name, task.id, prior)
                if self.limits.stopped:
                    return
                if attempt is not None:
                    recall = self.recollection.of(name, epoch)
                    yield partial(self._unit, name, task, attempt, prior, recall)

    def _unit(self, name: str, task: Task, attempt: int, prior: _Prior, recall: Recall | None) -> Unit:
        restore: tuple[Round, ...] = ()
        key = (name, task.id, attempt)
        # A unit that is made again, since its worker died, may have rounds by then.
        if key not in prior.begun:
            prior.begun.add(key)
        else:
            try:
                restore = self.store.rounds(*key)
            except StoreError as error:
                _log.warning("task %r of %s begins anew: %s", task.id, name, error)
        plain = task.without_expected()
        unit = Unit(
            pipeline=name,
            task=plain,
            attempt=attempt,
            restore=restore,
            recall=recall,
            alarmed=self.watching.alarmed(name),
        )
        question = prior.questions.get((name, task.id))
        # An answer that led to a round of its own is in the rounds already.
        answered = question is not None and question.state == "answered" and question.attempt == attempt
        if question is None or not answered or question.round != len(restore):
            return unit
        answer = Answer(question.answer, question.value, question.note)  # type: ignore[arg-type]
        return replace(unit, answer=answer, asking=question.asking, inner=question.inner)

    def _take(
        self, epoch: int, past: dict[tuple[str, str], TaskRecord] | None, ended: Sequence[Done]
    ) -> None:
        """Commit the units that have come, in one transaction, and only then say so."""
        self.directory.check()
        entries = [
            Entry(pipeline=done.pipeline, record=done.record, texts=done.texts, memory=epoch)
            for done in ended
            if done.question is None
        ]
        refused = self.store.commit_all(entries)
        for done in ended:
            name, record, error = done.pipeline, done.record, None
            if done.question is None:
                error = refused.get((name, record.task, record.attempt))
            else:
                try:
                    self.store.park(name, record, done.question, done.texts, memory=epoch)
                except ContractError as caught:
                    error = caught
            if error is not None:
                task = Task(id=record.task, group=record.group)
                unit = Unit(pipeline=name, task=task, attempt=record.attempt)
                record = failed_unit(unit, Failure.of(error)).record
                self.store.commit(name, record, memory=epoch)
            if past is not None and (done.question is None or error is not None):
                past[name, record.task] = record
            self.watching.take(name, record)
            self.limits.take(name, record)
            self.ran += 1
            self.meter.add(name, record)
            if self.watcher is not None:
                self.watcher.done(name, record)
                if self.foretold and (forecast := self.meter.due()) is not None:
                    self.watcher.forecast(forecast)
