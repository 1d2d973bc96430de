"""One pipeline as a model: the task that a request asks for, the settings it runs under, and its answer as text."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from draftverify.bench.monitors import MonitoredPipeline, task_shares
from draftverify.bench.monitors.alarms import check_threshold
from draftverify.bench.records import MonitorEntry
from draftverify.bench.runner.bench import Unit
from draftverify.checks.verifiers import JsonSchema
from draftverify.engine.pipeline import Pipeline
from draftverify.errors import below
from draftverify.exchanges import exchanges_of
from draftverify.protocols import WritesText
from draftverify.secret import quiet
from draftverify.serve.body import CompletionRequest
from draftverify.traits import offers
from draftverify.values import Context, Task, TaskRecord

_log = quiet(logging.getLogger(__name__))

KEPT = 64
"""Pipelines of the settings that were asked for last."""


class ServedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one task.

    Args:
        record: of the task.
        text: the answer; None where there is none.
        refusal: why there is none.
        finish: "stop" or "length".
        is_text: whether the text is all that the value says.
        tokens_in, tokens_out: what was read and sampled for it, all rounds and judges together.
        currency: of its cost; "" where none is declared.
    """

    record: TaskRecord
    text: str | None
    refusal: str | None
    finish: str
    is_text: bool
    tokens_in: int
    tokens_out: int
    currency: str = ""


