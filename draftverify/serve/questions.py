"""Tasks that wait for a person: each has an address, where its question is read and answered, and its end is fetched.

They are held in memory, the latest so many of them.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import Any

import msgspec

from draftverify.engine.requests import Answer as PersonsAnswer
from draftverify.engine.requests import AnswerKind, Ask
from draftverify.secret import redact
from draftverify.serve.asked import Asked
from draftverify.serve.model import Answer, ServedModel
from draftverify.values import Task, TaskRecord

__all__ = ["Once", "Question", "Questions", "Reply"]

KEPT = 1_000


class Reply(msgspec.Struct, frozen=True):
    """A person's answer, as it is sent: what becomes of the candidate, another value in its place, a reason."""

    answer: AnswerKind
    value: Any = None
    note: str = ""


class Once:
    """Plays the person with one answer; asked again, nobody is there."""

    def __init__(self, reply: Reply) -> None:
        self._answers = [PersonsAnswer(reply.answer, reply.value, reply.note)]

    def __call__(self, ask: Ask) -> PersonsAnswer | None:
        """The answer."""
        return self._answers.pop() if self._answers else None


class Question:
    """One task that waits, or waited.

    Args:
        model, asked, task, record: where it stands.
    """

    def __init__(self, model: ServedModel, asked: Asked, task: Task, record: TaskRecord) -> None:
        self.id = uuid.uuid4().hex
        self.model = model
        self.asked = asked
        self.task = task
        self.record = record
        self.answer: Answer | None = None
        self.busy = False

    @property
    def path(self) -> str:
        """Its address on the server."""
        return f"/v1/questions/{self.id}"

    def plain(self) -> dict[str, Any]:
        """What a person needs to know to answer."""
        candidate, last = self.record.outcome.refused, self.record.rounds[-1] if self.record.rounds else None
        return {
            "id": self.id,
            "object": "draftverify.question",
            "url": self.path,
            "model": self.asked.model,
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


class Questions:
    """All that wait."""

    def __init__(self) -> None:
        self._of_id: OrderedDict[str, Question] = OrderedDict()

    def add(self, question: Question) -> None:
        """Hold a question; the oldest gives way where there are too many."""
        self._of_id[question.id] = question
        if len(self._of_id) > KEPT:
            self._of_id.popitem(last=False)

    def find(self, id: str) -> Question | None:
        """The question of an address."""
        return self._of_id.get(id)

    def waiting(self) -> list[Question]:
        """Those that nobody has answered, the oldest first."""
        return [question for question in self._of_id.values() if question.answer is None]
