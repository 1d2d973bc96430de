"""The closed value codec: what it carries it carries exactly, and no bytes make it do anything else."""

from __future__ import annotations

import contextlib
import enum
import math
import sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import count

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from draftverify_code.sandbox import codec
from draftverify_code.sandbox.codec import CannotCross, Known, Opaque, dumps, loads

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
    | st.datetimes(timezones=st.none() | st.just(timezone(timedelta(hours=-3))))
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


def rebuilt(value):
    return loads(dumps(value))


@given(VALUES)
@example([math.nan, -0.0, math.inf, [True, 1, 1.0]])
@example(["\ud83d\ude00", "\ud83d", "a\x00"])
def test_what_crosses_is_the_same_and_counts_alike(value):
    """A value arrives equal and of the same types; both sides number its containers alike, and know their sizes."""
    ours, theirs = Known(), Known()
    assert same(loads(dumps(value, ours), theirs), value)
    assert ours.extents == theirs.extents
    assert None not in ours.extents


@pytest.mark.parametrize(
    ("value", "same_value"),
    [
        (timezone.utc, Opaque),
        (Decimal("sNaN"), "Decimal('sNaN')"),
        (Decimal("-Infinity"), "Decimal('-Infinity')"),
        (deque([1, 2], maxlen=2), "deque([1, 2], maxlen=2)"),
        (defaultdict(int, a=1), "defaultdict(<class 'int'>, {'a': 1})"),
        (defaultdict(lambda: 3, a=1), "defaultdict(None, {'a': 1})"),
        ({1: 2}.keys(), "dict_keys([1])"),
        ({1: [2]}.values(), "dict_values([[2]])"),
        ({1: 2}.items(), "dict_items([(1, 2)])"),
        (KeyError("a", [1]), "KeyError('a', [1])"),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "bad"), "ValueError('utf-8', b'', 0, 1, 'bad')"),
        (datetime(2024, 2, 29, 1, 2, 3, 4, timezone.utc), None),
        (date(2024, 2, 29), None),
        (time(1, 2, 3), None),
        (len, Opaque),
        (lambda: 0, Opaque),
        (sys, Opaque),
        (range(10**12), Opaque),
        (Decimal("1E+999999"), Opaque),
        (Fraction(1, 3**99999), Opaque),
        (np.array([object()]), Opaque),
        (np.datetime64("2024-01-01"), Opaque),
    ],
)
def test_the_less_common_values(value, same_value):
    """Views, exceptions, extreme numbers: as themselves, as what is nearest, or not at all."""
    found = rebuilt(value)
    if same_value is Opaque:
        assert type(found) is Opaque
        assert found != value
    else:
        assert repr(found) == (same_value or repr(value))


def test_numbers_of_any_length_cross():
    """Also those that the interpreter does not write out in decimal."""
    value = [10**4299, 10**4300, {"x": -(10**5000)}, range(10**5000, 10**5000 + 3), Fraction(1, 10**5000)]
    found = rebuilt(value)
    assert all(a == b for a, b in zip(found, value, strict=True))


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


def test_instances_of_subclasses_cross_as_their_base():
    """What a subclass overrides stays behind: only the base's own content crosses."""
    found = rebuilt([Colour.RED, Word("a"), Liar(a=1), Grown([7]), Point(1, 2), True])
    assert same(found, [3, "a", {"a": 1}, [7], (1, 2), True])


def test_what_is_not_of_the_set_equals_nothing():
    """An object of a class of its own arrives as an Opaque: equal to nothing but itself, as true as it was."""
    found = rebuilt([AlwaysEqual(), object()])
    for value in (1, [], None, AlwaysEqual):
        assert found[0] != value
    assert found.index(found[1]) == 1
    assert [bool(each) for each in found] == [False, True]
    assert repr(found[0]) == "<object of type AlwaysEqual that cannot leave its process>"
    thing = object()
    twice = rebuilt([thing, [thing]])
    assert twice[0] is twice[1][0]


@pytest.mark.parametrize("value", [len, object(), [1, {"a": lambda: 0}], Opaque("x")])
def test_strict_refuses_what_is_not_of_the_set(value):
    """Strict encoding names the value that cannot cross."""
    with pytest.raises(CannotCross) as caught:
        dumps(value, strict=True)
    assert caught.value.value in (value, *(value[1].values() if isinstance(value, list) else ()))


def test_shared_values_stay_shared():
    """One list in two places arrives as one list; a list may contain itself."""
    row = [0]
    found = rebuilt([row, row, (row,), {"a": row}])
    assert found[0] is found[1] is found[2][0] is found[3]["a"]
    cycle = [1]
    cycle.append([cycle])
    found = rebuilt(cycle)
    assert found[1][0] is found
    found = rebuilt(doubled(60))
    assert type(found) is Opaque or len(dumps(found)) < 10_000


def doubled(levels):
    value = [0]
    for _ in range(levels):
        value = [value, value]
    return value


def test_an_iterator_arrives_as_an_iterator():
    """Over the same items; one that does not end is cut, and says so where it is read on."""
    found = rebuilt(each * each for each in range(3))
    assert iter(found) is found
    assert list(found) == [0, 1, 4]
    assert list(rebuilt(map(str, [1]))) == ["1"]
    endless = rebuilt(count())
    assert [next(endless) for _ in range(100)] == list(range(100))
    with pytest.raises(ValueError, match="stayed in its process"):
        list(endless)

    def failing():
        yield 1
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        dumps([failing()])


