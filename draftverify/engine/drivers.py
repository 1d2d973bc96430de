"""The drivers: they perform a session's requests, and hold no logic of the loop.

One function says which call a request is; the sync, asyncio and batched drivers differ only in how they make it.
What a component raises becomes a Failure here and nowhere else.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from time import perf_counter
from types import CoroutineType
from typing import Any

from draftverify.engine.events import Listener, RoundDone
from draftverify.engine.requests import Answer, Ask, Decide, Draft, Finish, Prepare, Request, Verify
from draftverify.engine.session import Session
from draftverify.errors import ConfigError, ContractError
from draftverify.values import Decision, Failure, TaskRecord

__all__ = ["Session", "arun", "astream", "run", "run_batch", "stream"]


_MANY: dict[type, str] = {Draft: "propose_many", Verify: "verify_many", Decide: "decide_many"}


def _call(session: Session, request: Request) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The component's method that a request is for, and its arguments."""
    if type(request) is Draft:
        return request.generator.propose, (request.context, request.n)
    if type(request) is Verify:
        return session.pipeline.verifier.verify, (request.context, request.proposal)
    if type(request) is Decide:
        rule = session.pipeline.rule
        return rule.decide, (request.context, request.proposal, request.verification, request.rng)
    # The two optional capabilities; the session asks for them only where the pipeline found them.
    if type(request) is Finish:
        return getattr(session.pipeline.rule, "finish"), (request.context,)  # noqa: B009
    assert type(request) is Prepare
    return getattr(session.pipeline.verifier, "prepare"), (request.task,)  # noqa: B009


def _perform(session: Session, request: Request, ask: Callable[[Ask], Any] | None) -> None:
    start = perf_counter()
    try:
        if type(request) is Ask:
            value = ask(request) if ask is not None else None
        else:
            method, arguments = _call(session, request)
            value = method(*arguments)
            if type(value) is CoroutineType:
                value.close()
                raise TypeError(f"{method.__qualname__} is a coroutine function; run this pipeline with arun")
    except Exception as error:
        value = Failure.of(error)
    session.answer(request.id, value, perf_counter() - start)


def _tell(session: Session, on_event: Listener) -> None:
    for event in session.events():
        on_event(event)


def _free(session: Session) -> None:
    """Close what is left in a finished session's scratch."""
    for entry in session.scratch.values():
        close = getattr(entry, "close", None)
        if callable(close):
            close()
    session.scratch.clear()


def run(
    session: Session, *, on_event: Listener | None = None, ask: Callable[[Ask], Answer | None] | None = None
) -> TaskRecord:
    """Run a session to its end, calling components in this thread."""
    session.listened = on_event is not None
    try:
        while session.outcome is None:
            for request in session.requests():
                _perform(session, request, ask)
            if on_event is not None:
                _tell(session, on_event)
    finally:
        _free(session)
    return session.record()


def stream(
    session: Session, *, on_event: Listener | None = None, ask: Callable[[Ask], Answer | None] | None = None
) -> Iterator[Decision]:
    """Yield each round's Decision as it is made. A stream left early frees the session."""
    try:
        while session.outcome is None:
            for request in session.requests():
                _perform(session, request, ask)
            for event in session.events():
                if on_event is not None:
                    on_event(event)
                if isinstance(event, RoundDone):
                    yield event.round.decision
    finally:
        _free(session)


async def _aperform(session: Session, request: Request, ask: Callable[[Ask], Any] | None) -> None:
    start = perf_counter()
    try:
        if type(request) is Ask:
            value = ask(request) if ask is not None else None
        else:
            method, arguments = _call(session, request)
            if inspect.iscoroutinefunction(method) or type(request) is Decide:
                value = method(*arguments)
            else:
                value = await asyncio.to_thread(method, *arguments)
        if inspect.isawaitable(value):
            value = await value
    except Exception as error:
        value = Failure.of(error)
    session.answer(request.id, value, perf_counter() - start)


async def arun(
    session: Session, *, on_event: Listener | None = None, ask: Callable[[Ask], Any] | None = None
) -> TaskRecord:
    """Run a session under asyncio: coroutine methods are awaited, others run in threads, rules in place."""
    session.listened = on_event is not None
    try:
        while session.outcome is None:
            for request in session.requests():
                await _aperform(session, request, ask)
            if on_event is not None:
                _tell(session, on_event)
    finally:
        _free(session)
    return session.record()


async def astream(
    session: Session, *, on_event: Listener | None = None, ask: Callable[[Ask], Any] | None = None
) -> AsyncIterator[Decision]:
    """As `stream`, under asyncio."""
    try:
        while session.outcome is None:
            for request in session.requests():
                await _aperform(session, request, ask)
            for event in session.events():
                if on_event is not None:
                    on_event(event)
                if isinstance(event, RoundDone):
                    yield event.round.decision
    finally:
        _free(session)


