"""Making the pools of rules that release under a guarantee: what `draftverify fit --release` does.

Each pipeline runs over labelled tasks as it is, with its own generator, verifier, policy and budget, except that
nothing is released: so its tries are those of a task that is never released. Tasks none of whose tries a metric calls
right are the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec.structs import replace

from draftverify.calibration import ReleaseArtifact, release_pool, write_artifact
from draftverify.engine.parts import identity_of, name_of
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, below
from draftverify.experiments.bench import Bench, Unit
from draftverify.experiments.build import Builder
from draftverify.experiments.fit import AT_ONCE, hash_of_ids
from draftverify.experiments.labelling import is_right, judging_metric
from draftverify.experiments.specs import Experiment, PipelineSpec
from draftverify.experiments.workload import workload
from draftverify.metrics import check_metrics
from draftverify.protocols import Metric
from draftverify.rules import Release, Withhold, tries_of
from draftverify.values import Task, TaskRecord

__all__ = ["Pooled", "fit_release", "pool_of"]


class Pooled(msgspec.Struct, frozen=True):
    """What came of one pool.

    Args:
        pipelines: those that release by it.
        path: the file that was written.
        artifact: what stands in it.
        solved: tasks with a try that is right; they are not in the pool.
        unheard: tasks that failed, had no try, or had one on which the metric had no say; they are not in it either.
        alpha: the smallest that those pipelines ask for.
    """

    pipelines: tuple[str, ...]
    path: Path
    artifact: ReleaseArtifact
    solved: int
    unheard: int
    alpha: float


def fit_release(
    experiment: Experiment,
    *,
    pipelines: Sequence[str] = (),
    metric: str | None = None,
    watcher: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> list[Pooled]:
    """Make the pool of every rule `release` of an experiment from its tasks, and write the files that they name.

    Args:
        experiment: its tasks have a truth, and it has metrics.
        pipelines: these alone.
        metric: by which a try is right: where it says ½ or more. The first of the experiment's when None.
        watcher: told the pipeline, and how many of its tasks are done.

    Raises:
        ConfigError: no pipeline has such a rule, two that name one file judge by different verifiers, there is no
            metric, or no task failed.
        DraftVerifyError: a part cannot be built or opened, or a metric failed: what it would have said is unknown.
    """
    chosen = experiment.only(pipelines)
    builder = Builder()
    wanted, judge = judging_metric(experiment, builder, metric)
    asked: dict[Path, list[tuple[PipelineSpec, Release]]] = {}
    for spec in chosen:
        if spec.rule.target is Release:
            rule: Release = builder.part(spec.rule)
            asked.setdefault(rule.pool, []).append((spec, rule))
    if not asked:
        raise ConfigError(
            "no pipeline releases by a pool; write rule: {use: release, pool: FILE}", path="pipelines"
        )
    load = workload(replace(experiment, calibrate=None), builder)
    check_metrics({wanted: judge}, load.measured)
    found = []
    for path, uses in asked.items():
        # Those that name one file share it; it is made by the first of them.
        spec, _ = uses[0]
        with below(spec.path):
            made = pool_of(
                builder.pipeline(spec, rule=Withhold()),
                load.tasks(spec.name),
                judge,
                metric_name=wanted,
                watcher=partial(watcher, spec.name),
            )
        artifact, solved, unheard = made
        write_artifact(path, artifact)
        names = tuple(each.name for each, _ in uses)
        alpha = min(rule.alpha for _, rule in uses)
        found.append(Pooled(names, path, artifact, solved, unheard, alpha))
    return found


def pool_of(
    pipeline: Pipeline,
    tasks: Sequence[Task],
    metric: Metric,
    *,
    metric_name: str = "metric",
    watcher: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[ReleaseArtifact, int, int]:
    """The pool of the tasks that a pipeline fails.

    Args:
        pipeline: its rule is `Withhold`.
        tasks: with their truth.
        metric: by which a try is right: where it says ½ or more.
        metric_name: what the file calls it.
        watcher: told how many tasks are done.

    Returns:
        What `write_artifact` writes for a `Release`; how many tasks had a try that is right; and how many taught
        nothing, as `Pooled` says.

    Raises:
        ConfigError: no task failed.
        DraftVerifyError: as `fit_release`.
    """
    bench = Bench({"fit": pipeline})
    of_task = {task.id: task for task in tasks}
    failures: list[list[float | None]] = []
    solved = unheard = 0
    try:
        asking = bench.opened(metric)
        units = (Unit(pipeline="fit", task=task) for task in tasks)
        for done, each in enumerate(bench.perform_all(units, size=AT_ONCE), start=1):
            right = _solved(each.record, of_task[each.record.task], asking)
            if right is None:
                unheard += 1
            elif right:
                solved += 1
            else:
                failures.append(tries_of(each.record.rounds))
            watcher(done, len(tasks))
        identity = identity_of(pipeline.verifier)  # of an open one, as it will be compared
    finally:
        bench.close()
    if not failures:
        raise ConfigError(
            f"none of {len(tasks)} tasks is known to have failed ({solved} had a try that is right, of {unheard} "
            "nothing is known); a pool needs failed ones",
            path="tasks",
        )
    artifact = ReleaseArtifact(
        pool=release_pool(failures),
        verifier=identity,
        name=name_of(pipeline.verifier),
        metric=metric_name,
        tasks=len(tasks),
        task_ids=hash_of_ids(tasks),
        versions={"draftverify": version("draftverify")},
    )
    return artifact, solved, unheard


def _solved(record: TaskRecord, task: Task, metric: Metric) -> bool | None:
    """Whether a try that might be released is right; None where that is not known, or there was no try at all.

    Raises:
        ContractError: the metric failed.
    """
    if record.outcome.failure is not None or not tries_of(record.rounds):
        return None
    known = True
    for each in record.rounds:
        for item, check in zip(each.items, each.checks, strict=False):
            if each.by != "verifier" or check.verdict != "pass":
                continue
            right = is_right(metric, task, item, check)
            if right:
                return True
            known = known and right is not None
    return False if known else None
