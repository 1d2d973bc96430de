"""The drivers: two loops over a pool of sessions, one that calls parts here and one under asyncio.

What a part raises becomes a Failure here and nowhere else. A call for many that raises is made again one by one, so
that only the guilty task fails. Parts that say `concurrent=False` take turns, whatever calls them (turns.py).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextvars import copy_context
from itertools import islice
from operator import attrgetter
from time import perf_counter
from types import CoroutineType
from typing import Any

from draftverify.engine.boundary import raised
from draftverify.engine.parts import Parts
from draftverify.engine.requests import Request
from draftverify.engine.scheduler import Answers, Group, Scheduler
from draftverify.engine.session import Session
from draftverify.engine.turns import Caller, at_work, outlast, turn
from draftverify.secret import quiet
from draftverify.traits import name_of
from draftverify.values import Failure

__all__ = ["adrive", "drive", "in_thread"]

_log = quiet(logging.getLogger(__name__))


def drive(pool: Scheduler) -> Iterator[list[Session]]:
    """Run a pool to its end, calling parts in this thread; left early, it frees what is under way.

    Yields:
        After each step, the sessions that have just ended.
    """
    try:
        while True:
            session = pool.alone()
            while session is not None:
                request: Any = session.request
                value, took = _called(session.pipeline, request.part, request.call, request.arguments)
                session = pool.answer(session, value, took, took)
                yield pool.ended()
            groups = pool.groups()
            for group in groups:
                pool.take(group, _perform(group))
            yield pool.ended()
            if not groups:
                return
    finally:
        pool.release()


async def adrive(pool: Scheduler) -> AsyncGenerator[list[Session], None]:
    """As `drive`, under asyncio: coroutine methods are awaited, others run in threads, rules in place. Pools of the
    same event loop share calls where that holds up nobody."""
    caller = Caller(_perform, _aperform)
    try:
        while groups := pool.groups():
            for group in groups:
                pool.take(group, await caller.call(group))
            yield pool.ended()
        yield pool.ended()
    finally:
        caller.leave()
        pool.release()


def _perform(group: Group) -> Answers:
    """One call for the whole group where the part can, else one call each."""
    pipeline, part, many = group.sessions[0].pipeline, group.requests[0].part, _many(group)
    if many is not None:
        values, took = _called(pipeline, part, many, _columns(group))
        answers = _shared(group, many, values, took)
        if answers is not None:
            return answers
    calls = [_called(pipeline, part, request.call, request.arguments) for request in group.requests]
    return _each(calls)


def _called(
    pipeline: Parts, part: object, method: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, float]:
    """What a call gives, or its Failure; and its seconds, in which no waiting for a turn is counted."""
    start = perf_counter()
    try:
        if pipeline.takes_turns(part):
            with turn(part):
                start = perf_counter()
                value = method(*arguments)
        else:
            value = method(*arguments)
        if type(value) is CoroutineType:
            value.close()
            raise TypeError(f"{name_of(part)} has coroutine functions; run this pipeline with arun")
    except BaseException as error:
        value = raised(error)
    return value, perf_counter() - start


async def _aperform(group: Group) -> Answers:
    many = _many(group)
    if many is not None:
        values, took = await _acalled(many, _columns(group), group.requests[0])
        answers = _shared(group, many, values, took)
        if answers is not None:
            return answers
    calls = (_acalled(request.call, request.arguments, request) for request in group.requests)
    if group.sessions[0].pipeline.takes_turns(group.requests[0].part):
        return _each([await call for call in calls])
    return _each(await asyncio.gather(*calls))


async def _acalled(
    method: Callable[..., Any], arguments: tuple[Any, ...], request: Request
) -> tuple[Any, float]:
    start = perf_counter()
    try:
        if request.in_place or inspect.iscoroutinefunction(method):
            value = method(*arguments)
        else:
            value = await in_thread(method, arguments)
        if _is_awaitable(value):
            value = await value
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        value = Failure.of(error)  # something that the part awaited was cancelled, and not the part
    except BaseException as error:
        value = raised(error)
    return value, perf_counter() - start


def _is_awaitable(value: Any) -> bool:
    """Whether an answer is still to come; one that cannot even be asked is for the boundary to name."""
    try:
        return inspect.isawaitable(value)
    except BaseException as error:
        raised(error)
        return False


async def in_thread(method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a call in a thread gives, or its Failure; its end is waited for when cancelled too, since until then it uses
    the turn and the task's scratch."""

    made = at_work()

    def call() -> Any:
        try:
            return method(*arguments)
        except BaseException as error:  # here, since no future takes a StopIteration
            return raised(error)
        finally:
            made()

    try:
        thread = asyncio.get_running_loop().run_in_executor(None, copy_context().run, call)
    except RuntimeError:  # there are no threads any more
        made()
        raise
    await outlast(thread)
    return thread.result()


def is_cancelled() -> bool:
    """Whether the current asyncio task is being cancelled; before Python 3.11 nobody can tell, and it counts as so."""
    task = asyncio.current_task()
    return task is None or not hasattr(task, "cancelling") or task.cancelling() > 0


# Calls that serve a whole group


def _many(group: Group) -> Callable[..., Any] | None:
    return group.requests[0].call_many if len(group.requests) > 1 else None


def _each(calls: list[tuple[Any, float]]) -> Answers:
    """The answers of calls that served one request each."""
    values, seconds = zip(*calls, strict=True)
    return Answers(values, seconds, seconds)


def _columns(group: Group) -> tuple[list[Any], ...]:
    """The arguments of the group's calls, a list of each."""
    names = group.requests[0].__struct_fields__[2:]
    return tuple([list(map(attrgetter(name), group.requests)) for name in names])


def _shared(group: Group, many: Callable[..., Any], values: Any, took: float) -> Answers | None:
    """The answers of one call for all; None when the call failed and each is to be asked alone."""
    count = len(group.requests)
    if type(values) is not list and type(values) is not Failure:
        try:
            if not isinstance(values, Sequence):
                kind = type(values).__name__
                raise TypeError(f"returned a {kind}; a list with an answer to each request is needed")
            values = list(islice(values, count + 1))
        except BaseException as error:
            values = raised(error)
    if type(values) is list and len(values) != count:
        values = Failure("error", "ContractError", f"returned {len(values)} answers to {count} requests")
    if type(values) is Failure:
        part = name_of(group.requests[0].part)
        _log.info("%s.%s failed for %d tasks, each is asked alone: %s", part, many.__name__, count, values)
        return None
    return Answers(values, [took] * count, [took / count] * count)
