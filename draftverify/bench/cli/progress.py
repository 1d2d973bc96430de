"""How far a run is, on stderr: bars on a terminal, elsewhere a line now and then; and where failed calls failed."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from draftverify.bench.cli.options import CommandLine
from draftverify.bench.cli.screen import print_lines
from draftverify.bench.runner.limits import masked, why_failed
from draftverify.bench.tables.figures import NOT_KNOWN, is_known
from draftverify.bench.tables.words import about_seconds, shortened
from draftverify.engine.events import Event, RoundDone
from draftverify.values import Failure, TaskRecord

if TYPE_CHECKING:
    from draftverify.bench.runner.forecast import Forecast, Remainder
    from draftverify.stats import Estimate

EVERY = 30.0
"""Seconds between two lines where there is no terminal."""

LONGEST = 160
"""Characters of the commonest failure that a line shows."""

COUNTED = {"failed": "failed", "refused": "refused", "waiting": "waiting"}
"""The endings that are counted as the run goes on."""


def new_bars(console: Console) -> Progress:
    """Bars that a terminal shows, each with a name, a count, the time that is left and `now`, what is so far."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[now]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class RunProgress:
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
        self._bars = new_bars(self._console)
        self._of: dict[str, Any] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._reasons: Counter[str] = Counter()  # of failed tasks, masked
        self._words: dict[str, str] = {}  # of each reason, as the first task had it
        self._phase = ""
        self._began = 0.0
        self._ran = self._before = self._total = self._rounds = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._clock = threading.Thread(target=self._lines, daemon=True)

    def __enter__(self) -> RunProgress:
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
            short = shortened(list(totals), 20)
            self._of = {
                name: self._bars.add_task(f"{phase} {label}", completed=done, total=total, now="")
                for label, (name, (done, total)) in zip(short, totals.items(), strict=True)
            }
            self._counts = {name: Counter() for name in totals}
            self._reasons.clear()
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
                        self._bars.update(bar, now=_counted(self._counts[name]) or f"{self._rounds} rounds")

    def done(self, pipeline: str, record: TaskRecord) -> None:
        """A task of a pipeline ended."""
        with self._lock:
            self._ran += 1
            self._counts[pipeline][record.outcome.status] += 1
            if reason := why_failed(record):
                alike = masked(reason, record.task)
                self._reasons[alike] += 1
                self._words.setdefault(alike, " ".join(reason.split()))
            self._bars.update(self._of[pipeline], advance=1, now=_counted(self._counts[pipeline]))
        if self._tracebacks:
            for failure in (record.outcome.failure, *(round.failure for round in record.rounds)):
                if failure is not None and failure.traceback:
                    self.failures.setdefault((pipeline, failure.traceback), (record.task, failure))

    def forecast(self, forecast: Forecast) -> None:
        """What is left will take long: how long."""
        print_lines(self._console, [Text(forecast_line(forecast))])

    def _lines(self) -> None:
        """Now and then: count, rate, time left and what went wrong so far."""
        while not self._ended.wait(EVERY):
            with self._lock:
                seconds, todo = monotonic() - self._began, self._total - self._before - self._ran
                if self._phase and self._ran:
                    wait = f"about {about_seconds(todo * seconds / self._ran)} left"
                    self._say_count(f", {_rate(self._ran / seconds)}, {wait}")
                elif self._phase:
                    self._say_count(f", {self._rounds} rounds" if self._rounds else "")

    def _finish(self) -> None:
        """The last line of a phase."""
        with self._lock:
            if self._phase and self._ran:
                self._say_count(f" in {about_seconds(monotonic() - self._began)}")
            self._phase = ""

    def _say_count(self, pace: str) -> None:
        counts = _counted(sum(self._counts.values(), Counter()))
        line = f"{self._phase}: {self._before + self._ran} of {self._total}{pace}"
        line = f"{line}, {counts}" if counts else line
        for alike, count in self._reasons.most_common(1):
            words = self._words[alike]
            line += f"; most often ({count}): {words[:LONGEST]}{'…' * (len(words) > LONGEST)}"
        self._say(line)

    def _say(self, line: str) -> None:
        if not self._console.is_terminal:
            self._console.print(Text(line), soft_wrap=True)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[status]} {word}" for status, word in COUNTED.items() if counts.get(status))


def _rate(rate: float) -> str:
    return f"{rate:.3g} a second" if rate >= 1 else f"{60 * rate:.3g} a minute"


@contextmanager
def progress_of(directory: Path) -> Iterator[RunProgress]:
    """Show how a run goes on; of one that is interrupted say how it does."""
    try:
        with RunProgress(tracebacks=CommandLine.now().tracebacks) as progress:
            yield progress
    except KeyboardInterrupt:
        click.echo(f"{directory}: what was committed stays; the same command goes on from it", err=True)
        raise


def forecast_line(forecast: Forecast) -> str:
    """What is left of a run, in one line."""
    if not forecast.total.units:
        return "nothing is left to do"
    return (
        f"the {forecast.total.units} runs of tasks that are left will take some "
        f"{amounts(forecast.total, forecast.currency)}; "
        f"from the first {forecast.done} tasks, 95 % intervals"
        + (f"; {forecast.failed} of their runs failed" if forecast.failed else "")
    )


def amounts(work: Remainder, currency: str) -> str:
    """The time, and the cost where there is one."""
    costs = f", cost {_range(work.cost, '{:.3g}'.format)} {currency}".rstrip()
    cost = costs if work.cost.value else ""
    return _range(work.seconds, about_seconds) + cost


def _range(estimate: Estimate, written: Callable[[float], str]) -> str:
    if not math.isfinite(estimate.value):
        return "an unknown time"
    sure = is_known(estimate.low, estimate.high, "ratio")
    ends = f"{written(estimate.low)} to {written(estimate.high)}" if sure else f"its interval is {NOT_KNOWN}"
    return f"{written(estimate.value)} ({ends})"
