"""One recorded task: its rounds, what was shown before each, and which of its items stand in the block under way."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from draftverify.bench.records.encoding import timeless
from draftverify.engine.session import Session
from draftverify.lab.replay.question import ReplayQuestion
from draftverify.stats.costs import Curve
from draftverify.values import EMPTY, Candidate, Context, Failure, Outcome, Round, Task, TaskRecord

__all__ = ["Absent", "Gap", "Log", "Missing", "Origin", "best", "key_of"]


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


class Log:
    """A task's record while it is replayed.

    Args:
        asked: of which records.
        task: as it was recorded.
        record: its own.
        memory: the version of the memory that it was made under.

    Attributes:
        before: the context before each recorded round, and after the last.
        block: the items of the block under way, as they were recorded.
        at_most: whether costs so far are upper bounds.
        estimated: whether they are estimates.
        excess: by how many seconds what was estimated may be too little, up to what the recorded passes took.
        candidates: the best refused one before each recorded round, and after the last.
        took: the seconds of the failed call that is answered.
        decides: those of the rule's next decision.
    """

    def __init__(self, question: ReplayQuestion, task: Task, record: TaskRecord, memory: int) -> None:
        self.question = question
        self.task = task
        self.was = record
        self.memory = memory
        self.at_most = self.estimated = False
        self.took = self.decides = self.excess = 0.0
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

    def seconds(self, part: Literal["draft", "verify"], n: int, round: int) -> float:
        """The seconds of a block that was put together for this round: at most what the recorded ones took.

        For the pipeline's own generator it is estimated where blocks of its size were timed.
        """
        places = sorted({origin.round for origin in self.block})
        most = sum((getattr(self.rounds[place].timing, part) for place in places), 0.0)
        costs = self.question.costs
        if costs is not None and all(self.rounds[place].source == "generator" for place in places):
            curve: Curve = getattr(costs, part)
            if n in curve.sizes:
                surcharge: float = getattr(costs, f"first_{part}") if round == 0 else 0.0
                estimate = max(curve.at(n) + surcharge, 0.0)
                self.estimated = True
                self.excess += max(most - estimate, 0.0)
                return estimate
        self.at_most = True
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
