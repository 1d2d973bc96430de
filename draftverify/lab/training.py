"""A run's records as training data, in the formats that TRL documents: what was refused beside what was taken instead.

A preference row is {prompt, chosen, rejected} of one place of an answer; a row of supervised data is {prompt,
completion} of one accepted answer. Both say where they come from: task, run, pipeline, source. Where a task's input has
`messages` they are turns ({role, content}), else text.

- Rejected is what the verifier rejected, the rule refused, or a person said is wrong. A check that failed or could not
  tell rejects nothing.
- Chosen is what stands there in the answer (kept, corrected, spliced, or drafted in a later round), else the value that
  the rule chose in the end, else a sibling that passed. What a person wrote in its place comes before all of them, and
  what a person said is wrong is never chosen.
- Rules on distributions refuse and replace by chance: a token that the target likes may go, and a rare one come. So
  their refusals make a row only at temperature 0, or where the summary of the token shows that the target gives the
  chosen one the larger probability.

What a model wrote is made inert as in `export`, and secrets that this process knows are `***`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias, get_args

from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.entries import Entry
from draftverify.bench.records.export import inert, whole
from draftverify.bench.records.split import Split, split_of
from draftverify.errors import ConfigError
from draftverify.token_summary import read_summaries
from draftverify.values import Round, Task

__all__ = ["TRAINING", "TextOf", "Training", "Written", "training_rows", "write_training"]

Training: TypeAlias = Literal["trl-preference", "trl-sft"]
TRAINING: tuple[Training, ...] = get_args(Training)

Values: TypeAlias = Sequence[Any]
TextOf: TypeAlias = Callable[[str], "Callable[[Values], str] | None"]
"""Of a pipeline's name what makes a text of the values of an answer, as of token ids; None where they are texts
already, or JSON."""

UNSURE = (
    "a draw refused it, and no summary shows that the target prefers the other (records: {tokens: summary})"
)
"""Why a refused token makes no row."""

_PROMPTS = ("prompt", "question")
"""Fields of an input that are its prompt, the first that is there."""


class Written(NamedTuple):
    """The counts of rows that were written, and of those left out.

    Args:
        rows: how many.
        left_out: how many rejected items, or tasks, made no row, by the reason.
    """

    rows: int
    left_out: Counter[str]


def write_training(
    run: RunRecords,
    to: Training,
    out: str | Path | IO[str],
    *,
    text_of: TextOf = lambda pipeline: None,
    split: Split | None = None,
    chat: bool = False,
) -> Written:
    """Write a run's training data as lines of JSON.

    Args:
        run: the run.
        to: "trl-preference" or "trl-sft".
        out: a file, written whole or not at all; or an open text file.
        text_of: how values become text.
        split: only the tasks of this side of `split_of`.
        chat: a prompt that is a text is written as a user's turn, as chat models read it.

    Raises:
        ConfigError: there is no such format.
        ResourceError: the file cannot be written.
    """
    left_out: Counter[str] = Counter()
    rows = training_rows(run, to, left_out, text_of=text_of, split=split, chat=chat)
    if not isinstance(out, (str, Path)):
        return Written(_lines(rows, out), left_out)
    with whole(Path(out)) as part, open(part, "w", encoding="utf-8", newline="") as file:
        return Written(_lines(rows, file), left_out)


def training_rows(
    run: RunRecords,
    to: Training,
    left_out: Counter[str],
    *,
    text_of: TextOf = lambda pipeline: None,
    split: Split | None = None,
    chat: bool = False,
) -> Iterator[dict[str, Any]]:
    """The rows, one after the other; what makes none is counted in `left_out`. The arguments are `write_training`'s."""
    if to not in TRAINING:
        raise ConfigError(f"there is no format {to!r}; there are {', '.join(TRAINING)}")
    tasks = {task.id: task for task in run.tasks}
    # A column has one type, or nobody can load it: where one task is a conversation, all are.
    chat = chat or any(_turns(task.input.get("messages")) for task in tasks.values())
    labels_of = _labels(run)
    text_of_pipeline = lru_cache(None)(text_of)
    config = run.config
    likeliest = {name: _takes_the_likeliest(config, name) for name in run.names}
    identity = run.about.run
    for entry in run.entries(texts=False):
        task = tasks.get(entry.record.task)
        side = split_of(entry.record.task)
        if task is None or split not in (None, side):
            continue
        prompt = _Prompt(task, chat)
        labels = labels_of.get((entry.pipeline, task.id), _Labels({}, {}))
        answer = _Answer(entry, text_of_pipeline, likeliest=likeliest.get(entry.pipeline, False))
        about = {
            "task": task.id,
            "group": task.group,
            "run": identity,
            "pipeline": entry.pipeline,
            "split": side,
        }
        make = _preferences if to == "trl-preference" else _completions
        for row in make(entry, prompt, answer, labels, left_out):
            yield {**row, **about}


