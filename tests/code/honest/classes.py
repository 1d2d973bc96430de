"""Honest programs: classes, operators, inheritance, descriptors, metaclasses, and what is asked of their objects."""


# %% methods and attributes
class Account:
    rate = 0.02

    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance += amount
        return self.balance

    def interest(self):
        return self.balance * self.rate


# tests
a = Account("Ann")
assert a.owner == "Ann" and a.balance == 0
assert a.deposit(100) == 100
assert a.interest() == 2.0
a.balance = 50
assert a.deposit(1) == 51
try:
    a.deposit(-1)
except ValueError as error:
    assert str(error) == "amount must be positive"
else:
    assert False
assert Account.rate == 0.02
# wrong: amount <= 0 => amount == 0
# wrong: self.balance += amount => self.balance = amount


# %% a check function on a class
class Stack:
    def __init__(self):
        self._items = []

    def push(self, item):
        self._items.append(item)

    def pop(self):
        return self._items.pop()

    def __len__(self):
        return len(self._items)

    def __bool__(self):
        return bool(self._items)


# tests: check Stack
def check(candidate):
    s = candidate()
    assert not s
    s.push(1)
    s.push(2)
    assert len(s) == 2 and s.pop() == 2
    assert isinstance(s, candidate)
    try:
        candidate().pop()
    except IndexError:
        pass
    else:
        assert False


# wrong: self._items.pop() => self._items.pop(0)


# %% a function that returns an object with a name
class Person:
    def __init__(self, name, age):
        self.name = name
        self.age = age


def make(name):
    return Person(name.title(), len(name))


# tests
assert make("bob").name == "Bob"
assert make("bob").age == 3
assert type(make("bob")).__name__ == "Person"
assert isinstance(make("al"), Person)
assert not hasattr(make("al"), "email")
# wrong: name.title() => name


# %% equality and hash
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        if not isinstance(other, Point):
            return NotImplemented
        return (self.x, self.y) == (other.x, other.y)

    def __hash__(self):
        return hash((self.x, self.y))

    def __repr__(self):
        return f"Point({self.x}, {self.y})"


def mirror(p):
    return Point(p.y, p.x)


# tests
assert mirror(Point(1, 2)) == Point(2, 1)
assert Point(1, 2) != Point(2, 1)
assert Point(1, 2) != (1, 2)
assert len({Point(1, 2), Point(1, 2), Point(2, 1)}) == 2
assert repr(mirror(Point(1, 2))) == "Point(2, 1)"
assert {Point(0, 0): "o"}[Point(0, 0)] == "o"
assert Point(1, 1) in [Point(1, 1)]
# wrong: Point(p.y, p.x) => Point(p.x, p.y)
# wrong: return hash((self.x, self.y)) => return id(self)


# %% an object without equality is only itself
class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next


def reverse(node):
    before = None
    while node:
        node.next, before, node = before, node, node.next
    return before


# tests
a = Node(1)
b = Node(2, a)
assert reverse(b) is a
assert a.next is b and b.next is None
assert Node(1) != Node(1)
assert a == a
# wrong: return before => return node


# %% linked lists from and to lists
class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next


def merge(a, b):
    head = tail = ListNode()
    while a and b:
        if a.val <= b.val:
            tail.next, a = a, a.next
        else:
            tail.next, b = b, b.next
        tail = tail.next
    tail.next = a or b
    return head.next


# tests: check merge
def build(values):
    head = None
    for value in reversed(values):
        head = ListNode(value, head)
    return head


def values(node):
    out = []
    while node:
        out.append(node.val)
        node = node.next
    return out


def check(candidate):
    assert values(candidate(build([1, 3]), build([2, 4, 5]))) == [1, 2, 3, 4, 5]
    assert candidate(None, None) is None
    assert values(candidate(None, build([1]))) == [1]


# wrong: tail.next = a or b => tail.next = a


# %% operators
class Vector:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Vector(self.x * k, self.y * k)

    __rmul__ = __mul__

    def __matmul__(self, other):
        return self.x * other.x + self.y * other.y

    def __neg__(self):
        return self * -1

    def __abs__(self):
        return (self @ self) ** 0.5

    def __eq__(self, other):
        return isinstance(other, Vector) and (self.x, self.y) == (other.x, other.y)

    def __iter__(self):
        yield from (self.x, self.y)

    def __iadd__(self, other):
        self.x += other.x
        self.y += other.y
        return self


