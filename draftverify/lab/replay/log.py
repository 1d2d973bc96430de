"""One recorded task: its rounds, what was shown before each, and which of its items stand in the block under way."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from draftverify.bench.records.encoding import timeless
from draftverify.engine import boundary
from draftverify.engine.failures import raised
from draftverify.engine.requests import Draft, Verify
from draftverify.engine.session import Session
from draftverify.errors import NotBoughtError
from draftverify.exchanges import exchanges_of
from draftverify.lab.replay.question import ReplayQuestion
from draftverify.stats.costs import Curve
from draftverify.traits import GeneratorTraits, VerifierTraits, is_asynchronous, traits_of
from draftverify.values import EMPTY, Candidate, Context, Failure, Outcome, Round, Task, TaskRecord


class Gap(msgspec.Struct, frozen=True):
    """A question that the log cannot answer.

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


class Missing(Exception):
    """The log does not hold what is asked of it."""


class Absent(Mapping[str, Any]):
    """The evidence of a recorded proposal, which no record holds."""

    def __getitem__(self, key: str) -> Any:
        raise Missing(f"the rule reads {key!r} of the proposal's evidence, which was not recorded")

    def __iter__(self) -> Iterator[str]:
        raise Missing("the rule reads the proposal's evidence, which was not recorded")

    def __len__(self) -> int:
        raise Missing("the rule reads the proposal's evidence, which was not recorded")


class Origin(NamedTuple):
    """A recorded item: of which round, and its place in the block."""

    round: int
    place: int


class Doubt(msgspec.Struct):
    """How far seconds and cost are known.

    Args:
        at_most: whether the seconds are upper bounds.
        estimated: whether they are an estimate instead.
        cost_at_most: whether the parts' cost is an upper bound.
        excess: by how many seconds what was estimated may be too little, up to what the recorded passes took.
    """

    at_most: bool = False
    estimated: bool = False
    cost_at_most: bool = False
    excess: float = 0.0

    def joined(self, later: Doubt) -> Doubt:
        """The doubt about both costs together."""
        return Doubt(
            self.at_most or later.at_most,
            self.estimated or later.estimated,
            self.cost_at_most or later.cost_at_most,
            self.excess + later.excess,
        )


