"""Answers to the judge that are written by hand: well-formed as JSON, and nothing that the code that answers would say.

Each candidate answers the call of `f` itself, and goes on answering so; what it says is a line of Python that uses `say`.
The numbers of the channel (see `codec`): `C` is the answer's own, `C + 1` the first thing in it; `X` is the argument's.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftverify_code.sandbox import Limits, Suite

from .frames import CHANNEL

__all__ = ["ENDLESS", "ENDS", "WRITTEN", "Written"]

SAYS = (
    CHANNEL
    + """
frame = sys._getframe()
while type(frame.f_locals.get("program")).__name__ != "_LoadedProgram": frame = frame.f_back
wire = frame.f_locals["program"].wire
at = socket.socket(fileno=channel())
asked = 0
def exactly(count):
    data = b""
    while len(data) < count:
        more = at.recv(count - len(data))
        if not more: os._exit(0)
        data += more
def raw(data): at.sendall(struct.pack(">I", len(data)) + data)
def say(value, changed=None, kind="value", kept=(), output=""):
    told = [asked, kind, value, changed, 0, output]
    raw(json.dumps(told, ensure_ascii=False).encode() + b"\\n" + json.dumps(kept).encode())
def kind(form, detail=None, bases=(), hidden=(), name="K"): return {"class": [name, form, list(bases), detail, list(hidden)]}
def enum(names=("A",), values=(1,), base="Enum", **more): return kind("enum", [base, list(names), list(values)], **more)
def member(*given, name="A", value=1, **more): return {"member": [enum(*given, **more), name, value]}
def named(fields=("a",), items=(1,), **more): return {"named": [kind("named", fields, **more), list(items)]}
def field(name="a", shown=True, compared=True, init=True, keyword=False): return [name, shown, compared, init, keyword]
def record(fields=None, items=("a", 1), flags=(True, True, False, False, False), **more):
    return {"record": [kind("record", [fields or [field()], list(flags)], **more), list(items)]}
def error(of={"type": "ValueError"}, args=(), attributes=(), text=None, cause=None, context=None):
    return {"exception": [of, {"tuple": list(args)}, {"dict": list(attributes)}, text, cause, context, False]}
def own(base="ValueError", hidden=(), **more): return error(kind("exception", False, [{"type": base}], hidden), **more)
def handle(form="object", of=None, name="n"): return {"handle": [form, of, name]}
def twice(depth, last):
    # Lists of two: the same one twice, `depth` times; the last of all differs.
    found = [[0]]
    for at in range(depth): found.append([{"ref": START + at}, {"ref": START + at}])
    found.append([{"ref": START + depth}, last])
    return found
def f(x):
    global C, X, START, asked
    C = wire.count
    X, START = C - 2, C + 3
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


