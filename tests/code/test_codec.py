"""The closed value codec: what it carries it carries exactly, and no bytes make it do anything else."""

from __future__ import annotations

import builtins
import contextlib
import csv
import enum
import importlib
import json
import math
import re
import subprocess
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from draftverify_code.sandbox import codec
from draftverify_code.sandbox.codec import CannotCross, Wire

TEXT = st.text(st.characters(blacklist_categories=()))  # lone surrogates too
HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 3).map(lambda power: -(7 ** (1700 * power)))
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | TEXT
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.times()
    | st.datetimes(
        timezones=st.none() | st.sampled_from([ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=-3), "X")])
    )
    | st.uuids()
    | st.ip_addresses()
    | st.sampled_from([PosixPath("/a/b"), PurePosixPath("c"), PureWindowsPath("d"), timezone.utc])
    | st.timedeltas()
    | st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3))
    | st.sampled_from([..., NotImplemented, int, type(None), ValueError]),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
LEAVES = (
    HASHABLE
    | st.floats()
    | st.binary().map(bytearray)
    | st.builds(slice, st.none() | st.integers())
    | st.lists(st.integers(-9, 9)).map(lambda items: array("b", items))
    | arrays(
        st.sampled_from(["?", "i4", "<u8", "f4", ">f8", "c16"]), st.sampled_from([(), (0,), (3,), (2, 2)])
    )
    | st.sampled_from([np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("a"), np.array(["ab", "c"])])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(deque)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.dictionaries(HASHABLE, inner, max_size=3).map(OrderedDict)
        | st.dictionaries(HASHABLE, inner, max_size=3).map(lambda value: defaultdict(list, value))
        | st.sets(HASHABLE, max_size=3)
        | st.dictionaries(HASHABLE, st.integers(), max_size=3).map(Counter)
    ),
    max_leaves=12,
)


