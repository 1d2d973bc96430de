"""Honest programs: values of the standard library's types."""


# %% sets and frozen sets
def powers(items):
    out = {frozenset()}
    for item in items:
        out |= {each | {item} for each in out}
    return out


def split(words):
    return set(words) & {"a", "b"}, set(words) - {"a"}


# tests
assert powers([1, 2]) == {frozenset(), frozenset({1}), frozenset({2}), frozenset({1, 2})}
assert split("abc") == ({"a", "b"}, {"b", "c"})
assert isinstance(next(iter(powers([]))), frozenset)
assert split("a")[1] == set() and split("x")[0] <= {"a"}
assert sorted(split("cb")[1]) == ["b", "c"]
# wrong: out = {frozenset()} => out = set()


# %% ranges and slices
def evens(n):
    return range(0, n, 2)


def window(start, size):
    return slice(start, start + size)


# tests
assert evens(7) == range(0, 8, 2) and list(evens(5)) == [0, 2, 4]
assert len(evens(10)) == 5 and 4 in evens(10) and evens(10)[-1] == 8
assert type(evens(3)) is range
assert "abcdef"[window(1, 2)] == "bc"
assert window(1, 2) == slice(1, 3) and window(0, 1).stop == 1
assert window(1, 2).indices(2) == (1, 2, 1)
# wrong: range(0, n, 2) => list(range(0, n, 2))

# %% bytes, byte arrays and memory views
import struct


def pack(*numbers):
    return struct.pack(f"<{len(numbers)}H", *numbers)


def flip(buffer):
    for i in range(len(buffer)):
        buffer[i] ^= 0xFF


def view(data):
    return memoryview(data)[1:3]


# tests
assert pack(1, 258) == b"\x01\x00\x02\x01"
b = bytearray(b"\x00\x0f")
assert flip(b) is None and b == b"\xff\xf0"
assert bytes(view(b"abcd")) == b"bc"
assert view(b"abcd").tobytes().decode() == "bc"
flip(memoryview(b)[1:])
assert b == bytearray(b"\xff\x0f")
assert b.hex() == "ff0f" and isinstance(pack(), bytes)
# wrong: <{len(numbers)}H => >{len(numbers)}H

# %% complex numbers
import cmath


def roots(a, b, c):
    d = cmath.sqrt(b * b - 4 * a * c)
    return (-b + d) / (2 * a), (-b - d) / (2 * a)


# tests
assert roots(1, 0, 1) == (1j, -1j)
assert roots(1, -3, 2) == (2, 1)
assert roots(1, 2, 5)[0].imag == 2.0 and abs(roots(1, 2, 5)[0] - (-1 + 2j)) < 1e-9
assert isinstance(roots(1, 0, 1)[0], complex)
# wrong: 4 * a * c => 2 * a * c

# %% decimals and fractions
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction


def vat(price, rate="0.19"):
    return (Decimal(price) * (1 + Decimal(rate))).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)


def harmonic(n):
    return sum((Fraction(1, k) for k in range(1, n + 1)), Fraction(0))


# tests
from decimal import Decimal, getcontext
from fractions import Fraction

assert vat("9.99") == Decimal("11.89") and str(vat("10")) == "11.90"
assert vat("1").as_tuple().exponent == -2
assert harmonic(3) == Fraction(11, 6) and harmonic(2).numerator == 3
assert harmonic(1) == 1 and float(harmonic(2)) == 1.5
assert vat("1.00") + 1 == Decimal("2.19") and isinstance(vat("1"), Decimal)
getcontext().prec = 3
assert Decimal(1) / 3 == Decimal("0.333")
# wrong: "0.19" => "0.20"
# wrong: range(1, n + 1) => range(1, n)

# %% the decimal context is the test's
from decimal import Decimal, localcontext


def ratio(a, b):
    return Decimal(a) / Decimal(b)


def short(a, b):
    with localcontext() as context:
        context.prec = 2
        return Decimal(a) / Decimal(b)


# tests
from decimal import Decimal, getcontext

getcontext().prec = 5
assert ratio(1, 3) == Decimal("0.33333")
assert short(2, 3) == Decimal("0.67")
# wrong: context.prec = 2 => context.prec = 3

# %% dates, times and zones
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo


def meeting(text, hours):
    return (
        datetime.fromisoformat(text).replace(tzinfo=timezone(timedelta(hours=hours))).astimezone(timezone.utc)
    )


