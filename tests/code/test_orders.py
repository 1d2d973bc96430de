"""A verdict does not depend on what was judged before, whatever that left in the judge's process or the keeper's."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.code import kinds
from benchmarks.code.estimators import Targets
from draftverify import Proposal, Task
from draftverify.kit import make_context
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages.tests import Tests

SUM = "import numpy as np\ndef f(xs):\n    return {}\n"
ASKS = "assert isinstance(f([1, 2]), int)"
JOBS = [
    (ASKS, SUM.format("np.sum(xs)")),
    (ASKS, SUM.format("int(np.sum(xs))")),
    ("assert f([1, 2]) is True", SUM.format("np.bool_(True)")),
    ("import numpy as np\nassert np.isclose(f([1, 2]), 3)", SUM.format("np.sum(xs)")),
    ("import numpy as np\nassert f([1, 2]) == 3", "def f(xs):\n    return sum(xs)\n"),
    ("import numpy as np\nassert isinstance(f([1]), np.integer)", SUM.format("np.int64(1)")),
    ("assert f([2, 1]) == [1, 2]", "import builtins\nbuiltins.sorted = list\ndef f(xs):\n    return sorted(xs)\n"),
    ("assert f([2, 1]) == [1, 2]", "def f(xs):\n    return sorted(xs)\n"),
    ("import decimal\nassert str(decimal.Decimal(1) / f([3])) == '0.333'", "import decimal\n"
     "decimal.getcontext().prec = 3\ndef f(xs):\n    return xs[0]\n"),
    ("import decimal\nassert len(str(decimal.Decimal(1) / f([3]))) == 30", "def f(xs):\n    return xs[0]\n"),
    ("import random\nassert 0 <= random.random() + f([1])", "import random\ndef f(xs):\n    return random.random()\n"),
    ("assert f([1]) == [1] and f([1]) == [1, 1]", "kept = []\ndef f(xs):\n    kept.extend(xs)\n    return kept\n"),
    # The tests take a module by the name that the program gave it.
    ("assert np.isclose(f([1, 2]), 3)", SUM.format("int(np.sum(xs))")),
    ("assert str(decimal.Decimal(1) / f([3])) == '0.333'", "import decimal\n"
     "decimal.getcontext().prec = 3\ndef f(xs):\n    return xs[0]\n"),
    ("math.pi = 3\nassert f([0]) == 3", "import math\ndef f(xs):\n    return math.pi\n"),
    ("import json\nassert f([1]) and json.dumps({1}) == '\"set\"'", "import json\n"
     "json.JSONEncoder.default = lambda self, value: type(value).__name__\ndef f(xs):\n    return xs\n"),
    ("f(['a'])\nassert os.path.exists('a')", "import os\ndef f(xs):\n    open(xs[0], 'w').close()\n"),
    ("assert f([1]) == 0", "import socket\ndef f(xs):\n    try:\n        socket.socket()\n"
     "    except OSError:\n        return 0\n"),
]  # fmt: skip
PASSES = [False, True, False, True, True, True, False, *[True] * 10, None]
"""Whether each passes in plain Python; None for what the sandbox refuses."""


@pytest.fixture(scope="module")
def stage():
    """One sandbox for all orders, with a single judge."""
    with Sandbox(packages=["numpy"], workers=1) as box:
        yield Tests(box, timeout=20.0)


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(2 * len(JOBS))))
def test_in_any_order_and_again_the_verdicts_are_plain_pythons(stage, order):
    """Values of NumPy's types, patches, contexts and seeds of one task are nothing to the next."""
    caveats = {}
    for place in order:
        number = place % len(JOBS)
        tests, program = JOBS[number]
        context = make_context(Task(id="t", input={"test": tests, "entry_point": "f"}))
        (check,) = stage.verify(context, Proposal.alternatives([program])).checks
        expected = {True: "pass", False: "reject", None: "error"}[PASSES[number]]
        assert check.verdict == expected, (tests, program, check)
        assert caveats.setdefault(number, check.caveat) == check.caveat, (tests, program)


def test_programs_of_every_form_are_judged_as_by_plain_python():
    """A sample of the benchmark's tasks in three orders: none otherwise without a caveat, none otherwise in another."""
    drawn = random.Random(kinds.SEED).sample(kinds.MANNERS, len(kinds.FORMS) + 4)
    functions = itertools.cycle(kinds.FUNCTIONS)
    tasks = [kinds.make_task(next(functions), *pair) for pair in zip(drawn, itertools.cycle(kinds.FORMS[:5]))]
    tasks += [kinds.make_task(next(functions), drawn[0], form) for form in kinds.FORMS[5:]]
    targets = Targets()
    with Sandbox(packages=["numpy", "pytest"], workers=2) as box:
        figures = kinds.measure(tasks, box, targets)
    assert [row["what"] for row in targets.missed] == ["programs"], figures["differences"]
