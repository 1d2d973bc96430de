"""Replay: what another rule, block, policy, stopping rule or budget would have made of a recorded task.

The session is the real one, and so are the rule, the policy and the stopping rule. The generator and the verifier
answer from the records: the drafts of a task in the places where they were drafted, and the checks of their items. What
the log does not hold is a `Gap`, which names the task, the round and why; nothing is guessed.

A generator says with `drafts_from` what its drafts depend on (see `draftverify.protocols`). One that does not say is
served only where all that its context shows is as it was recorded, and only whole blocks. A verifier's word on an item
is taken to depend on the task, on the values accepted before it and on the items that it stands on, which is what the
conformance kit holds verifiers to.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from draftverify.calibration.costs import CostModel, fit_costs
from draftverify.engine.boundary import raised
from draftverify.engine.parts import Parts, name_of
from draftverify.engine.requests import Ask, Decide, Draft, Finish, Prepare, Request, Verify
from draftverify.engine.session import Session
from draftverify.engine.state import troubles_of
from draftverify.errors import ConfigError
from draftverify.records.encoding import timeless
from draftverify.values import (
    UNCHECKED,
    Check,
    Context,
    Cost,
    Failure,
    Outcome,
    Proposal,
    Round,
    Task,
    TaskRecord,
    Verification,
    chain_parents,
)

__all__ = ["CHANGES", "Change", "DraftsFrom", "Gap", "Replay", "Replayed"]

Change: TypeAlias = Literal["rule", "block", "done", "on_rejection", "budget"]
CHANGES: tuple[Change, ...] = get_args(Change)
"""What a replay may set; the rest of a pipeline is what the log was made with."""

DraftsFrom: TypeAlias = Literal["list", "continuation", "accepted", "round"]

_CHECKS = frozenset({"verdicts", "scores"})


class Gap(msgspec.Struct, frozen=True):
    """What the log cannot answer.

    Args:
        task: of which.
        round: of the replay, from 0.
        why: what is not recorded.
    """

    task: str
    round: int
    why: str

    def __str__(self) -> str:
        return f"task {self.task}, round {self.round}: {self.why}"


class Replayed(msgspec.Struct, frozen=True):
    """What became of one task.

    Args:
        task: its id.
        record: as a run would have made it, None where the log cannot answer.
        gap: why it cannot.
        at_most: whether its seconds and units are upper bounds: a shorter block, or one that was put together from
            several recorded ones, is charged what the recorded ones took, unless blocks of its size were timed.
    """

    task: str
    record: TaskRecord | None
    gap: Gap | None = None
    at_most: bool = False


class _Missing(Exception):
    """The log does not hold what is asked of it."""


class _Absent(Mapping[str, Any]):
    """The evidence of a recorded proposal, which no record holds."""

    def __getitem__(self, key: str) -> Any:
        raise _Missing(f"the rule reads {key!r} of the proposal's evidence, which was not recorded")

    def __iter__(self) -> Iterator[str]:
        raise _Missing("the rule reads the proposal's evidence, which was not recorded")

    def __len__(self) -> int:
        raise _Missing("the rule reads the proposal's evidence, which was not recorded")


class _Origin(NamedTuple):
    """A recorded item: of which round, and its place in the block."""

    round: int
    place: int


class Replay:
    """A pipeline's records, and what is asked of them.

    Args:
        recorded: the pipeline that made the records.
        records: all of them; what blocks cost is fitted from them.
        pipeline: the same with something changed. Generators and the verifier are not called; a fallback that drafted
            in the records is the same object as in `recorded`.
        changed: what differs.
        drafts_from: of the generators that do not say what their drafts depend on, the caller's word for it.

    Raises:
        ConfigError: no record could answer it: a rule that needs evidence which is not recorded, a block size that
            learns as it goes.
    """

    def __init__(
        self,
        recorded: Parts,
        records: Sequence[TaskRecord],
        pipeline: Parts,
        *,
        changed: frozenset[Change],
        drafts_from: DraftsFrom | None = None,
    ) -> None:
        self.recorded = recorded
        self.pipeline = pipeline
        self.changed = changed
        self._drafts_from = drafts_from
        self._parts = [recorded.generator]  # by their numbers in places
        for clause in recorded.policy.clauses:
            if clause.generator is not None and not any(clause.generator is each for each in self._parts):
                self._parts.append(clause.generator)
        unrecorded = frozenset(getattr(pipeline.rule, "needs", _CHECKS)) - _CHECKS
        if unrecorded and changed - {"on_rejection"}:
            raise ConfigError(
                f"the rule {name_of(pipeline.rule)} needs {', '.join(sorted(unrecorded))}, and the records hold checks "
                "alone; only changes of the policy can be replayed for it",
                path="rule",
            )
        self.undecidable = unrecorded
        if "block" in changed and pipeline.learns:
            raise ConfigError(
                f"the block {name_of(pipeline.block)} chooses by what it learns as it goes, which no record says; "
                "replay numbers",
                path="block",
            )
        costs = _fitted(records)
        self.curves = {"draft": costs.draft, "verify": costs.verify} if costs is not None else {}
        self.stops = _stops_early(recorded, records)
        self.corrects = any(round.correction for record in records for round in record.rounds)

    def task(self, task: Task, record: TaskRecord, *, memory: int = 0) -> Replayed:
        """Replay one task.

        Args:
            task: as it was recorded.
            record: its latest attempt's.
            memory: the version of the memory that it was made under; above 0 earlier tasks' outcomes were seen.
        """
        driven = _Driven(self, task, record, memory)
        try:
            made = driven.run()
        except _Missing as missing:
            return Replayed(task.id, None, Gap(task.id, driven.round, str(missing)))
        return Replayed(task.id, made, None, driven.at_most)

    def number(self, part: Any) -> int | None:
        """The number of a generator; None for one that is in no record."""
        if part is self.pipeline.generator:
            return 0
        return next((place for place, each in enumerate(self._parts) if part is each), None)

    def source(self, name: str, pipeline: Parts) -> int | None:
        """The number of the generator that a round's source names."""
        if name == "generator":
            return 0
        clauses = pipeline.policy.clauses
        found = (each.generator for each in clauses if each.generator is not None and each.name == name)
        return next((self.number(each) for each in found), None)

    def part(self, number: int) -> Any:
        """The generator of a number."""
        return self._parts[number]

    def kind(self, number: int) -> DraftsFrom | None:
        """What a generator's drafts depend on."""
        said: DraftsFrom | None = getattr(self._parts[number], "drafts_from", None)
        return said or self._drafts_from