def workdays(start, n):
    out = []
    while len(out) < n:
        if start.weekday() < 5:
            out.append(start)
        start += timedelta(days=1)
    return out


def age(born, today):
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


# tests
from datetime import date, datetime, time, timedelta, timezone

m = meeting("2024-03-01T10:30:00", 2)
assert m == datetime(2024, 3, 1, 8, 30, tzinfo=timezone.utc)
assert m.utcoffset() == timedelta(0) and m.isoformat() == "2024-03-01T08:30:00+00:00"
assert workdays(date(2024, 3, 1), 2) == [date(2024, 3, 1), date(2024, 3, 4)]
assert age(date(2000, 5, 2), date(2024, 5, 1)) == 23 and age(date(2000, 5, 2), date(2024, 5, 2)) == 24
assert m - meeting("2024-03-01T10:00:00", 2) == timedelta(minutes=30)
assert m.time() == time(8, 30) and f"{m:%d.%m.%y}" == "01.03.24"
assert m.tzinfo is timezone.utc
# wrong: < (born.month, born.day) => <= (born.month, born.day)
# wrong: .weekday() < 5 => .isoweekday() < 5

# %% identifiers and hashes
import hashlib
import uuid


def stable(name):
    return uuid.uuid5(uuid.NAMESPACE_URL, name)


def digest(*parts):
    h = hashlib.sha256()
    for part in parts:
        h.update(part.encode())
    return h.hexdigest()[:12]


# tests
import uuid

assert stable("x").version == 5
assert stable("x") == stable("x") != stable("y")
assert str(stable("x")).count("-") == 4 and isinstance(stable("x"), uuid.UUID)
assert digest("a", "b") == digest("ab") and digest() == "e3b0c44298fc"
# wrong: hexdigest()[:12] => hexdigest()[:11]

# %% paths without files
from pathlib import Path, PurePosixPath, PureWindowsPath


def sibling(path, name):
    return Path(path).with_name(name)


def ancestors(path):
    return [str(p) for p in PurePosixPath(path).parents]


def windows(path):
    return PureWindowsPath(path)


# tests
from pathlib import Path, PureWindowsPath

assert sibling("/a/b.txt", "c.txt") == Path("/a/c.txt")
assert sibling("/a/b.txt", "c.tar.gz").suffixes == [".tar", ".gz"]
assert ancestors("/a/b/c") == ["/a/b", "/a", "/"]
assert windows("C:/x/y").drive == "C:" and windows("C:/x") == PureWindowsPath("c:/X")
assert isinstance(sibling("a", "b"), Path) and sibling("a/b", "c") / "d" == Path("a/c/d")
# wrong: with_name(name) => with_suffix("." + name)

# %% deques
from collections import deque


def last(items, n):
    return deque(items, maxlen=n)


def rotate(d, k):
    d.rotate(k)
    return d


# tests
from collections import deque

d = last(range(5), 3)
assert d == deque([2, 3, 4])
assert d.maxlen == 3 and list(d) == [2, 3, 4]
d.append(9)
assert list(d) == [3, 4, 9]
assert rotate(d, 1) is d and d[0] == 9
assert len(last([], 2)) == 0
# wrong: maxlen=n => maxlen=n + 1

# %% counters, chained maps and ordered dictionaries
from collections import ChainMap, Counter, OrderedDict


def letters(text):
    return Counter(c for c in text.lower() if c.isalpha())


def settings(defaults, *layers):
    return ChainMap(*reversed(layers), defaults)


class LRU:
    def __init__(self, size):
        self.size, self.data = size, OrderedDict()

    def get(self, key):
        if key in self.data:
            self.data.move_to_end(key)
        return self.data.get(key)

    def put(self, key, value):
        self.data[key] = value
        self.data.move_to_end(key)
        if len(self.data) > self.size:
            self.data.popitem(last=False)


def ordered(pairs):
    return OrderedDict(pairs)


# tests
from collections import Counter, OrderedDict

assert letters("Hello!") == Counter("hello") == {"h": 1, "e": 1, "l": 2, "o": 1}
assert letters("aab").most_common(1) == [("a", 2)] and letters("a")["z"] == 0
assert letters("ab") + letters("b") == Counter(a=1, b=2)
s = settings({"a": 1, "b": 2}, {"b": 3})
assert s["b"] == 3 and s["a"] == 1 and dict(s) == {"a": 1, "b": 3}
assert ordered([("a", 1), ("b", 2)]) != OrderedDict([("b", 2), ("a", 1)])
assert ordered([("a", 1), ("b", 2)]) == {"b": 2, "a": 1}
cache = LRU(2)
cache.put("a", 1)
cache.put("b", 2)
assert cache.get("a") == 1
cache.put("c", 3)
assert cache.get("b") is None and list(cache.data) == ["a", "c"]
# wrong: popitem(last=False) => popitem()
# wrong: text.lower() => text

