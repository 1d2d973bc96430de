"""The routes of the server, as a Starlette app.

/v1/models                    the pipelines
/v1/chat/completions          OpenAI's, with `n`, stop, seed, streams, response_format
/v1/completions               the same without turns
/v1/questions[/ID]            tasks that wait for a person
/metrics                      Prometheus
/health                       whether it is up

A request of a browser's page (one with an Origin) is answered only where it has the server's token, so that no page
that somebody opens reaches a server on the loopback address.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from draftverify.engine.events import Event, RoundDone, TaskDone
from draftverify.errors import DraftVerifyError
from draftverify.secret import Secret, quiet, redact
from draftverify.serve.answers import Chunks, completion, failure, headers, rendered
from draftverify.serve.body import CompletionRequest, read_chat, read_completion
from draftverify.serve.limits import ServerLimits
from draftverify.serve.lockstep import Lockstep
from draftverify.serve.metrics import Metrics
from draftverify.serve.model import ServedAnswer, ServedModel, before_stop
from draftverify.serve.questions import Once, OpenQuestion, OpenQuestions, PersonsReply
from draftverify.serve.tasks import Full, Tasks
from draftverify.values import Task, TaskRecord

__all__ = ["MOST", "Api"]

_log = quiet(logging.getLogger(__name__))

MOST = 2 << 20
"""Bytes of a request's body."""


class _Late(Exception):
    """A request took longer than it may."""


