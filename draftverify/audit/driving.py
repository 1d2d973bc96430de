"""A driver that lets the audit stand between a request and its component, and the same pipeline with another block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from draftverify.engine.pipeline import Pipeline
from draftverify.engine.requests import Ask, Decide, Draft, Finish, Prepare, Request, Verify
from draftverify.engine.session import Session
from draftverify.errors import ContractError

__all__ = ["Hook", "drive", "empty", "perform", "with_block"]

Hook: TypeAlias = "Callable[[Request], Any]"
"""Called with each request in the component's place; `perform` is what happens without one."""


def perform(session: Session, request: Request) -> Any:
    """Call the component that a request is for. A person is not asked.

    Raises:
        ContractError: the component is a coroutine function.
        Exception: whatever the component raises.
    """
    pipeline = session.pipeline
    value: Any = None
    if isinstance(request, Draft):
        value = request.generator.propose(request.context, request.n)
    elif isinstance(request, Verify):
        value = pipeline.verifier.verify(request.context, request.proposal)
    elif isinstance(request, Decide):
        value = pipeline.rule.decide(request.context, request.proposal, request.verification, request.rng)
    elif isinstance(request, Finish):
        value = getattr(pipeline.rule, "finish")(request.context)  # noqa: B009
    elif isinstance(request, Prepare):
        value = getattr(pipeline.verifier, "prepare")(request.task)  # noqa: B009
    else:
        assert isinstance(request, Ask)
    if hasattr(value, "__await__"):
        value.close()
        raise ContractError("a component is a coroutine function; the audit calls plain ones")
    return value


def drive(session: Session, hook: Hook, *, rounds: int | None = None) -> None:
    """Run a session to its end, or until it holds `rounds` rounds.

    Raises:
        ContractError: a round ended in a failed call, or a component broke its contract.
        Exception: whatever a component raises.
    """
    while session.outcome is None and (rounds is None or len(session.rounds) < rounds):
        for request in session.requests():
            session.answer(request.id, hook(request))
    failure = session.outcome.failure if session.outcome is not None else None
    if session.rounds and session.rounds[-1].failure is not None:
        failure = session.rounds[-1].failure
    if failure is not None:
        raise ContractError(str(failure))


def empty(scratch: dict[Any, Any]) -> None:
    """Close what a scratch holds, and forget it."""
    for entry in scratch.values():
        close = getattr(entry, "close", None)
        if callable(close):
            close()
    scratch.clear()


def with_block(pipeline: Pipeline, n: int) -> Pipeline:
    """The same parts with blocks of `n`; with 0 every round is one plain step."""
    return Pipeline(
        pipeline.generator,
        pipeline.verifier,
        pipeline.rule,
        policy=pipeline.policy,
        block=n,
        done=pipeline.done,
        budget=pipeline.budget,
        settings=pipeline.settings,
        seed=pipeline.seed,
        name=pipeline.name,
    )
