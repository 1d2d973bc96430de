"""Where tasks come from: rows of a file, or of the config itself.

A source is a part of the role "tasks": `load() -> list[Task]` gives all tasks, in an order that is the same each time;
ids are unique.
"""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from draftverify.errors import ConfigError
from draftverify.plugins import required
from draftverify.values import Task

LARGEST = 1 << 30
"""Characters of one value of a table."""


@dataclass(eq=False, kw_only=True)
class RowTasks(ABC):
    """Tasks of rows; a subclass says where they come from.

    Args:
        fields: what the parts read, and the field of the row that holds it, e.g. {prompt: text}; every field as it is
            when empty, but those of `expected`. A field within another is "a.b", of a list "a.0".
        expected: what metrics read and no part sees, in the same way, e.g. {answer: solution}.
        id: the field that names the task; the row's number when absent.
        group: the field that says the task's kind.
        limit: the first so many tasks; all when absent.
    """

    counted: ClassVar[str] = "entry"
    """What messages call what is numbered; a "line" is where an editor finds it."""

    fields: Mapping[str, str] = field(default_factory=dict)
    expected: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    group: str | None = None
    limit: int | None = None

    @abstractmethod
    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Each row with its number, from 1.

        Raises:
            ConfigError: a row cannot be read.
            OSError: the file cannot be.
        """

    @property
    @abstractmethod
    def place(self) -> str:
        """What messages call the source."""

    def load(self) -> list[Task]:
        """Read the rows.

        Raises:
            ConfigError: with the row, when the file, a row, a field or an id is not as it must be.
        """
        if self.limit is not None and self.limit < 0:
            raise ConfigError(f"limit is {self.limit}; it cannot be negative", where=self.place)
        tasks: list[Task] = []
        numbers: dict[str, int] = {}
        try:
            for number, row in islice(self.numbered(), self.limit):
                task = self._task(row, number)
                if task.id in numbers:
                    first = numbers[task.id]
                    raise self.wrong(
                        number, f"the id {task.id!r} stands twice, first in {self.counted} {first}"
                    )
                numbers[task.id] = number
                tasks.append(task)
        except OSError as error:
            message = f"the tasks file cannot be read: {error.strerror or error}"
            raise ConfigError(message, where=self.place) from error
        if not tasks and self.limit != 0:
            raise ConfigError("it holds no tasks", where=self.place)
        return tasks

    def wrong(self, number: int, message: str) -> ConfigError:
        """The error of a row."""
        where = f":{number}" if self.counted == "line" else f", {self.counted} {number}"
        return ConfigError(message, where=self.place + where)

    def _task(self, row: Any, number: int) -> Task:
        if not isinstance(row, Mapping):
            raise self.wrong(number, f"a JSON object is needed, not {type(row).__name__}")
        if self.fields:
            input = {name: self._field(row, field, number) for name, field in self.fields.items()}
        else:
            # Of a field within another all of it: metrics alone may see what is expected.
            named = {self.id, self.group, *self.expected.values()} - {None}
            held = {field if field in row else str(field).split(".")[0] for field in named}
            input = {name: value for name, value in row.items() if name not in held}
        return Task(
            id=str(number) if self.id is None else self._word(row, self.id, number),
            input=input,
            group="" if self.group is None else self._word(row, self.group, number),
            expected={name: self._field(row, field, number) for name, field in self.expected.items()},
        )

    def _field(self, row: Mapping[str, Any], field: str, number: int) -> Any:
        """A field of a row by its name, else by its path."""
        if field in row:
            return row[field]
        value: Any = row
        for step in field.split("."):
            if isinstance(value, Mapping) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                there = (
                    ", ".join(map(str, value)) if isinstance(value, Mapping) else f"a {type(value).__name__}"
                )
                within = "" if value is row else f" where {step!r} is looked for"
                raise self.wrong(number, f"there is no field {field!r}; there are {there or 'none'}{within}")
        return value

    def _word(self, row: Mapping[str, Any], field: str, number: int) -> str:
        value = self._field(row, field, number)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise self.wrong(number, f"the field {field!r} should be a text or a number, not {value!r}")
        return str(value)


@dataclass(eq=False)
class FileTasks(RowTasks):
    """Tasks of the rows of a file.

    Args:
        path: the file.
        fields, expected, id, group, limit: as of `RowTasks`.
    """

    path: Path

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    def _check_names(self, names: Sequence[str]) -> None:
        """Refuse a table of which two columns have one name: one of them would be lost."""
        if doubled := sorted({str(name) for name in names if list(names).count(name) > 1}):
            raise self.wrong(1, f"two columns are called {doubled[0]!r}")


def _json(text: bytes, encoding: str) -> Any:
    """A JSON value; NaN and Infinity, which Python reads, are none."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON number; write null, or a text")

    return json.loads(text.decode(encoding), parse_constant=refuse)


def _advice(error: Exception) -> str:
    return "; save the file as UTF-8" if isinstance(error, UnicodeDecodeError) else ""


