"""The figures of a run: what is predicted before anything is measured, and its summary and report at the end."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify import stats
from draftverify.bench.config.specs import Experiment
from draftverify.bench.monitors.monitor import RateReport
from draftverify.bench.records.directory import RunDirectory, load_run, marked
from draftverify.bench.records.entries import Entry, StoredPrediction
from draftverify.bench.records.store import Store
from draftverify.bench.runner.bench import Bench
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.scoring import scores_of
from draftverify.bench.runner.workload import Workload
from draftverify.bench.tables.summarise import Explain, scored, speedup_kind, summarise
from draftverify.bench.tables.summary import ALL, Summary
from draftverify.checks.scores import Measure, measures_of
from draftverify.engine.failures import raised
from draftverify.errors import ConfigError
from draftverify.plugins import REPORTS, hooks
from draftverify.protocols import Reports
from draftverify.secret import quiet
from draftverify.traits import offers
from draftverify.values import Explanation, Task, TaskRecord

_log = quiet(logging.getLogger(__name__))

EXPLAINED = 20
"""Divergences of a pipeline for which the verifier is asked why: each can cost it a pass."""


def write_report(directory: RunDirectory) -> None:
    """Write the reports that packages join, as report.html; where one fails all else is written, and the run ends as it
    would."""
    with (
        _told(directory, "html"),
        load_run(directory.path, url=directory.url, thorough=False, patient=True) as records,
    ):
        for hook in hooks(REPORTS):
            with _told(directory, hook.name):
                directory.write_report(hook.name, hook.load()(records))


@contextmanager
def _told(directory: RunDirectory, name: str) -> Iterator[None]:
    """Tell of a report that cannot be written, and go on."""
    try:
        yield
    except Exception as error:
        view = f"draftverify --traceback view {directory.path} -o report.html"
        hint = f". What is wrong is shown by: {view}" if name == "html" else ""
        _log.warning(
            "report.%s was not written (%s); the records and summary.json are whole%s",
            name,
            raised(error),
            hint,
        )


def _records(
    entries: Iterable[Entry], names: Sequence[str], tasks: Sequence[Task]
) -> dict[str, list[TaskRecord]]:
    ids = {task.id for task in tasks}
    records: dict[str, list[TaskRecord]] = {name: [] for name in names}
    for entry in entries:
        if entry.record.task in ids:
            records[entry.pipeline].append(entry.record)
    return records


def predict(experiment: Experiment, store: Store, load: Workload, builder: Builder, bench: Bench) -> None:
    """Write down what the measuring run should show, once, before it begins."""
    if experiment.baseline is None or any(phase == "measure" for phase, *_ in store.counts()):
        return
    records = _records(store.entries(phase="predict", texts=False), experiment.names, load.predicting)
    measures = _measures(experiment, builder)
    judging = {name: spec for name, spec in experiment.metrics.items() if name not in measures}
    scores = scores_of(judging, load.predicting, records, store, builder, bench)
    predictions = []
    for name, pipeline_records in records.items():
        base = experiment.compared_with(name)
        if base is None:
            continue
        plain, measured = records[base], load.of(name, load.measured)
        counts = Counter(task.group for task in measured)
        try:
            if scores:
                metric_scores = next(iter(scores.values()))
                sides = scored(metric_scores, name, pipeline_records), scored(metric_scores, base, plain)
                predicted = stats.predict_solved(*sides, {**counts, ALL: len(measured)})
            else:
                predicted = stats.predict(pipeline_records, plain, counts)
                # The same for all tasks together: one group of them.
                predicted[ALL] = stats.predict(
                    _pooled(pipeline_records), _pooled(plain), {ALL: len(measured)}
                )[ALL]
        except ConfigError:
            continue  # no task that predicts came to an end with both: there is nothing to say
        for group, prediction in predicted.items():
            ends = {"value": prediction.value, "low": prediction.low, "high": prediction.high}
            finite = {end: number if math.isfinite(number) else None for end, number in ends.items()}
            detail = {"basis": prediction.basis}
            predictions.append(
                StoredPrediction(
                    pipeline=name, group=group, kind=speedup_kind(scores), detail=detail, **finite
                )
            )
    store.predict(predictions)


def _measures(experiment: Experiment, builder: Builder) -> dict[str, Measure]:
    return measures_of({name: builder.part(spec) for name, spec in experiment.metrics.items()})


def _pooled(records: Sequence[TaskRecord]) -> list[TaskRecord]:
    return [replace(record, group=ALL) for record in records]


def summary_of(
    experiment: Experiment,
    store: Store,
    load: Workload,
    bench: Bench,
    builder: Builder,
    marks: Mapping[str, Sequence[str]],
    entries: Iterable[Entry],
    monitors: Mapping[str, Sequence[RateReport]],
) -> Summary:
    blocks = {}
    for name in experiment.names:
        block = bench.pipelines[name].block
        if offers(block, Reports):
            blocks[name] = msgspec.to_builtins(block.report())
    records = _records(entries, experiment.names, load.measured)
    return summarise(
        name=experiment.name,
        tasks=load.measured,
        records=records,
        baseline=experiment.baseline,
        baselines=experiment.baselines,
        currency=experiment.currency,
        predictions=store.predictions(),
        explain=_explainer(bench),
        blocks=blocks,
        marks=marked(marks, store),
        monitors=monitors,
        scores=scores_of(experiment.metrics, load.measured, records, store, builder, bench),
        measures=_measures(experiment, builder),
    )


def _explainer(bench: Bench) -> Explain:
    """Ask a pipeline's own verifier why two values differ, where it can tell."""
    counts: dict[str, int] = {}

    def explain(pipeline: str, task: Task, expected: Any, got: Any) -> Explanation | None:
        counts[pipeline] = counts.get(pipeline, 0) + 1
        if counts[pipeline] > EXPLAINED:
            return None
        try:
            bench.open(pipeline)
            return bench.pipelines[pipeline].explain(task, expected, got)
        except BaseException as error:
            return Explanation("unexplained", f"the verifier could not explain it: {raised(error)}")

    return explain
