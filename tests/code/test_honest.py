"""Honest programs are judged as plain Python judges them, whatever they are made of."""

from __future__ import annotations

import pytest

from benchmarks.code.agreement import PlainPython, Problem, explained, mutants
from benchmarks.code.estimators import said_of
from draftverify import Check, Proposal, Task
from draftverify.kit import make_context
from draftverify_code.generators.edits import fingerprint
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages.tests import Tests

from .honest import cases

CASES = cases()


@pytest.fixture(scope="module")
def python():
    """Plain Python."""
    with PlainPython() as started:
        yield started


@pytest.fixture(scope="module")
def box():
    """A sandbox that shows what the programs import."""
    with Sandbox(packages=["numpy"]) as opened:
        yield opened


each_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
one_in_six = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.exhaustive] if place % 6 else [])
        for place, case in enumerate(CASES)
    ],
)


def both(programs, case, integrity, python, box):
    """Our checks of a case's programs, each with plain Python's verdict."""
    stage = Tests(box, timeout=20.0, integrity=integrity)
    context = make_context(Task(id=case.name, input=case.input))
    checks = stage.verify(context, Proposal.alternatives(programs)).checks
    return list(zip(checks, python.verdicts(map(case.job, programs)), strict=True))


@one_in_six
def test_an_honest_program_is_accepted_as_by_plain_python(case, python, box):
    """By default: judged apart where that can be, and where not in one process, with a caveat that says so."""
    ((check, plain),) = both([case.program], case, "auto", python, box)
    assert plain["verdict"] == "pass", plain["said"]
    assert check.verdict == "pass", check
    assert check.caveat in ("", "shared-process")


@pytest.mark.exhaustive
@each_case
def test_a_wrong_one_is_refused_as_by_plain_python(case, python, box):
    """By default too."""
    for check, plain in both(case.wrong, case, "auto", python, box):
        assert plain["verdict"] == "reject", plain["said"]
        assert check.verdict == "reject", check


@pytest.mark.exhaustive
@each_case
def test_judged_apart_the_verdict_is_plain_pythons_or_none(case, python, box):
    """What cannot be told apart is the error that asks for the other integrity."""
    for check, plain in both(case.programs, case, "separate-process", python, box):
        said = check.verdict, check.reason
        assert said == ("error", "needs shared-process") or said_of(check) == plain["verdict"], check


@pytest.mark.exhaustive
@each_case
def test_in_one_process_the_verdict_is_plain_pythons(case, python, box):
    """For all of them: nothing has to cross."""
    for check, plain in both(case.programs, case, "shared-process", python, box):
        assert said_of(check) == plain["verdict"], check


def test_plain_python_itself(python):
    """Leaving early is no pass, a hang is a timeout, what stands under the main block does not run."""
    job = {"program": "def f(x):\n    return x", "tests": "assert f(1) == 1", "doctest": False}
    job |= {"timeout": 1.0, "memory": 1024}
    jobs = [
        job,
        job | {"tests": "assert f(1) == 2"},
        job | {"program": "import sys\nsys.exit(0)"},
        job | {"program": "import os\nos._exit(0)"},
        job | {"program": "def f(x"},
        job | {"tests": "while f(1): pass"},
        job | {"program": job["program"] + "\nif __name__ == '__main__':\n    f = None"},
        job | {"tests": ">>> f(2)\n2\n", "doctest": True},
        job | {"tests": ">>> f(2)\n3\n", "doctest": True},
        job | {"tests": "no examples", "doctest": True},
    ]
    found = [each["verdict"] for each in python.verdicts(jobs)]
    assert found == ["pass", *["reject"] * 4, "timeout", "pass", "pass", "reject", "reject"]


def test_a_difference_is_explained_or_not():
    """By what is seen of it: an unknown one stays unknown."""
    both = ("timeout", "reject")
    reject, memory = Check("reject", reason="assertion"), Check("reject", reason="memory")
    assert explained("assert f(1) == 2", ("pass", "reject"), ("pass", "reject"), reject) == ""
    assert "near the limit" in explained("assert f(1) == 2", both, ("reject", "reject"), reject)
    assert "hangs" in explained("assert f(1) == 2", both, both, reject)
    assert explained("def check(candidate):\n    assert candidate(1) == 2", both, both, reject) == ""
    assert "memory" in explained("assert f(1) == 2", ("pass", "reject"), ("pass", "reject"), memory)
    assert "random" in explained("import random", ("pass", "reject"), ("pass", "reject"), reject)


def test_mutants_are_drawn_by_the_seed():
    """So many of each dataset, all different programs that parse, and the same another time."""
    task = Task(id="t", input={"prompt": ""})
    text = "def f(a, b):\n    return [x + 1 for x in a if x < b][:2]\n"
    found = [Problem(name, task, text) for name in ("HumanEval", "MBPP")]
    drawn = mutants(found, 10, 1)
    assert [len(programs) for _, programs in drawn] == [5, 5]
    for _, programs in drawn:
        assert len({fingerprint(each) for each in (text, *programs)} - {None}) == 6
    assert mutants(found, 10, 1) == drawn
    assert mutants(found, 10, 2) != drawn
