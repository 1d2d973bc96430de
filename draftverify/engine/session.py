"""One task's way through a pipeline, sans-IO: a generator function that yields requests and is sent their answers.

`Session._run` reads from top to bottom: draft, verify, decide, what the policy answers, the round's record, finish. A
session calls no part but the block size and the stopping rule, reads no clock and does not sleep. Every answer is read
at the boundary before it touches anything.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

from msgspec.structs import replace

from draftverify.engine import boundary
from draftverify.engine.budget import Budget
from draftverify.engine.ending import WAITING, Ending, ending_after, is_answered_by_none, outcome_of
from draftverify.engine.events import Event, Listener, RoundDone, StepTaken, TaskDone, TaskStarted
from draftverify.engine.failures import raised
from draftverify.engine.open_round import NO_ITEMS, OpenRound
from draftverify.engine.parts import Parts
from draftverify.engine.requests import Ask, AskPerson, Decide, Draft, Finish, Prepare, Request, Verify
from draftverify.engine.state import State
from draftverify.errors import DraftVerifyError
from draftverify.frozen import FrozenDict, freeze
from draftverify.protocols import Closes
from draftverify.randomness import Draws, stream_key
from draftverify.rejection.refusals import is_open, is_unjudged
from draftverify.secret import quiet
from draftverify.traits import offers
from draftverify.values import (
    Choice,
    Context,
    Cost,
    Failure,
    Memory,
    Outcome,
    Proposal,
    Round,
    Step,
    Task,
    TaskRecord,
    Trail,
)

_log = quiet(logging.getLogger(__name__))

_numbers = count(1)  # of the process's sessions

_Reply: TypeAlias = tuple[Any, float, float]
"""An answer as it was read at the boundary, the seconds of its call, and the session's share of the machine seconds."""


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
        outer: of an inner task, the request for which it runs: it inherits the settings, feedback and memory.
        allowance: of an inner task, the machine seconds and cost that it may use of the outer one's budget.
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
        outer: Draft | None = None,
        allowance: Budget | None = None,
        person: AskPerson | None = None,
        on_event: Listener | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.task = task.without_expected()  # which is for metrics alone
        self.outcome: Outcome | None = freeze(outcome)
        self.request: Request | None = None
        self.listened = True
        self.person = person
        self.on_event = on_event
        self.inner: Mapping[str, TaskRecord] = {record.task: record for record in inner}
        self._attempt = attempt
        self._allowance = allowance
        self._is_inner = outer is not None
        self._number = next(_numbers)
        self._events: list[Event] = [TaskStarted(self.task, self._number)]
        self._rounds_within = pipeline.budget.rounds_within if allowance is None else 0
        draft_key, self._verify_key, self._rule_key = [
            stream_key(pipeline.seed, task.id, attempt, role) for role in ("draft", "verify", "rule")
        ]
        context = Context(
            task=self.task,
            accepted=Trail.of(()),
            rounds=Trail.of(()),
            settings=pipeline.settings,
            memory=memory or Memory(),
            draws=Draws(draft_key, 0),
            scratch={},
            attempt=attempt,
        )
        if outer is not None:
            settings = FrozenDict({**outer.context.settings, **pipeline.settings})
            context = replace(context, settings=settings, feedback=outer.context.feedback)
        clauses = len(pipeline.policy.clauses)
        self.state = State(context, pipeline.policy, context.feedback, (0,) * clauses)
        for round in restore:
            if any(step.clause >= clauses for step in round.steps):
                raise DraftVerifyError(
                    f"task {task.id!r}: the rounds to restore are of another policy, of more than {clauses} clauses"
                )
            self.state = self.state.after(freeze(round))
        self._flow = self._run()
        if outcome is None:
            self.request = next(self._flow, None)

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
        return TaskRecord(
            task=self.task.id,
            attempt=self._attempt,
            outcome=self.outcome,
            rounds=tuple(self.rounds),
            group=self.task.group,
            inner=tuple(self.inner.values()) if self.outcome.status == "waiting" else (),
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
        try:  # noqa: SIM105 - suppress() takes longer than most steps
            self.request = self._flow.send((value, seconds, seconds if busy is None else busy))
        except StopIteration:
            pass  # there is an outcome

    def allowance(self, shares: int) -> Budget | None:
        """What each of so many inner tasks may use of this one's budget: an equal share of what is left.

        The same under every driver, since no inner task waits to hear what the others have used.
        """
        budgets = [budget for budget in (self.pipeline.budget, self._allowance) if budget is not None]
        spent = zip(budgets, (self.state.seconds, self.state.busy), strict=False)  # as of `_spent`
        seconds = [budget.seconds - used for budget, used in spent if budget.seconds is not None]
        amounts = [budget.cost - self.state.cost for budget in budgets if budget.cost is not None]
        if not seconds and not amounts:
            return None
        return Budget(
            rounds=None,
            seconds=max(min(seconds), 0.0) / shares if seconds else None,
            cost=max(min(amounts), 0.0) / shares if amounts else None,
        )

    def wait(self, inner: Sequence[TaskRecord], cost: Cost) -> None:
        """Leave the task waiting for a person, since inner tasks of its draft do; what they cost so far is its own."""
        self.inner = {record.task: record for record in inner}
        self.request = None
        state, seconds = self.state, cost.seconds or 0.0
        self.state = replace(
            state, seconds=state.seconds + seconds, busy=state.busy + seconds, cost=state.cost + cost.amount
        )
        self._end(WAITING, None)

    def release(self) -> None:
        """Close what is in scratch and let go of arrays; a driver calls it when the task has ended or is left."""
        scratch = self.scratch
        for entry in scratch.values():
            try:
                if offers(entry, Closes) and not isinstance(entry, type):
                    entry.close()
            except BaseException as error:  # no reason to lose the task, or a batch
                raised(error)
                _log.warning("task %r: an entry of scratch cannot be closed", self.task.id, exc_info=True)
        scratch.clear()
        self.state = replace(self.state, context=replace(self.state.context, last=None))
        self.request = None
        self._flow.close()

    # The task, step by step

    def _run(self) -> Generator[Request, _Reply, None]:
        """Yield what is to be done, in the order in which it happens; the outcome is there when this returns."""
        pipeline, number = self.pipeline, count(1).__next__
        ending: Ending | None = None
        if pipeline.prepares:
            value, _, _ = yield Prepare(number(), pipeline.verifier, self.task)
            ending = self._prepare(value)
        ending = ending or self._ending()
        while ending is None:
            context = self.state.context
            current = OpenRound(pipeline, context)
            is_bounded = context.rounds.length >= self._rounds_within

            # Draft, or ask a person
            if context.tries and (final := context.rounds[-1]).steps[-1].do == "escalate":
                candidate, failure = self.state.candidate, final.failure
                value, _, _ = yield Ask(number(), self.person, self.task, candidate, final.trouble, failure)
                ending = self._take_answer(current, value)
            elif is_bounded and (spent := self._spent(current)) is not None:
                ending = Ending("refused", spent)
            else:
                ending = self._choose_size(current)
                if ending is None and current.asked:
                    draft = Draft(number(), current.generator, context, current.asked)
                    ahead = self._drafted_ahead(draft, current.source)
                    value, seconds, busy = (yield draft) if ahead is None else (ahead, 0.0, 0.0)
                    current.take_draft(value, seconds, busy)
            if ending is not None:
                break

            # Verify and decide; again, where a policy step has failed checks made again
            judging = replace(
                context, draws=Draws(self._verify_key, context.rounds.length), enough=pipeline.enough
            )
            rng = Draws(self._rule_key, context.rounds.length)
            while True:
                if current.pending is not None:
                    if is_bounded and self._spent(current) is not None:
                        current.trouble = ("exhausted",)
                        break
                    value, seconds, busy = yield Verify(number(), pipeline.verifier, judging, current.pending)
                    current.take_verification(value, seconds, busy)
                if not current.trouble:
                    proposal, verification = current.proposal, current.verification
                    value, seconds, busy = yield Decide(
                        number(), pipeline.rule, judging, proposal, verification, rng
                    )
                    current.take_decision(value, seconds, busy, judging)
                if not current.trouble or not self._answer_trouble(current):
                    break
            ending = self._close(current)

        # Finish: a rule may have an answer where nothing was accepted, the best of what it refused
        context, choice = self.state.context, None
        if not pipeline.finishes:
            choice = self._all_accepted(ending)
        elif ending.valued and (
            context.accepted.length or context.held or ending.status in ("accepted", "refused")
        ):
            judging = replace(context, draws=Draws(self._verify_key, context.rounds.length))
            choice, _, _ = yield Finish(number(), pipeline.rule, judging)
            if type(choice) is Failure:
                ending, choice = Ending("failed", f"the value could not be made: {choice}", choice), None
        self._end(ending, choice)

    def _all_accepted(self, ending: Ending) -> Choice | None:
        """The value where the rule makes none: all that was accepted."""
        accepted = self.state.context.accepted
        is_empty = ending.status == "accepted" and is_answered_by_none(self.rounds[-1], self.pipeline)
        return Choice(tuple(accepted)) if ending.valued and (accepted.length or is_empty) else None

    def _prepare(self, value: Any) -> Ending | None:
        """Go on with the task as the verifier has read it."""
        if type(value) is Failure:
            return Ending("failed", f"the verifier could not prepare the task: {value}", value)
        self.task = value
        self.state = replace(self.state, context=replace(self.state.context, task=value))
        return None

    def _take_answer(self, current: OpenRound, value: Any) -> Ending | None:
        """Take a person's answer, from which a round may begin."""
        if type(value) is Failure:
            return Ending("failed", f"the question to a person failed: {value}", value)
        if value is None or value.kind == "skip":
            return WAITING
        if value.kind == "reject":
            return Ending("refused", value.note or "rejected by a person")
        current.source, current.asked, candidate = "person", 1, self.state.candidate
        if value.kind == "edit":
            current.proposal = current.pending = Proposal.chain((value.value,))
        elif candidate is not None:
            current.trust(Proposal.chain((candidate.value,)), "person")
        else:
            problem = "there is no candidate to accept; edit, reject or skip"
            return Ending("failed", problem, Failure("error", "ContractError", problem))
        return None

    def _choose_size(self, current: OpenRound) -> Ending | None:
        """Choose who drafts and how many items; the end where the block size fails."""
        clause = self.state.fallback
        try:
            size = self._size()
        except BaseException as error:
            failure = raised(error)
            return Ending("failed", f"the block size could not be chosen: {failure}", failure)
        if size is None:  # a fallback answers at once
            current.trouble = (self.pipeline.undrafted or "exhausted",)
        elif clause is not None:
            current.source, current.generator, current.asked = clause.name, clause.generator, max(size, 1)
            current.trusted = not clause.verified
        elif size:
            current.generator, current.asked = self.pipeline.generator, size
        else:
            current.pending = NO_ITEMS
        return None

    def _size(self) -> int | None:
        """How many items to ask for; None where nothing is to be drafted, and a fallback answers at once."""
        pipeline, context, block = self.pipeline, self.state.context, self.pipeline.block
        has_detour = self.state.fallback is None and pipeline.undrafted is not None
        if context.refused:
            return len(context.refused)
        if has_detour and not boundary.read_drafts(block.drafts(context), block):
            return None
        return boundary.read_size(block.size(context), block)

    def _drafted_ahead(self, draft: Draft, source: str) -> Any:
        """What the block size has drafted already of what is asked for; None for nothing."""
        pipeline = self.pipeline
        if not pipeline.drafts_ahead or source != "generator":
            return None
        try:
            proposal = pipeline.block.drafted(draft.context, draft.n)
        except BaseException as error:
            proposal = raised(error)
        return None if proposal is None else boundary.read(draft, proposal, pipeline)

    def _spent(self, current: OpenRound) -> str | None:
        """Which budget is spent, counting this round's calls so far."""
        state = self.state
        rounds = state.context.rounds.length
        seconds, cost = current.draft + current.verify + current.decide, current.cost + state.cost
        passes = state.passes + current.passes
        spent = self.pipeline.budget.exceeded(rounds, state.seconds + seconds, passes, cost)
        if spent is None and self._allowance is not None:
            spent = self._allowance.exceeded(0, state.busy + current.busy, 0, cost)
            spent = spent and f"this inner task's share of the outer budget is spent ({spent})"
        return spent

    def _answer_trouble(self, current: OpenRound) -> bool:
        """Ask the policy; whether its step has checks made again. Other steps follow once the round is over."""
        policy, trouble, progress = self.pipeline.policy, current.trouble, current.decision.progress
        checks = current.verification.checks if current.failure is None else ()
        places = tuple([index for index, check in enumerate(checks) if is_open(check)])
        is_unchecked = bool(places) or current.pending is not None
        # Else the block size has sent the task to a fallback.
        is_drafting = bool(current.asked or current.passes)
        askable = policy.escalates and self.state.is_askable(current.record())
        place = policy.next(
            trouble,
            self.state.counting(current.steps),
            reverifiable=is_unchecked and self._spent(current) is None,
            askable=askable,
            progress=progress,
            drafting=is_drafting,
        )
        if place is None:
            if progress or (is_drafting and self._is_blank(current)):
                current.trouble = ()  # nothing answers what was refused beside kept items, or instead of a ballot
            return False
        clause = policy.clauses[place]
        step = Step(place, clause.do, next(kind for kind in trouble if not clause.on or kind in clause.on))
        current.steps += (step,)
        if self.listened:
            self._events.append(StepTaken(self.task, self.rounds.length, step, self._number))
        if step.do == "reverify":
            current.check_again(places)
        return step.do == "reverify"

    def _is_blank(self, current: OpenRound) -> bool:
        """Whether a block that was judged brought nothing to a rule that collects, which then goes on to the next.

        It does not with the last of `_BLANK_ROUNDS` such rounds in a row, nor where the block was to make up for items
        that were refused beside accepted ones: another would bring those again.
        """
        context = self.state.context
        if not self.pipeline.collects or (context.refused and context.accepted.length):
            return False
        if current.proposal.exhausted or is_unjudged(current.trouble):
            return False
        earlier = self.rounds[1 - _BLANK_ROUNDS :]
        return len(earlier) < _BLANK_ROUNDS - 1 or any(round.decision.progress for round in earlier)

    def _close(self, current: OpenRound) -> Ending | None:
        """Make the round's record and take the step to the next state; how the task ends where it does not go on."""
        pipeline, round, broken = self.pipeline, current.record(), None
        if pipeline.learns and current.source == "generator":
            try:
                pipeline.block.observe(self.state.context, round)
            except BaseException as error:
                broken = raised(error)
        self.state = self.state.after(round, current.proposal, current.verification)
        if self.listened:
            self._events.append(RoundDone(self.task, round, self._number))
        if self.inner:
            self.inner = {}
        if broken is not None:
            return Ending("failed", f"the block size could not learn from a round: {broken}", broken)
        return self._ending() if round.trouble or round.decision.done else None

    def _ending(self) -> Ending | None:
        """How the task ends with its last round; None where it goes on."""
        if not self.rounds:
            return None
        final: Round = self.rounds[-1]
        spent = self._spent(OpenRound(self.pipeline, self.state.context)) if final.trouble else None
        return ending_after(final, self.pipeline, spent)

    def _end(self, ending: Ending, choice: Choice | None) -> None:
        """Make the outcome, and let the block size learn of it."""
        outcome = outcome_of(self.state, ending, choice, is_inner=self._is_inner)
        if self.pipeline.settles:
            try:
                self.pipeline.block.settle(self.state.context, outcome)
            except BaseException as error:
                broken = raised(error)
                reason = f"the block size could not learn from the task: {broken}"
                outcome = replace(outcome, status="failed", reason=reason, failure=broken)
        self.outcome = outcome
        if self.listened:
            self._events.append(TaskDone(self.task, self.record(), self._number))


_BLANK_ROUNDS = 100  # a stopping rule may wait for ballots, and the budget is 100,000 rounds
