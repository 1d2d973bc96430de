"""Exports: every format says what was recorded, hostile text does nothing in any, and a file is whole or not there."""

from __future__ import annotations

import csv
import io
import json
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify.bench.records import Question, RunDirectory, RunRecords, load_run
from draftverify.bench.records.export import FORMATS, frame, unguarded, write
from draftverify.bench.records.rows import COLUMNS, LEVELS, columns_of, rows
from draftverify.checks.metrics import Score
from draftverify.errors import ConfigError, ResourceError
from draftverify.secret import Secret
from draftverify.values import Check, Decision, Outcome, Round, Task, TaskRecord
from draftverify.view.task_detail import task_detail
from tests.records.samples import ROUNDS, json_values, record, waiting

CONFIG = {
    "pipelines": {"spec@k=4": {}, "spec@k=8": {}},
    "metrics": {"exact": {"use": "exact"}},
    "cells": {"spec@k=4": {"block": 4, "rule.use": "a"}, "spec@k=8": {"block": 8, "rule.use": "b"}},
}
FORMULAS = ["=1+1", "  @SUM(A1)", "-2", "+3", "\tx", "\rx", "＝1"]
HOSTILE = [*FORMULAS, "'quoted", '"said"', "", "\x1b[31mred", "a\u202eb", "\x00"]
STEERING = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")


def made(path: Path, values: list[Any], *, rounds: tuple[Round, ...] = ROUNDS) -> RunRecords:
    """A run of two pipelines with these values, one a task."""
    tasks = [Task(id=f"t{place}", input={"prompt": value}) for place, value in enumerate(values)]
    with RunDirectory(path, name="n", config=CONFIG, config_hash="h") as opened:
        opened.store.add_tasks(tasks)
        for task, value in zip(tasks, values, strict=True):
            for name in CONFIG["pipelines"]:
                opened.store.commit(name, record(task.id, value=value, rounds=rounds))
                opened.store.add_scores({(name, task.id, 0, "digest"): Score(0.5)}, "exact")
    return load_run(path)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[RunRecords]:
    """A run whose values are what a hostile model writes."""
    with made(tmp_path / "run", HOSTILE) as run:
        yield run


def exported(run: RunRecords, to: Any, level: Any = "tasks") -> str:
    out = io.StringIO(newline="")
    write(run, to, out, level)
    return out.getvalue()


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("level", LEVELS)
def test_every_column_is_in_every_format(hostile: RunRecords, level: Any, tmp_path: Path) -> None:
    """In one order, with a row for each task of a pipeline, each round, each drafted item."""
    names = [column.name for column in columns_of(hostile, level)]
    assert names[: len(COLUMNS[level])] == [column.name for column in COLUMNS[level]]
    count = 2 * len(HOSTILE) * {"tasks": 1, "rounds": 2, "items": 3}[level]
    found = list(rows(hostile, level))
    assert len(found) == count
    assert {key for row in found for key in row} == set(names)
    assert list(read_csv(exported(hostile, "csv", level))[0]) == names
    assert list(json.loads(exported(hostile, "jsonl", level).splitlines()[0])) == names
    assert write(hostile, "parquet", tmp_path / "x.parquet", level) == count
    table = pq.read_table(tmp_path / "x.parquet")
    assert (table.column_names, table.num_rows) == (names, count)
    assert frame(hostile, level).shape == (count, len(names))


def test_what_metrics_cells_and_people_said_stands_in_columns(tmp_path: Path) -> None:
    """A column a metric and a dotted path; the last answer of a person, and how many there were."""
    with RunDirectory(tmp_path / "run", name="n", config=CONFIG, config_hash="h") as opened:
        opened.store.add_tasks([Task(id="t", input={"n": 1})])
        opened.store.commit("spec@k=8", record("t"))
        opened.store.add_scores(
            {("spec@k=8", "t", 0, "new"): Score(1.0), ("spec@k=8", "t", 0, "old"): Score(0.0)}, "exact"
        )
        opened.store.name_scores({("spec@k=8", "t", 0, "new"): "exact"})
        for number, (answer, note) in enumerate((("edit", "off by one"), ("accept", ""))):
            question = Question(pipeline="spec@k=8", task="t", round=number)
            opened.store.park("spec@k=8", waiting("t"), question)
            opened.store.answer(question, answer, {"x": 2} if answer == "edit" else None, note)
    with load_run(tmp_path / "run") as run:
        (row,) = rows(run)
        assert (row["metric_exact"], row["cell_block"], row["cell_rule.use"]) == (1.0, 8, "b")
        assert (row["label"], row["labels"], row["input"]) == ("accept", 2, {"n": 1})
        assert (row["label_value"], row["label_note"]) == (None, None)
        table = frame(run)
        assert (table["cell_block"].dtype, table["cell_rule.use"].dtype) == ("float64", "string")


