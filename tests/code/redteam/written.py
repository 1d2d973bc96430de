"""Answers to the judge that are written by hand: well-formed as JSON, and nothing that the code that answers would say.

Each candidate answers the call of `f` itself, and goes on answering so; what it says is a line of Python that uses `say`.
The numbers of the exchange (see `codec`): `X` is the argument's, `C` the answer's own, `C + 1` the first thing in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftverify_code.sandbox import Limits, Suite

from .frames import CHANNEL

__all__ = ["ENDLESS", "ENDS", "WRITTEN", "Written"]

SAYS = (
    CHANNEL
    + """
sys.modules["child"]._LoadedProgram._changed = lambda self: ""
at = socket.socket(fileno=channel())
asked, C, X = 0, 4, 2
def exactly(count):
    data = b""
    while len(data) < count:
        more = at.recv(count - len(data))
        if not more: os._exit(0)
        data += more
def raw(data): at.sendall(struct.pack(">I", len(data)) + data)
def say(value, changes=(), kind="value", output="", refused=()):
    raw(json.dumps([asked, kind, value, changes, output, refused], ensure_ascii=False).encode())
def error(name="ValueError", args=(), text="", line=0, missing=""):
    return [name, None if args is None else {"tuple": list(args)}, text, line, missing]
def twice(depth, last):
    # Lists of two: the same one twice, `depth` times; the last of all differs.
    found = [[0]]
    for at in range(depth): found.append([{"ref": START + at}, {"ref": START + at}])
    found.append([{"ref": START + depth}, last])
    return found
def f(x):
    global START, asked
    START = C + 3
    while True:
        asked += 1
        SAID
        exactly(struct.unpack(">I", at.recv(4, socket.MSG_WAITALL) or os._exit(0))[0])
