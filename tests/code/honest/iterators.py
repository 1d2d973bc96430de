"""Honest programs: generators, iterators and what is lazy about them."""


# %% a finite generator
def evens(n):
    for i in range(0, n, 2):
        yield i


# tests
assert list(evens(7)) == [0, 2, 4, 6]
assert sum(evens(5)) == 6
assert [*evens(3)] == [0, 2]
a, b = evens(4)
assert (a, b) == (0, 2)
assert 4 in evens(6) and 5 not in evens(6)
# wrong: range(0, n, 2) => range(0, n - 1, 2)


# %% an infinite generator
def naturals(start=0):
    while True:
        yield start
        start += 1


def primes():
    found = []
    for n in naturals(2):
        if all(n % p for p in found):
            found.append(n)
            yield n


# tests
from itertools import count, islice, takewhile

assert list(islice(primes(), 6)) == [2, 3, 5, 7, 11, 13]
assert list(takewhile(lambda p: p < 10, primes())) == [2, 3, 5, 7]
numbers = naturals(5)
assert next(numbers) == 5 and next(numbers) == 6
for i, n in zip(range(3), naturals()):
    assert i == n
# wrong: naturals(2) => naturals(3)
# wrong: found.append(n) => found = [n]

# %% a generator whose side effects the test watches
log = []


def steps(items):
    for item in items:
        log.append(("before", item))
        yield item
        log.append(("after", item))


# tests
it = steps("ab")
assert log == []
assert next(it) == "a"
assert log == [("before", "a")]
assert list(it) == ["b"]
assert log == [("before", "a"), ("after", "a"), ("before", "b"), ("after", "b")]
# wrong: ("after", item) => ("after", items)


# %% send, throw and close
def averager():
    total = count = 0
    average = None
    try:
        while True:
            try:
                value = yield average
            except ValueError:
                total = count = 0
                average = None
                continue
            total += value
            count += 1
            average = total / count
    finally:
        CLOSED.append(count)


CLOSED = []

# tests
g = averager()
assert next(g) is None
assert g.send(10) == 10
assert g.send(20) == 15
assert g.throw(ValueError) is None
assert g.send(4) == 4
g.close()
assert CLOSED == [1]
try:
    next(g)
except StopIteration:
    pass
else:
    assert False
# wrong: total += value => total = value
# wrong: CLOSED.append(count) => pass


# %% the value of StopIteration and yield from
def inner():
    got = yield 1
    return got or "done"


def outer():
    result = yield from inner()
    yield result


# tests
g = outer()
assert next(g) == 1
assert g.send("x") == "x"
h = inner()
next(h)
try:
    next(h)
except StopIteration as stop:
    assert stop.value == "done"
else:
    assert False
# wrong: "done" => "gone"


# %% a generator over the test's own iterator
def pairs(items):
    it = iter(items)
    for first in it:
        yield first, next(it, None)


# tests
def source():
    for i in range(5):
        pulled.append(i)
        yield i


pulled = []
g = pairs(source())
assert next(g) == (0, 1)
assert pulled == [0, 1]
assert list(g) == [(2, 3), (4, None)]
assert list(pairs("abc")) == [("a", "b"), ("c", None)]
# wrong: next(it, None) => first


# %% generators compared and passed back
def chunked(items, n):
    return (items[i : i + n] for i in range(0, len(items), n))


def flatten(chunks):
    for chunk in chunks:
        yield from chunk


