"""Honest programs whose tests reach them in unusual ways: names bound twice, looked up late, imported by one side only."""

# %% the test sets a global that the program reads
count = 0


def bump():
    global count
    count += 1
    return count


# tests
assert bump() == 1
count = 10
assert bump() == 11
assert count == 11
# wrong: count += 1 => count += 2


# %% the test uses a name of the program for something else
result = []
i = 5


def collect(n):
    result = [i for i in range(n)]
    return result


# tests
result = collect(2)
assert result == [0, 1]
for i in range(3):
    assert len(collect(i)) == i
cases = [(1, [0]), (0, [])]
for n, result in cases:
    assert collect(n) == result
# wrong: range(n) => range(n + 1)


# %% by accident the test changes the program
cache = {}


def slow(n):
    if n not in cache:
        cache[n] = n * n
    return cache[n]


# tests
assert slow(3) == 9
cache = {3: "from the test"}
assert slow(3) == "from the test"
assert slow(2) == 4 and cache[2] == 4
# wrong: n * n => n + n + n


# %% the test binds a builtin's name
def ask():
    name = input("Name: ")
    print("Hello", name)
    return len(name)


# tests
shown = []


def input(prompt):
    shown.append(prompt)
    return "Bob"


def print(*words):
    shown.append(words)


assert ask() == 3
assert shown == ["Name: ", ("Hello", "Bob")]
# wrong: print("Hello", name) => print("Hello " + name)


# %% the test replaces what a module holds
import random
import time


def stamp():
    return int(time.time())


def roll():
    return random.randint(1, 6)


# tests
import builtins
import random
import time

time.time = lambda: 100.7
assert stamp() == 100
random.randint = lambda low, high: high
assert roll() == 6
# wrong: int(time.time()) => round(time.time())


# %% names looked up while the test runs
def double(x):
    return x * 2


def helper(x):
    return x + 1


LIMIT = 4

# tests
import sys

assert double(2) == 4
assert eval("helper(2)") == 3
assert globals()["helper"](LIMIT) == 5
assert getattr(sys.modules[__name__], "double")("a") == "aa"
assert "helper" in dir() and "helper" in globals()
exec("assert helper(double(1)) == 3")
# wrong: return x + 1 => return x + 2


# %% names that only the program imported
import math
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from typing import List


def week(day: date) -> List[date]:
    return [day + timedelta(days=i) for i in range(7)]


def letters(text):
    return Counter(text)


def area(r):
    return Decimal(r) * 2


# tests
assert week(date(2024, 2, 28))[2] == date(2024, 3, 1)
assert letters("aab") == Counter(a=2, b=1)
assert area("1.5") == Decimal("3.0")
assert math.floor(2.7) == 2
assert week(date(2024, 1, 1))[-1] - timedelta(days=6) == date(2024, 1, 1)
# wrong: range(7) => range(6)


# %% star imports
from math import *
from operator import *


def hypotenuse(a, b):
    return sqrt(add(mul(a, a), mul(b, b)))


# tests
from itertools import *

assert hypotenuse(3, 4) == 5
assert floor(hypotenuse(1, 1)) == 1
assert list(islice(count(2), 2)) == [2, 3]
assert isclose(pi, 3.14159, abs_tol=1e-4)
# wrong: mul(b, b) => mul(a, b)


# %% the program asks about itself
import inspect
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent


def source(name):
    return inspect.getsource(globals()[name])


def known():
    return sorted(n for n in vars(sys.modules[__name__]) if n.startswith("known"))


def folder():
    return os.path.isdir(HERE) and os.path.basename(__file__).endswith(".py")


# tests
assert source("known").startswith("def known():")
assert known() == ["known"]
assert folder() is True
# wrong: "known") => "knowns")


# %% a result changed by the test and still held by the program
class Basket:
    def __init__(self):
        self.items = []


basket = Basket()


def contents():
    return basket.items


# tests: asserts
assert contents() == []
contents().append("apple")
assert contents() == ["apple"]
mine = contents()
mine += ["pear"]
assert contents() == ["apple", "pear"]
# wrong: return basket.items => return list(basket.items)


# %% an argument that the program keeps
kept = []


def register(listener):
    kept.append(listener)


def publish(x):
    for each in kept:
        each.append(x)


def total():
    return sum(map(sum, kept))


# tests
mine, other = [], [5]
register(mine)
register(other)
publish(1)
assert mine == [1] and other == [5, 1]
mine.append(10)
assert total() == 17
# wrong: kept.append(listener) => kept.append(list(listener))


# %% identity of values that cannot change
NAME = "a long name " * 3
PAIR = (NAME, 12345678901234567890)


def name():
    return NAME


def pair():
    return PAIR


def parts(x):
    return x, [x]


# tests
assert name() is name()
assert pair() is pair() and pair()[0] is name()
assert pair()[1] == 12345678901234567890
text = "".join(["own", " text"])
first, (second,) = parts(text)
assert first is second and first is text
# wrong: return PAIR => return (NAME, PAIR[1])


# %% the program's function given to its other functions
def apply(f, x):
    return f(x)


def double(x):
    return x * 2


def choose(name):
    return {"double": double, "str": str}[name]


# tests: asserts
assert apply(double, 3) == 6
assert apply(choose("str"), 3) == "3"
assert choose("double") is double
assert list(map(double, [1, 2])) == [2, 4]
assert sorted([3, -4, 1], key=double) == [-4, 1, 3]
from functools import reduce

