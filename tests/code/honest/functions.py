"""Honest programs: functions, closures, decorators, caches, arguments, recursion, scripts and examples."""


# %% asserts on a plain function
def squares(n):
    return [i * i for i in range(n) if i % 2 == 0]


# tests: asserts
assert squares(5) == [0, 4, 16]
assert squares(0) == []
import math

limit = 7
assert sum(squares(limit)) == math.comb(8, 3)
# wrong: i % 2 == 0 => i % 2 == 1
# wrong: range(n) => range(n + 1)

# %% a check function
from typing import List


def has_close(numbers: List[float], threshold: float) -> bool:
    numbers = sorted(numbers)
    return any(b - a < threshold for a, b in zip(numbers, numbers[1:]))


# tests: check has_close
METADATA = {"author": "nobody"}


def check(candidate):
    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.3) == True
    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.05) is False
    assert not candidate([], 1)


# wrong: b - a < threshold => b - a < threshold / 4
# wrong: sorted(numbers) => list(numbers)


# %% a check function that calls a helper of the program
def poly(xs, x):
    return sum(c * x**i for i, c in enumerate(xs))


def find_zero(xs):
    low, high = -1e3, 1e3
    while high - low > 1e-10:
        middle = (low + high) / 2
        if poly(xs, middle) * poly(xs, low) > 0:
            low = middle
        else:
            high = middle
    return low


# tests: check find_zero
def check(candidate):
    import random

    dice = random.Random(42)
    for _ in range(5):
        xs = [dice.randint(1, 9), dice.randint(1, 9)]
        zero = candidate(list(xs))
        assert abs(poly(xs, zero)) < 1e-4


# wrong: low = middle => low = high


# %% a script with a loop over cases
def roman(n):
    out = ""
    for value, text in [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ]:
        while n >= value:
            out, n = out + text, n - value
    return out


# tests
for number, expected in {1: "I", 4: "IV", 9: "IX", 1994: "MCMXCIV", 3999: "MMMCMXCIX"}.items():
    got = roman(number)
    assert got == expected, f"{number}: {got}"
# wrong: (4, "IV") => (4, "IIII")


# %% examples
def shout(text, times=1):
    return text.upper() + "!" * times


def halves(n):
    if n % 2:
        raise ValueError(f"{n} is odd")
    return n // 2, n / 2


# tests: doctest
"""
>>> shout("hi", 2)
'HI!!'
>>> print(shout("a"))
A!
>>> halves(4)
(2, 2.0)
>>> halves(3)
Traceback (most recent call last):
    ...
ValueError: 3 is odd
>>> {shout(x) for x in ("a",)}
{'A!'}
>>> for x in range(3): print(x, end=" ")
0 1 2 
"""
# wrong: times=1 => times=2
# wrong: is odd => is not even


# %% examples that keep state
class Counter:
    def __init__(self):
        self.n = 0

    def up(self, by=1):
        self.n += by
        return self

    def __repr__(self):
        return f"Counter({self.n})"


# tests: doctest
"""
>>> c = Counter()
>>> c
Counter(0)
>>> c.up().up(3)
Counter(4)
>>> c.n
4
>>> c.down()
Traceback (most recent call last):
    ...
AttributeError: 'Counter' object has no attribute 'down'
"""
# wrong: self.n += by => self.n += 1


# %% closures returned
def make_adder(n):
    def add(x):
        return x + n

    return add


def make_counter():
    count = 0

    def tick():
        nonlocal count
        count += 1
        return count

    return tick


# tests
add3 = make_adder(3)
assert add3(4) == 7
assert [make_adder(i)(10) for i in range(3)] == [10, 11, 12]
a, b = make_counter(), make_counter()
assert (a(), a(), b(), a()) == (1, 2, 1, 3)
assert callable(a) and a is not b
assert add3.__name__ == "add"
# wrong: count += 1 => count += 2
# wrong: return x + n => return x - n


# %% late binding in a loop
def makers():
    return [lambda x, i=i: x * i for i in range(4)]


# tests
assert [f(2) for f in makers()] == [0, 2, 4, 6]
# wrong: lambda x, i=i: => lambda x:

# %% a decorator with wraps
import functools


