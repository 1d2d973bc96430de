"""OpenTelemetry's spans and events of real tasks, through OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter

import pytest
from opentelemetry import _logs, trace  # noqa: PLC2701 - the name of the logs API
from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC2701
from opentelemetry.sdk._logs.export import (  # noqa: PLC2701
    InMemoryLogRecordExporter,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from draftverify import Check, Pipeline, feedback, generator, retry, verifier
from draftverify.bench import load_experiment, run
from draftverify.bench.telemetry import SCHEMA_URL, Spans
from draftverify.rules import Best, First


@pytest.fixture
def exported(monkeypatch):
    """Where spans and events go: providers of this test alone."""
    spans, events = InMemorySpanExporter(), InMemoryLogRecordExporter()
    tracing, logging = TracerProvider(), LoggerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logging.add_log_record_processor(SimpleLogRecordProcessor(events))
    monkeypatch.setattr(trace, "get_tracer", tracing.get_tracer)
    monkeypatch.setattr(
        _logs, "get_logger", lambda name, **more: logging.get_logger(name, schema_url=more["schema_url"])
    )
    return spans, events


def sevens(outer=None):
    """Finds a root of 49 in its third block of three."""
    return Pipeline(
        outer or generator(lambda context, n: range(3 * len(context.rounds), 3 * len(context.rounds) + n)),
        verifier(lambda _, item: item * item == 49),
        First(),
        block=3,
        policy=retry(2).then(feedback(2)),
    )


def test_a_task_its_rounds_and_parts_are_spans_within_each_other(exported):
    """Each stands under what it belongs to, and within its time."""
    spans, _ = exported
    assert sevens().run("root", on_event=Spans("roots")).value == 7
    found = spans.get_finished_spans()
    by_id = {span.context.span_id: span for span in found}
    assert Counter(span.name for span in found) == {
        "draftverify.task": 1, "draftverify.round": 3, "draftverify.draft": 3, "draftverify.verify": 3,
        "draftverify.decide": 3,
    }  # fmt: skip
    above = {"round": "task", "draft": "round", "verify": "round", "decide": "round"}
    for span in found:
        kind = span.name.removeprefix("draftverify.")
        assert span.start_time <= span.end_time
        if kind == "task":
            assert span.parent is None
            continue
        parent = by_id[span.parent.span_id]
        assert parent.name == f"draftverify.{above[kind]}"
        assert parent.start_time <= span.start_time <= span.end_time <= parent.end_time
    (task,) = (span for span in found if span.name == "draftverify.task")
    assert task.attributes["draftverify.pipeline"] == "roots"
    assert task.attributes["draftverify.outcome"] == "accepted"
    assert task.attributes["draftverify.rounds"] == 3
    assert [event.name for event in task.events] == ["draftverify.regenerate"] * 2
    assert task.instrumentation_scope.schema_url == SCHEMA_URL


def test_tasks_of_one_id_that_are_under_way_together_have_spans_of_their_own(exported):
    """Plain prompts that a server's requests share one listener for."""
    spans, _ = exported
    told = Spans("roots")

    async def gathered():
        return await asyncio.gather(*(sevens().arun(prompt, on_event=told) for prompt in "abc"))

    assert [found.value for found in asyncio.run(gathered())] == [7, 7, 7]
    found = spans.get_finished_spans()
    above = Counter(span.parent.span_id for span in found if span.name == "draftverify.round")
    assert above == {span.context.span_id: 3 for span in found if span.name == "draftverify.task"}
    assert len(above) == 3


def test_an_outcome_is_an_evaluation_event(exported):
    """By the names of the conventions, under the task's span."""
    spans, events = exported
    scores = verifier(lambda _, item: Check("pass", score=item / 10), scores=True)
    Pipeline(generator(lambda _, n: range(n)), scores, Best(), block=4).run("best", on_event=Spans("best"))
    (event,) = events.get_finished_logs()
    task = next(span for span in spans.get_finished_spans() if span.name == "draftverify.task")
    record = event.log_record
    assert record.event_name == "gen_ai.evaluation.result"
    assert dict(record.attributes) == {
        "gen_ai.evaluation.name": "draftverify.best",
        "gen_ai.evaluation.score.label": "accepted",
        "gen_ai.evaluation.score.value": 0.3,
    }
    assert record.span_id == task.context.span_id


def test_a_failed_part_is_an_error_without_what_it_was_given(exported):
    """The error's type, and no draft."""

    def breaks(context, proposal):
        raise ConnectionError("refused by the checker")

    class Breaks:
        verify = staticmethod(breaks)

    spans, events = exported
    Pipeline(generator(lambda _, n: ["a secret draft"]), Breaks(), First()).run("x", on_event=Spans("breaks"))
    task = next(span for span in spans.get_finished_spans() if span.name == "draftverify.task")
    assert task.attributes["error.type"] == "ConnectionError"
    assert task.status.status_code is trace.StatusCode.ERROR
    assert events.get_finished_logs()[0].log_record.attributes["error.type"] == "ConnectionError"
    assert not any("secret draft" in span.to_json() for span in spans.get_finished_spans())


def test_inner_tasks_stand_under_the_draft_that_they_made(exported):
    """A pipeline that drafts for another one."""
    spans, _ = exported
    inner = Pipeline(
        generator(lambda _, n: range(n)),
        verifier(lambda _, item: item % 7 == 0),
        First(),
        block=9,
        name="inner",
    )
    sevens(inner).run("root", on_event=Spans("outer"))
    found = {span.context.span_id: span for span in spans.get_finished_spans()}
    tasks = [span for span in found.values() if span.name == "draftverify.task" and span.parent is not None]
    assert tasks
    assert {found[span.parent.span_id].name for span in tasks} == {"draftverify.draft"}


CONFIG = """
parts: [./odd.py]
telemetry: {telemetry}
tasks: {{use: jsonl, path: tasks.jsonl}}
pipelines:
  odd:
    generator: {{use: odd.Numbers}}
    verifier: {{use: python, function: odd.is_seven}}
    rule: {{use: first}}
    block: 9
"""
PARTS = """
from draftverify import Proposal

class Numbers:
    def propose(self, context, n):
        return Proposal.alternatives(range(n))

def is_seven(context, item):
    return item == 7
"""


@pytest.mark.parametrize("telemetry", ["true", "false"])
def test_a_config_asks_for_it(exported, tmp_path, telemetry):
    """Every task of a run has its span; none where it was not asked for."""
    spans, _ = exported
    (tmp_path / "odd.py").write_text(PARTS)
    (tmp_path / "tasks.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    (tmp_path / "run.yaml").write_text(CONFIG.format(telemetry=telemetry))
    run(load_experiment(tmp_path / "run.yaml"), out=tmp_path / "out")
    tasks = [span for span in spans.get_finished_spans() if span.name == "draftverify.task"]
    assert len(tasks) == (2 if telemetry == "true" else 0)


def test_nothing_of_it_is_imported_unasked():
    """A run without telemetry does without the package."""
    code = "import sys, draftverify.bench; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_package_it_says_what_to_install(monkeypatch):
    """As every extra does."""
    from draftverify import ResourceError

    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ResourceError, match=r"install draftverify with the extra 'otel'"):
        Spans("any")
