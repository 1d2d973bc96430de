"""The line for the turn in an event loop: what tasks that are gathered call together.

The pools of one event loop whose verifiers share a turn stand in a line, and all that wait for the same method of the
same part are served by one call: tasks that are gathered share their passes, as a batch does. Parts that are concurrent
are called side by side instead, so that no task waits for another's slow answer. Rules, which are called in place, are
called once for all that want them in the same tick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from draftverify.engine.requests import Request
from draftverify.engine.scheduler import Answers, Group
from draftverify.engine.turns import CallTurn, missing, release, taken, turns_here

PATIENCE = 0.25
"""How long a call waits for tasks that are about to join it, after the last that did, as a share of the shortest that
its like took; twice that in all. Who comes back later is not waited for again until it once is in time."""
LEAST = 0.001
"""Seconds that it waits in any case: what a thread needs to hand over an answer."""


async def outlast(future: asyncio.Future[Any]) -> None:
    """Wait until a future is done, when cancelled too; only then is that raised."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


class Caller:
    """A pool under way in the running event loop.

    Args:
        perform: makes the calls of a group in place.
        aperform: makes those of any group; one after the other where the part is not concurrent.
    """

    def __init__(
        self, perform: Callable[[Group], Answers], aperform: Callable[[Group], Awaitable[Answers]]
    ) -> None:
        self.perform, self.aperform = perform, aperform
        self.free: float | None = perf_counter()  # since when it has waited for nothing in the line
        self.prompt = True  # whether it was back in time when it last came
        self.took: dict[type[Request], float] = {}  # the shortest that each kind of call has taken
        loop = asyncio.get_running_loop()
        if loop not in _lines:
            for other in [other for other in list(_lines) if other.is_closed()]:
                del _lines[other]  # it was closed while tasks stood there
        self._lines = _lines.setdefault(loop, {})
        self._line: _Line | None = None

    async def call(self, group: Group) -> Answers:
        """What comes of a group's calls, made together with other callers' where that holds up nobody."""
        request = group.requests[0]
        pipeline = group.sessions[0].pipeline
        part, verifier = request.part, pipeline.verifier
        things = pipeline.turn_of(part)
        of_verifier = things if part is verifier else pipeline.turn_of(verifier)
        line = self._stand(of_verifier or frozenset({id(verifier)}))
        if missing(things):
            return await line.wait(_Waiting(self, group, things))
        many = request.call_many if request.in_place else None
        if many is None or len(line.callers) == 1 or any(map(iscoroutinefunction, (many, request.call))):
            return await self.aperform(group)
        return await line.tick(_Waiting(self, group))

    def _stand(self, key: Set[int]) -> _Line:
        """In the line of the verifiers that share this turn."""
        if self._line is None or self._line.key != key:
            self.leave()
            self._line = self._lines.setdefault(key, _Line(key))
            self._line.callers.add(self)
        return self._line

    def patience(self, request: Request) -> float:
        """Seconds that such a call may wait for others."""
        return max(LEAST, PATIENCE * self.took.get(type(request), 0.0))

    def leave(self) -> None:
        """Nobody is to wait for this pool any more."""
        line, self._line = self._line, None
        if line is not None:
            line.callers.discard(self)
            line.came(self)
            if not line.callers:
                del self._lines[line.key]


@dataclass(eq=False)
class _Waiting:
    caller: Caller
    group: Group
    things: Set[int] = frozenset()
    context: Context = field(default_factory=copy_context)
    answers: asyncio.Future[Answers] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    served: Sequence[_Waiting] = ()  # with whom, and by which call, once it is made
    call: asyncio.Task[Answers] | None = None

    @property
    def request(self) -> Request:
        return self.group.requests[0]


