"""Token ids as text, piece by piece: for a stream, for stop strings, and for people who look at a block."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from draftverify import DraftVerifyError, Event, Pipeline, TaskDone, TaskRecord
from draftverify_tokens.models import TokenModel

HALF = "\N{REPLACEMENT CHARACTER}"
"""What decoders write for bytes that are no character, or not yet."""
LONGEST = 4
"""A character has at most so many bytes, so no more tokens than this can wait for its end."""


class Detokeniser:
    """Turns tokens into text as they come, without ever showing half a character.

    A character can be spread over several tokens, so what may be its beginning is held back. A tokenizer may write a
    token otherwise at the start of a text than inside it, so tokens are decoded together with some that were shown
    before. All the texts together are `model.decode` of all the tokens; only beside bytes that are no text a decoder
    that reads byte tokens in runs (sentencepiece's) may write replacement characters for the whole where characters
    were shown. A token costs the same wherever in the text it stands.

    Args:
        model: whose tokens they are.
    """

    def __init__(self, model: TokenModel) -> None:
        self.model = model
        # Special tokens have no text. They may come without end, where the end token is ignored.
        special = getattr(getattr(model, "tokenizer", None), "all_special_ids", ())
        self._silent = frozenset(token for token in special if not model.decode([token]))
        self._tokens: list[
            int
        ] = []  # some that were shown, as context, and those held back in whole or in part
        self._context = 0  # how many of them were whole at the last look
        self._shown = 0  # how many characters of their text were shown

    def push(self, token: int) -> str:
        """The text that is certain now and was not before; "" while a character is incomplete."""
        if token in self._silent:
            return ""
        self._tokens.append(int(token))
        text = self.model.decode(self._tokens)
        certain = len(text.rstrip(HALF))
        if certain < len(text):
            new = text[self._shown : certain]
            self._shown = max(self._shown, certain)
            return new + self._give_up(text)
        new = text[self._shown :]
        if new:
            del self._tokens[: self._context]
            self._context = len(self._tokens)
            self._shown = len(self.model.decode(self._tokens))
        elif 0 < self._context == len(self._tokens) - 1:
            self._tokens.pop()  # without text, in the midst of text: nothing will depend on it
        return new

    def flush(self) -> str:
        """What was held back, when no more tokens come."""
        new = self.model.decode(self._tokens)[self._shown :]
        self._tokens, self._context, self._shown = [], 0, 0
        return new

    def _give_up(self, text: str) -> str:
        """Show what can no longer become a character when many tokens wait, so that noise costs no more than text."""
        n = len(self._tokens)
        if n - self._context <= 4 * LONGEST:
            return ""
        for cut in range(n - LONGEST, n - 2 * LONGEST, -1):
            head = self.model.decode(self._tokens[:cut])
            # Only between characters do both parts have the text of the whole.
            if head + self.model.decode(self._tokens[cut:]) == text:
                new = head[self._shown :]
                self._shown = max(0, self._shown - len(head))
                del self._tokens[:cut]
                self._context = 0
                return new
        return ""


def pieces(model: TokenModel, tokens: Sequence[int]) -> list[str]:
    """One text per token, which together are the text of all; a character belongs to the token that completes it."""
    detokeniser = Detokeniser(model)
    texts = [detokeniser.push(token) for token in tokens]
    if texts:
        texts[-1] += detokeniser.flush()
    return texts


def stream_text(
    pipeline: Pipeline, task: Any, ended: list[TaskRecord] | None = None, silent: Collection[int] = ()
) -> Iterator[str]:
    """Decode a task and yield its text as it is accepted.

    Args:
        pipeline: one whose verifier is a `Target`.
        task: a Task, a mapping (its input) or a text (its prompt).
        ended: gets the task's record at the end, whose failure is then the caller's to tell.
        silent: tokens that have no text here.

    Yields:
        Pieces of text, none of them empty; together they are `model.decode` of the outcome's value.

    Raises:
        DraftVerifyError: the task failed, where nobody takes its record; after all text that was accepted before.
    """
    detokeniser = Detokeniser(pipeline.verifier.model)  # type: ignore[attr-defined]
    records: list[TaskRecord] = []

    def listen(event: Event) -> None:
        if isinstance(event, TaskDone):
            records.append(event.record)

    for decision in pipeline.stream(task, on_event=listen):
        if text := "".join([detokeniser.push(token) for token in decision.emitted if token not in silent]):
            yield text
    if text := detokeniser.flush():
        yield text
    for record in records:
        if ended is not None:
            ended.append(record)
        elif record.outcome.status == "failed":  # nobody sees it, and half an answer looks like a whole one
            raise DraftVerifyError(f"task {record.task!r} failed: {record.outcome.reason}")
