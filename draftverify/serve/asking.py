"""The addresses of questions to a person: they are listed, read and answered there, and so is what came of them.

With a run directory `draftverify view --review` answers them too: what it wrote is looked for, and its tasks go on.
"""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from draftverify.bench.runner.bench import Done
from draftverify.engine.requests import Answer
from draftverify.errors import DraftVerifyError
from draftverify.secret import quiet
from draftverify.serve.answers import completion, failed, failure, rendered
from draftverify.serve.limits import ServerLimits
from draftverify.serve.metrics import Metrics
from draftverify.serve.questions import KEPT, OpenQuestion, OpenQuestions, PersonsReply
from draftverify.serve.recording import AnsweredQuestion, ServedRecords
from draftverify.serve.request import ServedRequest
from draftverify.serve.tasks import Full, Tasks
from draftverify.serve.waiting import await_tasks, read_body, refusal

_log = quiet(logging.getLogger(__name__))

PAUSE = 1.0
"""Seconds between two looks for answers that reviewers wrote."""

TAKEN = "somebody has answered this, or is about to"


class ServedQuestions:
    """The questions of a server.

    Args:
        tasks: runs those that go on.
        recording: the server's run directory; None where questions are in memory alone.
        metrics, limits: the server's.
    """

    def __init__(
        self, tasks: Tasks, recording: ServedRecords | None, metrics: Metrics, limits: ServerLimits
    ) -> None:
        self._questions = OpenQuestions()
        self._tasks = tasks
        self._recording = recording
        self._metrics = metrics
        self._limits = limits
        self._going_on: set[asyncio.Task[None]] = set()

    def add(self, question: OpenQuestion) -> OpenQuestion:
        """Hold a new question."""
        return self._questions.add(question)

    async def list_questions(self, request: Request) -> Response:
        """Those that wait."""
        questions = self._questions.waiting()
        if self._recording is not None:
            names = await self._recording.pending(KEPT)
            questions = [question for name in names if (question := await self._find(name)) is not None]
        return rendered({"object": "list", "data": [question.plain() for question in questions]})

    async def show(self, request: Request) -> Response:
        """One of them, or what came of it."""
        question = await self._find(request.path_params["id"])
        return _unknown() if question is None else await self._shown(question)

    async def answer(self, request: Request) -> Response:
        """Take a person's answer, and let the task go on."""
        begun = time.monotonic()
        question = await self._find(request.path_params["id"])
        if question is None:
            return _unknown()
        body = await read_body(request, self._limits)
        if isinstance(body, Response):
            return body
        if question.busy or not question.waits:
            return failure(409, TAKEN)
        try:
            reply = msgspec.json.decode(body, type=PersonsReply)
            answer = question.answered(reply)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return failure(400, f"the body is no answer: {error}")
        except DraftVerifyError as error:
            return refusal(error)
        response = None
        if reply.answer != "skip":
            response = await self._try(request, question, answer, begun)
        if response is None:
            response = await self._shown(question)
        self._metrics.count_request(question.task.model.name, response.status_code, begun)
        return response

    async def take_answers(self) -> None:
        """Look for what reviewers answered in the run directory, again and again, and go on with it."""
        while self._recording is not None:
            await asyncio.sleep(PAUSE)
            try:
                for answered in await self._recording.answered():
                    going_on = asyncio.create_task(self._go_on(answered))
                    self._going_on.add(going_on)
                    going_on.add_done_callback(self._going_on.discard)
            except Exception as error:  # the records are out of reach, say
                _log.error("answers of reviewers are not taken up: %s: %s", type(error).__name__, error)

    async def _find(self, task: str) -> OpenQuestion | None:
        question = self._questions.find(task)
        if question is None and self._recording is not None:
            question = await self._recording.find(task)
            if question is not None:
                question = self.add(question)
        return question

    async def _shown(self, question: OpenQuestion) -> Response:
        if question.waits:
            return rendered(question.plain(), 202)
        if question.record.outcome.status == "failed":
            return failed(question.record)
        task = question.task
        answer = await asyncio.to_thread(task.model.answer, question.record, task.query, question.prepared)
        return rendered(completion(task.name, task.query, [answer], ()))

    async def _try(
        self, request: Request, question: OpenQuestion, answer: Answer, begun: float
    ) -> Response | None:
        """Let a task go on with an answer that was posted; where it cannot and still waits, the response."""
        question.busy, held = True, None
        try:
            if self._recording is not None:
                held = await self._recording.hold(question.task.name, self._limits.timeout)
                if held is None:
                    return failure(409, TAKEN)
            posted = None if held is None else AnsweredQuestion(held, answer)
            work, run = self._begin(question, answer, posted)
            ended = await await_tasks(request, [run], self._limits, begun)
            if isinstance(ended, Response):
                return ended
            if ended[0].record.outcome.status == "failed":
                return failed(ended[0].record)
            await self._take(question, work, ended[0])
            return None
        except DraftVerifyError as error:
            return refusal(error)
        finally:
            question.busy = False
            if self._recording is not None and held is not None:
                await self._recording.release(held)

    def _begin(
        self, question: OpenQuestion, answer: Answer, posted: AnsweredQuestion | None = None
    ) -> tuple[ServedRequest, asyncio.Task[Done]]:
        """Let the task of a question go on.

        Raises:
            Full: there is no room for it.
        """
        task = question.task
        work = ServedRequest(task.model, task.query, [task])
        (run,) = work.begin(self._tasks, unit=question.unit(answer), posted=posted)
        question.busy = True
        return work, run

    async def _go_on(self, answered: AnsweredQuestion) -> None:
        """See a task to its end that goes on with a reviewer's answer; where there is no room for it, later."""
        question = None
        try:
            question = await self._find(answered.question.task)
            if question is None or question.busy or not question.waits:
                return
            question.question = answered.question
            work, run = self._begin(question, answered.answer)
            await self._take(question, work, await run)
        except Full:
            return
        except Exception as error:
            if question is not None:
                question.busy = True  # or it would be tried anew every second
            _log.error("task %s does not go on: %s: %s", answered.question.task, type(error).__name__, error)
        else:
            question.busy = False

    async def _take(self, question: OpenQuestion, work: ServedRequest, done: Done) -> None:
        """The task of a question has come to an end, or to another question."""
        question.record = done.record
        question.question = done.question or question.question
        question.prepared = work.prepared[0]
        if not question.waits:
            (answer,) = await asyncio.to_thread(work.answers, [done.record])
            self._metrics.count(question.task.model.name, answer)


def _unknown() -> Response:
    return failure(404, "there is no such question here; the latest are kept, or all that are recorded")