def logged(calls):
    def decorate(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            calls.append((f.__name__, args, kwargs))
            return f(*args, **kwargs)

        return inner

    return decorate


CALLS = []


@logged(CALLS)
def area(w, h=2):
    """Width times height."""
    return w * h


# tests
assert area(3) == 6 and area(3, h=5) == 15
assert area.__name__ == "area" and area.__doc__ == "Width times height."
assert area.__wrapped__(2) == 4
assert CALLS == [("area", (3,), {}), ("area", (3,), {"h": 5})]
# wrong: @functools.wraps(f) => @functools.wraps(print)
# wrong: (f.__name__, args, kwargs) => (f.__name__, args)


# %% a decorator without wraps
def twice(f):
    def inner(x):
        return f(f(x))

    return inner


@twice
def inc(x):
    return x + 1


# tests
assert inc(1) == 3
assert inc.__name__ == "inner"
assert inc.__doc__ is None
# wrong: return f(f(x)) => return f(x)

# %% a decorator that the test applies
import time


def retry(times, errors=(Exception,)):
    def decorate(f):
        def inner(*args):
            for attempt in range(times):
                try:
                    return f(*args)
                except errors:
                    if attempt == times - 1:
                        raise
                    time.sleep(0)

        return inner

    return decorate


# tests
tries = []


@retry(3, (ValueError,))
def flaky(x):
    tries.append(x)
    if len(tries) < 3:
        raise ValueError("not yet")
    return x * 2


assert flaky(5) == 10
assert tries == [5, 5, 5]


@retry(2)
def never():
    raise KeyError("gone")


try:
    never()
except KeyError as error:
    assert error.args == ("gone",)
else:
    raise AssertionError("it was swallowed")
# wrong: range(times) => range(times - 1)
# wrong: raise => return None

# %% lru_cache and its statistics
from functools import lru_cache


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


# tests
assert fib(20) == 6765
info = fib.cache_info()
assert info.misses == 21 and info.hits == 18, info
fib.cache_clear()
assert fib.cache_info().currsize == 0
assert fib(10) == 55
# wrong: @lru_cache(maxsize=None) => @lru_cache(maxsize=2)
# wrong: n if n < 2 => n if n < 3


# %% memo by a mutable default
def fact(n, memo={0: 1}):
    if n not in memo:
        memo[n] = n * fact(n - 1)
    return memo[n]


# tests
assert fact(5) == 120
assert fact.__defaults__[0][4] == 24
assert fact(1, {0: 2}) == 1
# wrong: memo={0: 1} => memo={0: 2}


# %% a mutable default that accumulates
def collect(item, into=[]):
    into.append(item)
    return into


# tests
assert collect(1) == [1]
assert collect(2) == [1, 2]
assert collect(3, []) == [3]
assert collect(4) is collect(5)
assert collect(6) == [1, 2, 4, 5, 6]
# wrong: return into => return list(into)


# %% higher-order functions with the test's callbacks
def compose(*functions):
    def composed(x):
        for f in reversed(functions):
            x = f(x)
        return x

    return composed


def apply_n(f, n, x):
    for _ in range(n):
        x = f(x)
    return x


def group_by(key, items):
    out = {}
    for item in items:
        out.setdefault(key(item), []).append(item)
    return out


# tests
assert compose(lambda x: x + 1, lambda x: x * 2)(5) == 11
assert apply_n(lambda s: s + "!", 3, "hi") == "hi!!!"
seen = []
assert group_by(lambda w: seen.append(w) or len(w), ["a", "bb", "c"]) == {1: ["a", "c"], 2: ["bb"]}
assert seen == ["a", "bb", "c"]
assert compose(str.strip, str.upper)(" a ") == "A"
assert list(map(compose(abs, int), ["-1", "2"])) == [1, 2]
# wrong: reversed(functions) => functions
# wrong: range(n) => range(n - 1)


# %% a callback that raises
def safe_map(f, items, default=None):
    out = []
    for item in items:
        try:
            out.append(f(item))
        except (ValueError, ZeroDivisionError):
            out.append(default)
    return out


# tests
assert safe_map(int, ["1", "x", "3"]) == [1, None, 3]
assert safe_map(lambda x: 1 / x, [2, 0], -1) == [0.5, -1]


class Mine(Exception):
    pass


def bad(x):
    raise Mine(x)


try:
    safe_map(bad, [7])
except Mine as error:
    assert error.args == (7,)
else:
    assert False
# wrong: ValueError, ZeroDivisionError => Exception, ValueError
# wrong: out.append(default) => pass


# %% a callback that changes the test's own state
def walk(tree, visit):
    visit(tree["name"])
    for child in tree.get("children", ()):
        walk(child, visit)


# tests
order = []
tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}, {"name": "d"}]}
assert walk(tree, order.append) is None
assert order == ["a", "b", "c", "d"]
total = 0


