"""What a judge is audited on: pairs of answers to questions, with people's labels where there are some."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from draftverify.errors import ConfigError
from draftverify.kit.audit.judges import Choice, ShowsReference, as_choice
from draftverify.values import Task


class AnswerComparison(msgspec.Struct, frozen=True):
    """Two answers to a question.

    Args:
        id: unique.
        question, first, second: texts.
        labels: which answer is better, by each annotator who said so.
        systems: what made the first and the second answer; None where it is not known.
        families: which families of models these are of.
        reference: a right answer, for a judge that is shown one.
    """

    id: str
    question: str
    first: str
    second: str
    labels: tuple[Choice, ...] = ()
    systems: tuple[str, str] | None = None
    families: tuple[str, str] | None = None
    reference: str | None = None

    @property
    def label(self) -> Choice | None:
        """What more than half of the annotators say; None where there is no such thing."""
        counts = Counter(self.labels).most_common(1)
        return counts[0][0] if counts and 2 * counts[0][1] > len(self.labels) else None


def comparisons_of(tasks: Iterable[Task], judge: Any = None) -> list[AnswerComparison]:
    """Comparisons out of tasks, as any source of tasks gives them.

    A task's input has `question` (else `prompt`), `first` and `second`, and may have `systems` and `families`, a list
    of two texts each. Every field of its `expected` is a label, of one annotator each, or a list of labels.

    Args:
        tasks: them.
        judge: where it is shown a right answer, that field of the input is it.

    Raises:
        ConfigError: a task lacks a field, a label is no such word, or an id stands twice; the message names the task.
    """
    comparisons: dict[str, AnswerComparison] = {}
    reference = judge.reference if isinstance(judge, ShowsReference) else None
    for task in tasks:
        if not isinstance(task, Task):
            raise ConfigError(f"the tasks should be Tasks, not {task!r:.60}")
        if task.id in comparisons:
            raise ConfigError(f"two tasks have the id {task.id!r}; ids are unique")
        comparisons[task.id] = _comparison(task, reference)
    if not comparisons:
        raise ConfigError("there are no comparisons to audit the judge on")
    return list(comparisons.values())


def _comparison(task: Task, reference: str | None) -> AnswerComparison:
    labels: list[Choice] = []
    for name, value in task.expected.items():
        for label in value if isinstance(value, (list, tuple)) else (value,):
            choice = as_choice(label)
            if choice is None and label is not None:
                raise ConfigError(
                    f"{name} of {task.id} is {label!r}; a label is first, second or tie (or 1, 2, 0; A, B, C), or null "
                    "for none",
                    path="expected",
                )
            labels += [choice] if choice is not None else []
    question = "question" if "question" in task.input else "prompt"
    return AnswerComparison(
        id=task.id,
        question=_text(task, question),
        first=_text(task, "first"),
        second=_text(task, "second"),
        labels=tuple(labels),
        systems=_two(task.input, "systems", task.id),
        families=_two(task.input, "families", task.id),
        reference=None if reference is None else _right(task, reference),
    )


def _text(task: Task, name: str) -> str:
    value = task.input.get(name)
    if not isinstance(value, str):
        fields = ", ".join(map(str, task.input)) or "nothing"
        raise ConfigError(
            f"a comparison needs question, first and second, texts; {name} of {task.id} is {value!r:.40}, and it has "
            f"{fields}",
            path="fields",
        )
    return value


def _right(task: Task, name: str) -> str:
    if task.input.get(name) is None:
        raise ConfigError(
            f"{task.id} has no {name}, which the judge is shown as a right answer", path="fields"
        )
    value = task.input[name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _two(input: Mapping[str, object], name: str, id: str) -> tuple[str, str] | None:
    value = input.get(name)
    if value is None:
        return None
    if not (
        isinstance(value, Sequence) and len(value) == 2 and all(isinstance(entry, str) for entry in value)
    ):
        raise ConfigError(f"{name} of {id} are {value!r:.60}; two texts are needed", path=f"fields.{name}")
    return value[0], value[1]