class _Labels(NamedTuple):
    """What people said of a task's values, by their JSON: whether each is right, and what they wrote in its place."""

    right: dict[str, bool]
    instead: dict[str, Any]


def _labels(run: RunRecords) -> dict[tuple[str, str], _Labels]:
    labels_of: dict[tuple[str, str], _Labels] = {}
    for question in chain.from_iterable((*final.before, final) for final in run.questions):
        if not question.answer or question.asking:  # of an inner task, whose items are in no row
            continue
        labels = labels_of.setdefault((question.pipeline, question.task), _Labels({}, {}))
        if question.candidate is not None:
            labels.right[_key(question.candidate.value)] = question.answer == "accept"
        if question.answer == "edit":
            labels.right[_key(question.value)] = True
            if question.candidate is not None:
                labels.instead[_key(question.candidate.value)] = question.value
    return labels_of


class _Answer:
    """A task's accepted values, and their text.

    Attributes:
        values: what was emitted, round after round.
        starts: how many values there were before each round.
        likeliest: whether the target's likeliest value was taken, temperature 0.
    """

    def __init__(self, entry: Entry, text_of: TextOf, *, likeliest: bool) -> None:
        self.likeliest = likeliest
        self.values: list[Any] = []
        self.starts: list[int] = []
        for round in entry.record.rounds:
            self.starts.append(len(self.values))
            self.values += round.decision.emitted
        self._pipeline = entry.pipeline
        self._text_of = text_of

    def text(self, values: Values) -> str:
        """Values of the answer as one text: tokens as they are decoded, anything else line by line."""
        if all(isinstance(value, str) for value in values):
            return "\n".join(values)
        decode = self._text_of(self._pipeline)
        if decode is not None:
            return decode(values)
        return "\n".join(value if isinstance(value, str) else _key(value) for value in values)

    def ending(self, count: int, value: Any) -> tuple[str, str] | None:
        """The text of the first values and what another one adds to it; None where that is no text of its own, as half
        a character."""
        head = self.values[:count]
        head_text, full_text = self.text(head), self.text([*head, value])
        if not full_text.startswith(head_text) or full_text.endswith("\N{REPLACEMENT CHARACTER}"):
            return None
        return head_text, full_text[len(head_text) :]


class _Prompt:
    """A task's prompt, as text or as turns."""

    def __init__(self, task: Task, chat: bool) -> None:
        self._turns = _turns(task.input.get("messages"))
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


def _turns(messages: Any) -> list[dict[str, str]] | None:
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


def _preferences(
    entry: Entry, prompt: _Prompt, answer: _Answer, labels: _Labels, left_out: Counter[str]
) -> Iterator[dict[str, Any]]:
    written: set[str] = set()
    for round, start in zip(entry.record.rounds, answer.starts, strict=True):
        for index, verdict, reason in _rejected(round, labels):
            value = round.items[index]
            place = _place(round, index)
            better = None if place is None else _better(entry, round, index, start + place, answer, labels)
            if place is None or better is None:
                left_out["nothing better is known"] += 1
                continue
            chosen, origin = better
            by_chance = verdict == "refused" and origin != "person" and not answer.likeliest
            if by_chance and not _preferred(round, index, chosen):
                left_out[UNSURE] += 1
                continue
            good_ending, bad_ending = (answer.ending(start + place, item) for item in (chosen, value))
            if good_ending is None or bad_ending is None:
                left_out["half a character is no text"] += 1
                continue
            prefix, good, bad = *good_ending, bad_ending[1]
            row = prompt.row(prefix, chosen=good, rejected=bad)
            key = _key([row["prompt"], good, bad])
            if good == bad or key in written:
                left_out["the same text, or the same row again"] += 1
                continue
            written.add(key)
            yield {
                **row,
                "position": start + place,
                "verdict": verdict,
                "reason": reason,
                "chosen_from": origin,
                "source": round.source,
                "round": round.index,
            }


