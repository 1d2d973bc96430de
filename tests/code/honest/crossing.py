"""Honest programs whose values are easily got wrong where program and tests do not share a process."""

# %% entry points that are no plain functions
import operator
from functools import partial


class Greeter:
    def __init__(self, word):
        self.word = word

    def __call__(self, name):
        return f"{self.word} {name}"

    def loud(self, name):
        return self(name).upper()


add = operator.add
parse = int
greet = Greeter("hi")
loud = greet.loud
half = lambda x: x / 2
square = partial(pow, exp=2)

# tests: asserts
assert add(1, 2) == 3
assert parse("ff", 16) == 255
assert greet("Bob") == "hi Bob" and loud("Bob") == "HI BOB"
assert half(3) == 1.5 and square(4) == 16
try:
    parse("x")
except ValueError:
    failed = True
assert failed
# wrong: Greeter("hi") => Greeter("ho")


# %% keywords of any name
def show(**words):
    return list(words.items())


def order(a, b=2, *, name="n", self=None, args=(), kwargs=0):
    return [a, b, name, self, args, kwargs]


# tests: asserts
assert show(z=1, a=2) == [("z", 1), ("a", 2)]
assert show(self=1, name=2, args=3, kwargs=4, value=5) == [
    ("self", 1),
    ("name", 2),
    ("args", 3),
    ("kwargs", 4),
    ("value", 5),
]
assert order(1, self="me", args=(1,), name="x") == [1, 2, "x", "me", (1,), 0]
# wrong: list(words.items()) => sorted(words.items())


# %% texts and integers of any kind
def echo(x):
    return x


def reverse(text):
    return text[::-1]


def power(n):
    return 7**n


def grow(text, n):
    return text * n


# tests
for text in (
    "",
    "\x00\x01",
    "\ud800 alone",
    "ä\u0301 \U0001f600",
    "line\nline\r\n\u2028",
    '"quoted\\"',
    "\x7f\x85",
):
    assert echo(text) == text and reverse(reverse(text)) == text
    assert reverse(text)[:1] == text[-1:]
for number in (0, -1, 2**63, -(2**64), 10**400, True):
    assert echo(number) == number and type(echo(number)) is type(number)
assert power(9000) == 7**9000 and power(9000) % 1000 == pow(7, 9000, 1000)
assert echo(b"\x00\xff") == b"\x00\xff"
assert echo({1: {"a": [(), (1,), None, ..., -0.5e-300]}}) == {1: {"a": [(), (1,), None, ..., -0.5e-300]}}
assert len(grow("ab", 1 << 19)) == 1 << 20
# wrong: text[::-1] => text[::-1].strip()


# %% values that are too large to send
def blob(n):
    return "x" * (n << 20)


def size(text):
    return len(text)


# tests
assert len(blob(70)) == 70 << 20
assert size("y" * (70 << 20)) == 70 << 20
# wrong: n << 20 => n << 19


# %% values that are deep
def nest(n):
    out = []
    for _ in range(n):
        out = [out]
    return out


def depth(x):
    n = 0
    while x:
        x, n = x[0], n + 1
    return n


# tests
assert depth(nest(150)) == 150
assert nest(3) == [[[[]]]]
deep = []
for _ in range(50_000):
    deep = [deep]
assert depth(deep) == 50_000
# wrong: for _ in range(n) => for _ in range(n - 1)


# %% the order of a set's members
def survivors(n):
    keep = set(range(n))
    for x in range(n):
        if x not in (1, 33, 64):
            keep.discard(x)
    return keep


def letters(text):
    return set(text)


# tests
assert list(survivors(100)) == [1, 33, 64]
assert sorted(letters("hello")) == ["e", "h", "l", "o"]
assert letters("hello") == set("hello")
# wrong: (1, 33, 64) => (1, 33, 65)


# %% operators of a named tuple
from typing import NamedTuple


class V(NamedTuple):
    x: float
    y: float

    def __add__(self, other):
        return V(self.x + other[0], self.y + other[1])

    def __len__(self):
        return 99

    def __str__(self):
        return f"<{self.x}, {self.y}>"

    def __bool__(self):
        return self.x != 0 or self.y != 0


def v(x, y):
    return V(x, y)


# tests
assert v(1, 2) + v(3, 4) == (4, 6)
assert str(v(1, 2)) == "<1, 2>" and len(v(0, 0)) == 99
assert not v(0, 0) and v(0, 1)
# wrong: self.x + other[0] => self.x - other[0]


