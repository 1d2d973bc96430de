"""Tasks from a file with one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError
from draftverify.bench.config.tasks import Jsonl

LINES = '{"id": 7, "text": "one", "kind": "x"}\n\n{"id": "b", "text": "two", "kind": "y"}\n'


def jsonl(tmp_path: Path, text: str | bytes = LINES, **how: Any) -> Jsonl:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Jsonl(path, **how)


def test_fields_id_and_group(tmp_path: Path) -> None:
    """Fields are renamed, ids become text, empty lines are skipped."""
    tasks = jsonl(tmp_path, fields={"prompt": "text"}, id="id", group="kind").load()
    assert [(task.id, task.input, task.group) for task in tasks] == [
        ("7", {"prompt": "one"}, "x"),
        ("b", {"prompt": "two"}, "y"),
    ]


def test_without_names(tmp_path: Path) -> None:
    """Ids are line numbers, which a limit does not change, and every field is input."""
    tasks = jsonl(tmp_path).load()
    assert [task.id for task in tasks] == ["1", "3"]
    assert tasks[1].input == {"id": "b", "text": "two", "kind": "y"}
    assert [task.id for task in jsonl(tmp_path, limit=1).load()] == ["1"]


def test_a_limit_reads_no_further(tmp_path: Path) -> None:
    """What is wrong beyond the limit is nobody's business; a limit of 0 gives no task."""
    text = LINES + "no json\n"
    assert len(jsonl(tmp_path, text, limit=2).load()) == 2
    assert jsonl(tmp_path, text, limit=0).load() == []
    with pytest.raises(ConfigError, match=r"tasks.jsonl:4: not a line of JSON"):
        jsonl(tmp_path, text).load()


@pytest.mark.parametrize(
    ("text", "how", "says"),
    [
        (LINES + '{"id": "7", "text": ""}', {"id": "id"}, ":4: the id '7' stands twice, first in line 1"),
        ('{"a": 1}\n', {"fields": {"prompt": "text"}}, ":1: there is no field 'text'; there are a"),
        ('{"a": 1}\n', {"group": "kind"}, ":1: there is no field 'kind'"),
        ('{"a": null}\n', {"id": "a"}, ":1: the field 'a' should be a text or a number, not None"),
        ("[1]\n", {}, ":1: a JSON object is needed, not list"),
        ("\n\n", {}, ":1: the file holds no tasks"),
        (b'{"a": "\xff"}', {}, ":1: not a line of JSON"),
        ("[" * 100_000, {}, ":1: not a line of JSON"),
        (LINES, {"limit": -1}, "it cannot be negative"),
    ],
)
def test_what_is_wrong_is_told_by_line(text: str | bytes, how: Any, says: str, tmp_path: Path) -> None:
    """Each mistake names the file, the line and what was found."""
    with pytest.raises(ConfigError) as caught:
        jsonl(tmp_path, text, **how).load()
    assert says in str(caught.value)
    assert str(tmp_path / "tasks.jsonl") in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    """No such file is told by its path."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Jsonl(tmp_path / "none.jsonl").load()


@given(st.binary(max_size=60))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Whatever the file holds: tasks, or a ConfigError with its line."""
    path = tmp_path_factory.mktemp("any") / "tasks.jsonl"
    path.write_bytes(data)
    try:
        tasks = Jsonl(path).load()
    except ConfigError as error:
        assert str(error).startswith(f"{path}:")  # noqa: PT017 - one of two ways to go on
        return
    assert len({task.id for task in tasks}) == len(tasks) > 0
    json.dumps([dict(task.input) for task in tasks])
