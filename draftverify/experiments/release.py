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

from draftverify.calibration import ReleaseArtifact, failures_needed, release_pool, write_artifact
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, below
from draftverify.experiments.build import Builder
from draftverify.experiments.labelling import is_right, judging_metric, labelled
from draftverify.experiments.specs import Experiment, PipelineSpec
from draftverify.experiments.workload import workload
from draftverify.metrics import check_metrics
from draftverify.protocols import Metric
from draftverify.rules import Release, Withhold, tries_of
from draftverify.values import Task, TaskRecord

__all__ = ["Pooled", "fit_release", "planned", "pool_of"]


class Pooled(msgspec.Struct, frozen=True):
    """What came of one pool.

    Args:
        pipelines: those that release by it.
        path: the file that was written.
        artifact: what stands in it.
        solved: tasks with a try that is right; they are not in the pool.
        unheard: tasks that failed, wait for a person, had no try, or had one on which the metric had no say; they are
            not in it either.
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
        ConfigError: no pipeline has such a rule, two that name one file differ in more than their names and their
            rules, there is no metric, or no task failed.
        DraftVerifyError: a part cannot be built or opened, or a metric failed: what it would have said is unknown.
    """
    asked = _asked(experiment, pipelines)
    builder = Builder()
    wanted, judge = judging_metric(experiment, builder, metric)
    load = workload(replace(experiment, calibrate=None), builder)
    check_metrics({wanted: judge}, load.measured)
    found = []
    for path, uses in asked.items():
        # Those that name one file are alike but for their names; it is made by the first of them.
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
        found.append(Pooled(names, Path(path), artifact, solved, unheard, min(alpha for _, alpha in uses)))
    return found


def planned(experiment: Experiment, *, pipelines: Sequence[str] = ()) -> dict[str, tuple[int, int]]:
    """By the file that it would write: the tasks at hand, and how many of them have to fail. Nothing is drafted.

    Args:
        experiment, pipelines: as for `fit_release`.

    Raises:
        ConfigError: as `fit_release`, as far as can be seen.
    """
    asked = _asked(experiment, pipelines)
    load = workload(replace(experiment, calibrate=None), Builder())
    return {
        path: (len(load.tasks(uses[0][0].name)), failures_needed(min(alpha for _, alpha in uses)))
        for path, uses in asked.items()
    }


def _asked(experiment: Experiment, pipelines: Sequence[str]) -> dict[str, list[tuple[PipelineSpec, float]]]:
    """The pools to make, each with the pipelines that release by it and their α.

    Raises:
        ConfigError: there is none, or two pipelines that differ share one.
    """
    asked: dict[str, list[tuple[PipelineSpec, float]]] = {}
    for spec in experiment.only(pipelines):
        if spec.rule.target is not Release:
            continue
        rule: Release = Builder().part(spec.rule)
        uses = asked.setdefault(str(rule.pool), [])
        if uses and _drafting(uses[0][0]) != _drafting(spec):
            raise ConfigError(
                f"{rule.pool} is named by {uses[0][0].name} and {spec.name}, which differ in more than their rules: a "
                "pool is of one generator, verifier, policy, block size and budget; give each a file",
                path="pipelines",
            )
        uses.append((spec, rule.alpha))
    if not asked:
        raise ConfigError(
            "no pipeline releases by a pool; write rule: {use: release, pool: FILE}", path="pipelines"
        )
    return asked


def _drafting(spec: PipelineSpec) -> bytes:
    """All of a pipeline that its tries depend on, as JSON."""
    bare = replace(spec, rule=replace(spec.rule, arguments={}), name="", monitor=None)
    return msgspec.json.encode(_placeless(msgspec.to_builtins(bare)), order="deterministic")


def _placeless(value: object) -> object:
    """Without where things stand in the config."""
    if isinstance(value, dict):
        return {key: _placeless(each) for key, each in value.items() if key not in ("where", "path")}
    return [_placeless(each) for each in value] if isinstance(value, (list, tuple)) else value


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

    def hear(record: TaskRecord, task: Task, asking: Metric) -> tuple[bool | None, list[float | None]]:
        return _solved(record, task, asking), tries_of(record.rounds)

    heard, (drafter, judge) = labelled(
        pipeline, tasks, metric, hear, watcher, (pipeline.generator, pipeline.verifier)
    )
    failures = [tries for right, tries in heard if right is False]
    solved = sum(right is True for right, _ in heard)
    unheard = sum(right is None for right, _ in heard)
    if not failures:
        raise ConfigError(
            f"none of {len(tasks)} tasks is known to have failed ({solved} had a try that is right, of {unheard} "
            "nothing is known); a pool needs failed ones",
            path="tasks",
        )
    artifact = ReleaseArtifact(
        pool=release_pool(failures),
        generator=drafter,
        verifier=judge,
        settings=pipeline.settings,
        metric=metric_name,
        tasks=len(tasks),
        versions={"draftverify": version("draftverify")},
    )
    return artifact, solved, unheard


def _solved(record: TaskRecord, task: Task, metric: Metric) -> bool | None:
    """Whether a try that might be released is right; None where that is not known, or there was no try at all.

    Raises:
        ContractError: the metric failed.
    """
    # One that waits for a person has fewer tries than a task that is never released.
    if (
        record.outcome.failure is not None
        or record.outcome.status == "waiting"
        or not tries_of(record.rounds)
    ):
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
