"""Programs of many manners with tests of every form, drawn by a seed: each judged in three orders, beside plain Python.

    python -m benchmarks.code.kinds [--out benchmarks/results/code_kinds.json] [--tasks 170] [--seed N]

A task is a function (`FUNCTIONS`) that is written in one manner (`MANNERS`: what it returns, keeps, patches, opens or
starts), with tests of one form: asserts, a script, `check(candidate)`, examples, unittest's classes, pytest's
functions, fixtures with a conftest.py, cases on standard input. Its programs are the right one and two wrong ones.
Plain Python is `plain.py`, `python -m unittest` and `python -m pytest` in an empty directory, or the program itself
on each case. One sandbox judges all tasks in three orders. The exit status is 1 when a verdict without a caveat
differs from plain Python's, or two orders differ.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.code.agreement import PlainPython
from benchmarks.code.estimators import Targets, said_of
from benchmarks.provenance import write
from draftverify import Check, Proposal, Task
from draftverify.kit import make_context
from draftverify_code import Cases, Suites, Tests
from draftverify_code.sandbox import Sandbox

SEED = 20261128
TIMEOUT = 10.0  # seconds for all tests of a program, here and there
FORMS = ("asserts", "script", "check", "doctest", "unittest", "pytest", "fixture", "cases")


class Function(NamedTuple):
    """What a program is to do: its parameters, bodies (the right one first), and calls of it."""

    name: str
    parameters: str
    bodies: tuple[str, str, str]
    calls: tuple[tuple[Any, ...], ...]

    def expected(self) -> list[Any]:
        """What the right body gives for each call."""
        space: dict[str, Any] = {}
        exec(self.text(0), space)
        return [space[self.name](*arguments) for arguments in self.calls]

    def text(self, variant: int, name: str = "") -> str:
        """The function, under its own or another name."""
        body = "\n".join(f"    {line}" for line in self.bodies[variant].split("\n"))
        return f"def {name or self.name}({self.parameters}):\n{body}\n"


def _function(signature: str, right: str, wrong: str, other: str, *calls: tuple[Any, ...]) -> Function:
    name, _, parameters = signature.rstrip(")").partition("(")
    return Function(name, parameters, (right, wrong, other), calls)


FUNCTIONS = [
    _function("total(xs)", "return sum(xs)", "return sum(xs[1:])", "return len(xs)", ([1, 2, 3],), ([],), ([-4, 9],)),
    _function("even(n)", "return n % 2 == 0", "return n % 2 == 1", "return True", (2,), (7,), (0,)),
    _function("backwards(s)", "return s[::-1]", "return s", "return s[:0:-1]", ("abc",), ("",), ("aä€",)),
    _function(
        "evens(xs)", "return [x for x in xs if x % 2 == 0]", "return [x for x in xs if x % 2]", "return xs",
        ([1, 2, 4],), ([],), ([3, 8],),
    ),
    _function(
        "tally(words)", "counts = {}\nfor word in words:\n    counts[word] = counts.get(word, 0) + 1\nreturn counts",
        "return {word: 1 for word in words}", "return dict.fromkeys(words, 0)", (["a", "b", "a"],), ([],),
    ),
    _function("mean(xs)", "return sum(xs) / len(xs)", "return sum(xs) // len(xs)", "return xs[0]",
              ([1, 2],), ([3, 4],)),
    _function(
        "pairs(xs)", "return list(zip(xs, xs[1:]))", "return [list(p) for p in zip(xs, xs[1:])]",
        "return list(zip(xs, xs))", ([1, 2, 3],), ([5],), ([4, 6],),
    ),
    _function("distinct(xs)", "return set(xs)", "return set(xs[1:])", "return set()", ([1, 2, 1],), ([],), (["x"],)),
    _function(
        "clamp(x, low, high)", "return max(low, min(x, high))", "return min(low, max(x, high))", "return x",
        (5, 0, 3), (-1, 0, 3), (2, 0, 3),
    ),
    _function(
        "flat(rows)", "return [x for row in rows for x in row]", "return [x for row in rows for x in row[:1]]",
        "return rows", ([[1, 2], [3]],), ([],), ([[], [4, 5]],),
    ),
    _function("fib(n)", "a, b = 0, 1\nfor _ in range(n):\n    a, b = b, a + b\nreturn a", "return n", "return 1",
              (0,), (10,), (90,)),
    _function("cut(xs, k)", "return xs[:k], xs[k:]", "return xs[k:], xs[:k]", "return [xs[:k], xs[k:]]",
              ([1, 2, 3], 1), ([4, 5], 0)),
    _function("merged(a, b)", "return {**a, **b}", "return {**b, **a}", "return a",
              ({"x": 1}, {"x": 2, "y": (3, None)}), ({}, {"z": b"1"})),
    _function("words(text)", "return text.split()", "return text.split(' ')", "return list(text)",
              ("a b",), (" c  d",)),
    _function("power(x, n)", "return x ** n", "return x * n", "return x", (2, 200), (-3, 3), (1.5, 2)),
    _function("rounded(x)", "return round(x, 2)", "return round(x)", "return x", (1.239,), (-0.005,), (1e300,)),
]  # fmt: skip


class Manner(NamedTuple):
    """How a program is written.

    Args:
        name: of the manner.
        text: of a program; FUNCTION is the function under the name `inner`, NAME its own, ARGS its parameters.
        tests: further assert statements; NAME and CALL (a call of it that is tested) are put in.
        call: what the tests write for a call of it.
    """

    name: str
    text: str
    tests: tuple[str, ...] = ()
    call: str = "CALL"


def _inner(before: str = "", body: str = "return inner(ARGS)", after: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"{before}\nFUNCTION\n\ndef NAME(ARGS):\n{lines}\n{after}"


_KEPT = "import {0}\n"
_LOCAL = """\
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
client.sendall(b"1")
data = server.accept()[0].recv(1)
return inner(ARGS) if data == b"1" else None"""
_WORKERS = """\
kept = []
threads = [threading.Thread(target=lambda: kept.append(inner(ARGS))) for _ in range({})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
return kept[0]"""
MANNERS = [
    Manner("plain", _inner()),
    Manner("future", _inner("from __future__ import annotations\nfrom typing import Any\nLIMIT: int = 3")),
    Manner("static method", "FUNCTION\n\nclass Solver:\n    @staticmethod\n    def run(ARGS):\n"
           "        return inner(ARGS)\n\nNAME = Solver.run\n"),
    Manner("decorated", _inner("def shown(f):\n    def g(*a, **k):\n        return f(*a, **k)\n    return g\n",
                               after="NAME = shown(NAME)\n")),
    Manner("partial", "import functools\nFUNCTION\n\nNAME = functools.partial(inner)\n"),
    Manner("callable instance", "FUNCTION\n\nclass Call:\n    def __call__(self, ARGS):\n        return inner(ARGS)\n\n"
           "NAME = Call()\n"),
    Manner("closure",
           "FUNCTION\n\ndef make():\n    count = 0\n    def run(ARGS):\n        nonlocal count\n        count += 1\n"
           "        return inner(ARGS)\n    return run\n\nNAME = make()\n", ("CALL == CALL",)),
    Manner("keyword only tests", _inner(), ("NAME.__name__ == 'NAME'", "callable(NAME)")),
    Manner("documented", _inner(body='"""What it does."""\nreturn inner(ARGS)'), ("NAME.__doc__ == 'What it does.'",)),
    Manner("annotated", _inner(after="NAME.__annotations__ = {'return': object}\n")),
    Manner("prints", _inner(body="print('working', ARGS)\nreturn inner(ARGS)")),
    Manner("writes to stderr", _inner("import sys", "sys.stderr.write('x' * 100)\nreturn inner(ARGS)")),
    Manner("logs", _inner("import logging\nlogging.basicConfig(level=10)", "logging.info('x')\nreturn inner(ARGS)")),
    Manner("recursion limit", _inner("import sys\nsys.setrecursionlimit(5000)")),
    Manner("seeds", _inner("import random\nrandom.seed(3)", "random.random()\nreturn inner(ARGS)")),
    Manner("decimal context", _inner("import decimal\ndecimal.getcontext().prec = 4"),
           ("len(str(__import__('decimal').Decimal(1) / 3)) == 6",)),
    Manner("decimal inside", _inner("import decimal", "with decimal.localcontext() as c:\n    c.prec = 3\n"
                                    "    return inner(ARGS)")),
    Manner("numpy result",
           _inner("import numpy as np", "made = inner(ARGS)\nkinds = {int: np.int64, float: np.float64, "
                                  "bool: np.bool_}\nbig = isinstance(made, int) and abs(made) > 1 << 62\n"
                                  "return made if big else kinds.get(type(made), lambda x: x)(made)")),
    Manner("numpy result asked", _inner("import numpy as np", "made = inner(ARGS)\nreturn np.int64(made) "
                                        "if type(made) is int and abs(made) < 1 << 62 else made"),
           ("not isinstance(CALL, float) or CALL == CALL", "type(CALL).__module__ == 'builtins'")),
    Manner("numpy settings", _inner("import numpy as np\nnp.seterr(all='raise')")),
    Manner("numpy array in", _inner("import numpy as np\nTABLE = np.arange(10)", "assert TABLE.sum() == 45\n"
                                    "return inner(ARGS)")),
    Manner("forty threads", _inner("import threading", _WORKERS.format(40))),
    Manner("a thread that stays", _inner("import threading, time\nthreading.Thread(target=time.sleep, args=(0.5,), "
                                         "daemon=True).start()")),
    Manner("thread pool",
           _inner("from concurrent.futures import ThreadPoolExecutor", "with ThreadPoolExecutor(4) as pool:\n"
                                 "    return pool.submit(inner, ARGS).result()")),
    Manner("process", _inner("import subprocess, sys", "subprocess.run([sys.executable, '-c', '1'], check=True)\n"
                             "return inner(ARGS)")),
    Manner("temporary file",
           _inner("import tempfile", "with tempfile.TemporaryFile('w+') as file:\n    file.write('x')\n"
                                    "    file.seek(0)\n    assert file.read() == 'x'\nreturn inner(ARGS)")),
    Manner("file in /tmp",
           _inner("import os", "path = f'/tmp/draftverify-kinds-{os.getpid()}'\nopen(path, 'w').write('x')\n"
                                  "os.remove(path)\nreturn inner(ARGS)")),
    Manner("file beside", _inner("", "with open('work.txt', 'a') as file:\n    file.write('x')\nreturn inner(ARGS)")),
    Manner("local socket", _inner("import socket", _LOCAL)),
    Manner("who am I",
           _inner("import getpass, os", "assert getpass.getuser() and os.getuid() >= 0\nreturn inner(ARGS)")),
    Manner("/proc/self", _inner("", "with open('/proc/self/status') as file:\n    assert 'Name' in file.read()\n"
                                "return inner(ARGS)")),
    Manner("patched builtin", _inner("import builtins\n_sorted = builtins.sorted\nbuiltins.sorted = "
                                     "lambda *a, **k: _sorted(*a, **k)")),
    Manner("builtin patched to lie", _inner("import builtins\nbuiltins.sorted = list"), ("sorted([2, 1]) == [1, 2]",)),
    Manner("module __getattr__", _inner(after="def __getattr__(name):\n    raise KeyError(name)\n")),
    Manner("class __getattr__",
           _inner("class Box:\n    def __init__(self, x): self.x = x\n    def __getattr__(self, name): "
                                       "raise KeyError(name)\n", "return Box(inner(ARGS))"), call="CALL.x"),
    Manner("environment",
           _inner("import os\nos.environ['MODE'] = 'fast'"), ("__import__('os').environ['MODE'] == 'fast'",)),
    Manner("changes directory", _inner("import os, tempfile", "before = os.getcwd()\nos.chdir(tempfile.gettempdir())\n"
                                       "try:\n    return inner(ARGS)\nfinally:\n    os.chdir(before)")),
    Manner("stays elsewhere", _inner("import os, tempfile\nos.chdir(tempfile.mkdtemp())")),
    Manner("warnings",
           _inner("import warnings\nwarnings.simplefilter('ignore')", "warnings.warn('old')\nreturn inner(ARGS)")),
    Manner("signal", _inner("import signal\nsignal.signal(signal.SIGALRM, lambda *a: None)")),
    Manner("alarm",
           _inner("import signal", "signal.alarm(5)\ntry:\n    return inner(ARGS)\nfinally:\n    signal.alarm(0)")),
    Manner("keeps all results", _inner("kept = []", "kept.append(inner(ARGS))\nreturn kept[-1]"), ("CALL == CALL",)),
    Manner("gives what it keeps", _inner("kept = []", "kept.append(inner(ARGS))\nreturn kept"), call="CALL[-1]"),
    Manner("own class", _inner("class Own:\n    def __init__(self, x): self.x = x\n    def __eq__(self, other): "
                               "return self.x == other\n", "return Own(inner(ARGS))")),
    Manner("subclass of a builtin", _inner("class Text(str): pass\nclass Rows(list): pass\n", "made = inner(ARGS)\n"
                                           "return {str: Text, list: Rows}.get(type(made), lambda x: x)(made)")),
    Manner("subclass asked",
           _inner("class Rows(list): pass\n", "made = inner(ARGS)\nreturn Rows(made) if type(made) is list "
                                    "else made"), ("type(CALL) in (int, float, bool, str, list, dict, tuple, set)",)),
    Manner("dataclass", _inner("from dataclasses import dataclass\n@dataclass\nclass Result:\n    value: object\n",
                               "return Result(inner(ARGS))"), ("CALL == CALL",), "CALL.value"),
    Manner("named tuple", _inner("from collections import namedtuple\nResult = namedtuple('Result', 'value')",
                                 "return Result(inner(ARGS))"), ("CALL[0] == CALL.value",), "CALL.value"),
    Manner("iterator", _inner("", "yield inner(ARGS)"), call="next(CALL)"),
    Manner("async",
           "import asyncio\nFUNCTION\n\nasync def NAME(ARGS):\n    await asyncio.sleep(0)\n    return inner(ARGS)\n",
           call="__import__('asyncio').run(CALL)"),
    Manner("memo", _inner("import copy\nmemo = {}", "key = repr((ARGS,))\nreturn memo.setdefault(key, inner(ARGS))"),
           ("CALL == CALL",)),
    Manner("identity", _inner("memo = {}", "key = repr((ARGS,))\nreturn memo.setdefault(key, inner(ARGS))"),
           ("CALL is CALL",)),
    Manner("raises on demand",
           _inner("class Broken(ValueError):\n    def __init__(self, code):\n        super().__init__(code)\n"
                                      "        self.code = code\n", after="\ndef NAME_or(*a):\n    raise Broken(7)\n")),
    Manner("context manager",
           _inner("import contextlib\n@contextlib.contextmanager\ndef open_result(x):\n    yield x\n",
                                     "with open_result(inner(ARGS)) as made:\n    return made")),
    Manner("big integers", _inner("BIG = 10 ** 400", "assert BIG % 7 == 4\nreturn inner(ARGS)")),
    Manner("sleeps", _inner("import time", "time.sleep(0.01)\nreturn inner(ARGS)")),
    Manner("at exit", _inner("import atexit\natexit.register(print, 'bye')")),
    Manner("locale and umask", _inner("import locale, os\nos.umask(0o77)\nlocale.setlocale(locale.LC_ALL, 'C')")),
    Manner("limits", _inner("import resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))")),
    Manner("garbage", _inner("import gc\ngc.disable()", "gc.collect()\nreturn inner(ARGS)")),
    Manner("main guard", _inner(after="\nif __name__ == '__main__':\n    print(NAME.__name__)\n")),
    Manner("imports itself", _inner("import sys", "assert __name__ in sys.modules\nreturn inner(ARGS)")),
    Manner("reads its source",
           _inner("import inspect", "assert 'def ' in inspect.getsource(inner)\nreturn inner(ARGS)")),
]  # fmt: skip


class KindTask(NamedTuple):
    """A task: what it has for a stage, and its programs, the right one first."""

    name: str
    form: str
    input: Mapping[str, Any]
    programs: tuple[str, ...]
    tests: str


def make_task(function: Function, manner: Manner, form: str) -> KindTask:
    """A function in a manner, with tests of a form."""
    if form == "cases":
        manner = manner._replace(tests=(), call="CALL")
    programs = tuple(
        manner.text.replace("FUNCTION", function.text(variant, "inner"))
        .replace("NAME", function.name)
        .replace("ARGS", function.parameters)
        for variant in range(3)
    )
    name = "candidate" if form == "check" else function.name
    calls = [f"{name}({', '.join(map(repr, arguments))})" for arguments in function.calls]
    right = function.expected()
    sides = [
        (manner.call.replace("CALL", call), repr(value)) for call, value in zip(calls, right, strict=True)
    ]
    extra = [test.replace("CALL", calls[0]).replace("NAME", name) for test in manner.tests]
    extra = [test.replace(f"'{name}'", f"'{function.name}'") for test in extra]
    asserts = [*(f"assert {left} == {value}" for left, value in sides), *(f"assert {test}" for test in extra)]
    body = "\n".join(f"    {line}" for line in asserts)
    fields: dict[str, Any] = {"entry_point": function.name}
    if form == "asserts":
        fields["test_list"] = asserts
    elif form == "script":
        fields["test"] = "\n".join(asserts)
    elif form == "check":
        fields["test"] = f"def check(candidate):\n{body}\n"
    elif form == "doctest":
        lines = [f">>> {left} == {value}\nTrue" for left, value in sides] + [
            f">>> {test}\nTrue" for test in extra
        ]
        fields |= {"prompt": "\n".join(lines), "doctest": True}
    elif form == "unittest":
        equal = [f"self.assertEqual({left}, {value})" for left, value in sides] + asserts[len(sides) :]
        methods = "".join(f"    def test_{n}(self):\n        {line}\n" for n, line in enumerate(equal))
        fields["test"] = f"import unittest\n\n\nclass Test(unittest.TestCase):\n{methods}"
    elif form == "pytest":
        tests = "".join(f"def test_{n}():\n    {line}\n\n" for n, line in enumerate(asserts))
        fields["test"] = f"from solution import {function.name}\n\n\n{tests}"
    elif form == "fixture":
        tests = "".join(f"def test_{n}({name}):\n    {line}\n\n" for n, line in enumerate(asserts))
        conftest = f"import pytest\nimport solution\n\n\n@pytest.fixture\ndef {name}():\n    return solution.{name}\n"
        fields = {"target": "solution.py", "files": {"conftest.py": conftest, "test_solution.py": tests}}
    else:
        driver = f"\n\nimport ast as _ast, sys as _sys\nprint(repr({name}(*_ast.literal_eval(_sys.stdin.read()))))\n"
        programs = tuple(f"{program}{driver}" for program in programs)
        pairs = zip(function.calls, right, strict=True)
        fields = {"cases": [{"input": repr(args), "output": f"{value!r}\n"} for args, value in pairs]}
    source = str(fields.get("test") or fields.get("prompt") or "\n".join(fields.get("test_list", ())))
    return KindTask(f"{function.name}, {manner.name}, {form}", form, fields, programs, source)


def make_tasks(count: int, seed: int) -> list[KindTask]:
    """So many tasks; every manner and every form as often as any other, and in other pairs each time."""
    dice = random.Random(seed)
    made: list[KindTask] = []
    while len(made) < count:
        manners, forms = dice.sample(MANNERS, len(MANNERS)), list(FORMS)
        dice.shuffle(forms)
        for number, manner in enumerate(manners):
            made.append(make_task(dice.choice(FUNCTIONS), manner, forms[number % len(forms)]))
    return made[:count]


def plain_verdicts(tasks: Sequence[KindTask]) -> list[list[str]]:
    """Plain Python's word on each program of each task."""
    with PlainPython(2) as python:
        return [[_plain(python, task, program) for program in task.programs] for task in tasks]


def _plain(python: PlainPython, task: KindTask, program: str) -> str:
    if task.form in ("asserts", "script", "check", "doctest"):
        tests = task.tests + (f"\ncheck({task.input['entry_point']})\n" if task.form == "check" else "")
        job = {
            "program": program,
            "tests": tests,
            "doctest": task.form == "doctest",
            "timeout": TIMEOUT,
            "memory": 8192,
        }
        return str(python.verdicts([job])[0]["verdict"])
    with tempfile.TemporaryDirectory() as folder:
        files = {"solution.py": program, **task.input.get("files", {})}
        if task.form in ("unittest", "pytest"):
            source = task.tests
            if task.form == "unittest":
                source = f"from solution import *\nfrom solution import {task.input['entry_point']}\n{source}"
            files["test_solution.py"] = source
        for name, text in files.items():
            Path(folder, name).write_text(text)
        if task.form != "cases":
            more = (
                ()
                if task.form == "unittest"
                else ("-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=.")
            )
            runner = "unittest" if task.form == "unittest" else "pytest"
            return "pass" if _run((sys.executable, "-m", runner, *more), folder) is not None else "reject"
        for case in task.input["cases"]:
            if _run((sys.executable, "solution.py"), folder, case["input"]) != case["output"].rstrip():
                return "reject"
        return "pass"


def _run(command: Sequence[str], folder: str, stdin: str = "") -> str | None:
    """What a command that ends well writes, but for the noise before its last line; None for another end."""
    try:
        done = subprocess.run(
            command, cwd=folder, input=stdin, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.rstrip() if done.returncode == 0 else None


def judge(task: KindTask, box: Sandbox) -> tuple[Check, ...]:
    """Our checks of a task's programs."""
    stages = {"cases": Cases(box, timeout=TIMEOUT), "fixture": Suites(box, timeout=TIMEOUT)}
    stage: Any = stages.get(task.form) or Tests(box, timeout=TIMEOUT, memory=4096)
    context = make_context(Task(id=task.name, input=task.input))
    return tuple(stage.verify(context, Proposal.alternatives(task.programs)).checks)


def measure(tasks: Sequence[KindTask], box: Sandbox, targets: Targets) -> dict[str, Any]:
    """Every task in three orders."""
    plain = plain_verdicts(tasks)
    seen: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    orders: list[dict[int, tuple[Check, ...]]] = []
    for order in range(3):
        numbers = list(range(len(tasks)))
        random.Random(SEED + order).shuffle(numbers)
        orders.append({number: judge(tasks[number], box) for number in numbers})
    for number, task in enumerate(tasks):
        for variant, verdict in enumerate(plain[number]):
            checks = [judged[number][variant] for judged in orders]
            ours = {(said_of(check), bool(check.caveat)) for check in checks}
            words = sorted({word for word, _ in ours})
            kind = "same" if words == [verdict] else "error" if "error" in words else "other"
            if kind == "other":
                kind = "otherwise, with the caveat" if all(caveat for _, caveat in ours) else "otherwise"
            seen[kind] += 1
            seen["with the caveat"] += all(caveat for _, caveat in ours)
            seen["differs by order"] += len({(check.verdict, check.reason) for check in checks}) > 1
            if kind != "same" or len(words) > 1:
                lines = [(check, check.feedback.strip().splitlines() or [""]) for check in checks]
                said = {f"{check.verdict} {check.reason}: {last[-1]:.200}" for check, last in lines}
                rows.append(
                    {
                        "task": task.name,
                        "program": variant,
                        "plain": verdict,
                        "kind": kind,
                        "said": sorted(said),
                    }
                )
    otherwise, differ = seen["otherwise"], seen["differs by order"]
    programs = sum(len(task.programs) for task in tasks)
    targets.holds("programs", programs, "at least 500", programs >= 500)
    targets.holds("judged otherwise than by plain Python, without a caveat", otherwise, "0", not otherwise)
    targets.holds("judged otherwise in another order", differ, "0", not differ)
    passed = Counter(verdict for verdicts in plain for verdict in verdicts)
    return {"programs": programs, "plain": dict(passed), "found": dict(seen), "differences": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/code_kinds.json"))
    parser.add_argument("--tasks", type=int, default=170, help="how many tasks, of three programs each (170)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the draw")
    options = parser.parse_args()
    tasks, targets, start = make_tasks(options.tasks, options.seed), Targets(), perf_counter()
    with Sandbox(packages=["numpy", "pytest"], workers=2) as box:
        figures = {"isolation": box.tier, "seed": options.seed, **measure(tasks, box, targets)}
    figures["seconds"] = perf_counter() - start
    write(options.out, "benchmarks.code.kinds", {"targets": targets.rows, **figures})
    for row in figures["differences"]:
        print(row)
    print(figures["found"])
    for row in targets.rows:
        print("ok    " if row["ok"] else "MISSED", f"{row['what']}: {row['value']} (wanted {row['wanted']})")
    return 1 if targets.missed else 0


if __name__ == "__main__":
    sys.exit(main())
