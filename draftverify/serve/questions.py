"""Tasks that wait for a person: each has an address, where its question is read and answered, and its end is fetched.

The latest so many are held in memory. With a run directory they are in its records too, older ones there alone.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify.bench.records import Question
from draftverify.bench.review import Reply, check_reply
from draftverify.bench.runner.bench import Unit
from draftverify.engine.requests import Answer, AnswerKind
from draftverify.secret import redact
from draftverify.serve.model import ServedTask
from draftverify.values import TaskRecord

KEPT = 1_000


class PersonsReply(msgspec.Struct, frozen=True):
    """A person's answer, as it is sent: what becomes of the candidate, another value in its place, a reason."""

    answer: AnswerKind
    value: Any = msgspec.UNSET
    note: str = ""


class OpenQuestion:
    """One task that waits, or waited.

    Args:
        task: as it was served.
        record: where it stands.
        question: what it asks, or asked.

    Attributes:
        busy: whether an answer to it is being tried.
        prepared: the task's input as the verifier had prepared it when it went on.
    """

    def __init__(self, task: ServedTask, record: TaskRecord, question: Question) -> None:
        self.task = task
        self.record = record
        self.question = question
        self.busy = False
        self.prepared = task.task.input

    @property
    def path(self) -> str:
        """Its address on the server."""
        return f"/v1/questions/{self.task.name}"

    @property
    def waits(self) -> bool:
        """Whether nobody has answered it."""
        return self.record.outcome.status == "waiting"

    def answered(self, reply: PersonsReply) -> Answer:
        """A reply as the pipeline is given it.

        Raises:
            ConfigError: it edits without a value, or accepts where there is nothing to accept.
        """
        whole = Reply(task=self.task.name, answer=reply.answer, value=reply.value, note=reply.note)
        check_reply(self.question, whole, "the answer")
        return Answer(reply.answer, None if reply.value is msgspec.UNSET else reply.value, reply.note)

    def unit(self, answer: Answer) -> Unit:
        """The work that is left of its task, given an answer."""
        return replace(
            self.task.unit,
            restore=self.record.rounds,
            inner=self.record.inner,
            answer=answer,
            asking=self.question.asking,
        )

    def plain(self) -> dict[str, Any]:
        """What a person needs to know to answer."""
        question, candidate = self.question, self.question.candidate
        return {
            "id": self.task.name,
            "object": "draftverify.question",
            "url": self.path,
            "model": self.task.model.name,
            "status": "waiting" if self.waits else "answered",
            "input": dict(self.task.task.input),
            "trouble": list(question.trouble),
            "candidate": None
            if candidate is None
            else {
                "value": candidate.value,
                "text": question.text,
                "score": candidate.score,
                "reason": redact(candidate.reason),
                "feedback": redact(candidate.feedback),
                "caveat": redact(candidate.caveat),
            },
            "answers": ["accept", "edit", "reject", "skip"],
        }


class OpenQuestions:
    """The latest questions, by the names of their tasks."""

    def __init__(self) -> None:
        self._of_task: OrderedDict[str, OpenQuestion] = OrderedDict()

    def add(self, question: OpenQuestion) -> OpenQuestion:
        """Hold a question, or what is held of its task already; the oldest gives way where there are too many."""
        question = self._of_task.setdefault(question.task.name, question)
        if len(self._of_task) > KEPT:
            self._of_task.popitem(last=False)
        return question

    def find(self, task: str) -> OpenQuestion | None:
        """The question about a task."""
        return self._of_task.get(task)

    def waiting(self) -> list[OpenQuestion]:
        """Those that nobody has answered, the oldest first."""
        return [question for question in self._of_task.values() if question.waits]
