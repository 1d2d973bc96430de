"""Honest programs: async, threads, processes, files, the environment, and tests that stand in for parts of the world."""

# %% coroutines
import asyncio


async def fetch(name, delay=0):
    await asyncio.sleep(delay)
    if name == "bad":
        raise LookupError(name)
    return name.upper()


async def fetch_all(names):
    return await asyncio.gather(*(fetch(n) for n in names), return_exceptions=True)


# tests
import asyncio

assert asyncio.run(fetch("a")) == "A"
results = asyncio.run(fetch_all(["x", "bad", "y"]))
assert results[0] == "X" and results[2] == "Y"
assert isinstance(results[1], LookupError) and results[1].args == ("bad",)
try:
    asyncio.run(fetch("bad"))
except LookupError:
    pass
else:
    assert False
assert asyncio.iscoroutinefunction(fetch)
# wrong: return_exceptions=True => return_exceptions=False
# wrong: name.upper() => name

# %% an async test around an async program
import asyncio


class Queue:
    def __init__(self):
        self.items = asyncio.Queue()
        self.done = []

    async def work(self):
        while (item := await self.items.get()) is not None:
            self.done.append(item * 2)

    async def __aenter__(self):
        self.task = asyncio.create_task(self.work())
        return self

    async def __aexit__(self, *_):
        await self.items.put(None)
        await self.task


# tests
import asyncio


async def main():
    async with Queue() as q:
        for i in range(3):
            await q.items.put(i)
    return q.done


assert asyncio.run(main()) == [0, 2, 4]
# wrong: item * 2 => item + 2

# %% async generators and timeouts
import asyncio


async def ticks(n):
    for i in range(n):
        yield i
        await asyncio.sleep(0)


async def first(aiter, n):
    out = []
    async for x in aiter:
        out.append(x)
        if len(out) == n:
            break
    return out


async def limited(coroutine, seconds):
    try:
        return await asyncio.wait_for(coroutine, seconds)
    except asyncio.TimeoutError:
        return "late"


# tests
import asyncio


async def collect():
    return [x async for x in ticks(3)]


async def mine():
    for c in "abc":
        yield c


assert asyncio.run(collect()) == [0, 1, 2]
assert asyncio.run(first(mine(), 2)) == ["a", "b"]
assert asyncio.run(limited(asyncio.sleep(10), 0.01)) == "late"
assert asyncio.run(limited(asyncio.sleep(0, "ok"), 5)) == "ok"
# wrong: len(out) == n => len(out) > n

# %% a check function that runs coroutines
import asyncio


async def add_later(a, b):
    await asyncio.sleep(0)
    return a + b


# tests: check add_later
import asyncio


def check(candidate):
    assert asyncio.run(candidate(1, 2)) == 3
    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(candidate("a", "b")) == "ab"
    loop.close()


# wrong: a + b => b + a

# %% threads and locks
import threading


class Counter:
    def __init__(self):
        self.value = 0
        self.lock = threading.Lock()

    def add(self, n):
        for _ in range(n):
            with self.lock:
                self.value += 1