def _rejected(round: Round, labels: _Labels) -> Iterator[tuple[int, str, str]]:
    """The rejected items of a round: index, whose word it is ("person") or the verdict, and the reason."""
    refused = {refusal.index: refusal.reason for refusal in round.decision.refused}
    corrected = {correction.index for correction in round.decision.corrected}
    held = set(round.decision.held)
    for index, value in enumerate(round.items):
        check = round.checks[index] if index < len(round.checks) else None
        right = labels.right.get(_key(value)) if labels.right else None
        if right is not None:
            if not right:
                yield index, "person", ""
            continue
        if check is not None and check.verdict in ("error", "timeout", "abstain"):
            continue
        says_no = check is not None and check.verdict == "reject"
        if (says_no and index not in held) or index in refused or index in corrected:
            verdict = "refused" if check is None else check.verdict
            yield index, verdict, (check.reason if check is not None else "") or refused.get(index, "")


def _takes_the_likeliest(config: Mapping[str, Any], pipeline: str) -> bool:
    """Whether a pipeline ran at temperature 0, by the run's config."""
    written = config["pipelines"].get(pipeline.partition("@")[0]) or {}
    settings = {**(config.get("settings") or {}), **(written.get("settings") or {})}
    temperature = settings.get("temperature")
    for path, value in (config.get("cells") or {}).get(pipeline, {}).items():
        if "settings" in path.split("."):
            temperature = value if path.endswith("settings.temperature") else None
    return bool(temperature == 0 and temperature is not None)


def _preferred(round: Round, index: int, chosen: Any) -> bool:
    """Whether the target gave a token a larger probability than the refused one, by the summary of that."""
    summaries = read_summaries(round.tokens)
    return bool(summaries) and dict(summaries[index].top).get(chosen, 0.0) > summaries[index].p


def _place(round: Round, index: int) -> int | None:
    """Which of the round's values stands in an item's place, from 0; None where what it stands on was not taken."""
    replaced = [correction.index for correction in round.decision.corrected]
    joined = sorted((*round.decision.kept, *replaced)) if replaced else list(round.decision.kept)
    if index in joined:
        return joined.index(index)
    parent = round.parents[index] if index < len(round.parents) else -1
    if parent < 0:
        return 0
    return joined.index(parent) + 1 if parent in joined else None


def _better(
    entry: Entry, round: Round, index: int, place: int, answer: _Answer, labels: _Labels
) -> tuple[Any, str] | None:
    """A better value than a rejected item, and where it comes from; None where none is known."""
    rejected = _key(round.items[index])
    if rejected in labels.instead:
        return labels.instead[rejected], "person"

    def may_be(value: Any) -> bool:
        return _key(value) != rejected and labels.right.get(_key(value), True)

    if place < len(answer.values) and may_be(answer.values[place]):
        return answer.values[place], "answer"
    value = entry.record.outcome.value
    chooses = not answer.values and place == 0 and entry.record.outcome.status == "accepted"
    if chooses and value is not None and may_be(value):
        return value, "outcome"
    for place_of_sibling, check in enumerate(round.checks):
        sibling = place_of_sibling != index and round.parents[place_of_sibling] == round.parents[index]
        if sibling and check.verdict == "pass" and may_be(round.items[place_of_sibling]):
            return round.items[place_of_sibling], "sibling"
    return None


def _completions(
    entry: Entry, prompt: _Prompt, answer: _Answer, labels: _Labels, left_out: Counter[str]
) -> Iterator[dict[str, Any]]:
    outcome = entry.record.outcome
    if outcome.status != "accepted":
        waits = outcome.status == "waiting"
        left_out["the task waits for a person" if waits else f"the task ended as {outcome.status}"] += 1
        return
    value, of_answer = outcome.value, list(answer.values)
    is_answer = isinstance(value, (list, tuple)) and _key(list(value)) == _key(of_answer)
    values = of_answer if is_answer else [value]
    if any(labels.right.get(_key(item)) is False for item in (value, *values)):
        left_out["a person said that it is wrong"] += 1
        return
    sources = list(dict.fromkeys(round.source for round in entry.record.rounds))
    by = "person" if any(labels.right.get(_key(item)) for item in (value, *values)) else "pass"
    yield {
        **prompt.row("", completion=answer.text(values)),
        "verdict": by,
        "source": ", ".join(sources),
    }


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _lines(rows: Iterator[dict[str, Any]], file: IO[str]) -> int:
    count = 0
    for row in rows:
        file.write(inert(row) + "\n")
        count += 1
    return count
