"""A task on its way through a replay: the real session, with the log in place of generator and verifier."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from draftverify.engine.failures import raised
from draftverify.engine.requests import Answer, Ask, Decide, Draft, Finish, Prepare, Request, Verify
from draftverify.engine.session import Session
from draftverify.lab.replay.drafts import Drafts
from draftverify.lab.replay.log import Gap, Log, Missing, Origin
from draftverify.lab.replay.question import ReplayQuestion
from draftverify.lab.replay.words import Words
from draftverify.rejection.refusals import troubles_of
from draftverify.traits import is_asynchronous, name_of
from draftverify.values import Context, Cost, Decision, Round, Task, TaskRecord


class Replayed(msgspec.Struct, frozen=True):
    """A replayed task: its new record, or the gap in the log.

    Args:
        task: its id.
        record: as a run would have made it, None where the log cannot answer.
        gap: why it cannot.
        at_most: whether its seconds are an upper bound: a shorter block, one that was put together from several
            recorded ones, or one that would have been looked at less far, is charged what those took.
        estimated: whether they are an estimate instead: blocks of its size were timed, or a stage that was given other
            items than in the run is charged its share of the passes.
        cost_at_most: whether its cost is an upper bound, for the same reasons.
    """

    task: str
    record: TaskRecord | None
    gap: Gap | None = None
    at_most: bool = False
    estimated: bool = False
    cost_at_most: bool = False


class Replay(ReplayQuestion):
    """A `ReplayQuestion` that is answered task by task."""

    def task(self, task: Task, record: TaskRecord, *, memory: int = 0) -> Replayed:
        """Replay one task.

        Args:
            task: as it was recorded.
            record: its latest attempt's.
            memory: the version of the memory that it was made under; above 0 earlier tasks' outcomes were seen.
        """
        driven = _Driven(self, task, record, memory)
        try:
            replayed = driven.run()
        except Missing as missing:
            return Replayed(task.id, None, Gap(task.id, driven.round, str(missing)))
        doubt = driven.log.doubt
        at_most = doubt.at_most and not doubt.estimated
        return Replayed(task.id, replayed, None, at_most, doubt.estimated, doubt.cost_at_most)


class _Driven:
    """One task on its way through the replay."""

    def __init__(self, question: ReplayQuestion, task: Task, record: TaskRecord, memory: int) -> None:
        self.question = question
        self.log = Log(question, task, record, memory)
        self.drafted = Drafts(self.log)
        self.words = Words(self.log)
        self._broken = ""
        self._decision: Decision | None = None  # of a rule that is not asked
        self._seconds = self._cost = 0.0  # of the round that is under way
        pipeline = copy.copy(question.pipeline)
        if pipeline.done is not None:
            pipeline.done = self._done
        if pipeline.learns:
            pipeline.block, pipeline.learns, pipeline.settles = self, False, False
        self.pipeline = pipeline
        self.session = Session(pipeline, task, attempt=record.attempt, restore=self._restored())

    @property
    def round(self) -> int:
        """The number of the round that is under way."""
        return len(self.session.rounds)

    def run(self) -> TaskRecord:
        """The task's record.

        Raises:
            Missing: the log cannot answer.
        """
        session = self.session
        while (request := session.request) is not None:
            self._whole()
            self._within_budget()
            self.log.took = 0.0
            value, place = self._answer(request), self.round
            cost = getattr(value, "cost", None) or Cost(self.log.took)
            self._seconds += self.log.took if cost.seconds is None else cost.seconds
            self._cost += cost.amount
            session.answer(request.id, value, self.log.took)
            if self.round > place:
                self._seconds = self._cost = 0.0
                self.log.drafted_anew = self.log.judged_anew = False
        self._whole()
        self._within_budget()
        return session.record()

    def _within_budget(self) -> None:
        """Raises: Missing: whether a budget is spent hangs on a cost that is not known exactly."""
        doubt, budget, state = self.log.doubt, self.pipeline.budget, self.session.state
        rounds = self.session.rounds
        over = self.session.outcome is not None and len(rounds) > 0 and rounds[len(rounds) - 1].decision.done
        if over:
            return
        seconds = state.seconds + doubt.excess + self._seconds
        timed = not (doubt.at_most or doubt.estimated)
        if not timed and budget.seconds is not None and seconds >= budget.seconds:
            raise Missing(f"whether the budget of {budget.seconds:g} seconds was spent by here is not known")
        if doubt.cost_at_most and budget.cost is not None and state.cost + self._cost >= budget.cost:
            raise Missing(f"whether the cost budget of {budget.cost:g} was spent by here is not known")

    def _whole(self) -> None:
        """Raises: Missing: something that the session called itself did."""
        if self._broken:
            raise Missing(self._broken)

    def _answer(self, request: Request) -> Any:
        if isinstance(request, Draft):
            fallback = self.session.state.fallback
            trusted = fallback is not None and not fallback.verified
            return self.drafted.draft(request, self.pipeline, trusted=trusted)
        if isinstance(request, Verify):
            return self.words.verify(request)
        if isinstance(request, Decide | Finish):
            return self._call(request)
        if isinstance(request, Prepare):
            was = self.log.was
            return was.outcome.failure if not was.rounds and was.outcome.failure else self._prepared(request)
        assert isinstance(request, Ask)
        return self._person(request)

    def _prepared(self, request: Prepare) -> Any:
        """The task, as parts that answer again are to see it; where it cannot be had, they say that they lack it."""
        if self.question.asks and not is_asynchronous(request.part):
            try:
                return request.call(*request.arguments)
            except BaseException as error:
                raised(error)
        return self.log.task

    def _person(self, request: Ask) -> Answer | None:
        """The person's recorded answer to the same question; None where nobody was there."""
        log, context = self.log, self.session.state.context
        place = context.round
        if not log.as_recorded(context) or log.candidates[place] != request.candidate:
            if self.question.answered:
                raise Missing("a person would be asked something that nobody was asked in the run")
            return None
        if place < len(log.rounds):
            round = log.rounds[place]
            log.block, log.decides = [Origin(place, 0)], round.timing.decide
            return Answer("accept") if round.by == "person" else Answer("edit", round.items[0])
        outcome = log.was.outcome
        if outcome.status == "failed":
            raise Missing("the question to a person failed in the record")
        return None if outcome.status == "waiting" else Answer("reject", note=outcome.reason)

    # What the session calls itself

    def _done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        stop = self.question.pipeline.done
        assert stop is not None
        recorded = self._decision
        if recorded is not None and "done" not in self.question.changed:
            return len(recorded.emitted) if recorded.done else None
        try:
            keep = stop(context, new)
        except BaseException as error:
            self._broken = (
                f"the stopping rule {name_of(stop)} cannot be asked without its parts ({raised(error)})"
            )
            raise
        if recorded is not None and keep is None and recorded.done:
            self._broken = "the record ends here, and the task would have gone on"
        if recorded is not None and keep is not None and recorded.drift and keep > len(recorded.emitted):
            self._broken = "the drift of values that were cut off was not recorded"
        return keep

    def size(self, context: Context) -> int:
        """The recorded size, in place of a controller that learned."""
        if not self.log.as_recorded(context) or context.round >= len(self.log.rounds):
            self._broken = (
                "the block size was chosen by what was learned, and here the rounds before are others"
            )
            raise Missing(self._broken)
        round = self.log.rounds[context.round]
        if round.undrafted and self.pipeline.undrafted is None:
            self._broken = "nothing was drafted: the task went to a fallback at once, and here there is none"
            raise Missing(self._broken)
        return round.asked

    def drafts(self, context: Context) -> bool:
        """Whether the task was drafted for, in place of a controller that learned."""
        rounds = self.log.rounds
        return not (
            self.log.as_recorded(context) and context.round < len(rounds) and rounds[context.round].undrafted
        )

    def observe(self, context: Context, round: Round) -> None:
        """Nothing is learned."""

    def _restored(self) -> tuple[Round, ...]:
        """The first rounds, as far as the change cannot have touched them."""
        changed, rounds = self.question.changed, self.log.rounds
        if not changed:
            return rounds
        if changed != {"on_rejection"}:
            return ()
        partial = self.pipeline.partial
        for place, round in enumerate(rounds):
            beside = partial and round.by == "verifier" and troubles_of(round.checks, round.decision)
            unanswered = not (round.decision.progress or round.decision.done)
            if round.trouble or round.steps or beside or unanswered:
                return rounds[:place]
        return rounds

    # The rule

    def _decided(self, request: Decide) -> Decision:
        """What the rule decided in the record, on the same block after the same rounds.

        Whether it was the rule or the stopping rule that ended the task the record does not say: `_done` does.
        """
        context = request.context
        if not self.log.block_as_recorded(context) or self.log.rounds[context.round].failure is not None:
            lacking = ", ".join(sorted(self.question.undecidable))
            raise Missing(
                f"the rule {name_of(request.part)} needs {lacking} to decide, which was not recorded"
            )
        round = self.log.rounds[context.round]
        done = round.decision.done and self.question.recorded.done is None
        self._decision = round.decision
        return msgspec.structs.replace(round.decision, emitted=(), done=done, tokens=round.tokens)

    def _call(self, request: Decide | Finish) -> Any:
        if isinstance(request, Decide):
            self.log.took, self.log.decides = self.log.decides, 0.0
            if self.question.undecidable and not self.log.judged_anew:
                return self._decided(request)
        try:
            return request.call(*request.arguments)
        except Missing:
            raise
        except BaseException as error:
            return raised(error)