class _Driven:
    """One task on its way through the replay."""

    def __init__(self, replay: Replay, task: Task, record: TaskRecord, memory: int) -> None:
        self.replay = replay
        self.task = task
        self.was = record
        self.memory = memory
        self.at_most = False
        self._broken = self._two_things = ""
        self._took = self._decides = 0.0
        self._used: set[_Origin] = set()
        self._block: list[_Origin] = []
        self._verified = -1
        self._items: dict[bytes, list[_Origin]] = {}
        self._ends: dict[bytes, list[int]] = {}
        self._failed: dict[bytes, list[int]] = {}
        self._plain: dict[bytes, list[int]] = {}
        self._before = self._states()
        self._read()
        pipeline = copy.copy(replay.pipeline)
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
            _Missing: the log cannot answer.
        """
        session = self.session
        while (request := session.request) is not None:
            self._whole()
            self._took = 0.0
            value = self._answer(request)
            session.answer(request.id, value, self._took)
        self._whole()
        return session.record()

    def _whole(self) -> None:
        """Raises: _Missing: something that the session called itself did."""
        if self._broken:
            raise _Missing(self._broken)

    def _answer(self, request: Request) -> Any:
        if isinstance(request, Draft):
            return self._draft(request)
        if isinstance(request, Verify):
            return self._verify(request)
        if isinstance(request, Decide | Finish):
            return self._call(request)
        if isinstance(request, Prepare):
            return self.was.outcome.failure if not self.was.rounds and self.was.outcome.failure else self.task
        assert isinstance(request, Ask)
        return None

    # What the session calls itself

    def _done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        stop = self.replay.pipeline.done
        assert stop is not None
        try:
            return stop(context, new)
        except BaseException as error:
            self._broken = (
                f"the stopping rule {name_of(stop)} cannot be asked without its parts ({raised(error)})"
            )
            raise

    def size(self, context: Context) -> int:
        """The recorded size, in place of a controller that learned."""
        if not self._as_recorded(context) or context.round >= len(self.was.rounds):
            self._broken = (
                "the block size was chosen by what was learned, and here the rounds before are others"
            )
            raise _Missing(self._broken)
        round = self.was.rounds[context.round]
        if round.undrafted and self.pipeline.undrafted is None:
            self._broken = "nothing was drafted: the task went to a fallback at once, and here there is none"
            raise _Missing(self._broken)
        return round.asked

    def drafts(self, context: Context) -> bool:
        """Whether the task was drafted for, in place of a controller that learned."""
        rounds = self.was.rounds
        return not (
            self._as_recorded(context) and context.round < len(rounds) and rounds[context.round].undrafted
        )

    def observe(self, context: Context, round: Round) -> None:
        """Nothing is learned."""

    # The log

    def _states(self) -> list[Context]:
        """What was shown before each recorded round, and after the last."""
        recorded = copy.copy(self.replay.recorded)
        recorded.undrafted = None  # else a session may be beyond its first round once it is made
        state = Session(recorded, self.task, attempt=self.was.attempt).state
        found = [state.context]
        for round in self.was.rounds:
            state = state.after(round)
            found.append(state.context)
        return found

    def _restored(self) -> tuple[Round, ...]:
        """The first rounds, as far as the change cannot have touched them."""
        changed, rounds = self.replay.changed, self.was.rounds
        if not changed:
            return rounds
        if changed != {"on_rejection"}:
            return ()
        partial = self.pipeline.partial
        for place, round in enumerate(rounds):
            beside = partial and round.by == "verifier" and troubles_of(round.checks, round.decision)
            if round.trouble or round.steps or beside:
                return rounds[:place]
        return rounds

    def _read(self) -> None:
        """Note where each item was drafted, where blocks ended, and which drafts failed."""
        recorded = self.replay.recorded
        for place, (round, context) in enumerate(zip(self.was.rounds, self._before, strict=False)):
            if not round.items and round.timing.passes and round.failure is None:
                self._plain.setdefault(_key(list(context.accepted)), []).append(place)
            number = self.replay.source(round.source, recorded)
            kind = None if number is None else self.replay.kind(number)
            if number is None or kind is None or not round.asked:
                continue
            items: list[Any] = []
            for index, item in enumerate(round.items):
                key = self._place(kind, number, context, items, recorded)
                known = self._items.setdefault(key, [])
                known.append(_Origin(place, index))
                if _repeats(self.replay.part(number)) and _key(self._item(known[0])) != _key(item):
                    self._two_things = (
                        f"the generator is said to draft from the {kind}, and drafted two things at one place "
                        f"(rounds {known[0].round} and {place} of the record)"
                    )
                items.append(item)
            key = self._place(kind, number, context, items, recorded)
            if not items and round.failure is not None and not round.timing.passes:
                self._failed.setdefault(key, []).append(place)
            elif len(items) < round.asked or round.exhausted:
                self._ends.setdefault(key, []).append(place)

    def _place(
        self, kind: DraftsFrom, number: int, context: Context, items: Sequence[Any], pipeline: Parts
    ) -> bytes:
        """Where the item after these stands, as far as the generator can see."""
        if kind == "list":
            own = (each for each in context.rounds if self.replay.source(each.source, pipeline) == number)
            return _key([kind, number, sum(len(each.items) for each in own) + len(items)])
        accepted = list(context.accepted)
        if kind == "continuation":
            return _key([kind, number, [*accepted, *items]])
        if kind == "round":
            seen = [context.round, accepted, context.feedback, context.refused]
            return _key([kind, number, seen, len(items)])
        since: list[Any] = []
        before: tuple[Round, ...] = tuple(context.rounds)
        for each in reversed(before):
            if each.decision.emitted:
                break
            since.append([each.items, [refusal.index for refusal in each.decision.refused]])
        return _key([kind, number, accepted, context.feedback, context.refused, since, len(items)])

    # The generator

    def _draft(self, request: Draft) -> Any:
        replay, context, n = self.replay, request.context, request.n
        self._block = []
        if self._two_things:
            raise _Missing(self._two_things)
        number = replay.number(request.part)
        if number is None:
            raise _Missing(f"the generator {name_of(request.part)} drafts here, and is in no record")
        kind = replay.kind(number)
        if kind is None:
            return self._as_it_was(request, number)
        items: list[Any] = []
        while len(items) < n:
            key = self._place(kind, number, context, items, self.pipeline)
            if key in self._items:
                origin = self._drawn(request.part, self._items[key], context.round)
                items.append(self._item(origin))
                self._block.append(origin)
            elif key in self._ends:
                break
            elif not items and key in self._failed:
                return self._broke(self.was.rounds[_best(self._failed[key], context.round)], "draft")
            else:
                raise _Missing(self._not_drafted(context, n, len(items)))
        ends = self._ends.get(self._place(kind, number, context, items, self.pipeline))
        end = None if ends is None else _best(ends, self._block[-1].round if self._block else context.round)
        if kind in ("list", "continuation"):
            exhausted = end is not None and self.was.rounds[end].exhausted
        else:
            first = self._block[0].round if self._block else end
            assert first is not None
            exhausted = self.was.rounds[first].exhausted
        self._used |= set(self._block)
        return self._proposal(kind, items, exhausted, end)

    def _as_it_was(self, request: Draft, number: int) -> Any:
        """The recorded round's whole block, for a generator that may read all of its context."""
        context, place = request.context, request.context.round
        rounds = self.was.rounds
        drafter = (
            place < len(rounds) and self.replay.source(rounds[place].source, self.replay.recorded) == number
        )
        if not drafter:
            raise _Missing(self._not_drafted(context, request.n, 0))
        if not self._as_recorded(context):
            raise _Missing(
                "the generator would have seen other rounds before this one than were recorded, and does not say what "
                "its drafts depend on (drafts_from)"
            )
        then = self._before[place]
        if _key([context.feedback, context.refused]) != _key([then.feedback, then.refused]):
            raise _Missing("the generator would have been shown other feedback than was recorded")
        if self.memory and self.replay.changed:
            raise _Missing("the generator saw the outcomes of earlier tasks, which may have been others")
        round = rounds[place]
        if round.asked != request.n:
            raise _Missing(
                f"a block of {request.n} was asked for, the recorded one was of {round.asked}, and the generator does "
                "not say what its drafts depend on (drafts_from)"
            )
        if not round.items and round.failure is not None and not round.timing.passes:
            return self._broke(round, "draft")
        self._block = [_Origin(place, index) for index in range(len(round.items))]
        return self._proposal(None, list(round.items), round.exhausted, place)

    def _as_recorded(self, context: Context) -> bool:
        """Whether the rounds so far are those of the record, but for their times."""
        if context.round > len(self.was.rounds):
            return False
        return _timeless(tuple(context.rounds)) == _timeless(self.was.rounds[: context.round])

    def _not_drafted(self, context: Context, n: int, found: int) -> str:
        if found:
            return (
                f"a block of {n} was asked for, and {found} of it were drafted: no longer block is in the log"
            )
        place, shown = context.round, _key(context.feedback)
        if context.feedback and place < len(self._before) and _key(self._before[place].feedback) != shown:
            return "feedback that the record does not have would have changed the next draft"
        accepted = len(context.accepted)
        return (
            f"nothing was drafted here ({accepted} values accepted): the generator would have drafted again"
        )

    def _drawn(self, part: Any, known: Sequence[_Origin], round: int) -> _Origin:
        """Which of the items that were drafted at one place: that of the block's round, or of the same round."""
        left = known if _repeats(part) else [each for each in known if each not in self._used]
        if not left:
            raise _Missing(
                f"the generator is not deterministic, and would have drafted again what round {known[0].round} of the "
                "record has"
            )
        wanted = self._block[-1].round if self._block else round
        return next((each for each in left if each.round == wanted), left[0])

    def _item(self, origin: _Origin) -> Any:
        return self.was.rounds[origin.round].items[origin.place]

    def _proposal(
        self, kind: DraftsFrom | None, items: Sequence[Any], exhausted: bool, end: int | None
    ) -> Proposal:
        rounds, block = self.was.rounds, self._block
        origin = {each.round for each in block}
        for place in origin:
            if rounds[place].law != "given":
                raise _Missing(
                    f"the items of round {place} of the record were drawn by the law {rounds[place].law}, from a q "
                    "that was not recorded"
                )
        first = rounds[block[0].round] if block else None
        prefix = first is not None and block == [_Origin(block[0].round, i) for i in range(len(items))]
        whole = prefix and first is not None and len(items) == len(first.items)
        if any(rounds[place].nested for place in origin) and not whole:
            raise _Missing("the items came of inner tasks, and a part of them would have run")
        if any(rounds[place].extends for place in origin) and not whole:
            raise _Missing("the items go on from held ones, and stand in another block here")
        if first is not None and prefix:
            parents = first.parents[: len(items)]
        else:
            parents = (-1,) * len(items) if kind == "list" else chain_parents(len(items))
        if whole or not block:
            used = first if first is not None else rounds[end] if end is not None else None
            seconds = used.timing.draft if used is not None else 0.0
        else:
            seconds = self._seconds("draft", len(items))
        self._decides = first.timing.decide if first is not None else 0.0
        units = rounds[end].timing.units if not block and end is not None else 0.0
        return Proposal(
            items=tuple(items),
            parents=parents,
            extends=first.extends if whole and first is not None else (),
            evidence=_Absent() if items else {},
            cost=Cost(seconds, 0.0 if block or not exhausted else units),
            exhausted=exhausted,
            nested=first.nested if whole and first is not None else (),
        )

    def _seconds(self, part: Literal["draft", "verify"], n: int) -> float:
        """Of a block that was put together: what one of its size takes, or at most takes."""
        curve = self.replay.curves.get(part)
        if curve is not None and n in curve.sizes:
            return curve.at(n)
        self.at_most = True
        rounds = sorted({each.round for each in self._block})
        return sum((getattr(self.was.rounds[place].timing, part) for place in rounds), 0.0)

    def _broke(self, round: Round, part: Literal["draft", "verify"]) -> Failure | None:
        """The failure of a recorded call, which took as long as it did."""
        self._took = getattr(round.timing, part)
        return round.failure

    # The verifier

    def _verify(self, request: Verify) -> Any:
        if self._verified == request.context.round:
            raise _Missing("items would have been checked again, and their last check alone was recorded")
        self._verified = request.context.round
        context, proposal, rounds, block = request.context, request.proposal, self.was.rounds, self._block
        if not len(proposal):
            return self._plain_step(context)
        places = sorted({each.round for each in block})
        for place in places:
            if any(step.do == "reverify" for step in rounds[place].steps):
                raise _Missing(
                    f"round {place} of the record was checked again, and the last check alone was recorded"
                )
            if rounds[place].by != "verifier":
                raise _Missing(
                    f"the items of round {place} of the record were passed without the verifier, and have no checks"
                )
        first = rounds[places[0]]
        self._decides = first.timing.decide
        whole = len(places) == 1 and len(block) == len(first.items) and block[0].place == 0
        if not all(rounds[place].checks for place in places):
            if whole and first.failure is not None:
                return self._broke(first, "verify")
            raise _Missing(f"the verifier's call failed in round {places[0]} of the record, and said nothing")
        self._same_before(context, proposal)
        if whole and context.enough == self.replay.recorded.enough:
            checks, correction, notes = first.checks, first.correction, first.notes or {}
            seconds = first.timing.verify
        else:
            checks = self._checks(context, proposal)
            correction = self._correction(places, checks)
            notes = first.notes if whole and first.notes else {}
            looked = [check.verdict != "unchecked" for check in checks]
            as_before = whole and looked == [check.verdict != "unchecked" for check in first.checks]
            seconds = first.timing.verify if as_before else self._seconds("verify", len(proposal))
        units = sum(rounds[place].timing.units for place in places)
        self.at_most = self.at_most or (units > 0 and not whole)
        return Verification(
            checks=checks,
            correction=correction,
            cost=Cost(seconds, units),
            deterministic=all(rounds[place].deterministic for place in places),
            notes=notes,
        )

    def _plain_step(self, context: Context) -> Verification:
        places = self._plain.get(_key(list(context.accepted)))
        if places is None:
            raise _Missing(
                f"the verifier would have gone on by itself after {len(context.accepted)} accepted values, and did so "
                "nowhere in the record"
            )
        round = self.was.rounds[_best(places, context.round)]
        self._decides = round.timing.decide
        return Verification(
            correction=round.correction,
            cost=Cost(round.timing.verify, round.timing.units),
            deterministic=round.deterministic,
            notes=round.notes or {},
        )

    def _same_before(self, context: Context, proposal: Proposal) -> None:
        """Raises: _Missing: an item was checked after other values than stand before it here."""
        for index, origin in enumerate(self._block):
            round, before = self.was.rounds[origin.round], self._before[origin.round]
            path: list[Any] = []
            above = origin.place
            while (above := round.parents[above]) >= 0:
                path.insert(0, round.items[above])
            here = [proposal.items[i] for i in proposal.path(index)[:-1]]
            if _key([*before.accepted, *path]) != _key([*context.accepted, *here]):
                raise _Missing(
                    f"item {index} was checked in round {origin.round} of the record, after other values than those "
                    "that would stand before it here"
                )

    def _checks(self, context: Context, proposal: Proposal) -> tuple[Check, ...]:
        found: list[Check] = []
        passed = 0
        for index, origin in enumerate(self._block):
            check = self.was.rounds[origin.round].checks[origin.place]
            enough = context.enough is not None and passed >= context.enough
            if enough and (self.replay.stops or check.verdict == "unchecked"):
                check = UNCHECKED
            elif check.verdict == "unchecked" and all(
                found[above].verdict == "pass" for above in proposal.path(index)[:-1]
            ):
                raise _Missing(
                    f"item {origin.place} of round {origin.round} of the record was never checked: the verifier "
                    "stopped before it"
                )
            passed += check.verdict == "pass"
            found.append(check)
        return tuple(found)

    def _correction(self, places: Sequence[int], checks: Sequence[Check]) -> tuple[Any, ...]:
        """The values that the verifier would go on with: known where it stopped at the same item."""
        if not self.replay.corrects:
            return ()
        round = self.was.rounds[places[0]]
        stopped = next((i for i, check in enumerate(round.checks) if check.verdict != "pass"), None)
        here = next((i for i, check in enumerate(checks) if check.verdict != "pass"), None)
        if (
            len(places) == 1
            and here is not None
            and stopped is not None
            and self._block[here] == _Origin(places[0], stopped)
        ):
            return round.correction
        raise _Missing(
            "the verifier says what it would go on with, and what it would have said after this block was not recorded"
        )

    # The rule

    def _call(self, request: Decide | Finish) -> Any:
        if isinstance(request, Decide) and self.replay.undecidable:
            lacking = ", ".join(sorted(self.replay.undecidable))
            raise _Missing(
                f"the rule {name_of(request.part)} needs {lacking} to decide, which was not recorded"
            )
        if isinstance(request, Decide):
            self._took, self._decides = self._decides, 0.0
        try:
            return request.call(*request.arguments)
        except _Missing:
            raise
        except BaseException as error:
            return raised(error)


