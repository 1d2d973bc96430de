"""What the verifiers of a run are worth by labels of the items that they judged: `draftverify audit verifier`.

Nothing is drafted or verified. The labels are a metric's, which is asked of each item as if it had been the answer, or
those that people gave in the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from draftverify.bench.config.experiment import load_recorded
from draftverify.bench.records import RunRecords
from draftverify.bench.records.directory import made_from
from draftverify.bench.runner.bench import Bench
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.labelling import is_right, judging_metric, meant
from draftverify.bench.runner.workload import workload
from draftverify.checks.families import shared_families
from draftverify.checks.scores import check_metrics
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import check_known
from draftverify.kit.audit.verifier_audit import (
    JudgedItem,
    JudgedPipeline,
    VerifierAudit,
    audit_verifiers,
    score_curves,
)
from draftverify.protocols import Metric
from draftverify.stats.places import trials
from draftverify.values import Check, Round, Task, TaskRecord

Label: TypeAlias = "Callable[[str, str, Any, Check | None], bool | None]"
"""(pipeline, task, item, check): whether the item is right; None without a label."""


def audit_run(
    run: RunRecords,
    *,
    pipelines: Sequence[str] = (),
    metric: str | None = None,
    people: Iterable[tuple[str, str, Any, bool]] | None = None,
    config: str | Path | None = None,
) -> VerifierAudit:
    """Hold the verifiers of a run against labels.

    Args:
        run: its records.
        pipelines: these alone.
        metric: by which an item is right: where it says ½ or more. The first of the run's when None.
        people: labels that people gave, to be taken instead: pipeline, task, value, and whether that is right. Of one
            value the last counts.
        config: the config that the run was made from, whose directory its paths are relative to; None: as the run's
            command named it.

    Raises:
        ConfigError: a pipeline is unknown, there is no metric, no item has a label, or the config cannot be read any
            more.
        DraftVerifyError: a part is not there any more, or the metric failed: what it would have said is unknown.
    """
    for name in pipelines:
        check_known("pipeline", name, run.names, holder=f"{run.path} has")
    base = Path(config).parent if config is not None else made_from(run)
    experiment, builder, bench = load_recorded(run.path / "config.json", base), Builder(), Bench({})
    built = {
        spec.name: builder.pipeline(spec)
        for spec in experiment.pipelines
        if spec.name in run.names and (not pipelines or spec.name in pipelines)
    }
    try:
        label: Label
        if people is not None:
            label_source, label = "people", _by_people(people)
        else:
            label_source, judging = judging_metric(experiment, builder, metric)
            load = workload(experiment, builder)
            tasks = {task.id: task for task in (*load.predicting, *load.measured)}
            check_metrics({label_source: judging}, list(tasks.values()))
            label = _by_metric(bench.opened(judging), tasks)
        judged = [
            _judged(pipeline, (entry.record for entry in run.entries(pipeline=name, texts=False)), label)
            for name, pipeline in built.items()
        ]
    finally:
        bench.close()
    probes, shared = audit_verifiers(judged)
    return VerifierAudit(
        labels=label_source,
        written=run.store.written()[1],
        pipelines=probes,
        shared=shared,
        curves=score_curves(judged),
        versions={"draftverify": version("draftverify")},
    )


def _by_metric(metric: Metric, tasks: Mapping[str, Task]) -> Label:
    """A metric asked once about equal items of a task; it has no say on a task that its source no longer has."""
    labels: dict[tuple[str, str], bool | None] = {}

    def label(pipeline: str, task: str, item: Any, check: Check | None) -> bool | None:
        key = (task, _text(meant(item, check)))
        if key not in labels:
            labels[key] = is_right(metric, tasks[task], item, check) if task in tasks else None
        return labels[key]

    return label


def _by_people(decided: Iterable[tuple[str, str, Any, bool]]) -> Label:
    labels = {(pipeline, task, _text(value)): right for pipeline, task, value, right in decided}
    return lambda pipeline, task, item, check: labels.get((pipeline, task, _text(item)))


def _judged(pipeline: Pipeline, records: Iterable[TaskRecord], label: Label) -> JudgedPipeline:
    """The items that a pipeline's own generator drafted and its verifier judged, retries too."""
    items: list[JudgedItem] = []
    stepwise = pipeline.declared[id(pipeline.generator)].shape in ("chain", "tree")
    for record in records:
        for round in record.rounds:
            if round.source != "generator" or round.by != "verifier" or round.failure is not None:
                continue
            stepwise = stepwise or any(parent >= 0 for parent in round.parents)
            if not stepwise:
                items += _of_round(pipeline.name, record.task, round, label)
    if stepwise:
        why = "its items are steps of one answer, and a label says of whole answers whether they are right"
    else:
        why = "" if items else "no item was judged by its verifier"
    return JudgedPipeline(
        pipeline=pipeline.name,
        generator=str(id(pipeline.generator)),  # the builder makes equal ones once
        verifier=str(id(pipeline.verifier)),
        rule=str(id(pipeline.rule)),
        related=bool(shared_families(pipeline)),
        items=() if stepwise else tuple(items),
        untested=why,
    )


def _of_round(pipeline: str, task: str, round: Round, label: Label) -> Iterator[JudgedItem]:
    judged = list(trials(round))
    share = max(len(judged), 1)
    for index, passed in judged:
        item, check = round.items[index], round.checks[index] if round.checks else None
        yield JudgedItem(
            task=task,
            value=_text(item),
            passed=passed,
            right=label(pipeline, task, item, check),
            score=None if check is None else check.score,
            seconds=round.timing.busy / share,
            cost=round.timing.cost / share,
        )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
