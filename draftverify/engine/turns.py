"""Turns: a part that says `concurrent=False` has itself to itself while it is called, or what it `shares`, a model say.

Calls that have nothing in common go on side by side. Under asyncio tasks stand in a line for a turn (line.py); a call
in a thread that has one is noted here, since closing the event loop does not end it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from draftverify.errors import DraftVerifyError
from draftverify.traits import name_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class CallTurn:
    """What one call has for itself.

    Args:
        things: by their identity.
        loop: of the tasks whose call it is; None of a thread's own.
    """

    def __init__(self, things: Set[int], loop: AbstractEventLoop | None = None) -> None:
        self.things, self.loop = things, loop
        self.at_work: set[object] = set()  # calls in threads, which no closed loop ends
        self.waits_for: Set[int] = frozenset()  # what a call inside the one that has it waits for

    @property
    def is_lost(self) -> bool:
        """Whether nobody will give it back: the loop was closed while it had it."""
        return self.loop is not None and self.loop.is_closed() and not self.at_work


_turns: set[CallTurn] = set()
_changed = threading.Condition()
turns_here: ContextVar[tuple[CallTurn, ...]] = ContextVar("turns_here", default=())
"""The turns of the call that is under way here, and of those that it is made inside of."""


def missing(things: Set[int]) -> Set[int]:
    """Those of the things that the call under way here has no turn with."""
    return things - frozenset[int]().union(*(turn.things for turn in turns_here.get()))


@contextmanager
def turn(part: object, things: Set[int]) -> Iterator[None]:
    """Have things for oneself while a part is called; nobody waits for what the call under way here has already.

    Raises:
        DraftVerifyError: who has one cannot go on while this waits: a task of this thread's event loop, or a call that
            waits for what the call under way here has.
    """
    things, held = missing(things), turns_here.get()
    loop = _running_loop() if things else None
    with _changed:
        while (mine := taken(things)) is None:
            if loop is not None and any(other.loop is loop and other.things & things for other in _turns):
                raise DraftVerifyError(
                    f"{name_of(part)} is not concurrent, and was called from the event loop while a task of the same "
                    "loop has the turn: neither could go on; await arun instead of run"
                )
            if held and not waited_for(things).isdisjoint(held):
                raise DraftVerifyError(
                    f"{name_of(part)} is not concurrent, and who has the turn waits for what was called before it: "
                    "neither could go on; let them have the same (`shares` of their traits)"
                )
            for outer in held:
                outer.waits_for = things
            try:
                _changed.wait(0.1)  # a loop that is closed tells nobody
            finally:
                for outer in held:
                    outer.waits_for = frozenset()
    before = turns_here.set((*held, mine))
    try:
        yield
    finally:
        turns_here.reset(before)
        release(mine)


def waited_for(things: Set[int]) -> set[CallTurn]:
    """The turns that these things wait for: whose they are, and what those wait for in their turn."""
    reached: set[CallTurn] = set()
    coming = [things]
    while coming:
        wanted = coming.pop()
        owners = {turn for turn in _turns if turn.things & wanted} - reached
        reached |= owners
        coming += [owner.waits_for for owner in owners]
    return reached


def taken(things: Set[int], loop: AbstractEventLoop | None = None) -> CallTurn | None:
    """A turn with these things, where nobody has one of them."""
    with _changed:
        for other in [other for other in _turns if other.things & things]:
            if not other.is_lost:
                return None
            _turns.discard(other)
        mine = CallTurn(things, loop)
        _turns.add(mine)
        return mine


def release(mine: CallTurn) -> None:
    """Give a turn back."""
    with _changed:
        _turns.discard(mine)
        _changed.notify_all()


def at_work() -> Callable[[], None]:
    """Note a call that a thread is about to make; what this gives is called once it is made."""
    call, turns = object(), turns_here.get()
    for mine in turns:
        mine.at_work.add(call)

    def made() -> None:
        for mine in turns:
            mine.at_work.discard(call)

    return made


def _running_loop() -> AbstractEventLoop | None:
    if "asyncio" not in sys.modules:  # nobody has an event loop
        return None
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
