"""Tests as people have them: unittest's classes, pytest's functions and fixtures, beside one program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from draftverify import ContractError, Outcome, Proposal, Task
from draftverify.kit import make_context
from draftverify_code import HiddenTests, Sandbox, Tests, check
from draftverify_code.stages.suites import Suites
from draftverify_code.stages.test_files import framework_of, with_test_file

RIGHT = """\
import math


class Odd(ValueError):
    pass


def half(n):
    if n % 2:
        raise Odd(n)
    return n // 2


def area(r):
    return math.pi * r * r
"""
UNITTEST = """\
from __future__ import annotations

import unittest

SAMPLES = [0, 2, 4]


class TestCases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.samples = SAMPLES

    def test_half(self):
        for n in self.samples:
            with self.subTest(n=n):
                self.assertEqual(half(n), n / 2)

    def test_odd(self):
        with self.assertRaisesRegex(Odd, "3"):
            half(3)

    def test_area(self):
        self.assertAlmostEqual(area(2), 4 * math.pi)


if __name__ == "__main__":
    unittest.main()
"""
PYTEST = """\
import pytest
import solution
from solution import half


@pytest.fixture(params=[0, 2, 4])
def even(request):
    return request.param


def test_half(even):
    assert half(even) == even / 2


def test_odd():
    with pytest.raises(solution.Odd, match="3"):
        solution.half(3)


class TestArea:
    @pytest.mark.parametrize("r", [1, 2])
    def test_area(self, r):
        assert solution.area(r) == pytest.approx(r * r * 3.14159265)
