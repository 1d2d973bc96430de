"""Where tasks come from: JSON Lines is the source that ships.

A source is a part of the role "tasks": `load() -> list[Task]` gives all tasks, in an order that is the same each time;
ids are unique.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftverify.errors import ConfigError
from draftverify.values import Task

__all__ = ["Jsonl"]


class Jsonl:
    """Tasks from a file with one JSON object a line.

    Args:
        path: the file, UTF-8; empty lines are skipped.
        fields: what the parts read, and the field of the line that holds it, e.g. {prompt: text}; every field as it
            is when empty, but those of `expected`.
        expected: what metrics read and no part sees, in the same way, e.g. {answer: solution}.
        id: the field that names the task; the line's number when absent.
        group: the field that says the task's kind.
        limit: the first so many tasks; all when absent.

    Examples:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "prompts.jsonl")
        >>> _ = file.write_text('{"text": "Is 7 prime?", "solution": "yes"}')
        >>> (task,) = Jsonl(file, {"prompt": "text"}, {"answer": "solution"}).load()
        >>> task.input, task.expected
        ({'prompt': 'Is 7 prime?'}, {'answer': 'yes'})
    """

    def __init__(
        self,
        path: Path,
        fields: Mapping[str, str] = {},
        expected: Mapping[str, str] = {},
        id: str | None = None,
        group: str | None = None,
        limit: int | None = None,
    ) -> None:
        self.path = path
        self.fields = fields
        self.expected = expected
        self.id = id
        self.group = group
        self.limit = limit

    def load(self) -> list[Task]:
        """Read the file.

        Raises:
            ConfigError: with the line, when the file, a line, a field or an id is not as it must be.
        """
        if self.limit is not None and self.limit < 0:
            raise ConfigError(f"limit is {self.limit}; it cannot be negative", where=str(self.path))
        tasks: list[Task] = []
        lines: dict[str, int] = {}
        try:
            with open(self.path, "rb") as file:
                for number, line in enumerate(file, 1):
                    if self.limit is not None and len(tasks) >= self.limit:
                        break
                    if line.strip():
                        tasks.append(self._task(line, number))
                        id = tasks[-1].id
                        if id in lines:
                            raise self._wrong(
                                number, f"the id {id!r} stands twice, first in line {lines[id]}"
                            )
                        lines[id] = number
        except OSError as error:
            message = f"the tasks file cannot be read: {error.strerror or error}"
            raise ConfigError(message, where=str(self.path)) from error
        if not tasks and self.limit != 0:
            raise ConfigError("the file holds no tasks", where=f"{self.path}:1")
        return tasks

    def _task(self, line: bytes, number: int) -> Task:
        try:
            entry = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (ValueError, RecursionError) as error:
            raise self._wrong(number, f"not a line of JSON: {error}") from error
        if not isinstance(entry, dict):
            raise self._wrong(number, f"a JSON object is needed, not {type(entry).__name__}")
        if self.fields:
            input = {name: self._field(entry, field, number) for name, field in self.fields.items()}
        else:
            named = {self.id, self.group, *self.expected.values()}
            input = {name: value for name, value in entry.items() if name not in named}
        return Task(
            id=str(number) if self.id is None else self._word(entry, self.id, number),
            input=input,
            group="" if self.group is None else self._word(entry, self.group, number),
            expected={name: self._field(entry, field, number) for name, field in self.expected.items()},
        )

    def _field(self, entry: Mapping[str, Any], field: str, number: int) -> Any:
        if field not in entry:
            raise self._wrong(number, f"there is no field {field!r}; there are {', '.join(entry) or 'none'}")
        return entry[field]

    def _word(self, entry: Mapping[str, Any], field: str, number: int) -> str:
        value = self._field(entry, field, number)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise self._wrong(number, f"the field {field!r} should be a text or a number, not {value!r}")
        return str(value)

    def _wrong(self, number: int, message: str) -> ConfigError:
        return ConfigError(message, where=f"{self.path}:{number}")