def count(threads, n):
    counter = Counter()
    workers = [threading.Thread(target=counter.add, args=(n,)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return counter.value


# tests
assert count(4, 500) == 2000
counter = Counter()
with counter.lock:
    assert not counter.lock.acquire(blocking=False)
counter.add(2)
assert counter.value == 2
# wrong: self.value += 1 => self.value += 2


# %% threads of the test's own
class Once:
    def __init__(self, f):
        self.f = f
        self.done = False

    def __call__(self):
        if not self.done:
            self.done = True
            self.f()


def square(x):
    return x * x


# tests
import threading
from concurrent.futures import ThreadPoolExecutor

calls = []
once = Once(lambda: calls.append(1))
for _ in range(3):
    thread = threading.Thread(target=once)
    thread.start()
    thread.join()
assert calls == [1]
with ThreadPoolExecutor(3) as pool:
    assert list(pool.map(square, range(5))) == [0, 1, 4, 9, 16]
# wrong: if not self.done => if not self.done or True

# %% thread pools, queues and events
import queue
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed


def mapped(f, items):
    with ThreadPoolExecutor(2) as pool:
        futures = {pool.submit(f, item): item for item in items}
        return {futures[done]: done.exception() or done.result() for done in as_completed(futures)}


def pipeline(items):
    q, out, ready = queue.Queue(), [], threading.Event()

    def consume():
        while (item := q.get()) is not None:
            out.append(item)
        ready.set()

    threading.Thread(target=consume, daemon=True).start()
    for item in [*items, None]:
        q.put(item)
    return ready.wait(5) and out


# tests
found = mapped(lambda x: 10 // x, [1, 5, 0])
assert found[1] == 10 and found[5] == 2
assert isinstance(found[0], ZeroDivisionError)
assert pipeline("abc") == ["a", "b", "c"]
# wrong: out.append(item) => out.insert(0, item)

# %% context variables and thread locals
import contextvars
import threading

current = contextvars.ContextVar("current", default="nobody")
local = threading.local()


def who():
    return current.get()


def acting(name, f):
    token = current.set(name)
    try:
        return f()
    finally:
        current.reset(token)


def stamp(x):
    before, local.x = getattr(local, "x", None), x
    return before


# tests
import threading

assert who() == "nobody"
assert acting("ann", who) == "ann" and who() == "nobody"
current.set("bob")
assert who() == "bob"
assert stamp(1) is None and stamp(2) == 1
got = []
thread = threading.Thread(target=lambda: got.append(stamp(3)))
thread.start()
thread.join()
assert got == [None] and stamp(0) == 2
# wrong: current.reset(token) => pass

# %% a process pool
from concurrent.futures import ProcessPoolExecutor


def square(x):
    return x * x


def squares(xs):
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(square, xs))


# tests
assert squares([1, 2, 3]) == [1, 4, 9]
# wrong: x * x => x + x

# %% multiprocessing
import multiprocessing


def worker(n, out):
    out.put((n, n * 2))


def run(n):
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    jobs = [context.Process(target=worker, args=(i, out)) for i in range(n)]
    for job in jobs:
        job.start()
    found = dict(out.get(timeout=10) for _ in jobs)
    for job in jobs:
        job.join()
    return found, [job.exitcode for job in jobs]


def pooled(xs):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, xs)


# tests
found, codes = run(2)
assert found == {0: 0, 1: 2} and codes == [0, 0]
assert pooled([-1, 2]) == [1, 2]
# wrong: n * 2 => n * 3


# %% a pool of the test's own
def cube(x):
    return x**3


# tests
from concurrent.futures import ProcessPoolExecutor
import multiprocessing

with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    assert list(pool.map(cube, [1, 2])) == [1, 8]
# wrong: x**3 => x**2

# %% child processes
import subprocess
import sys


def python(code, text=""):
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], input=text, capture_output=True, text=True, timeout=20
    )
    return done.returncode, done.stdout.strip()


def shell(command):
    return subprocess.check_output(command, shell=True, text=True)


# tests
assert python("print(input()[::-1])", "abc") == (0, "cba")
assert python("import sys; sys.exit(3)")[0] == 3
assert shell("echo hello | tr a-z A-Z") == "HELLO\n"
# wrong: .strip() =>


# %% files that the test writes
def longest(path):
    with open(path) as file:
        return max((line.rstrip("\n") for line in file), key=len, default="")


def count(path):
    return sum(1 for _ in open(path, "rb"))


# tests
import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.txt")
    with open(path, "w") as file:
        file.write("a\nlonger\nbb\n")
    assert longest(path) == "longer" and count(path) == 3
    open(path, "w").close()
    assert longest(path) == ""
try:
    longest(path)
except FileNotFoundError as error:
    assert error.filename == path
else:
    assert False
# wrong: default="" => default=None
# wrong: line.rstrip("\n") => line

# %% files that the program writes
import json
from pathlib import Path


class Store:
    def __init__(self, path):
        self.path = Path(path)

    def save(self, key, value):
        data = self.load()
        data[key] = value
        self.path.write_text(json.dumps(data))

    def load(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}


# tests
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "store.json"
    store = Store(path)
    assert store.load() == {}
    store.save("a", [1])
    store.save("b", None)
    assert path.read_text() == '{"a": [1], "b": null}'
    assert Store(str(path)).load() == {"a": [1], "b": None}
    path.write_text('{"c": 3}')
    assert store.load() == {"c": 3}
