"""Tasks that wait for a person: each has an address, where its question is read and answered, and its end is fetched.

They are held in memory, the latest so many of them.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import Any

import msgspec

from draftverify.engine.requests import Answer, AnswerKind, Ask
from draftverify.secret import redact
from draftverify.serve.body import CompletionRequest
from draftverify.serve.model import ServedAnswer, ServedModel
from draftverify.values import Task, TaskRecord

__all__ = ["Once", "OpenQuestion", "OpenQuestions", "PersonsReply"]

KEPT = 1_000


class PersonsReply(msgspec.Struct, frozen=True):
    """A person's answer, as it is sent: what becomes of the candidate, another value in its place, a reason."""

    answer: AnswerKind
    value: Any = None
    note: str = ""


class Once:
    """Plays the person with one answer; asked again, nobody is there."""

    def __init__(self, reply: PersonsReply) -> None:
        self._answers = [Answer(reply.answer, reply.value, reply.note)]

    def __call__(self, ask: Ask) -> Answer | None:
        """The answer."""
        return self._answers.pop() if self._answers else None


class OpenQuestion:
    """One task that waits, or waited.

    Args:
        model, query, task, record: where it stands.
    """

    def __init__(self, model: ServedModel, query: CompletionRequest, task: Task, record: TaskRecord) -> None:
        self.id = uuid.uuid4().hex
        self.model = model
        self.query = query
        self.task = task
        self.record = record
        self.answer: ServedAnswer | None = None
        self.busy = False

    @property
    def path(self) -> str:
        """Its address on the server."""
        return f"/v1/questions/{self.id}"

    def plain(self) -> dict[str, Any]:
        """What a person needs to know to answer."""
        asking = _asking(self.record)
        candidate, last = asking.outcome.refused, asking.rounds[-1] if asking.rounds else None
        return {
            "id": self.id,
            "object": "draftverify.question",
            "url": self.path,
            "model": self.query.model,
            "status": "waiting" if self.answer is None else "answered",
            "input": dict(self.task.input),
            "trouble": list(last.trouble) if last is not None else [],
            "candidate": None
            if candidate is None
            else {
                "value": candidate.value,
                "score": candidate.score,
                "reason": redact(candidate.reason),
                "feedback": redact(candidate.feedback),
                "caveat": redact(candidate.caveat),
            },
            "answers": ["accept", "edit", "reject", "skip"],
        }


def _asking(record: TaskRecord) -> TaskRecord:
    """The record of the task that asks: an inner one where one waits."""
    waiting = (inner for inner in record.inner if inner.outcome.status == "waiting")
    inner = next(waiting, None)
    return record if inner is None else _asking(inner)


class OpenQuestions:
    """All that wait."""

    def __init__(self) -> None:
        self._of_id: OrderedDict[str, OpenQuestion] = OrderedDict()

    def add(self, question: OpenQuestion) -> None:
        """Hold a question; the oldest gives way where there are too many."""
        self._of_id[question.id] = question
        if len(self._of_id) > KEPT:
            self._of_id.popitem(last=False)

    def find(self, id: str) -> OpenQuestion | None:
        """The question of an address."""
        return self._of_id.get(id)

    def waiting(self) -> list[OpenQuestion]:
        """Those that nobody has answered, the oldest first."""
        return [question for question in self._of_id.values() if question.answer is None]
