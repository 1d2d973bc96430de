"""The keys of `monitor`, as signatures: what acceptance is compared with, who labels, and what an alarm does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec.structs import replace
from pydantic import Field

from draftverify.bench.config.forms import ConfigReading, FilePath, Plain, Schema
from draftverify.bench.config.located import Located
from draftverify.bench.config.parameters import Record
from draftverify.bench.config.specs import ComponentSpec, MonitorSpec
from draftverify.bench.monitors.monitor import OnAlarm
from draftverify.errors import did_you_mean
from draftverify.protocols import Threshold

Rate = Annotated[float, Field(gt=0, lt=1)]


def rates(
    acceptance: Rate | None = None,
    right: Rate | None = None,
    true_pass: Rate | None = None,
    false_pass: Rate | None = None,
) -> None:
    """Known rates: each a mean over tasks of the share of the task's drafts.

    Args:
        acceptance: of the judged ones, that are accepted.
        right: of the labelled ones, that are right.
        true_pass: of the right ones, that are accepted.
        false_pass: of the wrong ones, that are accepted.
    """


RATES = Record(rates, dict)


class Reference(FilePath):
    """What a monitor compares with: a known acceptance, known rates by name, or the path of an earlier measurement."""

    def check(self, node: Located, reading: ConfigReading) -> Any:
        if isinstance(node.value, dict):
            return RATES.check(node, reading)
        if not isinstance(node.value, str):
            return {"acceptance": Plain(Rate).check(node, reading)}
        path = super().check(node, reading)
        if not (Path(path) / "run.json" if Path(path).is_dir() else Path(path)).is_file():
            kinds = "the directory of a run, or a file that `draftverify fit block` wrote"
            raise reading.wrong(node, f"there is no run and no file at {path}; a reference is {kinds}")
        return path

    def schema(self, definitions: dict[str, Schema], name: str) -> Schema:
        rates = [form.schema(definitions, name) for form in (RATES, Plain(Rate))]
        return {"anyOf": [super().schema(definitions, name), *rates]}


def labels(metric: str, every: Annotated[int, Field(ge=1)] = 1) -> None:
    """Which drafts are labelled, so that it can be said what has changed.

    Args:
        metric: which of the file's metrics says whether a draft is right.
        every: the first task and each so-many-th after it are labelled, where the metric has a say on them.
    """


def monitor(
    reference: Annotated[Any, Reference()] = None,
    level: Annotated[float, Field(gt=0, lt=1)] = 0.05,
    labels: Annotated[Any, Record(labels, dict)] = None,
    on_alarm: OnAlarm = "record",
    threshold: Threshold | None = None,
) -> None:
    """Watches a pipeline's acceptance, and says when it has changed.

    Args:
        reference: what it was before: a number (the mean of the tasks' acceptance), numbers by rate, an earlier run's
            directory, or a file that `draftverify fit block` wrote; when absent the run's own
            tasks that `predict` names.
        level: the probability of ever alarming when nothing has changed, at most.
        labels: of which tasks a metric says whether the drafts are right; acceptance alone is watched when absent.
        on_alarm: record: write it down and warn. stop: do later tasks without drafts, by the verifier's plain steps.
            tighten: in later tasks take what passed with a score below `threshold` as rejected. escalate: in later
            tasks ask a person about every answer.
        threshold: the score for tighten.
    """


def _monitor(labels: Mapping[str, Any] = {}, **keys: Any) -> MonitorSpec:
    return MonitorSpec(**keys, **labels)


MONITOR = Record(monitor, _monitor)


def compared(monitor: MonitorSpec, node: Located, reading: ConfigReading) -> MonitorSpec:
    """A monitor whose reference and metric are there.

    Args:
        monitor: as it is written.
        node: its pipeline.
        reading: of the file.

    Raises:
        Wrong: there is nothing to compare with, or no metric of that name.
    """
    metrics = reading.top("metrics", dict)
    if monitor.metric and monitor.metric not in metrics:
        message = f"there is no metric {monitor.metric!r}{did_you_mean(monitor.metric, metrics)}"
        raise reading.wrong(node, message, "monitor", "labels", "metric")
    reference = monitor.reference
    if reference is None and reading.top("predict", dict):
        return monitor
    rates: Collection[str] = reference if isinstance(reference, Mapping) else ("acceptance",)
    if isinstance(reference, str) and Path(reference).is_dir():
        rates = RATES.takes
    if reference is None:
        message = (
            "is missing, and there is nothing to compare with: give a rate, an earlier run's directory or an operating "
            "point, or predict from the run's first tasks (predict: {limit: 50})"
        )
    elif monitor.metric and not {"right", "true_pass", "false_pass"} & set(rates):
        message = (
            "says nothing of right, true_pass and false_pass, to which labels belong: give their rates too, or an "
            "earlier run with labels, or leave labels out"
        )
    elif not monitor.metric and "acceptance" not in rates:
        message = "has no acceptance, and without labels nothing else is watched"
    else:
        return monitor
    raise reading.wrong(node, message, "monitor", "reference")


def asking(monitor: MonitorSpec | None, metrics: Mapping[str, ComponentSpec]) -> MonitorSpec | None:
    """The monitor with the metric that it names."""
    if monitor is None or not monitor.metric:
        return monitor
    return replace(monitor, asks=metrics[monitor.metric])
