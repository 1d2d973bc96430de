"""Honest programs: changes in place, identity across calls, not-a-number, shared and hidden state."""


# %% arguments changed in place
def sort_in_place(items):
    for i in range(1, len(items)):
        j = i
        while j and items[j - 1] > items[j]:
            items[j - 1], items[j] = items[j], items[j - 1]
            j -= 1


# tests
xs = [3, 1, 2]
assert sort_in_place(xs) is None
assert xs == [1, 2, 3]
alias = ys = [2, 1]
sort_in_place(ys)
assert alias == [1, 2] and alias is ys
# wrong: items[j - 1] > items[j] => items[j - 1] < items[j]
# wrong: range(1, len(items)) => range(1, len(items := list(items)))


# %% arguments that must not change
def appended(items, x):
    return items + [x]


def merged(a, b):
    out = dict(a)
    out.update(b)
    return out


# tests
xs = [1]
assert appended(xs, 2) == [1, 2] and xs == [1]
a, b = {"x": 1}, {"y": 2}
assert merged(a, b) == {"x": 1, "y": 2}
assert a == {"x": 1} and merged(a, {}) is not a
# wrong: return items + [x] => items.append(x); return items
# wrong: out = dict(a) => out = a


# %% the argument returned
def extend(items, more):
    items.extend(more)
    return items


def fresh(items):
    return items[:]


# tests: asserts
xs = [1]
assert extend(xs, [2]) is xs
assert xs == [1, 2]
assert fresh(xs) == xs and fresh(xs) is not xs
# wrong: return items[:] => return items

# %% the same buffer returned twice
_buffer = []


def rows(n):
    _buffer.clear()
    _buffer.extend(range(n))
    return _buffer


# tests
first = rows(3)
second = rows(2)
assert first is second
assert first == [0, 1]
# wrong: _buffer.clear() => pass
# wrong: return _buffer => return list(_buffer)


# %% an accumulator that goes on growing
def make_log():
    lines = []

    def log(text):
        lines.append(text)
        return lines

    return log


# tests
log = make_log()
one = log("a")
two = log("b")
assert one == ["a", "b"] and one is two
other = make_log()
assert other("c") == ["c"]
# wrong: return lines => return lines[:]


# %% a result that shares its parts
def grid(rows, columns):
    return [[0] * columns for _ in range(rows)]


def same_row(rows, columns):
    return [[0] * columns] * rows


# tests
g = grid(2, 2)
g[0][0] = 1
assert g == [[1, 0], [0, 0]]
h = same_row(2, 2)
h[0][0] = 1
assert h == [[1, 0], [1, 0]] and h[0] is h[1]
# wrong: [[0] * columns for _ in range(rows)] => list([[0] * columns] * rows)
# wrong: [[0] * columns] * rows => [[0] * columns for _ in range(rows)]