CLASSES = [
    Written("a member compared by a type", said='say(member(["__eq__", "A"], [{"type": "str"}, 1]))'),
    Written(
        "a member without order",
        said='say(member(["A", "__lt__"], [1, {"type": "str"}]))',
        tests="assert f([1]) < 1",
    ),
    Written("a member as long as a type says", 'say(member(["A", "_missing_"], [1, {"type": "str"}]))'),
    Written("members called mro", 'say(member(["mro", "A"], [1, 2]))'),
    Written("members twice", 'say(member(["A", "A"], [1, 2]))'),
    Written("members that are no names", "say(member([1, None], [1, 2]))"),
    Written("fewer members than values", 'say(member(["A"], [1, 2]))'),
    *(
        Written(f"members of {base}", f"say(member(base={base!r}))")
        for base in (
            "EnumMeta",
            "EnumType",
            "EnumCheck",
            "FlagBoundary",
            "auto",
            "KEEP",
            "sys",
            "bltns",
            "",
            "x+Enum",
        )
    ),
    Written("members that are no numbers", 'say(member(["A"], ["x"], base="int+Enum"))'),
    Written("a member that is not there", 'say(member(name="B"))'),
    Written("a value that is not there", "say(member(name=None, value=7))"),
    Written("a member of a class of tuples", 'say({"member": [kind("named", ["a"]), "A", 1]})'),
    *(
        Written(f"a tuple with fields {fields!r}", f"say(named({fields!r}))")
        for fields in (["__class__"], ["_a"], ["a", "a"], [1], "a b", [""], ["class"], None, ["a\n"])
    ),
    Written("a tuple too short for its names", "say(named(['a', 'b'], [1]))", "assert f([1]).b == 1"),
    Written(
        "a tuple of exceptions", 'say({"named": [kind("exception", False, [{"type": "ValueError"}]), [1]]})'
    ),
    Written("a tuple of a class of text", 'say({"named": [{"type": "str"}, [1]]})'),
    Written(
        "an exception that is a tuple", 'say({"named": [kind("exception", False, [{"type": "tuple"}]), [1]]})'
    ),
    Written("a record without comparison", 'say(record([field("__eq__")]))', "y = f([1])\nassert y != y"),
    Written(
        "a record without class", 'say(record([field("__class__")]))', "assert f([1]).a == 1 == f([1]).b"
    ),
    Written("a record with slots", 'say(record([field("__slots__")]))'),
    Written("a record with fields twice", 'say(record([field("a"), field("a")]))'),
    Written("a record with a keyword", 'say(record([field("def")]))'),
    Written("a record with a field that is code", 'say(record([field("a=exit()")]))'),
    Written("a record with no names", "say(record([field(1)]))"),
    *(
        Written(f"a record with flags {flags!r}", f"say(record(flags={flags!r}))")
        for flags in ((), (1,) * 9, ("a", [], {}, None, 2.5), (False, False, True, True, True), (True,) * 5)
    ),
    *(
        Written(f"a field with {flags!r}", f'say(record([["a", {flags[1:-1]}]]))')
        for flags in (
            "(None, None, None, None)",
            "('', [1], {}, -1)",
            "(True, True)",
            "(handle(), handle(), 1, 1)",
        )
    ),
    Written("a record of text", 'say(record(bases=[{"type": "str"}]))'),
    Written("a record of exceptions", 'say(record(bases=[{"type": "ValueError"}]))'),
    Written("a record of objects", 'say(record(bases=[{"type": "object"}]))'),
    Written("a record of members", "say(record(bases=[enum()]))"),
    Written("a record of handles", 'say(record(bases=[kind("plain")]))'),
    Written("a record of bases that are none", 'say(record(bases=[1, "a", None, [2]]))'),
    Written("a record of a class of another form", 'say({"record": [kind("plain"), ["a", 1]]})'),
    Written("a record of a type", 'say({"record": [{"type": "ValueError"}, ["a", 1]]})'),
    Written("a record with a value too few", 'say(record(items=["a"]))'),
    Written("a record with keys of all kinds", "say(record(items=[1, None, 2.5, 1, 2, 3]))"),
    Written(
        "a record that answers for its class",
        'say(record(items=["__class__", "__eq__", {"type": "int"}, 1]))',
    ),
    Written("a record filled twice", "say(record(), [[C + 2, ['a', 5]], [C + 1, ['a', 5]], [C, ['a', 5]]])"),
    *(
        Written(f"a {form} that hides {name!r}", f"say({form}(hidden=[{name!r}]))")
        for form in ("record", "member", "named", "own")
        for name in ("__class__", "__eq__", "__del__", "__hash__")
    ),
    *(
        Written(f"a record that hides {name!r}", f"say(record(hidden=[{name!r}]))")
        for name in (
            "__name__",
            "__bases__",
            "__dict__",
            "__mro__",
            "__abstractmethods__",
            "",
            5,
            None,
            "\0",
            "__call__",
        )
    ),
    Written("a class with no name", "say(kind('plain', name=None))"),
    Written("a class with a name of null", "say(kind('plain', name='a\\0b'))"),
    Written("a class of no form", "say(kind('no'))"),
    Written("a class whose form is a list", "say(kind([]))"),
    Written("a class of six", 'say({"class": [1, 2, 3, 4, 5, 6]})'),
    Written(
        "a class of classes that exclude each other",
        'say(kind("exception", 0, [{"type": "OSError"}, {"type": "KeyError"}]))',
    ),
    Written("a class as the answer", "say(kind('plain'))"),
    Written("a type as the answer", 'say({"type": "object"})'),
    Written("the function as the answer", 'say({"ref": min(wire.lasting)})'),
    Written("a handle of a record's class", "say(handle(of=kind('record', [[], [True] * 5])))"),
    Written("a handle of a type", 'say(handle(of={"type": "int"}))'),
    Written("a handle of another's form", "say(handle(form=['function'], name=5))"),
    Written(
        "a function that is a class",
        "say(handle('function', kind('plain')))",
        "assert f([1])(1) == 1 == f([1])(2) + 1",
    ),
]

