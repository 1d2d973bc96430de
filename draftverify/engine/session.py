"""One task's state machine, sans-IO: it hands out requests and takes answers, and does nothing else.

A round goes Draft → Verify → Decide, and what comes of it is closed into a `Round`, which leads to the next `State`. A
session calls no part but the block size and the stopping rule, reads no clock and does not sleep. Every answer is read
at the boundary before it touches anything.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple, replace

from draftverify.engine import boundary
from draftverify.engine.budget import Budget
from draftverify.engine.events import Event, Listener, RoundDone, StepTaken, TaskDone, TaskStarted
from draftverify.engine.functions import failed, failure_of
from draftverify.engine.parts import Parts, name_of
from draftverify.engine.requests import Ask, AskPerson, Decide, Draft, Finish, Prepare, Request, Verify
from draftverify.engine.state import State, holding, is_open, troubles_of
from draftverify.errors import DraftVerifyError
from draftverify.frozen import FrozenDict, freeze, thaw
from draftverify.randomness import Draws, stream_key
from draftverify.secret import quiet
from draftverify.stats.acceptance import tally
from draftverify.values import (
    EMPTY,
    GIVEN,
    PASS,
    By,
    Check,
    Choice,
    Context,
    Cost,
    Decision,
    Failure,
    Held,
    Last,
    Memory,
    Outcome,
    Proposal,
    Round,
    Status,
    Step,
    Tally,
    Task,
    TaskRecord,
    Timing,
    Trail,
    Trouble,
    Verification,
    prefix,
)

__all__ = ["Session"]

_log = quiet(logging.getLogger(__name__))

_NOTHING = Proposal.chain(())
_NO_TRIALS = Tally()

_numbers = count(1)  # of the process's sessions


class _Making(msgspec.Struct, eq=False):
    """What the round that is under way has come to so far."""

    asked: int = 0
    source: str = "generator"
    proposal: Proposal = _NOTHING
    verification: Verification | None = None
    open: tuple[int, ...] = ()  # the items whose checks are made again
    steps: tuple[Step, ...] = ()
    draft: float = 0.0
    verify: float = 0.0
    decide: float = 0.0
    busy: float = 0.0
    units: float = 0.0
    passes: int = 0
    batch: int = 1
    tokens: bytes = b""


class Session:
    """One task on its way through a pipeline.

    Args:
        pipeline: the parts and settings.
        task: the unit of work.
        attempt: the infrastructure re-run.
        memory: a snapshot of earlier tasks.
        restore: rounds recorded before; they are applied and not decided again.
        inner: the records of inner tasks that were under way when the task was left waiting.
        outcome: how an inner task ended before, with the rounds to restore; it is not run again.
        within: of an inner task, the request for which it runs: it inherits the settings, feedback and memory.
        allowance: of an inner task, the machine seconds and units that it may use of the outer one's budget.
        person: plays the person; None: nobody is there.
        on_event: what a driver tells the session's events.

    Attributes:
        outcome: how the task ended; None while it goes on.
        request: what the session wants done now; None once there is an outcome.
        listened: whether events are kept until they are asked for; a driver without a listener sets it False.
    """

    def __init__(
        self,
        pipeline: Parts,
        task: Task,
        *,
        attempt: int = 0,
        memory: Memory | None = None,
        restore: Iterable[Round] = (),
        inner: Sequence[TaskRecord] = (),
        outcome: Outcome | None = None,
        within: Draft | None = None,
        allowance: Budget | None = None,
        person: AskPerson | None = None,
        on_event: Listener | None = None,
    ) -> None:
        task = task.without_expected()  # which is for metrics alone
        self.pipeline = pipeline
        self.task = task
        self.outcome: Outcome | None = freeze(outcome)
        self.listened = True
        self.person = person
        self.on_event = on_event
        self.inner: Mapping[str, TaskRecord] = {record.task: record for record in inner}
        self._attempt = attempt
        self._allowance = allowance
        self._inner = within is not None
        self._number = next(_numbers)
        self._events: list[Event] = [TaskStarted(task, self._number)]
        keys = [stream_key(pipeline.seed, task.id, attempt, role) for role in ("draft", "verify", "rule")]
        self._verify_key, self._rule_key = keys[1:]
        self._rounds_within = pipeline.budget.rounds_within if allowance is None else 0
        self._id = count(1).__next__
        self._ending: tuple[Status, str, Failure | None] = ("accepted", "", None)
        outer = within.context if within is not None else None
        context = Context(
            task=task,
            accepted=Trail.of(()),
            held=(),
            rounds=Trail.of(()),
            last=None,
            feedback=outer.feedback if outer else (),
            refused=(),
            enough=None,
            settings=FrozenDict({**outer.settings, **pipeline.settings}) if outer else pipeline.settings,
            memory=memory or Memory(),
            draws=Draws(keys[0], 0),
            scratch={},
            attempt=attempt,
            tries=0,
        )
        clauses = len(pipeline.policy.clauses)
        self.state = State(context, pipeline.policy, context.feedback, (0,) * clauses)
        for round in restore:
            if any(step.clause >= clauses for step in round.steps):
                raise DraftVerifyError(
                    f"task {task.id!r}: the rounds to restore are of another policy, of more than {clauses} clauses"
                )
            self.state = self.state.after(freeze(round))
        self._making = _Making()
        self.request: Request | None = None
        if outcome is not None:
            return
        if pipeline.prepares:
            self.request = Prepare(self._id(), pipeline.verifier, task)
        else:
            self._go_on()

    # What a driver sees

    @property
    def rounds(self) -> Trail:
        """The rounds so far."""
        return self.state.context.rounds

    @property
    def scratch(self) -> dict[Any, Any]:
        """The task's cache for parts; what has a `close()` is closed by `release`."""
        return self.state.context.scratch

    def requests(self) -> tuple[Request, ...]:
        """What the session wants done now; empty once there is an outcome."""
        return () if self.request is None else (self.request,)

    def events(self) -> list[Event]:
        """What happened since this was last asked."""
        events = self._events
        if events:
            self._events = []
        return events

    def record(self) -> TaskRecord:
        """The finished task's record.

        Raises:
            DraftVerifyError: when there is no outcome yet.
        """
        if self.outcome is None:
            raise DraftVerifyError(f"task {self.task.id!r} has no outcome yet")
        waiting = self.outcome.status == "waiting"
        return TaskRecord(
            task=self.task.id,
            attempt=self._attempt,
            outcome=self.outcome,
            rounds=tuple(self.rounds),
            group=self.task.group,
            inner=tuple(self.inner.values()) if waiting else (),
        )

    def answer(self, id: int, value: Any, seconds: float = 0.0, busy: float | None = None) -> None:
        """Take the answer to the request `id`.

        Args:
            id: of the request.
            value: what the part returned, or a Failure.
            seconds: how long the call took.
            busy: this session's share of a call that served several; all of it when None.

        Raises:
            DraftVerifyError: when `id` is not the open request's.
        """
        request = self.request
        if request is None or request.id != id:
            raise DraftVerifyError(f"request {id} is not open in task {self.task.id!r}")
        self.request = None
        value = boundary.read(request, value, self.pipeline)
        _TAKES[type(request)](self, request, value, seconds, seconds if busy is None else busy)

    def allowance(self, shares: int) -> Budget | None:
        """What each of so many inner tasks may use of this one's budget: an equal share of what is left.

        The same under every driver, since no inner task waits to hear what the others have used.
        """
        seconds, units = self.pipeline.budget.seconds, self.pipeline.budget.units
        own = self._allowance
        if own is not None:
            seconds, units = _least(seconds, own.seconds), _least(units, own.units)
        if seconds is None and units is None:
            return None
        return Budget(
            rounds=None,
            seconds=None if seconds is None else max(seconds - self.state.seconds, 0.0) / shares,
            units=None if units is None else max(units - self.state.units, 0.0) / shares,
        )

    def wait(self, inner: Sequence[TaskRecord], cost: Cost) -> None:
        """Leave the task waiting for a person, since inner tasks of its draft do; what they cost so far is its own."""
        self.inner = {record.task: record for record in inner}
        self.request = None
        state, seconds = self.state, cost.seconds or 0.0
        self.state = replace(
            state, seconds=state.seconds + seconds, busy=state.busy + seconds, units=state.units + cost.units
        )
        self._make_outcome(("waiting", "a person is asked", None), None)

    def release(self) -> None:
        """Close what is in scratch and let go of arrays; a driver calls it when the task has ended or is left."""
        scratch = self.scratch
        for entry in scratch.values():
            try:
                close = getattr(entry, "close", None)
                if callable(close) and not isinstance(entry, type):
                    close()
            except (
                BaseException
            ) as error:  # a cache that cannot be freed is no reason to lose the task, or a batch
                boundary.raised(error)
                _log.warning("task %r: an entry of scratch cannot be closed", self.task.id, exc_info=True)
        scratch.clear()
        self.state = replace(self.state, context=replace(self.state.context, last=None))
        self._making = _Making()
        self.request = None

    # A round, step by step

    def _go_on(self) -> None:
        """From the last round: end, follow its policy step, or draft."""
        rounds = self.state.context.rounds
        last: Round | None = rounds.entries[-1] if rounds.length else None
        if last is not None:
            if last.decision.done:
                if last.decision.abstain:
                    rule = name_of(self.pipeline.rule)
                    self._make_outcome(
                        ("abstained", f"the rule {rule} says that there is no answer", None), None
                    )
                else:
                    self._end("accepted")
                return
            if last.trouble:
                step = last.steps[-1].do if last.steps else None
                if step is None or step in ("reverify", "give_up"):
                    self._give_up(last, step)
                    return
                if step == "escalate":
                    candidate = self.state.candidate
                    self.request = Ask(
                        self._id(), self.person, self.task, candidate, last.trouble, last.failure
                    )
                    return
        self._ask_for_draft()

    def _ask_for_draft(self) -> None:
        context, making = self.state.context, self._making
        if context.rounds.length >= self._rounds_within and (spent := self._spent()) is not None:
            self._end("exhausted", spent)
            return
        clause, pipeline = self.state.fallback, self.pipeline
        drafts = True
        if context.refused:
            n = len(context.refused)
        else:
            block = pipeline.block
            try:
                if clause is None:
                    asked = pipeline.undrafted is not None and hasattr(block, "drafts")
                    drafts = not asked or boundary.read_drafts(block.drafts(context), block)
                n = boundary.read_size(block.size(context), block) if drafts else 0
            except BaseException as error:
                failure = boundary.raised(error)
                self._end("failed", f"the block size could not be chosen: {failure}", failure)
                return
        if not drafts and pipeline.undrafted is not None:
            self._consult_policy(Decision(), (pipeline.undrafted,), reverifiable=False, drafting=False)
            return
        generator = self.pipeline.generator
        if clause is not None:
            making.source, generator, n = clause.name, clause.generator, max(n, 1)
        making.asked = n
        if n:
            self.request = Draft(self._id(), generator, context, n)
        else:
            self._ask_for_checks(_NOTHING)

    def _ask_for_checks(self, proposal: Proposal) -> None:
        self._making.proposal = proposal
        if self.state.context.rounds.length < self._rounds_within or self._spent() is None:
            self.request = Verify(self._id(), self.pipeline.verifier, self._judging(), proposal)
        else:
            self._close_round(Decision(), ("exhausted",))

    def _judging(self) -> Context:
        """The verifier's context, which is the rule's too."""
        context = self.state.context
        draws = Draws(self._verify_key, context.draws.round)
        return replace(context, draws=draws, enough=self.pipeline.enough)

    def _ask_for_decision(self, context: Context, verification: Verification) -> None:
        making = self._making
        making.verification = verification
        rng = Draws(self._rule_key, context.draws.round)
        self.request = Decide(self._id(), self.pipeline.rule, context, making.proposal, verification, rng)

    def _trust(self, proposal: Proposal, by: By) -> None:
        """Let the rule decide on items that a person, or a fallback that is trusted, passes."""
        making = self._making
        making.proposal = proposal
        verification = Verification(checks=(PASS,) * len(proposal), by=by)
        self._ask_for_decision(self._judging(), verification)

    # Answers

    def _take_task(self, request: Prepare, value: Any, seconds: float, busy: float) -> None:
        if type(value) is Failure:
            self._end("failed", f"the verifier could not prepare the task: {value}", value)
            return
        self.task = value
        self.state = replace(self.state, context=replace(self.state.context, task=value))
        self._go_on()

    def _take_proposal(self, request: Draft, value: Any, seconds: float, busy: float) -> None:
        making = self._making
        if type(value) is not Failure and value.cost is not None:
            value, seconds, busy = self._charged(value, seconds, busy)
        making.draft += seconds
        making.busy += busy
        if type(value) is Failure:
            self._consult_policy(Decision(), (value.kind,), value)
            return
        clause = self.state.fallback
        if value.exhausted and not len(value.items):
            making.proposal = value
            self._consult_policy(Decision(), ("exhausted",))
        elif clause is not None and not clause.verified and len(value.items):
            self._trust(value, "fallback")
        else:
            self._ask_for_checks(value)

    def _take_verification(self, request: Verify, value: Any, seconds: float, busy: float) -> None:
        making = self._making
        making.passes += 1
        if seconds != busy and busy:
            making.batch = round(seconds / busy)
        before = making.verification  # of a re-check: what the pass before it said
        if before is not None and type(value) is not Failure and not value.checks:
            value = Failure("error", "ContractError", "a pass that checked items again brought no checks")
        if type(value) is not Failure and value.cost is not None:
            value, seconds, busy = self._charged(value, seconds, busy)
        making.verify += seconds
        making.busy += busy
        if before is not None:
            value = _rechecked(before, making.open, value, whole=request.proposal is making.proposal)
        elif type(value) is Failure:
            self._consult_policy(Decision(), (value.kind,), value)
            return
        self._ask_for_decision(request.context, value)

    def _take_decision(self, request: Decide, value: Any, seconds: float, busy: float) -> None:
        making = self._making
        making.decide += seconds
        making.busy += busy
        if type(value) is Failure:
            self._consult_policy(Decision(), (value.kind,), value, reverifiable=False)
            return
        if value.items:
            making.proposal = replace(making.proposal, items=value.items)
            value = replace(value, items=())
        if value.tokens:
            making.tokens = value.tokens
            value = replace(value, tokens=b"")
        if value.abstain:
            self._close_round(replace(value, drift=(), done=True))
            return
        try:
            value = self._emitting(value, request.context)
        except BaseException as error:
            failure = boundary.raised(error)
            self._consult_policy(Decision(), (failure.kind,), failure, reverifiable=False)
            return
        if value.done:
            self._close_round(value)
        elif not (value.kept or value.spliced or value.held or value.corrected):
            troubles = troubles_of(request.verification.checks, value)
            if making.proposal.exhausted or not troubles:
                over = making.proposal.exhausted or not len(making.proposal.items)
                troubles += ("exhausted",) if over else ("reject",)
            self._consult_policy(value, troubles)
        elif self.pipeline.partial and (troubles := troubles_of(request.verification.checks, value)):
            self._consult_policy(value, troubles, progress=True)
        else:
            self._close_round(value)

    def _take_person(self, request: Ask, value: Any, seconds: float, busy: float) -> None:
        if type(value) is Failure:
            self._end("failed", f"the question to a person failed: {value}", value)
            return
        if value is None or value.kind == "skip":
            self._make_outcome(("waiting", "a person is asked", None), None)
            return
        self._making.source = "person"
        if value.kind == "reject":
            self._end("exhausted", value.note or "rejected by a person")
        elif value.kind == "edit":
            self._making.asked = 1
            self._ask_for_checks(Proposal.chain((value.value,)))
        elif request.candidate is None:
            words = "there is no candidate to accept; edit, reject or skip"
            self._end("failed", words, Failure("error", "ContractError", words))
        else:
            self._making.asked = 1
            self._trust(Proposal.chain((request.candidate.value,)), "person")

    def _take_value(self, request: Finish, value: Any, seconds: float, busy: float) -> None:
        if type(value) is Failure:
            self._make_outcome(("failed", f"the value could not be made: {value}", value), None)
        else:
            self._make_outcome(self._ending, value)

    # What they share

    def _charged(self, value: Any, seconds: float, busy: float) -> tuple[Any, float, float]:
        """Count what an answer says that it cost; the answer without it, and its seconds and machine seconds."""
        cost: Cost = value.cost
        self._making.units += cost.units
        if cost.seconds is not None:
            seconds = busy = cost.seconds
        return replace(value, cost=None), seconds, busy

    def _spent(self) -> str | None:
        """Which budget is spent, counting this round's calls so far."""
        state, making = self.state, self._making
        rounds = state.context.rounds.length
        seconds, units = making.draft + making.verify + making.decide, making.units + state.units
        passes = state.passes + making.passes
        spent = self.pipeline.budget.exceeded(rounds, state.seconds + seconds, passes, units)
        if spent is None and self._allowance is not None:
            outer = self._allowance.exceeded(0, state.busy + making.busy, 0, units)
            spent = outer and f"this inner task's share of the outer budget is spent ({outer})"
        return spent

    def _emitting(self, decision: Decision, context: Context) -> Decision:
        """The decision with the values that join, cut where the stopping rule says so.

        That rule sees the verifier's `context` as it would be after this round.
        """
        making, done = self._making, self.pipeline.done
        items, kept, spliced = making.proposal.items, decision.kept, decision.spliced
        if type(items) is tuple and kept == prefix(len(kept)) and not decision.corrected:
            new = items[: len(kept)] + spliced  # nearly always
        else:
            new = self._new_values(decision)
        decision = replace(decision, emitted=new)
        if done is None:
            return decision
        assert making.verification is not None
        held, accepted = context.held, context.accepted
        if decision.held or decision.released:
            held = holding(held, decision, self._held_items(decision))
        accepted = accepted.then(new) if new else accepted
        last = Last(making.proposal, making.verification, decision)
        keep = done(replace(context, accepted=accepted, held=held, last=last, enough=None), new)
        if keep is None:
            return decision
        keep = boundary.read_cut(keep, len(new), done)
        return replace(decision, emitted=new[:keep], drift=decision.drift[:keep], done=True)

    def _new_values(self, decision: Decision) -> tuple[Any, ...]:
        kept, items = decision.kept, _host(self._making.proposal.items)
        if decision.corrected:
            values = {index: items[index] for index in kept}
            values.update({each.index: each.value for each in decision.corrected})
            return tuple([values[index] for index in sorted(values)]) + decision.spliced
        return tuple([items[i] for i in kept]) + decision.spliced

    def _held_items(self, decision: Decision) -> tuple[Held, ...]:
        from_round = self.state.context.rounds.length
        items, verification = _host(self._making.proposal.items), self._making.verification
        checks = verification.checks if verification is not None else ()
        held = []
        for i in decision.held:
            check = checks[i] if checks else PASS
            value = items[i] if check.correction is UNSET else check.correction
            held.append(Held(value, check.score, from_round, i))
        return tuple(held)

    def _consult_policy(
        self,
        decision: Decision,
        troubles: tuple[Trouble, ...],
        failure: Failure | None = None,
        *,
        reverifiable: bool = True,
        progress: bool = False,
        drafting: bool = True,
    ) -> None:
        """Ask the policy; a re-verification stays inside this round, any other step follows it."""
        making, state = self._making, self.state
        checks = making.verification.checks if making.verification is not None and failure is None else ()
        places = tuple([index for index, check in enumerate(checks) if is_open(check)])
        again = places or (failure is not None and making.passes > 0)
        policy = self.pipeline.policy
        askable = policy.escalates and state.is_askable(self._round(decision, troubles, failure))
        place = policy.next(
            troubles,
            state.counting(making.steps),
            reverifiable=bool(reverifiable and again and self._spent() is None),
            askable=askable,
            progress=progress,
            drafting=drafting,
        )
        if place is not None:
            clause = policy.clauses[place]
            on = next(trouble for trouble in troubles if not clause.on or trouble in clause.on)
            step = Step(place, clause.do, on)
            making.steps += (step,)
            if self.listened:
                self._events.append(StepTaken(self.task, self.rounds.length, step, self._number))
            if clause.do == "reverify":
                self._check_again(places)
                return
        elif progress or (drafting and self._is_blank(troubles)):
            troubles = ()  # nothing answers what was refused beside the kept items, or instead of a ballot
        self._close_round(decision, troubles, failure)

    def _is_blank(self, troubles: tuple[Trouble, ...]) -> bool:
        """Whether a block that was judged brought nothing to a rule that collects, which then goes on to the next.

        It does not with the last of `_BLANK_ROUNDS` such rounds in a row, nor where the block was to make up for items
        that were refused beside accepted ones: another would bring those again.
        """
        context = self.state.context
        if not self.pipeline.collects or (context.refused and context.accepted.length):
            return False
        if self._making.proposal.exhausted or set(troubles) <= {"error", "timeout"}:
            return False
        before = self.rounds[1 - _BLANK_ROUNDS :]
        return len(before) < _BLANK_ROUNDS - 1 or any(round.decision.progress for round in before)

    def _check_again(self, places: tuple[int, ...]) -> None:
        """Check the alternatives in these places again, and only those; of a chain or tree, the whole block."""
        making = self._making
        proposal = making.proposal
        making.open = places
        if places and proposal.fits("alternatives"):
            proposal = proposal.subset(places)
        self.request = Verify(self._id(), self.pipeline.verifier, self._judging(), proposal)

    def _round(self, decision: Decision, troubles: tuple[Trouble, ...], failure: Failure | None) -> Round:
        """The record of the round that is under way."""
        making, pipeline, context = self._making, self.pipeline, self.state.context
        proposal, verification = making.proposal, making.verification
        items = proposal.items if type(proposal.items) is tuple else _host(proposal.items)
        checks: tuple[Check, ...] = ()
        by: By = "verifier"
        counts = _NO_TRIALS
        if verification is not None:
            checks, by = verification.checks, verification.by
            if by == "verifier":
                counts = tally(len(items), checks, decision)
        # What is seldom there is added after: CPython passes more than fifteen keywords through a dict, which takes
        # longer than all else in a round's record.
        round = Round(
            index=context.rounds.length,
            tries=context.tries,
            source=making.source,
            items=items,
            parents=proposal.parents,
            law=proposal.law.kind,
            asked=making.asked,
            checks=checks,
            decision=decision,
            tally=counts,
            timing=Timing(
                making.draft,
                making.verify,
                making.decide,
                making.busy,
                making.units,
                making.passes,
                making.batch,
            ),
            trouble=troubles,
            steps=making.steps,
            failure=failure,
            deterministic=pipeline.deterministic and (verification is None or verification.deterministic),
        )
        if proposal.exhausted or proposal.nested or proposal.extends or decision.held or by != "verifier":
            round = replace(
                round,
                exhausted=proposal.exhausted,
                nested=proposal.nested,
                extends=proposal.extends,
                held=self._held_items(decision),
                by=by,
            )
        if verification is not None and (verification.correction or verification.notes):
            notes: Any = verification.notes or None
            round = replace(round, correction=verification.correction, notes=notes)
        if making.tokens:
            round = replace(round, tokens=making.tokens)
        return round

    def _close_round(
        self,
        decision: Decision,
        troubles: tuple[Trouble, ...] = (),
        failure: Failure | None = None,
    ) -> None:
        """Make the round's record, take the step to the next state, and go on."""
        making, pipeline, context = self._making, self.pipeline, self.state.context
        proposal, verification = making.proposal, making.verification
        round = self._round(decision, troubles, failure)
        broken = self._teach(context, round) if pipeline.learns and making.source == "generator" else None
        self.state = self.state.after(round)
        if verification is not None and (
            verification.evidence is not None or proposal.law is not GIVEN or proposal.evidence is not EMPTY
        ):
            self.state = self.state.showing(proposal, verification)
        if self.listened:
            self._events.append(RoundDone(self.task, round, self._number))
        self._making = _Making()
        if self.inner:
            self.inner = {}
        if broken is not None:
            self._end("failed", f"the block size could not learn from a round: {broken}", broken)
        elif troubles or decision.done:
            self._go_on()
        else:
            self._ask_for_draft()

    def _teach(self, context: Context, round: Round) -> Failure | None:
        """Let the block size learn, where it was asked; the failure when it cannot."""
        try:
            self.pipeline.block.observe(context, round)
        except BaseException as error:
            return boundary.raised(error)
        return None

    # The end

    def _give_up(self, last: Round, step: str | None) -> None:
        """End where the last round's trouble has no step that leads on."""
        reason = "; ".join(_WORDS[trouble] for trouble in last.trouble)
        spent = self._spent()
        status: Status
        failure = last.failure
        if failure is not None:
            status, reason = "failed", str(failure)
        elif spent is not None:
            status, reason = "exhausted", spent
        elif set(last.trouble) <= {"error", "timeout"}:
            failure = failure_of(next(check for check in last.checks if check.verdict in last.trouble))
            status, reason = "failed", f"{reason}: {failure}"
        else:
            # Of a rule that may say so, nothing good and nothing left to try is an answer: there is none.
            none = self.pipeline.abstains and set(last.trouble) <= {"reject", "exhausted", "abstain"}
            status = "abstained" if none or last.trouble == ("abstain",) else "exhausted"
        if step != "give_up" and self.pipeline.policy.clauses:
            reason += "; no policy step is left"
        self._end(status, reason, failure)

    def _end(self, status: Status, reason: str = "", failure: Failure | None = None) -> None:
        """End in this way, once the value is made."""
        self._ending = (status, reason, failure)
        context = self.state.context
        accepted = context.accepted
        # A rule may have an answer where nothing was accepted: the best of what it refused.
        if self.pipeline.finishes and (
            accepted.length or context.held or status in ("accepted", "exhausted")
        ):
            self.request = Finish(
                self._id(), self.pipeline.rule, replace(context, draws=self._judging().draws)
            )
        elif not self.pipeline.finishes and (
            accepted.length or (status == "accepted" and self._is_empty_answer())
        ):
            self._make_outcome(self._ending, Choice(tuple(accepted)))
        else:
            self._make_outcome(self._ending, None)

    def _is_empty_answer(self) -> bool:
        """Whether a task that ended with no accepted value was answered by none: the stopping rule cut away all that
        the rule kept, or ended a chain in its first round, for which there was nothing to draft."""
        last: Round = self.rounds[-1]
        decision = last.decision
        if decision.kept or decision.corrected or decision.spliced:
            return True
        return "chain" in (self.pipeline.shapes or ()) and last.index == 0 and not last.items

    def _make_outcome(self, ending: tuple[Status, str, Failure | None], choice: Choice | None) -> None:
        status, reason, failure = ending
        if status == "accepted" and choice is None:
            words = "no answer came of what was held" if self.state.context.held else "nothing was accepted"
            status, reason = "abstained", reason or words
        state, rounds, pipeline = self.state, self.rounds, self.pipeline
        value, score, support, margin, note = astuple(choice) if choice is not None else (*(None,) * 4, "")
        reason = "; ".join(filter(None, (reason, note)))
        drifts = [value for round in rounds for value in round.decision.drift]
        candidate = state.candidate if status != "accepted" else None
        refused = candidate if candidate is not None and candidate.judged else None
        if not self._inner:  # else other parts read the outcome too
            value = thaw(value)
            refused = refused and replace(refused, value=thaw(refused.value))
        self.outcome = Outcome(
            status=status,
            value=value,
            score=score,
            support=support,
            margin=margin,
            reason=reason,
            refused=refused,
            failure=failure,
            rounds=rounds.length,
            tally=Tally.total([round.tally for round in rounds]),
            drift=math.fsum(drifts) if drifts else None,
            seconds=state.seconds,
            units=state.units,
        )
        if pipeline.settles:
            try:
                pipeline.block.settle(state.context, self.outcome)
            except BaseException as error:
                broken = boundary.raised(error)
                why = f"the block size could not learn from the task: {broken}"
                self.outcome = replace(self.outcome, status="failed", reason=why, failure=broken)
        if self.listened:
            self._events.append(TaskDone(self.task, self.record(), self._number))


