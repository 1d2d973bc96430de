"""Programs that plain Python refuses, each with the tests that refuse it: a judge apart from them must not pass them.

Two processes are not one. What stands in the judge for the program's objects and functions must not answer in their
place, and what the program does to its own process is not seen in the judge's. Of each of these some such judge, that of
a day before, believed that it is right. A word that asks for one process is as good as a rejection; a pass is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

__all__ = ["DIFFERENCES", "Difference"]


@dataclass(frozen=True)
class Difference:
    """Tests and a program.

    Args:
        name: of the test.
        tests: a script that calls f, the program's function.
        program: which fails them in plain Python.
        hole: why the judge passes it yet.
    """

    name: str
    tests: str
    program: str
    hole: str = ""


def differs(name: str, tests: str, program: str, hole: str = "") -> Difference:
    return Difference(name, dedent(tests).strip() + "\n", dedent(program).strip() + "\n", hole)


CAUGHT = """
try: f(0)
except {kind} as error: assert {claim}
else: assert False
"""


def raising(name: str, kind: str, claim: str, program: str, hole: str = "") -> Difference:
    """A program whose exception is not what the tests ask for."""
    return differs(name, CAUGHT.replace("{kind}", kind).replace("{claim}", claim), program, hole)


OBJECTS = [
    differs(
        "a class called like the answer",
        'assert f("Bob").name == "Bob"',
        "def f(x): return type(x, (), {})()",
    ),
    differs("an attribute of the stand-in", "assert f(0).expected", "class A: pass\ndef f(x): return A()"),
    differs(
        "an attribute that it lacks", 'assert hasattr(f(0), "name")', "class A: pass\ndef f(x): return A()"
    ),
    differs(
        "a truth that raises",
        "assert f(0)",
        "class A:\n    def __bool__(self): raise ValueError\ndef f(x): return A()",
    ),
    differs(
        "a truth that changes",
        "x = f(0)\nassert x and not x and x",
        "class A:\n    n = 0\n    def __bool__(self):\n        self.n += 1\n        return self.n < 2\ndef f(x): return A()",
    ),
    differs(
        "an inequality that is false",
        "assert f(0) != 3",
        "class A:\n    def __eq__(self, other): return True\ndef f(x): return A()",
    ),
    differs(
        "an equality that raises",
        "assert f(0) != 3",
        "class A:\n    def __eq__(self, other): raise ValueError\ndef f(x): return A()",
    ),
    differs(
        "objects that are equal to each other",
        "assert len({f(0), f(0)}) == 2",
        "class A:\n    def __eq__(self, other): return True\n    def __hash__(self): return 1\ndef f(x): return A()",
    ),
    differs(
        "a text that names another class",
        'assert "Bob" in str(f(0))',
        "class Bob:\n    def __str__(self): return 'nobody'\ndef f(x): return Bob()",
    ),
    differs(
        "a format of its own",
        'assert "Bob" in f"{f(0):}"',
        "class Bob:\n    def __format__(self, how): return 'nobody'\ndef f(x): return Bob()",
    ),
    differs(
        "an object that says it is an int",
        "assert isinstance(f(0), int) and f(0) + 1 == 1",
        "class A:\n    __class__ = property(lambda self: int)\ndef f(x): return A()",
    ),
    differs(
        "a class of a built-in one's name",
        "import builtins\nassert f(0) is builtins.int",
        "class int: pass\ndef f(x): return int",
    ),
    differs(
        "an exception class of a built-in one's name",
        "import builtins\nassert f(0) is builtins.ValueError",
        "class ValueError(Exception): pass\ndef f(x): return ValueError",
    ),
    differs(
        "an exception that is not the built-in one",
        "import builtins\nassert isinstance(f(0), builtins.ValueError)",
        "class ValueError(Exception): pass\ndef f(x): return ValueError()",
    ),
    differs(
        "a coroutine is no value",
        "assert f(0) != 1 and not hasattr(f(0), 'send')",
        "async def f(x): return 1",
    ),
    differs(
        "a function of the program's",
        "assert not callable(f(0))",
        "def f(x): return lambda: 1",
    ),
]

VALUES = [
    differs(
        "a tuple with names is a tuple",
        "assert type(f(0)) is tuple",
        "import collections\nP = collections.namedtuple('P', 'x y')\ndef f(x): return P(1, 2)",
    ),
    differs(
        "a member of an IntEnum is an int",
        "assert type(f(0)) is int",
        "import enum\nclass E(enum.IntEnum): A = 1\ndef f(x): return E.A",
    ),
    differs(
        "a dict of its own class", "assert type(f(0)) is dict", "class D(dict): pass\ndef f(x): return D(a=1)"
    ),
    differs(
        "a text of its own class", "assert type(f(0)) is str", "class S(str): pass\ndef f(x): return S('a')"
    ),
    differs(
        "a text that is equal to nothing",
        'assert f("a") == "a"',
        "class S(str):\n    def __eq__(self, other): return False\n    __hash__ = str.__hash__\ndef f(x): return S(x)",
    ),
    differs(
        "a number that is equal to nothing",
        "assert f(3) == 3",
        "class N(int):\n    def __eq__(self, other): return False\n    __hash__ = int.__hash__\ndef f(x): return N(x)",
    ),
    differs(
        "a list that is shorter than it is",
        "assert len(f(0)) == 2 and list(f(0)) == [1, 2]",
        "class L(list):\n    def __len__(self): return 0\n    def __iter__(self): return iter(())\ndef f(x): return L([1, 2])",
    ),
    differs(
        "a dict that gives something else",
        'assert f(0)["a"] == 1',
        "class D(dict):\n    def __getitem__(self, key): return 2\ndef f(x): return D(a=1)",
    ),
    differs(
        "a number with another text",
        'assert str(f(0)) == "1"',
        "class N(int):\n    def __str__(self): return 'one'\n    __repr__ = __str__\ndef f(x): return N(1)",
    ),
    differs(
        "keys that hash by themselves",
        "assert len(f(0)) == 1",
        "class K(str):\n    __hash__ = object.__hash__\n    def __eq__(self, other): return self is other\ndef f(x): return {K('a'): 1, K('a'): 2}",
    ),
    differs(
        "one number that is none, twice",
        "assert len(set(f(0))) == 2",
        "def f(x): return [float('nan')] * 2",
    ),
    differs(
        "a list that never ends",
        "assert len(list(f(0))) > 2",
        "def f(x):\n    yield 1\n    yield 2\n    yield 3\n    raise ValueError",
    ),
    differs(
        "an iterator that was drawn",
        "x = f(0)\nassert list(x) == [1, 2] and list(x) == [1, 2]",
        "def f(x): return iter([1, 2])",
    ),
    differs(
        "a date of its own class",
        'assert f(0).isoformat() == "2020-01-01"',
        "import datetime\nclass D(datetime.date):\n    def isoformat(self): return 'never'\ndef f(x): return D(2020, 1, 1)",
    ),
    differs(
        "a dataclass that differs from itself",
        "assert f(0) == f(0)",
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n    def __eq__(self, other): return False\ndef f(x): return P(1)",
    ),
    differs(
        "a dataclass whose fields are not what they say",
        "assert f(0).x == 1",
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\n    def __getattribute__(self, name): return 2\ndef f(x): return P(1)",
    ),
    differs(
        "a dataclass with a field that is not compared",
        "assert f(0) != f(1)",
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int = dataclasses.field(compare=False)\ndef f(x): return P(x)",
    ),
    differs(
        "a tuple with names that is equal to nothing",
        "assert f(0) == (1, 2)",
        "import typing\nclass P(typing.NamedTuple):\n    x: int\n    y: int\n    def __eq__(self, other): return False\ndef f(x): return P(1, 2)",
    ),
    differs(
        "members that are equal to all others",
        "assert f(0) != f(1)",
        "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\n    def __eq__(self, other): return True\n    __hash__ = object.__hash__\ndef f(x): return list(E)[x]",
    ),
    differs(
        "a member whose value is not its value",
        "assert f(0).value == 1",
        "import enum\nclass E(enum.Enum):\n    A = 1\n    @property\n    def value(self): return 2\ndef f(x): return E.A",
    ),
]

ALIASES = [
    differs(
        "one list for every call",
        "x = f(0)\nx.append(1)\nassert f(0) == []",
        "keep = []\ndef f(x): return keep",
    ),
    differs("one object for every call", "assert f(0) is not f(0)", "keep = []\ndef f(x): return keep"),
    differs(
        "a default that is shared",
        "assert f(1) == [1] and f(2) == [2]\nx = f(3)\nx.clear()\nassert f(4) == [4]",
        "def f(x, found=[]):\n    found[:] = [x] if len(found) != 0 or x == 1 else []\n    return found",
    ),
    differs(
        "an argument that it keeps",
        "x = [1]\nf(x)\nx.append(2)\nassert f(None) == [1]",
        "keep = []\ndef f(x):\n    if x is None: return keep[0]\n    keep.append(x)",
    ),
    differs(
        "an argument that it changes later",
        "x = [1]\nf(x)\nf(None)\nassert x == [1]",
        "keep = []\ndef f(x):\n    if x is None: keep[0].append(2)\n    keep.append(x)",
    ),
    differs(
        "a result that it changes later",
        "x = f(0)\nf(1)\nassert x == []",
        "keep = []\ndef f(x):\n    keep.extend([x] * x)\n    return keep",
    ),
    differs(
        "a list of its own that the tests read",
        "f(1)\nassert seen == []",
        "seen = []\ndef f(x): seen.append(x)",
    ),
    differs(
        "a number of its own that the tests read",
        "f(1)\nassert count == 0",
        "count = 0\ndef f(x):\n    global count\n    count += 1",
    ),
    differs(
        "an iterator that looks at an argument later",
        "x = [1]\ny = f(x)\nx.append(2)\nassert list(y) == [1]",
        "def f(x): return (each for each in x)",
    ),
    differs(
        "a view of a dict",
        "x = f(0)\nf(1)\nassert list(x) == []",
        "keep = {}\ndef f(x):\n    keep.update({x: x} if x else {})\n    return keep.keys()",
    ),
]

FUNCTIONS = [
    differs("a function's name", 'f(0)\nassert f.__name__ == "f"', "def g(x): return 1\nf = g"),
    differs("a function's annotations", 'f(0)\nassert "return" in f.__annotations__', "def f(x): return 1"),
    differs("a function's arguments", "f(0)\nassert f.__code__.co_argcount == 0", "def f(x): return 1"),
    differs("a function's text of help", "f(0)\nassert not f.__doc__", "def f(x):\n    'help'\n    return 1"),
    differs(
        "a function's signature",
        "import inspect\nf(0)\nassert 'args' in inspect.signature(f).parameters",
        "def f(x): return 1",
    ),
    differs(
        "a class is no function",
        "import types\nf(0)\nassert isinstance(f, types.FunctionType)",
        "class f:\n    def __init__(self, x): pass",
    ),
    differs("an attribute of a function", "f.calls = 3\nf(0)\nassert f.calls == 3", "def f(x): f.calls = 0"),
    differs("a function's globals", 'f(0)\nassert "time" in f.__globals__', "def f(x): return 1"),
]

EXCEPTIONS = [
    raising(
        "an exception's cause",
        "ValueError",
        "error.__cause__ is None",
        "def f(x): raise ValueError from KeyError()",
    ),
    raising(
        "an exception's notes",
        "ValueError",
        "not hasattr(error, '__notes__')",
        "def f(x):\n    error = ValueError()\n    error.__notes__ = ['x']\n    raise error",
    ),
    raising(
        "an exception's attribute",
        "ValueError",
        "not hasattr(error, 'code')",
        "def f(x):\n    error = ValueError()\n    error.code = 1\n    raise error",
    ),
    raising(
        "an exception's arguments",
        "ValueError",
        "len(error.args) == 1",
        "class A: pass\ndef f(x): raise ValueError(1, A())",
    ),
    raising(
        "an exception of two kinds",
        "KeyError",
        "not isinstance(error, AttributeError)",
        "class E(KeyError, AttributeError): pass\ndef f(x): raise E",
    ),
    raising(
        "an exception's class",
        "ValueError",
        "type(error) is ValueError",
        "class E(ValueError): pass\ndef f(x): raise E",
    ),
    raising(
        "an exception in a built-in one's name",
        "__import__('builtins').ValueError",
        "True",
        "class ValueError(Exception): pass\ndef f(x): raise ValueError",
    ),
    raising(
        "a failed assertion in name",
        "__import__('builtins').AssertionError",
        "True",
        "class AssertionError(BaseException): pass\ndef f(x): raise AssertionError",
    ),
    raising(
        "an exception with another text",
        "ValueError",
        "str(error) == '1'",
        "class E(ValueError):\n    def __str__(self): return 'one'\ndef f(x): raise E(1)",
    ),
    raising(
        "an exception that is equal to nothing",
        "ValueError",
        "error == error",
        "class E(ValueError):\n    def __eq__(self, other): return False\ndef f(x): raise E",
    ),
    raising(
        "a group is not its parts",
        "ValueError",
        "True",
        "def f(x): raise ExceptionGroup('x', [ValueError()])",
    ),
    raising(
        "an exception's context",
        "ValueError",
        "error.__context__ is None",
        "def f(x):\n    try: 1 / 0\n    except ZeroDivisionError: raise ValueError",
    ),
]

PROCESS = [
    differs(
        "a warning",
        "import warnings\nwith warnings.catch_warnings(record=True) as told:\n    warnings.simplefilter('always')\n    f(0)\nassert not told",
        "import warnings\ndef f(x): warnings.warn('x')",
    ),
    differs(
        "standard error",
        "import contextlib, io\nwith contextlib.redirect_stderr(io.StringIO()) as told: f(0)\nassert told.getvalue() == ''",
        "import sys\ndef f(x): print('x', file=sys.stderr)",
    ),
    differs(
        "a log",
        "import logging, unittest\nclass T(unittest.TestCase):\n    def runTest(self):\n        with self.assertNoLogs() if hasattr(self, 'assertNoLogs') else self.assertRaises(ZeroDivisionError): f(0)\nresult = unittest.TestResult()\nT().run(result)\nassert result.wasSuccessful()",
        "import logging\ndef f(x): logging.error('x')",
    ),
    differs(
        "a patched function that it calls",
        "from unittest import mock\nwith mock.patch('builtins.print') as told: f(0)\nassert not told.called",
        "def f(x): print(x)",
    ),
    differs(
        "a patched clock that it reads",
        "import time\nfrom unittest import mock\nwith mock.patch('time.sleep') as told: f(0)\nassert not told.called",
        "import time\ndef f(x): time.sleep(0)",
    ),
    differs(
        "a file that it makes",
        "import os\nf('made')\nassert not os.path.exists('made')",
        "def f(x): open(x, 'w').close()",
    ),
    differs(
        "a directory that it enters",
        "import os\nbefore = os.getcwd()\nf(0)\nassert os.getcwd() == before",
        "import os\ndef f(x): os.mkdir('d'); os.chdir('d')",
    ),
    differs(
        "a variable of the environment",
        "import os\nf(0)\nassert 'LEFT' not in os.environ",
        "import os\ndef f(x): os.environ['LEFT'] = 'x'",
    ),
    differs(
        "a thread that it leaves",
        "import threading\nf(0)\nassert threading.active_count() == 1",
        "import threading, time\ndef f(x): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
    ),
    differs(
        "a module that it imports",
        "import sys\nf(0)\nassert 'this' not in sys.modules and 'sched' not in sys.modules",
        "def f(x): import sched",
    ),
    differs(
        "a limit that it changes",
        "import sys\nbefore = sys.getrecursionlimit()\nf(0)\nassert sys.getrecursionlimit() == before",
        "import sys\ndef f(x): sys.setrecursionlimit(5000)",
    ),
    differs(
        "a context of decimals",
        "import decimal\nf(0)\nassert decimal.getcontext().prec == 28",
        "import decimal\ndef f(x): decimal.getcontext().prec = 3",
    ),
    differs(
        "random numbers that it draws",
        "import random\nrandom.seed(1)\nx = random.random()\nrandom.seed(1)\nf(0)\nassert random.random() == x",
        "import random\ndef f(x): random.random()",
    ),
    differs(
        "a signal's handler",
        "import signal\nf(0)\nassert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL",
        "import signal\ndef f(x): signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
    ),
    differs(
        "the process that calls",
        "import os\nassert f(0) != os.getpid()",
        "import os\ndef f(x): return os.getpid()",
    ),
]

CLASSES = [
    differs(
        "a field called like a comparison",
        "assert f(0) != f(0)",
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    __eq__: int\ndef f(x): return P(1)",
    ),
    differs(
        "a dataclass with another's comparison",
        "assert f(0) != f(1)",
        "import dataclasses, unittest.mock\n@dataclasses.dataclass\nclass P:\n    x: int\n    __eq__ = type(unittest.mock.ANY).__eq__\ndef f(x): return P(x)",
    ),
    differs(
        "a tuple with names and another's comparison",
        "assert f(0) != f(1)",
        "import typing, unittest.mock\nclass P(typing.NamedTuple):\n    x: int\n    __ne__ = type(unittest.mock.ANY).__ne__\ndef f(x): return P(x)",
    ),
    differs(
        "members with another's comparison",
        "assert f(0) != f(1)",
        "import enum, unittest.mock\nclass E(enum.Enum):\n    A = 1\n    B = 2\n    __eq__ = type(unittest.mock.ANY).__eq__\n    __hash__ = object.__hash__\ndef f(x): return list(E)[x]",
    ),
    raising(
        "an exception with another's comparison",
        "ValueError",
        "error != 1",
        "import unittest.mock\nclass E(ValueError): __eq__ = type(unittest.mock.ANY).__eq__\ndef f(x): raise E",
    ),
    differs(
        "a class that its own class compares",
        "assert type(f(0)) == type(f(0))",
        "import dataclasses\nclass M(type):\n    def __eq__(cls, other): return False\n    __hash__ = type.__hash__\n@dataclasses.dataclass\nclass P(metaclass=M):\n    x: int = 1\ndef f(x): return P()",
    ),
    differs(
        "members that their class counts",
        "assert len(type(f(0))) == 2",
        "import enum\nclass M(enum.EnumMeta):\n    def __len__(cls): return 7\nclass E(enum.Enum, metaclass=M):\n    A = 1\n    B = 2\ndef f(x): return E.A",
    ),
    differs(
        "a class that changes later",
        "x = f(0)\nassert f(1) != x",
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\ndef f(x):\n    if x: P.__eq__ = lambda self, other: True\n    return P(x)",
    ),
    differs("a name that changes later", "f(0)\nassert f.__name__ == 'f'", "def f(x): f.__name__ = 'g'"),
    differs(
        "a counter with an attribute",
        "assert not hasattr(f(0), 'note')",
        "import collections\ndef f(x):\n    found = collections.Counter()\n    found.note = 1\n    return found",
    ),
    differs(
        "a set in the order of its table",
        "assert list(f(0)) == [64, 1]",
        "def f(x):\n    found = set(range(200))\n    for each in range(200): each in (1, 64) or found.discard(each)\n    return found",
    ),
    differs("one number for every call", "assert f(0) is not f(0)", "keep = 10 ** 20\ndef f(x): return keep"),
    differs("one text for every call", "assert f(0) is not f(0)", "keep = 'x' * 99\ndef f(x): return keep"),
]

DIFFERENCES = [*CLASSES, *OBJECTS, *VALUES, *ALIASES, *FUNCTIONS, *EXCEPTIONS, *PROCESS]
