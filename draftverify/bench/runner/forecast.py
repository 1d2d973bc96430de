"""The forecast of a run: what is left of it will take so long and cost so much, from the tasks that are done.

A task's seconds are its own; how much of the clock they take, under this executor and on this machine, is measured too:
the time that went by over the seconds of the tasks that ended in it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from draftverify.stats import Estimate, Spent, remaining
from draftverify.values import TaskRecord

ENOUGH = 6
"""Tasks that have to be done before their spread says anything."""

LONG = 180.0
"""Seconds; of a run that ends before, nobody needs to be told."""


class Remainder(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of one pipeline, or of all.

    Args:
        units: tasks still to be done.
        seconds: of the clock.
        cost: what they will cost.
    """

    units: int
    seconds: Estimate
    cost: Estimate


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a run.

    Args:
        done: tasks that it rests on.
        failed: how many of their runs ended as failed, and may have ended early.
        currency: of the costs; "" where the experiment names none.
        total: of all pipelines together.
        pipelines: of each that has tasks left.
    """

    done: int
    failed: int = 0
    currency: str = ""
    total: Remainder
    pipelines: Mapping[str, Remainder]


class Meter:
    """Counts what is done and what is left.

    Args:
        left: tasks to be done, by (pipeline, group).
        currency: of the costs.
    """

    def __init__(self, counts: Mapping[tuple[str, str], int], currency: str = "") -> None:
        self.currency = currency
        self.left = Counter(counts)
        self.done: list[tuple[str, TaskRecord]] = []
        self._began = self._ended = 0.0
        self._tasks: dict[str, set[str]] = {pipeline: set() for pipeline, _ in counts}
        units = Counter[str]()
        for (pipeline, _), count in counts.items():
            units[pipeline] += count
        self._enough = {pipeline: min(ENOUGH, count) for pipeline, count in units.items()}
        self._told = False

    def add(self, pipeline: str, record: TaskRecord) -> None:
        """Count a task that ended."""
        self.left[pipeline, record.group] -= 1
        if not self._told:
            self._ended = time.perf_counter()
            if not self.done:  # models were opened and workers started before, and that once
                self._began = self._ended - record.outcome.seconds
            self.done.append((pipeline, msgspec.structs.replace(record, rounds=())))
            self._tasks.setdefault(pipeline, set()).add(record.task)

    def due(self) -> Forecast | None:
        """The forecast, once: as soon as enough tasks are done with every pipeline, if the rest will take long."""
        if self._told or any(len(self._tasks[name]) < least for name, least in self._enough.items()):
            return None
        self._told = True
        forecast = self.forecast()
        return forecast if forecast.total.seconds.value > LONG else None

    def forecast(self) -> Forecast:
        """What is left, from what was done."""
        names = list(dict.fromkeys(pipeline for (pipeline, _), count in self.left.items() if count > 0))
        return Forecast(
            currency=self.currency,
            done=len({record.task for _, record in self.done}),
            failed=sum(record.outcome.status == "failed" for _, record in self.done),
            total=self._left(list(self.left)),
            pipelines={
                name: self._left([place for place in self.left if place[0] == name]) for name in names
            },
        )

    def _left(self, places: Sequence[tuple[str, str]]) -> Remainder:
        counts = {place: self.left[place] for place in places if self.left[place] > 0}
        work = sum(record.outcome.seconds for _, record in self.done)
        clock = (self._ended - self._began) / work if work else 1.0
        seconds, cost = (
            remaining(
                [
                    Spent(r.task, name, r.group, cost)
                    for (name, r), cost in zip(self.done, costs, strict=False)
                ],
                counts,
            )
            for costs in (
                [clock * record.outcome.seconds for _, record in self.done],
                [record.outcome.cost for _, record in self.done],
            )
        )
        return Remainder(units=sum(counts.values()), seconds=seconds, cost=cost)
