"""What a metric says of single items, as if each had been the task's answer."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from draftverify.bench.config.specs import Experiment
from draftverify.bench.runner.build import Builder
from draftverify.checks.scores import measures_of, score
from draftverify.errors import ConfigError, ContractError, check_known
from draftverify.protocols import Metric
from draftverify.values import Check, Outcome, Task


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
    name = metric if metric is not None else next(iter(judging))
    check_known("metric", name, metrics, path="metrics")
    if name not in judging:
        unit = measures_of(metrics)[name].unit
        raise ConfigError(
            f"metric {name!r} measures in {unit!r}; one that says right or wrong is needed", path="metrics"
        )
    return name, judging[name]


def _metrics(experiment: Experiment, builder: Builder) -> tuple[dict[str, Metric], dict[str, Metric]]:
    """All metrics by name, and those that say right or wrong."""
    metrics: dict[str, Metric] = {name: builder.part(spec) for name, spec in experiment.metrics.items()}
    measures = measures_of(metrics)
    return metrics, {name: judge for name, judge in metrics.items() if name not in measures}


def meant(item: Any, check: Check | None) -> Any:
    """What an item would have been as an answer: itself, or what the verifier made of it."""
    return item if check is None or check.correction is UNSET else check.correction


def is_right(metric: Metric, task: Task, item: Any, check: Check | None) -> bool | None:
    """Whether an item is right: where the metric says ½ or more; None where it has no say.

    Args:
        metric: opened.
        task: with what it expects.
        item, check: what was drafted, and the verifier's word, which may have something else in its place.

    Raises:
        ContractError: the metric failed.
    """
    label = score(metric, task, Outcome(status="accepted", value=meant(item, check)))
    if label.problem:
        raise ContractError(f"the metric failed on task {task.id}: {label.problem}")
    return None if label.value is None else label.value >= 0.5
