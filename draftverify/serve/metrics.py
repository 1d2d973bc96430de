"""What the server counts, in Prometheus' text format under `/metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from draftverify.serve.model import ServedAnswer

__all__ = ["Metrics"]

SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250)


class Metrics:
    """One server's counts."""

    def __init__(self) -> None:
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
        self.cost = Counter("draftverify_cost", "Cost that the parts reported.", of_model, registry=registry)
        self.seconds = Histogram(
            "draftverify_request_seconds",
            "Seconds of a request.",
            of_model,
            buckets=SECONDS,
            registry=registry,
        )
        self.under_way = Gauge("draftverify_tasks_under_way", "Tasks under way.", registry=registry)
        self.queued = Gauge("draftverify_tasks_queued", "Tasks that wait for a place.", registry=registry)

    def count(self, model: str, answer: ServedAnswer) -> None:
        """Count a task that ended."""
        outcome = answer.record.outcome
        self.tasks.labels(model, outcome.status).inc()
        self.checked.labels(model).inc(outcome.tally.trials)
        self.accepted.labels(model).inc(outcome.tally.accepted)
        self.tokens.labels(model, "in").inc(answer.tokens_in)
        self.tokens.labels(model, "out").inc(answer.tokens_out)
        self.cost.labels(model).inc(max(outcome.cost, 0.0))

    def text(self) -> bytes:
        """All of it."""
        return bytes(generate_latest(self.registry))
