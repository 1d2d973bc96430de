"""Fitting what a verifier's scores mean, from an experiment's labelled tasks: what `draftverify fit scores` does.

Each task's first blocks are drafted by the pipeline's own generator and judged by the verifier alone, whatever its rule
would have kept; a metric says of each item whether it is right, as if it had been the task's answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify.bench.artifact import FittedBlock, PartIdentity, write_artifact
from draftverify.bench.config.specs import ComponentSpec, Experiment, PipelineSpec
from draftverify.bench.runner.bench import Bench, Unit
from draftverify.bench.runner.build import Builder
from draftverify.bench.runner.labelling import is_right, judging_metric
from draftverify.bench.runner.workload import workload
from draftverify.checks.scores import check_metrics
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, ContractError, below
from draftverify.identity import identity_of
from draftverify.lab.calibrated import Calibrated
from draftverify.lab.scores import LabelledScore, ScoreArtifact, fit_scores
from draftverify.protocols import BlockSize, Generator, Metric, Verifier
from draftverify.rejection import retry
from draftverify.rules import All, Rounds
from draftverify.secret import quiet
from draftverify.traits import GeneratorTraits, RuleTraits, name_of, traits_of
from draftverify.values import EMPTY, Failure, Task, TaskRecord

__all__ = ["Fitted", "fit", "fit_verifier"]

_log = quiet(logging.getLogger(__name__))

AT_ONCE = 16
"""Tasks under way together, so that a verifier that can judges the blocks of several in one pass."""


class Fitted(msgspec.Struct, frozen=True):
    """A file of scores that was written, and the fit in it.

    Args:
        pipelines: those whose verifier it is for.
        path: the file that was written.
        artifact: what stands in it.
        unscored: items without a score, and such as the metric had no say on; they taught nothing.
        unheard: tasks of which no item taught anything: they failed, or nothing was drafted for them.
    """

    pipelines: tuple[str, ...]
    path: Path
    artifact: ScoreArtifact
    unscored: int
    unheard: int


def fit(
    experiment: Experiment,
    *,
    pipelines: Sequence[str] = (),
    metric: str | None = None,
    blocks: int = 1,
    watcher: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> list[Fitted]:
    """Fit what scores mean on an experiment's tasks, and write the files that its pipelines name.

    A calibrated verifier names one, for the verifier within it. Pipelines that draft for others are fitted alike, on
    the tasks of the outer one.

    Args:
        experiment: its tasks have an expectation, and it has metrics.
        pipelines: these alone.
        metric: by which an item is right: where it says ½ or more. The first of the experiment's when None.
        blocks: how many blocks of each task are drafted and judged.
        watcher: told the pipeline, and how many of its tasks are done.

    Raises:
        ConfigError: no pipeline names such a file, or two verifiers share one; there is no metric, no item of a
            pipeline is a whole answer, or no task taught anything.
        DraftVerifyError: a part cannot be built or opened, or a metric failed: what it would have said is unknown.
    """
    builder = Builder()
    named = _files_to_write(experiment, pipelines, builder)
    metric_name, judging = judging_metric(experiment, builder, metric)
    loaded = workload(replace(experiment, predict=None), builder)
    check_metrics({metric_name: judging}, loaded.measured)
    fitted = []
    for path, uses in named.items():
        # Those that name one file share it; it is fitted in the first of their pipelines.
        spec, judge = uses[0]
        tasks = loaded.tasks(_outer(experiment, spec))
        with below(spec.path):
            artifact, unscored = fit_verifier(
                builder.pipeline(spec.generator)
                if isinstance(spec.generator, PipelineSpec)
                else builder.part(spec.generator),
                builder.part(judge),
                tasks,
                judging,
                metric_name=metric_name,
                block=_block(spec, builder),
                blocks=blocks,
                settings=spec.settings,
                seed=spec.seed,
                watcher=partial(watcher, spec.name),
            )
        write_artifact(path, artifact)
        unheard = len(tasks) - artifact.fit.tasks
        fitted.append(Fitted(tuple(spec.name for spec, _ in uses), Path(path), artifact, unscored, unheard))
    return fitted


def fit_verifier(
    generator: Generator,
    verifier: Verifier,
    tasks: Sequence[Task],
    metric: Metric,
    *,
    metric_name: str = "metric",
    block: int | BlockSize | None = 8,
    blocks: int = 1,
    settings: Mapping[str, Any] = EMPTY,
    seed: int = 0,
    watcher: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[ScoreArtifact, int]:
    """Fit what a verifier's scores mean, on the items that a generator drafts for labelled tasks.

    Args:
        generator: drafts the items.
        verifier: gives scores.
        tasks: with what they expect.
        metric: by which an item is right: where it says ½ or more.
        metric_name: what the file calls it.
        block: how many items a block has; None: as the generator says, see `Pipeline`.
        blocks: as for `fit`.
        settings, seed: as for a Pipeline.
        watcher: told how many tasks are done.

    Returns:
        What `write_artifact` writes for a `Calibrated`; and how many items taught nothing, since they had no score or
        the metric no say on them.

    Raises:
        ConfigError: no item is a whole answer, none taught anything, or all were of one task.
        DraftVerifyError: a part cannot be opened, all tasks failed, or the metric did: what it would have said is
            unknown. Where some tasks failed, a warning is logged.
    """
    shape = traits_of(generator, GeneratorTraits).shape
    if shape not in (None, "alternatives"):
        raise ConfigError(
            f"the generator's drafts are {shape}s, of which no item is a whole answer; a metric cannot label them",
            path="generator",
        )
    pipeline = Pipeline(
        generator,
        verifier,
        All(),
        block=block,
        done=Rounds(blocks),
        policy=retry(blocks - 1) if blocks > 1 else None,
        settings=settings,
        seed=seed,
    )
    judged: dict[str, list[LabelledScore]] = {}
    failed: dict[str, Failure] = {}
    unscored, task_of = 0, {task.id: task for task in tasks}
    bench = Bench({"fit": pipeline})
    try:
        judging = bench.opened(metric)
        units = (Unit(pipeline="fit", task=task) for task in tasks)
        for done, result in enumerate(bench.perform_all(units, size=AT_ONCE), start=1):
            record = result.record
            judged[record.task], unlabelled = _items(record, task_of[record.task], judging)
            unscored += unlabelled
            if record.outcome.failure is not None:
                failed[record.task] = record.outcome.failure
            watcher(done, len(tasks))
        fitted_part = PartIdentity(name_of(verifier), identity_of(verifier))
    finally:
        bench.close()
    # In the order of their ids: which tasks are left out together must not depend on which ended first.
    items = [item for task in sorted(judged) for item in judged[task]]
    failures = [failed[task] for task in sorted(failed)]
    if failures and not items:
        raise ContractError(f"{_failed(failures, tasks)}; nothing says what a score means")
    if failures:
        _log.warning("%s; the fit is of the others", _failed(failures, tasks))
    artifact = ScoreArtifact(
        fit=fit_scores(items),
        verifier=fitted_part.identity,
        name=fitted_part.name,
        metric=metric_name,
        versions={"draftverify": version("draftverify")},
    )
    return artifact, unscored


def _failed(failures: Sequence[Failure], tasks: Sequence[Task]) -> str:
    how_many = "all" if len(failures) == len(tasks) else f"{len(failures)} of"
    return f"{how_many} {len(tasks)} tasks failed, the first by {failures[0]}"


def _rule_traits(spec: PipelineSpec, builder: Builder) -> RuleTraits:
    """What a rule says of itself; it is built with a number for each threshold, whose file is still to be written."""
    arguments = {
        name: 0.0 if isinstance(value, ComponentSpec) and value.role == "threshold" else value
        for name, value in spec.rule.arguments.items()
    }
    with below(f"{spec.path}.rule"):
        return traits_of(builder.part(replace(spec.rule, arguments=arguments)), RuleTraits)


def _files_to_write(
    experiment: Experiment, pipelines: Sequence[str], builder: Builder
) -> dict[str, list[tuple[PipelineSpec, Any]]]:
    """The files to write, each with the pipelines that name it and the verifiers whose scores it is for.

    Raises:
        ConfigError: a pipeline is unknown, none names a file, two verifiers share one, or a rule takes steps.
    """
    chosen = [nested_spec for spec in experiment.only(pipelines) for nested_spec in _with_inner(spec)]
    # Inner pipelines first, whose files those around them are built with.
    named = [
        (-depth, str(component.arguments["scores"]), spec, component.arguments["verifier"])
        for depth, spec in chosen
        for component in _parts(spec.verifier, Calibrated)
    ]
    if not named:
        raise ConfigError(
            "no pipeline has a calibrated verifier to fit; write verifier: {use: calibrated, verifier: {…}, scores: "
            "FILE, accept: 0.9}",
            path="pipelines",
        )
    named_files: dict[str, list[tuple[PipelineSpec, Any]]] = {}
    for _, path, spec, judge in sorted(named, key=lambda entry: entry[0]):
        if _rule_traits(spec, builder).stepwise:
            raise ConfigError(
                f"the rule {spec.rule.use} makes an answer of many items, of which none is a whole one: a metric "
                "cannot label them",
                path=f"{spec.path}.rule",
            )
        uses = named_files.setdefault(path, [])
        if uses and _same_spec(uses[0][1]) != _same_spec(judge):
            raise ConfigError(
                f"{path} is named for two verifiers, by {uses[0][0].name} and {spec.name}; give each a file",
                path="pipelines",
            )
        uses.append((spec, judge))
    return named_files


def _with_inner(spec: PipelineSpec, depth: int = 0) -> Iterator[tuple[int, PipelineSpec]]:
    """A pipeline and those that draft for it, each with how deep it stands and the settings that it inherits."""
    yield depth, spec
    for inner in (spec.generator, *(clause.generator for clause in spec.on_rejection)):
        if isinstance(inner, PipelineSpec):
            inherited = {**spec.settings, **inner.settings}
            yield from _with_inner(replace(inner, settings=inherited), depth + 1)


def _outer(experiment: Experiment, spec: PipelineSpec) -> str:
    """The name of the pipeline that one stands in; its own where it stands in none."""
    return next(
        outer.name for outer in experiment.pipelines if spec in (nested for _, nested in _with_inner(outer))
    )


def _block(spec: PipelineSpec, builder: Builder) -> int | BlockSize | None:
    """The size of the blocks that the pipeline judges. Where its operating point says not to draft: the best size
    that drafts, since scores without items cannot be fitted."""
    block: int | BlockSize | None = (
        builder.part(spec.block) if isinstance(spec.block, ComponentSpec) else spec.block
    )
    if isinstance(block, FittedBlock):
        return block.point.block or block.point.tested
    return block


def _same_spec(spec: Any) -> bytes:
    """A key that equal specs share, whether they stand in place or under `models`."""
    return msgspec.json.encode((spec.use, spec.arguments, spec.file), order="deterministic")


def _parts(spec: Any, kind: type) -> Iterator[ComponentSpec]:
    """The parts of this class within a spec, or within several; not those within one of them."""
    if isinstance(spec, ComponentSpec):
        if spec.role != "function" and spec.target is kind:
            yield spec
            return
        spec = tuple(spec.arguments.values())
    if isinstance(spec, (list, tuple)):
        for member in spec:
            yield from _parts(member, kind)


def _items(record: TaskRecord, task: Task, metric: Metric) -> tuple[list[LabelledScore], int]:
    """Raises: ContractError: the metric failed."""
    items, unscored = [], 0
    for round in record.rounds:
        for item, check in zip(round.items, round.checks, strict=False):
            right = None
            if check.score is not None and check.verdict in ("pass", "reject", "abstain"):
                right = is_right(metric, task, item, check)
            if right is None:
                unscored += 1
            else:
                assert check.score is not None
                items.append(LabelledScore(task.id, check.score, right))
    return items, unscored
