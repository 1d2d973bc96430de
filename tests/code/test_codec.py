"""The closed value codec: what it carries it carries exactly, and no bytes make it do anything else."""

from __future__ import annotations

import contextlib
import enum
import math
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from draftverify_code.sandbox import codec
from draftverify_code.sandbox.codec import CannotCross, WireExchange

TEXT = st.text(st.characters(blacklist_categories=()))  # lone surrogates too
HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(0, 3).map(lambda power: -(7 ** (1700 * power)))
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | TEXT
    | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=1),
    max_leaves=4,
)
VALUES = st.recursive(
    HASHABLE | st.sets(st.integers(0, 4)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(HASHABLE, inner, max_size=3)
    ),
    max_leaves=12,
)


def same(a, b):
    """Equal and of the same type, all the way down; -0.0 is not 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (set, frozenset)):
        return same(list(a), list(b))
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    return repr(a) == repr(b) if isinstance(a, (float, complex)) else a == b


def rebuilt(value):
    return WireExchange().loads(WireExchange().dumps(value))


@given(VALUES)
@example([-0.0, math.inf, [True, 1, 1.0], complex(math.inf, -0.0)])
@example(["\ud83d\ude00", "\ud83d", "a\x00", "NaN"])
def test_what_crosses_is_the_same_and_counts_alike(value):
    """A value arrives equal and of the same types; both ends number alike what can change."""
    ours, theirs = WireExchange(), WireExchange()
    assert same(theirs.loads(ours.dumps(value)), value)
    assert list(map(type, ours.containers)) == list(map(type, theirs.containers))


class Colour(enum.IntEnum):
    RED = 3


class Word(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


class Liar(dict):
    def items(self):
        return [("forged", 1)]


class AlwaysEqual:
    __class__ = list

    def __eq__(self, other):
        return True

    __hash__ = None


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        len,
        object(),
        lambda: 0,
        iter([]),
        {1: 2}.keys(),
        range(3),
        bytearray(),
        ...,
        int,
        ValueError(),
        math.nan,
        complex(0, math.nan),
        Decimal(1),
        Counter(),
        OrderedDict(),
        defaultdict(list),
        deque(),
        Point(1, 2),
        Colour.RED,
        Word("a"),
        Liar(a=1),
        AlwaysEqual(),
        np.int64(1),
        np.float64(1),
        np.bool_(True),
        np.str_("a"),
        np.array([1]),
        "x" * codec.FRAME,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_plain_does_not_cross(value):
    """Also inside of something, and where it is of a subclass: np.float64 is one of float."""
    for whole in (value, [1, {"a": (value,)}]):
        with pytest.raises(CannotCross):
            WireExchange().dumps(whole)


def test_a_set_that_would_go_through_its_items_in_another_order_does_not_cross():
    """Its order is that of how it was made, which a test can see."""
    value = set(range(200))
    for number in range(200):
        if number not in (1, 64):
            value.discard(number)
    assert list(value) == [1, 64]
    with pytest.raises(CannotCross, match="order"):
        WireExchange().loads(WireExchange().dumps(value))


def test_shared_values_stay_shared():
    """One list in two places arrives as one list; a list may contain itself."""
    row = [0]
    found = rebuilt([row, row, (row,), {"a": row}])
    assert found[0] is found[1] is found[2][0] is found[3]["a"]
    cycle = [1]
    cycle.append([cycle])
    found = rebuilt(cycle)
    assert found[1][0] is found
    ours, theirs = WireExchange(), WireExchange()
    first = theirs.loads(ours.dumps([row]))[0]
    assert ours.loads(theirs.dumps((first, [first])))[1][0] is row


def test_what_is_still_referred_to_is_held():
    """By a name, by something else, by itself; not by what is gone or only calls itself."""

    def held(make, keep=lambda value: None):
        exchange = WireExchange()
        value = exchange.loads(WireExchange().dumps(make))
        kept = keep(value)
        del value
        return exchange.is_held(), kept

    nested = [[1], {"a": {2}}, ([3],)]
    assert not held(nested)[0]
    for keep in (lambda v: v, lambda v: v[0], lambda v: [v[1]["a"]], lambda v: v[2], lambda v: iter(v[0])):
        assert held(nested, keep)[0]
    assert not held([(1, 2), "a"], lambda v: v[0])[0]
    assert held(nested, lambda v: v.append(v))[0]

    def recursive(value):
        def inner(depth):
            return value and depth and inner(depth - 1)

        inner(3)

    assert not held(nested, recursive)[0]


# --- bytes from a hostile peer


@given(st.binary(max_size=200))
def test_random_bytes_raise_value_error_or_are_a_value(data):
    """Nothing but ValueError comes out of loads."""
    with contextlib.suppress(ValueError):
        WireExchange().loads(data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**30)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["", "ff", "AAAA", "inf", "int", "KeyError"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*codec._READERS, "nonsense"]), inner, min_size=1, max_size=1)
    ),
    max_leaves=15,
)
PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)


def types_in(value, seen):
    """The types of all that is in a value."""
    if id(value) not in seen:
        seen[id(value)] = value
        if isinstance(value, (list, tuple, dict, set, frozenset)):
            for part in [*value, *(value.values() if isinstance(value, dict) else ())]:
                types_in(part, seen)
    return {type(part) for part in seen.values()}


@settings(max_examples=500)
@given(JSON)
def test_random_tags_raise_value_error_or_are_a_plain_value(node):
    """Whatever the tags say; `repr` and `==` of it are safe."""
    try:
        value = WireExchange().loads(codec.json.dumps(node).encode())
    except (ValueError, CannotCross):
        return
    assert types_in(value, {}) <= {*PLAIN}
    repr(value)
    value == value  # noqa: B015


@given(VALUES, st.data())
def test_damaged_bytes_raise_value_error_or_are_a_value(value, data):
    """Bytes of a value with one of them changed."""
    written = bytearray(WireExchange().dumps(value))
    at = data.draw(st.integers(0, len(written) - 1))
    written[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError, CannotCross):
        WireExchange().loads(bytes(written))


HOSTILE = {
    "deep": b"[" * 100_000,
    "deep and closed": b"[" * 5000 + b"]" * 5000,
    "deep tags": b'{"tuple":[' * 5000 + b"]}" * 5000,
    "just too deep": b"[" * 102 + b"]" * 102,
    "digits": b"9" * 1_000_000,
    "negative digits": b"[-" + b"9" * 5000 + b"]",
    "nan": b"NaN",
    "a nan in words": b'{"float":"nan"}',
    "infinity": b"[Infinity]",
    "a tuple in itself": b'{"tuple":[{"ref":0}]}',
    "a reference ahead": b'[{"ref":1}]',
    "a negative reference": b'[{"ref":-1}]',
    "a true reference": b'[[],{"ref":true}]',
    "unhashable": b'{"set":[[]]}',
    "no value": b'{"dict":[1,2,3]}',
    "unknown": b'{"eval":"1"}',
    "two tags": b'{"tuple":[],"list":[]}',
    "no tag": b"{}",
    "a type": b'{"type":"os"}',
    "an exception": b'{"exception":[{"type":"__import__"},{"tuple":["os"]}]}',
    "an array": b'{"array":["|O",[1],"AAAAAAAAAAA="]}',
    "surrogates": b'"\xed\xa0\x80"',
    "not UTF-8": b'"\xff"',
    "trailing": b"1 1",
    "nothing": b"",
    "a handle": b'{"handle":["object",null,"x"]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_raise_value_error(name):
    """And nothing is made of them."""
    with pytest.raises(ValueError, match="not a value"):
        WireExchange().loads(HOSTILE[name])


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
        value.symmetric_difference_update({1, 2})


def shape(value, seen=()):
    """What a value with cycles looks like."""
    if any(value is each for each in seen):
        return "cycle"
    if isinstance(value, dict):
        return {key: shape(each, (*seen, value)) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [shape(each, (*seen, value)) for each in value]
    return value


MUTABLE = st.recursive(
    st.integers() | st.sets(st.integers(0, 4), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(MUTABLE, st.data())
def test_what_is_changed_over_there_is_changed_here(value, data):
    """Whatever a call does to its arguments in place happens to the caller's own containers."""
    ours, theirs = WireExchange(), WireExchange()
    other = theirs.loads(ours.dumps([value]))[0]
    bound = len(ours.containers)
    before = theirs.contents()
    assert theirs.changes(before) == []
    mutate(other, data.draw)
    answer = ours.loads(theirs.dumps([other, theirs.changes(before)]))
    ours.change(answer[1], bound)
    assert shape(value) == shape(other)
    if isinstance(value, (list, dict, set)):
        assert answer[0] is value


@pytest.mark.parametrize(
    "changed", [1, [1], [[0]], [[9, []]], [[-1, []]], [[True, []]], [[2, [1]]], [[1, 5]], [[1, {}]]]
)
def test_a_change_that_cannot_be_raises_value_error(changed):
    """Of something that is not known, or has no such content."""
    exchange = WireExchange()
    exchange.dumps([[1], {3: 4}])
    with pytest.raises(ValueError, match="not a change"):
        exchange.change(changed, 3)
