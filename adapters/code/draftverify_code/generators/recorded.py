"""Samples that a model gave earlier, read from a file and drawn again in their order: `code.recorded`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from draftverify import ConfigError, Context, Proposal, Task
from draftverify_code.generators.extract import program_in, truncate
from draftverify_code.program import texts_of
from draftverify_llm import (
    RecordedSample,
    RecordedSamples,
    RecordedTask,
    find_recording,
    plain_prompt,
    samples_drawn,
)

_BESIDE = ("answer", "correct", "score")


class RecordedPrograms(RecordedSamples):
    """Proposes recorded samples as alternatives, each once, in the file's order; exhausted with the last.

    The file is JSON Lines (gzipped or not), or an array. A line is one task with a list of samples, which are texts or
    objects, or one sample, and lines with the same task stand together:

        {"task_id": "t1", "samples": [{"text": "def f(): ...", "answer": null, "correct": true, "score": 0.5}]}
        {"task_id": "t1", "samples": ["def f(): ...", "def f(): ..."]}
        {"task_id": "t1", "text": "def f(): ..."}

    Other names are mapped by `fields`: our word, and the path of it in the file, with dots into objects and numbers
    into lists; `text`, `answer`, `correct` and `score` are looked for in each sample. A `*` in a path stands for the
    sample's number, where they are kept in parallel lists: `{text: "code.*", score: "rewards.*.0"}`. An empty path says
    that the file has no such thing. One line that cannot be read refuses the whole file, with its place; one that
    can be, but holds half of a surrogate pair, refuses its task alone.

    The place in the file is read off the rounds so far: a round whose items are the next ones was this part's own,
    any other was somebody else's. The proposal's evidence holds "answer", "correct" and "score", one entry per item,
    where recorded.

    Args:
        path: the file.
        fields: our words (task_id, prompt, samples, text, answer, correct, score) and their paths; each is its own
            path when absent.
        form: "program": a text as it stands; "completion": a text that continues the prompt (the recorded one where
            there is one, else the task's), joined to it; "text": a model's answer, the program taken out of it.
        stop: strings at the first of which a completion is cut; the task's `stop_tokens` when there are none.
        items: "text" proposes programs; "sample" objects with `text` and what else was recorded, for rules that vote
            by `answer`.
        match: how a task finds its samples. "task_id": by its id. "prompt": by the recorded prompt, which is the task's
            own up to white space, or else the one most alike among those that define the task's entry point last.
    """

    def __init__(
        self,
        path: Path,
        fields: Mapping[str, str] = {},
        form: Literal["program", "completion", "text"] = "program",
        stop: Sequence[str] = (),
        items: Literal["text", "sample"] = "text",
        match: Literal["task_id", "prompt"] = "task_id",
    ) -> None:
        super().__init__(path, fields, match)
        self.form = form
        self.stop = stop
        self.items = items

    def propose(self, context: Context, n: int) -> Proposal:
        """The next `n` samples of the task.

        Raises:
            ConfigError: the file has no samples of the task, or cannot be read.
        """
        recorded = find_task(self._get(), context.task, self.match, self.path)
        items = context.scratch.get(self)
        if items is None:
            items = context.scratch[self] = [
                self._item(sample, recorded, context.task) for sample in recorded.samples
            ]
        start = samples_drawn(items, context)
        drawn = recorded.samples[start : start + n]
        beside = {name: tuple(getattr(sample, name) for sample in drawn) for name in _BESIDE}
        return Proposal.alternatives(
            tuple(items[start : start + n]),
            evidence={name: values for name, values in beside.items() if any(v is not None for v in values)},
            exhausted=start + n >= len(items),
        )

    def _item(self, sample: RecordedSample, recorded: RecordedTask, task: Task) -> Any:
        text = sample.text
        prompt = recorded.prompt or task.input.get("prompt", "")
        if self.form == "completion":
            stop = texts_of(self.stop or task.input.get("stop_tokens", ()), "`stop`")
            text = prompt + truncate(text, stop)
        elif self.form == "text":
            text = program_in(text, task.input, prompt)
        if self.items == "text":
            return text
        beside = {name: getattr(sample, name) for name in _BESIDE}
        return {"text": text, **{name: value for name, value in beside.items() if value is not None}}


def find_task(
    tasks: Mapping[str, RecordedTask], task: Task, match: Literal["task_id", "prompt"], path: Path
) -> RecordedTask:
    """The recorded samples of a task.

    Raises:
        ConfigError: there are none, several recordings fit equally well, or a line of them is wrong.
    """
    prompt = task.input.get("prompt", "")
    if match == "task_id" or plain_prompt(prompt) in tasks:
        return find_recording(tasks, task, match, path)
    entry_point, vocabulary = task.input.get("entry_point"), set(prompt.split())
    likeness = {
        key: len(vocabulary & set(key.split())) / max(len(set(key.split())), 1)
        for key, recorded in tasks.items()
        if entry_point and _last_defined(recorded.prompt) == entry_point
    }
    best = max(likeness.values(), default=0.0)
    keys = [key for key, share in likeness.items() if share == best]
    if best < 0.5 or len(keys) > 1:
        places = ", ".join(tasks[key].where for key in keys)
        reason = f"the prompts at {places} fit equally well"
        reason = reason if best >= 0.5 else "no recorded prompt is like its own"
        raise ConfigError(f"there are no samples of the task {task.id!r}: {reason}", where=str(path))
    return tasks[keys[0]].usable()


def _last_defined(prompt: str) -> str:
    names = re.findall(r"^(?:async[ \t]+)?def[ \t]+(\w+)", prompt, re.M)
    return names[-1] if names else ""