# wrong: data = self.load() => data = {}

# %% the working directory and open files
import os


def listing(folder="."):
    return sorted(name for name in os.listdir(folder) if not name.startswith((".", "_")))


def append(file, text):
    file.write(text)
    file.seek(0)
    return file.read()


# tests
import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    home = os.getcwd()
    os.chdir(folder)
    open("b", "w").close()
    os.mkdir("a")
    open(".hidden", "w").close()
    assert listing() == ["a", "b"]
    os.chdir(home)
    with open(os.path.join(folder, "f"), "w+") as file:
        assert append(file, "text") == "text"
        assert file.tell() == 4
# wrong: file.seek(0) => pass
# wrong: (".", "_") => "_"

# %% the environment
import os


def debug():
    return os.environ.get("APP_DEBUG", "0") == "1"


def set_level(level):
    os.environ["APP_LEVEL"] = str(level)


# tests
import os

assert debug() is False
os.environ["APP_DEBUG"] = "1"
assert debug() is True
del os.environ["APP_DEBUG"]
assert not debug()
set_level(3)
assert os.environ["APP_LEVEL"] == "3" and os.getenv("APP_LEVEL") == "3"
# wrong: == "1" => != "1"
# wrong: str(level) => str(level + 1)

# %% standard input
import sys


def ask(prompt):
    return input(prompt).strip().title()


def total():
    return sum(int(line) for line in sys.stdin if line.strip())


# tests
import io
import sys
from unittest.mock import patch

with patch("builtins.input", return_value=" bob "):
    assert ask("name? ") == "Bob"
sys.stdin = io.StringIO("1\n2\n\n3\n")
assert total() == 6
sys.stdin = io.StringIO("ann\n")
assert ask("") == "Ann"
# wrong: .title() => .upper()

# %% what is printed
import sys


def greet(name, times=1):
    for _ in range(times):
        print("Hello,", name)


def complain(text):
    print(text, file=sys.stderr)


# tests
import contextlib
import io

out = io.StringIO()
with contextlib.redirect_stdout(out):
    assert greet("Bob", 2) is None
assert out.getvalue() == "Hello, Bob\nHello, Bob\n"
err = io.StringIO()
with contextlib.redirect_stderr(err):
    complain("no")
assert err.getvalue() == "no\n"
# wrong: range(times) => range(1)
# wrong: file=sys.stderr => file=sys.stdout


# %% what is printed, by replacing sys.stdout
def countdown(n):
    while n:
        print(n, end=" ")
        n -= 1
    print("lift-off", flush=True)


# tests
import io
import sys

before, sys.stdout = sys.stdout, io.StringIO()
countdown(3)
text, sys.stdout = sys.stdout.getvalue(), before
assert text == "3 2 1 lift-off\n"
# wrong: end=" " => end=""

# %% logging
import logging

log = logging.getLogger("app")


def process(items):
    done = 0
    for item in items:
        if item is None:
            log.warning("skipped item %d", done)
            continue
        log.debug("item %s", item)
        done += 1
    return done


# tests
import logging


