"""Candidates that speak the judge's protocol themselves: they look at what comes, and change what they answer.

None of it is written down here: a candidate puts itself between the channel and the code that answers, and every frame
passes through its hands. Answers are lines of JSON; each place in one, and each tag that the code knows, can be anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftverify_code.sandbox import Suite

__all__ = ["AHEAD_OF_TIME", "CHAIN", "MUTATED", "MUTATES", "PEEKS", "Peek"]

CHANNEL = """
import gc, json, os, re, socket, stat, struct, sys, threading
def channel():
    for number in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode): return number
        except OSError: pass
"""

CHAIN = Suite(
    "asserts",
    ("f",),
    asserts=(
        "assert f(3) == 100913",
        "assert f(100913) == 101344",
        "assert f(101344) == 108709",
        "assert f(108709) == 3",
    ),
)
"""Each call's answer is the next one's argument: who sees the calls to come knows the answers."""


@dataclass(frozen=True)
class Peek:
    """A candidate that follows another.

    Args:
        name: of the test.
        before: the other.
        program: that answers from what it sees of the calls to come.
        hole: why the judge shows them yet.
    """

    name: str
    before: str
    program: str
    hole: str = ""


LOOKS = (
    CHANNEL
    + """
def seen():
    frame = sys._getframe()
    while frame is not None:
        for part in list(frame.f_locals.values()):
            if type(part) in (bytes, bytearray, memoryview): yield bytes(part)
        frame = frame.f_back
    for each in gc.get_objects():
        if type(each) in (list, tuple, dict):
            for part in (each.values() if type(each) is dict else each):
                if type(part) in (bytes, bytearray): yield bytes(part)
    at = socket.socket(fileno=os.dup(channel()))
    try: yield at.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError: pass
SIX = rb"(?<![0-9])[0-9]{6}(?![0-9])"
def f(x):
    texts = [[int(each) for each in re.findall(SIX, text)] for text in seen()]
    after = [numbers[numbers.index(x) + 1:] for numbers in texts if x in numbers] if x > 3 else texts
    return next((numbers[0] for numbers in after if numbers), 3)
"""
)
"""Answers from the calls that lie in its process before they are made."""

AHEAD_OF_TIME = """
mine, theirs = socket.socketpair()
theirs.send(b'["f",[3]]["f",[100913]]["f",[101344]]')
print(f(3), f(100913))
"""
"""What follows the program where calls do lie in its process: it prints the right answers."""

PEEKS = [
    Peek("after a wrong one", "def f(x): return 0", LOOKS),
    Peek(
        "after a right one",
        "def f(x): return {3: 100913, 100913: 101344, 101344: 108709, 108709: 3}[x]",
        LOOKS,
    ),
]

MUTATES = (
    CHANNEL
    + """
HEAD = struct.Struct(">I")
NAMES = ("", "__class__", "__eq__", "__init__", "__getattribute__", "__reduce__", "args", "int", "builtins.int",
    "AssertionError", "GeneratorExit", "KeyboardInterrupt", "StopIteration", "SystemExit", "object", "type", "eval",
    "value", "pass", "x" * 70000, "a\\nb", "\\ud800", "None")
NODES = (None, True, False, 0, -1, 1, 2, 10 ** 9, 10 ** 4000, 1e308, float("inf"), float("nan"), [], {}, [[]], [None] * 9,
    {"": 1}, {"a": 1, "b": 2})
def deep():
    found = []
    for _ in range(900): found = [found]
    return found
def tags():
    found = set()
    for each in vars(sys.modules.get("codec", sys)).values():
        if type(each) is dict and each and all(type(key) is str for key in each) and len(each) < 90: found |= set(each)
    return sorted(found)
def places(node, way=()):
    yield way
    if type(node) in (list, dict):
        for key, part in node.items() if type(node) is dict else enumerate(node): yield from places(part, (*way, key))
def put(node, way, new):
    if not way: return new
    node = node.copy()
    node[way[0]] = put(node[way[0]], way[1:], new)
    return node
def mutations(node):
    for way in places(node):
        for new in (*NODES, deep(), *NAMES): yield way, new
    for way in places(node):
        if len(way) in (1, 2, 3):
            for tag in tags():
                for content in (None, -1, 0, "int", [], ["int", True], [0], [[]], ["__class__", 1], {"a": 1}, [-1, [1]], 10 ** 12):
                    yield way, {tag: content}
def forged(text):
    answer = json.loads(text)
    every = list(mutations(answer))
    if N >= len(every): return None
    try: return json.dumps(put(answer, *every[N]), ensure_ascii=False).encode("utf-8", "surrogatepass")
    except RecursionError: return b"[" * 5000
def exactly(at, count):
    data = b""
    while len(data) < count:
        more = at.recv(count - len(data))
        if not more: os._exit(0)
        data += more
    return data
def relay(source, sink, change):
    count = 0
    while True:
        data = exactly(source, HEAD.unpack(exactly(source, 4))[0])
        if change and count == 1: data = forged(data) or data
        count += 1
        sink.sendall(HEAD.pack(len(data)) + data)
sys.modules["child"]._LoadedProgram._changed = lambda self: ""
number = channel()
real = socket.socket(fileno=os.dup(number))
mine, theirs = socket.socketpair()
os.dup2(theirs.fileno(), number)
theirs.close()
for way in ((real, mine, False), (mine, real, True)): threading.Thread(target=relay, args=way, daemon=True).start()
def f(x):
    if KIND == "raises":
        raise ValueError(1, "two")
    if isinstance(x, list): x.append(2)
    return [1, "a", (2.5, b"x", {"k": {3}}), x] if KIND == "plain" else object()
"""
)
"""The N-th change to the answer to the first call; it answers as before where there are no so many. KIND: of answer."""

MUTATED = {
    "plain": Suite(
        "script",
        ("f",),
        "x = [1]\ny = f(x)\nassert y == 100913 or (y == 1 and y == 2) or (x == 3 and len(x) < 0)\n",
    ),
    "objects": Suite(
        "script",
        ("f",),
        "x = [1]\ny = f(x)\nassert y == 100913 or (y[0] == 1 and y[0] == 2) or (x == 3 and len(x) < 0)\n",
    ),
    "raises": Suite(
        "script",
        ("f",),
        "try: f([1])\nexcept ValueError as error: assert error.args == 100913 and error.args == 3\nelse: assert 0\n",
    ),
}
"""No value is what these ask for: what passes them lies."""