def same(a, b):
    """Equal and of the same type, all the way down; nan is nan and -0.0 is not 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple, deque)):
        return (
            len(a) == len(b) and all(map(same, a, b)) and getattr(a, "maxlen", 0) == getattr(b, "maxlen", 0)
        )
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (float, complex, np.generic)):
        return repr(a) == repr(b)
    if isinstance(a, Decimal):
        return a.as_tuple() == b.as_tuple()
    return a == b


class Colour(enum.IntEnum):
    RED = 3


class Word(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class Liar(dict):
    def __getitem__(self, key):
        return "anything"

    def __iter__(self):
        return iter("xyz")

    def items(self):
        return [("forged", 1)]


class Grown(list):
    def __iter__(self):
        return iter([1, 2, 3])

    def __reduce__(self):
        return (print, ("ran",))


class AlwaysEqual:
    __class__ = list

    def __eq__(self, other):
        return True

    def __bool__(self):
        return False

    __hash__ = None


Point = namedtuple("Point", "x y")


def rebuilt(value):
    return Wire().loads(Wire().dumps(value))


@given(VALUES)
@example([math.nan, -0.0, math.inf, [True, 1, 1.0]])
@example(["\ud83d\ude00", "\ud83d", "a\x00"])
def test_what_crosses_is_the_same_and_counts_alike(value):
    """A value arrives equal and of the same types; both ends number alike what has an identity, and forget alike."""
    ours, theirs = Wire(), Wire()
    assert same(theirs.loads(ours.dumps(value)), value)
    assert ours.count == theirs.count
    assert ours.objects.keys() == theirs.objects.keys()
    assert all(type(theirs.objects[number]) is type(each) for number, each in ours.objects.items())
    ours.forget(0)
    assert (ours.count, ours.objects, ours.numbers) == (0, {}, {})


@pytest.mark.parametrize(
    "value",
    [
        Decimal("sNaN"),
        Decimal("-Infinity"),
        deque([1, 2], maxlen=2),
        defaultdict(int, a=1),
        datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        time(1, 2, 3),
        (int, Decimal, deque, ValueError, json.JSONDecodeError),
    ],
)
def test_the_less_common_values(value):
    """As themselves, with all that one could ask them."""
    found = rebuilt(value)
    assert repr(found) == repr(value)
    assert getattr(found, "fold", 0) == getattr(value, "fold", 0)


@pytest.mark.parametrize(
    "value",
    [
        len,
        sys,
        object(),
        lambda: 0,
        [1, {"a": iter([])}],
        {1: 2}.keys(),
        defaultdict(lambda: 3, a=1),
        range(10**12),
        Decimal("1E+999999"),
        Fraction(1, 3**99999),
        np.array([object()]),
        np.datetime64("2024-01-01"),
        re.compile("a"),
        Colour.RED,
        Word("a"),
        Liar(a=1),
        Grown([7]),
        Point(1, 2),
        AlwaysEqual(),
    ],
)
def test_what_would_arrive_as_something_else_does_not_cross(value):
    """Nothing of it is known then, at either end."""
    wire = Wire()
    wire.dumps([[1]])
    before = wire.count, dict(wire.objects)
    with pytest.raises(CannotCross):
        wire.dumps([[1], value])
    assert (wire.count, wire.objects) == before


def raised(action, *args):
    try:
        action(*args)
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize(
    "error",
    [
        KeyError("a", [1]),
        StopIteration(3),
        SystemExit(4),
        raised(json.loads, "{"),
        raised(re.compile, "("),
        raised(open, "/nowhere/at/all"),
        raised(b"\xff".decode),
        raised("\ud800".encode),
        raised(compile, "1 +", "file", "exec"),
        subprocess.CalledProcessError(3, ["a"], b"out", b"err"),
        raised(lambda: nothing),  # noqa: F821
        raised(__import__, "nothing_of_that_name"),
        raised(lambda: (1).nothing),
        raised(Decimal("1").__truediv__, Decimal(0)),
        csv.Error("line"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exceptions_of_the_standard_library_cross_with_their_attributes(error):
    """Arguments, attributes, text, notes, cause and context."""
    error.__notes__ = ["a note"]
    error.__cause__, error.__context__ = ValueError("cause"), KeyError("context")
    found = rebuilt(error)
    assert type(found) is type(error)
    assert (str(found), repr(found), found.__notes__) == (str(error), repr(error), ["a note"])
    assert (repr(found.__cause__), repr(found.__context__)) == ("ValueError('cause')", "KeyError('context')")
    assert found.__suppress_context__
    for name in dir(error):
        value = getattr(error, name, None)
        if not name.startswith("__") and not callable(value) and name not in ("obj", "exceptions", "args"):
            assert getattr(found, name, None) == value, name


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are of Python 3.11")
def test_exception_groups_cross():
    """With what is in them."""
    group = builtins.ExceptionGroup("two", [ValueError(1), builtins.ExceptionGroup("one", [KeyError(2)])])
    assert repr(rebuilt(group)) == repr(group)


def test_every_exception_of_the_listed_modules_crosses():
    """Made without arguments where that is allowed, else with three texts."""
    kinds = set()
    for module in sorted(codec.EXCEPTION_MODULES):
        with contextlib.suppress(ImportError):
            found = vars(importlib.import_module(module)).values()
            kinds |= {each for each in found if isinstance(each, type) and issubclass(each, BaseException)}
    crossed = 0
    for kind in sorted(kinds, key=repr):
        if codec._name_of(kind) and not kind.__name__.endswith("ExceptionGroup"):
            assert type(rebuilt(kind.__new__(kind))) is kind
            crossed += 1
    assert crossed > 200


def test_numbers_of_any_length_cross():
    """Also those that the interpreter does not write out in decimal."""
    value = [10**4299, 10**4300, {"x": -(10**5000)}, range(10**5000, 10**5000 + 3), Fraction(1, 10**5000)]
    found = rebuilt(value)
    assert all(a == b for a, b in zip(found, value, strict=True))


def test_shared_values_stay_shared():
    """One list in two places arrives as one list; a list may contain itself."""
    row = [0]
    found = rebuilt([row, row, (row,), {"a": row}])
    assert found[0] is found[1] is found[2][0] is found[3]["a"]
    cycle = [1]
    cycle.append([cycle])
    found = rebuilt(cycle)
    assert found[1][0] is found
    ours, theirs = Wire(), Wire()
    first = theirs.loads(ours.dumps([row]))[0]
    again = theirs.loads(ours.dumps((row, cycle)))
    assert again[0] is first


def test_without_numpy_a_scalar_is_a_number_and_an_array_cannot_be_read(monkeypatch):
    """A process that has not imported NumPy is not made to."""
    scalar, array = Wire().dumps(np.float64(2.5)), Wire().dumps(np.array([1]))
    monkeypatch.delitem(sys.modules, "numpy")
    number = Wire().loads(scalar)
    assert type(number) is float
    assert number == 2.5
    with pytest.raises(ValueError, match="no handle is expected"):
        Wire().loads(array)
    assert "numpy" not in sys.modules


# --- bytes from a hostile peer


@given(st.binary(max_size=200))
def test_random_bytes_raise_value_error_or_are_a_value(data):
    """Nothing but ValueError comes out of loads."""
    with contextlib.suppress(ValueError):
        Wire().loads(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**30)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        [
            "",
            "ff",
            "<f8",
            "<U99999",
            "|b1",
            "AAAA",
            "1E+99999999999",
            "2024-01-01",
            "int",
            "KeyError",
            "Ellipsis",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*codec._READERS, "nonsense"]), inner, min_size=1, max_size=1)
    ),
    max_leaves=15,
)


@settings(max_examples=500)
@given(JSON)
def test_random_tags_raise_value_error_or_are_a_value_that_crosses(node):
    """Whatever the tags say: ValueError, or a value of the set; `repr` and `==` of it are safe."""
    try:
        value = Wire().loads(codec._to_json(node).encode())
    except ValueError:
        return
    repr(value)
    value == value  # noqa: B015


@given(VALUES, st.data())
def test_damaged_bytes_raise_value_error_or_are_a_value(value, data):
    """Bytes of a value with one of them changed."""
    written = bytearray(Wire().dumps(value))
    at = data.draw(st.integers(0, len(written) - 1))
    written[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        Wire().loads(bytes(written))


HOSTILE = {
    "deep": b"[" * 100_000,
    "deep and closed": b"[" * 5000 + b"]" * 5000,
    "deep tags": b'{"tuple":[' * 5000 + b"]}" * 5000,
    "just too deep": b"[" * 102 + b"]" * 102,
    "digits": b"9" * 1_000_000,
    "negative digits": b"[-" + b"9" * 5000 + b"]",
    "range": b'{"range":[0,1000000000000,1]}',
    "range of huge numbers": b'{"range":[{"int":"' + b"f" * 10_000 + b'"},0,-1]}',
    "no step": b'{"range":[0,1,0]}',
    "decimal": b'{"Decimal":["1E+999999999"]}',
    "decimal digits": b'{"Decimal":["' + b"1" * 100_000 + b'"]}',
    "fraction": b'{"Fraction":[1,0]}',
    "huge fraction": b'{"Fraction":[{"int":"' + b"f" * 100_000 + b'"},3]}',
    "a tuple in itself": b'{"tuple":[{"ref":0}]}',
    "a reference ahead": b'[{"ref":1}]',
    "a negative reference": b'[{"ref":-1}]',
    "a true reference": b'[[],{"ref":true}]',
    "unhashable": b'{"set":[[]]}',
    "no value": b'{"dict":[1,2,3]}',
    "unknown": b'{"eval":"1"}',
    "two tags": b'{"tuple":[],"list":[]}',
    "no tag": b"{}",
    "a name": b'{"type":"os"}',
    "another name": b'{"exception":[{"type":"__import__"},{"tuple":["os"]},{"dict":[]},null,null,null,false]}',
    "object array": b'{"array":["|O",[1],"AAAAAAAAAAA="]}',
    "short array": b'{"array":["<f8",[1000000000],""]}',
    "wide array": b'{"array":["<U9999999",[0],""]}',
    "no text": b'{"array":["<U1",[1],"/////w=="]}',
    "surrogates": b'"\xed\xa0\x80"',
    "not UTF-8": b'"\xff"',
    "trailing": b"1 1",
    "nothing": b"",
    "date": b'{"datetime":[2024,99,99,0,0,0,0,null,0]}',
    "an exception of no listed module": b'{"type":"turtle.Terminator"}',
    "a module": b'{"type":"os.path"}',
    "a handle": b'{"handle":["object",null,"x"]}',
    "a class": b'{"class":["C","plain",[],false,[]]}',
    "a member of no enum": b'{"member":[{"type":"int"},null,1]}',
    "a named tuple of no tuple": b'{"named":[{"type":"int"},[1]]}',
    "timedelta": b'{"timedelta":[99999999999,0,0]}',
}


@pytest.mark.parametrize("guards", ["usual", "lifted"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_raise_value_error(name, guards):
    """Also where a test has lifted the interpreter's own limit of digits."""
    digits = sys.get_int_max_str_digits()
    try:
        if guards == "lifted":
            sys.set_int_max_str_digits(0)
        with pytest.raises(ValueError, match="not a value"):
            Wire().loads(HOSTILE[name])
        assert guards == "usual" or sys.get_int_max_str_digits() == 0
    finally:
        sys.set_int_max_str_digits(digits)