class _Line:
    """Who waits in an event loop for what verifiers of one turn, and what drafts for them, are asked; in that order.

    Args:
        key: what the verifiers share.
    """

    def __init__(self, key: Set[int]) -> None:
        self.key = key
        self.callers: set[Caller] = set()
        self._waiting: list[_Waiting] = []
        self._wanting: dict[tuple[int, type[Request]], list[_Waiting]] = {}  # calls in place
        self._serving: asyncio.Task[None] | None = None
        self._missing: set[Caller] = set()  # who is waited for now, until all have come
        self._all_here: asyncio.Future[None] | None = None
        self._last = 0.0  # when the last came

    async def tick(self, mine: _Waiting) -> Answers:
        """What comes of a call in place, which is made for all that want it in this tick."""
        key = (id(mine.request.part), type(mine.request))

        def call() -> None:
            served = [waiting for waiting in self._wanting.pop(key) if not waiting.answers.done()]
            if served:
                _hand_out(served, lambda: mine.caller.perform(_together(served)))

        wanting = self._wanting.setdefault(key, [])
        wanting.append(mine)
        if len(wanting) == 1:
            asyncio.get_running_loop().call_soon(call)
        return await mine.answers

    async def wait(self, mine: _Waiting) -> Answers:
        """What comes of calls that need the turn. A task that is cancelled meanwhile ends after them, since they use
        its scratch; they go on for those that share them."""
        caller = mine.caller
        self._last = perf_counter()
        if caller.free is not None and type(mine.request) in caller.took:
            caller.prompt = self._last - caller.free <= 2 * caller.patience(mine.request)
        caller.free = None
        self._waiting.append(mine)
        self.came(caller)
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        try:
            return await mine.answers
        except asyncio.CancelledError:
            if mine in self._waiting:
                self._waiting.remove(mine)
            elif mine.call is not None:
                if all(waiting.answers.done() for waiting in mine.served):
                    mine.call.cancel()
                await outlast(mine.call)
            raise
        finally:
            caller.free = perf_counter()

    def came(self, caller: Caller) -> None:
        """Somebody is here, or has left for good, and is not waited for any more."""
        self._missing.discard(caller)
        if not self._missing and self._all_here is not None and not self._all_here.done():
            self._all_here.set_result(None)

    async def _serve(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # for those whom the last call has answered in this tick
                seconds = self._worth_waiting()
                if seconds > 0:
                    self._all_here = asyncio.get_running_loop().create_future()
                    await asyncio.wait([self._all_here], timeout=seconds)
                    continue
                served, turn = self._next(), None
                while served and (turn := taken(served[0].things, asyncio.get_running_loop())) is None:
                    await asyncio.sleep(0.001)  # others may have it, for which the loop must not wait
                    served = self._next()
                if turn is not None:
                    try:
                        await self._call(served, turn)
                    finally:
                        release(turn)
        finally:
            # They know the loop, which is to be forgotten with its last pool.
            self._serving = self._all_here = None
            for waiting in self._waiting:
                if not waiting.answers.get_loop().is_closed():
                    waiting.answers.cancel()

    def _next(self) -> list[_Waiting]:
        """Whom the next call serves: who came first, or those whose step is earlier, so that they catch up; and all
        who wait for the same."""
        if not self._waiting:
            return []
        first = min(self._waiting, key=lambda waiting: waiting.request.step)
        kind, part = type(first.request), first.request.part
        if first.request.call_many is None:
            return [first]
        return [
            other for other in self._waiting if type(other.request) is kind and other.request.part is part
        ]

    def _worth_waiting(self) -> float:
        """Seconds within which somebody may join the next call who was in time before."""
        served = self._next()
        if not served or served[0].request.call_many is None:
            return 0.0
        free = {caller: caller.free for caller in self.callers if caller.free is not None and caller.prompt}
        self._missing = set(free)
        since = max(free.values(), default=0.0)
        patience = max(waiting.caller.patience(waiting.request) for waiting in served)
        return min(max(since, self._last) + patience, since + 2 * patience) - perf_counter()

    async def _call(self, served: Sequence[_Waiting], turn: CallTurn) -> None:
        """Make a call that has a turn, in a task of its own, which is nobody's to cancel alone."""
        start = perf_counter()
        call = served[0].context.run(
            asyncio.create_task, _with_turn(turn, served[0].caller, _together(served))
        )
        for waiting in served:
            self._waiting.remove(waiting)
            waiting.served, waiting.call = served, call
        try:
            await outlast(call)
        finally:
            took = perf_counter() - start
            for waiting in served:
                shortest = waiting.caller.took
                shortest[type(waiting.request)] = min(took, shortest.get(type(waiting.request), took))
            if call.done():  # not when the loop was closed
                _hand_out(served, call.result)


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Set[int], _Line]] = WeakKeyDictionary()


async def _with_turn(turn: CallTurn, caller: Caller, group: Group) -> Answers:
    turns_here.set((*turns_here.get(), turn))
    return await caller.aperform(group)


def _together(served: Sequence[_Waiting]) -> Group:
    """One group of all that are served."""
    groups = [waiting.group for waiting in served]
    sessions = [session for group in groups for session in group.sessions]
    return Group(sessions, [request for group in groups for request in group.requests])


def _hand_out(served: Sequence[_Waiting], made: Callable[[], Answers]) -> None:
    """Give each its share of what was made for all, or what was raised."""
    try:
        columns = [iter(column) for column in made()]
    except BaseException as error:
        for waiting in served:
            if isinstance(error, asyncio.CancelledError):
                waiting.answers.cancel()
            elif not waiting.answers.done():
                waiting.answers.set_exception(error)
        return
    for waiting in served:
        share = Answers(*([next(column) for _ in waiting.group.requests] for column in columns))
        if not waiting.answers.done():
            waiting.answers.set_result(share)