assert reduce(lambda a, b: a + double(b), [1, 2, 3]) == 11
assert max("ab", "cd", key=lambda w: double(w[1])) == "cd"
# wrong: "double": double => "double": lambda x: double(x)


# %% files in the working directory
def report(lines, path="report.txt"):
    with open(path, "w") as file:
        file.write("\n".join(lines))
    return len(lines)


# tests
assert report(["a", "b"]) == 2
assert open("report.txt").read() == "a\nb"
with open("input.txt", "w") as file:
    file.write("x")
import os

assert os.path.getsize("input.txt") == 1 and "report.txt" in os.listdir()
# wrong: "\n".join => " ".join


# %% constants of the test's own and nested helpers
def clean(text, stop=("the", "a")):
    return [w for w in text.lower().split() if w not in stop]


# tests
STOP = {"of"}
EXPECTED = {"The House of Cards": ["house", "of", "cards"], "": []}


class Checker:
    """Counts."""

    seen = 0

    def check(self, text, want):
        type(self).seen += 1
        got = clean(text)
        assert got == want, f"{text!r} gives {got}, not {want}"


def run():
    checker = Checker()
    for text, want in EXPECTED.items():
        checker.check(text, want)
    return checker.seen


assert run() == 2
assert clean("The king of hearts", STOP) == ["the", "king", "hearts"]
assert (lambda t: clean(t, stop=()))("A b") == ["a", "b"]
# wrong: text.lower().split() => text.split()


# %% tests that try, skip and go on
def parse(text):
    try:
        return int(text)
    except ValueError:
        return float(text)


# tests
failures = []
for text, want in [("1", 1), ("1.5", 1.5), ("x", None)]:
    try:
        got = parse(text)
    except ValueError:
        got = None
    except Exception as error:
        failures.append(error)
        continue
    finally:
        failures.append(None)
    if got != want or type(got) is not type(want):
        failures.append((text, got))
assert failures == [None, None, None], failures
try:
    assert parse("2") == 3
except AssertionError:
    pass
else:
    raise AssertionError("2 is not 3")
while parse("0"):
    break
else:
    failures = None
assert failures is None
# wrong: float(text) => round(float(text))


# %% comparisons that chain, contain and format
def stats(xs):
    return {"n": len(xs), "mean": sum(xs) / len(xs), "range": (min(xs), max(xs))}


# tests
s = stats([1, 2, 6])
assert 2 < s["mean"] <= 3 < s["range"][1]
assert s == {"range": (1, 6), "mean": 3.0, "n": 3}
assert {**s, "n": 0} != s and s.items() >= {"n": 3}.items()
assert f"{s['mean']:.2f}|{s['n']!r:>3}" == "3.00|  3"
assert s.keys() == {"n", "mean", "range"}
assert [*s] == ["n", "mean", "range"]
assert "mean" in s and s.get("median") is None
match s:
    case {"n": n, "range": (low, high)}:
        assert (n, low, high) == (3, 1, 6)
    case _:
        assert False
# wrong: (min(xs), max(xs)) => [min(xs), max(xs)]


# %% functions named like modules of Python
def copy(x):
    return list(x)


def select(items, low=0):
    return [x for x in items if x >= low]


def string(x):
    return f"<{x}>"


link = {"a": 1}

# tests: asserts
assert copy((1, 2)) == [1, 2]
assert select([1, -1, 2], low=1) == [1, 2]
assert string(3) == "<3>"
assert link["a"] == 1
# wrong: x >= low => x > low


# %% the test changes a class, a method, a default and a module's class
import json
import time


class Shop:
    rate = 1

    def now(self):
        return time.time()

    def pay(self, x):
        return x * self.rate


def pay(x):
    return Shop().pay(x), int(Shop().now())


def dump(x):
    return json.dumps(x)


# tests
import json
import time

setattr(time, "time", lambda: 7.5)
assert pay(3) == (3, 7)
Shop.rate = 2
Shop.now = lambda self: 99
assert pay(3) == (6, 99)
json.JSONEncoder.default = lambda self, value: "?"
assert dump([{1}]) == '["?"]'
# wrong: x * self.rate => x + self.rate - 1


# %% the test changes a global from inside a function
LIMIT = 3


def cut(items):
    return items[:LIMIT]


# tests
def set_limit(n):
    global LIMIT
    LIMIT = n


assert cut([1, 2, 3, 4]) == [1, 2, 3]
set_limit(1)
assert cut([1, 2]) == [1]
globals()["LIMIT"] = 2
assert cut([1, 2, 3]) == [1, 2]
# wrong: items[:LIMIT] => items[: LIMIT + 1]


# %% the test imports what the program defines itself
def sqrt(x):
    return x**0.5


def hypotenuse(a, b):
    return sqrt(a * a + b * b)


# tests
assert hypotenuse(3, 4) == 5
from math import floor as sqrt

assert hypotenuse(3, 4) == 25
# wrong: a * a + b * b => a * a - b * b


# %% the standard output, taken early and late
import sys


def early(x, file=sys.stdout):
    print(x, file=file)


def late(x):
    sys.stdout.write(f"{x};")


# tests
import contextlib
import io

with contextlib.redirect_stdout(io.StringIO()) as out:
    early(1)
    late(2)
assert out.getvalue() == "2;"
# wrong: x, file=sys.stdout => x, file=None
# wrong: print(x, file=file) => print(x, file=None)