def test_a_boolean_array_holds_only_booleans():
    """A byte that is neither 0 nor 1 becomes true: nothing equals both."""
    found = Wire().loads(b'{"array":["|b1",[3],"AAEC"]}')
    assert found.tolist() == [False, True, True]
    assert found.tobytes() == b"\x00\x01\x01"


# --- changes in place


def mutate(value, draw):
    """Change some container inside the value, in place."""
    if isinstance(value, list):
        action = draw(st.integers(0, 4))
        if action == 0:
            value.reverse()
        elif action == 1:
            value.append(value)
        elif action == 2:
            value.clear()
        elif action == 3 and value:
            mutate(draw(st.sampled_from(value)), draw)
        else:
            value.insert(0, ["new"])
    elif isinstance(value, dict):
        if value and draw(st.booleans()):
            mutate(draw(st.sampled_from(list(value.values()))), draw)
        else:
            value["new"] = list(value.values())
    elif isinstance(value, set):
        value.symmetric_difference_update({1, "new"})
    elif isinstance(value, bytearray):
        value += b"!"
    elif isinstance(value, deque):
        value.rotate(1)
        value.append(0)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "i":
        value += 1


def shape(value, seen=()):
    """What a value with cycles looks like."""
    if any(value is each for each in seen):
        return "cycle"
    if isinstance(value, dict):
        return {key: shape(each, (*seen, value)) for key, each in value.items()}
    if isinstance(value, (list, deque, tuple)):
        return [shape(each, (*seen, value)) for each in value]
    return repr(value) if isinstance(value, np.ndarray) else value


