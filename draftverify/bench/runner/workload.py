"""What a run has to do: its sources' tasks, checked, at most `limit` of each group, and which of them predict."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from draftverify.bench.config.specs import ComponentSpec, Experiment
from draftverify.bench.runner.build import Builder
from draftverify.errors import ConfigError, below, shown
from draftverify.values import Task, is_utf8


class Workload(msgspec.Struct, frozen=True):
    """The tasks of a run.

    Args:
        predicting: those that predict, in order.
        measured: the others, in order.
        own_tasks: of pipelines that do not run over all of them, the ids of theirs.
    """

    predicting: tuple[Task, ...]
    measured: tuple[Task, ...]
    own_tasks: Mapping[str, frozenset[str]] = {}

    def has(self, pipeline: str, task: str) -> bool:
        """Whether a pipeline runs over a task."""
        return pipeline not in self.own_tasks or task in self.own_tasks[pipeline]

    def of(self, pipeline: str, tasks: Sequence[Task]) -> list[Task]:
        """Those of some tasks that a pipeline runs over."""
        return [task for task in tasks if self.has(pipeline, task.id)]

    def tasks(self, pipeline: str) -> list[Task]:
        """All that a pipeline runs over, with those that predict."""
        return self.of(pipeline, (*self.predicting, *self.measured))


def workload(experiment: Experiment, builder: Builder) -> Workload:
    """Load an experiment's tasks.

    Of each source's groups the first `predict` tasks predict, at most `limit`; of the others the first `limit` are
    measured. A task that predicts in one cell of a sweep does so in all.

    Raises:
        ConfigError: a source gives no tasks, or two under one id; or nothing is left to measure.
        DraftVerifyError: as the source itself.
    """
    sources: dict[bytes, tuple[ComponentSpec, set[str]]] = {}
    for name in experiment.names:
        spec = experiment.sources.get(name, experiment.tasks)
        sources.setdefault(msgspec.json.encode(spec, order="deterministic"), (spec, set()))[1].add(name)
    tasks: dict[str, Task] = {}
    predicting: set[str] = set()
    of_source: list[tuple[set[str], set[str]]] = []
    for spec, names in sources.values():
        with _spoken_of(experiment.file):
            loaded = _load(builder.part(spec))
        if experiment.chosen is not None:
            chosen = set(experiment.chosen)
            loaded = [task for task in loaded if task.id in chosen]
        for task in loaded:
            known_task = tasks.setdefault(task.id, task)
            if _contents(known_task) != _contents(task):
                raise ConfigError(
                    f"cells of the matrix have different tasks of the id {task.id!r}, and a run has one task under "
                    "an id; give each source ids of its own",
                    path="tasks",
                )
        own_first, own_rest = _split(loaded, experiment.predict or 0, experiment.limit)
        predicting.update(own_first)
        of_source.append((names, {*own_first, *own_rest}))
    loaded_ids = {task for _, ids in of_source for task in ids}
    measured = tuple(task for task in tasks.values() if task.id in loaded_ids and task.id not in predicting)
    if predicting and not measured:
        raise ConfigError(
            f"predicting from the first {experiment.predict} of each group leaves none to measure; "
            "give more tasks, or a lower limit",
            path="predict.limit",
        )
    own_tasks = {name: frozenset(ids) for names, ids in of_source if ids != loaded_ids for name in names}
    return Workload(tuple(task for task in tasks.values() if task.id in predicting), measured, own_tasks)


def _contents(task: Task) -> tuple[Any, ...]:
    return dict(task.input), task.group, dict(task.expected)


def _split(tasks: Sequence[Task], predict: int, limit: int | None) -> tuple[list[str], list[str]]:
    """Of each group the first ids, to predict from, and those after them, to measure; at most `limit` of both."""
    predicting: list[str] = []
    measuring: list[str] = []
    counts: Counter[str] = Counter()
    predict = predict if limit is None else min(predict, limit)
    for task in tasks:
        place = counts[task.group]
        counts[task.group] += 1
        if place < predict:
            predicting.append(task.id)
        elif limit is None or place < predict + limit:
            measuring.append(task.id)
    return predicting, measuring


@contextmanager
def _spoken_of(config: str) -> Iterator[None]:
    """Have the error for a file that is not there name the comment of the config that says where it comes from."""
    try:
        yield
    except ConfigError as error:
        missing = Path(error.where)
        if missing.exists() or not os.path.exists(config):
            raise
        for number, line in enumerate(Path(config).read_text("utf-8").splitlines(), 1):
            if line.lstrip().startswith("#") and missing.name in line:
                message = f"{error.message}; {config}:{number} says where it comes from"
                raise ConfigError(message, where=error.where, path=error.path) from error
        raise


def _load(source: Any) -> list[Task]:
    with below("tasks"):
        loaded = source.load()
    call = f"load() of {type(source).__name__}"
    if isinstance(loaded, (str, bytes, Mapping)) or not isinstance(loaded, Iterable):
        raise ConfigError(f"{call} must return a list of Tasks, not {shown(loaded)}", path="tasks")
    tasks: list[Task] = list(loaded)
    ids: set[str] = set()
    for index, task in enumerate(tasks):
        if not isinstance(task, Task):
            raise ConfigError(f"{call} must return a list of Tasks; [{index}] is {shown(task)}", path="tasks")
        for name in ("id", "group"):
            if not isinstance(value := getattr(task, name), str):
                raise ConfigError(
                    f"{call}: the {name} of [{index}] is {shown(value)}; a text is needed", path="tasks"
                )
        if task.id in ids:
            raise ConfigError(f"two tasks have the id {task.id!r}; ids are unique within a run", path="tasks")
        ids.add(task.id)
        for name, text, most in (("id", task.id, 512), ("group", task.group, 256)):
            # What one database would take and another not, none is given.
            if len(text) > most or "\0" in text or not is_utf8(text):
                raise ConfigError(
                    f"the {name} {text[:40]!r}{'…' * (len(text) > 40)} cannot be recorded: at most {most} characters "
                    "are, without NUL bytes and halves of surrogate pairs",
                    path="tasks",
                )
    return tasks
