"""What handlers do with a connection: read a request's body, and wait for its tasks while the client is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from draftverify.bench.runner.bench import Done
from draftverify.errors import DraftVerifyError, StoreError
from draftverify.serve.answers import failure
from draftverify.serve.limits import MOST, ServerLimits
from draftverify.serve.request import all_ended
from draftverify.serve.tasks import Full


async def read_body(request: Request, limits: ServerLimits) -> bytes | Response:
    """The whole body of a request, or the answer that says why it is not read."""
    too_long = failure(413, f"more than {MOST >> 20} MiB; nothing of it was taken", close=True)
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST:
        return too_long
    try:
        body = await asyncio.wait_for(_whole_body(request), limits.arrival)
    except TimeoutError:
        late = f"the body did not come within {limits.arrival:g} s"
        return failure(408, late, kind="timeout_error", code="timeout", close=True)
    return too_long if body is None else body


async def _whole_body(request: Request) -> bytes | None:
    """A request's body; None where it is too long."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST:
            return None
    return bytes(body)


async def await_tasks(
    request: Request, runs: Sequence[asyncio.Task[Done]], limits: ServerLimits, begun: float
) -> list[Done] | Response:
    """What came of a request's tasks, or why there is nothing. Tasks that nobody waits for are let go.

    Args:
        request: whose client may go away.
        runs: the tasks.
        limits: how long they may take.
        begun: when the request came, by the monotonic clock.
    """
    together = asyncio.create_task(all_ended(runs))
    disconnected = asyncio.create_task(_disconnected(request))
    try:
        seconds = max(limits.timeout - (time.monotonic() - begun), 0.0)
        both: list[asyncio.Future[Any]] = [together, disconnected]
        done, _ = await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if together in done:
            return [run.result() for run in runs]
        return Response(status_code=499) if disconnected in done else too_late(limits)
    finally:
        for task in (*runs, together, disconnected):
            task.cancel()  # of those under way: it ends once the call does that it is in


def refusal(error: DraftVerifyError) -> Response:
    """A request that cannot be begun."""
    if isinstance(error, Full):
        return failure(429, str(error), kind="rate_limit_error", code="overloaded", retry_after=1)
    if isinstance(error, StoreError):
        return failure(503, str(error), kind="server_error", code="records", retry_after=5)
    return failure(400, str(error), param=getattr(error, "path", None) or None)


def too_late(limits: ServerLimits) -> Response:
    """There is no answer in time."""
    return failure(504, f"no answer within {limits.timeout:g} s", kind="timeout_error", code="timeout")


async def _disconnected(request: Request) -> None:
    """Until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
