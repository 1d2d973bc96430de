"""OpenTelemetry: a span for every task, round and part, an evaluation event for every outcome. Off unless asked for.

Only OpenTelemetry's API is used (the extra `otel`). Where spans go is said by the program, or by OpenTelemetry's own
environment variables under `opentelemetry-instrument`; without either they go nowhere. No input, draft or answer is put
into a span: counts, times, words of this package and reasons only.

A batch's parts serve many tasks in one call. Each task then has a span for it of the whole call's length; `passes`
and `batch` say how it was shared.
"""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Any

from draftverify.engine.events import Event, RoundDone, StepTaken, TaskDone, TaskStarted
from draftverify.plugins import required
from draftverify.secret import redact
from draftverify.values import Outcome, Round, TaskRecord

if TYPE_CHECKING:
    from opentelemetry.trace import Span

SCHEMA_URL = "https://opentelemetry.io/schemas/1.37.0"
"""The semantic conventions of the evaluation event: the first version that has `gen_ai.evaluation.result`. It is in
development there and may change; this names the version that is written."""

EXPLAINED = 500
"""Characters of a reason that go into an event."""


class Spans:
    """A listener that makes spans of a pipeline's events.

    Args:
        pipeline: its name, an attribute of every span.

    Raises:
        ResourceError: OpenTelemetry is not installed.

    Examples:
        >>> from draftverify import Pipeline, generator, verifier
        >>> from draftverify.rules import First
        >>> from draftverify.bench.telemetry import Spans
        >>> roots = Pipeline(
        ...     generator(lambda _, n: range(n)), verifier(lambda _, item: item * item == 49), First()
        ... )
        >>> roots.run("the root of 49", on_event=Spans("roots")).value
        7
    """

    def __init__(self, pipeline: str) -> None:
        self._trace = required("opentelemetry.trace", "telemetry", "otel")
        self._tracer = self._trace.get_tracer("draftverify", schema_url=SCHEMA_URL)
        logs = required("opentelemetry._logs", "telemetry", "otel")
        self._logger = logs.get_logger("draftverify", schema_url=SCHEMA_URL)
        self._pipeline = pipeline
        # By session: its task's span, and when its last round ended.
        self._open: dict[int, tuple[Span, int]] = {}

    def __call__(self, event: Event) -> None:
        """Make what the event says into spans."""
        now = time_ns()
        task, key = event.task, event.session
        if isinstance(event, TaskStarted):
            self._open[key] = self._begin(task.id, task.group, now), now
        elif key not in self._open:
            return
        elif isinstance(event, RoundDone):
            span, begun = self._open[key]
            self._round(event.round, span, begun, now)
            self._open[key] = span, now
        elif isinstance(event, StepTaken):
            step = event.step
            self._open[key][0].add_event(
                f"draftverify.{step.do}", {"draftverify.on": step.on, "draftverify.round": event.round}
            )
        elif isinstance(event, TaskDone):
            span, _ = self._open.pop(key)
            self._end(span, event.record.outcome, now)

    def _begin(self, task: str, group: str, at: int, parent: Span | None = None) -> Span:
        about = {"draftverify.pipeline": self._pipeline, "draftverify.task": task, "draftverify.group": group}
        begin = self._tracer.start_span
        span: Span = begin("draftverify.task", self._under(parent), attributes=about, start_time=at)
        return span

    def _under(self, span: Span | None) -> Any:
        return None if span is None else self._trace.set_span_in_context(span)

    def _round(self, round: Round, task: Span, begun: int, ended: int) -> None:
        timing, tally = round.timing, round.tally
        about: dict[str, Any] = {
            "draftverify.round": round.index,
            "draftverify.source": round.source,
            "draftverify.tries": round.tries,
            "draftverify.items": len(round.items),
            "draftverify.trials": tally.trials,
            "draftverify.accepted": tally.accepted,
            "draftverify.emitted": len(round.decision.emitted),
            "draftverify.trouble": round.trouble,
            "draftverify.cost": timing.cost,
        }
        span = self._tracer.start_span(
            "draftverify.round", self._under(task), attributes=about, start_time=begun
        )
        at = begun
        for part, seconds in (("draft", timing.draft), ("verify", timing.verify), ("decide", timing.decide)):
            if not seconds:
                continue
            shared = (
                {"draftverify.passes": timing.passes, "draftverify.batch": timing.batch}
                if part == "verify"
                else {}
            )
            part_span = self._tracer.start_span(
                f"draftverify.{part}", self._under(span), attributes=shared, start_time=at
            )
            if part == "draft":
                for record in round.nested:
                    self._nested(record, part_span, at)
            at = min(at + round_ns(seconds), ended)
            part_span.end(at)
        if round.failure is not None:
            self._failed(span, round.failure.error, round.failure.message)
        span.end(ended)

    def _nested(self, record: TaskRecord, parent: Span, at: int) -> None:
        """An inner task's spans, one round after the other: when each began is not recorded, how long it took is."""
        span = self._begin(record.task, record.group, at, parent)
        for round in record.rounds:
            ended = at + round_ns(round.timing.total)
            self._round(round, span, at, ended)
            at = ended
        self._end(span, record.outcome, at)

    def _end(self, span: Span, outcome: Outcome, at: int) -> None:
        span.set_attributes(
            {
                "draftverify.outcome": outcome.status,
                "draftverify.rounds": outcome.rounds,
                "draftverify.seconds": outcome.seconds,
                "draftverify.cost": outcome.cost,
            }
        )
        about: dict[str, Any] = {
            "gen_ai.evaluation.name": f"draftverify.{self._pipeline}",
            "gen_ai.evaluation.score.label": outcome.status,
        }
        if outcome.score is not None:
            about["gen_ai.evaluation.score.value"] = float(outcome.score)
        if outcome.reason:
            about["gen_ai.evaluation.explanation"] = redact(outcome.reason)[:EXPLAINED]
        if outcome.failure is not None:
            about["error.type"] = outcome.failure.error
            self._failed(span, outcome.failure.error, outcome.failure.message)
        self._logger.emit(
            timestamp=at, context=self._under(span), event_name="gen_ai.evaluation.result", attributes=about
        )
        span.end(at)

    def _failed(self, span: Span, error: str, message: str) -> None:
        span.set_attribute("error.type", error)
        span.set_status(self._trace.StatusCode.ERROR, redact(message)[:EXPLAINED])


def round_ns(seconds: float) -> int:
    """Seconds as whole nanoseconds."""
    return int(seconds * 1e9)