def test_an_item_is_called_what_the_report_calls_it(tmp_path: Path) -> None:
    """Also one that passed and was not chosen, one whose refusal the rule left to the verdict, and one not judged."""
    checks = (Check("pass"), Check("pass"), Check("reject"), Check("error"), Check("unchecked"))
    chosen = Round(
        index=0,
        items=tuple("abcde"),
        parents=(-1,) * 5,
        asked=5,
        checks=checks,
        decision=Decision(kept=(1,), emitted=("b",)),
    )
    found = TaskRecord(task="t", outcome=Outcome(status="accepted", value="b", rounds=1), rounds=(chosen,))
    with RunDirectory(tmp_path / "run", name="n", config=CONFIG, config_hash="h") as opened:
        opened.store.add_tasks([Task(id="t"), Task(id="u")])
        opened.store.commit("spec@k=4", found)
        opened.store.commit("spec@k=4", record("u"))
    with load_run(tmp_path / "run") as run:
        states = [row["state"] for row in rows(run, "items")]
        shown = [each for task in "tu" for each in task_detail(run, task)["pipelines"][0]["rounds"]]
    assert states == [item["fate"] for round in shown for item in round["items"]]
    assert states[:5] == ["passed", "kept", "refused", "unjudged", "left"]


def test_only_the_latest_attempt_of_a_task_is_there(tmp_path: Path) -> None:
    """As everywhere else."""
    with RunDirectory(tmp_path / "run", name="n", config=CONFIG, config_hash="h") as opened:
        opened.store.add_tasks([Task(id="t")])
        for attempt, status in enumerate(("failed", "accepted")):
            outcome = Outcome(status=status)  # type: ignore[arg-type]
            opened.store.commit("spec@k=4", TaskRecord(task="t", attempt=attempt, outcome=outcome))
        assert opened.store.counts() == {("measure", "spec@k=4", "accepted"): 1}
    with load_run(tmp_path / "run") as run:
        assert [(row["attempt"], row["status"]) for row in rows(run)] == [(1, "accepted")]


def test_a_spreadsheet_takes_no_text_for_a_formula(hostile: RunRecords) -> None:
    """No cell of text begins as a formula does, whatever blanks or widths stand before it; all come back."""
    found = read_csv(exported(hostile, "csv"))
    for row in found:
        assert not row["value"].lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠")), row[
            "value"
        ]
        assert not row["value"].startswith(("\t", "\r"))
    assert [unguarded(row["value"]) for row in found[::2]] == HOSTILE


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    """A negative score is no formula, and no text."""
    with RunDirectory(tmp_path / "run", name="n", config=CONFIG, config_hash="h") as opened:
        opened.store.add_tasks([Task(id="t")])
        outcome = Outcome(status="accepted", value="x", score=-1.5)
        opened.store.commit("spec@k=4", TaskRecord(task="t", outcome=outcome))
    with load_run(tmp_path / "run") as run:
        assert read_csv(exported(run, "csv"))[0]["score"] == "-1.5"
        assert frame(run)["score"].tolist() == [-1.5]


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("level", ["tasks", "items"])
def test_nothing_in_an_export_steers_a_terminal(
    hostile: RunRecords, to: Any, level: Any, tmp_path: Path
) -> None:
    """No control and no format character but newline and tab is left in any cell."""
    path = tmp_path / "out"
    write(hostile, to, path, level)
    if to == "parquet":
        cells = [str(cell) for column in pd.read_parquet(path).to_dict("list").values() for cell in column]
    else:
        cells = [path.read_text(encoding="utf-8")]
    assert not {
        char
        for cell in cells
        for char in cell
        if unicodedata.category(char) in STEERING and char not in "\n\t"
    }


