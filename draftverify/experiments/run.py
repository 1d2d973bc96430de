"""Running an experiment: tasks times pipelines, calibrated first, committed once, and taken up again where it stopped.

The unit of work is one task of one pipeline. A task's pipelines run one after the other, in turning order
(AB, BA, …), so that a machine that slows down slows them alike. Whatever ends the process, the same call on
the same directory goes on: committed units stay, units in flight run again, answered questions are taken
up.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from draftverify import calibration
from draftverify.engine.boundary import raised, shown
from draftverify.engine.events import Event
from draftverify.engine.requests import Answer
from draftverify.errors import ConfigError, ContractError, StoreError
from draftverify.experiments.bench import Bench, Done, Unit, failed_unit
from draftverify.experiments.build import Builder
from draftverify.experiments.compare import ALL, Explain, Summary, scored, speedup_kind, summarise
from draftverify.experiments.executors import Batch, Crew, Where
from draftverify.experiments.judging import AUDITS, marks_of
from draftverify.experiments.memory import Recall, Recollection
from draftverify.experiments.report import report_html
from draftverify.experiments.scoring import scores_of
from draftverify.experiments.specs import Experiment
from draftverify.metrics import check_metrics
from draftverify.records import Prediction, Question, RunDirectory, Store
from draftverify.records.store import Key
from draftverify.secret import quiet
from draftverify.values import Explanation, Failure, Round, Task, TaskRecord, is_utf8

__all__ = ["RunResult", "Watcher", "run"]

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


def run(
    experiment: Experiment,
    *,
    out: str | Path,
    fresh: bool = False,
    accept_changed: bool = False,
    store: str | None = None,
    watcher: Watcher | None = None,
) -> RunResult:
    """Run an experiment, or go on with it.

    Args:
        experiment: from `load_experiment`.
        out: the run directory.
        fresh: move what is there aside and begin anew.
        accept_changed: go on though a plugin, a parts file or a file of an argument is no longer the one that the run
            was made with; run.json notes what changed. Without it that is refused.
        store: a PostgreSQL URL for the records; a SQLite file in the directory when None.
        watcher: is told how it goes on.

    Raises:
        DraftVerifyError: when the config, a part or the directory cannot be used. Tasks that fail do not
        raise. KeyboardInterrupt: passed on; the directory can be resumed.
    """
    builder = Builder()
    bench = builder.bench(experiment)
    where: Where | Batch = builder.part(experiment.executor)
    tasks = _load(builder.part(experiment.tasks))
    check_metrics({name: builder.part(spec) for name, spec in experiment.metrics.items()}, tasks)
    first, measured = _split(tasks, experiment.calibrate)
    try:
        if where.local and (fresh or not Path(out).exists()):
            # What cannot be opened leaves no directory behind, in which a mended config would be another one.
            for name in experiment.names:
                bench.open(name)
        marks = _marks(experiment, bench)
        directory = RunDirectory(
            out,
            name=experiment.name,
            config=experiment.config,
            config_hash=experiment.fingerprint,
            parts=experiment.parts(),
            metrics=experiment.metric_parts(),
            marks=marks,
            fresh=fresh,
            accept_changed=accept_changed,
            url=store,
        )
        with directory:
            bench.on_round = directory.store.commit_round if experiment.durable == "round" else None
            bench.on_event = watcher.event if watcher is not None else None
            local = bench if where.local else None
            crew = Crew(where, bench=local, spec=experiment.to_json(), on_round=bench.on_round)
            directory.store.add_tasks(first, "calibrate")
            directory.store.add_tasks(measured, "measure")
            with crew, Recollection() as recollection:
                work = _Work(experiment, directory.store, watcher, crew, recollection)
                if first:
                    work.perform(first, "calibrate")
                    _predict(experiment, directory.store, first, measured, builder, bench)
                work.perform(measured, "measure")
            summary = _summary(experiment, directory.store, measured, bench, builder, marks)
            directory.write_summary(summary.plain())
            directory.write_report(report_html(summary))
    finally:
        bench.close()
    return RunResult(
        path=directory.path,
        summary=summary,
        failed=sum(pipeline.statuses.get("failed", 0) for pipeline in summary.pipelines),
        waiting=sum(pipeline.statuses.get("waiting", 0) for pipeline in summary.pipelines),
        resumed=directory.resumed,
        ran=work.ran,
    )


def _marks(experiment: Experiment, bench: Bench) -> dict[str, tuple[str, ...]]:
    """What reports say of each pipeline; audits of its judges lie beside the config."""
    audits = Path(experiment.file).parent / AUDITS
    return {name: marks_of(bench.pipelines[name], audits) for name in experiment.names}


def _load(source: Any) -> list[Task]:
    made = source.load()
    what = f"load() of {type(source).__name__}"
    if isinstance(made, (str, bytes, Mapping)) or not isinstance(made, Iterable):
        raise ConfigError(f"{what} must return a list of Tasks, not {shown(made)}", path="tasks")
    tasks: list[Task] = list(made)
    seen: set[str] = set()
    for index, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise ConfigError(f"{what} must return a list of Tasks; [{index}] is {shown(task)}", path="tasks")
        for name in ("id", "group"):
            if not isinstance(value := getattr(task, name), str):
                raise ConfigError(
                    f"{what}: the {name} of [{index}] is {shown(value)}; a text is needed", path="tasks"
                )
        if task.id in seen:
            raise ConfigError(f"two tasks have the id {task.id!r}; ids are unique within a run", path="tasks")
        seen.add(task.id)
        for name, text, most in (("id", task.id, 512), ("group", task.group, 256)):
            # What one database would take and another not, none is given.
            if len(text) > most or "\0" in text or not is_utf8(text):
                raise ConfigError(
                    f"the {name} {text[:40]!r}{'…' * (len(text) > 40)} cannot be recorded: at most {most} characters "
                    "are, without NUL bytes and halves of surrogate pairs",
                    path="tasks",
                )
    return tasks


def _split(tasks: Sequence[Task], calibrate: int | None) -> tuple[list[Task], list[Task]]:
    """The first `calibrate` tasks of each group, and the others."""
    first: list[Task] = []
    rest: list[Task] = []
    counts: dict[str, int] = {}
    for task in tasks:
        counts[task.group] = counts.get(task.group, 0) + 1
        (first if counts[task.group] <= (calibrate or 0) else rest).append(task)
    if first and not rest:
        raise ConfigError(
            f"calibrating on the first {calibrate} of each group leaves none to measure; "
            "give more tasks, or a lower limit",
            path="calibrate.limit",
        )
    return first, rest


class _Before(NamedTuple):
    """What stood in the store before a phase: records, questions, and tasks that were begun and did not end."""

    committed: set[Key]
    questions: dict[Key, Question]
    begun: set[Key]


@dataclass
class _Work:
    """What the phases of one run share."""

    experiment: Experiment
    store: Store
    watcher: Watcher | None
    crew: Crew
    recollection: Recollection
    ran: int = 0

    def perform(self, tasks: Sequence[Task], phase: str) -> None:
        """Perform what is not done yet of these tasks, epoch by epoch."""
        committed = self.store.committed()
        ids = {task.id for task in tasks}
        done = {
            name: sum(key[0] == name and key[1] in ids for key in committed) for name in self.experiment.names
        }
        if self.crew.bench is not None:
            # What cannot be opened ends the run before a task of another pipeline has been paid for.
            for name in self.experiment.names:
                if done[name] < len(tasks):
                    self.crew.bench.open(name)
        if self.watcher is not None:
            self.watcher.started(phase, {name: (done[name], len(tasks)) for name in self.experiment.names})
        length = self.experiment.epoch
        # Looked up once, as what stood there before: a unit comes up once, and the store grows with every epoch.
        before = _Before(
            committed,
            {(each.pipeline, each.task, each.attempt): each for each in self.store.questions()},
            self.store.open_tasks(),
        )
        if length is None:
            self.crew.perform(self._units(tasks, range(len(tasks)), before, 0), partial(self._take, 0, None))
            return
        self.recollection.forget()
        past: dict[tuple[str, str], TaskRecord] = {}
        if any(done.values()):  # a run that is taken up again
            entries = self.store.entries(texts=False)
            past = {(entry.pipeline, entry.record.task): entry.record for entry in entries}
        asked = {(pipeline, task) for pipeline, task, _ in before.questions}
        for epoch, start in enumerate(range(0, len(tasks), length)):
            places = range(start, min(start + length, len(tasks)))
            self.crew.perform(self._units(tasks, places, before, epoch), partial(self._take, epoch, past))
            # A task that waited for a person is left out for good: when it is answered is no business of the others.
            asked |= {(question.pipeline, question.task) for question in self.store.questions("pending")}
            for name in self.experiment.names:
                for place in places:
                    record = past.pop((name, tasks[place].id), None)
                    if record is not None and (name, tasks[place].id) not in asked:
                        self.recollection.add(name, record)

    def _units(
        self, tasks: Sequence[Task], places: range, before: _Before, epoch: int
    ) -> Iterator[Callable[[], Unit]]:
        committed, questions, begun = before
        for place in places:
            task = tasks[place]
            for name in self.experiment.names if place % 2 == 0 else reversed(self.experiment.names):
                key = (name, task.id, 0)
                question = questions.get(key)
                if key in committed or (question is not None and question.state == "pending"):
                    continue
                recall = self.recollection.of(name, epoch)
                yield partial(self._unit, name, task, question, recall, begun)

    def _unit(
        self, name: str, task: Task, question: Question | None, recall: Recall | None, begun: set[Key]
    ) -> Unit:
        restore: tuple[Round, ...] = ()
        key = (name, task.id, 0)
        if key not in begun:  # a unit that is made again, since its worker died, may have rounds by then
            begun.add(key)
        else:
            try:
                restore = self.store.rounds(name, task.id, 0)
            except StoreError as error:
                _log.warning("task %r of %s begins anew: %s", task.id, name, error)
        unit = Unit(pipeline=name, task=task.without_truth(), restore=restore, recall=recall)
        # An answer that led to a round of its own is in the rounds already.
        if question is None or question.state != "answered" or question.round != len(restore):
            return unit
        answer = Answer(question.answer, question.value, question.note)  # type: ignore[arg-type]
        return replace(unit, answer=answer, asking=question.asking, inner=question.inner)

    def _take(self, epoch: int, past: dict[tuple[str, str], TaskRecord] | None, done: Done) -> None:
        name, record = done.pipeline, done.record
        waits = done.question is not None
        try:
            if done.question is not None:
                self.store.park(name, record, done.question, done.texts)
            else:
                self.store.commit(name, record, done.texts, memory=epoch)
        except ContractError as error:
            task = Task(id=record.task, group=record.group)
            unit = Unit(pipeline=name, task=task, attempt=record.attempt)
            record, waits = failed_unit(unit, Failure.of(error)).record, False
            self.store.commit(name, record, memory=epoch)
        if past is not None and not waits:
            past[name, record.task] = record
        self.ran += 1
        if self.watcher is not None:
            self.watcher.done(name, record)


def _records(store: Store, names: Sequence[str], tasks: Sequence[Task]) -> dict[str, list[TaskRecord]]:
    ids = {task.id for task in tasks}
    found: dict[str, list[TaskRecord]] = {name: [] for name in names}
    for entry in store.entries(texts=False):
        if entry.record.task in ids:
            found[entry.pipeline].append(entry.record)
    return found


def _predict(
    experiment: Experiment,
    store: Store,
    first: Sequence[Task],
    measured: Sequence[Task],
    builder: Builder,
    bench: Bench,
) -> None:
    """Write down what the measuring run should show, once, before it begins."""
    ids = {task.id for task in measured}
    if experiment.baseline is None or any(task in ids for _, task, _ in store.committed()):
        return
    records = _records(store, experiment.names, first)
    scores = scores_of(experiment.metrics, first, records, store, builder, bench)
    plain = records.pop(experiment.baseline)
    counts = Counter(task.group for task in measured)
    predictions = []
    for name, own in records.items():
        try:
            if scores:
                said = next(iter(scores.values()))
                sides = scored(said, name, own), scored(said, experiment.baseline, plain)
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


def _pooled(records: Sequence[TaskRecord]) -> list[TaskRecord]:
    return [replace(record, group=ALL) for record in records]


def _summary(
    experiment: Experiment,
    store: Store,
    measured: Sequence[Task],
    bench: Bench,
    builder: Builder,
    marks: Mapping[str, Sequence[str]],
) -> Summary:
    waiting = [(each.pipeline, each.task) for each in store.questions() if each.state != "used"]
    blocks = {}
    for name in experiment.names:
        report = getattr(bench.pipelines[name].block, "report", None)
        if callable(report):
            blocks[name] = msgspec.to_builtins(report())
    records = _records(store, experiment.names, measured)
    return summarise(
        name=experiment.name,
        tasks=measured,
        records=records,
        baseline=experiment.baseline,
        predictions=store.predictions(),
        waiting=waiting,
        explain=_explainer(bench),
        blocks=blocks,
        marks=marks,
        scores=scores_of(experiment.metrics, measured, records, store, builder, bench),
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