# tests
v = Vector(3, 4)
assert abs(v) == 5.0
assert v + Vector(1, 1) == Vector(4, 5)
assert 2 * v == v * 2 == Vector(6, 8)
assert -v == Vector(-3, -4)
assert v @ Vector(1, 0) == 3
x, y = v
assert (x, y) == (3, 4)
w = v
w += Vector(1, 1)
assert v is w and tuple(v) == (4, 5)
try:
    v.z = 1
except AttributeError:
    pass
else:
    assert False
try:
    {v}
except TypeError as error:
    assert "unhashable" in str(error)
else:
    assert False
# wrong: __slots__ = ("x", "y") => kind = ("x", "y")
# wrong: __rmul__ = __mul__ => __lmul__ = __mul__

# %% comparison by total_ordering
from functools import total_ordering


@total_ordering
class Version:
    def __init__(self, text):
        self.parts = tuple(map(int, text.split(".")))

    def __eq__(self, other):
        return self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts

    def __str__(self):
        return ".".join(map(str, self.parts))


def newest(texts):
    return max(map(Version, texts))


# tests
assert Version("1.10") > Version("1.9")
assert Version("1.0") >= Version("1.0")
assert str(newest(["0.1", "0.12", "0.3"])) == "0.12"
assert f"{newest(['1.2'])}" == "1.2"
assert [str(v) for v in sorted(map(Version, ["2.0", "1.5"]))] == ["1.5", "2.0"]
# wrong: map(int, text.split(".")) => text.split(".")


# %% text, format and length
class Money:
    def __init__(self, cents):
        self.cents = cents

    def __str__(self):
        return f"${self.cents / 100:,.2f}"

    def __repr__(self):
        return f"Money(cents={self.cents})"

    def __format__(self, spec):
        return f"{self.cents:{spec}}" if spec else str(self)

    def __int__(self):
        return self.cents // 100

    def __float__(self):
        return self.cents / 100

    def __index__(self):
        return self.cents


# tests
m = Money(123456)
assert str(m) == "$1,234.56"
assert repr(m) == "Money(cents=123456)"
assert f"{m}" == "$1,234.56" and f"{m:x}" == "1e240" and f"{m!r}" == repr(m)
assert int(m) == 1234 and float(m) == 1234.56
assert hex(m) == "0x1e240" and list(range(10))[Money(3)] == 3
assert "%s" % m == "$1,234.56"
# wrong: :,.2f => :.2f


# %% properties
class Temperature:
    def __init__(self, celsius):
        self.celsius = celsius

    @property
    def celsius(self):
        return self._celsius

    @celsius.setter
    def celsius(self, value):
        if value < -273.15:
            raise ValueError("below absolute zero")
        self._celsius = value

    @property
    def fahrenheit(self):
        """In Fahrenheit."""
        return self.celsius * 9 / 5 + 32


# tests
t = Temperature(100)
assert t.fahrenheit == 212
t.celsius = 0
assert t.fahrenheit == 32
for bad in (lambda: Temperature(-300), lambda: setattr(t, "celsius", -274)):
    try:
        bad()
    except ValueError:
        continue
    assert False
try:
    t.fahrenheit = 1
except AttributeError:
    pass
else:
    assert False
assert Temperature.fahrenheit.__doc__ == "In Fahrenheit."
# wrong: value < -273.15 => value < -280
# wrong: * 9 / 5 => * 5 / 9


# %% static and class methods
class Date:
    made = 0

    def __init__(self, y, m, d):
        type(self).made += 1
        self.ymd = (y, m, d)

    @classmethod
    def parse(cls, text):
        return cls(*map(int, text.split("-")))

    @staticmethod
    def leap(year):
        return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


class Special(Date):
    pass


# tests
assert Date.leap(2000) and not Date.leap(1900)
d = Special.parse("2024-02-29")
assert type(d) is Special and d.ymd == (2024, 2, 29)
assert Special.made == 1 and Date.made == 0
Date(1, 1, 1)
assert Date.made == 1
# wrong: return cls( => return Date(


# %% inheritance and super
class Animal:
    def __init__(self, name):
        self.name = name

    def speak(self):
        return f"{self.name} makes {self.sound()}"

    def sound(self):
        return "a sound"


class Dog(Animal):
    def __init__(self, name, breed):
        super().__init__(name)
        self.breed = breed

    def sound(self):
        return "woof"