def _best(places: Sequence[int], wanted: int) -> int:
    """Of several recorded rounds that say the same the one of this number, else the first."""
    return wanted if wanted in places else places[0]


def _repeats(part: Any) -> bool:
    """Whether a generator drafts the same in the same state."""
    return bool(getattr(part, "deterministic", True))


def _fitted(records: Sequence[TaskRecord]) -> CostModel | None:
    try:
        return fit_costs(records)
    except ConfigError:
        return None  # no round was timed


def _stops_early(recorded: Parts, records: Sequence[TaskRecord]) -> bool:
    """Whether the verifier leaves items unchecked once enough passed: as it did; where it never came to that, yes."""
    if recorded.enough is None:
        return True
    for record in records:
        for round in record.rounds:
            passed = 0
            for check in round.checks if round.by == "verifier" else ():
                if passed >= recorded.enough:
                    return check.verdict == "unchecked"
                passed += check.verdict == "pass"
    return True


_ENCODER = msgspec.json.Encoder(order="deterministic")


def _key(value: Any) -> bytes:
    """The same for equal plain values."""
    return _ENCODER.encode(value)


def _timeless(rounds: tuple[Round, ...]) -> tuple[Round, ...]:
    return timeless(TaskRecord(task="", outcome=Outcome(status="accepted"), rounds=rounds)).rounds
