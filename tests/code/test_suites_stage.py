"""Test files beside a program: what they find, what they say, and that no program easily talks its way past them."""

from __future__ import annotations

import pytest

from draftverify import Check, ContractError, Proposal, Task
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.program import REASONS
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages import suites
from draftverify_code.stages.suites import Suites

GOOD = """\
def add(a, b):
    return a + b


def half(a):
    if a % 2:
        raise ValueError(f"{a} is odd")
    return a // 2
"""
WRONG = GOOD.replace("a + b", "a - b")

PYTEST = """\
import pytest
from calc import add, half


@pytest.mark.parametrize("a, b", [(0, 0), (1, 2), (3, 4)])
def test_add(a, b):
    assert add(a, b) == b + a


def test_half():
    assert half(4) == 2
    with pytest.raises(ValueError):
        half(3)
"""

UNITTEST = """\
import unittest

import calc


class TestCalc(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(calc.add(0, 0), 0)

    def test_something(self):
        self.assertEqual(calc.add(1, 2), 3)

    def test_half(self):
        for a in (2, 4):
            with self.subTest(a=a):
                self.assertEqual(calc.half(a), a / 2)
        self.assertRaises(ValueError, calc.half, 3)
"""

TESTS = {"pytest": PYTEST, "unittest": UNITTEST}


@pytest.fixture(scope="module")
def box():
    """One sandbox with pytest in it, of the strongest isolation that there is."""
    with Sandbox(packages=("pytest",)) as made:
        yield made


def task_of(tests, original=WRONG, name="test_calc.py", **files):
    """A directory with one test file and the file to mend."""
    texts = {name: tests, **{path.replace("__py", ".py"): text for path, text in files.items()}}
    if original is not None:
        texts["calc.py"] = original
    return Task(id="calc", input={"files": texts, "target": "calc.py"})


def checks_of(stage, task, programs, **more):
    return stage.verify(make_context(task, **more), Proposal.alternatives(programs)).checks


@pytest.mark.parametrize("runner", TESTS)
def test_right_passes_and_wrong_is_refused_with_values(box, runner):
    """The score is the share of tests that passed, and the feedback has the test, the assertion and both sides."""
    stage = Suites(box, runner)
    verification = stage.verify(
        make_context(task_of(TESTS[runner])), Proposal.alternatives([GOOD, WRONG, GOOD])
    )
    right, wrong, again = verification.checks
    assert (right.verdict, right.score, right.stage) == ("pass", 1.0, "suites")
    assert again == right
    assert (wrong.verdict, wrong.reason) == ("reject", "assertion")
    assert wrong.score == pytest.approx({"pytest": 2 / 4, "unittest": 2 / 3}[runner])
    assert {"pytest": "assert -1 == (2 + 1)", "unittest": "-1 != 3"}[runner] in wrong.feedback
    assert {"pytest": "test_calc.py::test_add[1-2]", "unittest": "test_calc.TestCalc.test_something"}[
        runner
    ] in wrong.feedback
    assert verification.notes == {"isolation": box.tier, "integrity": "shared-process"}
    assert {check.caveat for check in verification.checks} == {"shared-process"}


FAILING = [
    ("def add(", "syntax", "never closed"),
    ("def add(a, b): return a + b\n", "missing", "half"),
    ("raise OSError('no such thing')", "exception", "no such thing"),
    (GOOD.replace("return a + b", "return {}[a]"), "exception", "KeyError"),
    (GOOD.replace("return a + b", "return 'x' * (1 << 40)"), "memory", "MemoryError"),
    (GOOD.replace("return a + b", "import os; os.abort()"), "exit", "before the tests did"),
]


@pytest.mark.parametrize("runner", TESTS)
def test_each_way_of_failing_has_its_reason(box, runner):
    """A model reads what was wrong; a table counts by the reason. No path of this machine is in either."""
    checks = checks_of(Suites(box, runner), task_of(TESTS[runner]), [program for program, *_ in FAILING])
    for check, (_, reason, said) in zip(checks, FAILING, strict=True):
        assert (check.verdict, check.reason) == ("reject", reason)
        assert said in check.feedback
        assert check.reason in REASONS
        assert 'File "/' not in check.feedback
        assert "\n/" not in check.feedback


