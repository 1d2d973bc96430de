"""The driver: a loop over a pool of sessions that calls their parts; async_driver.py has the one under asyncio.

What a part raises becomes a Failure here and nowhere else. A call for many that raises is made again one by one, so
that only the guilty task fails. Parts that say `concurrent=False` take turns, whatever calls them (turns.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from time import perf_counter
from types import CoroutineType
from typing import Any

from draftverify.engine.boundary import raised
from draftverify.engine.parts import Parts
from draftverify.engine.scheduler import Answers, Group, Scheduler
from draftverify.engine.session import Session
from draftverify.engine.turns import turn
from draftverify.secret import quiet
from draftverify.traits import name_of
from draftverify.values import Failure

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
                pool.take(group, perform(group))
            yield pool.ended()
            if not groups:
                return
    finally:
        pool.release()


def perform(group: Group) -> Answers:
    """One call for the whole group where the part can, else one call each."""
    pipeline, part, shared_call = group.sessions[0].pipeline, group.requests[0].part, call_for_all(group)
    if shared_call is not None:
        values, took = _called(pipeline, part, shared_call, columns(group))
        answers = shared_answers(group, values, took)
        if answers is not None:
            return answers
    calls = [_called(pipeline, part, request.call, request.arguments) for request in group.requests]
    return answers_of(calls)


def _called(
    pipeline: Parts, part: object, method: Callable[..., Any], arguments: tuple[Any, ...]
) -> tuple[Any, float]:
    """What a call gives, or its Failure; and its seconds, in which no waiting for a turn is counted."""
    start = perf_counter()
    try:
        if pipeline.takes_turns(part):
            with turn(part, pipeline.turn_of(part)):
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


# Calls that serve a whole group


def call_for_all(group: Group) -> Callable[..., Any] | None:
    return group.requests[0].call_many if len(group.requests) > 1 else None


def answers_of(calls: list[tuple[Any, float]]) -> Answers:
    """The answers of calls that served one request each."""
    values, seconds = zip(*calls, strict=True)
    return Answers(values, seconds, seconds)


def columns(group: Group) -> tuple[list[Any], ...]:
    """The arguments of the group's calls, a list of each."""
    names = group.requests[0].__struct_fields__[2:]
    return tuple([list(map(attrgetter(name), group.requests)) for name in names])


def shared_answers(group: Group, values: Any, took: float) -> Answers | None:
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
        _log.info("%s: one call for %d tasks failed, each is asked alone: %s", part, count, values)
        return None
    return Answers(values, [took] * count, [took / count] * count)