ERRORS = [
    *(
        Written(f"{way} {name}", said, RAISES)
        for way, said, name in (
            ("raises", "say({'ref': C + 1}, kind='raised')", "what is not there"),
            ("raises", "say([1], kind='raised')", "a list"),
            ("raises", "say(member(), kind='raised')", "a member"),
            ("raises", 'say(error({"type": "StopIteration"}), kind="raised")', "the end of a loop"),
            ("raises", 'say(error({"type": "int"}), kind="raised")', "a number"),
            ("raises", "say(error(enum()), kind='raised')", "a class of members"),
            (
                "raises",
                "say(error(kind('record', [[field()], [True] * 5])), kind='raised')",
                "a class of records",
            ),
            ("raises", 'say(error({"type": "ExceptionGroup"}), kind="raised")', "a group of none"),
            (
                "raises",
                'say(error({"type": "UnicodeDecodeError"}, (1, 2)), kind="raised")',
                "what asks for more",
            ),
            (
                "raises",
                'say(own("NameError", ["name"]), kind="raised")',
                "a name that it hides",
            ),
            ("raises", 'say(own("KeyboardInterrupt"), kind="raised")', "an interrupt"),
            ("raises", 'say(own("SystemExit", ["code"], args=[0]), kind="raised")', "an exit"),
            ("returns", "say(error(context=error(context={'ref': C + 1})))", "the context of its context"),
            ("returns", 'say(own(hidden=["__cause__"]))', "a cause that it hides"),
            ("returns", 'say(own(hidden=["__class__"]))', "a class that it hides"),
            (
                "returns",
                'say(own("NameError", hidden=["name"]))',
                "a name that it hides",
            ),
            (
                "returns",
                'say(own("AssertionError", hidden=["__cause__"]))',
                "an assertion's cause that it hides",
            ),
            ("returns", 'say(own(attributes=[" text", [1]]))', "text that is none"),
            (
                "returns",
                'say(own(attributes=["__class__", "__cause__", {"type": "int"}, 1]))',
                "attributes of Python's",
            ),
            ("returns", 'say(own(attributes=["__notes__", [1, {"type": "int"}]]))', "notes that are none"),
            ("returns", "say(own(attributes=[1]))", "an attribute too few"),
            ("returns", "say(error(cause=5))", "a cause that is none"),
            ("returns", 'say({"exception": [{"type": "ValueError"}]})', "half an exception"),
        )
    ),
]

