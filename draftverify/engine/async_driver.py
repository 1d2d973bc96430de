"""The driver under asyncio: coroutine methods are awaited, others run in threads, rules in place."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from contextvars import copy_context
from time import perf_counter
from typing import Any

from draftverify.engine.drivers import answers_of, call_for_all, columns, perform, shared_answers
from draftverify.engine.failures import raised
from draftverify.engine.line import Caller, outlast
from draftverify.engine.scheduler import Answers, Group, Scheduler
from draftverify.engine.session import Session
from draftverify.engine.turns import at_work
from draftverify.values import Failure


async def adrive(pool: Scheduler) -> AsyncGenerator[list[Session], None]:
    """As `drive`, under asyncio: coroutine methods are awaited, others run in threads, rules in place. Pools of the
    same event loop share calls where that holds up nobody."""
    caller = Caller(perform, _aperform)
    try:
        while groups := pool.groups():
            for group in groups:
                pool.take(group, await caller.call(group))
            yield pool.ended()
        yield pool.ended()
    finally:
        caller.leave()
        pool.release()


async def _aperform(group: Group) -> Answers:
    shared_call = call_for_all(group)
    if shared_call is not None:
        values, took = await acalled(shared_call, columns(group), in_place=group.requests[0].in_place)
        answers = shared_answers(group, values, took)
        if answers is not None:
            return answers
    calls = (
        acalled(request.call, request.arguments, in_place=request.in_place) for request in group.requests
    )
    if group.sessions[0].pipeline.takes_turns(group.requests[0].part):
        return answers_of([await call for call in calls])
    return answers_of(await asyncio.gather(*calls))


async def acalled(
    method: Callable[..., Any], arguments: tuple[Any, ...], *, in_place: bool = False
) -> tuple[Any, float]:
    """What a method returns, or how it failed, and the seconds that it took.

    Args:
        method: a coroutine function is awaited; any other is called in a thread.
        arguments: of the call.
        in_place: call it here all the same.
    """
    start = perf_counter()
    try:
        if in_place or inspect.iscoroutinefunction(method):
            value = method(*arguments)
        else:
            value = await _in_thread(method, arguments)
        if _is_awaitable(value):
            value = await value
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
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


async def _in_thread(method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
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
