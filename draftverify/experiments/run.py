"""Running an experiment: tasks times pipelines, calibrated first, committed once, and taken up again where it stopped.

The unit of work is one task of one pipeline. A task's pipelines run one after the other, in turning order
(AB, BA, …), so that a machine that slows down slows them alike. Whatever ends the process, the same call on
the same directory goes on: committed units stay, units in flight run again, answered questions are taken
up. A retry is a unit of work too: the next attempt at a task that failed.
"""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from draftverify import calibration
from draftverify.engine.boundary import raised
from draftverify.engine.events import Event
from draftverify.engine.requests import Answer
from draftverify.errors import ConfigError, ContractError, StoreError
from draftverify.experiments.bench import Bench, Done, Unit, failed_unit
from draftverify.experiments.build import Builder
from draftverify.experiments.executors import Batch, Crew, Where
from draftverify.experiments.forecast import ENOUGH, Forecast, Meter
from draftverify.experiments.judging import AUDITS, marks_of
from draftverify.experiments.memory import Recall, Recollection
from draftverify.experiments.scoring import scores_of
from draftverify.experiments.specs import Experiment
from draftverify.experiments.workload import Workload, workload
from draftverify.metrics import Measure, check_metrics, measures_of
from draftverify.records import Entry, Prediction, Question, RunDirectory, Store, load_run
from draftverify.records.store import Key, store_url
from draftverify.report.page import page_html
from draftverify.report.summary import ALL, Explain, Summary, scored, speedup_kind, summarise
from draftverify.secret import quiet
from draftverify.values import Explanation, Failure, Round, Task, TaskRecord

__all__ = ["Plan", "RunResult", "Watcher", "estimate", "plan", "run"]

_log = quiet(logging.getLogger(__name__))

EXPLAINED = 20
"""Divergences of a pipeline for which the verifier is asked why: each can cost it a pass."""


class Watcher(Protocol):
    """Told how a run goes on; all methods are called from the driver's process, `event` from worker threads too."""

    def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
        """A phase ("calibrate", "measure") begins: for each pipeline, units done before and units in all."""
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


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended.

    Args:
        path: the run directory.
        summary: every figure of the tables.
        failed: measured units that ended as failed.
        waiting: measured units that wait for a person.
        resumed: whether the directory was there before.
        ran: units that were performed by this call.
    """

    path: Path
    summary: Summary
    failed: int
    waiting: int
    resumed: bool
    ran: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do.

    Args:
        tasks: for each phase and group, how many tasks.
        units: for each pipeline, how many of its tasks are done in the run directory, and how many it has.
        failed: how many of those that are done ended as failed.
        waiting: how many wait for a person.
    """

    tasks: Mapping[str, Mapping[str, int]]
    units: Mapping[str, tuple[int, int]]
    failed: int = 0
    waiting: int = 0


def run(
    experiment: Experiment,
    *,
    out: str | Path,
    fresh: bool = False,
    accept_changed: bool = False,
    retry_errors: bool = False,
    store: str | None = None,
    watcher: Watcher | None = None,
    command: Sequence[str] = (),
) -> RunResult:
    """Run an experiment, or go on with it.

    Args:
        experiment: from `load_experiment`.
        out: the run directory.
        fresh: move what is there aside and begin anew.
        accept_changed: go on though a plugin, a parts file or a file of an argument is no longer the one that the run
            was made with; run.json notes what changed. Without it that is refused.
        retry_errors: make tasks that failed again, as their next attempt; the failed attempt stays in the records.
        store: a PostgreSQL URL for the records, instead of the config's; a SQLite file in the directory when there is
            none.
        watcher: is told how it goes on.
        command: the command line that asked for it, for the report; run.json notes it.

    Raises:
        DraftVerifyError: when the config, a part or the directory cannot be used. Tasks that fail do not
        raise. KeyboardInterrupt: passed on; the directory can be resumed.
    """
    with _begun(experiment, out, fresh, accept_changed, retry_errors, store, watcher, command) as work:
        directory, load, bench, builder = work.directory, work.load, work.bench, work.builder
        with work.crew, work.recollection:
            if load.first:
                work.perform(load.first, "calibrate")
                _predict(experiment, directory.store, load, builder, bench)
            work.perform(load.measured, "measure")
        if retry_errors:
            directory.store.end_retry()
        # Read once, for the figures and for the page.
        entries = tuple(directory.store.entries(phase="measure"))
        summary = _summary(experiment, directory.store, load, bench, builder, work.marks, entries)
        directory.write_summary(summary.plain())
        _write_report(directory, entries)
    return RunResult(
        path=directory.path,
        summary=summary,
        failed=sum(pipeline.statuses.get("failed", 0) for pipeline in summary.pipelines),
        waiting=sum(pipeline.statuses.get("waiting", 0) for pipeline in summary.pipelines),
        resumed=directory.resumed,
        ran=work.ran,
    )