NUMBERS = [
    *(
        Written(f"a reference to {number}", f'say({{"ref": {number}}})')
        for number in ("-1", "True", "10 ** 9", "'0'", "2.0", "C + 1", "None")
    ),
    Written("a tuple in itself", 'say({"tuple": [{"ref": C + 1}]})'),
    Written(
        "a list in itself", 'say([{"ref": C + 1}])', "y = f([1])\nassert y[0] == y and y == [y] and y == 1"
    ),
    *(
        Written(f"keeps {kept}", f"say(1, kept={kept})")
        for kept in (
            "[10 ** 9]",
            "[-1]",
            "'ab'",
            "[True]",
            "[[1]]",
            "{'a': 1}",
            "5",
            "None",
            "[C] * 100000",
            "[2.5]",
        )
    ),
    *(
        Written(f"changes {what}", f"say([1], {changed})", "x = [1]\ny = f(x)\nassert x == 1 or y == 1")
        for what, changed in (
            ("the function", "[[min(wire.lasting), [1]]]"),
            ("what is not there", "[[10 ** 9, [1]]]"),
            ("what is less than nothing", "[[-1, [1]]]"),
            ("expected", "[[True, [1]]]"),
            ("a request", "[[n, [1]] for n in range(C)]"),
            ("its own answer", "[[C + 1, [1]]]"),
            ("to a number", "[[X, 5]]"),
            ("to nothing", "[[X]]"),
            ("no list", "5"),
            ("to itself", "[[X, {'ref': X}]]"),
            ("to what contains itself", "[[X, [{'ref': X}]]]"),
            ("to what contains itself, often", "[[X, [{'ref': X}] * 9]]"),
            ("to what it draws", "[[X, handle('iterator')]]"),
            ("to a class", "[[X, kind('plain')]]"),
            ("to members", "[[X, enum()]]"),
        )
    ),
    *(
        Written(f"an array of {dtype}, {shape}", f'say({{"array": ["{dtype}", {shape}, "AAAAAAAAAAA="]}})')
        for dtype, shape in (
            ("|O8", "[1]"),
            ("<f8", "[-1]"),
            ("<f8", "[0, 1 << 62]"),
            ("<U9999999", "[0]"),
            ("<f8", "[1] * 99"),
        )
    ),
    Written("output that is none", "say(1, output='x' * (1 << 20))"),
    Written("no answer's number", "asked = -5; say(1)"),
    Written("a type that is a function", 'say({"type": "builtins.eval"})'),
    Written("a type of a module's", 'say({"type": "subprocess.Popen"})'),
    Written("a zone that is a file", 'say({"text": ["zoneinfo.ZoneInfo", "../../../../etc/passwd"]})'),
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

WRITTEN = [*CLASSES, *ERRORS, *NUMBERS]

FLOOD = "[each * ((1 << 61) - 1) for each in range(100_000)]"
ENDLESS = [
    Written("returns its own cause", "say(error(cause={'ref': C + 1}))", RAISES),
    Written("returns the cause of its cause", "say(error(cause=error(cause={'ref': C + 1})))", RAISES),
    Written("changes to all numbers", "say([1], [[X, {'range': [0, (1 << 24) - 1, 1]}]] * 40)"),
    Written("changes to all addresses", "say([1], [[X, {'text': ['ipaddress.IPv4Network', '0.0.0.0/0']}]])"),
    Written("a set of numbers that collide", f'say({{"set": {FLOOD}}})'),
    Written("keys that collide", f'say({{"dict": {FLOOD} * 2}})'),
    Written("a change to numbers that collide", f"say(1, [[X, {FLOOD}]])", "x = {1}\nassert f(x) == 2"),
    Written(
        "equal without end",
        "a = twice(60, 1); START += 63; say([a, twice(60, 2)])",
        "y = f([1])\nassert y[0][-1] == y[1][-1]",
    ),
    Written("text without end", "say([twice(60, 1)])", "assert str(f([1])[0][-1]) == 1"),
    Written("lists without end", "raw(b'[1,\"value\",[' + b'[],' * (5 << 20) + b'[]],null,0,\"\"]\\n[]')"),
    Written(
        "all numbers, all the time",
        "say([{'range': [0, (1 << 24) - 1, 1]}] * 9)",
        "assert [list(each) for each in f([1])] == 1",
    ),
]
"""What takes the judge's own time, some of it where no alarm is heard."""
ENDS = Limits(wall=1.0, cpu=1.0)