def count(_):
    global total
    total += 1


walk(tree, count)
assert total == 4
# wrong: walk(child, visit) => visit(child["name"])


# %% star arguments, keyword-only, positional-only
def mix(a, b=2, /, c=3, *rest, d, e=5, **more):
    return a, b, c, rest, d, e, more


# tests
assert mix(1, d=4) == (1, 2, 3, (), 4, 5, {})
assert mix(1, 9, 8, 7, 6, d=0, z=1) == (1, 9, 8, (7, 6), 0, 5, {"z": 1})
assert mix(*[1, 2], **{"c": 0, "d": 1}) == (1, 2, 0, (), 1, 5, {})
for wrong in (lambda: mix(1), lambda: mix(d=1)):
    try:
        wrong()
    except TypeError as error:
        assert "missing 1 required" in str(error)
    else:
        assert False
assert mix(1, d=1, a=5)[-1] == {"a": 5}
# wrong: b=2, /, => b=2,
# wrong: *rest, d, => *rest, d=4,

# %% the signature is asked for
import inspect


def send(to: str, body: str = "", *, urgent: bool = False) -> int:
    return len(to) + len(body) + urgent


# tests
import inspect

signature = inspect.signature(send)
assert list(signature.parameters) == ["to", "body", "urgent"]
assert signature.parameters["urgent"].kind is inspect.Parameter.KEYWORD_ONLY
assert signature.return_annotation is int
assert send.__annotations__["to"] is str
assert send("a", urgent=True) == 2
# wrong: *, urgent => urgent

# %% type hints and docstrings
from typing import Dict, List, Optional, get_type_hints


def index(words: List[str], start: Optional[int] = None) -> Dict[str, int]:
    """Where each word stands.

    The last one counts.
    """
    return {word: i for i, word in enumerate(words, start or 0)}


# tests
from typing import get_type_hints

assert get_type_hints(index)["return"] == Dict[str, int]
assert index.__doc__.startswith("Where each word")
assert index.__name__ == index.__qualname__ == "index"
assert index(["a", "b", "a"], 1) == {"a": 3, "b": 2}
# wrong: -> Dict[str, int] => -> Dict[str, str]


# %% recursion near the limit
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


# tests
assert depth(800) == 800
try:
    depth(10**6)
except RecursionError:
    pass
else:
    assert False
# wrong: 1 + depth => 2 + depth


# %% the test raises the recursion limit
def total(nested):
    head, tail = nested
    return head if tail is None else head + total(tail)


# tests
import sys

sys.setrecursionlimit(6000)
chain = None
for i in range(3000):
    chain = (i, chain)
assert total(chain) == sum(range(3000))
# wrong: head + total(tail) => total(tail)

# %% the program raises the recursion limit
import sys

sys.setrecursionlimit(20000)


def ackermann(m, n):
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


# tests
assert ackermann(2, 3) == 9
assert ackermann(2, 600) == 1203
# wrong: sys.setrecursionlimit(20000) => pass


# %% match statements and a walrus
def command(text):
    match text.split():
        case ["go", ("north" | "south") as where]:
            return {"move": where}
        case ["take", *items] if items:
            return {"take": items}
        case []:
            return None
        case [word, *_]:
            return {"unknown": word}


def first_long(words, n):
    return found if (any(len(found := w) > n for w in words)) else None


# tests: asserts
assert command("go north") == {"move": "north"}
assert command("take a b") == {"take": ["a", "b"]}
assert command("") is None
assert command("take") == {"unknown": "take"}
assert first_long(["a", "abc", "abcd"], 2) == "abc"
assert first_long(["a"], 2) is None
# wrong: if items => if len(items) > 2

# %% global state across calls
counter = 0
history = []


def hit(name):
    global counter
    counter += 1
    history.append(name)
    return counter


def reset():
    global counter
    counter = 0
    history.clear()


# tests
assert hit("a") == 1
assert hit("b") == 2
assert counter == 2
assert history == ["a", "b"]
reset()
assert counter == 0 and history == []
# wrong: history.clear() => pass
# wrong: counter += 1 => counter += 2

# %% module constants
VERSION = (1, 2, 3)
NAMES = {"a": 1}
DEFAULT = frozenset({"x"})
PI = 3.14159


def version():
    return ".".join(map(str, VERSION))