class Keep(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append((record.levelname, record.getMessage()))


keep = Keep()
logger = logging.getLogger("app")
logger.addHandler(keep)
logger.setLevel(logging.INFO)
assert process(["a", None, "b"]) == 2
assert keep.texts == [("WARNING", "skipped item 1")]
# wrong: log.debug => log.info

# %% mock.patch on the program
import time


def now():
    return time.time()


def elapsed(start):
    return round(now() - start, 1)


def wait_until(ready, tries=3):
    for attempt in range(tries):
        if ready():
            return attempt
        time.sleep(1)
    raise TimeoutError(f"after {tries} tries")


# tests
from unittest import mock

with mock.patch("time.time", return_value=105.25):
    assert elapsed(100) in (5.2, 5.3)
with mock.patch("time.sleep") as sleep:
    ready = mock.Mock(side_effect=[False, False, True])
    assert wait_until(ready) == 2
    assert sleep.call_count == 2 and ready.call_count == 3
    try:
        wait_until(lambda: False, 2)
    except TimeoutError as error:
        assert str(error) == "after 2 tries"
    else:
        assert False
    assert sleep.call_count == 4
with mock.patch(f"{__name__}.now", return_value=7):
    assert elapsed(4) == 3
# wrong: range(tries) => range(tries + 1)
# wrong: - start, 1 => - start


# %% mock objects as arguments
class Mailer:
    def __init__(self, smtp):
        self.smtp = smtp

    def send(self, to, text):
        if "@" not in to:
            return False
        self.smtp.sendmail("me@x", [to], text)
        return True


def notify(mailer, users):
    return [user for user in users if mailer.send(user, f"Hi {user}")]


# tests
from unittest.mock import MagicMock, call

smtp = MagicMock()
assert Mailer(smtp).send("a@b", "x") is True
smtp.sendmail.assert_called_once_with("me@x", ["a@b"], "x")
assert Mailer(smtp).send("nobody", "x") is False
mailer = MagicMock()
mailer.send.side_effect = lambda to, text: to != "b"
assert notify(mailer, ["a", "b"]) == ["a"]
assert mailer.send.call_args_list == [call("a", "Hi a"), call("b", "Hi b")]
# wrong: [to], text => to, text
# wrong: f"Hi {user}" => f"Hello {user}"


# %% unittest by hand
def slug(text):
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


# tests
import unittest


class SlugTest(unittest.TestCase):
    def test_words(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")

    def test_empty(self):
        self.assertEqual(slug(""), "")

    def test_type(self):
        with self.assertRaises(AttributeError):
            slug(None)


result = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromTestCase(SlugTest))
assert result.wasSuccessful() and result.testsRun == 3
# wrong: text.lower() => text

# %% time and cancellation
import time
from functools import wraps


def timed(f):
    @wraps(f)
    def inner(*args):
        start = time.perf_counter()
        try:
            return f(*args)
        finally:
            inner.last = time.perf_counter() - start

    inner.last = None
    return inner


@timed
def nap(seconds):
    time.sleep(seconds)
    return "rested"


# tests
assert nap.last is None
assert nap(0.02) == "rested"
assert 0.02 <= nap.last < 5
# wrong: time.sleep(seconds) => pass

# %% signals
import signal


def with_handler(f):
    got = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
    try:
        f()
    finally:
        signal.signal(signal.SIGUSR1, before)
    return got


# tests
import os
import signal

assert with_handler(lambda: os.kill(os.getpid(), signal.SIGUSR1)) == [signal.SIGUSR1]
assert with_handler(lambda: None) == []
# wrong: got.append(number) => got.append(-number)

# %% databases and sockets in memory
import socket
import sqlite3


class Notes:
    def __init__(self):
        self.db = sqlite3.connect(":memory:")
        self.db.execute("create table notes (id integer primary key, text unique)")

    def add(self, text):
        return self.db.execute("insert into notes (text) values (?)", (text,)).lastrowid

    def search(self, word):
        return [
            row[0]
            for row in self.db.execute("select text from notes where text like ? order by id", (f"%{word}%",))
        ]


def echo(text):
    a, b = socket.socketpair()
    with a, b:
        a.sendall(text.encode())
        return b.recv(100).decode()[::-1]


# tests
import sqlite3

notes = Notes()
assert notes.add("buy milk") == 1 and notes.add("milk the cow") == 2
assert notes.search("milk") == ["buy milk", "milk the cow"] and notes.search("x") == []
try:
    notes.add("buy milk")
except sqlite3.IntegrityError as error:
    assert "UNIQUE" in str(error)
else:
    assert False
assert echo("abc") == "cba"
# wrong: text unique => text
# wrong: order by id => order by -id

# %% imports made by the program
import importlib
import sys
import types


def load(name, source):
    module = types.ModuleType(name)
    exec(source, module.__dict__)
    sys.modules[name] = module
    return module


def call(path, *args):
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)(*args)


# tests
module = load("made_up", "def f(x):\n    return x + 1\nLIMIT = 3\n")
assert module.f(1) == 2 and module.LIMIT == 3
import made_up

assert made_up is module
assert call("math:sqrt", 16) == 4 and call("made_up:f", 4) == 5
# wrong: path.partition(":") => path.partition("::")
