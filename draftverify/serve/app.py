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
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from draftverify.bench.records import RunDirectory
from draftverify.bench.runner.bench import Done
from draftverify.errors import DraftVerifyError
from draftverify.secret import Secret, quiet, redact
from draftverify.serve.answers import Chunks, completion, failed, failure, headers, rendered, unexpected
from draftverify.serve.asking import ServedQuestions
from draftverify.serve.body import CompletionRequest, read_chat, read_completion
from draftverify.serve.limits import ServerLimits
from draftverify.serve.lockstep import Lockstep
from draftverify.serve.metrics import Metrics
from draftverify.serve.model import ServedAnswer, check_schema
from draftverify.serve.questions import OpenQuestion
from draftverify.serve.recording import ServedRecords
from draftverify.serve.request import ServedRequest, TooLate
from draftverify.serve.tasks import Tasks
from draftverify.serve.waiting import await_tasks, read_body, refusal, too_late

_log = quiet(logging.getLogger(__name__))


class ServedApi:
    """The app's state, and its handlers.

    Args:
        lockstep: in which the models are open.
        hosts: what a request's Host may be; None for any, where there is a token.
        token: that clients send as their API key; None for none.
        limits: how much at once, and how long.
        directory: the open run directory that tasks are recorded in; None for none.
    """

    def __init__(
        self,
        lockstep: Lockstep,
        *,
        hosts: frozenset[str] | None,
        token: Secret | None,
        limits: ServerLimits,
        directory: RunDirectory | None = None,
    ) -> None:
        self.models = lockstep.models
        self.metrics = Metrics(self.models)
        self.recording = None if directory is None else ServedRecords(directory, self.models, self.metrics)
        self.tasks = Tasks(limits.concurrency, limits.queue, self.metrics, lockstep, self.recording)
        self.asking = ServedQuestions(self.tasks, self.recording, self.metrics, limits)
        self._hosts = hosts
        self._token = token
        self._limits = limits
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
                Route("/v1/questions", self._guarded(self.asking.list_questions)),
                Route("/v1/questions/{id}", self._guarded(self.asking.show)),
                Route("/v1/questions/{id}", self._guarded(self.asking.answer), methods=post),
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
                return unexpected(error)

        return guarded

    def _refused(self, request: Request) -> Response | None:
        authorization = request.headers.get("authorization", "")
        if self._token is not None:
            if not hmac.compare_digest(authorization.encode("latin-1"), f"Bearer {self._token}".encode()):
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
        names = ", ".join(self.models)
        return failure(
            404, f"there is no model {name!r}; there are {names}", param="model", code="model_not_found"
        )

    # Completions

    async def _complete(self, read: Callable[[bytes], CompletionRequest], request: Request) -> Response:
        begun, model = time.monotonic(), ""
        body = await read_body(request, self._limits)
        if isinstance(body, Response):
            self.metrics.count_request("", body.status_code, begun)
            return body
        try:
            query = read(body)
            if query.model not in self.models:
                response = self._unknown(query.model)
                self.metrics.count_request("", response.status_code, begun)
                return response
            model = query.model
            if query.schema is not None:
                await asyncio.to_thread(check_schema, query.schema)
            work = ServedRequest(self.models[model], query)
            runs = work.begin(self.tasks)
        except DraftVerifyError as error:
            response = refusal(error)
        else:
            if query.stream:
                pieces = self._streamed(work, runs, begun)
                return StreamingResponse(
                    pieces, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
                )
            response = await self._whole(request, work, runs, begun)
        self.metrics.count_request(model, response.status_code, begun)
        return response

    async def _whole(
        self, request: Request, work: ServedRequest, runs: list[asyncio.Task[Done]], begun: float
    ) -> Response:
        ended = await await_tasks(request, runs, self._limits, begun)
        if isinstance(ended, Response):
            return ended
        answers, questions = await self._answers(work, ended)
        if (response := _first_failure(ended)) is not None:
            return response
        if questions and len(answers) == 1:
            return rendered(questions[0].plain(), 202, {"Location": questions[0].path})
        return rendered(completion(work.id, work.query, answers, work.ignored), fields=headers(answers))

    async def _streamed(
        self, work: ServedRequest, runs: list[asyncio.Task[Done]], begun: float
    ) -> AsyncIterator[bytes]:
        """The events of a stream; the client may go at any time, which closes this."""
        chunks, status = Chunks(work.id, work.query), 499
        try:
            for index in range(len(runs)):
                if start := chunks.begin(index):
                    yield start
            async with aclosing(
                work.pieces(runs, self._limits.timeout - (time.monotonic() - begun))
            ) as pieces:
                async for index, text in pieces:
                    yield chunks.text(index, text)
            ended = [run.result() for run in runs]
            answers, _ = await self._answers(work, ended)
            if (response := _first_failure(ended)) is not None:
                status = response.status_code
                yield b"data: " + bytes(response.body) + b"\n\n"
                return
            for index, answer in enumerate(answers):
                if (remainder := work.rest(index, answer)) is not None:
                    yield chunks.text(index, remainder)
                yield chunks.end(index, answer)
            yield chunks.last(answers, work.ignored)
            yield b"data: [DONE]\n\n"
            status = 200
        except TooLate:
            status = 504
            yield b"data: " + bytes(too_late(self._limits).body) + b"\n\n"
        except Exception as error:  # ours: the connection would end without a word
            _log.exception("a stream failed")
            status = 500
            yield b"data: " + bytes(unexpected(error).body) + b"\n\n"
        finally:
            for run in runs:
                run.cancel()
            self.metrics.count_request(work.query.model, status, begun)

    async def _answers(
        self, work: ServedRequest, ended: Sequence[Done]
    ) -> tuple[list[ServedAnswer], list[OpenQuestion]]:
        """The answers, and the questions of tasks that wait for a person, whose answers say where they stand."""
        answers = await asyncio.to_thread(work.answers, [done.record for done in ended])
        questions = []
        for index, done in enumerate(ended):
            if done.question is not None:
                question = OpenQuestion(work.tasks[index], done.record, done.question)
                questions.append(self.asking.add(question))
                refusal = f"this waits for a person's answer: {question.path}"
                answers[index] = msgspec.structs.replace(answers[index], refusal=refusal)
            self.metrics.count(work.query.model, answers[index])
        return answers, questions


def _first_failure(ended: Sequence[Done]) -> Response | None:
    """The error of the first task that failed; None where none did."""
    records = (done.record for done in ended)
    return next((failed(record) for record in records if record.outcome.status == "failed"), None)


async def _no_route(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return failure(status, f"there is no {request.method} {redact(request.url.path)} here")