def estimate(
    experiment: Experiment,
    *,
    out: str | Path,
    fresh: bool = False,
    accept_changed: bool = False,
    store: str | None = None,
    watcher: Watcher | None = None,
    command: Sequence[str] = (),
) -> Forecast:
    """Do an experiment's first tasks, and say what the rest will take.

    They are committed, so that a run goes on from them: of each pipeline the next six or more that are not done yet,
    two or more of each group.

    Args:
        experiment, out, fresh, accept_changed, store, watcher, command: as for a run.

    Raises:
        DraftVerifyError: as a run.
    """
    with _begun(experiment, out, fresh, accept_changed, False, store, watcher, command) as work:
        load = work.load
        work.foretold = False
        with work.crew, work.recollection:
            chosen = work.first_of(load.first, ENOUGH)
            if chosen:
                work.perform(load.first, "calibrate", only=chosen)
            # What is measured is predicted before, and from all that calibrate.
            if len(chosen) < ENOUGH and not work.first_of(load.first, 1):
                if load.first:
                    _predict(experiment, work.store, load, work.builder, work.bench)
                work.perform(
                    load.measured, "measure", only=work.first_of(load.measured, ENOUGH - len(chosen))
                )
        return work.meter.forecast()


def plan(
    experiment: Experiment,
    *,
    out: str | Path,
    fresh: bool = False,
    accept_changed: bool = False,
    store: str | None = None,
) -> Plan:
    """What a run would do: everything is checked that costs little, and nothing is done or written.

    Args:
        experiment, out, fresh, accept_changed, store: as for a run.

    Raises:
        DraftVerifyError: as a run, but for what shows only when models are loaded or tasks are run.
    """
    builder = Builder()
    bench = builder.bench(experiment)
    try:
        builder.part(experiment.executor)
        load = workload(experiment, builder)
        _check_metrics(experiment, load, builder)
        marks = _marks(experiment, bench)
    finally:
        bench.close()
    done: set[tuple[str, str]] = set()
    failed = waiting = 0
    directory = _directory(experiment, out, fresh, accept_changed, store, marks)
    if directory.look():
        with load_run(out, url=directory.url) as records:
            asked = [each for each in records.store.questions() if each.state != "used"]
            done = {(pipeline, task) for pipeline, task, _ in records.store.committed()}
            done -= {
                (each.pipeline, each.task) for each in asked
            }  # failed, and the next attempt is under way
            failed = records.store.failures()
            waiting = sum(each.state == "pending" for each in asked)
    phases = {"calibrate": load.first, "measure": load.measured}
    own = {name: load.tasks(name) for name in experiment.names}
    return Plan(
        tasks={phase: Counter(task.group for task in tasks) for phase, tasks in phases.items() if tasks},
        units={
            name: (sum((name, task.id) in done for task in tasks), len(tasks)) for name, tasks in own.items()
        },
        failed=failed,
        waiting=waiting,
    )


def _directory(
    experiment: Experiment,
    out: str | Path,
    fresh: bool,
    accept_changed: bool,
    store: str | None,
    marks: Mapping[str, Sequence[str]],
    command: Sequence[str] = (),
) -> RunDirectory:
    return RunDirectory(
        out,
        name=experiment.name,
        config=experiment.config,
        config_hash=experiment.fingerprint,
        parts=experiment.parts(),
        metrics=experiment.metric_parts(),
        marks=marks,
        tags=experiment.tags,
        fresh=fresh,
        accept_changed=accept_changed,
        url=store or (experiment.store and store_url(experiment.store)),
        command=command,
    )


def _check_metrics(experiment: Experiment, load: Workload, builder: Builder) -> None:
    metrics = {name: builder.part(spec) for name, spec in experiment.metrics.items()}
    check_metrics(metrics, [*load.first, *load.measured])


