"""A pipeline that is watched: what its monitor may be, what a task says to it, and what an alarm makes of checks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from draftverify.checks.metrics import score
from draftverify.errors import PipelineError
from draftverify.lab.watch import Monitor, Shares, shares_of
from draftverify.rejection import Policy
from draftverify.secret import quiet
from draftverify.values import Check, Outcome, Shape, Task, TaskRecord, VerdictKind, Verification

__all__ = ["check_monitor", "doubted", "tightened", "what_it_says"]

_log = quiet(logging.getLogger(__name__))

DOUBT = "passed, but the pipeline's monitor has alarmed: a person is asked"


def check_monitor(
    monitor: Monitor, generators: Iterable[object], shape: Shape | None, verifier: object, policy: Policy
) -> None:
    """Refuse a monitor that asks for what a pipeline's parts cannot give.

    Args:
        monitor: of the pipeline.
        generators: its own, and those of fallbacks.
        shape: of its own generator's proposals; None for any.
        verifier, policy: the pipeline's.

    Raises:
        PipelineError: it cannot stop drafting, has nobody to ask, or is to label what is no whole answer.
    """
    if any(getattr(each, "monitor", None) is not None for each in generators):
        raise PipelineError("a pipeline inside another is not watched; give the outer one the monitor")
    whole = shape in (None, "alternatives")
    if monitor.metric is not None and not whole:
        raise PipelineError(
            f"the monitor labels drafts, and the generator's are {shape}s, of which no item is a whole answer; "
            "leave labels out: acceptance is watched without"
        )
    if monitor.on_alarm == "stop" and not (
        policy.undrafted is not None
        or getattr(verifier, "plain_steps", False)
        or "target" in getattr(verifier, "provides", ())
    ):
        raise PipelineError(
            "on_alarm: stop needs a verifier that goes on without drafts (plain_steps), and this one does not say so, "
            "or a fallback in the policy to which tasks can go at once; record, or escalate"
        )
    if monitor.on_alarm == "escalate" and not whole:
        raise PipelineError(
            f"on_alarm: escalate asks a person of every answer, and the generator's drafts are {shape}s, of which no "
            "item is one; record, or stop"
        )
    if monitor.on_alarm == "escalate" and policy.asks is None:
        raise PipelineError(
            "on_alarm: escalate needs a policy step that asks a person (escalate, on abstain or on anything); give "
            "on_rejection one"
        )
    if monitor.on_alarm == "tighten" and not whole:
        raise PipelineError(
            f"on_alarm: tighten compares whole answers, and the generator's drafts are {shape}s; record, or stop"
        )
    if monitor.on_alarm == "tighten" and "scores" not in getattr(verifier, "provides", ()):
        raise PipelineError(
            "on_alarm: tighten compares scores, which the verifier does not say that it gives (provides: scores); "
            "record, or escalate"
        )


def what_it_says(monitor: Monitor, task: Task, record: TaskRecord, place: int, *, whole: bool) -> Shares:
    """What a task says of a pipeline's rates.

    Args:
        monitor: says whether it is labelled, and by which metric.
        task: with its truth.
        record: of how it ended, or waits.
        place: of the task, from 0.
        whole: whether all items of a block are checked, however many pass.
    """
    metric = monitor.metric

    def right(value: Any) -> bool | None:
        assert metric is not None
        said = score(metric, task, Outcome(status="accepted", value=value))
        if said.problem:
            _log.warning(
                "a monitor's metric failed on task %r, of which there is no label: %s", task.id, said.problem
            )
        return None if said.value is None else said.value >= 0.5

    return shares_of(record, right if monitor.labels(place) else None, whole=whole)


def doubted(verification: Verification) -> Verification:
    """A verification whose passes are no word any more."""
    return _instead(verification, "abstain", DOUBT, lambda check: True)


def tightened(verification: Verification, threshold: float) -> Verification:
    """A verification of which a pass below a score, or without one, is a rejection."""
    low = lambda check: check.score is None or check.score < threshold
    return _instead(
        verification, "reject", f"passed, but below {threshold:g}, which is asked since an alarm", low
    )


def _instead(
    verification: Verification, verdict: VerdictKind, why: str, passed: Callable[[Check], bool]
) -> Verification:
    """The verification with another verdict, and the reason for it, in the place of some of its passes."""
    return replace(
        verification,
        checks=tuple(
            replace(check, verdict=verdict, reason="; ".join(filter(None, (why, check.reason))))
            if check.verdict == "pass" and passed(check)
            else check
            for check in verification.checks
        ),
    )