class ServedModel:
    """A pipeline under a name.

    Args:
        name: the model's.
        pipeline: it. Requests with settings of their own run through copies that share its parts, and so its passes.
        field: which field of a task the user's text is besides `prompt` and `question`, as the experiment's tasks have
            it; None for no other.
        monitored: the pipeline with its monitor; None where nothing watches it.
        currency: that costs are in; "" where none is declared.
    """

    def __init__(
        self,
        name: str,
        pipeline: Pipeline,
        field: str | None = None,
        monitored: MonitoredPipeline | None = None,
        currency: str = "",
    ) -> None:
        self.name = name
        self.currency = currency
        self.field = field
        self.monitored = monitored
        self._pipeline = pipeline
        self._reads = pipeline.traits.reads
        self._written: Callable[[Sequence[Any]], str] | None = (
            pipeline.verifier.text if offers(pipeline.verifier, WritesText) else None
        )
        self._of_settings: OrderedDict[str, Pipeline] = OrderedDict()

    @property
    def pipeline(self) -> Pipeline:
        """What runs the next task: after an alarm that is acted upon another than before."""
        return self._pipeline if self.monitored is None else self.monitored.current

    def begin_watching(self, entries: Sequence[MonitorEntry]) -> None:
        """Bring the monitor to where it was; its pipeline is open.

        Raises:
            ConfigError: its threshold was fitted for another verifier.
        """
        if self.monitored is not None:
            check_threshold(self.monitored.monitor, self._pipeline)
            for entry in entries:
                self.monitored.monitor.observe(entry.task, entry.shares)

    def watch(self, task: ServedTask, record: TaskRecord) -> MonitorEntry | None:
        """Tell the monitor of a task; of one with sampling settings of its own nothing, as those of its reference had
        none.

        Returns:
            What it was told, and what it said; None where it was told nothing.
        """
        if self.monitored is None or self._changes(task.query):
            return None
        monitor = self.monitored.monitor
        shares = task_shares(
            monitor, task.task, record, monitor.tasks, checks_all=self._pipeline.enough is None
        )
        alarms = monitor.observe(task.name, shares)
        for alarm in alarms:
            _log.warning("%s: %s", self.name, alarm)
        return MonitorEntry(task=task.name, shares=shares, alarms=alarms)

    @property
    def writes(self) -> bool:
        """Whether its values are pieces of a text, which can be sent as they come."""
        return self._written is not None

    def _heeds(self, setting: str) -> bool:
        """Whether some part reads a setting, or may."""
        return self._reads is None or setting in self._reads

    def ignored(self, query: CompletionRequest) -> list[str]:
        """What of a request no part heeds."""
        names = [name for name in query.settings if not self._heeds(name)]
        if not self.writes:
            names += ["max_tokens"] if query.limit is not None else []
            names += ["stop"] if query.stop else []
        return names

    def pipeline_for(self, query: CompletionRequest) -> Pipeline:
        """The pipeline under the request's settings.

        Raises:
            ConfigError: a part refuses one.
        """
        settings, pipeline = self._changes(query), self.pipeline
        cuts = self.writes and (query.limit is not None or bool(query.stop))
        if not settings and not cuts:
            return pipeline
        variant = [
            pipeline is self._pipeline,
            settings,
            query.limit if cuts else None,
            query.stop if cuts else (),
        ]
        key = json.dumps(variant, sort_keys=True)
        if key in self._of_settings:
            self._of_settings.move_to_end(key)
            return self._of_settings[key]
        changes: dict[str, Any] = {"settings": {**pipeline.settings, **settings}}
        if cuts:
            assert self._written is not None
            changes["done"] = Cut(pipeline.done, query.limit, query.stop, self._written)
        changed = self._of_settings[key] = pipeline.with_parts(**changes)
        if len(self._of_settings) > KEPT:
            self._of_settings.popitem(last=False)
        return changed

    def _changes(self, query: CompletionRequest) -> dict[str, Any]:
        """The settings of a request that some part heeds, where they are others than the pipeline's."""
        defaults = self._pipeline.settings
        settings = {
            name: value
            for name, value in query.settings.items()
            if self._heeds(name) and (name not in defaults or defaults[name] != value)
        }
        if query.schema is not None and self._reads is not None and "json_schema" in self._reads:
            settings["json_schema"] = query.schema
        return settings

    def tasks(self, query: CompletionRequest, id: str) -> list[ServedTask]:
        """The request's tasks, for each prompt as many as answers: with a seed the same request has the same draws.

        Args:
            query: the request.
            id: of its answer; its only task has it too, and of several each with its number.
        """
        tasks: list[ServedTask] = []
        for place, (fields, prompt) in enumerate(zip(query.inputs, query.prompts, strict=True)):
            input = dict(fields)
            if self.field is not None and prompt is not None:
                input.setdefault(self.field, prompt)
            if query.schema is not None:
                input["json_schema"] = query.schema
            for number in range(query.n):
                name = id if query.n * len(query.inputs) == 1 else f"{id}.{len(tasks)}"
                drawn = name
                if query.seed is not None:
                    described = json.dumps([query.seed, place, number, input], sort_keys=True)
                    drawn = hashlib.sha256(described.encode()).hexdigest()[:32]
                tasks.append(ServedTask(name, self, query, Task(id=drawn, input=input)))
        return tasks

    def text(self, values: Sequence[Any]) -> str:
        """What pieces of a text are together."""
        assert self._written is not None
        return self._written(list(values))

    def answer(
        self, record: TaskRecord, query: CompletionRequest, prepared: Mapping[str, Any]
    ) -> ServedAnswer:
        """A task's record as an answer.

        Args:
            record: of the task.
            query: the request.
            prepared: the task's input as the verifier had prepared it.
        """
        outcome = record.outcome
        text: str | None = None
        finish, refusal = "stop", None
        tokens_in, tokens_out = _spent(record)
        if self.writes:
            ids = prepared.get("prompt_ids")
            tokens_in += len(ids) if isinstance(ids, (list, tuple)) else 0
            tokens_out += sum(len(round.decision.emitted) for round in record.rounds)
        if outcome.status == "accepted":
            value = outcome.value
            if self.writes and isinstance(value, (list, tuple)):
                written = self.text(value)
                text = before_stop(written, query.stop)
                if text == written and (
                    _reached(query.limit, value) or _goes_on(value, prepared.get("eos_ids"))
                ):
                    finish = "length"
            else:
                text = _as_text(value)
            refusal = self._unfit(text, query)
        else:
            refusal = outcome.reason or f"nothing was accepted ({outcome.status})"
        return ServedAnswer(
            record=record,
            text=None if refusal else text,
            refusal=refusal,
            finish=finish,
            is_text=self.writes or isinstance(outcome.value, str),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            currency=self.currency,
        )

    def _unfit(self, text: str, query: CompletionRequest) -> str | None:
        """Why an answer is not of the form that was asked for, whatever the pipeline's own verifier checks."""
        if not query.is_json:
            return None
        schema = query.schema if query.schema is not None else {"type": "object"}
        check = _json_schema(msgspec.json.encode(schema)).check(text)
        if check.verdict == "pass":
            return None
        return f"the answer is not as response_format says: {check.feedback}"