@contextmanager
def _begun(
    experiment: Experiment,
    out: str | Path,
    fresh: bool,
    accept_changed: bool,
    retry_errors: bool,
    store: str | None,
    watcher: Watcher | None,
    command: Sequence[str],
) -> Iterator[_Work]:
    """A run's parts and its open directory, ready for its phases; all is given back at the end."""
    builder = Builder()
    bench = builder.bench(experiment)
    where: Where | Batch = builder.part(experiment.executor)
    load = workload(experiment, builder)
    _check_metrics(experiment, load, builder)
    try:
        if where.local and (fresh or not os.path.exists(out)):
            # What cannot be opened leaves no directory behind, in which a mended config would be another one.
            for name in experiment.names:
                bench.open(name)
        marks = _marks(experiment, bench)
        with _directory(experiment, out, fresh, accept_changed, store, marks, command) as directory:
            bench.on_round = directory.store.commit_round if experiment.durable == "round" else None
            bench.on_event = watcher.event if watcher is not None else None
            local = bench if where.local else None
            crew = Crew(where, bench=local, spec=experiment.to_json(), on_round=bench.on_round)
            directory.store.set_own(load.own)
            directory.store.add_tasks(load.first, "calibrate")
            directory.store.add_tasks(load.measured, "measure")
            retried = directory.store.begin_retry() if retry_errors else set()
            yield _Work(experiment, load, builder, bench, directory, marks, watcher, crew, retried)
    finally:
        bench.close()


def _marks(experiment: Experiment, bench: Bench) -> dict[str, tuple[str, ...]]:
    """What reports say of each pipeline; audits of its judges lie beside the config."""
    audits = Path(experiment.file).parent / AUDITS
    return {name: marks_of(bench.pipelines[name], audits) for name in experiment.names}


class _Before(NamedTuple):
    """What stood in the store before a phase: attempts, questions, and tasks that were begun and did not end.

    `latest` has the last committed attempt of each (pipeline, task), `asked` the question that its next one waits for.
    """

    latest: dict[tuple[str, str], int]
    asked: dict[tuple[str, str], Question]
    begun: set[Key]