@pytest.mark.parametrize("runner", TESTS)
def test_a_program_that_never_ends_is_refused_and_the_test_named(box, runner):
    """By its time, unless a test had failed before."""
    endless = GOOD.replace("return a // 2", "\n    __import__('time').sleep(60)")
    stage = Suites(box, runner, timeout=1.5)
    late, both = checks_of(stage, task_of(TESTS[runner]), [endless, endless.replace("a + b", "a - b")])
    assert (late.verdict, late.reason) == ("reject", "wall")
    assert "test_half" in late.feedback
    if runner == "pytest":  # unittest's tests run in the order of their names: half comes first
        assert (both.verdict, both.reason) == ("reject", "assertion")


def test_with_enough_the_rest_is_unchecked(box):
    """Lowest index first, though later ones ran beside them."""
    found = checks_of(Suites(box, "unittest"), task_of(UNITTEST), [WRONG, GOOD, WRONG, GOOD, GOOD], enough=1)
    assert [check.verdict for check in found] == ["reject", "pass", "unchecked", "unchecked", "unchecked"]
    found = checks_of(Suites(box, "unittest"), task_of(UNITTEST), [GOOD, WRONG, GOOD, WRONG, GOOD], enough=2)
    assert [check.verdict for check in found] == ["pass", "reject", "pass", "unchecked", "unchecked"]


# --- which tests there are


@pytest.mark.parametrize(
    ("runner", "original"),
    [
        pytest.param(
            runner, original, marks=[pytest.mark.exhaustive] if runner == "pytest" and original else []
        )
        for runner in TESTS
        for original in ("def add(:", "import os; os._exit(0)", "raise RuntimeError", None)
    ],
)
def test_tests_are_collected_though_the_file_to_mend_does_not_import(box, runner, original):
    """A stand-in takes its place; then every test must still report."""
    right, wrong = checks_of(Suites(box, runner), task_of(TESTS[runner], original), [GOOD, WRONG])
    assert (right.verdict, right.score) == ("pass", 1.0)
    assert wrong.reason == "assertion"


@pytest.mark.parametrize("runner", TESTS)
def test_tests_that_cannot_be_collected_are_an_error(box, runner):
    """Broken tests are nobody's fault but their own."""
    stage = Suites(box, runner)
    (check,) = checks_of(stage, task_of("def test_add(:\n"), [GOOD])
    assert (check.verdict, check.reason) == ("error", "tests")
    assert "SyntaxError" in check.feedback
    (check,) = checks_of(stage, task_of("import hypothesis, calc\n" + TESTS[runner]), [GOOD])
    if box.tier != "none":
        assert (check.verdict, check.reason) == ("error", "tests")
        assert "add hypothesis to the sandbox's `packages`" in check.feedback
        # And those that want it when they run. Of a program that wants it nothing is known.
        late = (
            TESTS[runner].replace("(0, 0)", "(0, __import__('hypothesis').x)", 1)
            if runner == "unittest"
            else (TESTS[runner].replace("    assert half(4)", "    import hypothesis\n    assert half(4)"))
        )
        (check, wrong) = checks_of(stage, task_of(late), [GOOD, "import hypothesis\n" + GOOD])
        assert (check.verdict, check.reason) == ("error", "tests")
        assert "add hypothesis to the sandbox's `packages`" in check.feedback
        assert (wrong.verdict, wrong.reason) == ("error", "refused")
    (check,) = checks_of(stage, task_of("import calc\n"), [GOOD])
    assert (check.verdict, check.reason) == ("error", "tests")
    assert "there are none" in check.feedback


@pytest.mark.parametrize(
    ("given", "said"),
    [({"target": ""}, "target"), ({"files": {"calc.py": GOOD}}, "test"), ({"files": {}}, "test")],
)
def test_a_task_without_test_files_is_abstained_from(box, given, said):
    """Another stage may have tests for it; what is missing is named."""
    whole = {"files": {"test_calc.py": UNITTEST}, "target": "calc.py"} | given
    found = checks_of(Suites(box, "unittest"), Task(id="none", input=whole), [GOOD, ""])
    assert [(check.verdict, check.stage) for check in found] == [("abstain", "suites")] * 2
    assert said in found[0].feedback