class Log:
    """A task's record while it is replayed.

    Args:
        question: of which records.
        task: as it was recorded.
        record: its own.
        memory: the version of the memory that it was made under.

    Attributes:
        before: the context before each recorded round, and after the last.
        block: the items of the block under way, as they were recorded.
        doubt: about the costs so far.
        candidates: the best refused one before each recorded round, and after the last.
        drafted_anew: whether the generator drafted the block, which then has its own cost.
        judged_anew: whether the verifier checked it, so that its evidence is there.
        took: the seconds of the failed call that is answered.
        decides: those of the rule's next decision.
    """

    def __init__(self, question: ReplayQuestion, task: Task, record: TaskRecord, memory: int) -> None:
        self.question = question
        self.task = task
        self.was = record
        self.memory = memory
        self.doubt = Doubt()
        self.drafted_anew = self.judged_anew = False
        self.took = self.decides = 0.0
        self._alike = 0
        self.candidates: list[Candidate | None] = []
        self.block: list[Origin] = []
        self.before = self._states()

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The recorded rounds."""
        return self.was.rounds

    def _states(self) -> list[Context]:
        """The context before each recorded round, and after the last."""
        recorded = copy.copy(self.question.recorded)
        recorded.undrafted = None  # else a session may be beyond its first round once it is made
        state = Session(recorded, self.task, attempt=self.was.attempt).state
        contexts = [state.context]
        self.candidates.append(state.candidate)
        for round in self.was.rounds:
            state = state.after(round)
            contexts.append(state.context)
            self.candidates.append(state.candidate)
        return contexts

    def item(self, origin: Origin) -> Any:
        """A recorded item."""
        return self.rounds[origin.round].items[origin.place]

    def as_recorded(self, context: Context) -> bool:
        """Whether the rounds so far are those of the record, but for their times."""
        if context.round > len(self.rounds):
            return False
        # The rounds of the one session that is replayed: what was alike before is alike still.
        while self._alike < context.round:
            place = self._alike
            if _timeless(context.rounds[place]) != _timeless(self.rounds[place]):
                return False
            self._alike += 1
        return True

    def block_as_recorded(self, context: Context) -> bool:
        """Whether the block under way is the recorded one of this round, after the recorded rounds."""
        place = context.round
        if place >= len(self.rounds) or not self.as_recorded(context):
            return False
        return self.block == [Origin(place, index) for index in range(len(self.rounds[place].items))]

    def exact_first(self, logged: Callable[[], Any], anew: Callable[[], Any]) -> Any:
        """The log's answer where it is exact, else that of a part that answers again, else the log's bound.

        Args:
            logged: gives the log's.
            anew: asks the part.

        Raises:
            Missing: nobody has one.
        """
        before, self.doubt = self.doubt, Doubt()
        try:
            answer: Any = logged()
        except Missing as error:
            answer = error
        if isinstance(answer, Missing) or self.doubt != Doubt():
            bound, self.doubt = self.doubt, Doubt()
            try:
                answer = anew()
            except NotBoughtError as error:
                self.doubt = bound
                if isinstance(answer, Missing) and str(error):
                    answer = Missing(str(error))
        self.doubt = before.joined(self.doubt)
        if isinstance(answer, Missing):
            raise answer
        return answer

    def anew(self, request: Draft | Verify) -> Any:
        """What a part that answers again for nothing says, as the boundary reads it.

        Raises:
            NotBoughtError: it does not, or its cache does not hold this, or it cannot be asked as it stands here.
        """
        part = request.part
        kind = GeneratorTraits if isinstance(request, Draft) else VerifierTraits
        if self.memory or is_asynchronous(part) or not traits_of(part, kind).free:
            raise NotBoughtError
        try:
            value = request.call(*request.arguments)
        except NotBoughtError:
            raise
        except BaseException as error:
            raise NotBoughtError(str(raised(error))) from error
        value = boundary.read(request, value, self.question.pipeline)
        if isinstance(value, Failure):
            raise NotBoughtError(str(value))
        return value

    def whole(self, items: int) -> Round | None:
        """The recorded round whose whole block stands here; None where it is a part of one, or of several."""
        place = self.block[0].round if self.block else 0
        entire = bool(items) and self.block == [Origin(place, index) for index in range(items)]
        return self.rounds[place] if entire and len(self.rounds[place].items) == items else None

    def cost(self, place: int, of: Literal["draft", "verify"]) -> float:
        """What one of a recorded round's parts cost, by what the two noted; at most where neither did."""
        noted: dict[bool, list[float]] = {True: [], False: []}
        for who, exchange in exchanges_of(self.rounds[place]):
            noted[(who == "draft") == (of == "draft")].append(exchange.cost)
        if noted[True]:
            return sum(noted[True])
        whole = self.rounds[place].timing.cost
        self.doubt.cost_at_most |= whole > 0 and not noted[False]
        return max(whole - sum(noted[False]), 0.0)

    def seconds(self, part: Literal["draft", "verify"], n: int, round: int) -> float:
        """The seconds of a block that was put together for this round: at most what the recorded ones took.

        For the pipeline's own generator it is estimated where blocks of its size were timed; a block of which no item
        was drafted in the run, at what those of the nearest size took.
        """
        places = sorted({origin.round for origin in self.block})
        most = sum((getattr(self.rounds[place].timing, part) for place in places), 0.0)
        costs = self.question.costs
        if costs is not None and all(self.rounds[place].source == "generator" for place in places):
            curve: Curve = getattr(costs, part)
            timed = n in curve.sizes if places else bool(curve.sizes)
            if timed:
                surcharge: float = getattr(costs, f"first_{part}") if round == 0 else 0.0
                estimate = max(curve.at(min(max(n, curve.sizes[0]), curve.sizes[-1])) + surcharge, 0.0)
                self.doubt.estimated = True
                self.doubt.excess += max(most - estimate, 0.0) if places else math.inf
                return estimate
        self.doubt.at_most = True
        return most

    def broke(self, round: Round, part: Literal["draft", "verify"]) -> Failure | None:
        """The failure of a recorded call, which took as long as it did."""
        self.took = getattr(round.timing, part)
        notes = round.draft_notes if part == "draft" else round.notes
        return round.failure and msgspec.structs.replace(round.failure, notes=notes or EMPTY)


def best(places: Sequence[int], number: int) -> int:
    """The round of this number among rounds that say the same, else the first of them."""
    return number if number in places else places[0]


_ENCODER = msgspec.json.Encoder(order="deterministic")


def key_of(value: Any) -> bytes:
    """A key that equal plain values share."""
    return _ENCODER.encode(value)


def _timeless(round: Round) -> Round:
    return timeless(TaskRecord(task="", outcome=Outcome(status="accepted"), rounds=(round,))).rounds[0]