@lru_cache(KEPT)
def _json_schema(schema: bytes) -> JsonSchema:
    """What checks answers by a schema, as JSON: to make it takes a while, and clients send the same again."""
    return JsonSchema(msgspec.json.decode(schema))


def check_schema(schema: Mapping[str, Any]) -> None:
    """See that a client's schema is one, which takes a while.

    Raises:
        ConfigError: it is none.
    """
    with below("response_format.json_schema"):
        _json_schema(msgspec.json.encode(schema)).open()


class ServedTask(NamedTuple):
    """One task of a request.

    Args:
        name: under which it is recorded and asked about: no other task of the server has it.
        model, query: the request.
        task: what is run. Of equal requests with a seed it has the same id, on which its draws depend.
    """

    name: str
    model: ServedModel
    query: CompletionRequest
    task: Task

    @property
    def unit(self) -> Unit:
        """The work that it is, from its beginning."""
        return Unit(pipeline=self.model.name, task=self.task)


class Cut:
    """A request's own end of an answer, beside the pipeline's.

    Args:
        inner: the pipeline's stopping rule; None for none.
        limit: the most values.
        strings: texts that end an answer; the value that completes one is the last.
        text: what values are together.
    """

    def __init__(
        self,
        inner: Callable[[Context, tuple[Any, ...]], int | None] | None,
        limit: int | None,
        strings: Sequence[str],
        text: Callable[[Sequence[Any]], str],
    ) -> None:
        self.inner = inner
        self.limit = limit
        self.strings = strings
        self._text = text

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """How many of the new values to keep when the answer ends among them, else None."""
        keeps = [] if self.inner is None else [self.inner(context, new)]
        earlier = len(context.accepted) - len(new)
        if self.limit is not None and len(context.accepted) >= self.limit:
            keeps.append(max(self.limit - earlier, 0))
        if self.strings and self._ended(accepted := tuple(context.accepted)):
            places = range(1, len(new) + 1)
            keeps.append(next((n for n in places if self._ended(accepted[: earlier + n])), len(new)))
        return min((keep for keep in keeps if keep is not None), default=None)

    def _ended(self, values: Sequence[Any]) -> bool:
        text = self._text(list(values))
        return any(string in text for string in self.strings)


def before_stop(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop string in it."""
    places = [place for string in stop if (place := text.find(string)) >= 0]
    return text[: min(places)] if places else text


def _reached(limit: int | None, value: Sequence[Any]) -> bool:
    return limit is not None and len(value) >= limit


def _goes_on(value: Sequence[Any], ends: Any) -> bool:
    """Whether an answer would have gone on, where it is known which values end one."""
    return isinstance(ends, (list, tuple)) and not (value and value[-1] in ends)


def _spent(record: TaskRecord) -> tuple[int, int]:
    """Tokens that models read and sampled, in all rounds and inner tasks."""
    tokens_in = tokens_out = 0
    for round in record.rounds:
        for _, exchange in exchanges_of(round):
            tokens_in += max(exchange.tokens_in, 0)
            tokens_out += sum(max(reply.tokens, 0) for reply in exchange.replies)
        for inner in round.nested:
            inner_in, inner_out = _spent(inner)
            tokens_in, tokens_out = tokens_in + inner_in, tokens_out + inner_out
    return tokens_in, tokens_out


def _as_text(value: Any) -> str:
    """An answer as a chat shows it: a text as it is, of an object its `answer`, else its `text`, else JSON."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("answer", "text") if value.get(name) is not None), value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
