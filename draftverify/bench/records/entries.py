"""What a store keeps, as plain structs: records with their words, questions with their answers, predictions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from draftverify.bench.monitors.monitor import Alarm, Shares
from draftverify.values import Candidate, Failure, Outcome, TaskRecord, Trouble

Key: TypeAlias = "tuple[str, str, int]"
"""(pipeline, task, attempt)."""

ScoreKey: TypeAlias = "tuple[str, str, int, str]"
"""(pipeline, task, attempt, metric): the last tells a metric, its settings and what the task expects from others."""


class Texts(msgspec.Struct, frozen=True):
    """A round's values in words, as the verifier described them when the round was recorded."""

    items: tuple[str, ...] = ()
    spliced: tuple[str, ...] = ()


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person, and the answer once there is one.

    Args:
        pipeline, task, attempt: whose question.
        round: how many rounds had been made; with the above its key.
        group: of the task.
        input: of the task, to be shown.
        candidate: the best refused candidate.
        text: the candidate in words, where the verifier can say it.
        trouble: what stood in the way.
        failure: the failed call, if one stood in the way.
        asking: of an inner task that asks, its id.
        inner: where one does, the records of all those of the round under way.
        state: "pending", "answered", or "used" once a later question or a committed record stands on it.
        answer, value, note: of the person: "accept", "edit" or "reject", the edited item, the reason.
        asked: when it was asked; with its key it tells the question from a later one in its place.
        holder: the reviewer who claimed it last; of one that is answered, who answered.
        held_until: when that claim ends, "" for none.
        before: answered ones of other inner tasks of the same round, in whose place it stands.
    """

    pipeline: str
    task: str
    attempt: int = 0
    round: int = 0
    group: str = ""
    input: Mapping[str, Any] = {}
    candidate: Candidate | None = None
    text: str = ""
    trouble: tuple[Trouble, ...] = ()
    failure: Failure | None = None
    asking: str = ""
    inner: tuple[TaskRecord, ...] = ()
    state: Literal["pending", "answered", "used"] = "pending"
    answer: str = ""
    value: Any = None
    note: str = ""
    asked: str = ""
    holder: str = ""
    held_until: str = ""
    before: tuple[Question, ...] = ()

    @property
    def held(self) -> bool:
        """Whether a reviewer's claim on it runs."""
        return self.held_until > now()


class StoredPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that was predicted before the measuring run, with its interval; None where it has no bound."""

    pipeline: str
    group: str
    kind: str
    value: float | None
    low: float | None
    high: float | None
    detail: Mapping[str, Any] = {}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One record, the words of its rounds, and the version of the memory that it was made under."""

    pipeline: str
    record: TaskRecord
    texts: tuple[Texts | None, ...] = ()
    memory: int = 0


class TaskEnding(msgspec.Struct, frozen=True, kw_only=True):
    """How a task of a pipeline ended or waits, without its rounds; `committed` is an ISO time in UTC."""

    pipeline: str
    task: str
    attempt: int
    group: str
    outcome: Outcome
    memory: int
    committed: str


class MonitorEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a pipeline's monitor was told of one task, and what it said then; `written` is an ISO time in UTC."""

    task: str
    shares: Shares
    alarms: tuple[Alarm, ...] = ()
    written: str = ""


def now() -> str:
    """The time now, as it is written."""
    return time(datetime.now(UTC))


def time(time: datetime) -> str:
    """A time in UTC, as it is written: texts of them are in the order of the times."""
    return time.isoformat(timespec="microseconds")
