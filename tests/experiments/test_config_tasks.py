"""Tasks from where they are: lines of JSON, a list, a table, a dataset's file, the config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import ConfigError
from draftverify.bench.config.experiment import load_experiment
from draftverify.bench.config.tasks import Csv, HubDataset, Inline, Jsonl, JsonList, Parquet, RowTasks
from draftverify.bench.runner.build import Builder

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
        ("\n\n", {}, ": it holds no tasks"),
        (b'{"a": "\xff"}', {}, "invalid start byte; save the file as UTF-8"),
        ('{"a": NaN}', {}, ":1: not a line of JSON: NaN is no JSON number; write null, or a text"),
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


ROWS = [
    {"key": "a", "text": "Is 7 prime?", "said": {"answer": "yes", "by": ["x", "y"]}},
    {"key": "b", "text": "Is 9, “nine”,\nprime?", "said": {"answer": "no", "by": ["z"]}},
]


def of_json(folder: Path, **how: Any) -> RowTasks:
    (folder / "t.json").write_text(json.dumps(ROWS))
    return JsonList(folder / "t.json", **how)


def of_parquet(folder: Path, **how: Any) -> RowTasks:
    pandas.DataFrame(ROWS).to_parquet(folder / "t.parquet")
    return Parquet(folder / "t.parquet", **how)


def of_inline(folder: Path, **how: Any) -> RowTasks:
    return Inline(ROWS, **how)


@pytest.mark.parametrize("source", [of_json, of_parquet, of_inline])
def test_rows_are_tasks_wherever_they_stand(tmp_path: Path, source: Any) -> None:
    """A list, a dataset's file, the config; fields within fields by their path, where none has the path for a name."""
    how = {
        "fields": {"prompt": "text"},
        "expected": {"answer": "said.answer", "first": "said.by.0"},
        "id": "key",
    }
    tasks = source(tmp_path, **how).load()
    assert [(task.id, task.input) for task in tasks] == [
        (row["key"], {"prompt": row["text"]}) for row in ROWS
    ]
    assert [dict(task.expected) for task in tasks] == [
        {"answer": "yes", "first": "x"},
        {"answer": "no", "first": "z"},
    ]
    assert [task.id for task in source(tmp_path, limit=1).load()] == ["1"]
    with pytest.raises(
        ConfigError,
        match=r", entry 1: there is no field 'said\.who'; there are answer, by where 'who' is looked for",
    ):
        source(tmp_path, fields={"prompt": "said.who"}).load()
    with pytest.raises(ConfigError, match=r"rows, entry 2: the id 'x' stands twice, first in entry 1"):
        Inline([{"id": "x"}] * 2, id="id").load()
    assert Inline([{"a.b": 1, "a": {"b": 2}}], fields={"x": "a.b"}).load()[0].input == {"x": 1}


def test_a_table_of_text_is_tasks(tmp_path: Path) -> None:
    """Quoted values may hold commas and lines; a row that is short, or no UTF-8, is told with its line."""
    path = tmp_path / "t.csv"
    path.write_bytes('\ufefftext,answer\n"Is 9, ""nine"",\nprime?",no\n7,yes\n'.encode())
    tasks = Csv(path, expected={"answer": "answer"}).load()
    assert [(task.id, dict(task.input), dict(task.expected)) for task in tasks] == [
        ("3", {"text": 'Is 9, "nine",\nprime?'}, {"answer": "no"}),
        ("4", {"text": "7"}, {"answer": "yes"}),
    ]
    path.write_text("text,answer\n7\n")
    with pytest.raises(ConfigError, match=r"t\.csv:2: this row has another number of values than 2 names"):
        Csv(path).load()
    path.write_bytes(b"text\n\xff\n")
    with pytest.raises(ConfigError, match="no table of UTF-8 text"):
        Csv(path).load()


@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [
        (JsonList, b"{}", "a list of objects is needed, not dict"),
        (JsonList, b"[1]", "a JSON object is needed, not int"),
        (JsonList, b"[", "this is no JSON"),
        (JsonList, b"[]", "holds no tasks"),
        (JsonList, b'[{"a": Infinity}]', "Infinity is no JSON number"),
        (Parquet, b"no", "this is no Parquet file"),
        (Csv, b"", "holds no tasks"),
        (Csv, b"a;b\n1;2\n", "the names stand between ';'; commas are needed"),
    ],
)
def test_a_file_of_another_kind_is_told(tmp_path: Path, kind: Any, content: bytes, problem: str) -> None:
    """With its name."""
    path = tmp_path / "t"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=problem):
        kind(path).load()


def test_what_is_expected_is_no_input() -> None:
    """Of a field within another the whole is left out, where nothing says what the input is."""
    (task,) = Inline(ROWS[:1], expected={"answer": "said.answer"}, id="key").load()
    assert (dict(task.input), dict(task.expected)) == ({"text": ROWS[0]["text"]}, {"answer": "yes"})


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """One of them would be lost; a long value is read whole."""
    path = tmp_path / "t.csv"
    path.write_text("text,answer,text\na,b,c\n")
    with pytest.raises(ConfigError, match=r"t\.csv:1: two columns are called 'text'"):
        Csv(path).load()
    path.write_text("text\n" + "x" * 200_000 + "\n")
    assert len(Csv(path).load()[0].input["text"]) == 200_000


def test_tasks_may_stand_in_the_config(tmp_path: Path) -> None:
    """As rows, read like any other."""
    (tmp_path / "parts.py").write_text("def guess(context, n):\n    return [context.task.input['prompt']]\n")
    path = tmp_path / "e.yaml"
    path.write_text(
        "parts: [./parts.py]\n"
        "tasks: {use: inline, rows: [{prompt: a, answer: b}], expected: {answer: answer}}\n"
        "pipelines:\n  one: {generator: {use: python, function: parts.guess}, verifier: {use: regex, pattern: a}, "
        "rule: {use: first}}\n"
    )
    (task,) = Builder().part(load_experiment(path).tasks).load()
    assert (dict(task.input), dict(task.expected)) == ({"prompt": "a"}, {"answer": "b"})


def test_a_hub_s_dataset_is_read_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory in the hub's form stands for one here, since tests reach no hub: by split, with fields within
    others; what cannot be loaded is told with its name."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "sums"
    folder.mkdir()
    for split, count in (("train", 1), ("test", 3)):
        lines = [json.dumps({"q": f"{n} + 1?", "a": {"value": n + 1}, "kind": "sum"}) for n in range(count)]
        (folder / f"{split}.jsonl").write_text("\n".join(lines))
    source = HubDataset(str(folder), fields={"prompt": "q"}, expected={"answer": "a.value"}, group="kind")
    tasks = source.load()
    assert [(task.id, task.input, task.expected, task.group) for task in tasks] == [
        (str(n + 1), {"prompt": f"{n} + 1?"}, {"answer": n + 1}, "sum") for n in range(3)
    ]
    assert len(HubDataset(str(folder), split="train").load()) == 1
    assert len(HubDataset(str(folder), limit=2).load()) == 2
    with pytest.raises(ConfigError, match=r"nobody/nothing\[test\]: the dataset cannot be loaded"):
        HubDataset("nobody/nothing").load()
