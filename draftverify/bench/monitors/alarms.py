"""What a monitor's alarm leads to: another pipeline of the same parts, which later tasks go through.

A pipeline knows nothing of monitors. Once an alarm is to be acted upon, the tasks that begin after it are run by
`after_alarm(pipeline, monitor)`: without drafts, held to a stricter threshold, or with a person asked about them.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Sequence
from inspect import isawaitable
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify.bench.monitors.monitor import Alarm, Monitor, Shares, shares_of
from draftverify.checks.scores import score
from draftverify.engine.boundary import read_verification
from draftverify.engine.parts import Parts
from draftverify.engine.pipeline import Pipeline, TaskLike, as_task
from draftverify.errors import PipelineError, below
from draftverify.identity import arguments_of
from draftverify.protocols import ChecksPipeline
from draftverify.rejection import Policy
from draftverify.secret import quiet
from draftverify.traits import VerifierTraits, is_asynchronous, name_of, offers, traits_of
from draftverify.values import (
    Check,
    Context,
    Failure,
    Heard,
    Outcome,
    Proposal,
    Round,
    Task,
    TaskRecord,
    Trouble,
    VerdictKind,
)

_log = quiet(logging.getLogger(__name__))

DOUBT = "passed, but the pipeline's monitor has alarmed: a person is asked"


class MonitoredPipeline:
    """A pipeline whose monitor is told of every task that is run here, and which does what the alarm asks for.

    Args:
        pipeline: runs the tasks until then.
        monitor: with a reference.

    Raises:
        PipelineError: the pipeline cannot do what the alarm asks for.
        ConfigError: the monitor has nothing to compare with, or no rate that its labels would tell of; at the first
            task, its threshold was fitted for another verifier.
    """

    def __init__(self, pipeline: Pipeline, monitor: Monitor) -> None:
        if not isinstance(monitor, Monitor):
            raise PipelineError(f"monitor is {monitor!r}; a Monitor is needed, as Monitor(0.8)")
        monitor.check_reference()
        self.pipeline = pipeline
        self.monitor = monitor
        self._after = after_alarm(pipeline, monitor)
        self._fits = False

    @property
    def current(self) -> Pipeline:
        """The pipeline that the next task goes through."""
        return self._after if self.monitor.acts else self.pipeline

    def run(self, task: TaskLike, **options: Any) -> Outcome:
        """Run one task, as `Pipeline.run` does."""
        return self.record(task, **options).outcome

    def record(self, task: TaskLike, *, restore: Sequence[Round] = (), **options: Any) -> TaskRecord:
        """Run one task, as `Pipeline.record` does; of one that is taken up again the monitor was told before."""
        if not self._fits:
            check_threshold(self.monitor, self.pipeline)
            self._fits = True
        task = as_task(task)
        record = self.current.record(task, restore=restore, **options)
        if not restore and not options.get("inner"):
            self.observe(task, record)
        return record

    def observe(self, task: Task, record: TaskRecord) -> tuple[Alarm, ...]:
        """Tell the monitor of a task that another driver ran.

        Args:
            task: with what it expects.
            record: of how it ended, or waits.
        """
        checks_all = self.pipeline.enough is None
        shares = task_shares(self.monitor, task, record, self.monitor.tasks, checks_all=checks_all)
        return self.monitor.observe(task.id, shares)


def after_alarm(pipeline: Pipeline, monitor: Monitor) -> Pipeline:
    """The pipeline that runs later tasks once the monitor's alarm is acted upon; itself where that is only recorded.

    Its parts, clauses and settings are the pipeline's, so a task that one of them began can be taken up by the other.

    Raises:
        PipelineError: the pipeline cannot do what the alarm asks for.
    """
    check_monitor(monitor, pipeline)
    if monitor.on_alarm == "stop":
        return pipeline.with_parts(
            block=NoDrafts() if pipeline.verifier_traits.goes_on_plainly else NoTasks()
        )
    if monitor.on_alarm == "tighten":
        assert monitor.threshold is not None
        return pipeline.with_parts(verifier=Stricter(pipeline.verifier, monitor.threshold))
    if monitor.on_alarm == "escalate":
        clauses = tuple(
            replace(clause, verified=True) if clause.do == "fallback" else clause
            for clause in pipeline.policy.clauses
        )
        return pipeline.with_parts(verifier=Distrusted(pipeline.verifier), policy=AskFirst(clauses))
    return pipeline


class NoDrafts:
    """A block size of 0: every round is the verifier's plain step."""

    def size(self, context: Context) -> int:
        """A block size of 0."""
        return 0

    def observe(self, context: Context, round: Round) -> None:
        """Nothing is learned."""


