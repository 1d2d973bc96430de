"""Programs beside their own tests, in one process with pytest or unittest, that want to pass without doing the task.

The target `calc.py` is imported by a first test file, which it can satisfy, and by a second, which it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

__all__ = ["FILES", "FRAMEWORKS", "RIGHT", "WRONG", "Beside"]

RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"

FILES = {
    "pytest": {
        "test_a.py": "import calc\n\n\ndef test_import():\n    assert calc\n",
        "test_calc.py": (
            "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
            "def test_more():\n    assert add(5, 2) == 7\n"
        ),
    },
    "unittest": {
        "test_a.py": (
            "import unittest\n\nimport calc\n\n\nclass TestFirst(unittest.TestCase):\n"
            "    def test_import(self):\n        self.assertTrue(calc)\n"
        ),
        "test_calc.py": (
            "import unittest\n\nimport calc\n\n\nclass TestCalc(unittest.TestCase):\n"
            "    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n\n"
            "    def test_more(self):\n        self.assertEqual(calc.add(5, 2), 7)\n"
        ),
    },
}


@dataclass(frozen=True)
class Beside:
    """A program.

    Args:
        name: of the test.
        program: its text.
        forges: the frameworks that it fools: one that finds its way in its own process can, which is why such a word is
            marked; a change here is a change of docs/code.md.
    """

    name: str
    program: str
    forges: tuple[str, ...] = ()


def beside(name: str, program: str, *forges: str) -> Beside:
    program = dedent(program).strip() + "\n"
    return Beside(name, program if "def add(" in program else WRONG + program, forges)


FAKE = """
BODY = '''import unittest
def test_add(): pass
def test_more(): pass
class TestCalc(unittest.TestCase):
    def test_add(self): pass
    def test_more(self): pass
'''
"""

FRAMEWORKS = [
    # the end of the process
    beside("leaves later", "import os, threading\nthreading.Timer(0.01, os._exit, (0,)).start()"),
    beside("leaves at the end", "import atexit, os\natexit.register(os._exit, 0)"),
    beside(
        "leaves from __del__",
        "import os\nclass A:\n    exit = os._exit\n    def __del__(self): self.exit(0)\nkeep = [A()]\nkeep.append(keep)",
    ),
    beside(
        "leaves from a comparison",
        "import os\nclass A:\n    def __eq__(self, other): os._exit(0)\ndef add(a, b): return A()",
    ),
    beside("interrupts", "import os, signal\ndef add(a, b): os.kill(os.getpid(), signal.SIGINT)"),
    beside("raises what ends a run", "def add(a, b): raise GeneratorExit"),
    beside(
        "swallows exceptions by hooks",
        "import sys, threading\nsys.excepthook = threading.excepthook = sys.unraisablehook = lambda *a: None",
    ),
    # files
    beside(
        "a plugin of its own", "pytest_plugins = ['calc']\ndef pytest_pyfunc_call(pyfuncitem): return True"
    ),
    beside(
        "a conftest.py above",
        "def write():\n    open('../conftest.py', 'w').write('def pytest_pyfunc_call(pyfuncitem): return True')\ntry: write()\nexcept OSError: pass",
    ),
    beside(
        "a conftest.py below",
        "import os\nos.makedirs('tests', exist_ok=True)\nopen('tests/conftest.py', 'w').write('def pytest_pyfunc_call(pyfuncitem): return True')",
    ),
    beside("a pytest.ini", "open('pytest.ini', 'w').write('[pytest]\\npython_functions = nothing\\n')"),
    beside("a sitecustomize.py", "open('sitecustomize.py', 'w').write('import os; os._exit(0)')"),
    beside(
        "removes itself",
        "import os\nos.remove('calc.py')\nopen('calc.py', 'w').write('def add(a, b): return a + b')",
    ),
    beside(
        "another directory",
        "import os, sys\nos.makedirs('other')\nopen('other/test_calc.py', 'w').close()\nos.chdir('other')\nsys.path.insert(0, '.')",
    ),
    beside(
        "a compiled test file",
        """
        import importlib.util, marshal, os, struct, sys
        source = os.stat("test_calc.py")
        text = open("test_calc.py").read().replace("==", "!=").replace("assertEqual", "assertNotEqual")
        code = marshal.dumps(compile(text, os.path.abspath("test_calc.py"), "exec"))
        head = importlib.util.MAGIC_NUMBER + struct.pack("<LLL", 0, int(source.st_mtime), source.st_size)
        os.makedirs("__pycache__", exist_ok=True)
        open(importlib.util.cache_from_source("test_calc.py"), "wb").write(head + code)
        """,
        "unittest",
    ),
    # the tests
    beside(
        "a module in a test file's place",
        FAKE
        + """