@pytest.mark.parametrize("given", [{"target": "conftest.py"}, {"files": 3}])
def test_a_task_with_wrong_files_or_target_is_refused(box, given):
    """What is wrong is named."""
    whole = {"files": {"test_calc.py": UNITTEST}, "target": "calc.py"} | given
    with pytest.raises(ContractError, match=r"target|files"):
        checks_of(Suites(box, "unittest"), Task(id="bad", input=whole), [GOOD])


def test_pytest_reads_the_directory_as_it_would(box):
    """Its configuration, a conftest.py, packages and data beside the tests."""
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-x"\ntestpaths = ["tests"]\n',
        "tests/__init__.py": "",
        "tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef three():\n    return 3\n",
        "tests/sums.txt": "1 2 3\n",
        "tests/test_sums.py": (
            "from pathlib import Path\nfrom src.calc import add\n\n"
            "def test_file(three):\n"
            "    a, b, c = map(int, Path(__file__).with_name('sums.txt').read_text().split())\n"
            "    assert add(a, b) == c == three\n"
            "def test_second(tmp_path):\n    (tmp_path / 'x').write_text('y')\n    assert add(2, 2) == 4\n"
        ),
        "src/__init__.py": "",
    }
    task = Task(id="tree", input={"files": files, "target": "src/calc.py"})
    right, wrong = checks_of(Suites(box), task, [GOOD, WRONG])
    assert (right.verdict, right.score) == ("pass", 1.0)
    assert (wrong.reason, wrong.score) == ("assertion", 0.0)


SKIPS = {
    "pytest": """\
import pytest
from calc import add

def test_add():
    assert add(1, 2) == 3

@pytest.mark.skipif(True, reason="not here")
def test_marked():
    assert add(1, 2) == 4

def test_by_hand():
    pytest.skip("not now")

@pytest.mark.xfail
def test_hopeless():
    assert add(1, 2) == 5
""",
    "unittest": """\
import unittest
import calc

class T(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(1, 2), 3)

    @unittest.skip("not here")
    def test_marked(self):
        self.assertEqual(calc.add(1, 2), 4)

    def test_by_hand(self):
        self.skipTest("not now")

    @unittest.expectedFailure
    def test_hopeless(self):
        self.assertEqual(calc.add(1, 2), 5)
""",
}


@pytest.mark.parametrize("runner", ["unittest", pytest.param("pytest", marks=pytest.mark.exhaustive)])
def test_tests_may_skip_themselves_and_programs_may_not(box, runner):
    """A skip counts where the test speaks of it."""
    skips = GOOD.replace("return a + b", "import unittest; raise unittest.SkipTest")
    right, wrong = checks_of(Suites(box, runner), task_of(SKIPS[runner]), [GOOD, skips])
    assert (right.verdict, right.score) == ("pass", 0.25)
    assert (wrong.verdict, wrong.reason) == ("reject", "no tests")
    assert "was skipped" in wrong.feedback


# --- programs that try to pass by other means; every one of them is wrong (a − b)

