"""One task's state machine, sans-IO: it hands out requests and takes answers, and does nothing else.

A session never calls a component, reads a clock or sleeps. All state changes when a `Round` is applied, so a
session is restored by applying recorded rounds; nothing is decided twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple, replace

from draftverify.calibration.acceptance import tally
from draftverify.engine.events import Event, RoundDone, StepTaken, TaskDone, TaskStarted
from draftverify.engine.randomness import Draws, stream_key
from draftverify.engine.requests import Answer, Ask, Decide, Draft, Finish, Prepare, Request, Verify
from draftverify.errors import ContractError, DraftVerifyError
from draftverify.values import (
    Candidate,
    Check,
    Context,
    Cost,
    Decision,
    Failure,
    Feedback,
    Held,
    Last,
    Memory,
    Outcome,
    Proposal,
    Round,
    Step,
    Tally,
    Task,
    TaskRecord,
    Timing,
    Trail,
    Trouble,
    Verification,
    check_decision,
    check_proposal,
    check_verification,
    prefix,
)

if TYPE_CHECKING:
    from draftverify.engine.pipeline import Pipeline
    from draftverify.rejection import Clause

__all__ = ["Session"]


class _Again(msgspec.Struct, frozen=True, eq=False):
    """A verification of which some checks are being made again, and which."""

    verification: Verification
    indices: tuple[int, ...]


_NOTHING = Proposal.chain(())


class _Open:
    """What the round that is under way has come to so far.

    `accepted` and `rounds` are those before it, as every one of its contexts shows them. One object serves all rounds
    of a task, since making one takes longer than all else that is done with it.
    """

    __slots__ = (
        "accepted", "again", "asked", "batch", "busy", "decide", "draft", "passes", "proposal", "rounds", "source",
        "steps", "units", "verification", "verify",
    )  # fmt: skip

    accepted: Trail
    rounds: Trail
    asked: int
    source: str
    proposal: Proposal
    verification: Verification | None
    again: _Again | None
    steps: tuple[Step, ...]
    draft: float
    verify: float
    decide: float
    busy: float
    units: float
    passes: int
    batch: int

    def begin(self, accepted: Trail, rounds: Trail) -> None:
        """A round in which nothing has happened yet."""
        self.accepted = accepted
        self.rounds = rounds
        self.asked = 0
        self.source = "generator"
        self.proposal = _NOTHING
        self.verification = None
        self.again = None
        self.steps = ()
        self.draft = self.verify = self.decide = self.busy = self.units = 0.0
        self.passes = 0
        self.batch = 1


class Session:
    """One task on its way through a pipeline.

    Args:
        pipeline: the parts and settings; never called from here.
        task: the unit of work.
        attempt: the infrastructure re-run.
        memory: a snapshot of earlier tasks.
        restore: rounds recorded before; they are applied and not decided again.

    Attributes:
        listened: whether events are kept until they are asked for; a driver that has no listener sets it False.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        task: Task,
        *,
        attempt: int = 0,
        memory: Memory | None = None,
        restore: Iterable[Round] = (),
    ) -> None:
        self.pipeline = pipeline
        self.task = task
        self.outcome: Outcome | None = None
        self.listened = True
        self.scratch: dict[Any, Any] = {}
        self.rounds: list[Round] = []
        self._attempt = attempt
        self._memory = memory or Memory()
        self._accepted: list[Any] = []
        self._held: tuple[Held, ...] = ()
        self._last: Last | None = None
        self._feedback: tuple[Feedback, ...] = ()
        self._seconds = 0.0
        self._units = 0.0
        self._passes = 0
        self._refused: Candidate | None = None
        self._tries = 0
        self._used = [0] * len(pipeline.policy.clauses)
        self._fallback: Clause | None = None
        self._fallback_left: int | None = None
        self._events: list[Event] = [TaskStarted(task)]
        self._keys = tuple(
            stream_key(pipeline.seed, task.id, attempt, role) for role in ("draft", "verify", "rule")
        )
        self._ending: tuple[str, str, Failure | None] = ("accepted", "", None)
        self._rounds_within = pipeline.budget.rounds_within
        self._id = count(1).__next__
        for round in restore:
            self._apply(round)
        self._open = _Open()
        self._open.begin(Trail(self._accepted), Trail(self.rounds))
        self._request: Request | None = None
        if pipeline.prepares:
            self._request = Prepare(self._id(), task)
        else:
            self._proceed()

    # What a driver sees

    def requests(self) -> tuple[Request, ...]:
        """What the session wants done now; empty once there is an outcome."""
        return () if self._request is None else (self._request,)

    def events(self) -> list[Event]:
        """What happened since this was last asked."""
        events, self._events = self._events, []
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
        )

    def answer(self, id: int, value: Any, seconds: float = 0.0, busy: float | None = None) -> None:
        """Take the answer to the request `id`.

        Args:
            id: of the request.
            value: what the component returned, or a Failure.
            seconds: how long the call took.
            busy: this session's share of a call that served several; all of it when None.

        Raises:
            DraftVerifyError: when `id` is not the open request's.
        """
        request = self._request
        if request is None or request.id != id:
            raise DraftVerifyError(f"request {id} is not open in task {self.task.id!r}")
        self._request = None
        current = self._open
        if type(request) is Decide:
            current.decide += seconds
            current.busy += seconds if busy is None else busy
            self._decided(request, value)
        elif type(request) is Verify:
            current.verify += self._charge(seconds, busy, getattr(value, "cost", None))
            current.passes += 1
            current.batch = round(seconds / busy) if busy else 1
            self._verified(request, value)
        elif type(request) is Draft:
            current.draft += self._charge(seconds, busy, getattr(value, "cost", None))
            self._drafted(request, value)
        elif type(request) is Finish:
            self._finished(value)
        elif type(request) is Ask:
            self._asked_person(request, value)
        else:
            self._prepared(value)

    # The steps of a round

    def _charge(self, seconds: float, busy: float | None, cost: Cost | None) -> float:
        """Count a call's machine time and units; its seconds are the clock's, or what it reports itself."""
        current = self._open
        if cost is not None:
            current.units += cost.units
            if cost.seconds is not None:
                seconds, busy = cost.seconds, None
        current.busy += seconds if busy is None else busy
        return seconds

    def _broke(self) -> str | None:
        """Which budget is spent, counting this round's calls so far."""
        if len(self.rounds) < self._rounds_within:
            return None
        current = self._open
        return self.pipeline.budget.exceeded(
            len(self.rounds),
            self._seconds + current.draft + current.verify + current.decide,
            self._passes + current.passes,
            self._units + current.units,
        )

    def _context(self, role: int, enough: int | None = None) -> Context:
        current = self._open
        return Context(
            task=self.task,
            accepted=current.accepted,
            held=self._held,
            rounds=current.rounds,
            last=self._last,
            feedback=self._feedback,
            enough=enough,
            settings=self.pipeline.settings,
            memory=self._memory,
            draws=Draws(self._keys[role], len(self.rounds)),
            scratch=self.scratch,
            attempt=self._attempt,
            tries=self._tries,
        )

    def _prepared(self, value: Any) -> None:
        if type(value) is Failure:
            self._end("failed", f"the verifier could not prepare the task: {value}", value)
        elif type(value) is not Task or value.id != self.task.id:
            failure = Failure(
                "error", "ContractError", "prepare() must return a Task with the id that it was given"
            )
            self._end("failed", failure.message, failure)
        else:
            self.task = value
            self._proceed()

    def _proceed(self) -> None:
        """Go on from the last round: finish, follow its policy step, or draft."""
        last = self.rounds[-1] if self.rounds else None
        if last is not None:
            if last.decision.done:
                self._finish()
                return
            if last.trouble:
                step = last.steps[-1].do if last.steps else None
                if step is None or step in ("reverify", "give_up"):
                    self._stuck(last, step)
                    return
                if step == "escalate":
                    self._request = Ask(self._id(), self.task, self._refused, last.trouble, last.failure)
                    return
        reason = self._broke()
        if reason is None:
            self._draft()
        else:
            self._end("exhausted", reason)

    def _draft(self) -> None:
        context = self._context(0)
        try:
            n = self.pipeline.block.size(context)
        except Exception as error:
            self._end("failed", f"the block size could not be chosen: {error}", Failure.of(error))
            return
        generator = self.pipeline.generator
        clause = self._fallback
        if clause is not None:
            self._open.source = clause.name
            generator, n = clause.generator, max(n, 1)
        self._open.asked = n
        if n == 0:
            self._to_verify(_NOTHING, context)
        else:
            self._request = Draft(self._id(), context, n, generator)

    def _drafted(self, request: Draft, value: Any) -> None:
        if type(value) is not Failure:
            pipeline = self.pipeline
            shape, laws = pipeline.declared[id(request.generator)]
            try:
                check_proposal(value, request.n, shape, pipeline.shapes, laws, len(self._held))
            except ContractError as error:
                value = _broken(error, request.generator)
        if type(value) is Failure:
            self._no_progress(Decision(), (value.kind,), value)
            return
        clause = self._fallback
        self._open.proposal = value
        if clause is not None and not clause.verified and len(value):
            self._take_unverified(len(value) if value.fits("chain") else 1)
        elif value.exhausted and not len(value.items):
            self._no_progress(Decision(), ("exhausted",))
        else:
            self._to_verify(value, request.context)

    def _to_verify(self, proposal: Proposal, context: Context) -> None:
        """Ask for a pass over the block that was drafted in `context`."""
        self._open.proposal = proposal
        if self._broke() is None:
            draws = Draws(self._keys[1], len(self.rounds))
            context = replace(context, draws=draws, enough=self.pipeline.enough)
            self._request = Verify(self._id(), context, proposal)
        else:
            self._settle(Decision(), (), False, ("exhausted",))

    def _verified(self, request: Verify, value: Any) -> None:
        if type(value) is not Failure:
            try:
                check_verification(value, len(request.proposal.items))
            except ContractError as error:
                value = _broken(error, self.pipeline.verifier)
        if type(value) is Failure:
            self._no_progress(Decision(), (value.kind,), value)
            return
        current = self._open
        if current.again is not None:
            value = _merge(current.again, value)
            current.again = None
        current.verification = value
        rng = Draws(self._keys[2], len(self.rounds))
        self._request = Decide(self._id(), request.context, current.proposal, value, rng)

    def _decided(self, request: Decide, value: Any) -> None:
        proposal = request.proposal
        if type(value) is not Failure:
            try:
                check_decision(value, len(proposal.items), len(self._held))
            except ContractError as error:
                value = _broken(error, self.pipeline.rule)
        if type(value) is Failure:
            self._no_progress(Decision(), (value.kind,), value, can_reverify=False)
            return
        if value.items:
            self._open.proposal = proposal = replace(proposal, items=value.items)
            value = replace(value, items=())
        try:
            emitted, done = self._cut(value, request.context)
        except Exception as error:
            self._no_progress(Decision(), ("error",), Failure.of(error), can_reverify=False)
            return
        if done or value.kept or value.spliced or value.held:
            self._settle(value, emitted, done)
        else:
            self._no_progress(value, _troubles(request.verification.checks, value, proposal))

    def _take_unverified(self, keep: int) -> None:
        decision = Decision(kept=prefix(keep), done=self.pipeline.done is None)
        try:
            emitted, done = self._cut(decision, self._context(1))
        except Exception as error:
            self._no_progress(Decision(), ("error",), Failure.of(error), can_reverify=False)
        else:
            self._settle(decision, emitted, done)

    def _no_progress(
        self,
        decision: Decision,
        troubles: tuple[Trouble, ...],
        failure: Failure | None = None,
        *,
        can_reverify: bool = True,
    ) -> None:
        """Ask the policy; a re-verification stays inside this round, any other step follows it."""
        failed = self._failed_checks() if failure is None else ()
        whole = failure is not None and self._open.passes > 0
        used = list(self._used)
        for step in self._open.steps:
            used[step.clause] += 1
        can_reverify = can_reverify and (whole or bool(failed)) and self._broke() is None
        policy = self.pipeline.policy
        place = policy.next(troubles, used, can_reverify=can_reverify)
        if place is not None:
            clause = policy.clauses[place]
            on = next(trouble for trouble in troubles if not clause.on or trouble in clause.on)
            step = Step(place, clause.do, on)
            self._open.steps += (step,)
            if self.listened:
                self._events.append(StepTaken(self.task, len(self.rounds), step))
            if clause.do == "reverify":
                self._verify_again(failed)
                return
        self._settle(decision, (), False, troubles, failure)

    def _failed_checks(self) -> tuple[int, ...]:
        if self._open.verification is None:
            return ()
        checks = self._open.verification.checks
        return tuple(i for i, check in enumerate(checks) if check.verdict in ("error", "timeout", "abstain"))

    def _verify_again(self, failed: tuple[int, ...]) -> None:
        """Check the failed alternatives again, and only those; of a chain or tree, the whole block."""
        current = self._open
        proposal = current.proposal
        if failed and proposal.fits("alternatives"):
            assert current.verification is not None
            current.again = _Again(current.verification, failed)
        if current.again is not None:
            proposal = proposal.subset(current.again.indices)
        self._request = Verify(self._id(), self._context(1, self.pipeline.enough), proposal)

    def _new_values(self, decision: Decision) -> tuple[Any, ...]:
        kept = decision.kept
        items = _host(self._open.proposal.items)
        if kept == prefix(len(kept)):
            return items[: len(kept)] + decision.spliced
        return tuple([items[i] for i in kept]) + decision.spliced

    def _new_held(self, decision: Decision) -> tuple[Held, ...]:
        items, index = _host(self._open.proposal.items), len(self.rounds)
        verification = self._open.verification
        checks = verification.checks if verification is not None else ()
        return tuple(Held(items[i], checks[i].score if checks else None, index, i) for i in decision.held)

    def _cut(self, decision: Decision, context: Context) -> tuple[tuple[Any, ...], bool]:
        """Ask the stopping rule, which sees the verifier's `context` as it would be after this round."""
        new = self._new_values(decision)
        done = self.pipeline.done
        if done is None:
            return new, decision.done
        held, last, current = self._held, self._last, self._open
        if decision.held or decision.released:
            held = _after(held, decision, self._new_held(decision))
        if current.verification is not None:
            last = Last(current.proposal, current.verification, decision)
        accepted = self._accepted
        before = len(accepted)
        accepted.extend(new)
        try:
            after = replace(context, accepted=Trail(accepted), held=held, last=last, enough=None)
            keep = done(after, new)
        finally:
            del accepted[before:]
        return (new, decision.done) if keep is None else (new[:keep], True)

    def _settle(
        self,
        decision: Decision,
        emitted: tuple[Any, ...],
        done: bool,
        troubles: tuple[Trouble, ...] = (),
        failure: Failure | None = None,
    ) -> None:
        """Make the round's record, apply it, and go on."""
        current = self._open
        proposal, verification = current.proposal, current.verification
        items = _host(proposal.items)
        checks = verification.checks if verification is not None else ()
        # What is seldom there is added after: CPython passes more than fifteen keywords through a dict, which takes
        # longer than all else in a round's record.
        round = Round(
            index=len(self.rounds),
            tries=self._tries,
            source=current.source,
            items=items,
            parents=proposal.parents,
            law=proposal.law.kind,
            asked=current.asked,
            checks=checks,
            decision=replace(decision, drift=decision.drift[: len(emitted)], done=done, emitted=emitted),
            tally=_NO_TRIALS if verification is None else tally(len(items), checks, decision),
            timing=Timing(
                current.draft,
                current.verify,
                current.decide,
                current.busy,
                current.units,
                current.passes,
                current.batch,
            ),
            trouble=troubles,
            steps=current.steps,
            failure=failure,
            deterministic=self.pipeline.deterministic
            and (verification is None or verification.deterministic),
        )
        if proposal.exhausted or proposal.nested or decision.held:
            held = self._new_held(decision)
            round = replace(round, exhausted=proposal.exhausted, nested=proposal.nested, held=held)
        if verification is not None and (verification.correction or verification.notes):
            notes = dict(verification.notes) if verification.notes else None
            round = replace(round, correction=verification.correction, notes=notes)
        if self.pipeline.learns and current.source == "generator":
            self.pipeline.block.observe(self._context(0), round)
        self._last = None if verification is None else Last(proposal, verification, round.decision)
        self._apply(round)
        if self.listened:
            self._events.append(RoundDone(self.task, round))
        current.begin(Trail(self._accepted), Trail(self.rounds))
        self._proceed()

    def _apply(self, round: Round) -> None:
        """The one place where a round changes the state; a restored round comes through here too."""
        self._accepted.extend(round.decision.emitted)
        if round.held or round.decision.released:
            self._held = _after(self._held, round.decision, round.held)
        self.rounds.append(round)
        timing = round.timing
        self._seconds += timing.draft + timing.verify + timing.decide
        self._passes += timing.passes
        self._units += timing.units
        self._feedback = ()
        if (
            self._fallback_left is not None
            and self._fallback is not None
            and round.source == self._fallback.name
        ):
            self._fallback_left -= 1
            if self._fallback_left == 0:
                self._fallback = self._fallback_left = None
        if not round.trouble:
            # Clauses are counted with the tries that they led to.
            if self._tries:
                self._tries = 0
                self._used = [0] * len(self._used)
            return
        self._tries += 1
        self._note_refused(round)
        for step in round.steps:
            self._used[step.clause] += 1
        if round.steps:
            clause = self.pipeline.policy.clauses[round.steps[-1].clause]
            if clause.do == "fallback":
                self._fallback, self._fallback_left = clause, clause.rounds
            elif clause.do == "feedback":
                self._feedback = _feedback_on(round)

    def _note_refused(self, round: Round) -> None:
        """Remember the best refused candidate: the highest score, the later one of equals."""
        reasons = {refusal.index: refusal.reason for refusal in round.decision.refused}
        for index, item in enumerate(round.items):
            check = round.checks[index] if round.checks else None
            if index not in reasons and (check is None or check.verdict == "unchecked"):
                continue
            score = check.score if check is not None else None
            best = self._refused.score if self._refused is not None else None
            if best is not None and (score is None or score < best):
                continue
            reason = (check.reason if check is not None else "") or reasons.get(index, "")
            self._refused = Candidate(item, score, reason, check.feedback if check is not None else "")

    def _asked_person(self, request: Ask, value: Any) -> None:
        if value is None or (isinstance(value, Answer) and value.kind == "skip"):
            self.outcome = self._make_outcome("waiting", None, "a person is asked", None)
            if self.listened:
                self._events.append(TaskDone(self.task, self.record()))
            return
        if type(value) is Failure:
            self._end("failed", f"the question to a person failed: {value}", value)
            return
        current = self._open
        current.source = "person"
        if value.kind == "reject":
            self._end("exhausted", value.note or "rejected by a person")
        elif value.kind == "edit":
            current.asked = 1
            self._to_verify(Proposal.chain((value.value,)), self._context(0))
        elif request.candidate is None:
            failure = Failure(
                "error", "ContractError", "there is no candidate to accept; edit, reject or skip"
            )
            self._end("failed", failure.message, failure)
        else:
            current.asked = 1
            current.proposal = Proposal.chain((request.candidate.value,))
            self._take_unverified(1)

    # The end

    def _stuck(self, last: Round, step: str | None) -> None:
        """End where there was no progress and no policy step leads on."""
        reason = "; ".join(_WORDS[trouble] for trouble in last.trouble)
        broke = self._broke()
        if last.failure is not None:
            status, reason = "failed", str(last.failure)
        elif broke is not None:
            status, reason = "exhausted", broke
        elif set(last.trouble) <= {"error", "timeout"}:
            status = "failed"
        else:
            status = "abstained" if last.trouble == ("abstain",) else "exhausted"
        if step != "give_up" and self._used:
            reason += "; no policy step is left"
        self._end(status, reason, last.failure)

    def _end(self, status: str, reason: str, failure: Failure | None = None) -> None:
        self._ending = (status, reason, failure)
        self._finish()

    def _finish(self) -> None:
        if self.pipeline.finishes and (self._accepted or self._held):
            self._request = Finish(self._id(), self._context(1))
        else:
            status = self._ending[0]
            value = (
                tuple(self._accepted)
                if not self.pipeline.finishes and (self._accepted or status == "accepted")
                else None
            )
            self._conclude(value)

    def _finished(self, value: Any) -> None:
        if type(value) is Failure:
            self._ending = ("failed", f"the value could not be made: {value}", value)
            value = None
        self._conclude(value)

    def _conclude(self, value: Any) -> None:
        status, reason, failure = self._ending
        if status == "accepted" and value is None:
            status, reason = "abstained", reason or "no answer came of what was held"
        self.outcome = self._make_outcome(status, value, reason, failure)
        if self.listened:
            self._events.append(TaskDone(self.task, self.record()))

    def _make_outcome(self, status: Any, value: Any, reason: str, failure: Failure | None) -> Outcome:
        return Outcome(
            status=status,
            value=value,
            reason=reason,
            refused=self._refused if status != "accepted" else None,
            failure=failure,
            rounds=len(self.rounds),
            tally=_total([round.tally for round in self.rounds]),
            drift=math.fsum([value for round in self.rounds for value in round.decision.drift]),
            seconds=self._seconds,
            units=self._units,
        )


