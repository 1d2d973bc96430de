"""When a run ends before its tasks do."""

from __future__ import annotations

import pytest

from draftverify.bench.runner.limits import RunLimits
from draftverify.errors import RunStoppedError
from draftverify.values import Check, Decision, Failure, Outcome, Round, Tally, TaskRecord


def failed(task: str, why: str = "ValueError: no") -> TaskRecord:
    error, _, message = why.partition(": ")
    return TaskRecord(task=task, outcome=Outcome(status="failed", failure=Failure("error", error, message)))


DONE = TaskRecord(task="t", outcome=Outcome(status="refused"))


def test_three_first_tasks_that_fail_alike_end_a_run() -> None:
    """A task's own name in the reason is no difference; each pipeline has its own first tasks."""
    limits = RunLimits()
    for pipeline in ("one", "other"):
        for place in range(2):
            limits.take(pipeline, failed(f"t{place}", f"ConfigError: task t{place} has no field 'text'"))
    limits.check()
    limits.take("one", failed("t9", "ConfigError: task t9 has no field 'text'"))
    with pytest.raises(
        RunStoppedError, match=r"the first 3 tasks of one failed alike, the last: ConfigError: task t9 has no"
    ):
        limits.check()


def test_what_fails_in_different_ways_or_later_ends_nothing() -> None:
    """A task that ended otherwise, in an earlier part of the run too, or another reason."""
    limits = RunLimits(started={"begun"})
    for place in range(9):
        limits.take("mixed", failed(f"t{place}", ("ValueError: no", "KeyError: no")[place % 2]))
        limits.take("begun", failed(f"t{place}"))
    limits.take("late", DONE)
    for place in range(9):
        limits.take("late", failed(f"t{place}"))
    limits.check()


def test_numbers_and_ids_are_no_difference() -> None:
    """Of requests and of moments, as servers put them into each refusal."""
    limits = RunLimits()
    for place in range(3):
        limits.take(
            "one", failed(f"q/{place}", f"EndpointError: q/{place}: no, at 12:0{place} (req_8f{place}a)")
        )
    assert limits.stopped


def test_checks_that_all_fail_are_failures_too() -> None:
    """A task of which nothing was judged ended as refused, and yet nobody was there."""
    round = Round(
        index=0, checks=(Check("error", reason="EndpointError", feedback="401"),), decision=Decision()
    )
    outcome = Outcome(status="refused", tally=Tally(errors=1))
    limits = RunLimits()
    for place in range(3):
        limits.take("one", TaskRecord(task=f"t{place}", outcome=outcome, rounds=(round,)))
    assert "the last: EndpointError: 401" in limits.stopped


def test_a_number_of_failures_stands_in_its_place() -> None:
    """Of all pipelines together."""
    limits = RunLimits(max_failures=5)
    for place in range(4):
        limits.take("one", failed(f"t{place}"))
    limits.check()
    limits.take("other", failed("t", "KeyError: x"))
    with pytest.raises(RunStoppedError, match=r"5 tasks failed \(--max-failures\), the last: KeyError: x"):
        limits.check()