@dataclass
class _Work:
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
    recollection: Recollection = field(default_factory=Recollection)
    meter: Meter = field(init=False)
    foretold: bool = True  # on the way, once; an estimate does it at its end, from all that it did
    ran: int = 0

    def __post_init__(self) -> None:
        before = self._before()
        left: Counter[tuple[str, str]] = Counter()
        for name in self.experiment.names:
            for task in self.load.tasks(name):
                left[name, task.group] += self._attempt(name, task.id, before) is not None
        self.meter = Meter(left)

    @property
    def store(self) -> Store:
        """The run's records."""
        return self.directory.store

    def first_of(self, tasks: Sequence[Task], most: int) -> set[str]:
        """The first of these tasks that some pipeline has not done yet: `most` or more, two or more of each group.

        They are of one epoch: what the next one sees has to be complete. Where it has fewer, all of them.
        """
        before = self._before()
        length = self.experiment.epoch or max(len(tasks), 1)
        for start in range(0, len(tasks), length):
            groups: dict[str, list[str]] = {}
            for task in tasks[start : start + length]:
                if any(self._attempt(name, task.id, before) is not None for name in self.experiment.names):
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
        before = self._before()
        places = [place for place, task in enumerate(tasks) if only is None or task.id in only]
        totals: dict[str, tuple[int, int]] = {}
        for name in self.experiment.names:
            own = self.load.of(name, [tasks[place] for place in places])
            left = sum(self._attempt(name, task.id, before) is not None for task in own)
            totals[name] = (len(own) - left, len(own))
            if left and self.crew.bench is not None:
                # What cannot be opened ends the run before a task of another pipeline has been paid for.
                self.crew.bench.open(name)
        if self.watcher is not None:
            self.watcher.started(phase, totals)
        length = self.experiment.epoch
        if length is None:
            self.crew.perform(self._units(tasks, places, before, 0), partial(self._take, 0, None))
            return
        self.recollection.forget()
        past: dict[tuple[str, str], TaskRecord] = {}
        if before.latest:  # a run that is taken up again
            entries = self.store.entries(texts=False)
            past = {(entry.pipeline, entry.record.task): entry.record for entry in entries}
        asked = {(each.pipeline, each.task) for each in self.store.questions()}
        for epoch, start in enumerate(range(0, max(places, default=-1) + 1, length)):
            stop = min(start + length, len(tasks))
            now = [place for place in places if start <= place < stop]
            self.crew.perform(self._units(tasks, now, before, epoch), partial(self._take, epoch, past))
            # A task that waited for a person is left out for good: when it is answered is no business of the others.
            asked |= {(question.pipeline, question.task) for question in self.store.questions("pending")}
            for name in self.experiment.names:
                for place in range(start, stop):
                    record = past.pop((name, tasks[place].id), None)
                    if record is not None and (name, tasks[place].id) not in asked:
                        self.recollection.add(name, record)

    def _before(self) -> _Before:
        """Looked up once a phase, as what stood there before: a unit comes up once, and the store grows meanwhile."""
        latest: dict[tuple[str, str], int] = {}
        for pipeline, task, attempt in self.store.committed():
            latest[pipeline, task] = max(attempt, latest.get((pipeline, task), 0))
        asked = {(each.pipeline, each.task): each for each in self.store.questions() if each.state != "used"}
        return _Before(latest, asked, self.store.open_tasks())

    def _attempt(self, name: str, task: str, before: _Before) -> int | None:
        """Which attempt at a task is to be made now; None where it is done or waits, or is not this pipeline's."""
        if not self.load.has(name, task):
            return None
        last, question = before.latest.get((name, task)), before.asked.get((name, task))
        if question is not None and (last is None or question.attempt > last):
            return None if question.state == "pending" else question.attempt
        if last is None:
            return 0
        return last + 1 if (name, task, last) in self.retried else None

    def _units(
        self, tasks: Sequence[Task], places: Sequence[int], before: _Before, epoch: int
    ) -> Iterator[Callable[[], Unit]]:
        for place in places:
            task = tasks[place]
            for name in self.experiment.names if place % 2 == 0 else reversed(self.experiment.names):
                attempt = self._attempt(name, task.id, before)
                if attempt is not None:
                    recall = self.recollection.of(name, epoch)
                    yield partial(self._unit, name, task, attempt, before, recall)

    def _unit(self, name: str, task: Task, attempt: int, before: _Before, recall: Recall | None) -> Unit:
        restore: tuple[Round, ...] = ()
        key = (name, task.id, attempt)
        if (
            key not in before.begun
        ):  # a unit that is made again, since its worker died, may have rounds by then
            before.begun.add(key)
        else:
            try:
                restore = self.store.rounds(*key)
            except StoreError as error:
                _log.warning("task %r of %s begins anew: %s", task.id, name, error)
        plain = task.without_truth()
        unit = Unit(pipeline=name, task=plain, attempt=attempt, restore=restore, recall=recall)
        question = before.asked.get((name, task.id))
        # An answer that led to a round of its own is in the rounds already.
        known = question is not None and question.state == "answered" and question.attempt == attempt
        if question is None or not known or question.round != len(restore):
            return unit
        answer = Answer(question.answer, question.value, question.note)  # type: ignore[arg-type]
        return replace(unit, answer=answer, asking=question.asking, inner=question.inner)

    def _take(
        self, epoch: int, past: dict[tuple[str, str], TaskRecord] | None, ended: Sequence[Done]
    ) -> None:
        """Commit what has come, in one transaction, and only then say so."""
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
                    self.store.park(name, record, done.question, done.texts)
                except ContractError as caught:
                    error = caught
            if error is not None:
                task = Task(id=record.task, group=record.group)
                unit = Unit(pipeline=name, task=task, attempt=record.attempt)
                record = failed_unit(unit, Failure.of(error)).record
                self.store.commit(name, record, memory=epoch)
            if past is not None and (done.question is None or error is not None):
                past[name, record.task] = record
            self.ran += 1
            self.meter.add(name, record)
            if self.watcher is not None:
                self.watcher.done(name, record)
                if self.foretold and (forecast := self.meter.due()) is not None:
                    self.watcher.forecast(forecast)