def test_without_numpy_a_scalar_is_a_number_and_an_array_stays_behind(monkeypatch):
    """A process that has not imported numpy is not made to."""
    data = dumps([np.float64(2.5), np.array([1])])
    monkeypatch.delitem(sys.modules, "numpy")
    number, array = loads(data)
    assert type(number) is float
    assert number == 2.5
    assert type(array) is Opaque
    assert "numpy" not in sys.modules


# --- bytes from a hostile peer


@given(st.binary(max_size=200))
def test_random_bytes_raise_value_error_or_are_a_value(data):
    """Nothing but ValueError comes out of loads."""
    with contextlib.suppress(ValueError):
        loads(data)


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
        | st.dictionaries(st.sampled_from([*codec._DECODERS, "nonsense"]), inner, min_size=1, max_size=1)
    ),
    max_leaves=15,
)


@settings(max_examples=500)
@given(JSON)
def test_random_tags_raise_value_error_or_are_a_value_that_crosses(node):
    """Whatever the tags say: ValueError, or a value of the set; `repr` and `==` of it are safe."""
    try:
        value = loads(codec._to_json(node).encode())
    except ValueError:
        return
    repr(value)
    value == value  # noqa: B015


@given(VALUES, st.data())
def test_damaged_bytes_raise_value_error_or_are_a_value(value, data):
    """Bytes of a value with one of them changed."""
    written = bytearray(dumps(value))
    at = data.draw(st.integers(0, len(written) - 1))
    written[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        loads(bytes(written))


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
    "decimal": b'{"Decimal":"1E+999999999"}',
    "decimal digits": b'{"Decimal":"' + b"1" * 100_000 + b'"}',
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
    "another name": b'{"exception":["__import__",["os"]]}',
    "object array": b'{"array":["|O",[1],"AAAAAAAAAAA="]}',
    "short array": b'{"array":["<f8",[1000000000],""]}',
    "wide array": b'{"array":["<U9999999",[0],""]}',
    "no text": b'{"array":["<U1",[1],"/////w=="]}',
    "surrogates": b'"\xed\xa0\x80"',
    "not UTF-8": b'"\xff"',
    "trailing": b"1 1",
    "nothing": b"",
    "date": b'{"datetime":"2024-99-99"}',
    "timedelta": b'{"timedelta":[99999999999,0,0]}',
}


@pytest.mark.parametrize("guards", ["usual", "lifted"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_raise_value_error(name, guards):
    """Also where a test has lifted the interpreter's own limits."""
    recursion = sys.getrecursionlimit()
    digits = sys.get_int_max_str_digits()
    try:
        if guards == "lifted":
            sys.setrecursionlimit(10**6)
            sys.set_int_max_str_digits(0)
        with pytest.raises(ValueError, match="not a value"):
            loads(HOSTILE[name])
        assert guards == "usual" or (sys.getrecursionlimit(), sys.get_int_max_str_digits()) == (10**6, 0)
    finally:
        sys.setrecursionlimit(recursion)
        sys.set_int_max_str_digits(digits)


def test_a_small_frame_is_no_large_value():
    """Lists of twice the same list, and lists that hold ever deeper ones by reference, are refused."""
    # Number 1 is [0]; each further list holds the one before it, twice.
    wide = b"[[0]," + b",".join(b'[{"ref":%d},{"ref":%d}]' % (i, i) for i in range(1, 60)) + b"]"
    deep = b"[[0]," + b",".join(b'[{"ref":%d}]' % i for i in range(1, 200)) + b"]"
    for data in (wide, deep):
        with pytest.raises(ValueError, match="too large"):
            loads(data)
    assert len(loads(b"[[0]," + b",".join(b'[{"ref":%d}]' % i for i in range(1, 90)) + b"]")) == 90


def test_a_boolean_array_holds_only_booleans():
    """A byte that is neither 0 nor 1 becomes true: nothing equals both."""
    found = loads(b'{"array":["|b1",[3],"AAEC"]}')
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
    ours, theirs = Known(), Known()
    other = loads(dumps([value], ours), theirs)[0]
    kept = [(each, id(each)) for each in ours.objects]
    number = len(ours.objects)
    before = codec.snapshot(theirs, 1)
    assert codec.changes(before) is None
    mutate(other, data.draw)
    answer = loads(dumps([other, codec.changes(before)], theirs), ours)
    if answer[1] is not None:
        codec.apply_changes(ours, number, answer[1])
    assert shape(value) == shape(other)
    if isinstance(value, (list, dict, set, deque, bytearray, np.ndarray)):
        assert answer[0] is value
    assert all(id(each) == before for each, before in kept)


@pytest.mark.parametrize(
    "changed",
    [1, [1], [[0]], [[9, []]], [[-1, []]], [[True, []]], [[1, b""]], [[2, [1]]], [[3, [1]]], [[3, [[], 1]]]],
)
def test_a_change_that_cannot_be_raises_value_error(changed):
    """Of something that is no container, or not known, or not of that kind."""
    known = Known()
    dumps([[1], (2,), {3: 4}], known)
    with pytest.raises(ValueError, match="not a change"):
        codec.apply_changes(known, 4, changed)