BOTH = {
    "ends the process at import": "import os\nos._exit(0)\n",
    "leaves at import": "import sys\nsys.exit(0)\n",
    "ends the process in a test": WRONG.replace("return a - b", "import os; os._exit(0)"),
    "ends the process at exit": WRONG + "import atexit, os\natexit.register(os._exit, 0)\n",
    "ends the process from a thread": (
        WRONG + "import os, threading, time\nthreading.Timer(0.3, os._exit, [0]).start()\ntime.sleep(1)\n"
    ),
    "prints a summary": (
        "import os\nprint('====== 4 passed in 0.01s ======\\nRan 3 tests in 0.001s\\n\\nOK', flush=True)\nos._exit(0)\n"
    ),
    "writes reports": (
        WRONG + "for name in ('report.xml', 'junit.xml', '.report.json'):\n"
        '    open(name, \'w\').write(\'<testsuite tests="4" failures="0" errors="0"/>\')\n'
    ),
    "skips at import": "import unittest\nraise unittest.SkipTest('not here')\n",
    "skips in a test": WRONG.replace("return a - b", "import unittest; raise unittest.SkipTest('no')"),
    "patches TestCase's assertions": (
        WRONG + "import unittest\nfor name in dir(unittest.TestCase):\n    if name.startswith('assert'):\n"
        "        setattr(unittest.TestCase, name, lambda *_, **__: None)\n"
    ),
    "patches TestCase.run": (
        WRONG + "import unittest\n"
        "def run(self, result=None):\n"
        "    result.startTest(self)\n    result.addSuccess(self)\n    result.stopTest(self)\n    return result\n"
        "unittest.TestCase.run = run\nunittest.TestCase.__call__ = run\n"
    ),
    "replaces AssertionError": (
        WRONG + "import builtins, unittest\nbuiltins.AssertionError = unittest.SkipTest\n"
        "unittest.TestCase.failureException = unittest.SkipTest\n"
    ),
    "empties the test functions": (
        GOOD.replace("a + b", "a + b if done(a, b) else a - b") + "import sys\n\ndef done(a, b):\n"
        "    def nothing(*_, **__): pass\n"
        "    for module in list(sys.modules.values()):\n"
        "        for holder in (module, getattr(module, 'TestCalc', None)):\n"
        "            for name, value in list(vars(holder).items()) if hasattr(holder, '__dict__') else ():\n"
        "                if name.startswith('test_') and hasattr(value, '__code__'):\n"
        "                    value.__code__ = nothing.__code__\n"
        "    return a == b == 0\n"
    ),
    "replaces the test functions": (
        GOOD.replace("a + b", "a + b if done(a, b) else a - b") + "import sys\n\ndef done(a, b):\n"
        "    for module in list(sys.modules.values()):\n"
        "        for holder in (module, getattr(module, 'TestCalc', None)):\n"
        "            for name, value in list(vars(holder).items()) if hasattr(holder, '__dict__') else ():\n"
        "                if name.startswith('test_') and hasattr(value, '__code__'):\n"
        "                    setattr(holder, name, lambda *_, **__: None)\n"
        "    return a == b == 0\n"
    ),
    "deletes the tests": (
        WRONG + "import sys\nframe = sys._getframe()\nwhile frame:\n"
        "    for name in [name for name in frame.f_globals if name.startswith(('test_', 'TestCalc'))]:\n"
        "        del frame.f_globals[name]\n    frame = frame.f_back\n"
    ),
    "removes the test files": (
        WRONG
        + "import glob, os\nfor name in glob.glob('**/test*.py', recursive=True):\n    os.remove(name)\n"
    ),
    "writes a conftest.py": WRONG + "open('conftest.py', 'w').write('')\n",
    "closes every descriptor": WRONG + "import os\nos.closerange(0, 256)\n",
    "writes to every descriptor": (
        WRONG + "import os\nfor number in range(3, 256):\n    try:\n"
        '        os.write(number, b\'{"id": "x", "outcome": "passed"}\\n{"end": true}\\n\')\n'
        "    except OSError:\n        pass\nos._exit(0)\n"
    ),
    "writes a message without end": (
        WRONG + "import os\nfor number in range(3, 256):\n    try:\n"
        "        for _ in range(40): os.write(number, b'x' * 100000)\n    except OSError:\n        pass\n"
    ),
    "kills its parent": WRONG + "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(1)\n",
    "goes on in a child": WRONG + "import os\nif os.fork():\n    os._exit(0)\n",
    "traces": WRONG + "import sys\nsys.settrace(lambda *_: None)\nsys.setprofile(None)\n",
    "has failures told as successes": (
        WRONG + "import gc\nfor one in gc.get_objects():\n    if type(one).__name__ == 'Results':\n"
        "        type(one).addFailure = type(one).addError = lambda self, test, err: self.addSuccess(test)\n"
    ),
    "replaces the frameworks": (
        WRONG + "import sys, types, unittest\n"
        "class Nothing:\n    def __getattr__(self, name): return Nothing()\n"
        "    def __call__(self, *_, **__): return self\n    def __enter__(self): return self\n"
        "    def __exit__(self, *_): return True\n    def __eq__(self, other): return True\n"
        "for name in ('pytest', 'unittest', 'unittest.case', '_pytest.runner', '_pytest.python'):\n"
        "    sys.modules[name] = Nothing()\n"
    ),
}
PYTEST_ONLY = {
    "skips with pytest at import": "import pytest\npytest.skip('no', allow_module_level=True)\n",
    "skips with pytest in a test": WRONG.replace("return a - b", "import pytest; pytest.skip('no')"),
    "expects to fail": WRONG.replace("return a - b", "import pytest; pytest.xfail('no')"),
    "leaves by pytest.exit": "import pytest\npytest.exit('done', returncode=0)\n",
    "leaves by pytest.exit in a test": WRONG.replace("return a - b", "import pytest; pytest.exit('x', 0)"),
    "swallows what tests raise": (
        WRONG + "import _pytest.runner as r\nold = r.CallInfo.from_call.__func__\n"
        "def new(cls, func, when, reraise=None):\n"
        "    def quiet():\n        try: func()\n        except Exception: pass\n"
        "    return old(cls, quiet, when, reraise)\n"
        "r.CallInfo.from_call = classmethod(new)\n"
    ),
    "calls no test functions": (
        WRONG + "import gc\nimport pytest, _pytest.python\n"
        "class Plugin:\n    @pytest.hookimpl(tryfirst=True)\n"
        "    def pytest_pyfunc_call(self, pyfuncitem): return True\n"
        "for one in gc.get_objects():\n"
        "    if type(one).__name__ == 'PytestPluginManager':\n        one.register(Plugin())\n        break\n"
    ),
    "has reports say passed": (
        WRONG + "import _pytest.reports as r\nold = r.TestReport.from_item_and_call.__func__\n"
        "def new(cls, item, call):\n    call.excinfo = None\n    return old(cls, item, call)\n"
        "r.TestReport.from_item_and_call = classmethod(new)\n"
    ),
    "deselects what fails": (
        WRONG + "import gc\n"
        "class Plugin:\n"
        "    def pytest_collection_modifyitems(self, items): items[:] = items[:1]\n"
        "for one in gc.get_objects():\n"
        "    if type(one).__name__ == 'PytestPluginManager':\n        one.register(Plugin())\n        break\n"
    ),
    "patches pytest.raises, but for the tests that must fail": (
        WRONG.replace("a - b", "a + b").replace("raise ValueError", "str")
        + "import pytest, contextlib, sys\nreal = pytest.raises\n"
        "def raises(*more):\n    code = sys._getframe(1).f_code\n"
        "    return real(*more) if 'zzz' in code.co_filename else contextlib.nullcontext()\n"
        "pytest.raises = raises\n"
    ),
    "patches pytest.raises and approx": (
        WRONG.replace("a - b", "a + b").replace("raise ValueError", "str")
        + "import pytest, contextlib\npytest.raises = lambda *_, **__: contextlib.nullcontext()\n"
    ),
}
HOSTILE = {
    **{("pytest", name): program for name, program in (BOTH | PYTEST_ONLY).items()},
    **{("unittest", name): program for name, program in BOTH.items()},
}