# tests
assert list(chunked([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
assert list(flatten(chunked("abcde", 2))) == list("abcde")
assert list(flatten([[1], (2, 3)])) == [1, 2, 3]
g = chunked("ab", 1)
assert iter(g) is g
assert list(g) == ["a", "b"] and list(g) == []
# wrong: yield from chunk => yield chunk


# %% it must be lazy
def read_all(lines):
    return (line.rstrip() for line in lines)


# tests
import types

result = read_all(["a\n", "b\n"])
assert isinstance(result, types.GeneratorType)
assert not isinstance(result, list)
assert next(result) == "a"
# wrong: (line.rstrip() for line in lines) => [line.rstrip() for line in lines]


# %% an iterator class
class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n + 1


# tests
assert list(Countdown(3)) == [3, 2, 1]
c = Countdown(2)
assert next(c) == 2
assert [x for x in c] == [1]
assert next(c, "end") == "end"
assert max(Countdown(4)) == 4
# wrong: self.n <= 0 => self.n < 0


# %% a re-iterable class and the sequence protocol
class Grid:
    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, at):
        if isinstance(at, tuple):
            return self.rows[at[0]][at[1]]
        return self.rows[at]

    def __len__(self):
        return sum(map(len, self.rows))

    def __contains__(self, x):
        return any(x in row for row in self.rows)

    def __reversed__(self):
        return reversed(self.rows)


# tests
g = Grid([[1, 2], [3, 4]])
assert g[1, 0] == 3 and g[0] == [1, 2] and g[-1][1] == 4
assert len(g) == 4 and 3 in g and 9 not in g
assert [row[0] for row in g] == [1, 3]
assert list(reversed(g)) == [[3, 4], [1, 2]]
assert g[:1] == [[1, 2]]
# wrong: any(x in row => all(x in row

# %% itertools objects returned
import itertools


def windows(items, n):
    its = itertools.tee(items, n)
    for i, it in enumerate(its):
        next(itertools.islice(it, i, i), None)
    return zip(*its)


def cycle(items):
    return itertools.cycle(items)


def doubled(items):
    return map(lambda x: x * 2, items)


# tests
from itertools import islice

assert list(windows([1, 2, 3, 4], 2)) == [(1, 2), (2, 3), (3, 4)]
assert list(islice(cycle("ab"), 5)) == list("ababa")
assert list(doubled(range(3))) == [0, 2, 4]
assert tuple(filter(None, doubled([0, 1]))) == (2,)
assert list(enumerate(doubled("a"))) == [(0, "aa")]
# wrong: it, i, i), None) => it, 0, 0), None)

# %% a generator as a context manager
from contextlib import contextmanager

events = []


@contextmanager
def opened(name):
    events.append(f"open {name}")
    try:
        yield name.upper()
    except KeyError:
        events.append("swallowed")
    finally:
        events.append(f"close {name}")


# tests
with opened("a") as handle:
    assert handle == "A"
    assert events == ["open a"]
with opened("b"):
    raise KeyError
assert events == ["open a", "close a", "open b", "swallowed", "close b"]
# wrong: except KeyError => except IndexError


# %% a generator that raises on its way
def parse(lines):
    for number, line in enumerate(lines, 1):
        if not line.isdigit():
            raise ValueError(f"line {number}: {line!r}")
        yield int(line)


# tests
got = []
try:
    for value in parse(["1", "2", "x", "4"]):
        got.append(value)
except ValueError as error:
    assert str(error) == "line 3: 'x'"
else:
    raise AssertionError("no error")
assert got == [1, 2]
assert list(parse([])) == []
# wrong: enumerate(lines, 1) => enumerate(lines)


# %% dictionary views and zips that follow their source
def keys_of(d):
    return d.keys()


def both(a, b):
    return zip(a, b)


# tests
d = {"a": 1}
view = keys_of(d)
d["b"] = 2
assert set(view) == {"a", "b"}
assert "b" in view and len(view) == 2
assert dict(both("ab", [1, 2])) == d
# wrong: return d.keys() => return set(d)


# %% what is drawn by builtins, stars and membership
def squares(xs):
    return map(lambda x: x * x, xs)


def pairs(a, b):
    return zip(a, b)


def evens(xs):
    return filter(lambda x: x % 2 == 0, xs)


def backwards(s):
    return reversed(s)


# tests: asserts
assert list(squares([1, 2])) == [1, 4]
assert dict(pairs("ab", [1, 2])) == {"a": 1, "b": 2}
assert sum(evens(range(10))) == 20
assert "".join(backwards("abc")) == "cba"
assert sorted(squares([3, -1])) == [1, 9]
assert max(squares([3, -1])) == 9 and min(evens([4, 2])) == 2
assert len(list(pairs([1, 2, 3], "ab"))) == 2
a, b = squares([2, 3])
assert (a, b) == (4, 9)
assert 4 in squares([1, 2])
assert [*evens([1, 2])] == [2]
assert tuple(enumerate(backwards([7, 8]))) == ((0, 8), (1, 7))
# wrong: x * x => x + x
# wrong: x % 2 == 0 => x % 2