# tests
assert VERSION >= (1, 2)
assert version() == "1.2.3"
assert NAMES["a"] == 1 and "x" in DEFAULT
assert round(PI, 2) == 3.14
# wrong: (1, 2, 3) => (1, 2)

# %% a main block that must not run
import sys


def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    return sum(map(int, argv))


if __name__ == "__main__":
    raise SystemExit(main())

# tests
assert main(["1", "2"]) == 3
import sys

sys.argv = ["program.py", "4", "5"]
assert main() == 9
# wrong: sys.argv[1:] if => sys.argv if


# %% functions as values and attributes of functions
def tally(x):
    tally.calls += 1
    return x


tally.calls = 0
OPERATIONS = {"+": lambda a, b: a + b, "max": max, "tally": tally}


def calculate(operator, *args):
    return OPERATIONS[operator](*args)


# tests
assert calculate("+", 1, 2) == 3
assert calculate("max", 1, 7) == 7
assert calculate("tally", 5) == 5
assert tally.calls == 1
assert sorted(OPERATIONS) == ["+", "max", "tally"]
assert OPERATIONS["max"] is max
# wrong: tally.calls += 1 => tally.calls += 2

# %% partial and operator
import operator
from functools import partial, reduce

double = partial(operator.mul, 2)
by_name = operator.itemgetter("name")


def product(items):
    return reduce(operator.mul, items, 1)


# tests
assert double(21) == 42
assert product([2, 3, 4]) == 24 and product([]) == 1
assert [by_name(row) for row in [{"name": "x"}]] == ["x"]
assert double.args == (2,) and double.func is operator.mul
import operator
# wrong: items, 1 => items, 2

# %% single dispatch
from functools import singledispatch


@singledispatch
def describe(x):
    return "something"


@describe.register
def _(x: int):
    return f"int {x}"


@describe.register(list)
def _(x):
    return f"list of {len(x)}"


# tests
assert describe(3) == "int 3"
assert describe([1, 2]) == "list of 2"
assert describe("a") == "something"
assert describe(True) == "int True"


@describe.register(str)
def _(x):
    return "text " + x


assert describe("a") == "text a"
# wrong: f"int {x}" => f"integer {x}"


# %% the test replaces a function of the program
def fetch(url):
    raise OSError("no network here")


def title(url):
    return fetch(url).split("<title>")[1].split("</title>")[0].strip()


# tests
def fetch(url):
    return f"<html><title> {url} </title></html>"


assert title("x.org") == "x.org"
# wrong: .strip() =>


# %% large integers, floats and text
def digits(n):
    return sum(map(int, str(2**n)))


def mean(xs):
    return sum(xs) / len(xs)


def flags(codes):
    return "".join(chr(0x1F1E6 + ord(c) - 65) for c in codes)


# tests: asserts
assert digits(1000) == 1366
assert mean([1, 2]) == 1.5
assert abs(mean([0.1] * 3) - 0.1) < 1e-12
assert flags("NO") == "\U0001f1f3\U0001f1f4"
assert 2**200 + digits(3) == 1606938044258990275541962092341162602522202993782792835301384
assert mean([float("inf"), 1]) == float("inf")
assert f"{mean([1, 2, 2]):.3f}" == "1.667"
# wrong: 0x1F1E6 => 0x1F1E7


# %% test functions found among the globals
def gcd(a, b):
    while b:
        a, b = b, a % b
    return abs(a)


# tests
def test_gcd():
    assert gcd(12, 18) == 6
    assert gcd(0, 5) == 5


def test_negative():
    assert gcd(-4, 6) == 2


def run_all():
    for name, fn in list(globals().items()):
        if name.startswith("test_") and callable(fn):
            fn()


run_all()
# wrong: while b: => if b:


# %% callbacks that fill lists and stop the walk
def walk(tree, visit, depth=0):
    visit(tree["name"], depth)
    for child in tree.get("children", ()):
        walk(child, visit, depth + 1)


# tests
tree = {"name": "root", "children": [{"name": "a", "children": [{"name": "b"}]}, {"name": "c"}]}
seen = []
walk(tree, lambda n, d: seen.append((d, n)))
assert seen == [(0, "root"), (1, "a"), (2, "b"), (1, "c")]
names = set()
walk(tree, lambda n, d: names.add(n))
assert len(names) == 4


class Stop(Exception):
    pass


def bomb(n, d):
    if n == "b":
        raise Stop(n)


try:
    walk(tree, bomb)
    assert False
except Stop as e:
    assert e.args == ("b",)
# wrong: depth + 1 => depth
