"""How the audit calls parts: a driver that stands between a request and its part, and contexts with nothing cached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec

from draftverify.engine.requests import Request
from draftverify.engine.session import Session
from draftverify.errors import ContractError
from draftverify.kit.subject import free
from draftverify.values import Context

Hook: TypeAlias = "Callable[[Request], Any]"
"""Called with each request in the component's place; `perform` is what happens without one."""


def perform(request: Request) -> Any:
    """Call the component that a request is for. A person is not asked.

    Raises:
        ContractError: the component is a coroutine function.
        Exception: whatever the component raises.
    """
    value: Any = None if request.part is None else request.call(*request.arguments)
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


@contextmanager
def uncached(context: Context) -> Iterator[Context]:
    """The context with an empty scratch, which is emptied again after."""
    scratch: dict[Any, Any] = {}
    try:
        yield msgspec.structs.replace(context, scratch=scratch)
    finally:
        free(scratch)