def loudest(animals):
    return max(animals, key=lambda a: len(a.speak())).name


# tests
assert Dog("Rex", "lab").speak() == "Rex makes woof"
assert Animal("It").speak() == "It makes a sound"
assert issubclass(Dog, Animal) and isinstance(Dog("a", "b"), Animal)
assert loudest([Dog("Rex", "x"), Animal("Bo")]) == "Bo"


class Cat(Animal):
    def sound(self):
        return "a very long miaow"


assert loudest([Cat("Tom"), Dog("Rex", "x")]) == "Tom"
assert Dog.__mro__ == (Dog, Animal, object)
assert vars(Dog("a", "b")) == {"name": "a", "breed": "b"}
# wrong: self.sound() => Animal.sound(self)


# %% cooperative multiple inheritance
class Base:
    def path(self):
        return ["base"]


class Left(Base):
    def path(self):
        return ["left", *super().path()]


class Right(Base):
    def path(self):
        return ["right", *super().path()]


class Both(Left, Right):
    def path(self):
        return ["both", *super().path()]


# tests
assert Both().path() == ["both", "left", "right", "base"]
assert [c.__name__ for c in Both.__mro__[:-1]] == ["Both", "Left", "Right", "Base"]
# wrong: class Both(Left, Right) => class Both(Right, Left)

# %% abstract base classes
from abc import ABC, abstractmethod


class Shape(ABC):
    @property
    @abstractmethod
    def area(self): ...

    def bigger(self, other):
        return self.area > other.area


class Square(Shape):
    def __init__(self, side):
        self.side = side

    @property
    def area(self):
        return self.side**2


# tests
assert Square(3).area == 9 and Square(3).bigger(Square(2))
try:
    Shape()
except TypeError as error:
    assert "abstract" in str(error)
else:
    assert False


class Half(Shape):
    pass


try:
    Half()
except TypeError:
    pass
else:
    assert False
# wrong: class Shape(ABC) => class Shape


# %% a context manager class
class Transaction:
    def __init__(self, store):
        self.store = store

    def __enter__(self):
        self.before = dict(self.store)
        return self.store

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.store.clear()
            self.store.update(self.before)
        return kind is KeyError


# tests
store = {"a": 1}
with Transaction(store) as s:
    s["b"] = 2
assert store == {"a": 1, "b": 2}
with Transaction(store) as s:
    del s["a"]
    s["c"] = 3
    s["missing"]
assert store == {"a": 1, "b": 2}
try:
    with Transaction(store) as s:
        s.clear()
        1 / 0
except ZeroDivisionError:
    assert store == {"a": 1, "b": 2}
else:
    assert False
# wrong: kind is KeyError => kind is not None
# wrong: self.store.clear() => pass


# %% getattr, setattr and call
class Recorder:
    def __init__(self):
        object.__setattr__(self, "calls", [])

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args: self.calls.append((name, args)) or self

    def __setattr__(self, name, value):
        self.calls.append(("=", name, value))

    def __call__(self, *args, **kwargs):
        return len(args) + len(kwargs)

    def __delattr__(self, name):
        self.calls.append(("del", name))


# tests
r = Recorder()
r.open("x").close()
r.speed = 3
del r.wheel
assert r.calls == [("open", ("x",)), ("close", ()), ("=", "speed", 3), ("del", "wheel")]
assert r(1, 2, a=3) == 3
assert not hasattr(r, "_hidden") and hasattr(r, "anything")
assert getattr(r, "_x", "none") == "none"
# wrong: ("=", name, value) => ("=", name)


# %% descriptors
class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name, 0)

    def __set__(self, instance, value):
        if value < 0:
            raise ValueError(f"{self.name[1:]} is negative")
        setattr(instance, self.name, value)


class Item:
    price = Positive()
    count = Positive()

    def total(self):
        return self.price * self.count


# tests
item = Item()
assert item.total() == 0
item.price, item.count = 3, 4
assert item.total() == 12
try:
    item.count = -1
except ValueError as error:
    assert str(error) == "count is negative"
else:
    assert False
assert isinstance(Item.price, Positive)
# wrong: if value < 0 => if value < -1


# %% a metaclass that registers
class Registry(type):
    known = {}

    def __new__(mcs, name, bases, space):
        cls = super().__new__(mcs, name, bases, space)
        if bases:
            mcs.known[space.get("tag", name.lower())] = cls
        return cls