def _write_report(directory: RunDirectory, entries: Sequence[Entry]) -> None:
    """Write report.html; where that fails, all else is written already, and the run ends as it would."""
    try:
        with load_run(directory.path, url=directory.url, thorough=False) as records:
            directory.write_report(page_html(records, entries=entries))
    except Exception as error:
        _log.warning(
            "report.html was not written (%s); the records and summary.json are whole. What is wrong is shown by: "
            "draftverify --traceback report %s",
            raised(error),
            directory.path,
        )


def _records(
    entries: Iterable[Entry], names: Sequence[str], tasks: Sequence[Task]
) -> dict[str, list[TaskRecord]]:
    ids = {task.id for task in tasks}
    found: dict[str, list[TaskRecord]] = {name: [] for name in names}
    for entry in entries:
        if entry.record.task in ids:
            found[entry.pipeline].append(entry.record)
    return found


def _predict(experiment: Experiment, store: Store, load: Workload, builder: Builder, bench: Bench) -> None:
    """Write down what the measuring run should show, once, before it begins."""
    ids = {task.id for task in load.measured}
    if experiment.baseline is None or any(task in ids for _, task, _ in store.committed()):
        return
    records = _records(store.entries(phase="calibrate", texts=False), experiment.names, load.first)
    measures = _measures(experiment, builder)
    judging = {name: spec for name, spec in experiment.metrics.items() if name not in measures}
    scores = scores_of(judging, load.first, records, store, builder, bench)
    predictions = []
    for name, own in records.items():
        base = experiment.compared_with(name)
        if base is None:
            continue
        plain, measured = records[base], load.of(name, load.measured)
        counts = Counter(task.group for task in measured)
        try:
            if scores:
                said = next(iter(scores.values()))
                sides = scored(said, name, own), scored(said, base, plain)
                found = calibration.predict_solved(*sides, {**counts, ALL: len(measured)})
            else:
                found = calibration.predict(own, plain, counts)
                # The same for all tasks together: one group of them.
                found[ALL] = calibration.predict(_pooled(own), _pooled(plain), {ALL: len(measured)})[ALL]
        except ConfigError:
            continue  # no calibration task came to an end with both: there is nothing to say
        for group, each in found.items():
            ends = {"value": each.value, "low": each.low, "high": each.high}
            finite = {end: number if math.isfinite(number) else None for end, number in ends.items()}
            detail = {"basis": each.basis}
            predictions.append(
                Prediction(pipeline=name, group=group, kind=speedup_kind(scores), detail=detail, **finite)
            )
    store.predict(predictions)


def _measures(experiment: Experiment, builder: Builder) -> dict[str, Measure]:
    return measures_of({name: builder.part(spec) for name, spec in experiment.metrics.items()})


def _pooled(records: Sequence[TaskRecord]) -> list[TaskRecord]:
    return [replace(record, group=ALL) for record in records]


def _summary(
    experiment: Experiment,
    store: Store,
    load: Workload,
    bench: Bench,
    builder: Builder,
    marks: Mapping[str, Sequence[str]],
    entries: Iterable[Entry],
) -> Summary:
    waiting = [(each.pipeline, each.task) for each in store.questions() if each.state != "used"]
    blocks = {}
    for name in experiment.names:
        report = getattr(bench.pipelines[name].block, "report", None)
        if callable(report):
            blocks[name] = msgspec.to_builtins(report())
    records = _records(entries, experiment.names, load.measured)
    return summarise(
        name=experiment.name,
        tasks=load.measured,
        records=records,
        baseline=experiment.baseline,
        baselines=experiment.baselines,
        predictions=store.predictions(),
        waiting=waiting,
        explain=_explainer(bench),
        blocks=blocks,
        marks=marks,
        scores=scores_of(experiment.metrics, load.measured, records, store, builder, bench),
        measures=_measures(experiment, builder),
    )


def _explainer(bench: Bench) -> Explain:
    """Ask a pipeline's own verifier why two values differ, where it can tell."""
    asked: dict[str, int] = {}

    def explain(pipeline: str, task: Task, expected: Any, got: Any) -> Explanation | None:
        asked[pipeline] = asked.get(pipeline, 0) + 1
        if asked[pipeline] > EXPLAINED:
            return None
        try:
            bench.open(pipeline)
            return bench.pipelines[pipeline].explain(task, expected, got)
        except BaseException as error:
            return Explanation("unexplained", f"the verifier could not explain it: {raised(error)}")

    return explain