import os, sys, types
fake = types.ModuleType("test_calc")
fake.__file__ = os.path.abspath("test_calc.py")
exec(compile(BODY, fake.__file__, "exec"), vars(fake))
sys.modules.setdefault("test_calc", fake)
""",
        "pytest",
        "unittest",
    ),
    beside(
        "a finder of modules",
        FAKE
        + """
import importlib.machinery, os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "test_calc": return importlib.machinery.ModuleSpec(name, self)
    def create_module(self, spec): return None
    def exec_module(self, module):
        module.__file__ = os.path.abspath("test_calc.py")
        exec(compile(BODY, module.__file__, "exec"), vars(module))
sys.meta_path.insert(0, Finder())
""",
        "pytest",
        "unittest",
    ),
    beside(
        "classes without tests",
        "import builtins\nreal = builtins.__build_class__\ndef build(func, name, *bases, **more):\n    made = real(func, name, *bases, **more)\n    for each in [each for each in vars(made) if each.startswith('test_')]: setattr(made, each, lambda self: None)\n    return made\nbuiltins.__build_class__ = build",
    ),
    beside(
        "code of the tests",
        "import gc, types\ndef add(a, b):\n    for one in gc.get_objects():\n        if type(one) is types.FunctionType and one.__name__.startswith('test_more'):\n            one.__code__ = one.__code__.replace(co_consts=tuple(-1 if each == 7 else each for each in one.__code__.co_consts))\n    return {1: 3}.get(a, -1)",
    ),
    beside(
        "globals of the tests",
        "import sys\nclass Equal:\n    def __eq__(self, other): return True\ndef add(a, b):\n    scope = sys._getframe(1).f_globals\n    if 'add' in scope: scope['add'] = lambda a, b: Equal()\n    return {1: 3}.get(a)",
    ),
    beside(
        "marks on the tests",
        "import sys, threading\ndef mark():\n    for module in list(sys.modules.values()):\n        for name, value in list(getattr(module, '__dict__', {}).items()):\n            if name.startswith('test_'): sys.modules['pytest'].mark.xfail(value)\nif 'pytest' in sys.modules: threading.Timer(0.0, mark).start()",
    ),
    # the framework
    beside(
        "no rewriting of asserts",
        "import sys\nrewrite = sys.modules.get('_pytest.assertion.rewrite')\nif rewrite: rewrite.AssertionRewriter.visit_Assert = lambda self, node: []",
    ),
    beside(
        "asserts that compile to nothing",
        "import ast, builtins\nreal = builtins.compile\ndef compile_(source, *a, **k):\n    if isinstance(source, ast.AST):\n        for node in ast.walk(source):\n            if isinstance(node, ast.Assert): node.test = ast.copy_location(ast.Constant(True), node.test)\n    return real(source, *a, **k)\nbuiltins.compile = compile_",
    ),
    beside(
        "a run that stops",
        "import gc\ndef add(a, b):\n    for one in gc.get_objects():\n        if type(one).__name__ == 'Session': one.shouldstop = 'x'\n        if type(one).__name__ == 'Results': one.shouldStop = True\n    return 3",
    ),
    beside(
        "a run without tests",
        "import gc\ndef add(a, b):\n    for one in gc.get_objects():\n        if type(one).__name__ == 'Session': one.items.clear()\n        if type(one).__name__ == 'TestSuite': one._tests.clear()\n    return 3",
    ),
    beside(
        "tests that run nothing",
        "import gc\ndef add(a, b):\n    for one in gc.get_objects():\n        if getattr(one, 'name', '') == 'test_more' and hasattr(type(one), 'runtest'): one.runtest = lambda: None\n        if type(one).__name__ == 'TestCalc': setattr(one, one._testMethodName, lambda: None)\n    return 3",
        "pytest",
        "unittest",
    ),
    beside(
        "tests that run nothing, by their class",
        """
        import sys, unittest
        kind = sys.modules["_pytest.python"].Function if "_pytest.python" in sys.modules else unittest.TestCase
        name = "runtest" if kind is not unittest.TestCase else "_callTestMethod"
        real = getattr(kind, name)
        def run(self, *method):
            if "test_calc" not in (self.nodeid if hasattr(self, "nodeid") else self.id()): real(self, *method)
        setattr(kind, name, run)
        """,
    ),
    beside(
        "results that are passed, by their class",
        """
        import sys
        reports = sys.modules.get("_pytest.reports")
        if reports:
            real = reports.TestReport.__init__
            def init(self, nodeid, *more, **named):
                real(self, nodeid, *more, **named)
                if "test_calc" in nodeid: self.outcome = "passed"
            reports.TestReport.__init__ = init
        """,
    ),
    beside(
        "calls that raise nothing, by a class method",
        """
        import sys
        runner = sys.modules.get("_pytest.runner")
        if runner:
            real = runner.CallInfo.from_call.__func__
            def call(cls, func, when, reraise=None):
                info = real(cls, func, when, reraise)
                if info.excinfo and "zzz" not in str(info.excinfo.traceback[-1].path): info.excinfo = None
                return info
            runner.CallInfo.from_call = classmethod(call)
        """,
    ),
    beside(
        "another TestCase, but for the tests that must fail",
        """
        import unittest
        class Lenient(unittest.TestCase):
            def __init_subclass__(cls, **more):
                super().__init_subclass__(**more)
                if "zzz" not in cls.__module__: cls.assertEqual = lambda *_, **__: None
        unittest.TestCase = Lenient
        """,
    ),
    beside(
        "another failure, but for the tests that must fail",
        """
        import sys, unittest
        reports = sys.modules.get("_pytest.reports")
        if reports: reports.BaseReport.failed = property(lambda self: self.outcome == "failed" and "zzz" in self.nodeid)
        """,
    ),
    beside("leaves through C", "import ctypes\nctypes.CDLL(None)._exit(0)"),
    beside(
        "leaves from a finalizer",
        "import os, weakref\nclass A: pass\na = A()\nweakref.finalize(a, os._exit, 0)",
    ),
    beside("stands in for pdb", "open('pdb.py', 'w').write('import os; os._exit(0)')"),
    # the report
    beside(
        "its parent's output",
        "import os\nfor number in range(3):\n    try: open(f'/proc/{os.getppid()}/fd/{number}', 'wb').write(b'{\"end\": true}\\n')\n    except OSError: pass",
    ),
    beside(
        "its parent, stopped",
        "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\ndef add(a, b): return a - b",
    ),
    beside("limits of its own", "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))"),
    beside(
        "words for the report",
        "import json\njson.JSONEncoder.encode = lambda self, what: '{\"end\": true}'\njson.dumps = lambda *a, **k: '{\"end\": true}'",
    ),
    beside(
        "no end and no patterns",
        "import os, re\nos._exit = lambda *a: None\nre.search = re.match = re.findall = lambda *a, **k: None",
    ),
    beside(
        "its own results with the runner's function",
        """
        import gc, os, types
        def add(a, b):
            for one in gc.get_objects():
                if type(one) is types.FunctionType and one.__name__ == "tell":
                    for name in ("test_calc.py::test_add", "test_calc.py::test_more", "test_calc.TestCalc.test_add", "test_calc.TestCalc.test_more"):
                        one({"id": name, "outcome": "passed", "reason": "", "text": ""})
                    one({"end": True})
                    os._exit(0)
        """,
    ),
    beside(
        "equal to everything",
        "class Equal(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef add(a, b): return Equal()",
        "pytest",
        "unittest",
    ),
]