# %% nested arguments changed deep inside
def flood(grid, r, c, new):
    old = grid[r][c]
    if old == new:
        return grid
    stack = [(r, c)]
    while stack:
        y, x = stack.pop()
        if 0 <= y < len(grid) and 0 <= x < len(grid[0]) and grid[y][x] == old:
            grid[y][x] = new
            stack += [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
    return grid


# tests
g = [[1, 1, 0], [0, 1, 1]]
row = g[0]
assert flood(g, 0, 1, 7) is g
assert g == [[7, 7, 0], [0, 7, 7]] and row == [7, 7, 0]
# wrong: (y, x + 1), (y, x - 1) => (y, x + 1)


# %% one argument given twice
def swap(a, b):
    a[0], b[0] = b[0], a[0]
    return a is b


# tests
x, y = [1], [2]
assert swap(x, y) is False and (x, y) == ([2], [1])
assert swap(x, x) is True and x == [2]
d = {"l": x}
assert swap(d["l"], x) is True
# wrong: return a is b => return a == b or a[0] == 2


# %% structures that hold themselves
def knot(items):
    items.append(items)
    return items


def depth(node):
    seen = set()
    while isinstance(node, list) and id(node) not in seen:
        seen.add(id(node))
        node = node[-1]
    return len(seen)


# tests
xs = knot([1])
assert xs[1] is xs and xs[1][1][0] == 1
assert depth(xs) == 1
assert depth([1, [2, [3]]]) == 3
# wrong: items.append(items) => items.append(items[:])

# %% identity of constants
SENTINEL = object()


def get(d, key, default=SENTINEL):
    value = d.get(key, default)
    return None if value is SENTINEL else value


def missing():
    return SENTINEL


def nothing():
    return None


def yes():
    return True


# tests
assert get({"a": 1}, "a") == 1 and get({}, "a") is None
assert missing() is SENTINEL and missing() is missing()
assert get({}, "a", missing()) is None
assert nothing() is None and yes() is True and yes() is not False
assert missing() is not None
# wrong: return SENTINEL => return object()

# %% not a number
import math

NAN = float("nan")


def mean(xs):
    return sum(xs) / len(xs) if xs else NAN


def maybe(xs):
    return [x if x > 0 else NAN for x in xs]


# tests
import math

assert math.isnan(mean([]))
assert mean([]) != mean([])
assert mean([1, 3]) == 2
assert mean([]) is NAN
assert maybe([-1]) == [NAN]
assert maybe([-1]) != [float("nan")]
assert str(maybe([1, -1])) == "[1, nan]"
assert not maybe([0])[0] <= 1
# wrong: else NAN for x in xs => else float("nan") for x in xs


# %% a not-a-number of the test's own
def keep(x):
    return x


def listed(x):
    return [x, {"k": x}]


# tests
nan = float("nan")
assert keep(nan) is nan
assert [keep(nan)] == [nan]
assert listed(nan)[0] is nan
assert listed(nan) == [nan, {"k": nan}]
assert nan in listed(nan)
# wrong: [x, {"k": x}] => [float(str(x)), {"k": x}]


# %% signed zeros, infinities and exact floats
def negate(x):
    return -x


def third():
    return 1 / 3


# tests
import math

assert math.copysign(1, negate(0.0)) == -1.0
assert negate(float("inf")) == float("-inf")
assert third().hex() == (1 / 3).hex() and repr(third()) == "0.3333333333333333"
assert str(negate(0.0)) == "-0.0"
assert negate(1e308 * 10) < 0 and type(negate(True)) is int
# wrong: return -x => return 0 - x


# %% True, 1 and 1.0 are told apart
def kinds(x):
    return [type(x).__name__, x]


def same():
    return {1: "int"}, [True, 1, 1.0]


# tests
assert kinds(True) == ["bool", True] and kinds(1)[1] is not True
assert kinds(1.0) == ["float", 1]
d, xs = same()
d[True] = "bool"
assert d == {1: "bool"} and list(map(type, xs)) == [bool, int, float]
assert xs == [1, 1, 1] and xs[0] is True
assert kinds(0)[1] == False and kinds("")[0] == "str"
# wrong: [True, 1, 1.0] => [1, 1, 1.0]


# %% order of dictionaries and sets
def inverted(d):
    out = {}
    for key, value in sorted(d.items(), key=lambda kv: kv[1]):
        out.setdefault(value, []).append(key)
    return out


# tests
d = inverted({"a": 2, "b": 1, "c": 2})
assert d == {1: ["b"], 2: ["a", "c"]}
assert list(d) == [1, 2]
assert list(inverted({"z": 1, "y": 0}).items())[0] == (0, ["y"])
assert next(iter(d)) == 1
# wrong: key=lambda kv: kv[1] => key=lambda kv: -kv[1]


# %% a dictionary changed while the test holds its parts
def update(d, **changes):
    for key, value in changes.items():
        d.setdefault(key, []).append(value)
    d.pop("old", None)


# tests
inner = [1]
d = {"a": inner, "old": 0}
update(d, a=2, b=3)
assert inner == [1, 2] and d == {"a": [1, 2], "b": [3]}
assert d["a"] is inner
update(d, a=4)
assert inner[-1] == 4
# wrong: d.setdefault(key, []).append(value) => d[key] = d.get(key, []) + [value]

# %% a cache that the test can see through identity
_cache = {}


def intern(parts):
    key = tuple(parts)
    return _cache.setdefault(key, key)


# tests
a = intern([1, 2])
b = intern([1, 2])
assert a == (1, 2) and a is b
assert intern([3]) is not a
assert len(_cache) == 2
# wrong: return _cache.setdefault(key, key) => _cache.setdefault(key, key); return key


# %% an object handed back later
class Session:
    def __init__(self):
        self.log = []


def connect():
    return Session()


def send(session, text):
    session.log.append(text)
    return len(session.log)


def history(session):
    return list(session.log)


# tests: asserts
s = connect()
assert send(s, "a") == 1
assert send(s, "b") == 2
assert history(s) == ["a", "b"]
assert history(connect()) == []
# wrong: session.log.append(text) => session.log = [text]
