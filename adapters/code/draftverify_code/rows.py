"""Published files, read as tasks: ids, limits, and fields of the right kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from draftverify import ConfigError, ContractError, Task
from draftverify_code.generators.extract import parsed
from draftverify_code.stages.running import seconds_of
from draftverify_llm import read_rows

Fields: TypeAlias = dict[str, Any]


@dataclass(eq=False)
class PublishedFile(ABC):
    """A file of one layout.

    Args:
        path: a `.jsonl`, `.jsonl.gz` or `.json`.
        limit: the first so many problems; all when absent.
        hidden: the tests are the truth alone, so that no part of a pipeline sees them.
        timeouts: seconds by task id; they go before a line's own `timeout`.
    """

    path: Path
    limit: int | None = None
    hidden: bool = False
    timeouts: Mapping[str, float] | None = None

    ids: ClassVar[tuple[str, ...]] = ("task_id",)
    """The fields of which the first that a line has is its id."""
    fields: ClassVar[frozenset[str]] = frozenset()
    """Further ones that every line has, where they tell the layout."""

    def load(self) -> list[Task]:
        """The tasks, in the file's order.

        Raises:
            ConfigError: with the line, when the file, a line, a field or an id is not as it must be.
            ResourceError: the file comes with a package that is not installed.
        """
        path, timeouts = self._place(), self.timeouts or {}
        if self.limit is not None and self.limit < 0:
            raise ConfigError(f"limit is {self.limit}; it cannot be negative", where=str(path))
        tasks: list[Task] = []
        places: dict[str, str] = {}
        for where, row in self._rows(path):
            if self.limit is not None and len(tasks) >= self.limit:
                break
            self._check(row, where)
            input, shown, tests = self._problem(row, where)
            name = next((name for name in self.ids if name in row), self.ids[0])
            task_id = row.get(name)
            if isinstance(task_id, bool) or not isinstance(task_id, (str, int)) or task_id == "":
                raise ConfigError(f"`{name}` should be a text or a number, not {task_id!r:.80}", where=where)
            id = str(task_id)
            if id in places:
                raise ConfigError(f"the task {id} stands twice, first at {places[id]}", where=where)
            places[id] = where
            input |= shown if self.hidden else tests
            seconds = timeouts.get(id, row.get("timeout"))
            if seconds is not None:
                try:
                    input["timeout"] = seconds_of({"timeout": seconds}, 0.0)
                except ContractError as error:
                    raise ConfigError(str(error), where=where) from None
            tasks.append(Task(id=id, input=input, expected=tests))
        if not tasks and self.limit != 0:
            raise ConfigError("the file holds no tasks", where=str(path))
        if self.limit is None and (strange := [id for id in timeouts if id not in places]):
            raise ConfigError(f"the file has no task {strange[0]!r}", where=str(path), path="timeouts")
        return tasks

    def _place(self) -> Path:
        return Path(self.path)

    def _rows(self, path: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """Each line with its place."""
        return read_rows(path, infinities=True)

    def _check(self, row: Mapping[str, Any], where: str) -> None:
        """Refuse a line of another layout."""
        if missing := sorted(self.fields - row.keys()):
            layouts = [layout for layout in PublishedFile.__subclasses__() if layout.fields]
            others = [layout.__name__ for layout in layouts if layout.fields <= row.keys()]
            advice = f"it looks like one of {others[0]}" if others else f"it has {', '.join(row)}"
            raise ConfigError(
                f"a line of {type(self).__name__} has `{missing[0]}`, and this one has not; {advice:.200}",
                where=where,
            )

    @abstractmethod
    def _problem(self, row: Mapping[str, Any], where: str) -> tuple[Fields, Fields, Fields]:
        """What the generator gets, the tests that a solver is shown, and all tests."""


def read_text(row: Mapping[str, Any], field: str, where: str) -> str:
    """A text that a line must have."""
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        fault = "there is none" if field not in row else f"not {value!r:.80}"
        raise ConfigError(f"`{field}` should be a text; {fault}", where=where)
    return value


def read_texts(row: Mapping[str, Any], field: str, where: str) -> list[str]:
    """A list of texts that a line may have."""
    value = row.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigError(f"`{field}` should be a list of texts, not {value!r:.80}", where=where)
    return [text for text in value if text.strip()]


def read_python(text: str, field: str, where: str) -> str:
    """A field's text, which must be Python."""
    if parsed(text) is None:
        raise ConfigError(f"`{field}` should be Python, and does not parse: {text!r:.80}", where=where)
    return text


def read_entry_point(row: Mapping[str, Any], where: str) -> str:
    """The name of the function that is asked for."""
    name = read_text(row, "entry_point", where)
    if not name.isidentifier():
        raise ConfigError(f"`entry_point` should be a function's name, not {name!r:.80}", where=where)
    return name