def run_batch(
    sessions: Iterable[Session],
    *,
    size: int | None = None,
    on_event: Listener | None = None,
    ask: Callable[[Ask], Answer | None] | None = None,
) -> list[TaskRecord]:
    """Run sessions in lockstep, one `propose_many` / `verify_many` / `decide_many` for all that wait for the same.

    Args:
        sessions: of one pipeline or of several.
        size: how many are under way at once; a finished one is replaced by the next. All when None.
        on_event: called with every event, sessions in turn.
        ask: plays the person.

    Returns:
        Records in the order of the sessions.

    Raises:
        ConfigError: `size` is below 1.
    """
    if size is not None and size < 1:
        raise ConfigError(
            f"size is {size}; at least one task is under way at once, or None for all", path="size"
        )
    waiting = iter(sessions)
    order: list[Session] = []
    active: list[Session] = []
    try:
        while True:
            while size is None or len(active) < size:
                session = next(waiting, None)
                if session is None:
                    break
                session.listened = on_event is not None
                order.append(session)
                active.append(session)
            if not active:
                return [session.record() for session in order]
            for members, requests in _next_groups(active):
                _perform_group(members, requests, ask)
            if on_event is not None:
                for session in active:
                    _tell(session, on_event)
            for session in [session for session in active if session.outcome is not None]:
                _free(session)
                active.remove(session)
    finally:
        for session in active:
            _free(session)


def _next_groups(sessions: list[Session]) -> list[tuple[list[Session], list[Request]]]:
    """The open requests and their sessions, those together that one call can serve.

    Where sessions are at different steps only the earliest is performed, so that one that has just joined (and is being
    prepared), or that a policy sent back, catches up with the others and the passes stay full.
    """
    groups: dict[Any, tuple[list[Session], list[Request]]] = {}
    kind: type | None = None
    pipeline: object = None
    part: object = None
    for session in sessions:
        for request in session.requests():
            # Nearly always a session waits for what the one before it waits for.
            if (
                type(request) is not kind
                or session.pipeline is not pipeline
                or (type(request) is Draft and request.generator is not part)
            ):
                kind, pipeline, part = type(request), session.pipeline, _part(session, request)
                members, requests = groups.setdefault((kind, id(part)), ([], []))
            members.append(session)
            requests.append(request)
    if len(groups) > 1:
        earliest = min(_STEPS[kind] for kind, _ in groups)
        return [group for (kind, _), group in groups.items() if _STEPS[kind] == earliest]
    return list(groups.values())


_STEPS: dict[type, int] = {Prepare: 0, Ask: 0, Finish: 0, Draft: 1, Verify: 2, Decide: 3}


def _part(session: Session, request: Request) -> object:
    """The component that may serve many such requests in one call."""
    if type(request) is Draft:
        return request.generator
    return session.pipeline.verifier if type(request) is Verify else session.pipeline.rule


def _call_many(part: object, requests: list[Any]) -> tuple[Callable[..., Any], tuple[list[Any], ...]] | None:
    """The component's method that serves all the requests, and its arguments; None when it has none."""
    kind = type(requests[0])
    name = _MANY.get(kind)
    many = None if name is None else getattr(part, name, None)
    if many is None:
        return None
    contexts = [request.context for request in requests]
    if kind is Draft:
        return many, (contexts, [request.n for request in requests])
    proposals = [request.proposal for request in requests]
    if kind is Verify:
        return many, (contexts, proposals)
    verifications = [request.verification for request in requests]
    return many, (contexts, proposals, verifications, [request.rng for request in requests])


def _perform_group(
    sessions: list[Session], requests: list[Request], ask: Callable[[Ask], Any] | None
) -> None:
    """One call for the whole group where the component can, else one call each."""
    call = _call_many(_part(sessions[0], requests[0]), requests)
    if call is None:
        for session, request in zip(sessions, requests, strict=True):
            _perform(session, request, ask)
        return
    many, arguments = call
    start = perf_counter()
    values: list[Any]
    try:
        values = many(*arguments)
        if len(values) != len(requests):
            raise TypeError(f"{many.__qualname__} returned {len(values)} answers to {len(requests)} requests")
    except (ContractError, ConfigError) as error:
        # One of them asked for what cannot be done. Asked one by one, only that one fails.
        if len(requests) > 1:
            for session, request in zip(sessions, requests, strict=True):
                _perform(session, request, ask)
            return
        values = [Failure.of(error)]
    except Exception as error:
        values = [Failure.of(error)] * len(requests)
    seconds = perf_counter() - start
    share = seconds / len(requests)
    for session, request, value in zip(sessions, requests, values, strict=True):
        session.answer(request.id, value, seconds, share)