class Plugin(metaclass=Registry):
    def run(self):
        return type(self).__name__


class Alpha(Plugin):
    tag = "a"


def create(tag):
    return Registry.known[tag]()


# tests
assert create("a").run() == "Alpha"


class Beta(Plugin):
    pass


assert create("beta").run() == "Beta"
assert sorted(Registry.known) == ["a", "beta"]
assert type(Beta) is Registry
# wrong: name.lower() => name


# %% subclass hooks and class keyword arguments
class Handler:
    handlers = {}

    def __init_subclass__(cls, *, kind, **more):
        super().__init_subclass__(**more)
        Handler.handlers[kind] = cls
        cls.kind = kind

    def __class_getitem__(cls, kind):
        return cls.handlers[kind]


class Text(Handler, kind="text"):
    pass


# tests
assert Handler["text"] is Text
assert Text.kind == "text"


class Image(Handler, kind="image"):
    pass


assert set(Handler.handlers) == {"text", "image"}
# wrong: cls.kind = kind => cls.kind = None


# %% a singleton
class Config:
    _only = None

    def __new__(cls):
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls._only.values = {}
        return cls._only


def settings():
    return Config()


# tests
assert Config() is Config()
settings().values["a"] = 1
assert Config().values == {"a": 1}
assert settings() is settings()
# wrong: if cls._only is None => if True


# %% subclasses of builtins
class Stack(list):
    def push(self, x):
        self.append(x)
        return self

    @property
    def top(self):
        return self[-1]


class Celsius(float):
    def warm(self):
        return self > 20


class Lower(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)

    def __missing__(self, key):
        return f"no {key}"


def counts(words):
    out = Lower()
    for word in words:
        out[word] = out.get(word.lower(), 0) + 1
    return out


def stack(*items):
    return Stack(items)


# tests
assert stack(1, 2).push(3).top == 3
assert stack(1, 2) == [1, 2]
assert isinstance(stack(), list) and type(stack()) is Stack
assert Celsius(21.5).warm() and Celsius(1) + 1 == 2.0
assert counts(["A", "a", "b"]) == {"a": 2, "b": 1}
assert counts(["A"])["zz"] == "no zz"
# wrong: key.lower(), value => key, value

# %% weak references and finalizers
import weakref


class Thing:
    def __init__(self, name):
        self.name = name


class Cache:
    def __init__(self):
        self.live = weakref.WeakValueDictionary()

    def get(self, name):
        thing = self.live.get(name)
        if thing is None:
            thing = self.live[name] = Thing(name)
        return thing


# tests
import gc

cache = Cache()
one = cache.get("a")
assert cache.get("a") is one
assert len(cache.live) == 1
del one
gc.collect()
assert len(cache.live) == 0
# wrong: weakref.WeakValueDictionary() => {}
# wrong: thing = self.live[name] = Thing(name) => thing = Thing(name)

# %% copies
import copy


class Tree:
    def __init__(self, value, children=()):
        self.value = value
        self.children = list(children)

    def __copy__(self):
        return Tree(self.value, self.children)

    def total(self):
        return self.value + sum(child.total() for child in self.children)


def pruned(tree):
    tree = copy.deepcopy(tree)
    tree.children = [pruned(c) for c in tree.children if c.value > 0]
    return tree


# tests
import copy

t = Tree(1, [Tree(-5), Tree(2, [Tree(-1)])])
p = pruned(t)
assert p.total() == 3 and t.total() == -3
shallow = copy.copy(t)
assert shallow is not t and shallow.children[0] is t.children[0]
assert shallow.children is not t.children
# wrong: tree = copy.deepcopy(tree) => pass

# %% pickle of the program's objects
import pickle


class Job:
    def __init__(self, name, callback=None):
        self.name = name
        self.cache = {"big": 1}

    def __getstate__(self):
        return {"name": self.name}

    def __setstate__(self, state):
        self.name = state["name"]
        self.cache = {}


def save(job):
    return pickle.dumps(job)


# tests
import pickle

job = pickle.loads(save(Job("x")))
assert type(job) is Job and job.name == "x" and job.cache == {}
assert isinstance(save(Job("y")), bytes)
# wrong: state["name"] => state


# %% nested classes, qualified names and modules
class Outer:
    class Inner:
        def __init__(self, outer):
            self.outer = outer

        def back(self):
            return self.outer

    def inner(self):
        return self.Inner(self)


