"""Running an experiment: tasks times pipelines, predictions first, committed once, taken up again where it stopped.

The unit of work is one task of one pipeline. A task's pipelines run one after the other, in turning order
(AB, BA, …), so that a machine that slows down slows them alike. Whatever ends the process, the same call on
the same directory goes on: committed units stay, units in flight run again, answered questions are taken
up. A retry is a unit of work too: the next attempt at a task that failed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from draftverify.bench.config.specs import Experiment
from draftverify.bench.executors.crew import Crew
from draftverify.bench.executors.local import Auto, Batch, Pooled
from draftverify.bench.executors.workers import UnitExecutor
from draftverify.bench.records.about import store_url
from draftverify.bench.records.directory import RunDirectory, load_run
from draftverify.bench.runner.bench import Bench
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.figures import predict, summary_of, write_report
from draftverify.bench.runner.forecast import ENOUGH, Forecast
from draftverify.bench.runner.limits import RunLimits
from draftverify.bench.runner.marks import AUDITS, marks_of
from draftverify.bench.runner.work import Watcher, Work
from draftverify.bench.runner.workload import Workload, workload
from draftverify.bench.tables.summary import Summary
from draftverify.checks.scores import check_metrics
from draftverify.errors import below


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


class PlanOptions(TypedDict, total=False):
    """What says in which directory a run goes on; `run` says what each means."""

    fresh: bool
    accept_changed: bool
    store: str | None


class StartOptions(PlanOptions, total=False):
    """What a start of a run takes by name; `run` says what each means."""

    watcher: Watcher | None
    command: Sequence[str]


def run(
    experiment: Experiment,
    *,
    out: str | Path,
    retry_errors: bool = False,
    max_failures: int | None = None,
    max_cost: float | None = None,
    executor: Executor | UnitExecutor | Batch | None = None,
    **start: Unpack[StartOptions],
) -> RunResult:
    """Run an experiment, or go on with it.

    Args:
        experiment: from `load_experiment`.
        out: the run directory.
        fresh: move what is there aside and begin anew.
        accept_changed: go on though a plugin, a parts file or a file of an argument is no longer the one that the run
            was made with; run.json notes what changed. Without it that is refused.
        retry_errors: make tasks that failed again, as their next attempt; the failed attempt stays in the records.
        max_failures: end the run once so many tasks failed; None: once the first three of a pipeline failed alike.
        max_cost: end the run once its tasks, of this call, have cost more, in the units that parts report.
        store: a PostgreSQL URL for the records, instead of the config's; a SQLite file in the directory when there is
            none.
        watcher: is told how it goes on.
        command: the command line that asked for it, for the report; run.json notes it.
        executor: what runs the tasks, instead of the config's: a pool of the caller's own, which stays open, or a part.

    Raises:
        DraftVerifyError: when the config, a part or the directory cannot be used. Tasks that fail do not
            raise.
        RunStoppedError: at a limit. The directory can be resumed, as after a KeyboardInterrupt, which is passed on.
    """
    with _begun(experiment, out, executor, retry_errors, **start) as work:
        directory, load, bench, builder = work.directory, work.load, work.bench, work.builder
        started = {name for _, name, status in directory.store.counts() if status != "failed"}
        work.limits = RunLimits(max_failures, max_cost, started)
        with work.crew, work.recollection:
            if load.predicting:
                work.perform(load.predicting, "predict")
                predict(experiment, directory.store, load, builder, bench)
            work.perform(load.measured, "measure")
        if retry_errors:
            directory.store.end_retry()
        summary = _summed_up(work)
    return RunResult(
        path=directory.path,
        summary=summary,
        failed=sum(pipeline.statuses.get("failed", 0) for pipeline in summary.pipelines),
        waiting=sum(pipeline.statuses.get("waiting", 0) for pipeline in summary.pipelines),
        resumed=directory.resumed,
        ran=work.ran,
    )


def _summed_up(work: Work) -> Summary:
    """The summary of a run that has come to its end, written down, and its reports."""
    directory, load, bench = work.directory, work.load, work.bench
    # Without their words, which only the page needs, and one by one.
    entries = work.store.entries(phase="measure", texts=False)
    reports = work.watching.reports()
    summary = summary_of(work.experiment, work.store, load, bench, work.builder, work.marks, entries, reports)
    directory.write_summary(summary.plain())
    write_report(directory)
    return summary


def estimate(experiment: Experiment, *, out: str | Path, **start: Unpack[StartOptions]) -> Forecast:
    """Do an experiment's first tasks, and say what the rest will take.

    They are committed, so that a run goes on from them: of each pipeline the next six or more that are not done yet,
    two or more of each group.

    Args:
        experiment, out, start: as for a run.

    Raises:
        DraftVerifyError: as a run.
    """
    with _begun(experiment, out, **start) as work:
        load = work.load
        work.foretold = False
        with work.crew, work.recollection:
            chosen = work.first_of(load.predicting, ENOUGH)
            if chosen:
                work.perform(load.predicting, "predict", only=chosen)
            # What is measured is predicted before, and from all that predict.
            if len(chosen) < ENOUGH and not work.first_of(load.predicting, 1):
                if load.predicting:
                    predict(experiment, work.store, load, work.builder, work.bench)
                work.perform(
                    load.measured, "measure", only=work.first_of(load.measured, ENOUGH - len(chosen))
                )
        return work.meter.forecast()


def plan(experiment: Experiment, *, out: str | Path, **options: Unpack[PlanOptions]) -> Plan:
    """What a run would do: everything is checked that costs little, and nothing is done or written.

    Args:
        experiment, out, options: as for a run.

    Raises:
        DraftVerifyError: as a run, but for what shows only when models are loaded or tasks are run.
    """
    builder = Builder()
    bench = builder.bench(experiment)
    try:
        builder.part(experiment.executor)
        load = workload(experiment, builder)
        _check_tasks(experiment, load, builder, bench)
        marks = _marks(experiment, bench)
    finally:
        bench.close()
    done: set[tuple[str, str]] = set()
    failed = waiting = 0
    directory = directory_of(experiment, out, marks, **options)
    if directory.look():
        with load_run(out, url=directory.url) as records:
            questions = [question for question in records.store.questions() if question.state != "used"]
            done = {(pipeline, task) for pipeline, task, _ in records.store.committed()}
            # Failed, and the next attempt is under way.
            done -= {(question.pipeline, question.task) for question in questions}
            failed = sum(n for (*_, status), n in records.store.counts().items() if status == "failed")
            waiting = sum(question.state == "pending" for question in questions)
    phases = {"predict": load.predicting, "measure": load.measured}
    tasks_of = {name: load.tasks(name) for name in experiment.names}
    return Plan(
        tasks={phase: Counter(task.group for task in tasks) for phase, tasks in phases.items() if tasks},
        units={
            name: (sum((name, task.id) in done for task in tasks), len(tasks))
            for name, tasks in tasks_of.items()
        },
        failed=failed,
        waiting=waiting,
    )


def directory_of(
    experiment: Experiment,
    out: str | Path,
    marks: Mapping[str, Sequence[str]],
    *,
    store: str | None = None,
    **options: Any,
) -> RunDirectory:
    """The run directory of an experiment, not opened; the arguments are those of `run` and of RunDirectory."""
    return RunDirectory(
        out,
        name=experiment.name,
        config=experiment.config,
        config_hash=experiment.fingerprint,
        parts=experiment.parts(),
        metrics=experiment.metric_parts(),
        marks=marks,
        tags=experiment.tags,
        url=store or (experiment.store and store_url(experiment.store)),
        **options,
    )


def _check_tasks(experiment: Experiment, load: Workload, builder: Builder, bench: Bench) -> None:
    """Refuse tasks that a metric or a part cannot read, before any of them is paid for."""
    metrics = {name: builder.part(spec) for name, spec in experiment.metrics.items()}
    check_metrics(metrics, [*load.predicting, *load.measured])
    for name, pipeline in bench.pipelines.items():
        with below(f"pipelines.{name}", bench.places.get(name, "")):
            pipeline.check_tasks([task.without_expected() for task in load.tasks(name)])


@contextmanager
def _begun(
    experiment: Experiment,
    out: str | Path,
    executor: Executor | UnitExecutor | Batch | None = None,
    retry_errors: bool = False,
    *,
    watcher: Watcher | None = None,
    fresh: bool = False,
    **options: Any,
) -> Iterator[Work]:
    """A run's parts and its open directory, ready for its phases; all is given back at the end."""
    builder = Builder()
    bench = builder.bench(experiment)
    own = Pooled(executor) if isinstance(executor, Executor) else executor
    where: UnitExecutor | Batch = own or builder.part(experiment.executor)
    if isinstance(where, Auto):
        where = where.chosen(bench.pipelines.values())
    load = workload(experiment, builder)
    _check_tasks(experiment, load, builder, bench)
    try:
        if where.local and (fresh or not os.path.exists(out)):
            # What cannot be opened leaves no directory behind, in which a mended config would be another one.
            for name in experiment.names:
                bench.open(name)
        marks = _marks(experiment, bench)
        with directory_of(experiment, out, marks, fresh=fresh, **options) as directory:
            bench.on_round = directory.store.commit_round if experiment.durable == "round" else None
            bench.on_event = watcher.event if watcher is not None else None
            local = bench if where.local else None
            crew = Crew(where, bench=local, spec=experiment.to_json(), on_round=bench.on_round)
            directory.store.set_own_tasks(load.own_tasks)
            directory.store.add_tasks(load.predicting, "predict")
            directory.store.add_tasks(load.measured, "measure")
            retried = directory.store.begin_retry() if retry_errors else set()
            yield Work(experiment, load, builder, bench, directory, marks, watcher, crew, retried)
    finally:
        bench.close()


def _marks(experiment: Experiment, bench: Bench) -> dict[str, tuple[str, ...]]:
    """What reports say of each pipeline; audits of its judges lie beside the config."""
    audits = Path(experiment.file).parent / AUDITS
    return {name: marks_of(bench.pipelines[name], audits, experiment.executor) for name in experiment.names}