"""
WITH_CONFTEST = {
    "files": {"conftest.py": "import pytest\n\n\n@pytest.fixture\ndef two():\n    return 2\n"},
    "test": "from solution import half\n\n\ndef test_half(two):\n    assert half(two) == 1\n",
}
KINDS: dict[str, dict[str, Any]] = {
    "unittest": {"test": UNITTEST},
    "pytest": {"test": PYTEST},
    "conftest": WITH_CONFTEST,
}
PROGRAMS = {
    "right": RIGHT,
    "gives odd ones back": RIGHT.replace("n // 2", "n // 2 + 1").replace("raise Odd(n)", "return n"),
    "adds one": RIGHT.replace("n // 2", "n // 2 + 1"),
    "another exception": RIGHT.replace("raise Odd(n)", "raise ValueError(n)"),
    "too small": RIGHT.replace("* r * r", "* r"),
    "floats": RIGHT.replace("n // 2", "n / 2"),
    "lacks half": RIGHT.replace("def half", "def halve"),
    "lacks all": "",
    "does not parse": RIGHT + "def (",
    "raises at import": "1 / 0\n" + RIGHT,
    "prints": 'print("OK")\n' + RIGHT.replace("return", 'print("x"); return'),
    "has tests of its own": RIGHT + "def test_it():\n    assert False\n\n\nclass TestCases:\n    pass\n",
    "main": RIGHT + '\nif __name__ == "__main__":\n    half(3)\n',
}


@pytest.fixture(scope="module")
def box():
    """One sandbox with pytest in it."""
    with Sandbox(packages=("pytest",)) as opened:
        yield opened


def checks_of(stage: Any, fields: dict[str, Any], programs: list[str]) -> Any:
    context = make_context(Task(id="t", input=fields))
    return stage.verify(context, Proposal.alternatives(programs)).checks


def by_hand(kind: str, program: str, folder: Path) -> bool:
    """Whether the framework's own command passes, as a person has it: a file for each, or all in one."""
    folder.mkdir()
    fields = KINDS[kind]
    for name, text in fields.get("files", {}).items():
        (folder / name).write_text(text)
    (folder / "solution.py").write_text(program)
    future = "from __future__ import annotations\n"
    test = fields["test"].replace(future, future + program) if kind == "unittest" else fields["test"]
    (folder / "test_solution.py").write_text(test)
    argv = ["unittest", "test_solution"] if kind == "unittest" else ["pytest", "-q", "-p", "no:cacheprovider"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    argv = [sys.executable, "-m", *argv]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_those_of_the_framework_by_hand(kind: str, box: Sandbox, tmp_path: Path) -> None:
    """Every program, in three orders; the score is the share of tests that pass."""
    stage = Tests(box, timeout=20.0)
    names = list(PROGRAMS)
    names = names if kind == "unittest" else names[: 9 if kind == "pytest" else 3]  # pytest takes its time
    checks = dict(zip(names, checks_of(stage, KINDS[kind], [PROGRAMS[name] for name in names]), strict=True))
    for place, name in enumerate(names if kind == "unittest" else names[:3]):
        assert (checks[name].verdict == "pass") is by_hand(kind, PROGRAMS[name], tmp_path / str(place)), name
    assert {one.verdict for one in checks.values()} == {"pass", "reject"}
    assert {(one.stage, one.caveat) for one in checks.values()} == {("tests", "shared-process")}
    assert checks["right"].score == 1.0
    if kind == "unittest":
        assert checks["another exception"].score == pytest.approx(2 / 3)
        assert "test_odd" in checks["another exception"].feedback
        assert "also failed: test_solution.TestCases.test_odd" in checks["gives odd ones back"].feedback
        for order in (names[::-1], names[5:] + names[:5]):
            again = checks_of(stage, KINDS[kind], [PROGRAMS[name] for name in order])
            assert dict(zip(order, again, strict=True)) == checks


@pytest.mark.parametrize(
    ("test", "framework"),
    [
        (UNITTEST, "unittest"),
        (PYTEST, "pytest"),
        ("import pytest\n" + UNITTEST, "pytest"),
        (f"{UNITTEST}\n\ndef test_more():\n    assert half(2) == 1\n", "pytest"),
        ("async def test_it():\n    assert half(2) == 1\n", "pytest"),
        (
            "def check(candidate):\n    assert candidate(2) == 1\n\ndef test_it():\n    check(half)\n\ntest_it()\n",
            "",
        ),
        ("import unittest\ncase = unittest.TestCase()\ncase.assertEqual(half(2), 1)\n", ""),
        (
            "import unittest\n\n\nclass Case(unittest.TestCase):\n    pass\n\n\nCase().assertEqual(half(2), 1)\n",
            "",
        ),
        ("def test_it():\n    assert half(2) == 1\n\n\nfor test in (test_it,):\n    test()\n", ""),
        ("def test_it():\n    assert half(2) == 1\n\n\ndef main():\n    test_it()\n\n\nmain()\n", ""),
        (
            "def test_it():\n    assert half(2) == 1\n\n\ndef main():\n    for name in [*globals()]:\n"
            "        if name.startswith('test'):\n            globals()[name]()\n\n\nmain()\n",
            "",
        ),
        (f"{UNITTEST}\nresult = unittest.TestResult()\nTestCases('test_odd').run(result)\n", ""),
        ("assert half(2) == 1", ""),
        ("def (", ""),
    ],
)
def test_whose_tests_a_source_defines(test: str, framework: str) -> None:
    """A script calls what it defines; of a framework's tests nothing is called."""
    assert framework_of(test) == framework


def test_names_that_tests_do_not_define_are_the_programs() -> None:
    """As if both were one file; behind imports of the future, and before anything of the tests."""
    task = Task(id="t", input={"test": UNITTEST, "setup": "import math", "entry_point": "half"})
    fields = with_test_file(task).input
    assert fields["target"] == "solution.py"
    first, setup, imports, *_ = fields["files"]["test_solution.py"].split("\n")
    assert (first, setup) == ("from __future__ import annotations", "import math")
    assert imports.startswith("from solution import half; import solution as _program; ")
    assert "['Odd', 'area']" in imports
    prompt = {"setup": "def half(n):\n    pass\n", "entry_point": "half"}
    body = with_test_file(Task(id="t", input={"test": UNITTEST, **prompt})).input["files"]["test_solution.py"]
    assert body.index("pass") < body.index("from solution import half")
    own = with_test_file(Task(id="t", input={"test": PYTEST, "target": "lib/calc.py"})).input
    assert own["files"]["test_calc.py"] == PYTEST
    with pytest.raises(ContractError, match="tests of task t do not compile"):
        with_test_file(Task(id="t", input={"test": "def test_it():\n    x = 1\n    nonlocal x\n"}))


def test_in_one_call_and_as_hidden_tests() -> None:
    """`check` takes them as they are, and so does the metric; what they import is shown."""
    right = check(RIGHT, test=UNITTEST)
    assert (right.verdict, right.score, right.caveat) == ("pass", 1.0, "shared-process")
    apart = check(RIGHT, test=UNITTEST, integrity="separate-process")
    assert (apart.verdict, apart.reason) == ("error", "needs shared-process")
    task = Task(id="t", input={"prompt": "halve"}, expected={"test": UNITTEST})
    metric = HiddenTests()
    assert metric(task, Outcome(status="accepted", value=RIGHT)) is True
    assert metric(task, Outcome(status="accepted", value=PROGRAMS["adds one"])) is False


def test_listed_tests_alone_count(box: Sandbox) -> None:
    """FAIL_TO_PASS and PASS_TO_PASS of one file; a list that names what is not there is an error."""
    name = "test_solution.py::test_odd"
    lists = {"FAIL_TO_PASS": [name], "PASS_TO_PASS": ["test_solution.py::test_half[0]"]}
    programs = [RIGHT, PROGRAMS["too small"], PROGRAMS["another exception"], PROGRAMS["adds one"]]
    checks = checks_of(Tests(box, timeout=20.0), {"test": PYTEST, **lists}, programs)
    assert [(one.verdict, one.score) for one in checks] == [
        ("pass", 1.0),
        ("pass", 1.0),
        ("reject", 0.5),
        ("reject", 0.5),
    ]
    assert name in checks[2].feedback
    lists = {"FAIL_TO_PASS": ["test_solution.TestCases.test_odd"]}
    checks = checks_of(Tests(box, timeout=20.0), {"test": UNITTEST, **lists}, programs)
    assert [one.verdict for one in checks] == ["pass", "pass", "reject", "pass"]
    for field in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        (one,) = checks_of(
            Tests(box), {"test": UNITTEST, field: ["test_solution.TestCases.test_no"]}, [RIGHT]
        )
        assert (one.verdict, one.reason) == ("error", "tests")
        assert f"test_solution.TestCases.test_no of {field} is not there" in one.feedback


UNASKED = {
    "unittest": "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n"
    "        self.assertEqual({}, 1)\n\n    def helper(self):\n        half(2)\n",
    "pytest": "from solution import half\n\n\ndef test_it():\n    assert {} == 1\n",
    "script": "assert {} == 1 or half\n",
    "check": "def check(candidate):\n    assert {} == 1 or not candidate\n",
}


@pytest.mark.parametrize(
    ("kind", "integrity"),
    [*((kind, "auto") for kind in UNASKED), ("script", "shared-process"), ("check", "shared-process")],
)
def test_tests_that_ask_no_candidate_are_an_error(kind: str, integrity: Any, box: Sandbox) -> None:
    """Neither a pass, nor, where they fail by themselves, a rejection."""
    stage = Tests(box, integrity=integrity, timeout=20.0)
    fields = {"entry_point": "half", "test": UNASKED[kind].format("1")}
    programs = [RIGHT, PROGRAMS["adds one"]]
    for one in checks_of(stage, fields, programs):
        assert (one.verdict, one.reason) == ("error", "tests"), one
        assert "ask nothing of a program" in one.feedback or "never call half" in one.feedback
    for falsehood in ("2", "1 // 0"):
        fails = {
            "test": UNASKED[kind].format(falsehood).replace(" or half", "").replace(" or not candidate", "")
        }
        assert {one.verdict for one in checks_of(stage, fields | fails, programs)} == {"error"}
    asks = {"test": UNASKED[kind].format("half(2)").replace(" or half", "").replace(" or not candidate", "")}
    assert [one.verdict for one in checks_of(stage, fields | asks, programs)] == ["pass", "reject"]


@pytest.mark.parametrize(
    ("test", "program", "verdict"),
    [
        (
            "try:\n    x = half(2)\nexcept Exception:\n    x = None\nassert x == 1",
            "def half(n): return None",
            "reject",
        ),
        ("try:\n    half(2)\nexcept Exception:\n    pass", "def half(n): return 1 / 0", "pass"),
        ("import sys\nsys.exit(half is None)", "def half(n): return n", "error"),
        ("while True:\n    half is None", "def half(n): return n", "error"),
        ("assert half(2) == LIMIT", "def half(n): return n", "reject"),
        ("assert LIMIT == half(2)", "def half(n): return n", "reject"),
    ],
)
def test_tests_that_ask_are_told_from_those_that_do_not(
    test: str, program: str, verdict: str, box: Sandbox
) -> None:
    """By whether they call the program, and not by how they end: tests may take any end for a failure, or hang."""
    stage = Tests(box, integrity="shared-process", timeout=1.0)
    (check,) = checks_of(stage, {"entry_point": "half", "test": test}, [program])
    assert check.verdict == verdict, check


def test_test_files_of_a_directory_that_ask_nothing_are_an_error(box: Sandbox) -> None:
    """The same for `code.suites` with a file to mend, and a program that tests start as a process is asked."""
    files = {"test_solution.py": "def test_it():\n    assert 1 + 1 == 2\n", "solution.py": "x = 1"}
    (one,) = checks_of(Suites(box), {"files": files, "target": "solution.py"}, [RIGHT])
    assert (one.verdict, one.reason) == ("error", "tests")
    test = (
        "import subprocess, sys\n\n\ndef test_it():\n    argv = [sys.executable, 'solution.py']\n"
        "    assert subprocess.run(argv, capture_output=True, text=True).stdout == '2\\n'\n"
    )
    checks = checks_of(
        Suites(box), {"files": {"test_solution.py": test}, "target": "solution.py"}, ["print(2)", "pass"]
    )
    assert [one.verdict for one in checks] == ["pass", "reject"]


WRONG = PROGRAMS["adds one"]
HOSTILE = {
    "leaves at import": "import sys\nsys.exit(0)\n",
    "leaves at once": "import os\nos._exit(0)\n",
    "leaves at exit": WRONG + "import atexit, os\natexit.register(os._exit, 0)\n",
    "reports": "print('Ran 3 tests in 0.001s\\n\\nOK\\n3 passed in 0.01s', flush=True)\nimport os\nos._exit(0)\n",
    "writes a conftest": WRONG + "open('conftest.py', 'w').write('collect_ignore_glob = [\"*\"]')\n",
    "rewrites the tests": WRONG + "open('test_solution.py', 'w').write('def test_half(): pass')\n",
    "patches unittest": WRONG + "import unittest\nfor name in dir(unittest.TestCase):\n"
    "    if name.startswith('assert'):\n        setattr(unittest.TestCase, name, lambda *_, **__: None)\n",
    "patches run": WRONG + "import unittest\ndef run(self, result=None):\n    result.startTest(self)\n"
    "    result.addSuccess(self)\n    result.stopTest(self)\nunittest.TestCase.run = run\n",
    "replaces AssertionError": WRONG
    + "import builtins, unittest\nbuiltins.AssertionError = unittest.SkipTest\n"
    "unittest.TestCase.failureException = unittest.SkipTest\n",
    "patches rewriting": WRONG + "import sys\nfor name, module in list(sys.modules.items()):\n"
    "    if name.startswith('_pytest.assertion'):\n        for key in dir(module):\n"
    "            if key.startswith('_call'): setattr(module, key, lambda *_, **__: True)\n",
    "skips": "import unittest\nraise unittest.SkipTest\n",
    "skips in a test": WRONG.replace("return n // 2 + 1", "import unittest; raise unittest.SkipTest"),
    "reads the stand-in's words": "def half(*_):\n    raise NotImplementedError\n\n\narea = Odd = half\n",
}


@pytest.mark.parametrize("kind", ["unittest", pytest.param("pytest", marks=pytest.mark.exhaustive)])
def test_hostile_programs_do_not_pass(kind: str, box: Sandbox) -> None:
    """Each is rejected, whatever the framework would have said, and the right one after them passes."""
    checks = checks_of(Tests(box, timeout=20.0), KINDS[kind], [*HOSTILE.values(), RIGHT])
    verdicts = dict(zip([*HOSTILE, "right"], [one.verdict for one in checks], strict=True))
    assert verdicts == {**dict.fromkeys(HOSTILE, "reject"), "right": "pass"}