class NoTasks(NoDrafts):
    """A block size under which every task goes to the policy's fallback at once."""

    def drafts(self, context: Context) -> bool:
        """Nothing is drafted."""
        return False

    def size(self, context: Context) -> int:
        """A size that is never asked for."""
        return 1


class AskFirst(Policy, frozen=True):
    """A policy whose clause that asks a person comes before all others where nobody can tell."""

    def next(
        self, troubles: Collection[Trouble], used: Sequence[int], *, askable: bool = True, **options: Any
    ) -> int | None:
        """The place of the clause to take now: more drafts would be doubted as these are."""
        if "abstain" in troubles:
            return self.asks if askable else None
        return super().next(troubles, used, askable=askable, **options)


class Distrusted:
    """A verifier whose passes are no word any more: it abstains on what it would have passed, but for a person's own
    edit. Whatever else it does, it does as before; its notes keep what it said.

    Args:
        verifier: whose word it was.
    """

    def __init__(self, verifier: Any) -> None:
        self.verifier = verifier
        self.__wrapped__ = verifier

    def __getattr__(self, name: str) -> Any:
        if name == "verifier" or name.startswith("__"):
            raise AttributeError(name)  # of a copy that is being made
        return getattr(self.verifier, name)

    @property
    def traits(self) -> VerifierTraits:
        """The verifier's; its methods are called through those here."""
        traits = traits_of(self.verifier, VerifierTraits)
        return dataclasses.replace(traits, asynchronous=is_asynchronous(self.verifier))

    def verify(self, context: Context, proposal: Proposal) -> Any:
        """The verifier's word on all items, doubted; no pass is enough to stop at."""
        answer = self.verifier.verify(replace(context, enough=None), proposal)
        return _following(answer, lambda answer: self._doubted(context, proposal, answer))

    @property
    def verify_many(self) -> Callable[[Sequence[Context], Sequence[Proposal]], Any]:
        """The same of many sessions' blocks.

        Raises:
            AttributeError: the verifier has no such method.
        """
        verify_many = self.verifier.verify_many

        def verify_all(contexts: Sequence[Context], proposals: Sequence[Proposal]) -> Any:
            answers = verify_many([replace(context, enough=None) for context in contexts], proposals)
            return _following(answers, lambda answers: [*map(self._doubted, contexts, proposals, answers)])

        return verify_all

    def _doubted(self, context: Context, proposal: Proposal, answer: Any) -> Any:
        verification = read_verification(answer, len(proposal), self.verifier)
        if isinstance(verification, Failure) or _is_edit(context):
            return answer
        original = verification.checks
        checks = tuple(map(self.doubt, original))
        entries = verification.notes.get("heard") or [
            Heard(stage=name_of(self.verifier), items=tuple(range(len(checks))), checks=(None,) * len(checks))
        ]
        heard = [
            replace(
                entry,
                checks=tuple(
                    original[item] if check is None and checks[item] is not original[item] else check
                    for item, check in zip(entry.items, entry.checks, strict=True)
                ),
            )
            for entry in msgspec.convert(entries, list[Heard])
        ]
        notes = {**verification.notes, "heard": msgspec.to_builtins(heard)}
        return replace(verification, checks=checks, notes=notes)

    def doubt(self, check: Check) -> Check:
        """A check as it counts now."""
        return _withdrawn(check, "abstain", DOUBT) if check.verdict == "pass" else check


class Stricter(Distrusted):
    """A verifier of which a pass below a score, or without one, is a rejection.

    Args:
        verifier: gives the scores.
        threshold: the lowest that passes.
    """

    def __init__(self, verifier: Any, threshold: float) -> None:
        super().__init__(verifier)
        self.threshold = threshold

    def doubt(self, check: Check) -> Check:
        """A check as it counts now."""
        if check.verdict != "pass" or (check.score is not None and check.score >= self.threshold):
            return check
        return _withdrawn(
            check, "reject", f"passed, but below {self.threshold:g}, which is asked since an alarm"
        )


