"""An answer to a prompt: whole, or as a text that comes piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from collections.abc import Generator as PyGenerator
from dataclasses import dataclass
from typing import Literal

from draftverify import DraftVerifyError, Pipeline, Task, TaskRecord
from draftverify_llm import before_stop
from draftverify_tokens.text import stream_text


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer.

    Args:
        text: without the end token, and up to a stop string, which is not in it.
        ids: the answer's tokens alone, all of them: the end token, or those of the stop string, are the last.
        finish_reason: "stop" (an end token, a stop string or a stopping criterion), "length" (`max_new_tokens`, or the
            model has no position left).
        passes: forward passes of the target, the one that read the prompt among them.
        drafted: drafted tokens that the target judged.
        accepted: those of them that were kept.
        share: of `ids` the share that the drafter wrote; the others are the target's own.
        logprobs: for each of `ids` the natural logarithm of the probability that the target itself gives it after
            what stands before it: the log-softmax of its logits, whatever temperature, filters, penalties or grammar
            it was chosen under. None unless asked for.
        top_logprobs: for each of `ids` those of so many likeliest tokens as were asked for, by id, the likeliest first.
    """

    text: str
    ids: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    passes: int
    drafted: int
    accepted: int
    share: float
    logprobs: tuple[float, ...] | None = None
    top_logprobs: tuple[Mapping[int, float], ...] | None = None

    @property
    def acceptance(self) -> float | None:
        """accepted / drafted; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


class TextStream:
    """The text of an answer as it is made: an iterator of pieces, none empty; `result` is the whole of it.

    No piece holds half a character or part of a stop string; together they are `result.text`. Closed early, or left
    at the end of a `with`, it ends the decoding.

    Args:
        pipeline: what decodes.
        task: the prompt.
        strings: texts that end the answer.
        ends: tokens that end it.
        answer: makes the whole answer of the task's record.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        task: Task,
        strings: Sequence[str],
        ends: Set[int],
        answer: Callable[[TaskRecord], Generation],
    ) -> None:
        self._pipeline, self._task, self._answer = pipeline, task, answer
        self._strings, self._ends = strings, ends
        self._closing: Callable[[], None] = lambda: None
        self._pieces = self._read()
        self._result: Generation | None = None

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the decoding; what was not read is not made."""
        self._pieces.close()
        self._closing()

    @property
    def result(self) -> Generation:
        """The whole answer; what is left of the stream is read first.

        Raises:
            DraftVerifyError: the stream was closed before its end, or the task failed.
        """
        for _ in self:
            pass
        if self._result is None:
            raise DraftVerifyError("the stream was closed, or failed, before its end; there is no result")
        return self._result

    def _read(self) -> PyGenerator[str, None, None]:
        try:
            text, ended = "", list[TaskRecord]()
            for piece in stream_text(self._pipeline, self._task, ended, self._ends):
                text += piece
                ready = len(text) - _held_back(text, self._strings)
                if ready:
                    yield text[:ready]
                    text = text[ready:]
            text = before_stop(text, self._strings)
            if text:
                yield text
            self._result = self._answer(ended[0])
        finally:
            self._closing()


def _held_back(text: str, strings: Sequence[str]) -> int:
    """How many characters at the text's end may be of a stop string."""
    held = [len(text) - place for string in strings if (place := text.find(string)) >= 0]
    for string in strings:
        begun = (n for n in range(min(len(string) - 1, len(text)), 0, -1) if text.endswith(string[:n]))
        held.append(next(begun, 0))
    return max(held, default=0)