_NO_TRIALS = Tally()
_WORDS = {
    "reject": "every candidate was refused",
    "error": "checks failed",
    "timeout": "checks timed out",
    "abstain": "the verifier could not tell",
    "exhausted": "the generator has nothing more to propose",
}


def _total(tallies: list[Tally]) -> Tally:
    """Their sum, count by count, with no Tally made for each term."""
    return Tally(*map(sum, zip(*map(astuple, tallies), strict=True)))


def _broken(error: ContractError, component: Any) -> Failure:
    return Failure("error", "ContractError", f"{type(component).__name__}: {error}")


def _host(items: Any) -> tuple[Any, ...]:
    if type(items) is tuple:
        return items
    return tuple(items.tolist()) if hasattr(items, "tolist") else tuple(items)


def _after(before: tuple[Held, ...], decision: Decision, held: tuple[Held, ...]) -> tuple[Held, ...]:
    if decision.released:
        gone = set(decision.released)
        before = tuple(entry for index, entry in enumerate(before) if index not in gone)
    return before + held if held else before


def _troubles(checks: tuple[Check, ...], decision: Decision, proposal: Proposal) -> tuple[Trouble, ...]:
    """What stood in the way, each kind once: failed checks first, since they may hide a pass."""
    verdicts = {check.verdict for check in checks}
    found: list[Trouble] = [kind for kind in ("error", "timeout", "abstain") if kind in verdicts]
    if "reject" in verdicts or decision.refused:
        found.append("reject")
    if proposal.exhausted or not found:
        found.append("exhausted" if proposal.exhausted or not len(proposal) else "reject")
    return tuple(dict.fromkeys(found))


def _feedback_on(round: Round) -> tuple[Feedback, ...]:
    reasons = {refusal.index: refusal.reason for refusal in round.decision.refused}
    found = []
    for index, item in enumerate(round.items):
        check = round.checks[index] if round.checks else None
        if check is not None and check.verdict in ("reject", "abstain"):
            found.append(Feedback(item, check.reason or reasons.get(index, ""), check.feedback))
        elif index in reasons:
            found.append(Feedback(item, reasons[index], check.feedback if check is not None else ""))
    return tuple(found)


def _merge(again: _Again, later: Verification) -> Verification:
    """The first verification with the checks that were made again in their places."""
    checks = list(again.verification.checks)
    for place, check in zip(again.indices, later.checks, strict=True):
        checks[place] = check
    return replace(
        again.verification,
        checks=tuple(checks),
        deterministic=again.verification.deterministic and later.deterministic,
        notes={**again.verification.notes, **later.notes},
    )
