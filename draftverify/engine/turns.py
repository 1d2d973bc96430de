"""Turns: parts that say `concurrent=False` are called one at a time in the process, since they may share a model.

Under asyncio tasks stand in a line for the turn (line.py); a call in a thread that has it is noted here, since closing
the event loop does not end it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from draftverify.errors import DraftVerifyError
from draftverify.traits import name_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_turn = threading.Lock()
_turn_of: AbstractEventLoop | None = None  # the loop whose tasks hold the turn
_taking_over = threading.Lock()
_at_work: set[object] = set()  # calls in threads that have the turn, which no closed loop ends
has_turn: ContextVar[bool] = ContextVar("has_turn", default=False)
"""Whether the call that is under way here was given the turn."""


@contextmanager
def turn(part: object) -> Iterator[None]:
    """Hold the process's one turn while a part that says `concurrent=False` is called.

    Raises:
        DraftVerifyError: the event loop of this thread has it, and cannot go on while this waits.
    """
    if has_turn.get():
        yield
        return
    if _turn_of is not None and _turn_of is _running_loop():
        raise DraftVerifyError(
            f"{name_of(part)} is not concurrent, and was called from the event loop while a task of the same loop has "
            "the turn: neither could go on; await arun instead of run"
        )
    while (mine := acquired(timeout=0.1)) is None:
        pass
    has_turn.set(True)
    try:
        yield
    finally:
        has_turn.set(False)
        mine.release()


def acquired(timeout: float) -> threading.Lock | None:
    """The turn, if it can be had within so many seconds; a loop that was closed while it had it never gives it back."""
    global _turn, _turn_of
    loop = _turn_of
    if loop is not None and loop.is_closed() and not _at_work:
        with _taking_over:
            if _turn_of is loop:
                _turn, _turn_of = threading.Lock(), None
    mine = _turn
    if not mine.acquire(timeout=timeout):
        return None
    if mine is _turn:
        return mine
    mine.release()  # another one counts by now
    return None


def at_work() -> Callable[[], None]:
    """Note a call that a thread is about to make; what this gives is called once it is made."""
    call = object()
    if has_turn.get():
        _at_work.add(call)
    return lambda: _at_work.discard(call)


@contextmanager
def held_by(loop: AbstractEventLoop) -> Iterator[None]:
    """Note that tasks of a loop hold the turn, which a thread may take from it once it is closed."""
    global _turn_of
    _turn_of = loop
    try:
        yield
    finally:
        if _turn_of is loop:
            _turn_of = None


def _running_loop() -> AbstractEventLoop | None:
    if "asyncio" not in sys.modules:  # nobody has an event loop
        return None
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
