"""Answers in the forms of OpenAI's API: whole, as pieces of a stream, and errors."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from draftverify.secret import redact
from draftverify.serve.body import CompletionRequest
from draftverify.serve.model import ServedAnswer
from draftverify.values import Round, TaskRecord


def failure(
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
    retry_after: int | None = None,
    close: bool = False,
) -> Response:
    """An error."""
    error = {"message": redact(message), "type": kind, "param": param, "code": code}
    fields = {} if retry_after is None else {"Retry-After": str(retry_after)}
    if close:
        fields["Connection"] = "close"
    return JSONResponse({"error": error}, status, headers=fields)


def failed(record: TaskRecord) -> Response:
    """A call of a part failed: before the first round, or as a part says of the task, it is the request's fault."""
    outcome = record.outcome
    error = outcome.failure
    if error is not None and (not record.rounds or error.error == "ConfigError"):
        return failure(400, outcome.reason, code="task")
    return failure(
        502, outcome.reason or "a part of the pipeline failed", kind="server_error", code="pipeline_failed"
    )


def unexpected(error: Exception) -> Response:
    """What fails here and in no part."""
    return failure(500, f"{type(error).__name__}: {error}", kind="server_error")


def rendered(data: Any, status: int = 200, fields: Mapping[str, str] = {}) -> Response:
    """An answer as JSON, with more header fields."""
    return Response(_json(data), status, headers=dict(fields), media_type="application/json")


def completion(
    id: str, query: CompletionRequest, answers: Sequence[ServedAnswer], ignored: Sequence[str]
) -> dict[str, Any]:
    """The whole answer to a request."""
    choices: list[dict[str, Any]] = []
    for index, answer in enumerate(answers):
        choice: dict[str, Any] = {"index": index, "finish_reason": answer.finish, "logprobs": None}
        if query.chat:
            message = {"role": "assistant", "content": answer.text, "refusal": answer.refusal}
            choices.append({**choice, "message": message})
        else:
            choices.append({**choice, "text": answer.text or ""})
    return {
        "id": id,
        "object": "chat.completion" if query.chat else "text_completion",
        "created": int(time.time()),
        "model": query.model,
        "choices": choices,
        "usage": usage(answers),
        "draftverify": about(answers, ignored),
    }


def usage(answers: Sequence[ServedAnswer]) -> dict[str, int]:
    """What was read and sampled for all answers, refused drafts and judges included."""
    tokens_in = sum(answer.tokens_in for answer in answers)
    tokens_out = sum(answer.tokens_out for answer in answers)
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
    }


def about(answers: Sequence[ServedAnswer], ignored: Sequence[str]) -> dict[str, Any]:
    """What the pipeline did, which no field of OpenAI's says."""
    return {
        "ignored": list(ignored),
        "choices": [
            {
                "status": answer.record.outcome.status,
                **({} if answer.is_text else {"value": answer.record.outcome.value}),
                "reason": redact(answer.refusal or answer.record.outcome.reason),
                **_figures(answer),
            }
            for answer in answers
        ],
    }


def headers(answers: Sequence[ServedAnswer]) -> dict[str, str]:
    """The same figures as headers; of several answers of all together, and the first's score."""
    tallies = [answer.record.outcome.tally for answer in answers]
    drafted, accepted = (sum(getattr(tally, name) for tally in tallies) for name in ("trials", "accepted"))
    fields = {
        "X-Draftverify-Status": ",".join(dict.fromkeys(answer.record.outcome.status for answer in answers)),
        "X-Draftverify-Accepted": f"{accepted}/{drafted}",
    }
    score, mean = answers[0].record.outcome.score, mean_accepted_length(answers[0].record.rounds)
    if score is not None:
        fields["X-Draftverify-Score"] = f"{score:.6g}"
    if mean is not None:
        fields["X-Draftverify-Mean-Accepted-Length"] = f"{mean:.4g}"
    return fields


def _figures(answer: ServedAnswer) -> dict[str, Any]:
    outcome = answer.record.outcome
    return {
        "accepted": outcome.tally.accepted,
        "checked": outcome.tally.trials,
        "rounds": outcome.rounds,
        "score": outcome.score,
        "mean_accepted_length": mean_accepted_length(answer.record.rounds),
        "seconds": outcome.seconds,
        "cost": outcome.cost,
        "currency": answer.currency,
        "caveats": dict(outcome.tally.caveats),
    }


def mean_accepted_length(rounds: Sequence[Round]) -> float | None:
    """Values that joined the answer, a verifier's pass: of tokens how many one pass of the target brought, its own
    included (τ in Li et al. 2024, EAGLE); None where there was no pass."""
    passes = sum(round.timing.passes for round in rounds)
    return sum(len(round.decision.emitted) for round in rounds) / passes if passes else None


class Chunks:
    """The events of a stream.

    Args:
        id: of the completion.
        query: the request.
    """

    def __init__(self, id: str, query: CompletionRequest) -> None:
        self._query = query
        self._head = {
            "id": id,
            "object": "chat.completion.chunk" if query.chat else "text_completion",
            "created": int(time.time()),
            "model": query.model,
        }

    def begin(self, index: int) -> bytes:
        """Who speaks; of a chat alone."""
        delta = {"role": "assistant", "content": ""}
        return self._choice(index, delta=delta) if self._query.chat else b""

    def text(self, index: int, text: str) -> bytes:
        """A piece of an answer."""
        return self._choice(index, delta={"content": text}, text=text)

    def end(self, index: int, answer: ServedAnswer) -> bytes:
        """The end of an answer: why it ended, or why there is none."""
        delta = {"refusal": answer.refusal} if answer.refusal else {}
        return self._choice(index, delta=delta, finish=answer.finish)

    def last(self, answers: Sequence[ServedAnswer], ignored: Sequence[str]) -> bytes:
        """What the pipeline did, and the usage where it was asked for."""
        used = {"usage": usage(answers)} if self._query.include_usage else {}
        return _event({**self._head, "choices": [], **used, "draftverify": about(answers, ignored)})

    def _choice(
        self, index: int, *, delta: Mapping[str, Any], text: str = "", finish: str | None = None
    ) -> bytes:
        content = {"delta": delta} if self._query.chat else {"text": text}
        return _event({**self._head, "choices": [{"index": index, "finish_reason": finish, **content}]})


def _event(data: Any) -> bytes:
    """One server-sent event (WHATWG HTML, 9.2)."""
    return b"data: " + _json(data) + b"\n\n"


def _json(data: Any) -> bytes:
    """Data as JSON, whatever an accepted value holds: what is no number is null, half a character an escape."""
    try:
        return json.dumps(data, allow_nan=False, default=repr).encode()
    except ValueError:
        return json.dumps(_finite(data), allow_nan=False, default=repr).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