@settings(max_examples=4)
@given(values=st.lists(json_values, min_size=20, max_size=40))
def test_jsonl_and_parquet_give_back_what_was_recorded(
    values: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Exactly, type for type; csv and frames too, by `value_kind` and `unguarded`."""
    with made(tmp_path_factory.mktemp("x") / "run", values, rounds=()) as run:
        lines = [json.loads(line) for line in exported(run, "jsonl").splitlines()]
        assert [same(line["value"]) for line in lines[::2]] == [same(value) for value in values]
        assert [same(line["input"]["prompt"]) for line in lines[::2]] == [same(value) for value in values]
        table = frame(run)
        for found in (
            read_csv(exported(run, "csv")),
            table.astype(object).where(table.notna(), "").to_dict("records"),
        ):
            back = []
            for row in found[::2]:
                text = unguarded(row["value"]) if isinstance(found[0]["rounds"], str) else plain(row["value"])
                back.append(json.loads(text or "") if row["value_kind"] == "json" else text)
            assert [same(value) for value in back] == [same(value) for value in values]


def plain(cell: str) -> str | None:
    return json.loads(cell) if cell.startswith('"') else cell or None


def same(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("to", FORMATS)
def test_secrets_are_taken_out_and_numbers_left_alone(tmp_path: Path, to: Any) -> None:
    """Of every value, wherever it stands; digits of a number are no secret."""
    Secret("hunter2-hunter2")
    Secret("1234567")
    with made(
        tmp_path / "run", [{"hunter2-hunter2": ["hunter2-hunter2", 1234567]}, "hunter2-hunter2"]
    ) as run:
        write(run, to, tmp_path / "out")
        assert b"hunter2" not in (tmp_path / "out").read_bytes()
        if to == "jsonl":
            line = json.loads((tmp_path / "out").read_text().splitlines()[0])
            assert line["value"] == {"***": ["***", 1234567]}


def test_secrets_of_the_config_are_known_to_who_reads_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """config.json names the variables; a model that said what one holds is not repeated."""
    monkeypatch.setenv("DRAFTVERIFY_TEST_TOKEN", "swordfish-9f3a")
    config = {**CONFIG, "models": {"m": {"key": "${DRAFTVERIFY_TEST_TOKEN}"}}}
    with RunDirectory(tmp_path / "run", name="n", config=config, config_hash="h") as opened:
        opened.store.add_tasks([Task(id="t")])
        opened.store.commit("spec@k=4", record("t", value="my key is swordfish-9f3a"))
    with load_run(tmp_path / "run") as run:
        assert "swordfish" not in exported(run, "csv")
        assert "my key is ***" in exported(run, "csv")


def test_a_frame_has_sound_types(tmp_path: Path) -> None:
    """Counts are integers, figures floats with NaN, text is text with NA, times have a zone; so with no row at all."""
    for name, values in (("some", ["x", None]), ("none", [])):
        with made(tmp_path / name, values) as run:
            table = frame(run)
            assert {table[each].dtype.kind for each in ("rounds", "trials", "labels")} == {"i"}
            assert {str(table[each].dtype) for each in ("seconds", "score", "metric_exact")} == {"float64"}
            assert {str(table[each].dtype) for each in ("pipeline", "status", "value", "input")} == {"string"}
            assert str(table["committed"].dtype).startswith("datetime64")
            assert str(table["committed"].dtype).endswith("UTC]")
            assert frame(run, "rounds")["deterministic"].dtype == bool
            assert len(table) == 2 * len(values)


def test_rows_are_read_a_few_tasks_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first row no more than one page of records has left the database."""
    with made(tmp_path / "run", [str(n) for n in range(450)], rounds=()) as run:
        read = []
        inner = run.store._read
        monkeypatch.setattr(
            run.store, "_read", lambda *args: read.append(len(found := inner(*args))) or found
        )
        endings = run.store.endings()
        next(endings)
        assert read == [900, 200]
        assert sum(1 for _ in endings) == 899
        assert read == [900, 200, 200, 200, 200, 100]


def test_a_file_is_whole_or_not_there(hostile: RunRecords, tmp_path: Path) -> None:
    """One that cannot be written leaves nothing, and the one that was there as it was."""
    path = tmp_path / "out.csv"
    path.write_text("before")

    class Full(RunRecords):
        def __init__(self) -> None:
            self.__dict__.update(hostile.__dict__)

        @property
        def questions(self) -> Any:
            raise OSError(28, os.strerror(28))

    with pytest.raises(ResourceError, match=r"out\.csv: cannot be written \(No space left"):
        write(Full(), "csv", path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".part")] == []
    with pytest.raises(ResourceError, match="cannot be written"):
        write(hostile, "csv", tmp_path / "no" / "out.csv")


def test_what_there_is_not_is_refused(hostile: RunRecords, tmp_path: Path) -> None:
    """Formats, levels, and parquet where text goes."""
    with pytest.raises(ConfigError, match="there are csv, jsonl, parquet"):
        write(hostile, "xml", tmp_path / "x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="there are tasks, rounds, items"):
        write(hostile, "csv", tmp_path / "x", "words")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="give a file"):
        write(hostile, "parquet", io.StringIO())


@pytest.mark.parametrize(("package", "call"), [("pandas", "frame"), ("pyarrow", "parquet")])
def test_a_missing_package_is_named_with_its_extra(
    hostile: RunRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, call: str
) -> None:
    """csv and jsonl need neither."""
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(ResourceError, match=rf"{package}.*extra 'export'"):
        frame(hostile) if call == "frame" else write(hostile, "parquet", tmp_path / "x")
    assert exported(hostile, "csv")
    assert not (tmp_path / "x").exists()
