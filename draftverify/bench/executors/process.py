"""The executor of other processes of this machine."""

from __future__ import annotations

import os
from concurrent.futures import Future
from typing import ClassVar

from draftverify.bench.executors.frames import Begin
from draftverify.bench.executors.watched import WatchedProcess
from draftverify.bench.executors.workers import (
    Count,
    OnSent,
    Seconds,
    Team,
    Workers,
    at_least_one,
    check_deadline,
)


class Process:
    """An executor of other processes of this machine, each with its own models. They end when this process does,
    however it ends.

    Args:
        workers: how many processes; None for one per core.
        batch: how many tasks are under way at once in each: those that wait for the same part share one pass of it.
        deadline: seconds after which a task that has begun and not ended is recorded as failed, and its process ended,
            whatever it is doing; None for no bound.
    """

    local: ClassVar[bool] = False

    def __init__(
        self, workers: Count | None = None, batch: Count = 1, deadline: Seconds | None = None
    ) -> None:
        self.workers = workers if workers is not None else os.cpu_count() or 1
        self.batch = batch
        self.deadline = deadline
        at_least_one("workers", self.workers)
        at_least_one("batch", batch)
        check_deadline(deadline)

    def pool(self) -> Workers:
        """Fresh processes."""
        return _Processes(self.workers, self.batch, self.deadline)


class _Processes(Workers):
    def __init__(self, workers: int, batch: int, deadline: float | None) -> None:
        self._count = workers
        self._batch = batch
        self._deadline = deadline
        self._team = Team()
        self._members: list[WatchedProcess] = []

    @property
    def room(self) -> int:
        # One more than they take, so that none waits for the driver to make a unit.
        return sum(member.room for member in self._members) + 1

    def begin(self, spec: bytes, on_sent: OnSent | None) -> None:
        begin = Begin(spec, self._batch, rounds=on_sent is not None)
        for _ in range(self._count):
            member = WatchedProcess(begin, deadline=self._deadline, on_sent=on_sent)
            self._members.append(member)
            self._team.join(member)

    def perform(self, pipeline: str, unit: bytes, *, solo: bool) -> Future[bytes]:
        return self._team.perform(unit, solo=solo)

    def close(self, *, kill: bool) -> None:
        for member in self._members:
            member.close(kill=kill)