# tests
o = Outer()
assert o.inner().back() is o
assert Outer.Inner.__qualname__ == "Outer.Inner"
assert Outer.Inner.__name__ == "Inner"
assert Outer.__module__ == __name__
# wrong: return self.outer => return self


# %% bound methods handed around
class Bus:
    def __init__(self):
        self.listeners = {}

    def on(self, event, listener):
        self.listeners.setdefault(event, []).append(listener)
        return lambda: self.listeners[event].remove(listener)

    def emit(self, event, *args):
        return [listener(*args) for listener in self.listeners.get(event, [])]


# tests
bus = Bus()
got = []
off = bus.on("hi", got.append)
bus.on("hi", lambda x: x * 2)
assert bus.emit("hi", 4) == [None, 8]
off()
assert bus.emit("hi", 5) == [10]
assert got == [4] and bus.emit("nothing") == []
emit = bus.emit
assert emit("hi", 1) == [2] and emit.__self__ is bus
# wrong: .remove(listener) => .clear()


# %% a class with class-level state
class Ticket:
    next_number = 1
    issued = []

    def __init__(self):
        self.number = Ticket.next_number
        Ticket.next_number += 1
        self.issued.append(self.number)


def issue(n):
    return [Ticket().number for _ in range(n)]


# tests
assert issue(3) == [1, 2, 3]
assert issue(1) == [4]
assert Ticket.next_number == 5 and Ticket.issued == [1, 2, 3, 4]
Ticket.next_number = 10
assert issue(1) == [10]
# wrong: self.number = Ticket.next_number => self.number = len(self.issued) + 1

# %% generics and protocols
from typing import Generic, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class Sized(Protocol):
    def size(self) -> int: ...


class Box(Generic[T]):
    def __init__(self, item: T):
        self.item = item

    def map(self, f):
        return Box(f(self.item))

    def size(self) -> int:
        return 1


def total(things):
    return sum(t.size() for t in things if isinstance(t, Sized))


# tests
assert Box[int](3).map(str).item == "3"
assert isinstance(Box(1), Sized) and not isinstance(3, Sized)


class Mine:
    def size(self):
        return 5


assert total([Mine(), Box(0), "x"]) == 6
# wrong: Box(f(self.item)) => Box(self.item)


# %% the program changes nodes of the test's own class
def invert(root):
    if root is None:
        return None
    root.left, root.right = invert(root.right), invert(root.left)
    return root


def max_depth(root):
    if not root:
        return 0
    return 1 + max(max_depth(root.left), max_depth(root.right))


# tests
class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right


def from_list(xs, i=0):
    if i >= len(xs) or xs[i] is None:
        return None
    return TreeNode(xs[i], from_list(xs, 2 * i + 1), from_list(xs, 2 * i + 2))


def to_list(n):
    return None if n is None else (n.val, to_list(n.left), to_list(n.right))


t = from_list([4, 2, 7, 1, 3])
assert max_depth(t) == 3
assert to_list(invert(t)) == (4, (7, None, None), (2, (3, None, None), (1, None, None)))
assert invert(None) is None
# wrong: invert(root.right), invert(root.left) => invert(root.left), invert(root.right)


# %% commands that undo each other
from abc import ABC, abstractmethod


class Command(ABC):
    @abstractmethod
    def do(self): ...
    @abstractmethod
    def undo(self): ...


class Append(Command):
    def __init__(self, doc, text):
        self.doc, self.text = doc, text

    def do(self):
        self.doc.text += self.text

    def undo(self):
        self.doc.text = self.doc.text[: -len(self.text)]


class Document:
    def __init__(self):
        self.text, self._done, self._undone = "", [], []

    def run(self, cmd):
        cmd.do()
        self._done.append(cmd)
        self._undone.clear()
        return self

    def undo(self):
        if self._done:
            c = self._done.pop()
            c.undo()
            self._undone.append(c)
        return self

    def redo(self):
        if self._undone:
            c = self._undone.pop()
            c.do()
            self._done.append(c)
        return self


# tests
d = Document()
d.run(Append(d, "ab")).run(Append(d, "cd"))
assert d.text == "abcd"
assert d.undo().text == "ab"
assert d.redo().text == "abcd"
assert d.undo().undo().undo().text == ""
d.redo().run(Append(d, "Z"))
assert d.redo().text == "abZ"
# wrong: self._undone.clear() => pass
