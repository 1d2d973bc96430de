"""The prompt and the values of an answer as text, or as turns of a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from draftverify.bench.records.entries import Entry
from draftverify.lab.training.judged import value_key
from draftverify.values import Task

Values: TypeAlias = Sequence[Any]
TextOf: TypeAlias = Callable[[str], "Callable[[Values], str] | None"]
"""Of a pipeline's name what makes a text of the values of an answer, as of token ids; None where they are texts
already, or JSON."""

_PROMPTS = ("prompt", "question")
"""Fields of an input that are its prompt, the first that is there."""


class AnswerText:
    """A task's accepted values, and their text.

    Attributes:
        values: what was emitted, round after round.
        starts: how many values there were before each round.
        likeliest: whether the target's likeliest value was taken, temperature 0.
        stepwise: whether it is made of many items, by what is recorded.
    """

    def __init__(self, entry: Entry, text_of: TextOf, *, likeliest: bool) -> None:
        self.likeliest = likeliest
        self.values: list[Any] = []
        self.starts: list[int] = []
        for round in entry.record.rounds:
            self.starts.append(len(self.values))
            self.values += round.decision.emitted
        value = entry.record.outcome.value
        self.is_value = isinstance(value, (list, tuple)) and value_key(list(value)) == value_key(self.values)
        self.stepwise = self.is_value or any(
            parent != -1 for round in entry.record.rounds for parent in round.parents
        )
        self._pipeline = entry.pipeline
        self._text_of = text_of

    def text(self, values: Values) -> str:
        """Values of the answer as one text: tokens as they are decoded, anything else line by line."""
        if all(isinstance(value, str) for value in values):
            return "\n".join(values)
        decode = self._text_of(self._pipeline)
        return "\n".join(map(_step_text, values)) if decode is None else decode(values)

    def steps(self, values: Values) -> list[str] | None:
        """The text of each value; None of tokens."""
        if all(isinstance(value, str) for value in values) or self._text_of(self._pipeline) is None:
            return list(map(_step_text, values))
        return None

    def ending(self, count: int, value: Any) -> tuple[str, str] | None:
        """The text of the first values and what another one adds to it; None where that is no text of its own, as half
        a character."""
        head = self.values[:count]
        head_text, full_text = self.text(head), self.text([*head, value])
        if not full_text.startswith(head_text) or full_text.endswith("\N{REPLACEMENT CHARACTER}"):
            return None
        return head_text, full_text[len(head_text) :]


class PromptText:
    """A task's prompt, as text or as turns."""

    def __init__(self, task: Task, chat: bool) -> None:
        self._turns = turns_of(task.input.get("messages"))
        self._begun = ""
        if self._turns is not None:
            if self._turns[-1]["role"] == "assistant":  # which is continued
                self._begun = self._turns.pop()["content"]
        else:
            self._text = prompt_text(task.input)
            if chat:
                self._turns = [{"role": "user", "content": self._text}]

    def row(self, prefix: str, **texts: str) -> dict[str, Any]:
        """The prompt, and texts that go on after `before`: in turns the assistant's whole turn, so that rows are whole
        conversations; else what comes after prompt and `before`."""
        if self._turns is not None:
            begun = self._begun + prefix
            return {
                "prompt": self._turns,
                **{name: [{"role": "assistant", "content": begun + text}] for name, text in texts.items()},
            }
        return {"prompt": self._text + prefix, **texts}


def turns_of(messages: Any) -> list[dict[str, str]] | None:
    """A conversation in TRL's form; None where the input has none that is all text."""
    if not messages or not isinstance(messages, (list, tuple)):
        return None
    turns = []
    for turn in messages:
        role, content = (turn.get("role"), turn.get("content")) if isinstance(turn, Mapping) else (None, None)
        if not (isinstance(role, str) and isinstance(content, str)):
            return None
        turns.append({"role": role, "content": content})
    return turns


def prompt_text(task_input: Mapping[str, Any]) -> str:
    """The prompt of a task: its text, else all of its input as JSON."""
    for name in _PROMPTS:
        if isinstance(task_input.get(name), str):
            return str(task_input[name])
    texts = [value for value in task_input.values() if isinstance(value, str)]
    return (
        texts[0] if len(task_input) == len(texts) == 1 else json.dumps(dict(task_input), ensure_ascii=False)
    )


def _step_text(value: Any) -> str:
    return value if isinstance(value, str) else value_key(value)