class Jsonl(FileTasks):
    """Tasks from a file with one JSON object a line.

    Args:
        path: the file, UTF-8; empty lines are skipped.
        fields: what the parts read, and the field of the line that holds it, e.g. {prompt: text}; every field as it
            is when empty, but those of `expected`. A field within another is "a.b", of a list "a.0".
        expected: what metrics read and no part sees, in the same way, e.g. {answer: solution}.
        id: the field that names the task; the line's number when absent.
        group: the field that says the task's kind.
        limit: the first so many tasks; all when absent.

    Examples:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp(), "prompts.jsonl")
        >>> _ = file.write_text('{"text": "Is 7 prime?", "solution": "yes"}')
        >>> (task,) = Jsonl(file, fields={"prompt": "text"}, expected={"answer": "solution"}).load()
        >>> task.input, task.expected
        ({'prompt': 'Is 7 prime?'}, {'answer': 'yes'})
    """

    counted = "line"

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Each line's object."""
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        yield number, _json(line, "utf-8-sig" if number == 1 else "utf-8")
                    except (ValueError, RecursionError) as error:
                        raise self.wrong(number, f"not a line of JSON: {error}{_advice(error)}") from error


class JsonList(FileTasks):
    """Tasks from a JSON file that is a list of objects.

    Args:
        path: the file, UTF-8.
        fields, expected, id, group, limit: as of `jsonl`; a task without an id is called by its number in the list.
    """

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Each entry of the list."""
        try:
            entries = _json(self.path.read_bytes(), "utf-8-sig")
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"this is no JSON: {error}{_advice(error)}", where=self.place) from error
        if not isinstance(entries, list):
            raise ConfigError(f"a list of objects is needed, not {type(entries).__name__}", where=self.place)
        yield from enumerate(entries, 1)


class Csv(FileTasks):
    """Tasks from a table of comma-separated values, whose first row has the names; every value is text.

    Args:
        path: the file, UTF-8.
        fields, expected, id, group, limit: as of `jsonl`; a task without an id is called by the line that it ends in.
    """

    counted = "line"

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Each row by its names."""
        with open(self.path, encoding="utf-8-sig", newline="") as file:
            largest = csv.field_size_limit(LARGEST)
            reader = csv.DictReader(file, strict=True)
            try:
                names = reader.fieldnames or ()
                self._check_names(names)
                if len(names) == 1 and (other := {";", "\t"} & {*names[0]}):
                    raise self.wrong(1, f"the names stand between {other.pop()!r}; commas are needed")
                for row in reader:
                    if None in row or None in row.values():
                        raise self.wrong(
                            reader.line_num, f"this row has another number of values than {len(names)} names"
                        )
                    yield reader.line_num, row
            except (csv.Error, UnicodeDecodeError) as error:
                message = f"this is no table of UTF-8 text: {error}{_advice(error)}"
                raise self.wrong(reader.line_num + 1, message) from error
            finally:
                csv.field_size_limit(largest)


class Parquet(FileTasks):
    """Tasks from a Parquet file, as of a dataset hub (extra `export`).

    Args:
        path: the file.
        fields, expected, id, group, limit: as of `jsonl`; a task without an id is called by its row's number.
    """

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Each row by its columns' names."""
        pyarrow, parquet = (
            required(name, "a Parquet file of tasks", "export") for name in ("pyarrow", "pyarrow.parquet")
        )
        number = 0
        try:
            with parquet.ParquetFile(self.path) as file:
                self._check_names(file.schema_arrow.names)
                for batch in file.iter_batches(batch_size=1024):
                    for row in batch.to_pylist():
                        number += 1
                        yield number, row
        except pyarrow.ArrowInvalid as error:
            raise ConfigError(f"this is no Parquet file: {error}", where=self.place) from error


@dataclass(eq=False)
class Inline(RowTasks):
    """Tasks that stand in the config.

    Args:
        rows: an object each, such as {prompt: "Is 7 prime?", answer: yes}.
        fields, expected, id, group, limit: as of `jsonl`; a task without an id is called by its number in the list.
    """

    rows: Sequence[Mapping[str, Any]]

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Each entry of the list."""
        yield from enumerate(self.rows, 1)

    @property
    def place(self) -> str:
        """Where they stand."""
        return "tasks.rows"


@dataclass(eq=False)
class HubDataset(RowTasks):
    """Tasks from a dataset of the Hugging Face hub, or of a directory in its form (extra `datasets`).

    No code of a dataset is run: the package datasets loads data files alone.

    Args:
        name: of the dataset ("openai/gsm8k"), or a directory.
        config: which of its configurations; needed where it has several.
        split: which part.
        revision: a commit or tag of it, so that the tasks stay what they are.
        fields, expected, id, group, limit: as of `jsonl`; a task without an id is called by its row's number.
    """

    name: str
    config: str | None = None
    split: str = "test"
    revision: str | None = None

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Each row by its columns' names."""
        datasets = required("datasets", "a hub's dataset of tasks", "datasets")
        try:
            rows = datasets.load_dataset(self.name, self.config, split=self.split, revision=self.revision)
        except Exception as error:  # of the hub, the network, the files: it has many
            words = f"the dataset cannot be loaded: {type(error).__name__}: {error}"
            raise ConfigError(words, where=self.place) from error
        yield from enumerate(rows, 1)

    @property
    def place(self) -> str:
        """The dataset, and which part of it."""
        return f"{self.name}[{self.split}]"