# %% the text and the hash of a dataclass
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass
class Song:
    title: str
    plays: int = field(default=0, compare=False)
    kind: ClassVar[str] = "song"

    def __str__(self):
        return f"{self.title} ({self.plays})"

    def __hash__(self):
        return hash(self.title)

    def __lt__(self, other):
        return self.plays < other.plays


def song(title, plays=0):
    return Song(title.title(), plays)


# tests
assert song("a", 3) == song("a", 5)
assert str(song("a", 3)) == "A (3)" and f"{song('b')}" == "B (0)"
assert {song("a", 1), song("a", 2)} == {song("a")}
assert sorted([song("b", 2), song("c", 1)])[0].title == "C"
assert song("a").kind == "song"
# wrong: compare=False => compare=True


# %% a dataclass that the program keeps and changes
from dataclasses import dataclass, field


@dataclass
class State:
    n: int = 0
    log: list = field(default_factory=list)


current = State()


def state():
    return current


def step(by=1):
    current.n += by
    current.log.append(by)


def double(s):
    s.n *= 2


# tests
s = state()
step()
step(2)
assert s.n == 3 and s.log == [1, 2]
double(s)
assert state().n == 6 and s is state()
mine = State(5)
double(mine)
assert mine == State(10)
s.n = 100
step()
assert state().n == 101
# wrong: s.n *= 2 => s = State(s.n * 2)


# %% objects of the test's own kind
def total(items):
    return sum(item.price * getattr(item, "count", 1) for item in items)


def names(things):
    return [t.name for t in things]


def swap(pair):
    return type(pair)(*reversed(pair))


# tests
from collections import namedtuple
from dataclasses import dataclass
from enum import Enum


@dataclass
class Line:
    price: float
    count: int


Pair = namedtuple("Pair", "a b")
Color = Enum("Color", "RED BLUE")
Thing = type("Thing", (), {"price": 5})
assert total([Line(2, 3), Thing()]) == 11
assert names(Color) == ["RED", "BLUE"]
assert swap(Pair(1, 2)) == Pair(2, 1) and swap(Pair(1, 2)).a == 2
# wrong: "count", 1) => "count", 2)


# %% what kind of thing came back
def items(kind):
    return {
        "list": lambda: [1, 2],
        "tuple": lambda: (1, 2),
        "iterator": lambda: iter([1, 2]),
        "generator": lambda: (x for x in (1, 2)),
        "range": lambda: range(1, 3),
        "dict": lambda: {1: 0, 2: 0},
    }[kind]()


# tests
from collections.abc import Iterable, Iterator, Mapping, Sequence

for kind in ("list", "tuple", "iterator", "generator", "range", "dict"):
    got = items(kind)
    assert isinstance(got, Iterable) and hasattr(got, "__iter__") and not callable(got)
    assert isinstance(got, Sequence) == (kind in ("list", "tuple", "range"))
    assert isinstance(got, Iterator) == (kind in ("iterator", "generator"))
    assert isinstance(got, Mapping) == (kind == "dict")
    assert list(got) == [1, 2]
assert isinstance(items("list"), (list, tuple)) and type(items("tuple")) == tuple
# wrong: (x for x in (1, 2)) => [x for x in (1, 2)]


# %% base exceptions
class Halt(BaseException):
    pass


def stop(kind):
    raise {"ctrl-c": KeyboardInterrupt, "halt": Halt, "memory": MemoryError, "exit": GeneratorExit}[kind](
        "now"
    )


def careful(kind):
    try:
        stop(kind)
    except Exception as error:
        return f"caught {type(error).__name__}"


# tests
for kind, cls in {"ctrl-c": KeyboardInterrupt, "halt": Halt, "exit": GeneratorExit}.items():
    try:
        careful(kind)
    except BaseException as error:
        assert type(error) is cls and error.args == ("now",)
    else:
        assert False
assert careful("memory") == "caught MemoryError"
try:
    stop("memory")
except MemoryError as error:
    assert str(error) == "now"
else:
    assert False
# wrong: class Halt(BaseException) => class Halt(Exception)


# %% tracebacks and texts of errors
def load(text):
    values = text.split(",")
    return [int(v) for v in values]


# tests
import traceback

try:
    load("1,x")
except ValueError as error:
    trace = traceback.format_exc()
    assert trace.strip().endswith("ValueError: invalid literal for int() with base 10: 'x'")
    assert "in load" in trace
    assert traceback.extract_tb(error.__traceback__)[1].name == "load"
