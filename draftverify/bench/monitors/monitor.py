"""Whether a pipeline is still what it was, and if not, which part of it changed.

One rate says that something changed: acceptance, α = πT + (1 − π)F, which needs no labels. Which part did, three rates
say that need a few. π, the share of drafts that are right, is the generator's. T and F, the shares of right and of
wrong drafts that are accepted, are the verifier's (and its rule's). Each rate has a monitor of its own, and all of them
share one level: when nothing changed, any of them ever alarms with that probability at most (a union bound).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from statistics import fmean
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET

from draftverify.bench.monitors.rates import RateMonitor
from draftverify.errors import ConfigError
from draftverify.stats.acceptance import drafted_rounds
from draftverify.values import TaskRecord

Rate: TypeAlias = Literal["acceptance", "right", "true_pass", "false_pass"]
RATES: tuple[Rate, ...] = get_args(Rate)
OnAlarm: TypeAlias = Literal["record", "stop", "tighten", "escalate"]
Part: TypeAlias = Literal["generator", "verifier", "generator and verifier", "cannot tell"]

_RATES: Mapping[str, str] = {
    "acceptance": "acceptance",
    "right": "right drafts",
    "true_pass": "right drafts accepted",
    "false_pass": "wrong drafts accepted",
}
_THEN: Mapping[str, str] = {
    "record": "",
    "stop": "; later tasks go without drafts",
    "tighten": "; later passes below the monitor's threshold are rejected",
    "escalate": "; later tasks go to a person",
}


class Shares(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one task says of the rates, each a share of its drafted items, 0 to 1; None where it says nothing.

    Args:
        acceptance: accepted / judged.
        right: π: right / those with a label.
        true_pass: T: accepted / right ones.
        false_pass: F: accepted / wrong ones.
    """

    acceptance: float | None = None
    right: float | None = None
    true_pass: float | None = None
    false_pass: float | None = None


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """One rate is no longer what it was.

    Args:
        rate: which.
        task: at which task it was said.
        observed: how many tasks had a say on the rate by then.
        share: their mean.
        reference: what it was before: the known rate, or the mean over the reference's tasks.
        evidence: log of the wealth against "unchanged".
        part: what had changed, as far as could be told by then.
        then: what was done about it.
    """

    rate: Rate
    task: str
    observed: int
    share: float
    reference: float
    evidence: float
    part: Part
    then: OnAlarm = "record"

    def __str__(self) -> str:
        return (
            f"alarm at task {self.task!r}: {_RATES[self.rate]} {self.share:.2f} over {self.observed} tasks, "
            f"{self.reference:.2f} before; what changed: {self.part}{_THEN[self.then]}"
        )


class RateReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a rate has fared.

    Args:
        rate: which.
        reference: what it was before.
        observed: how many tasks had a say on it, until it alarmed where it did.
        share: their mean; None of none.
        evidence: log of the wealth against "unchanged".
        threshold: the evidence from which it alarms.
        alike: the correlation of neighbours in the reference, where it is more than chance; then `level` is not kept.
    """

    rate: Rate
    reference: float
    observed: int
    share: float | None
    evidence: float
    threshold: float
    alike: float | None = None

    def __str__(self) -> str:
        share = "not seen" if self.share is None else f"{self.share:.2f} over {self.observed} tasks"
        text = f"{_RATES[self.rate]} {share}, {self.reference:.2f} before"
        if self.alike is None:
            return text
        return f"{text} (neighbours correlate by {self.alike:.2f} there: false alarms are likelier; shuffle the tasks)"


class Monitor:
    """Watches a pipeline's acceptance, and with labels its parts; tasks are told one after the other.

    A task is one observation of each rate, whatever its number of items, so items of a task may depend on each other.
    What is assumed is what `RateMonitor` assumes of batches: the tasks of the reference and those that come are alike,
    in an order that says nothing about them.

    Args:
        reference: what "unchanged" means: the known mean of the tasks' acceptance; known means by rate; or what earlier
            tasks said. Rates that it does not have are not watched. None where the run brings it.
        level: the probability that anything ever alarms when nothing has changed, at most; the watched rates have equal
            parts of it.
        metric: a function of (task, outcome), asked of a labelled task's items whether they are right, each as if it
            had been the answer: ½ or more is. It is open, where it has to be. Without it acceptance alone is watched.
        every: the first task and each `every`-th after it are labelled; such of which the metric has no say (tasks
            without expectation) are not.
        on_alarm: "record": nothing else happens. "stop": later tasks are done without drafts, by the verifier's plain
            steps, else by the policy's fallback. "tighten": in later tasks what passed with a score below `threshold`
            counts as rejected. "escalate": in later tasks nothing counts as passed but what a person accepts. All
            three only where trust is lost (`acts_on`); other alarms are recorded.
        threshold: the score that "tighten" asks for; a certified threshold too.

    Examples:
        >>> monitor = Monitor(0.8)
        >>> for task in range(20):
        ...     for alarm in monitor.observe(str(task), Shares(acceptance=0.5)):
        ...         print(alarm)
        alarm at task '5': acceptance 0.50 over 6 tasks, 0.80 before; what changed: cannot tell
    """

    def __init__(
        self,
        reference: float | Mapping[str, float] | Sequence[Shares] | None,
        *,
        level: float = 0.05,
        metric: Callable[..., Any] | None = None,
        every: int = 1,
        on_alarm: OnAlarm = "record",
        threshold: float | None = None,
    ) -> None:
        if not 0.0 < level < 1.0:
            raise ConfigError(f"a level lies between 0 and 1, not at {level}", path="level")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ConfigError(f"every is a whole number, 1 or more, not {every!r}", path="every")
        if on_alarm not in get_args(OnAlarm):
            raise ConfigError(
                f"{on_alarm!r} is no answer to an alarm; one of {', '.join(get_args(OnAlarm))} is",
                path="on_alarm",
            )
        if (threshold is not None) != (on_alarm == "tighten"):
            raise ConfigError(
                "on_alarm: tighten needs a threshold, a stricter one than the rule's"
                if threshold is None
                else f"a threshold is for on_alarm: tighten, and on_alarm is {on_alarm}",
                path="threshold",
            )
        self.reference = reference
        self.level = level
        self.metric = metric
        self.every = every
        self.on_alarm: OnAlarm = on_alarm
        self.threshold = threshold
        self.tasks = 0
        """Tasks told of so far."""
        self.alarms: tuple[Alarm, ...] = ()
        references = _known(reference, RATES if metric is not None else ("acceptance",))
        self._rates = {
            rate: RateMonitor(earlier, level=level / len(references)) for rate, earlier in references.items()
        }
        self._lock = Lock()
        self._before: dict[Rate, float] = {}
        self._alike: dict[Rate, float | None] = {}
        for rate, earlier in references.items():
            known = isinstance(earlier, float)
            self._before[rate] = earlier if known else fmean(earlier)
            self._alike[rate] = None if known else likeness(earlier)

    def against(self, reference: float | Mapping[str, float] | Sequence[Shares]) -> Monitor:
        """A monitor like this one that has been told of no task yet, with another reference."""
        return Monitor(
            reference,
            level=self.level,
            metric=self.metric,
            every=self.every,
            on_alarm=self.on_alarm,
            threshold=self.threshold,
        )

    def check_reference(self) -> None:
        """Refuse to watch where there is nothing to compare with, or nothing that the labels would tell of.

        Raises:
            ConfigError: there is not.
        """
        if self.reference is None:
            raise ConfigError(
                "the monitor has nothing to compare with; give it a reference", path="reference"
            )
        if self.metric is not None and not {"right", "true_pass", "false_pass"} & self._rates.keys():
            raise ConfigError(
                "says nothing of right, true_pass and false_pass, to which labels belong: give their rates too, or an "
                "earlier run with labels, or leave labels out",
                path="reference",
            )

    @property
    def alarmed(self) -> bool:
        """Whether any rate has ever alarmed."""
        return bool(self.alarms)

    @property
    def acts(self) -> bool:
        """Whether an alarm has come that `on_alarm` answers."""
        return any(alarm.then != "record" for alarm in self.alarms)

    @property
    def part(self) -> Part:
        """The part that has changed, as far as can be told; of no use before an alarm."""
        return part_of(alarm.rate for alarm in self.alarms)

    def labels(self, place: int) -> bool:
        """Whether the task at this place, from 0, is one to label."""
        return self.metric is not None and place % self.every == 0

    def observe(self, task: str, shares: Shares) -> tuple[Alarm, ...]:
        """Take what one task said; gives the alarms that it led to. Threads take turns.

        A rate that has alarmed takes no more. Once an alarm was acted upon, none does that the action itself changes:
        under "tighten" `right` goes on, since what is drafted first is as it was; under the others nothing.
        """
        with self._lock:
            self.tasks += 1
            over = {alarm.rate for alarm in self.alarms}
            watched: Collection[Rate] = self._rates
            if self.acts:
                watched = {"right"} if self.on_alarm == "tighten" else ()
            new: list[Rate] = []
            for rate, monitor in self._rates.items():
                share = getattr(shares, rate)
                if rate in watched and share is not None and rate not in over and monitor.observe(share):
                    new.append(rate)
            part = part_of((*over, *new))
            alarms = tuple(self._alarm(rate, task, part) for rate in new)
            self.alarms += alarms
            return alarms

    def _alarm(self, rate: Rate, task: str, part: Part) -> Alarm:
        rate_monitor = self._rates[rate]
        share, reference = rate_monitor.total / rate_monitor.count, self._before[rate]
        return Alarm(
            rate=rate,
            task=task,
            observed=rate_monitor.count,
            share=share,
            reference=reference,
            evidence=rate_monitor.evidence,
            part=part,
            then=self.on_alarm if acts_on(self.on_alarm, rate, rose=share > reference) else "record",
        )

    def report(self) -> tuple[RateReport, ...]:
        """How each watched rate has fared."""
        return tuple(
            RateReport(
                rate=rate,
                reference=self._before[rate],
                observed=rate_monitor.count,
                share=rate_monitor.total / rate_monitor.count if rate_monitor.count else None,
                evidence=rate_monitor.evidence,
                threshold=rate_monitor.threshold,
                alike=self._alike[rate],
            )
            for rate, rate_monitor in self._rates.items()
        )


def _known(
    reference: float | Mapping[str, float] | Sequence[Shares] | None, rates: Sequence[Rate]
) -> dict[Rate, Any]:
    """What a reference says of each of these rates: a known rate, or the tasks' shares.

    Raises:
        ConfigError: it names something else than a rate.
    """
    if reference is None:
        return {}
    if isinstance(reference, (int, float)):
        return {"acceptance": float(reference)}
    if isinstance(reference, Mapping):
        for name in reference:
            if name not in RATES:
                raise ConfigError(f"{name!r} is no rate; one of {', '.join(RATES)} is", path="reference")
        return {rate: float(reference[rate]) for rate in rates if rate in reference}
    by_rate = {
        rate: [share for shares in reference if (share := getattr(shares, rate)) is not None]
        for rate in rates
    }
    return {rate: shares for rate, shares in by_rate.items() if shares}


def likeness(shares: Sequence[float]) -> float | None:
    """The correlation of neighbours; None where it may be chance (5 %), or nothing varies."""
    if len(shares) < 4 or len({*shares[1:]}) < 2 or len({*shares[:-1]}) < 2:
        return None
    from scipy.stats import pearsonr

    correlation = pearsonr(shares[:-1], shares[1:], alternative="greater")
    return float(correlation.statistic) if correlation.pvalue < 0.05 else None


def part_of(rates: Any) -> Part:
    """Which part changed, by the rates that alarmed: π is the generator's, T and F are the verifier's."""
    alarmed = set(rates)
    generator, verifier = "right" in alarmed, bool(alarmed & {"true_pass", "false_pass"})
    if generator and verifier:
        return "generator and verifier"
    return "generator" if generator else "verifier" if verifier else "cannot tell"


def acts_on(on_alarm: OnAlarm, rate: Rate, *, rose: bool) -> bool:
    """Whether an alarm is answered: where a rate has changed for the worse, and trust with it.

    Worse is less of acceptance, `right` and `true_pass`, and more of `false_pass`. More acceptance is no reason to stop
    drafting. But it may come from a verifier that has become lax, so "tighten" and "escalate" answer it too.
    """
    if rate == "acceptance" and on_alarm in ("tighten", "escalate"):
        return True
    return rose == (rate == "false_pass")


def shares_of(
    record: TaskRecord, right: Callable[[Any], bool | None] | None = None, *, checks_all: bool = True
) -> Shares:
    """What one task says of the rates: of the first tries of the pipeline's own generator, until a person had a word.

    Which items are labelled must not depend on verdicts, else the generator is blamed for the verifier: where it passes
    more, fewer items come after a pass. So they are those of the first round, and only the first item where checking
    may stop at a pass.

    Args:
        record: of the task, ended or waiting.
        right: whether a drafted item is right; None where nobody can say. Asked of judged alternatives alone, since an
            item of a chain is no whole answer.
        checks_all: whether all items of a block are checked, however many pass.
    """
    end = next((i for i, round in enumerate(record.rounds) if round.source == "person"), len(record.rounds))
    rounds = drafted_rounds(msgspec.structs.replace(record, rounds=record.rounds[:end]))
    accepted = sum(round.tally.accepted for round in rounds)
    trials = sum(round.tally.trials for round in rounds)
    marks: dict[bool, list[bool]] = {True: [], False: []}
    for round in rounds[:1]:
        if right is None or any(parent != -1 for parent in round.parents):
            continue
        refused = {refusal.index for refusal in round.decision.refused}
        items = round.items if checks_all else round.items[:1]
        for index, (item, check) in enumerate(zip(items, round.checks, strict=False)):
            if check.verdict not in ("pass", "reject"):
                continue
            is_right = right(item if check.correction is UNSET else check.correction)
            if is_right is not None:
                marks[is_right].append(check.verdict == "pass" and index not in refused)
    labelled = len(marks[True]) + len(marks[False])
    return Shares(
        acceptance=accepted / trials if trials else None,
        right=len(marks[True]) / labelled if labelled else None,
        true_pass=fmean(marks[True]) if marks[True] else None,
        false_pass=fmean(marks[False]) if marks[False] else None,
    )
