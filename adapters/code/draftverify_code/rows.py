"""Lines of published files, read as tasks: ids, limits, and fields of the right kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from draftverify import ConfigError, ContractError, Task
from draftverify_code.generators.extract import parsed
from draftverify_code.stages.running import seconds_of
from draftverify_llm import read_rows

__all__ = ["load_tasks", "read_entry_point", "read_python", "read_text", "read_texts"]


def load_tasks(
    path: Path,
    limit: int | None,
    timeouts: Mapping[str, float],
    read: Callable[[Mapping[str, Any], str], tuple[dict[str, Any], dict[str, Any]]],
    names: Sequence[str] = ("task_id",),
    rows: Iterable[tuple[str, Mapping[str, Any]]] | None = None,
) -> list[Task]:
    """The tasks of a file, in its order.

    Args:
        path: of the file.
        limit: the first so many; all when None.
        timeouts: seconds by task id; they go before a line's own `timeout`.
        read: gives the input and the expected value of a line.
        names: the fields of which the first that a line has is its id.
        rows: what is read in place of the file, each line with its place.

    Raises:
        ConfigError: with the line, when a line, a field or an id is not as it must be.
    """
    if limit is not None and limit < 0:
        raise ConfigError(f"limit is {limit}; it cannot be negative", where=str(path))
    tasks: list[Task] = []
    places: dict[str, str] = {}
    for where, row in read_rows(path, infinities=True) if rows is None else rows:
        if limit is not None and len(tasks) >= limit:
            break
        input, expected = read(row, where)
        name = next((name for name in names if name in row), names[0])
        task_id = row.get(name)
        if isinstance(task_id, bool) or not isinstance(task_id, (str, int)) or task_id == "":
            raise ConfigError(f"`{name}` should be a text or a number, not {task_id!r:.80}", where=where)
        id = str(task_id)
        if id in places:
            raise ConfigError(f"the task {id} stands twice, first at {places[id]}", where=where)
        places[id] = where
        seconds = timeouts.get(id, row.get("timeout"))
        if seconds is not None:
            try:
                input["timeout"] = seconds_of({"timeout": seconds}, 0.0)
            except ContractError as error:
                raise ConfigError(str(error), where=where) from None
        tasks.append(Task(id=id, input=input, expected=expected))
    if not tasks and limit != 0:
        raise ConfigError("the file holds no tasks", where=str(path))
    if limit is None and (strange := [id for id in timeouts if id not in places]):
        raise ConfigError(f"the file has no task {strange[0]!r}", where=str(path), path="timeouts")
    return tasks


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
