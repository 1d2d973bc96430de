"""A request's tasks under way: their pieces as they come, their answers, and how long they may take."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any

from draftverify.bench.runner.bench import Done
from draftverify.engine.events import Event, RoundDone, TaskDone
from draftverify.serve.body import CompletionRequest
from draftverify.serve.model import ServedAnswer, ServedModel, ServedTask, before_stop
from draftverify.serve.tasks import Tasks
from draftverify.values import TaskRecord


class TooLate(Exception):
    """A request took longer than it may."""


class ServedRequest:
    """A request's tasks, and what has come of them so far.

    Args:
        model, query: the request.
        tasks: those to take up; when absent the request's own.

    Attributes:
        prepared: of each the input as the verifier had prepared it.
    """

    def __init__(
        self, model: ServedModel, query: CompletionRequest, tasks: Sequence[ServedTask] | None = None
    ) -> None:
        self.id = f"{'chatcmpl' if query.chat else 'cmpl'}-{uuid.uuid4().hex}"
        self.model = model
        self.query = query
        self.ignored = model.ignored(query)
        self.tasks = model.tasks(query, self.id) if tasks is None else list(tasks)
        self._pipeline = model.pipeline_for(query)
        self.prepared: list[Mapping[str, Any]] = [served.task.input for served in self.tasks]
        self._values: list[list[Any]] = [[] for _ in self.tasks]
        self._sent = [""] * len(self.tasks)
        self._news = asyncio.Event()

    def begin(self, tasks: Tasks, **options: Any) -> list[asyncio.Task[Done]]:
        """Begin them.

        Raises:
            Full: there is no room.
        """
        return tasks.start(
            [
                partial(
                    tasks.perform,
                    served,
                    self._pipeline,
                    on_event=partial(self._listen, index),
                    rounds=self.query.stream,
                    **options,
                )
                for index, served in enumerate(self.tasks)
            ]
        )

    def answers(self, records: Sequence[TaskRecord]) -> list[ServedAnswer]:
        """The records as answers."""
        return [
            self.model.answer(record, self.query, prepared)
            for record, prepared in zip(records, self.prepared, strict=True)
        ]

    async def pieces(
        self, runs: Sequence[asyncio.Task[Done]], seconds: float
    ) -> AsyncGenerator[tuple[int, str], None]:
        """Pieces of text with the answer that each is of, as they come, until all tasks have ended.

        Raises:
            TooLate: they take longer than so many seconds.
        """
        together = asyncio.create_task(all_ended(runs))
        late = time.monotonic() + seconds
        try:
            while not together.done():
                news = asyncio.create_task(self._news.wait())
                remaining = max(late - time.monotonic(), 0.0)
                both: list[asyncio.Future[Any]] = [together, news]
                try:
                    done, _ = await asyncio.wait(both, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
                if not done:
                    raise TooLate
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
            self.prepared[index] = event.task.input
        elif isinstance(event, RoundDone):
            self._values[index] += event.round.decision.emitted
            self._news.set()


async def all_ended(runs: Sequence[asyncio.Task[Done]]) -> None:
    """Until all tasks have ended, however they did."""
    await asyncio.wait(runs)
