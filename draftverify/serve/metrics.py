"""What the server counts, in Prometheus' text format under `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from math import nan

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from draftverify.serve.model import ServedAnswer, ServedModel

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)


class Metrics:
    """One server's counts.

    Args:
        models: what it serves; how the monitors of those that have one stand is looked up when it is asked for.
    """

    def __init__(self, models: Mapping[str, ServedModel]) -> None:
        self.registry = CollectorRegistry()
        of_model, registry = ("model",), self.registry
        self.requests = Counter(
            "draftverify_requests", "Requests by HTTP status.", ("model", "status"), registry=registry
        )
        self.tasks = Counter(
            "draftverify_tasks", "Tasks by how they ended.", ("model", "status"), registry=registry
        )
        self.checked = Counter(
            "draftverify_checked_items", "Items that were checked.", of_model, registry=registry
        )
        self.accepted = Counter(
            "draftverify_accepted_items", "Items that were accepted.", of_model, registry=registry
        )
        self.tokens = Counter(
            "draftverify_tokens", "Tokens read and sampled.", ("model", "kind"), registry=registry
        )
        self.cost = Counter(
            "draftverify_cost", "Cost that the parts reported.", ("model", "currency"), registry=registry
        )
        self.seconds = Histogram(
            "draftverify_request_seconds",
            "Seconds of a request.",
            of_model,
            buckets=SECONDS,
            registry=registry,
        )
        self.unrecorded = Counter(
            "draftverify_unrecorded_tasks", "Tasks that could not be recorded.", of_model, registry=registry
        )
        self.under_way = Gauge("draftverify_tasks_under_way", "Tasks under way.", registry=registry)
        self.queued = Gauge("draftverify_tasks_queued", "Tasks that wait for a place.", registry=registry)
        registry.register(_Monitors(models))

    def count(self, model: str, answer: ServedAnswer) -> None:
        """Count a task that ended."""
        outcome = answer.record.outcome
        self.tasks.labels(model, outcome.status).inc()
        self.checked.labels(model).inc(outcome.tally.trials)
        self.accepted.labels(model).inc(outcome.tally.accepted)
        self.tokens.labels(model, "in").inc(answer.tokens_in)
        self.tokens.labels(model, "out").inc(answer.tokens_out)
        self.cost.labels(model, answer.currency).inc(max(outcome.cost, 0.0))

    def count_request(self, model: str, status: int, begun: float) -> None:
        """Count a request that was answered; `begun` is when it came, by the monotonic clock."""
        self.requests.labels(model, str(status)).inc()
        self.seconds.labels(model).observe(time.monotonic() - begun)

    def text(self) -> bytes:
        """All of it."""
        return bytes(generate_latest(self.registry))


class _Monitors:
    """How the models' monitors stand, read from them whenever the metrics are."""

    def __init__(self, models: Mapping[str, ServedModel]) -> None:
        self._models = models

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Of each monitor: what acceptance was, what it is and over how many tasks, and whether that alarmed."""
        figures = {
            "reference": "Acceptance that a monitor compares with.",
            "acceptance": "Mean acceptance of the tasks that a monitor was told of.",
            "tasks": "Tasks that had a say on it.",
            "alarms": "Alarms of a monitor; later tasks go as its on_alarm says.",
        }
        families = {
            name: GaugeMetricFamily(f"draftverify_monitor_{name}", description, labels=["model"])
            for name, description in figures.items()
        }
        for model in self._models.values():
            if model.monitored is None:
                continue
            (report,) = model.monitored.monitor.report()
            families["reference"].add_metric([model.name], report.reference)
            families["acceptance"].add_metric([model.name], nan if report.share is None else report.share)
            families["tasks"].add_metric([model.name], report.observed)
            families["alarms"].add_metric([model.name], len(model.monitored.monitor.alarms))
        yield from families.values()