# %% default dictionaries
from collections import defaultdict


def index(words):
    out = defaultdict(list)
    for word in words:
        out[word[0]].append(word)
    return out


def tree():
    return defaultdict(tree)


def constant(x):
    return defaultdict(lambda: x, a=1)


# tests
assert index(["ab", "ac", "b"]) == {"a": ["ab", "ac"], "b": ["b"]}
found = index(["x"])
assert found["nothing"] == [] and "nothing" in found
assert found.default_factory is list
t = tree()
t["a"]["b"]["c"] = 1
assert t["a"]["b"] == {"c": 1}
assert constant(5)["z"] == 5 and constant(5)["a"] == 1
# wrong: lambda: x => lambda: None

# %% arrays and heaps
import heapq
from array import array
from bisect import bisect_left, insort


def samples(n):
    return array("h", range(n))


def merge(*lists):
    return list(heapq.merge(*lists))


def smallest(heap, k):
    return [heapq.heappop(heap) for _ in range(k)]


def add(items, x):
    insort(items, x)
    return bisect_left(items, x)


# tests
from array import array

assert samples(3) == array("h", [0, 1, 2]) and samples(2).typecode == "h"
assert samples(3).tolist() == [0, 1, 2] and samples(1).itemsize == 2
assert merge([1, 4], [2], []) == [1, 2, 4]
heap = [1, 3, 2]
assert smallest(heap, 2) == [1, 2] and heap == [3]
xs = [1, 5]
assert add(xs, 3) == 1 and xs == [1, 3, 5]
# wrong: array("h", => array("i",

# %% regular expressions and matches
import re

WORD = re.compile(r"(?P<first>\w)(\w*)", re.IGNORECASE)


def capitals(text):
    return WORD.sub(lambda m: m["first"].upper() + m[2], text)


def find(pattern, text):
    return re.search(pattern, text)


def pattern():
    return WORD


# tests
import re

assert capitals("hello big world") == "Hello Big World"
m = find(r"(\d+)-(\d+)", "from 10-20")
assert m.group(1) == "10" and m.groups() == ("10", "20") and m.span() == (5, 10)
assert find("x", "abc") is None
assert bool(m) and m[0] == "10-20" and m.string == "from 10-20"
assert pattern() is WORD and pattern().flags & re.IGNORECASE
assert isinstance(pattern(), re.Pattern) and isinstance(m, re.Match)
assert pattern() == re.compile(r"(?P<first>\w)(\w*)", re.IGNORECASE)
# wrong: m["first"].upper() => m["first"].lower()

# %% text: formatting, templates, wrapping, unicode
import string
import textwrap
import unicodedata


def table(rows):
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}} | {value:>8,.2f}" for name, value in rows)


def fill(template, **values):
    return string.Template(template).safe_substitute(values)


def plain(text):
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


# tests
assert table([("a", 1), ("long", 1234.5)]) == "a    |     1.00\nlong | 1,234.50"
assert fill("$a and $b", a="x") == "x and $b"
assert plain("Ångström, é") == "Angstrom, e"
assert "%05.1f|%-4s|%x" % (3.14159, "ab", 255) == "003.1|ab  |ff"
assert "{0!r:>5}".format(plain("ü")) == "  'u'"
# wrong: safe_substitute => substitute
# wrong: {name:<{width}} => {name:>{width}}

# %% CSV, configuration and base64
import base64
import configparser
import csv
import io


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def to_csv(rows):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(rows)
    return out.getvalue()


def config(text):
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return parser


# tests
assert rows("a,b\n1,2\n") == [{"a": "1", "b": "2"}]
assert to_csv([["x", 'say "hi"'], [1, None]]) == 'x,"say ""hi"""\n1,\n'
c = config("[server]\nport = 80\nhosts = a, b\n")
assert c["server"].getint("port") == 80 and c.sections() == ["server"]
assert c.get("server", "hosts").split(", ") == ["a", "b"]
import base64

