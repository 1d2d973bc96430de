"""Samples that a text model gave earlier, read from a file: recordings, and how a task finds its own in one."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from draftverify import ConfigError, Context, Task
from draftverify.traits import GeneratorTraits
from draftverify_llm.jsonl import MISSING, read_rows, value_at
from draftverify_llm.shared import Shared

FIELDS = ("task_id", "prompt", "samples", "text", "answer", "correct", "score", "system")
_BESIDE = ("answer", "correct", "score", "system")


class RecordedSample(msgspec.Struct, frozen=True):
    """One sample. All but the text is None where the file does not say.

    Args:
        text: what the model wrote.
        answer: what was read from it.
        correct: whether it was right.
        score: what some judge gave it; higher is better.
        system: which model gave it, where a file has samples of several.
    """

    text: str
    answer: Any = None
    correct: bool | None = None
    score: float | None = None
    system: str | None = None


class RecordedTask(msgspec.Struct, frozen=True):
    """The samples of one task.

    Args:
        where: the place in the file of the first of them.
        prompt: what they answer; "" where the file does not say.
        samples: in the file's order.
        wrong: the place of a line of it that holds half of a surrogate pair, which no record could hold; "" of most.
    """

    where: str
    prompt: str = ""
    samples: tuple[RecordedSample, ...] = ()
    wrong: str = ""

    def usable(self) -> RecordedTask:
        """Itself.

        Raises:
            ConfigError: one of its lines is wrong.
        """
        if self.wrong:
            message = "half of a surrogate pair is in this line, which is no character; mend the line or take it out"
            raise ConfigError(message, where=self.wrong)
        return self


class RecordedSamples(Shared[dict[str, RecordedTask]]):
    """A generator's file of samples: read when first needed, once, and let go when closed.

    Args:
        path, fields, match: as of `read_recording`.
    """

    traits = GeneratorTraits(shape="alternatives", reads=frozenset(), drafts_from="list")

    def __init__(self, path: Path, fields: Mapping[str, str], match: Literal["task_id", "prompt"]) -> None:
        super().__init__()
        self.path = Path(path)
        self.fields = fields
        self.match = match

    def _make(self) -> dict[str, RecordedTask]:
        """The samples.

        Raises:
            ConfigError: with the line, when the file or a line is not as it must be.
        """
        tasks = read_recording(self.path, self.fields, self.match)
        self._check(tasks)
        return tasks

    def _check(self, tasks: Mapping[str, RecordedTask]) -> None:
        """Refuse a file that does not hold what this generator draws from it; any file will do here."""


def find_recording(
    tasks: Mapping[str, RecordedTask], task: Task, match: Literal["task_id", "prompt"], path: Path
) -> RecordedTask:
    """The recorded samples of a task, by its id or by its prompt (its `question`, else its `prompt`).

    Raises:
        ConfigError: there are none, or a line of them is wrong.
    """
    if match == "task_id":
        key, ask = task.id, "are its ids those of the tasks?"
    else:
        prompt = task.input.get("question", task.input.get("prompt", ""))
        key, ask = plain_prompt(str(prompt)), "are its prompts those of the tasks?"
    if key in tasks:
        return tasks[key].usable()
    near = difflib.get_close_matches(key, tasks, n=1) if match == "task_id" else []
    hint = f"did you mean {near[0]!r}?" if near else ask
    raise ConfigError(f"there are no samples of the task {task.id!r}; {hint}", where=str(path))


def samples_drawn(items: Sequence[Any], context: Context) -> int:
    """How many of a task's recorded items earlier rounds have had.

    It is read off the rounds so far: a round whose items are the next ones drew them, any other was somebody else's.
    """
    place = 0
    for round in context.rounds:
        size = len(round.items)
        if size and list(round.items) == items[place : place + size]:
            place += size
    return place


def read_recording(
    path: Path, fields: Mapping[str, str] = {}, match: Literal["task_id", "prompt"] = "task_id"
) -> dict[str, RecordedTask]:
    """The recorded samples of a file by task id, or by prompt (white space made plain).

    The file is JSON Lines (gzipped or not), or an array. A line is one task with a list of samples, which are texts or
    objects, or one sample, and lines with the same task stand together:

        {"task_id": "t1", "samples": [{"text": "16 - 3 = 13", "answer": "13", "correct": true, "score": 0.5}]}
        {"task_id": "t1", "samples": ["16 - 3 = 13", "16 - 3 = 13"]}
        {"task_id": "t1", "text": "16 - 3 = 13"}

    Other names are mapped by `fields`: our word, and the path of it in the file, with dots into objects and numbers
    into lists; all but the first three are looked for in each sample. A `*` in a path stands for the
    sample's number, where they are kept in parallel lists: `{text: "code.*", score: "rewards.*.0"}`. An empty path says
    that the file has no such thing. One line that cannot be read refuses the whole file, with its place; one that
    can be, but holds half of a surrogate pair, refuses its task alone, when that is asked for.

    Args:
        path: the file.
        fields: our words (task_id, prompt, samples, text, answer, correct, score, system) and their paths; each is
            its own path when absent.
        match: whether the samples are found by task id or by prompt.

    Raises:
        ConfigError: with the line, when a field is missing or of the wrong type, or a task stands twice.
    """
    for name in fields:
        if name not in FIELDS:
            raise ConfigError(f"{name!r} is no field; {', '.join(FIELDS)} are", path=f"fields.{name}")
    paths = {name: fields.get(name, name) for name in FIELDS}
    tasks: dict[str, tuple[str, str, list[RecordedSample], bool]] = {}
    unseen = {name for name, at in fields.items() if at and name not in ("task_id", "text")}
    row: Mapping[str, Any] = {}
    wrong: dict[str, str] = {}
    for where, row in read_rows(path, halves=True):
        key, prompt = _key(row, paths, match, where)
        listed, samples = _samples(row, paths, where, unseen)
        unseen -= {name for name in ("prompt", "samples") if value_at(row, paths[name]) is not MISSING}
        origin, prompt_before, earlier, single = tasks.setdefault(key, (where, prompt, [], not listed))
        if origin != where and (listed or not single):
            raise ConfigError(f"the task {key[:80]!r} stands twice, first at {origin}", where=where)
        if prompt != prompt_before:
            raise ConfigError(f"the task {key[:80]!r} has another prompt than at {origin}", where=where)
        earlier.extend(samples)
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            wrong.setdefault(key, where)
    if not tasks:
        raise ConfigError("the file holds no samples", where=str(path))
    drawn = any(samples for _, _, samples, _ in tasks.values())
    for name in fields:
        if name in unseen and (drawn or name not in _BESIDE):
            raise ConfigError(
                f"nothing stands at {fields[name]!r} in any sample; correct the path, or leave the field out; the "
                f"last line has {_names(row)}",
                where=str(path),
                path=f"fields.{name}",
            )
    return {
        key: RecordedTask(where, prompt, tuple(all), wrong.get(key, ""))
        for key, (where, prompt, all, _) in tasks.items()
    }


def _key(row: Mapping[str, Any], paths: Mapping[str, str], match: str, where: str) -> tuple[str, str]:
    prompt = value_at(row, paths["prompt"])
    if prompt is MISSING or prompt is None:
        prompt = ""
    if not isinstance(prompt, str):
        raise ConfigError(f"{paths['prompt']!r} should be a text, not {prompt!r:.80}", where=where)
    if match == "prompt":
        if not prompt.strip():
            raise ConfigError(f"there is no prompt to match by at {paths['prompt']!r}", where=where)
        return plain_prompt(prompt), prompt
    id = value_at(row, paths["task_id"])
    if id is MISSING:
        raise ConfigError(
            f"there is no {paths['task_id']!r}; map it by `fields`, or `match` by prompt; there are {_names(row)}",
            where=where,
        )
    if isinstance(id, bool) or not isinstance(id, (str, int)) or id == "":
        raise ConfigError(f"{paths['task_id']!r} should be a text or a number, not {id!r:.80}", where=where)
    return str(id), prompt


def _samples(
    row: Mapping[str, Any], paths: Mapping[str, str], where: str, unseen: set[str]
) -> tuple[bool, list[RecordedSample]]:
    """Whether the row is a list of samples, and they; what they have is taken out of `unseen`."""
    listed = value_at(row, paths["samples"])
    if listed is not MISSING:
        if not isinstance(listed, list):
            raise ConfigError(f"{paths['samples']!r} should be a list, not {listed!r:.80}", where=where)
        entries = [{paths["text"]: entry} if isinstance(entry, str) else entry for entry in listed]
        return True, [_sample(row, paths, f"{where}: sample {i}", unseen) for i, row in enumerate(entries)]
    if "*" not in paths["text"]:
        return False, [_sample(row, paths, where, unseen)]
    head, texts = _parallel(row, paths["text"])
    if not isinstance(texts, list):
        raise ConfigError(f"there is no list at {head!r}; there are {_names(row)}", where=where)
    for name in _BESIDE:
        list_path, values = _parallel(row, paths[name])
        if isinstance(values, list) and len(values) != len(texts):
            raise ConfigError(
                f"there are {len(texts)} texts at {head!r} and {len(values)} entries at {list_path!r}; they should be "
                "as many",
                where=where,
            )
    return True, [_sample(row, paths, f"{where}: sample {i}", unseen, i) for i in range(len(texts))]


def _parallel(row: Mapping[str, Any], path: str) -> tuple[str, Any]:
    """The part of a path before its `*`, and what stands there; MISSING of a path without one."""
    head, star, _ = path.partition("*")
    head = head.rstrip(".")
    return head, (value_at(row, head) if head else row) if star else MISSING


def _sample(
    entry: Any, paths: Mapping[str, str], where: str, unseen: set[str], index: int = 0
) -> RecordedSample:
    if not isinstance(entry, Mapping):
        raise ConfigError(f"a sample should be a text or an object, not {entry!r:.80}", where=where)
    text, *beside = (value_at(entry, paths[name], index) for name in ("text", *_BESIDE))
    if not isinstance(text, str):
        wrong = f"there is none; there are {_names(entry)}" if text is MISSING else f"not {text!r:.80}"
        raise ConfigError(f"{paths['text']!r} should be a text; {wrong}", where=where)
    unseen.difference_update(
        name for name, value in zip(_BESIDE, beside, strict=True) if value is not MISSING
    )
    answer, correct, score, system = (None if value is MISSING else value for value in beside)
    if correct is not None and correct not in (0, 1):
        raise ConfigError(f"{paths['correct']!r} should be true or false, not {correct!r:.80}", where=where)
    number = isinstance(score, (int, float)) and not isinstance(score, bool)
    if score is not None and not (number and abs(score) <= sys.float_info.max):
        raise ConfigError(f"{paths['score']!r} should be a number, not {score!r:.80}", where=where)
    if system is not None and not isinstance(system, str):
        raise ConfigError(f"{paths['system']!r} should be a text, not {system!r:.80}", where=where)
    right = None if correct is None else bool(correct)
    return RecordedSample(text, answer, right, None if score is None else float(score), system)


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, row))[:200] or "none"


def plain_prompt(prompt: str) -> str:
    """A prompt by which recordings are found: white space made plain."""
    return " ".join(prompt.split())
