"""What an executor is, and what workers are that are watched: the interfaces between a run and where its units go."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Annotated, ClassVar, Protocol, TypeAlias

from annotated_types import Ge, Gt

from draftverify.errors import ConfigError

Count: TypeAlias = Annotated[int, Ge(1)]
Seconds: TypeAlias = Annotated[float, Gt(0)]
"""A config is checked by these, which knows the line; `at_least_one` and `check_deadline` are for programs."""

OnSent = Callable[[bytes], None]
"""Called with each round that a worker sends, as bytes, from another thread. It does not raise."""


class UnitExecutor(Protocol):
    """An executor: where the units of a run are performed.

    Attributes:
        workers: how many units at once; of no account where the pool is one of `Workers`, which say it themselves.
        local: whether units run in this process and share its pipelines. Else they are sent out as JSON, and what
            `pool()` gives must be able to call a function of this package by name, or be `Workers`.
    """

    workers: int

    @property
    def local(self) -> bool: ...

    def pool(self) -> Executor | Workers:
        """A fresh pool."""
        ...


class Workers(ABC):
    """Workers elsewhere that are watched: one that dies takes only its own units with it, and the others go on."""

    carries_rounds: ClassVar[bool] = True
    """Whether rounds can be sent while their task runs."""

    @property
    @abstractmethod
    def room(self) -> int:
        """How many units may be out at once: those under way, and those that keep the workers from waiting."""

    @abstractmethod
    def begin(self, spec: bytes, on_sent: OnSent | None) -> None:
        """Begin the workers: called once, before the first unit.

        Args:
            spec: the experiment as text.
            on_sent: takes the rounds, where they are to be sent as they are decided.

        Raises:
            DraftVerifyError: there can be no workers.
        """

    @abstractmethod
    def perform(self, pipeline: str, unit: bytes, *, solo: bool) -> Future[bytes]:
        """Perform a unit.

        Args:
            pipeline: its pipeline's name.
            unit: a Unit as JSON.
            solo: with no other unit under way in its worker.

        Returns:
            A WorkerReply as JSON. Only a fault of this library is an exception.
        """

    @abstractmethod
    def close(self, *, kill: bool) -> None:
        """End the workers: once they have closed their parts, or at once."""


AHEAD = 3
"""Units that a worker of a cluster has beside those under way, however long they are."""

MOST_AHEAD = 200
"""However short they are."""

SECONDS_AHEAD = 0.5
"""What it has ahead where units are short. A message to it and back then carries many of them, and what is lost with it
is no more than this."""


class Pace:
    """How quickly the workers of a cluster end units, and how many each is given ahead."""

    def __init__(self) -> None:
        self._seconds = SECONDS_AHEAD

    def ended(self, units: int, seconds: float) -> None:
        """A worker has ended so many in so many seconds."""
        # Longer makes no difference, and the loading of models before the first ones is soon forgotten.
        self._seconds = (self._seconds + min(seconds / units, SECONDS_AHEAD)) / 2

    @property
    def ahead(self) -> int:
        """How many units a worker has beside those under way."""
        return max(AHEAD, min(MOST_AHEAD, int(SECONDS_AHEAD / max(self._seconds, 1e-9))))


class Member(Protocol):
    """One of a team: it takes units, up to `room` at once."""

    @property
    def room(self) -> int:
        """How many units it takes at once."""
        ...

    def perform(self, unit: bytes, *, solo: bool) -> Future[bytes]:
        """Perform a unit, as `Workers.perform` does."""
        ...


class Team:
    """Members as one pool of workers: a unit goes to the one that has the fewest, and waits here while none has room.
    One that is to be alone goes to one that has none, which is given no other until it has ended: what it does to its
    worker is done to nobody else's."""

    def __init__(self) -> None:
        self._load: dict[Member, int] = {}
        self._solo: set[Member] = set()  # those that have a unit that is to be alone
        self._waiting: deque[tuple[bytes, bool, Future[bytes]]] = deque()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._load)

    @property
    def waiting(self) -> int:
        """How many units wait for a worker."""
        return len(self._waiting)

    def join(self, member: Member) -> None:
        """Take in one more member, ready for units."""
        with self._lock:
            self._load[member] = 0
            self._give()

    def leave(self, member: Member) -> None:
        """Give a member no more units; its own come to their ends."""
        with self._lock:
            self._load.pop(member, None)
            self._solo.discard(member)

    def perform(self, unit: bytes, *, solo: bool) -> Future[bytes]:
        """Perform a unit, as `Workers.perform` does."""
        future: Future[bytes] = Future()
        with self._lock:
            self._waiting.append((unit, solo, future))
            self._give()
        return future

    def answer(self, reply: bytes) -> None:
        """Give all units that wait here this reply."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for _, _, future in waiting:
            future.set_result(reply)

    def _give(self) -> None:
        while self._waiting:
            unit, solo, future = self._waiting[0]
            free = [
                member
                for member, load in self._load.items()
                if load < (1 if solo else member.room) and member not in self._solo
            ]
            if not free:
                return
            member = min(free, key=lambda candidate: self._load[candidate] - candidate.room)
            self._waiting.popleft()
            self._load[member] += 1
            if solo:
                self._solo.add(member)
            member.perform(unit, solo=solo).add_done_callback(partial(self._taken, member, future, solo))

    def _taken(self, member: Member, future: Future[bytes], solo: bool, performed: Future[bytes]) -> None:
        with self._lock:
            if member in self._load:
                self._load[member] -= 1
            if solo:
                self._solo.discard(member)
            self._give()
        if performed.cancelled():
            future.cancel()
        elif (error := performed.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(performed.result())


def at_least_one(name: str, number: int) -> None:
    """Refuse a number below 1.

    Raises:
        ConfigError: nothing would ever be done.
    """
    if number < 1:
        raise ConfigError(f"{name} is {number}; at least 1 is needed for anything to be done", path=name)


def check_deadline(deadline: float | None) -> None:
    """Refuse a deadline of no seconds.

    Raises:
        ConfigError: no unit could end by it.
    """
    if deadline is not None and not deadline > 0:
        raise ConfigError(f"deadline is {deadline:g}; a unit needs more than no seconds", path="deadline")