else:
    assert False
# wrong: int(v) for v in values => int(v.strip("x")) for v in values


# %% a key error's quotes
class Registry(dict):
    def __missing__(self, key):
        raise KeyError(f"no {key}")


def find(key):
    return Registry(a=1)[key]


def pop(d, key):
    return d.pop(key)


# tests
assert find("a") == 1
try:
    find("b")
except KeyError as error:
    assert str(error) == "'no b'" and error.args[0] == "no b"
else:
    assert False
d = {1: 2}
assert pop(d, 1) == 2 and d == {}
try:
    pop(d, (1, 2))
except KeyError as error:
    assert error.args == ((1, 2),)
else:
    assert False
# wrong: f"no {key}" => f"{key}"


# %% arguments changed before an error
def consume(items, bad):
    done = []
    while items:
        item = items.pop(0)
        if item == bad:
            raise ValueError(f"{bad} after {done}")
        done.append(item)
    return done


# tests
items = [1, 2, 3, 4]
try:
    consume(items, 3)
except ValueError as error:
    assert str(error) == "3 after [1, 2]"
assert items == [4]
assert consume(items, 0) == [4] and items == []
# wrong: items.pop(0) => items[0]; items = items[1:]


# %% arguments of many kinds changed in place
from collections import Counter, OrderedDict, defaultdict, deque


def feed(d, c, s, q, b, o):
    d["new"].append(1)
    c.update("ab")
    s.add(3)
    s.discard(1)
    q.appendleft(0)
    b[0] = 255
    o.move_to_end("x")


# tests
from array import array
from collections import Counter, OrderedDict, defaultdict, deque

d, c, s, q = defaultdict(list), Counter("a"), {1, 2}, deque([1], maxlen=2)
b, o = bytearray(2), OrderedDict(x=1, y=2)
inner = d["old"]
assert feed(d, c, s, q, b, o) is None
assert d == {"old": [], "new": [1]} and d["old"] is inner
assert c == {"a": 2, "b": 1} and s == {2, 3}
assert list(q) == [0, 1] and q.maxlen == 2
assert b == b"\xff\x00" and list(o) == ["y", "x"]
# wrong: c.update("ab") => c = c + Counter("ab")


# %% a cycle through arguments and results
def link(a, b):
    a["next"] = b
    b["next"] = a
    return {"both": [a, b], "first": a}


# tests
one, two = {"n": 1}, {"n": 2}
out = link(one, two)
assert out["first"] is one and out["both"][1] is two
assert one["next"]["next"] is one
two["n"] = 20
assert out["first"]["next"]["n"] == 20
# wrong: "first": a => "first": dict(a)


# %% random numbers that both sides draw
import random

random.seed(42)
FIRST = random.random()


def pick(items):
    return random.choice(items)


def fair(n):
    return sum(random.random() < 0.5 for _ in range(n)) / n


# tests
import random

assert FIRST == random.Random(42).random()
assert pick("abc") in "abc" and abs(fair(2000) - 0.5) < 0.1
random.seed(1)
expected = random.Random(1).choice("abcdefgh")
assert pick("abcdefgh") == expected
# wrong: random.choice(items) => items[0]


# %% examples with options and blank lines
def poem(n):
    for i in range(n):
        print("line", i)
        print()
    return {"lines": n, "words": ["a"] * n}


class Thing:
    """A thing."""


# tests: doctest
"""
>>> poem(1)
line 0
<BLANKLINE>
{'lines': 1, 'words': ['a']}
>>> poem(20)["words"]  # doctest: +ELLIPSIS
line 0
...
['a', ..., 'a']
>>> Thing()  # doctest: +ELLIPSIS
<...Thing object at 0x...>
>>> x = poem(0)
>>> x    # doctest: +NORMALIZE_WHITESPACE
{'lines':   0,
 'words': []}
>>> Thing.__doc__
'A thing.'
>>> import sys; sys.stdout.write("no newline")
no newline10
>>> poem("x")  # doctest: +IGNORE_EXCEPTION_DETAIL
Traceback (most recent call last):
TypeError: something
"""
# wrong: ["a"] * n => ["a", "a"]


# %% None is printed by no example
def quiet():
    print("said")


def nothing():
    return None


# tests: doctest
"""
>>> quiet()
said
>>> nothing()
>>> print(nothing())
None
>>> [nothing()]
[None]
"""
# wrong: return None => return False
