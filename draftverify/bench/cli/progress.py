"""How far a run is, on stderr: bars on a terminal, elsewhere a line now and then; and where failed calls failed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from draftverify.bench.cli.plan import forecast_line
from draftverify.bench.tables.words import about_seconds
from draftverify.engine.events import Event, RoundDone
from draftverify.values import Failure, TaskRecord

if TYPE_CHECKING:
    from draftverify.bench.runner.forecast import Forecast

__all__ = ["Progress"]

EVERY = 30.0
"""Seconds between two lines where there is no terminal."""

TOLD = {"failed": "failed", "exhausted": "refused", "waiting": "waiting"}
"""The endings that are counted as the run goes on."""


class Progress:
    """Told how a run goes on, and tells it.

    Args:
        tracebacks: keep what failed calls say of where they failed.

    Attributes:
        failures: the first call that failed in each way, by (pipeline, its traceback): the task and the failure.
    """

    def __init__(self, *, tracebacks: bool = False) -> None:
        self.failures: dict[tuple[str, str], tuple[str, Failure]] = {}
        self._tracebacks = tracebacks
        self._console = Console(stderr=True, highlight=False)
        self._bars = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[now]}", markup=False),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._of: dict[str, Any] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._phase = ""
        self._began = 0.0
        self._ran = self._before = self._total = self._rounds = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._clock = threading.Thread(target=self._lines, daemon=True)

    def __enter__(self) -> Progress:
        self._bars.start()
        if not self._console.is_terminal:
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._bars.stop()
        if self._clock.is_alive():
            self._clock.join()
        self._finish()

    def started(self, phase: str, totals: Mapping[str, tuple[int, int]]) -> None:
        """A phase begins: its bars, or its first line."""
        self._finish()
        with self._lock:
            for bar in self._of.values():
                self._bars.remove_task(bar)
            self._of = {
                name: self._bars.add_task(f"{phase} {name}"[:28], completed=done, total=total, now="")
                for name, (done, total) in totals.items()
            }
            self._counts = {name: Counter() for name in totals}
            self._phase, self._began, self._ran = phase, monotonic(), 0
            self._before, self._total = (sum(pair[place] for pair in totals.values()) for place in (0, 1))
            before = f" ({self._before} done before)" if self._before else ""
            self._say(f"{phase}: {self._total} runs of tasks{before}")

    def event(self, event: Event) -> None:
        """Count rounds, and show the count now and then: a task of many rounds is seen to go on."""
        if isinstance(event, RoundDone):
            with self._lock:
                self._rounds += 1
                if self._rounds % 16 == 0:
                    for name, bar in self._of.items():
                        self._bars.update(bar, now=_told(self._counts[name]) or f"{self._rounds} rounds")

    def done(self, pipeline: str, record: TaskRecord) -> None:
        """A task of a pipeline ended."""
        with self._lock:
            self._ran += 1
            self._counts[pipeline][record.outcome.status] += 1
            self._bars.update(self._of[pipeline], advance=1, now=_told(self._counts[pipeline]))
        if self._tracebacks:
            for failure in (record.outcome.failure, *(round.failure for round in record.rounds)):
                if failure is not None and failure.traceback:
                    self.failures.setdefault((pipeline, failure.traceback), (record.task, failure))

    def forecast(self, forecast: Forecast) -> None:
        """What is left will take long: how long."""
        self._console.print(Text(forecast_line(forecast)), soft_wrap=True)

    def _lines(self) -> None:
        while not self._ended.wait(EVERY):
            with self._lock:
                if self._phase:
                    self._say(self._line())

    def _line(self) -> str:
        """Count, rate, time left and what went wrong so far."""
        took = monotonic() - self._began
        left = self._total - self._before - self._ran
        parts = [f"{self._phase}: {self._before + self._ran} of {self._total}"]
        if self._ran:
            parts += [_rate(self._ran / took), f"about {about_seconds(left * took / self._ran)} left"]
        elif self._rounds:
            parts.append(f"{self._rounds} rounds")
        told = _told(sum(self._counts.values(), Counter()))
        return ", ".join([*parts, told] if told else parts)

    def _finish(self) -> None:
        """The last line of a phase."""
        with self._lock:
            if self._phase and self._ran:
                told = _told(sum(self._counts.values(), Counter()))
                count = f"{self._phase}: {self._before + self._ran} of {self._total}"
                self._say(
                    f"{count} in {about_seconds(monotonic() - self._began)}" + (f", {told}" if told else "")
                )
            self._phase = ""

    def _say(self, line: str) -> None:
        if not self._console.is_terminal:
            self._console.print(Text(line), soft_wrap=True)


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[status]} {word}" for status, word in TOLD.items() if counts.get(status))


def _rate(each: float) -> str:
    return f"{each:.3g} a second" if each >= 1 else f"{60 * each:.3g} a minute"