MUTABLE = st.recursive(
    st.integers()
    | st.sets(st.integers(), max_size=3)
    | st.builds(bytearray)
    | st.builds(lambda: np.arange(3)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.lists(inner, max_size=3).map(deque)
    ),
    max_leaves=8,
)


@given(MUTABLE, st.data())
def test_what_is_changed_over_there_is_changed_here(value, data):
    """Whatever a call does to its arguments in place happens to the caller's own containers."""
    ours, theirs = Wire(), Wire()
    other = theirs.loads(ours.dumps([value]))[0]
    kept = [(each, id(each)) for each in ours.objects.values()]
    below = ours.count
    before = theirs.contents(theirs.objects)
    assert codec.changes(before) is None
    mutate(other, data.draw)
    answer = ours.loads(theirs.dumps([other, codec.changes(before)]))
    if answer[1] is not None:
        ours.change(answer[1], below)
    assert shape(value) == shape(other)
    if isinstance(value, (list, dict, set, deque, bytearray, np.ndarray)):
        assert answer[0] is value
    assert all(id(each) == before for each, before in kept)


@pytest.mark.parametrize(
    "changed",
    [1, [1], [[0]], [[9, []]], [[-1, []]], [[True, []]], [[2, [1]]], [[3, [1]]], [[3, [[], 1]]], [[1, 5]]],
)
def test_a_change_that_cannot_be_raises_value_error(changed):
    """Of something that does not change, or is not known, or has no such content."""
    wire = Wire()
    wire.dumps([[1], (2,), {3: 4}])
    with pytest.raises(ValueError, match="not a change"):
        wire.change(changed, 4)


def test_a_view_of_an_array_that_crossed_does_not_cross():
    """A change of one would have to be a change of the other."""
    wire, numbers = Wire(), np.arange(4)
    wire.dumps(numbers)
    with pytest.raises(CannotCross, match="view"):
        wire.dumps(numbers.reshape(2, 2))
    assert same(rebuilt(np.arange(4).reshape(2, 2)), np.arange(4).reshape(2, 2))
