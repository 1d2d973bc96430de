"""A run's monitors: each is told of its pipeline's tasks in their order, whatever order they end in.

What it was told is written down. So an alarm comes at the same task under every executor, and after a resume. When it
takes effect depends on the executor: in the tasks that are begun after it was raised, which in a serial run are those
after the task that raised it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from draftverify.bench.artifact import OperatingPointFile, read_artifact
from draftverify.bench.config.specs import Experiment, MonitorSpec
from draftverify.bench.monitors.alarms import task_shares
from draftverify.bench.monitors.monitor import Monitor, RateReport, Shares, shares_of
from draftverify.bench.records import MonitorEntry, Store, load_run
from draftverify.bench.runner.bench import Bench
from draftverify.bench.runner.workload import Workload
from draftverify.errors import ConfigError, StoreError, below, check_known
from draftverify.secret import quiet
from draftverify.values import Outcome, Round, Task, TaskRecord

_log = quiet(logging.getLogger(__name__))


class Watching:
    """The monitors of a run, as far as its records have come.

    Args:
        experiment: says which pipelines have one, and what each compares with.
        load: the tasks.
        bench: has the pipelines; opens the metrics that label.
        store: where what they are told is kept.

    Raises:
        ConfigError: a reference is not what it should be.
        StoreError: the records cannot be read.
    """

    def __init__(self, experiment: Experiment, load: Workload, bench: Bench, store: Store) -> None:
        self._store = store
        self._watches: dict[str, Watch] = {}
        for spec in experiment.pipelines:
            monitor = bench.monitors.get(spec.name)
            if monitor is None or spec.monitor is None:
                continue
            with below(f"{spec.path}.monitor", spec.where):
                reference = reference_of(spec.monitor, spec.name)
            predicting = [] if reference is not None else load.of(spec.name, load.predicting)
            tasks = [*predicting, *load.of(spec.name, load.measured)]
            with below(f"{spec.path}.monitor", spec.where):
                watch = Watch(spec.name, monitor, reference, tasks, len(predicting), bench)
            self._watches[spec.name] = watch
        if self._watches:
            self._recall()

    def alarmed(self, pipeline: str) -> bool:
        """Whether a pipeline's monitor has had an alarm that is to be acted on."""
        watch = self._watches.get(pipeline)
        return watch is not None and watch.monitor is not None and watch.monitor.acts

    def take(self, pipeline: str, record: TaskRecord) -> None:
        """Tell a pipeline's monitor of a task that has ended or waits; of each once, by its first attempt."""
        watch = self._watches.get(pipeline)
        if watch is None:
            return
        entries = watch.take(record)
        if entries:
            self._store.watch(pipeline, entries)
        for entry in entries:
            for alarm in entry.alarms:
                _log.warning("%s: %s", pipeline, alarm)

    def reports(self) -> dict[str, Sequence[RateReport]]:
        """How the rates of each watched pipeline have fared."""
        return {
            name: watch.monitor.report() for name, watch in self._watches.items() if watch.monitor is not None
        }

    def _recall(self) -> None:
        """Bring the monitors to where they were, and tell them of what was committed since."""
        entries = self._store.watched()
        for name, watch in self._watches.items():
            watch.recall(entries.get(name, ()))
        ended = {(name, task) for name, task, attempt in self._store.committed() if not attempt}
        ended |= {
            (question.pipeline, question.task) for question in self._store.questions() if not question.attempt
        }
        for name, watch in self._watches.items():
            for task in [task_id for task_id in watch.untold() if (name, task_id) in ended]:
                self.take(name, _as_it_stands(task, self._store, name))