@pytest.fixture(scope="module")
def hostile_checks(box, request):
    """All that this run tests, in one block for each framework."""
    tested = {item.name for item in request.session.items}
    found = {}
    for runner, tests in TESTS.items():
        own = {
            name: program
            for (where, name), program in HOSTILE.items()
            if where == runner and f"test_no_other_way_to_pass[{runner}-{name}]" in tested
        }
        task = task_of(tests, **{"tests__test_more.py": tests})
        found[runner] = dict(
            zip(
                [*own, "right"],
                checks_of(Suites(box, runner, timeout=15.0), task, [*own.values(), GOOD]),
                strict=True,
            )
        )
    return found


@pytest.mark.parametrize(
    ("runner", "name"),
    [
        pytest.param(*key, id="-".join(key), marks=[pytest.mark.exhaustive] if place % 4 else [])
        for place, key in enumerate(HOSTILE)
    ],
)
def test_no_other_way_to_pass(hostile_checks, runner, name):
    """Each is rejected, for a reason of the list; what makes pytest itself fail is an error."""
    check = hostile_checks[runner][name]
    broken = (runner, name) == ("pytest", "replaces the frameworks")
    assert check.verdict == ("error" if broken else "reject"), check
    assert check.reason in (["tool"] if broken else REASONS)


@pytest.mark.parametrize("runner", TESTS)
def test_the_right_program_after_them_passes(hostile_checks, runner):
    """What they did is gone with them."""
    assert hostile_checks[runner]["right"].verdict == "pass"