def _withdrawn(check: Check, verdict: VerdictKind, why: str) -> Check:
    return replace(check, verdict=verdict, reason="; ".join(filter(None, (why, check.reason))))


def _following(answer: Any, follow: Callable[[Any], Any]) -> Any:
    """What follows of an answer; awaitable where that is."""
    if not isawaitable(answer):
        return follow(answer)

    async def later() -> Any:
        return follow(await answer)

    return later()


def _is_edit(context: Context) -> bool:
    """Whether what is verified now is what a person made of the candidate: the round before ended in the question."""
    rounds = context.rounds
    return bool(rounds and rounds[-1].steps and rounds[-1].steps[-1].do == "escalate")


def check_monitor(monitor: Monitor, pipeline: Parts) -> None:
    """Refuse a monitor that asks for what a pipeline's parts cannot give.

    Raises:
        PipelineError: it cannot stop drafting, has nobody to ask, is to label what is no whole answer, or would tighten
            to what the rule asks for already.
    """
    shape, policy = pipeline.declared[id(pipeline.generator)].shape, pipeline.policy
    plain_steps = pipeline.verifier_traits.goes_on_plainly
    whole_answers = shape in (None, "alternatives")
    if monitor.metric is not None and not whole_answers:
        raise PipelineError(
            f"the monitor labels drafts, and the generator's are {shape}s, of which no item is a whole answer; "
            "leave labels out: acceptance is watched without"
        )
    if monitor.on_alarm == "stop" and policy.undrafted is None and not plain_steps:
        raise PipelineError(
            "on_alarm: stop needs a verifier that goes on without drafts (plain_steps), and this one does not say so, "
            "or a fallback in the policy to which tasks can go at once; record, or escalate"
        )
    if monitor.on_alarm == "escalate" and not whole_answers:
        raise PipelineError(
            f"on_alarm: escalate asks a person of every answer, and the generator's drafts are {shape}s, of which no "
            "item is one; record, or stop"
        )
    if monitor.on_alarm == "escalate" and policy.asks is None:
        raise PipelineError(
            "on_alarm: escalate needs a policy step that asks a person (escalate, on abstain or on anything); give "
            "on_rejection one"
        )
    if monitor.on_alarm == "tighten" and not whole_answers:
        raise PipelineError(
            f"on_alarm: tighten compares whole answers, and the generator's drafts are {shape}s; record, or stop"
        )
    if monitor.on_alarm == "tighten" and "scores" not in pipeline.verifier_traits.provides:
        raise PipelineError(
            "on_alarm: tighten compares scores, which the verifier does not say that it gives (provides: scores); "
            "record, or escalate"
        )
    before = arguments_of(pipeline.rule).get("threshold")
    if monitor.threshold is not None and isinstance(before, float) and before >= monitor.threshold:
        raise PipelineError(
            f"on_alarm: tighten has the threshold {monitor.threshold:g}, and the rule's is {before:g} already: nothing "
            "would be stricter; give the monitor a higher one"
        )


def check_threshold(monitor: Monitor, pipeline: Parts) -> None:
    """Refuse a monitor whose threshold was certified for another pipeline; looked at once this one is open or at its
    first task, since an identity may read a model's files.

    Raises:
        ConfigError: it was.
    """
    threshold: Any = monitor.threshold
    if offers(threshold, ChecksPipeline):
        with below("monitor.threshold"):
            threshold.check_pipeline(pipeline)


def task_shares(monitor: Monitor, task: Task, record: TaskRecord, place: int, *, checks_all: bool) -> Shares:
    """What a task says of a pipeline's rates.

    Args:
        monitor: says whether it is labelled, and by which metric.
        task: with what it expects.
        record: of how it ended, or waits.
        place: of the task, from 0.
        checks_all: whether all items of a block are checked, however many pass.
    """
    metric = monitor.metric

    def right(value: Any) -> bool | None:
        assert metric is not None
        label = score(metric, task, Outcome(status="accepted", value=value))
        if label.problem:
            _log.warning(
                "a monitor's metric failed on task %r, of which there is no label: %s", task.id, label.problem
            )
        return None if label.value is None else label.value >= 0.5

    return shares_of(record, right if monitor.labels(place) else None, checks_all=checks_all)