_TAKES: Mapping[type, Callable[[Any, Any, Any, float, float], None]] = {
    Prepare: Session._take_task,
    Draft: Session._take_proposal,
    Verify: Session._take_verification,
    Decide: Session._take_decision,
    Ask: Session._take_person,
    Finish: Session._take_value,
}

_BLANK_ROUNDS = 100  # a stopping rule may wait for ballots, and the budget is 100,000 rounds

_WORDS = {
    "reject": "every candidate was refused",
    "error": "checks failed",
    "timeout": "checks timed out",
    "abstain": "the verifier could not tell",
    "exhausted": "the generator has nothing more to propose",
}


def _least(*bounds: float | None) -> float | None:
    """The least bound; None where there is none."""
    return min((bound for bound in bounds if bound is not None), default=None)


def _host(items: Any) -> tuple[Any, ...]:
    return items if type(items) is tuple else tuple(items.tolist())


def _rechecked(
    before: Verification, places: tuple[int, ...], later: Verification | Failure, *, whole: bool
) -> Verification:
    """A verification after a re-check of the items in these places, or of the whole block. Where that failed as a call,
    those items' checks say so."""
    checks = list(before.checks)
    if isinstance(later, Failure):
        for place in places:
            checks[place] = failed(later)
        return replace(before, checks=tuple(checks))
    deterministic = before.deterministic and later.deterministic
    notes = FrozenDict({**before.notes, **later.notes})
    if whole:
        return replace(later, deterministic=deterministic, notes=notes)
    for place, check in zip(places, later.checks, strict=True):
        checks[place] = check
    return replace(before, checks=tuple(checks), deterministic=deterministic, notes=notes)
