"""Records as JSON: what goes in comes out, and what would be lost is refused by name."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify.bench.records.encoding import check, decode, encode, timeless
from draftverify.errors import ContractError, StoreError
from draftverify.values import Decision, Outcome, Round, Task, TaskRecord
from tests.records import samples


def test_record_comes_back_equal() -> None:
    """Every field of a record survives the way to JSON and back, tuples of the structs included."""
    record = samples.record()
    assert decode(encode(record, "t"), TaskRecord, "t") == record


@given(items=st.lists(samples.json_values, max_size=4), value=samples.json_values)
def test_any_json_value_comes_back_equal(items: list[Any], value: Any) -> None:
    """Items and outcomes may be any JSON value."""
    round = Round(index=0, items=tuple(items), decision=Decision(emitted=tuple(items), spliced=tuple(items)))
    record = TaskRecord(task="t", outcome=Outcome(status="accepted", value=value), rounds=(round,))
    assert decode(encode(record, "t"), TaskRecord, "t") == record


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (b"bytes", "bytes"),
        ({1, 2}, "set"),
        (datetime.date(2024, 1, 2), "datetime.date"),
        (float("nan"), "nan"),
        (np.float64("inf"), "inf is no JSON number"),
        (2**70, "64 bits"),
        (np.zeros(3), "numpy.ndarray"),
        ({1: "a"}, "JSON keys are strings"),
        ([{"deep": [object()]}], "builtins.object"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_json_would_lose_is_refused_by_name(value: Any, named: str) -> None:
    """The error says the place and the type, and nothing is written in a form that reads back as something else."""
    rounds = (Round(index=3, items=("fine", value)),)
    with pytest.raises(ContractError, match=named) as error:
        encode(TaskRecord(task="t", outcome=Outcome(status="accepted"), rounds=rounds), "task 't'")
    assert "task 't'" in str(error.value)


def test_the_place_is_named() -> None:
    """The round and the item are in the message, inside nested records too."""
    inner = TaskRecord(
        task="t/0.1", outcome=Outcome(status="accepted"), rounds=(Round(index=2, items=(b"",)),)
    )
    outer = TaskRecord(
        task="t", outcome=Outcome(status="accepted"), rounds=(Round(index=0, nested=(inner,)),)
    )
    with pytest.raises(ContractError, match=r"task 't', round 0, inner task 't/0\.1', round 2, items\[0\]"):
        check(outer, "task 't'")


def test_array_scalars_become_numbers() -> None:
    """A token id that is a NumPy integer is recorded as the integer."""
    round = Round(index=0, items=(np.int64(7), np.float32(0.5), np.bool_(True)))
    assert decode(encode(round, "r"), Round, "r").items == (7, 0.5, True)


def test_a_mapping_of_a_task_is_an_object() -> None:
    """A task's input may be any mapping."""
    input: Mapping[str, Any] = MappingProxyType({"prompt": "x"})
    assert decode(encode(Task(id="a", input=input), "a"), Task, "a").input == {"prompt": "x"}


@given(st.binary(max_size=60) | samples.json_values.map(lambda value: encode(value, "v").encode()))
def test_damaged_text_is_a_store_error(data: bytes) -> None:
    """Whatever stands in the database, reading it is a record or a StoreError that names the place."""
    try:
        decode(data, TaskRecord, "records.db, task 'a'")
    except StoreError as error:
        assert "records.db, task 'a'" in str(error)  # noqa: PT017 - either outcome is right


def test_timeless_leaves_everything_but_times() -> None:
    """Times and tracebacks go, at every depth; a difference in anything else stays a difference."""
    record = samples.record()
    bare = timeless(record)
    assert bare.outcome.seconds == 0
    assert bare.rounds[0].timing.total == 0
    assert bare.rounds[0].timing.passes == 1
    assert bare.rounds[0].notes == {"isolation": "namespaces"}
    assert bare.rounds[1].failure is not None
    assert bare.rounds[1].failure.traceback == ""
    assert bare != timeless(samples.record(value="other"))


def test_a_tuple_inside_a_value_becomes_a_list() -> None:
    """JSON has no tuples: a chain's value is a tuple of items when it is made, and a list when it is read."""
    record = samples.record(value=(1, ("a", "b")))
    assert decode(encode(record, "t"), TaskRecord, "t").outcome.value == [1, ["a", "b"]]