"""
)

EQUAL = "x = [1]\ny = f(x)\nassert y == 1 and y == 2"
RAISES = "y = f([1])\nraise y"


@dataclass(frozen=True)
class Written:
    """A candidate.

    Args:
        name: of the test.
        said: what it answers.
        tests: that no program passes.
        hole: why the judge believes or does not survive it yet.
    """

    name: str
    said: str
    tests: str = EQUAL
    hole: str = ""

    @property
    def program(self) -> str:
        return SAYS.replace("SAID", self.said)

    @property
    def suite(self) -> Suite:
        return Suite("script", ("f",), source=self.tests)


CAUGHT = "try: f([1])\nexcept BaseException as caught: raise KeyError from caught"

THINGS = [
    Written(f"a {tag} of {content!r}", f"say({{{tag!r}: {content!r}}})")
    for tag, content in (
        ("class", ["C", "plain", [], False, ["__eq__"]]),
        ("named", [{"type": "str"}, [1]]),
        ("member", [{"type": "int"}, "A", 1]),
        ("record", [{"type": "ValueError"}, ["a", 1]]),
        ("handle", ["function", None, "n"]),
        ("exception", [{"type": "ValueError"}, {"tuple": []}]),
        ("type", "builtins.eval"),
        ("type", "subprocess.Popen"),
        ("text", ["zoneinfo.ZoneInfo", "../../../../etc/passwd"]),
        ("array", ["|O8", [1], "AAAAAAAAAAA="]),
        ("scalar", ["<f8", 1]),
        ("range", [0, 1 << 62, 1]),
        ("Decimal", ["1E+999999999"]),
        ("constant", "NotImplemented"),
        ("tuple", None),
        ("tuple", {"tuple": 1}),
        ("set", [[1]]),
        ("dict", [1]),
        ("frozenset", [{"dict": []}]),
        ("complex", [{"dict": []}, 1]),
        ("complex", ["nan", 0]),
        ("bytes", [1]),
        ("int", ""),
        ("int", "0x"),
        ("float", "nan"),
        ("str", "////"),
        ("", 1),
    )
]

ERRORS = [
    *(
        Written(f"raises {name}", f"say({content}, kind='raised')", tests)
        for name, content in (
            ("a list", "[1]"),
            ("no arguments", 'error("KeyError", None)'),
            ("a type", 'error("int", (1,))'),
            ("a function", 'error("print", (1,))'),
            ("nothing known", 'error("_Stop")'),
            ("the end of a loop", 'error("StopIteration")'),
            ("a group of none", 'error("ExceptionGroup")'),
            ("what asks for more", 'error("UnicodeDecodeError", (1, 2))'),
            ("an interrupt", 'error("KeyboardInterrupt")'),
            ("an exit", 'error("SystemExit", (0,))'),
            ("a failed assertion", 'error("AssertionError")'),
            ("a warning", 'error("UserWarning", ({"ref": 0},))'),
            ("a name of the tests", 'error("NameError", None, missing="y")'),
            ("a line of no program", "error(line=10 ** 30)"),
            ("a line before it", "error(line=-5)"),
            ("a long name", 'error("x" * 70000, None, "y" * 70000)'),
            ("a name with a line's end", 'error("a\\nb", None)'),
        )
        for tests in (RAISES, CAUGHT)
    ),
    Written("apart for no reason", "say([], kind='apart')"),
    Written("apart for a long one", "say(['x' * 70000], kind='apart')"),
    Written("apart for what is no text", "say([[1]], kind='apart')"),
    Written("does not parse any more", "say(['x', 1], kind='syntax')"),
    Written("refuses what is no text", "say(1, refused=[1])"),
    Written("refuses very much", "say(1, refused=['x' * 70000] * 99)"),
]

NUMBERS = [
    *(
        Written(f"a reference to {number}", f'say({{"ref": {number}}})')
        for number in ("-1", "True", "10 ** 9", "'0'", "2.0", "C + 1", "None")
    ),
    Written("the request", 'say({"ref": 0})'),
    Written("the answer", 'say({"ref": C})', "y = f([1])\nassert y == 1"),
    Written("a tuple in itself", 'say({"tuple": [{"ref": C + 1}]})'),
    Written("a set in itself", 'say({"set": [{"ref": C + 1}]})'),
    Written(
        "a list in itself", 'say([{"ref": C + 1}])', "y = f([1])\nassert y[0] == y and y == [y] and y == 1"
    ),
    *(
        Written(f"changes {what}", f"say([1], {changed})", "x = [1]\ny = f(x)\nassert x == 1 or y == 1")
        for what, changed in (
            ("the request", "[[0, [1]], [1, [1]]]"),
            ("the keywords", "[[3, ['a', 1]]]"),
            ("what is not there", "[[10 ** 9, [1]]]"),
            ("what is less than nothing", "[[-1, [1]]]"),
            ("expected", "[[True, [1]]]"),
            ("all requests", "[[n, [1]] for n in range(C)]"),
            ("its own answer", "[[C + 1, [1]]]"),
            ("to a number", "[[X, 5]]"),
            ("to nothing", "[[X]]"),
            ("no list", "5"),
            ("to itself", "[[X, {'ref': X}]]"),
            ("to what contains itself", "[[X, [{'ref': X}]]]"),
            ("to what contains itself, often", "[[X, [{'ref': X}] * 9]]"),
            ("to a dict", "[[X, {'dict': [1, 2]}]]"),
        )
    ),
    Written("output that is none", "say(1, output='x' * (1 << 20))"),
    Written("output that is a list", "say(1, output=['x'])"),
    Written("no answer's number", "asked = -5; say(1)"),
    Written("an empty answer", "raw(b'')"),
    Written("no line's end", "raw(b'[1]')"),
    Written("an answer of nested lists", "raw(b'[' * ((16 << 20) - 9))"),
    Written("an answer of nested tags", "raw(b'{\"tuple\":[' * (1 << 20))"),
    Written(
        "an answer of 300 nested tags",
        "value = 1\n        for _ in range(300): value = {'tuple': [value]}\n        say(value)",
    ),
    Written("more than a frame", "raw(b'[' * ((16 << 20) + 9))"),
    Written("two answers", "say(1); say(1)"),
]

WRITTEN = [*THINGS, *ERRORS, *NUMBERS]

FLOOD = "[each * ((1 << 61) - 1) for each in range(100_000)]"
ENDLESS = [
    Written("a set of numbers that collide", f'say({{"set": {FLOOD}}})'),
    Written("keys that collide", f'say({{"dict": {FLOOD} * 2}})'),
    Written("a change to numbers that collide", f"say(1, [[X, {FLOOD}]])", "x = {1}\nassert f(x) == 2"),
    Written(
        "equal without end",
        "a = twice(60, 1); START += 63; say([a, twice(60, 2)])",
        "y = f([1])\nassert y[0][-1] == y[1][-1]",
    ),
    Written("text without end", "say([twice(60, 1)])", "assert str(f([1])[0][-1]) == 1"),
    Written("lists without end", "raw(b'[1,\"value\",[' + b'[],' * (5 << 20) + b'[]],[],\"\",[]]')"),
]
"""What takes the judge's own time, some of it where no alarm is heard."""
ENDS = Limits(wall=1.0, cpu=1.0)
