"""What a metric says of single items, as if each had been the task's answer, and running pipelines to be labelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import UNSET

from draftverify.bench.artifact import PartIdentity
from draftverify.bench.config.specs import Experiment
from draftverify.bench.runner.bench import Bench, Unit
from draftverify.bench.runner.build import Builder
from draftverify.checks.metrics import measures_of, score
from draftverify.engine.parts import name_of
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import ConfigError, ContractError
from draftverify.identity import identity_of
from draftverify.plugins import did_you_mean
from draftverify.protocols import Metric
from draftverify.values import Check, Outcome, Task, TaskRecord

__all__ = ["check_whole", "is_right", "judging_metric", "labelled", "solved_by"]

T = TypeVar("T")

AT_ONCE = 16
"""Tasks under way together, so that a verifier that can judges the blocks of several in one pass."""


def check_whole(generator: object) -> None:
    """Refuse a generator of whose items none is a whole answer: nothing would say whether one is right.

    Raises:
        ConfigError: it drafts chains or trees.
    """
    shape = getattr(generator, "shape", None)
    if shape not in (None, "alternatives"):
        raise ConfigError(
            f"the generator's drafts are {shape}s, of which no item is a whole answer; a metric cannot label them",
            path="generator",
        )


def labelled(
    pipeline: Pipeline,
    tasks: Sequence[Task],
    metric: Metric,
    hear: Callable[[TaskRecord, Task, Metric], T],
    watcher: Callable[[int, int], None],
    part: object,
) -> tuple[list[T], PartIdentity]:
    """Run a pipeline over labelled tasks.

    Args:
        pipeline: its rule keeps nothing that would end a task.
        tasks: with their truth.
        metric: opened for `hear`.
        hear: told of each task's record, as it ends.
        watcher: told how many tasks are done.
        part: one of the pipeline's.

    Returns:
        What `hear` made of each, in the order of the tasks' ids; and who that part was, when open, as it will be
        compared.

    Raises:
        DraftVerifyError: a part cannot be opened, or `hear` raised it.
    """
    of_task = {task.id: task for task in tasks}
    heard: dict[str, T] = {}
    bench = Bench({"fit": pipeline})
    try:
        asking = bench.opened(metric)
        units = (Unit(pipeline="fit", task=task) for task in tasks)
        for done, each in enumerate(bench.perform_all(units, size=AT_ONCE), start=1):
            name = each.record.task
            heard[name] = hear(each.record, of_task[name], asking)
            watcher(done, len(tasks))
        who = PartIdentity(name_of(part), identity_of(part))
    finally:
        bench.close()
    return [heard[name] for name in sorted(heard)], who


def solved_by(experiment: Experiment) -> str | None:
    """The name of the first metric that says right or wrong; None where accepted tasks are counted, for want of one."""
    _, judging = _metrics(experiment, Builder())
    return next(iter(judging), None)


def judging_metric(experiment: Experiment, builder: Builder, metric: str | None = None) -> tuple[str, Metric]:
    """The metric by which items are right, with its name: the one of this name, or the experiment's first.

    Raises:
        ConfigError: there is none, or it measures something else than right or wrong.
    """
    metrics, judging = _metrics(experiment, builder)
    if not judging and (metric is None or not metrics):
        raise ConfigError("there are no metrics, and nothing else says which items are right", path="metrics")
    wanted = metric if metric is not None else next(iter(judging))
    if wanted not in metrics:
        raise ConfigError(f"there is no metric {wanted!r}{did_you_mean(wanted, metrics)}", path="metrics")
    if wanted not in judging:
        unit = measures_of(metrics)[wanted].unit
        raise ConfigError(
            f"metric {wanted!r} measures in {unit!r}; one that says right or wrong is needed",
            path="metrics",
        )
    return wanted, judging[wanted]


def _metrics(experiment: Experiment, builder: Builder) -> tuple[dict[str, Metric], dict[str, Metric]]:
    """All metrics by name, and those that say right or wrong."""
    metrics: dict[str, Metric] = {name: builder.part(spec) for name, spec in experiment.metrics.items()}
    measures = measures_of(metrics)
    return metrics, {name: each for name, each in metrics.items() if name not in measures}


def is_right(metric: Metric, task: Task, item: Any, check: Check | None) -> bool | None:
    """Whether an item is right: where the metric says ½ or more; None where it has no say.

    Args:
        metric: opened.
        task: with its truth.
        item, check: what was drafted, and the verifier's word, which may have something else in its place.

    Raises:
        ContractError: the metric failed.
    """
    value = item if check is None or check.correction is UNSET else check.correction
    said = score(metric, task, Outcome(status="accepted", value=value))
    if said.problem:
        raise ContractError(f"the metric failed on task {task.id}: {said.problem}")
    return None if said.value is None else said.value >= 0.5
