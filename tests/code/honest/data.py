"""Honest programs: dataclasses, named tuples, enums and other records."""

# %% a plain dataclass
from dataclasses import dataclass, field


@dataclass
class Item:
    name: str
    price: float = 1.0
    tags: list = field(default_factory=list)


def discount(item, share):
    return Item(item.name, item.price * (1 - share), item.tags + ["sale"])


# tests: asserts
assert discount(Item("pen", 10.0), 0.5) == Item("pen", 5.0, ["sale"])
assert Item("a").tags == []
assert Item("a").tags is not Item("a").tags
assert repr(Item("a")) == "Item(name='a', price=1.0, tags=[])"
from dataclasses import asdict, astuple, fields, replace

assert asdict(discount(Item("pen"), 0)) == {"name": "pen", "price": 1.0, "tags": ["sale"]}
assert [f.name for f in fields(Item)] == ["name", "price", "tags"]
assert replace(Item("a"), price=2).price == 2 and astuple(Item("b", 2)) == ("b", 2, [])
# wrong: (1 - share) => share
# wrong: price: float = 1.0 => price: float = 1.5

# %% a dataclass that only comes back
from dataclasses import dataclass


@dataclass
class Result:
    ok: bool
    value: int
    message: str = ""


def divide(a, b):
    if b == 0:
        return Result(False, 0, "division by zero")
    return Result(True, a // b)


# tests
r = divide(7, 2)
assert r.ok and r.value == 3 and r.message == ""
assert not divide(1, 0).ok
assert divide(1, 0).message == "division by zero"
assert divide(7, 2) == divide(6, 2)
assert divide(7, 2) != divide(8, 2)
# wrong: a // b => a / b
# wrong: Result(False, 0, => Result(True, 0,

# %% frozen and ordered dataclasses
from dataclasses import FrozenInstanceError, dataclass


@dataclass(frozen=True, order=True)
class Card:
    rank: int
    suit: str = "s"


def best(cards):
    return max(cards)


def unique(cards):
    return set(cards)


# tests
assert best([Card(3), Card(10), Card(10, "h")]) == Card(10, "s")
assert Card(1) < Card(2) and sorted([Card(2), Card(1)])[0].rank == 1
assert unique([Card(1), Card(1), Card(2)]) == {Card(1), Card(2)}
assert hash(Card(4)) == hash(Card(4))
from dataclasses import FrozenInstanceError

try:
    Card(1).rank = 2
except FrozenInstanceError:
    pass
else:
    assert False
assert {Card(1): "one"}[Card(1)] == "one"
# wrong: return max(cards) => return min(cards)
# wrong: frozen=True, order=True => frozen=False, order=True, unsafe_hash=True

# %% dataclasses with slots, post-init and methods
from dataclasses import InitVar, dataclass, field


@dataclass(slots=True)
class Rectangle:
    width: float
    height: float
    unit: InitVar[str] = "cm"
    area: float = field(init=False, repr=False)

    def __post_init__(self, unit):
        factor = {"cm": 1, "m": 100}[unit]
        self.width *= factor
        self.height *= factor
        self.area = self.width * self.height

    def scale(self, k):
        return Rectangle(self.width * k, self.height * k)


def largest(shapes):
    return max(shapes, key=lambda s: s.area)


# tests
r = Rectangle(2, 3)
assert r.area == 6 and r.scale(2).area == 24
assert Rectangle(1, 1, "m").area == 10000
assert repr(r) == "Rectangle(width=2, height=3)"
try:
    r.depth = 1
except AttributeError:
    pass
else:
    assert False
assert largest([r, r.scale(3)]).width == 6
# wrong: repr=False => repr=True
# wrong: slots=True => slots=False

# %% nested dataclasses
from dataclasses import dataclass, field
from typing import Dict, List


@dataclass
class Address:
    city: str
    zip: str = "0000"


@dataclass
class Company:
    name: str
    seat: Address
    branches: List[Address] = field(default_factory=list)
    by_city: Dict[str, Address] = field(default_factory=dict)

    def __post_init__(self):
        self.by_city = {a.city: a for a in [self.seat, *self.branches]}


def load(data):
    return Company(data["name"], Address(**data["seat"]), [Address(**b) for b in data.get("branches", [])])


# tests
c = load({"name": "X", "seat": {"city": "Bonn"}, "branches": [{"city": "Ulm", "zip": "89"}]})
assert c.seat.city == "Bonn" and c.branches[0].zip == "89"
assert c == Company("X", Address("Bonn"), [Address("Ulm", "89")])
assert c.by_city["Ulm"] is c.branches[0] and len(c.by_city) == 2
import dataclasses

assert dataclasses.is_dataclass(c)
assert dataclasses.asdict(c)["seat"] == {"city": "Bonn", "zip": "0000"}
# wrong: [self.seat, *self.branches] => self.branches

# %% dataclass inheritance and equality across classes
from dataclasses import dataclass


@dataclass
class Base:
    id: int


@dataclass
class User(Base):
    name: str = "?"


@dataclass
class Robot(Base):
    name: str = "?"


def make(kind, id):
    return {"user": User, "robot": Robot}[kind](id)


# tests
assert make("user", 1) == User(1)
assert make("user", 1) != make("robot", 1)
assert make("user", 1) != Base(1)
assert isinstance(make("robot", 2), Base)
assert (make("user", 1) == (1, "?")) is False
# wrong: "robot": Robot => "robot": User

# %% a dataclass with its own equality
from dataclasses import dataclass


@dataclass(eq=False)
class Fuzzy:
    value: float

    def __eq__(self, other):
        return abs(self.value - getattr(other, "value", other)) < 0.1


def near(x):
    return Fuzzy(x + 0.01)


# tests
assert near(1) == Fuzzy(1)
assert near(1) == 1
assert not near(1) == 2
assert near(1) != Fuzzy(2)
# wrong: x + 0.01 => x + 0.2

# %% collections.namedtuple
from collections import namedtuple

Point = namedtuple("Point", "x y", defaults=[0])


def move(p, dx=0, dy=0):
    return p._replace(x=p.x + dx, y=p.y + dy)


def bounds(points):
    return Point(min(p.x for p in points), min(p.y for p in points)), max(points)


# tests
assert move(Point(1, 2), dx=3) == Point(4, 2) == (4, 2)
assert Point(5).y == 0
assert move(Point(1, 1), 1).x == 2
low, high = bounds([Point(1, 5), Point(3, 2)])
assert low == (1, 2) and high.x == 3
assert Point._fields == ("x", "y")
assert repr(move(Point(0))) == "Point(x=0, y=0)"
assert move(Point(1, 2))._asdict() == {"x": 1, "y": 2}
assert isinstance(low, tuple) and isinstance(low, Point)
a, b = low
assert low[0] == 1 and low[-1] == 2 and len(low) == 2
# wrong: x=p.x + dx => x=dx

# %% a namedtuple that only comes back
from collections import namedtuple

Stats = namedtuple("Stats", ["mean", "low", "high"])


def stats(xs):
    return Stats(sum(xs) / len(xs), min(xs), max(xs))


# tests: asserts
assert stats([1, 2, 3]).mean == 2
assert stats([1, 2, 3]) == (2, 1, 3)
assert stats([4])[1] == 4
mean, low, high = stats([1, 5])
assert (mean, low, high) == (3.0, 1, 5)
assert stats([1, 2])._fields == ("mean", "low", "high")
assert {stats([1]): 1} == {(1, 1, 1): 1}
# wrong: min(xs), max(xs) => max(xs), min(xs)

# %% typing.NamedTuple with methods
from typing import NamedTuple


class Edge(NamedTuple):
    start: str
    end: str
    weight: int = 1

    def reversed(self):
        return Edge(self.end, self.start, self.weight)

    @property
    def loop(self):
        return self.start == self.end


def undirected(edges):
    return [*edges, *(e.reversed() for e in edges if not e.loop)]


# tests
both = undirected([Edge("a", "b", 3), Edge("c", "c")])
assert both == [("a", "b", 3), ("c", "c", 1), ("b", "a", 3)]
assert both[2].reversed() == both[0]
assert both[1].loop and not both[0].loop
assert Edge.__annotations__["weight"] is int
assert str(both[0]) == "Edge(start='a', end='b', weight=3)"
# wrong: Edge(self.end, self.start, self.weight) => Edge(self.end, self.start)

# %% a plain enum
from enum import Enum


class Color(Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    def mixed(self, other):
        return sorted([self.name, other.name])


def parse(text):
    return Color[text.upper()]


def other(color):
    return Color.GREEN if color is Color.RED else Color.RED


# tests
assert parse("red") is Color.RED
assert parse("green") == Color.GREEN
assert Color(1) is Color.RED and Color["GREEN"].value == 2
assert [c.name for c in Color] == ["RED", "GREEN"]
assert Color.CRIMSON is Color.RED
assert other(Color.RED) is Color.GREEN
assert Color.RED.mixed(Color.GREEN) == ["GREEN", "RED"]
assert Color.RED != 1 and Color.RED not in (1, 2)
assert len(Color) == 2 and isinstance(parse("red"), Color)
try:
    Color(3)
except ValueError as error:
    assert "3 is not a valid Color" in str(error)
else:
    assert False
try:
    parse("blue")
except KeyError:
    pass
else:
    assert False
assert repr(Color.GREEN) == "<Color.GREEN: 2>" and str(Color.RED) == "Color.RED"
# wrong: GREEN = 2 => GREEN = 3
# wrong: text.upper() => text.capitalize()

# %% an enum that only comes back
from enum import Enum


class State(Enum):
    OPEN = "open"
    CLOSED = "closed"


def toggle(state):
    return State.CLOSED if state == State.OPEN else State.OPEN


def start():
    return State.OPEN


# tests: asserts
assert start() == State.OPEN
assert toggle(start()) is State.CLOSED
assert toggle(toggle(start())) is start()
assert start().value == "open" and start().name == "OPEN"
assert {start(): 1}[State.OPEN] == 1
# wrong: State.CLOSED if state == State.OPEN else State.OPEN => State.CLOSED

# %% IntEnum, auto and a str mixin
from enum import Enum, IntEnum, auto


class Level(IntEnum):
    LOW = auto()
    MID = auto()
    HIGH = 10


class Mode(str, Enum):
    READ = "r"
    WRITE = "w"


def level(score):
    return Level.HIGH if score > 90 else Level.MID if score > 50 else Level.LOW


def mode(writable):
    return Mode.WRITE if writable else Mode.READ


# tests
assert level(95) == 10 and level(95) is Level.HIGH
assert level(60) == 2 and level(10) < level(60)
assert level(10) + 1 == 2 and sorted([Level.HIGH, Level.LOW])[0].name == "LOW"
assert mode(True) == "w" and mode(False).value == "r"
assert mode(True).upper() == "W" and Mode("r") is Mode.READ
assert isinstance(level(1), int) and isinstance(mode(0), str)
assert max(Level) is Level.HIGH
import json

assert json.dumps([level(95), mode(True)]) == '[10, "w"]'
# wrong: score > 50 => score > 60
# wrong: (str, Enum) => (Enum)

# %% flags
from enum import Flag, IntFlag, auto


class Perm(Flag):
    R = auto()
    W = auto()
    X = auto()
    RW = R | W


class Bits(IntFlag):
    A = 1
    B = 4


def grant(perm, extra):
    return perm | extra


def both():
    return Bits.A | Bits.B


# tests
assert grant(Perm.R, Perm.W) is Perm.RW
assert Perm.R in grant(Perm.R, Perm.X) and Perm.W not in grant(Perm.R, Perm.X)
assert grant(Perm.R, Perm.X).value == 5
assert not (Perm.R & Perm.W)
assert both() == 5 and both() & 4
assert Perm(3) == Perm.RW
# wrong: perm | extra => perm ^ extra ^ perm

# %% enums with their own constructor
from enum import Enum, unique


@unique
class Planet(Enum):
    EARTH = (5.97e24, 6.37e6)
    MARS = (6.4e23, 3.4e6)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius

    @property
    def gravity(self):
        return 6.67e-11 * self.mass / self.radius**2

    @classmethod
    def heaviest(cls):
        return max(cls, key=lambda p: p.mass)


# tests
assert round(Planet.EARTH.gravity, 1) == 9.8
assert Planet.heaviest() is Planet.EARTH
assert Planet.MARS.radius == 3.4e6
assert [p.name.lower() for p in Planet] == ["earth", "mars"]
assert Planet.__members__["MARS"] is Planet.MARS
# wrong: self.radius**2 => self.radius**3

# %% enum members as values in plain structures
from enum import Enum


class Op(Enum):
    PUSH = "push"
    ADD = "add"


def assemble(source):
    program = []
    for line in source.splitlines():
        word, *rest = line.split()
        program.append((Op(word), *map(int, rest)))
    return program


def run(program):
    stack = []
    for op, *args in program:
        if op is Op.PUSH:
            stack.extend(args)
        else:
            stack.append(stack.pop() + stack.pop())
    return stack


# tests
assert assemble("push 1\nadd") == [(Op.PUSH, 1), (Op.ADD,)]
assert run(assemble("push 1\npush 2\nadd")) == [3]
assert run([(Op.PUSH, 5)]) == [5]
counts = {Op.PUSH: 0}
for op, *_ in assemble("push 1\npush 2"):
    counts[op] += 1
assert counts == {Op.PUSH: 2}
# wrong: stack.pop() + stack.pop() => stack.pop() - stack.pop()

# %% TypedDict, SimpleNamespace and mapping proxies
from types import MappingProxyType, SimpleNamespace
from typing import TypedDict


class Movie(TypedDict, total=False):
    title: str
    year: int


def movie(title, **more) -> Movie:
    return Movie(title=title, **more)


def namespace(**more):
    return SimpleNamespace(**more)


def frozen(d):
    return MappingProxyType(d)


# tests
assert movie("Up", year=2009) == {"title": "Up", "year": 2009}
assert type(movie("Up")) is dict
ns = namespace(a=1)
assert ns.a == 1
ns.b = 2
assert ns == namespace(a=1, b=2) and repr(ns) == "namespace(a=1, b=2)"
source = {"x": 1}
view = frozen(source)
assert view["x"] == 1 and dict(view) == {"x": 1}
source["y"] = 2
assert view["y"] == 2
try:
    view["z"] = 3
except TypeError:
    pass
else:
    assert False
# wrong: MappingProxyType(d) => MappingProxyType(dict(d))

# %% JSON and back
import json
from dataclasses import asdict, dataclass


@dataclass
class Task:
    title: str
    done: bool = False


class Encoder(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, Task):
            return {"__task__": asdict(o)}
        return super().default(o)


def dump(tasks):
    return json.dumps(tasks, cls=Encoder, sort_keys=True)


def load(text):
    return json.loads(text, object_hook=lambda d: Task(**d["__task__"]) if "__task__" in d else d)


# tests
text = dump({"b": Task("x"), "a": [1, None, True]})
assert text == '{"a": [1, null, true], "b": {"__task__": {"done": false, "title": "x"}}}'
assert load(text) == {"a": [1, None, True], "b": Task("x")}
assert load(dump(Task("ä", True))).title == "ä"
import json

try:
    load("{nope}")
except json.JSONDecodeError as error:
    assert (error.lineno, error.colno, error.pos, error.doc) == (1, 2, 1, "{nope}")
else:
    assert False
try:
    dump({1, 2})
except TypeError as error:
    assert "not JSON serializable" in str(error)
else:
    assert False
# wrong: sort_keys=True => sort_keys=False