class Api:
    """The app's state, and its handlers.

    Args:
        lockstep: in which the models are open.
        hosts: what a request's Host may be; None for any, where there is a token.
        token: that clients send as their API key; None for none.
        limits: how much at once, and how long.
    """

    def __init__(
        self,
        lockstep: Lockstep,
        *,
        hosts: frozenset[str] | None,
        token: Secret | None,
        limits: ServerLimits,
    ) -> None:
        self.models = lockstep.models
        self.metrics = Metrics()
        self.tasks = Tasks(limits.concurrency, limits.queue, self.metrics, lockstep)
        self.questions = OpenQuestions()
        self._hosts = hosts
        self._token = token
        self._timeout = limits.timeout
        self._created = int(time.time())

    def app(self) -> Starlette:
        """The app."""
        post = ["POST"]
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/metrics", self._guarded(self._metrics)),
                Route("/v1/models", self._guarded(self._models)),
                Route("/v1/models/{name:path}", self._guarded(self._model)),
                Route(
                    "/v1/chat/completions", self._guarded(partial(self._complete, read_chat)), methods=post
                ),
                Route(
                    "/v1/completions", self._guarded(partial(self._complete, read_completion)), methods=post
                ),
                Route("/v1/questions", self._guarded(self._list_questions)),
                Route("/v1/questions/{id}", self._guarded(self._question), methods=["GET", "POST"]),
            ],
            exception_handlers={404: _no_route, 405: _no_route},
        )

    # Who may ask

    def _guarded(
        self, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            refused = self._refused(request)
            if refused is not None:
                return refused
            try:
                return await handler(request)
            except ClientDisconnect:
                return Response(status_code=499)
            except Exception as error:  # ours: what parts raise has become a record
                _log.exception("a request failed")
                return _unexpected(error)

        return guarded

    def _refused(self, request: Request) -> Response | None:
        given = request.headers.get("authorization", "")
        if self._token is not None:
            if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {self._token}".encode()):
                return failure(401, "the API key is not this server's token", code="invalid_api_key")
        elif self._hosts is not None and request.headers.get("host", "").lower() not in self._hosts:
            return failure(403, "the Host of this request is not this server")
        elif "origin" in request.headers:
            return failure(403, "a web page asks for this; start the server with a token to let it")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and kind != "application/json":
            return failure(415, "the content type of a request here is application/json")
        return None

    # What there is

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": list(map(self._described, self.models))})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        return JSONResponse(self._described(name)) if name in self.models else self._unknown(name)

    def _described(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "draftverify"}

    def _unknown(self, name: str) -> Response:
        there = ", ".join(self.models)
        return failure(
            404, f"there is no model {name!r}; there are {there}", param="model", code="model_not_found"
        )

    # Completions

    async def _complete(self, read: Callable[[bytes], CompletionRequest], request: Request) -> Response:
        begun, model = time.monotonic(), ""
        body = await _body(request)
        if isinstance(body, Response):
            return body
        try:
            query = read(body)
            if query.model not in self.models:
                response = self._unknown(query.model)
                self._count("", response.status_code, begun)
                return response
            model = query.model
            work = _ServedTasks(self.models[model], query)
            runs = work.begin(self.tasks)
        except DraftVerifyError as error:
            response = _refusal(error)
        else:
            if query.stream:
                pieces = self._streamed(work, runs, begun)
                return StreamingResponse(
                    pieces, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
                )
            response = await self._whole(request, work, runs, begun)
        self._count(model, response.status_code, begun)
        return response

    async def _whole(
        self, request: Request, work: _ServedTasks, runs: list[asyncio.Task[TaskRecord]], begun: float
    ) -> Response:
        records = await self._records(request, runs, begun)
        if isinstance(records, Response):
            return records
        failed = [record for record in records if record.outcome.status == "failed"]
        if failed:
            return _failed(failed[0])
        answers = await asyncio.to_thread(work.answers, records)
        for answer in answers:
            self.metrics.count(work.query.model, answer)
        waiting = self._waiting(work, answers)
        if waiting and len(answers) == 1:
            return rendered(waiting[0].plain(), 202, {"Location": waiting[0].path})
        return rendered(completion(work.id, work.query, answers, work.ignored), more=headers(answers))

    async def _records(
        self, request: Request, runs: Sequence[asyncio.Task[TaskRecord]], begun: float
    ) -> list[TaskRecord] | Response:
        """The records of a request's tasks, or why there are none. Tasks that nobody waits for are let go."""
        together = asyncio.create_task(_ended(runs))
        gone = asyncio.create_task(_disconnected(request))
        try:
            left = max(self._timeout - (time.monotonic() - begun), 0.0)
            both: list[asyncio.Future[Any]] = [together, gone]
            done, _ = await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if together in done:
                return [run.result() for run in runs]
            return Response(status_code=499) if gone in done else self._too_late()
        finally:
            for task in (*runs, together, gone):
                task.cancel()  # of those under way: it ends once the call does that it is in

    async def _streamed(
        self, work: _ServedTasks, runs: list[asyncio.Task[TaskRecord]], begun: float
    ) -> AsyncIterator[bytes]:
        """The events of a stream; the client may go at any time, which closes this."""
        chunks, status = Chunks(work.id, work.query), 499
        try:
            for index in range(len(runs)):
                if start := chunks.begin(index):
                    yield start
            async with aclosing(work.pieces(runs, self._timeout - (time.monotonic() - begun))) as pieces:
                async for index, text in pieces:
                    yield chunks.text(index, text)
            records = [run.result() for run in runs]
            failed = [record for record in records if record.outcome.status == "failed"]
            if failed:
                response = _failed(failed[0])
                status = response.status_code
                yield b"data: " + bytes(response.body) + b"\n\n"
                return
            answers = await asyncio.to_thread(work.answers, records)
            self._waiting(work, answers)
            for index, answer in enumerate(answers):
                self.metrics.count(work.query.model, answer)
                if (rest := work.rest(index, answer)) is not None:
                    yield chunks.text(index, rest)
                yield chunks.end(index, answer)
            yield chunks.last(answers, work.ignored)
            yield b"data: [DONE]\n\n"
            status = 200
        except _Late:
            status = 504
            yield b"data: " + bytes(self._too_late().body) + b"\n\n"
        except Exception as error:  # ours: the connection would end without a word
            _log.exception("a stream failed")
            status = 500
            yield b"data: " + bytes(_unexpected(error).body) + b"\n\n"
        finally:
            for run in runs:
                run.cancel()
            self._count(work.query.model, status, begun)

    def _waiting(self, work: _ServedTasks, answers: list[ServedAnswer]) -> list[OpenQuestion]:
        """The questions of those that wait for a person, whose answers then say where they stand."""
        found = []
        for index, answer in enumerate(answers):
            if answer.record.outcome.status == "waiting":
                question = OpenQuestion(work.model, work.query, work.tasks[index], answer.record)
                self.questions.add(question)
                found.append(question)
                answers[index] = msgspec.structs.replace(
                    answer, refusal=f"this waits for a person's answer: {question.path}"
                )
        return found

    def _too_late(self) -> Response:
        return failure(504, f"no answer within {self._timeout:g} s", kind="timeout_error", code="timeout")

    def _count(self, model: str, status: int, begun: float) -> None:
        self.metrics.requests.labels(model, str(status)).inc()
        self.metrics.seconds.labels(model).observe(time.monotonic() - begun)

    # Questions

    async def _list_questions(self, request: Request) -> Response:
        data = [question.plain() for question in self.questions.waiting()]
        return rendered({"object": "list", "data": data})

    async def _question(self, request: Request) -> Response:
        question = self.questions.find(request.path_params["id"])
        if question is None:
            return failure(404, "there is no such question here; they are kept in memory, so many of them")
        if request.method == "POST":
            body = await _body(request)
            if isinstance(body, Response):
                return body
            begun = time.monotonic()
            if question.answer is not None or question.busy:
                return failure(409, "somebody has answered this")
            try:
                reply = msgspec.json.decode(body, type=PersonsReply)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                return failure(400, f"the body is no answer: {error}")
            refused = await self._go_on(request, question, reply, begun)
            if refused is not None:
                self._count(question.query.model, refused.status_code, begun)
                return refused
            self._count(question.query.model, 202 if question.answer is None else 200, begun)
        if question.answer is None:
            return rendered(question.plain(), 202)
        return rendered(completion(f"chatcmpl-{question.id}", question.query, [question.answer], ()))

    async def _go_on(
        self, request: Request, question: OpenQuestion, reply: PersonsReply, begun: float
    ) -> Response | None:
        """Take up a task with a person's answer; the response where that cannot be."""
        question.busy = True
        try:
            work = _ServedTasks(question.model, question.query, [question.task])
            runs = work.begin(
                self.tasks, restore=question.record.rounds, inner=question.record.inner, ask=Once(reply)
            )
            records = await self._records(request, runs, begun)
        except DraftVerifyError as error:
            return _refusal(error)
        finally:
            question.busy = False
        if isinstance(records, Response):
            return records
        (record,) = records
        if record.outcome.status == "failed":
            return _failed(record)  # the question stays as it was
        question.record = record
        if record.outcome.status != "waiting":
            question.answer = (await asyncio.to_thread(work.answers, [record]))[0]
            self.metrics.count(question.query.model, question.answer)
        return None


class _ServedTasks:
    """A request's tasks, and what has come of them so far.

    Args:
        model, query: the request.
        tasks: those to take up; when absent the request's own.
    """

    def __init__(
        self, model: ServedModel, query: CompletionRequest, tasks: Sequence[Task] | None = None
    ) -> None:
        self.id = f"{'chatcmpl' if query.chat else 'cmpl'}-{uuid.uuid4().hex}"
        self.model = model
        self.query = query
        self.ignored = model.ignored(query)
        self._pipeline = model.pipeline_for(query)
        self.tasks = model.tasks(query) if tasks is None else list(tasks)
        self._prepared: list[Mapping[str, Any]] = [task.input for task in self.tasks]
        self._values: list[list[Any]] = [[] for _ in self.tasks]
        self._sent = [""] * len(self.tasks)
        self._news = asyncio.Event()

    def begin(self, tasks: Tasks, **options: Any) -> list[asyncio.Task[TaskRecord]]:
        """Begin them.

        Raises:
            Full: there is no room.
        """
        return tasks.start(
            [
                partial(
                    tasks.record,
                    self._pipeline,
                    task,
                    on_event=partial(self._listen, index),
                    rounds=self.query.stream,
                    **options,
                )
                for index, task in enumerate(self.tasks)
            ]
        )

    def answers(self, records: Sequence[TaskRecord]) -> list[ServedAnswer]:
        """The records as answers."""
        return [
            self.model.answer(record, self.query, prepared)
            for record, prepared in zip(records, self._prepared, strict=True)
        ]

    async def pieces(
        self, runs: Sequence[asyncio.Task[TaskRecord]], seconds: float
    ) -> AsyncGenerator[tuple[int, str], None]:
        """Pieces of text with the answer that each is of, as they come, until all tasks have ended.

        Raises:
            _Late: they take longer than so many seconds.
        """
        together = asyncio.create_task(_ended(runs))
        late = time.monotonic() + seconds
        try:
            while not together.done():
                news = asyncio.create_task(self._news.wait())
                left = max(late - time.monotonic(), 0.0)
                both: list[asyncio.Future[Any]] = [together, news]
                try:
                    done, _ = await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
                if not done:
                    raise _Late
                self._news.clear()
                for index in range(len(self.tasks)):
                    if piece := self._piece(index):
                        yield index, piece
        finally:
            together.cancel()

    def rest(self, index: int, answer: ServedAnswer) -> str | None:
        """What of an answer was not sent yet."""
        if answer.text is None:
            return None
        return answer.text[len(self._sent[index]) :] or None

    def _piece(self, index: int) -> str:
        """The text that is certain by now and was not sent: no half character, no beginning of a stop string."""
        if not (self.model.writes and self._values[index]) or self.query.is_json:
            return ""  # what must be of a form is sent once it was seen to be
        text = before_stop(self.model.text(self._values[index]), self.query.stop)
        held = max(map(len, self.query.stop), default=1) - 1
        certain = text.rstrip("\N{REPLACEMENT CHARACTER}")
        certain = certain[: len(certain) - held] if held else certain
        sent = self._sent[index]
        if len(certain) <= len(sent) or not certain.startswith(sent):
            return ""
        self._sent[index] = certain
        return certain[len(sent) :]

    def _listen(self, index: int, event: Event) -> None:
        if isinstance(event, TaskDone):
            self._prepared[index] = event.task.input
        elif isinstance(event, RoundDone):
            self._values[index] += event.round.decision.emitted
            self._news.set()


async def _body(request: Request) -> bytes | Response:
    """The whole body of a request, or the answer that says why it is not read."""
    too_long = failure(413, f"more than {MOST >> 20} MiB; nothing of it was taken")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST:
        return too_long
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST:
            return too_long
    return bytes(body)


async def _ended(runs: Sequence[asyncio.Task[TaskRecord]]) -> None:
    """Until all tasks have ended, however they did."""
    await asyncio.wait(runs)


async def _disconnected(request: Request) -> None:
    """Until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refusal(error: DraftVerifyError) -> Response:
    """A request that cannot be begun."""
    if isinstance(error, Full):
        return failure(429, str(error), kind="rate_limit_error", code="overloaded", retry_after=1)
    return failure(400, str(error), param=getattr(error, "path", None) or None)


def _failed(record: TaskRecord) -> Response:
    """A call of a part failed: before the first round, or as a part says of the task, it is the request's fault."""
    outcome = record.outcome
    error = outcome.failure
    if error is not None and (not record.rounds or error.error == "ConfigError"):
        return failure(400, outcome.reason, code="task")
    return failure(
        502, outcome.reason or "a part of the pipeline failed", kind="server_error", code="pipeline_failed"
    )


def _unexpected(error: Exception) -> Response:
    return failure(500, f"{type(error).__name__}: {error}", kind="server_error")


async def _no_route(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return failure(status, f"there is no {request.method} {redact(request.url.path)} here")
