"""From which tasks something was learned, so that it is not fitted or certified on the tasks that taught it.

A task is known by its prompt, as training data has it: a question is the same one in a run and in the lines that a
reader was trained on, whatever id it has there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from draftverify.bench.artifact import ArtifactFile, read_artifact
from draftverify.errors import ConfigError
from draftverify.identity import arguments_of
from draftverify.lab.training import prompt_text
from draftverify.values import Task

REPORT = "report.json"
"""In the directory of what was trained."""


class TrainingReport(
    ArtifactFile, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="draftverify.training"
):
    """The file beside what was trained.

    Args:
        figures: what the trainer says of it.
    """

    title: ClassVar[str] = "report of a training"
    made_by: ClassVar[str] = "draftverify fit part NAME CONFIG"

    figures: Mapping[str, Any]


def digests_of(tasks: Iterable[Task | str]) -> tuple[str, ...]:
    """The digests of tasks, or of their prompts, in order and each once; a task without any input is its id."""
    prompts = (
        task if isinstance(task, str) else prompt_text(task.input) if task.input else task.id
        for task in tasks
    )
    return tuple(sorted({_digest(prompt) for prompt in prompts}))


def _digest(prompt: str) -> str:
    return hashlib.sha256(prompt.strip().encode("utf-8", "backslashreplace")).hexdigest()[:12]


def refuse_overlap(part: object, tasks: Iterable[Task]) -> None:
    """Refuse tasks from which something in a part was learned: a file or a directory among its arguments, or theirs.

    Args:
        part: a part, or a pipeline.
        tasks: on which it is to be measured.

    Raises:
        ConfigError: some are.
    """
    digests = set(digests_of(tasks))
    for path, artifact in _artifacts(part, set()):
        if shared := len(digests.intersection(artifact.learned_from)):
            raise ConfigError(
                f"{shared} of these {len(digests)} tasks are among the {len(artifact.learned_from)} that {path} was "
                "learned from, so what they say of it flatters it; take other labelled tasks, or say that they may "
                "be the same (--overlap)"
            )


def _artifacts(value: Any, seen: set[int]) -> Iterator[tuple[Path, ArtifactFile]]:
    """The files that say from which tasks a value was learned, each with its path."""
    if isinstance(value, Path):
        places = [value, value / REPORT]
        if value.suffix != ".json":  # weights, beside which the report lies
            places.append(value.parent / REPORT)
        for path in places:
            with suppress(ConfigError):
                if path.suffix == ".json" and path.is_file():
                    yield path, read_artifact(path, ArtifactFile)
        return
    if id(value) in seen or isinstance(value, (str, bytes, int)) or value is None:
        return
    seen.add(id(value))
    members: Iterable[Any] = ()
    if isinstance(value, Mapping):
        members = value.values()
    elif isinstance(value, (list, tuple)):
        members = value
    else:
        with suppress(TypeError, ValueError):  # nothing that a config would have made
            members = arguments_of(value).values()
    for member in members:
        yield from _artifacts(member, seen)