assert base64.b64encode(to_csv([[1]]).encode()) == b"MQo="
# wrong: lineterminator="\n" => lineterminator="\r\n"

# %% streams given by the test
import io


def count_lines(stream):
    return sum(1 for _ in stream)


def write(stream, *words):
    print(*words, file=stream, sep="-")
    return stream


def make():
    return io.StringIO("a\nb\n")


# tests
import io

assert count_lines(io.StringIO("a\nb\n")) == 2
out = io.StringIO()
assert write(out, "x", 1) is out and out.getvalue() == "x-1\n"
assert make().readline() == "a\n" and make().read() == "a\nb\n"
assert count_lines(make()) == 2
# wrong: sep="-" => sep=" "

# %% random numbers seeded by the test
import random


def draw(n):
    return [random.randint(1, 100) for _ in range(n)]


def shuffled(items, rng=None):
    items = list(items)
    (rng or random).shuffle(items)
    return items


# tests
import random

random.seed(7)
first = draw(5)
random.seed(7)
assert draw(5) == first and all(1 <= x <= 100 for x in first)
random.seed(7)
assert [random.randint(1, 100) for _ in range(5)] == first
assert shuffled(range(5), random.Random(1)) == shuffled(range(5), random.Random(1))
assert sorted(shuffled("cab")) == ["a", "b", "c"]
rng = random.Random(3)
shuffled(range(5), rng)
assert rng.random() != random.Random(3).random()
# wrong: random.randint(1, 100) for => random.SystemRandom().randint(1, 100) for

# %% types and modules as values
import collections
import math


def kind(name):
    return {"int": int, "list": list, "od": collections.OrderedDict}[name]


def module():
    return math


def build(cls, *args):
    return cls(*args)


# tests
import math

assert kind("int") is int and kind("list")("ab") == ["a", "b"]
assert module() is math and module().floor(2.5) == 2
assert build(dict, [("a", 1)]) == {"a": 1}
assert build(kind("od")) == {}
assert type(build(kind("int"), "7")) is int


class Mine:
    def __init__(self, x):
        self.x = x


assert build(Mine, 3).x == 3
# wrong: "od": collections.OrderedDict => "od": list


# %% ellipsis, not implemented and other odd values
def odd(which):
    return {"dots": ..., "ni": NotImplemented, "type": type(None), "empty": (), "range": range(0)}[which]


# tests
assert odd("dots") is ... and odd("ni") is NotImplemented
assert odd("type") is type(None) and odd("empty") == ()
assert odd("range") == range(5, 5) and not odd("range")
assert isinstance(None, odd("type"))
# wrong: "ni": NotImplemented => "ni": NotImplementedError

# %% statistics, networks and urls
import ipaddress
import statistics
from urllib.parse import parse_qs, urlencode, urlsplit


def summary(xs):
    return statistics.mean(xs), statistics.median(xs), round(statistics.stdev(xs), 3)


def query(url):
    return {k: v[0] for k, v in parse_qs(urlsplit(url).query).items()}


def network(text):
    return ipaddress.ip_network(text)


# tests
assert summary([1, 2, 3, 10]) == (4, 2.5, 4.082)
assert query("http://x/y?a=1&b=%20") == {"a": "1", "b": " "}
n = network("10.0.0.0/30")
assert n.num_addresses == 4 and str(n[1]) == "10.0.0.1"
import ipaddress

assert ipaddress.ip_address("10.0.0.2") in n and n == ipaddress.ip_network("10.0.0.0/30")
# wrong: statistics.stdev => statistics.pstdev


# %% a time zone of the program's own
from datetime import datetime, timedelta, tzinfo


class Zone(tzinfo):
    def utcoffset(self, moment):
        return timedelta(hours=3)

    def dst(self, moment):
        return timedelta(0)

    def tzname(self, moment):
        return "Z3"


def noon():
    return datetime(2024, 1, 1, 12, tzinfo=Zone())


# tests
from datetime import datetime, timezone

assert noon().astimezone(timezone.utc).hour == 9
assert noon() == datetime(2024, 1, 1, 9, tzinfo=timezone.utc) and noon().tzname() == "Z3"
# wrong: hours=3 => hours=4


# %% settings of modules that the test changes
import calendar


def header():
    return calendar.weekheader(2)


# tests
import calendar

calendar.setfirstweekday(6)
assert header() == "Su Mo Tu We Th Fr Sa"
# wrong: weekheader(2) => weekheader(3)