class Watch:
    """One pipeline's monitor; None until the tasks that it compares with have been done.

    Args:
        name: the pipeline.
        like: the monitor, without a reference.
        reference: what it compares with; None for the first tasks.
        tasks: those that it is told of, in order, with what they expect.
        first: from so many of them comes the reference, of each group as large a part as it has of the others.
        bench: has the pipeline; opens the metric.

    Raises:
        ConfigError: there are labels, and the reference has no rate of which they tell.
    """

    def __init__(
        self,
        name: str,
        like: Monitor,
        reference: Mapping[str, float] | Sequence[Shares] | None,
        tasks: Sequence[Task],
        predicting: int,
        bench: Bench,
    ) -> None:
        self.name = name
        self.monitor: Monitor | None = None
        self._like = like
        self._tasks = tasks
        self._places = {task.id: place for place, task in enumerate(tasks)}
        self._predicting = predicting
        self._compared = alike(tasks[:predicting], tasks[predicting:])
        self._bench = bench
        self._before: list[Shares] = []
        self._next = 0
        self._early: dict[int, Shares] = {}  # of tasks that ended before one that stands before them
        if reference is not None or not predicting:
            begun = self._begin(reference or ())
            if reference:
                begun.check_reference()

    def take(self, record: TaskRecord) -> list[MonitorEntry]:
        """What the monitor is told now: this task and those that waited for it; nothing where it is not its turn."""
        place = self._places.get(record.task)
        if place is None or place < self._next or place in self._early:
            return []  # it waited for a person, or failed, and was told of then
        checks_all = True
        if self._like.labels(place):
            self._bench.opened(self._like.metric)
            checks_all = self._bench.pipelines[self.name].enough is None
        self._early[place] = task_shares(self._like, self._tasks[place], record, place, checks_all=checks_all)
        entries = []
        while self._next in self._early:
            shares = self._early.pop(self._next)
            entries.append(self._tell(self._tasks[self._next].id, shares))
        return entries

    def recall(self, entries: Sequence[MonitorEntry]) -> None:
        """Tell the monitor anew what it was told before."""
        shares = {entry.task: entry.shares for entry in entries}
        while self._next < len(self._tasks) and (task := self._tasks[self._next].id) in shares:
            self._tell(task, shares[task])

    def untold(self) -> list[str]:
        """The tasks that it was not told of yet."""
        return [task.id for task in self._tasks[self._next :]]

    def _tell(self, task: str, shares: Shares) -> MonitorEntry:
        self._next += 1
        if self.monitor is not None:
            return MonitorEntry(task=task, shares=shares, alarms=self.monitor.observe(task, shares))
        if task in self._compared:
            self._before.append(shares)
        if self._next == self._predicting:
            self._begin(self._before)
        return MonitorEntry(task=task, shares=shares)

    def _begin(self, reference: Mapping[str, float] | Sequence[Shares]) -> Monitor:
        self.monitor = begun = self._like.against(reference)
        rates = {rate_report.rate for rate_report in begun.report()}
        for rate_report in begun.report():
            if rate_report.alike is not None:
                _log.warning("%s: the monitor's reference: %s", self.name, rate_report)
        if rates == {"acceptance"} and self._like.metric is not None and self._before:
            _log.warning("%s: the first tasks have no label, so the monitor will name no part", self.name)
        if not rates:
            _log.warning(
                "%s: the monitor has nothing to compare with: in its reference no draft was judged", self.name
            )
        return begun


def alike(predicting: Sequence[Task], measured: Sequence[Task]) -> frozenset[str]:
    """The ids of those first tasks that have groups in the shares that the measured ones have.

    Of each group the same number predicts, however many it has. Where groups differ in acceptance, the mean over all
    of the first would be another than the run's, and in a long run a certain alarm.
    """
    counts, needed = (Counter(task.group for task in tasks) for tasks in (predicting, measured))
    part = min((counts[group] / needed[group] for group in needed if counts[group]), default=0.0)
    remaining = {group: round(part * count) for group, count in needed.items()}
    chosen = []
    for task in predicting:
        if remaining.get(task.group, 0):
            remaining[task.group] -= 1
            chosen.append(task.id)
    return frozenset(chosen)


def reference_of(spec: MonitorSpec, pipeline: str) -> Mapping[str, float] | Sequence[Shares] | None:
    """What a monitor compares with; None where that is the run's own first tasks.

    Args:
        spec: of the monitor.
        pipeline: whose; an earlier run may have several.

    Raises:
        ConfigError: the earlier run is not finished, alarmed itself, or has no such pipeline; the file is no operating
            point, or none with the tasks' shares.
    """
    if not isinstance(spec.reference, str):
        return spec.reference
    path = Path(spec.reference)
    if not path.is_dir():
        shares = read_artifact(path, OperatingPointFile).shares
        if not shares:
            raise ConfigError(f"{path} does not hold what each task said; fit it again", path="reference")
        return [Shares(acceptance=share) for share in shares]
    with load_run(path) as run:
        names = run.names
        if len(names) > 1:
            check_known("pipeline", pipeline, names, path="reference", holder=f"{path} has")
        if not run.summary:
            raise ConfigError(f"the run {path} is not finished; finish it first", path="reference")
        name = pipeline if pipeline in names else names[0]
        watched = run.store.watched(phase="measure").get(name, ())
        alarm = next((alarm for entry in watched for alarm in entry.alarms), None)
        if alarm is not None:
            raise ConfigError(
                f"the monitor of the run {path} alarmed at task {alarm.task!r}, so its tasks are of two kinds; take "
                "a run from before or after",
                path="reference",
            )
        if watched:
            return [entry.shares for entry in watched]
        entries = run.store.entries(pipeline=name, phase="measure", texts=False, every_attempt=True)
        return [shares_of(entry.record) for entry in entries if not entry.record.attempt]


def _as_it_stands(task: str, store: Store, pipeline: str) -> TaskRecord:
    """A task's first attempt by its rounds; one whose rounds cannot be read says nothing."""
    rounds: tuple[Round, ...] = ()
    try:
        rounds = store.rounds(pipeline, task, 0)
    except StoreError as error:
        _log.warning("%s: the monitor is told nothing of task %r: %s", pipeline, task, error)
    return TaskRecord(task=task, outcome=Outcome(status="waiting"), rounds=rounds)
