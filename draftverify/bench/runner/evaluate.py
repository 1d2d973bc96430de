"""Pipelines run over tasks and compared, in Python: the tables of an experiment without a config or a run directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from draftverify.bench.monitors import Monitor, MonitoredPipeline
from draftverify.bench.runner.bench import Bench, Unit
from draftverify.bench.runner.marks import AUDITS, marks_of
from draftverify.bench.tables.summarise import summarise
from draftverify.bench.tables.summary import Summary
from draftverify.bench.tables.tables import cells, print_tables, remarks, step_cells
from draftverify.bench.tables.words import clean
from draftverify.checks.families import check_families
from draftverify.checks.scores import check_metrics, measures_of, score
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, below, check_known, shown
from draftverify.protocols import Metric
from draftverify.secret import redact
from draftverify.values import EMPTY, Task, TaskRecord, html_table


class Evaluation(msgspec.Struct, frozen=True):
    """What came of an evaluation; printed, or shown in a notebook, it is the tables.

    Args:
        summary: every figure.
        records: each pipeline's, in the order of the tasks.
    """

    summary: Summary
    records: Mapping[str, tuple[TaskRecord, ...]]

    def __str__(self) -> str:
        console = Console(no_color=True, highlight=False)
        with console.capture() as capture:
            print_tables(console, self.summary)
        return capture.get()

    def _repr_html_(self) -> str:
        summary = self.summary
        lines = [[clean(summary.name)], *([line] for line in remarks(summary, None))]
        tables = cells(summary), step_cells(summary), (list[str](), lines)
        return redact("".join(html_table(rows, headings) for headings, rows in tables if rows))


def evaluate(
    pipelines: Mapping[str, Pipeline],
    tasks: Iterable[Task],
    *,
    metrics: Mapping[str, Metric] = EMPTY,
    baseline: str | None = None,
    size: int = 1,
    name: str = "evaluation",
    audits: str | Path = AUDITS,
    monitors: Mapping[str, Monitor] = EMPTY,
) -> Evaluation:
    """Run pipelines over tasks and compare them.

    A task's pipelines run one after the other, in turning order (AB, BA, …), so that a machine that slows down slows
    them alike. Parts are opened once, and closed at the end.

    Args:
        pipelines: by name.
        tasks: the work; ids are unique. Their `expected` is shown to metrics alone.
        metrics: functions of (task, outcome) that say how right the outcome is, 0 to 1; the first says what is solved.
            One with a `unit` measures instead, and says nothing of right and wrong.
        baseline: the pipeline that the others are compared with.
        size: how many are under way at once: those that wait for the same part share its passes.
        name: of the tables.
        audits: the directory in which the audits of judges lie; a pipeline whose judge has none there is marked.
        monitors: of pipelines that are watched; each is told of its pipeline's tasks as they end.

    Raises:
        ConfigError: the baseline is none of the pipelines, two tasks have one id, or a metric cannot judge them.
        DraftVerifyError: a part cannot be opened. Tasks that fail do not raise: the tables say so.
    """
    work, names = list(tasks), list(pipelines)
    _check(pipelines, work, metrics, baseline)
    of_task = {task.id: task for task in work}
    watched = {key: MonitoredPipeline(pipelines[key], monitor) for key, monitor in monitors.items()}
    units = (
        Unit(pipeline=key, task=task, alarmed=key in monitors and monitors[key].acts)
        for place, task in enumerate(work)
        for key in (names if place % 2 == 0 else reversed(names))
    )
    bench = Bench(pipelines, monitors=monitors)
    try:
        by_unit: dict[tuple[str, str], TaskRecord] = {}
        for done in bench.perform_all(units, size=size):
            by_unit[done.pipeline, done.record.task] = done.record
            if done.pipeline in watched:
                watched[done.pipeline].observe(of_task[done.record.task], done.record)
        records = {key: [by_unit[key, task.id] for task in work] for key in names}
        scores = {
            metric_name: {
                (key, record.task): score(bench.opened(metric), of_task[record.task], record.outcome)
                for key, results in records.items()
                for record in results
            }
            for metric_name, metric in metrics.items()
        }
    finally:
        bench.close()
    summary = summarise(
        name=name,
        tasks=work,
        records=records,
        baseline=baseline,
        marks={
            key: (*marks_of(pipeline, audits), *(map(str, monitors[key].alarms) if key in monitors else ()))
            for key, pipeline in pipelines.items()
        },
        monitors={key: monitor.report() for key, monitor in monitors.items()},
        scores=scores,
        measures=measures_of(metrics),
    )
    return Evaluation(summary, {key: tuple(results) for key, results in records.items()})


def _check(
    pipelines: Mapping[str, Pipeline],
    tasks: Sequence[Task],
    metrics: Mapping[str, Metric],
    baseline: str | None,
) -> None:
    """Raises: ConfigError: as `evaluate`."""
    for argument, mapping in (("pipelines", pipelines), ("metrics", metrics)):
        if not isinstance(mapping, Mapping):
            raise ConfigError(
                f"{argument} is a {type(mapping).__name__}; a mapping by name is needed", path=argument
            )
    if baseline is not None:
        check_known("pipeline", baseline, pipelines, path="baseline")
    for place, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise ConfigError(
                f"[{place}] is {shown(task)}; a Task is needed: Task(id=…, input=…)", path="tasks"
            )
    if len({task.id for task in tasks}) < len(tasks):
        raise ConfigError("two tasks have the same id; ids are unique", path="tasks")
    check_metrics(metrics, tasks)
    for name, pipeline in pipelines.items():
        check_families(pipeline)
        with below(f"pipelines.{name}"):
            pipeline.check_tasks([task.without_expected() for task in tasks])