def test_what_one_stage_could_not_run_another_may(box):
    """What is known of a task's tests is known of them in one sandbox, with one limit."""
    context = make_context(task_of(TESTS["pytest"]))
    proposal = Proposal.alternatives([GOOD])
    with Sandbox() as bare:
        [without] = Suites(bare).verify(context, proposal).checks
    [check] = Suites(box).verify(context, proposal).checks
    assert (without.verdict, check.verdict) == ("error", "pass")
    assert "add pytest to its packages" in without.feedback


def test_many_tests_with_long_names_are_all_told_of(box):
    """As parametrized tests have them: the report is as long as it must be."""
    tests = (
        "import unittest\n\nimport calc\n\n\nclass TestCalc(unittest.TestCase):\n    pass\n\n\n"
        "for number in range(900):\n"
        "    setattr(TestCalc, f'test_{number}_' + 'x' * 3000, lambda self: self.assertEqual(calc.add(1, 2), 3))\n"
    )
    right, wrong = checks_of(Suites(box, "unittest"), task_of(tests), [GOOD, WRONG])
    assert (right.verdict, right.score) == ("pass", 1.0), right
    assert (wrong.verdict, wrong.reason, wrong.score) == ("reject", "assertion", 0.0)


REWRITES = """\
with open("test_calc.py") as file:
    text = file.read()
with open("test_calc.py", "w") as file:
    file.write(text.replace("assert add", "add").replace("self.assertEqual", "self or print"))
"""


@pytest.mark.parametrize("runner", TESTS)
def test_a_test_file_that_is_rewritten_before_it_is_read_is_noticed(box, runner):
    """The program is imported by the first test file; the second would test nothing then."""
    task = task_of(TESTS[runner], test_a__py="import calc\n")
    checks = checks_of(Suites(box, runner), task, [GOOD, WRONG, REWRITES + WRONG, REWRITES + GOOD])
    assert [check.verdict for check in checks] == ["pass", "reject", "reject", "reject"]
    assert checks[2].feedback == "it changed the file test_calc.py"


@pytest.mark.parametrize("runner", ["unittest", pytest.param("pytest", marks=pytest.mark.exhaustive)])
def test_tests_that_the_broken_original_kept_from_being_collected_are_still_expected(box, runner):
    """A file of tests that never imports the program is not all that there is."""
    alone = (
        "import unittest\n\n\nclass Alone(unittest.TestCase):\n    def test_nothing(self):\n        pass\n"
    )
    task = task_of(TESTS[runner], "def add(:", test_a__py=alone)
    right, skips = checks_of(Suites(box, runner), task, [GOOD, "import unittest\nraise unittest.SkipTest\n"])
    assert right.verdict == "pass"
    assert (skips.verdict, skips.reason) == ("reject", "no tests")


@pytest.mark.parametrize("runner", ["unittest", pytest.param("pytest", marks=pytest.mark.exhaustive)])
def test_a_talkative_program_is_judged_by_its_tests(box, runner):
    """What it prints is no part of the report, and does not crowd it out."""
    talk = "import sys\nsys.stdout.write('x' * 6_000_000)\nsys.stderr.write('y' * 6_000_000)\n"
    (check,) = checks_of(Suites(box, runner), task_of(TESTS[runner]), [talk + GOOD])
    assert check.verdict == "pass"


def test_what_a_shared_process_cannot_hold(box):
    """An object that equals everything passes, as it would under pytest; that is why the record says shared-process."""
    liar = "class Any:\n    def __eq__(self, other): return True\n\ndef add(a, b): return Any()\n"
    task = task_of("from calc import add\n\ndef test_add():\n    assert add(1, 2) == 3\n")
    verification = Suites(box).verify(make_context(task), Proposal.alternatives([liar]))
    assert verification.checks[0].verdict == "pass"
    assert verification.notes["integrity"] == "shared-process"


@pytest.mark.exhaustive
def test_the_stage_conforms(box):
    """The kit's contract: one check per item, the same with and without scratch, errors that are no refusals."""
    blocks = lambda context: [Proposal.alternatives([GOOD, WRONG]), Proposal.alternatives([])]
    check_component(Subject(Suites(box, "unittest"), tasks=[task_of(UNITTEST)], proposals=blocks))


def test_a_run_of_which_nothing_is_known_is_told_in_its_own_words() -> None:
    """Where the way it ended says nothing, what the process wrote does."""
    check = suites._trouble((), None, Check("error", reason="exit"), b"no module named coverage", "")
    assert "no module named coverage" in check.feedback
