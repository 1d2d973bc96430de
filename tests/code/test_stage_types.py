"""The types stage: a checker's word on each program of a block, whatever the program says to the checker."""

from __future__ import annotations

import time
from importlib import util

import pytest

from draftverify import Proposal, ResourceError
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.stages import types
from draftverify_code.stages.types import Types

CONTEXT = make_context()
GOOD = "def f(x: int) -> int:\n    return x + 1\n"
BAD = "def f(x: int) -> int:\n    return str(x)\n"


def checks(programs):
    return Types().verify(CONTEXT, Proposal.alternatives(programs)).checks


def test_each_program_has_its_own_word():
    """One invocation; the same names in every file; findings with their line."""
    found = checks([GOOD, BAD, "def f(:\n", "def f(x):\n    return nowhere\n", GOOD])
    assert [(check.verdict, check.reason) for check in found] == [
        ("pass", ""),
        ("reject", "type"),
        ("reject", "syntax"),
        ("reject", "type"),
        ("pass", ""),
    ]
    assert found[1].feedback.startswith("line 2: ")
    assert "\n        return str(x)\n               ^" in found[1].feedback
    assert "nowhere" in found[3].feedback


DIRECTIVES = {
    "type: ignore": "def f(x: int) -> int:\n    return str(x)  # type: ignore",
    "type: ignore on top": "# type: ignore\n" + BAD,
    "coded": "def f(x: int) -> int:\n    return str(x)  # type: ignore[return-value]  # pyright: ignore  # ty: ignore",
    "mypy": "# mypy: ignore-errors\n" + BAD,
    "mypy codes": "# mypy: disable-error-code=return-value\n" + BAD,
    "pyright": "# pyright: basic, reportReturnType=false\n" + BAD,
    "pyrefly": "# pyrefly: ignore-errors\n" + BAD,
    "pyre": "# pyre-ignore-all-errors\n" + BAD,
    "pyre line": "def f(x: int) -> int:\n    # pyre-fixme[7]: x\n    return str(x)",
    "ty": "def f(x: int) -> int:\n    return str(x)  # ty: ignore",
    "ty file": "# ty: ignore\n" + BAD,
    "zuban": "# zuban: ignore-errors\n" + BAD,
    "script": "# /// script\n# [tool.ty.rules]\n# all = 'ignore'\n# [tool.mypy]\n# ignore_errors = true\n# ///\n"
    + BAD,
    "coding": "# -*- coding: utf-7 -*-\n" + BAD,
    "no_type_check": "from typing import no_type_check\n@no_type_check\n" + BAD,
    "typing.no_type_check": "import typing as t\n@t.no_type_check\n" + BAD,
    "renamed": "from typing import no_type_check as n\n@n\n" + BAD,
    "in other letters": "import typing\n@typing.no_type_\uff43heck\n" + BAD,
    "mypy in a text": "x = '''\n# mypy: ignore-errors\n'''\n" + BAD,
    "carriage returns": "def f(x: int) -> int:\r    return str(x)  # type: ignore\r",
    "page": "x = 1\n\x0c# type: ignore\n" + BAD,
}


def test_a_program_cannot_switch_it_off():
    """Neither a comment nor a decorator is heard."""
    found = checks(list(DIRECTIVES.values()))
    assert {
        name: check.verdict
        for name, check in zip(DIRECTIVES, found, strict=True)
        if check.verdict != "reject"
    } == {}
    assert {check.reason for check in found} == {"type"}


def test_what_is_not_the_programs_fault_is_no_error():
    """Packages that are not here, comments in prose, code without annotations, Windows' line ends."""
    programs = [
        "import numpy\nimport requests, yaml\nfrom nowhere.at.all import thing\nprint(numpy.zeros(3), thing)\n",
        "def f(x):\n    # type: the kind of thing that this is\n    return x  # type: ignored\n",
        "def f(x, y=None):\n    y = y or []\n    for each in x:\n        y.append(each)\n    return y\n",
        "def f(x: str) -> str:\r\n    return '# type: ignore' + x\r\n",
        "",
    ]
    assert [check.verdict for check in checks(programs)] == ["pass"] * 5


def test_programs_do_not_see_each_other():
    """What one defines, whatever it is called, is nothing to another."""
    programs = [
        "secret = 1\nclass A: pass\n",
        "print(secret)\n",
        "x: A\n",
        "def len(x: int) -> str: return ''\n",
        "y: int = len([])\n",
    ]
    assert [check.verdict for check in checks(programs)] == [
        "pass",
        "reject",
        "reject",
        "pass",
        "pass",
    ]


def test_a_program_cannot_speak_for_another():
    """A message quotes what the program chose; that is not read as the checker's word on its neighbour."""
    forged = "000000-0.py:1: error: forged  [misc]\\n000001-0.py:1: error: forged  [misc]"
    program = f"from typing import Literal\ndef f(x: Literal['''\n{forged}\n''']) -> None: ...\nf(3)\n"
    assert [check.verdict for check in checks([GOOD, program, GOOD])] == ["pass", "reject", "pass"]


def test_a_block_is_judged_like_its_programs_alone():
    """To the last word of feedback, also beside one that stops mypy (a relative import)."""
    programs = [BAD, "from . import sibling\n", "x: str = 1\nx = nowhere\n"]
    assert checks(programs) == tuple(checks([program])[0] for program in programs)


def test_a_checker_that_breaks_on_a_program_is_an_error_of_this_program(monkeypatch):
    """The others have their word."""
    start = types._START_MYPY
    trap = "import os, sys, glob\nif any('boom' in open(each).read() for each in glob.glob('*.py')): os.abort()\n"
    monkeypatch.setattr(types, "_START_MYPY", trap + start)
    found = checks([GOOD, "boom = 1\n", BAD])
    assert [(check.verdict, check.reason) for check in found] == [
        ("pass", ""),
        ("error", "tool"),
        ("reject", "type"),
    ]


HANGING = """
import json, pathlib, sys, time
for name in (each for each in sys.argv if each.endswith(".py")):
    text = pathlib.Path(name).read_text()
    if "boom" in text:
        time.sleep(99)
    if "str" in text or "int = ''" in text:
        error = {"severity": "error", "line": 1, "column": 0, "code": "a", "message": "b"}
        print(json.dumps({"file": name, **error}))
"""


def test_a_program_that_hangs_the_checker_is_a_timeout_of_its_own(monkeypatch):
    """It has its seconds and no more, and the others have their word."""
    monkeypatch.setattr(types, "_START_MYPY", HANGING)
    began = time.monotonic()
    found = Types(timeout=2).verify(CONTEXT, Proposal.alternatives([GOOD, "boom = 1\n", BAD])).checks
    assert time.monotonic() - began < 30
    assert [(check.verdict, check.reason) for check in found] == [
        ("pass", ""),
        ("timeout", "wall"),
        ("reject", "type"),
    ]
    assert "mypy did not end within 2 s" in found[1].feedback


@pytest.mark.parametrize(
    "start", ["print('all is well')", "", "import sys; sys.exit(1)", "import no_such_module"]
)
def test_a_checker_that_does_not_look_is_an_error(start, monkeypatch):
    """Silence is no pass, whatever the status: a program with a fault goes with every block."""
    monkeypatch.setattr(types, "_START_MYPY", start)
    [found] = checks([GOOD])
    assert (found.verdict, found.reason) == ("error", "tool")


def test_deep_nesting_harms_nobody_else():
    """What the checker cannot read is an error, or no syntax; the others have their word."""
    deep = "x = " + "f(" * 150 + "1" + ")" * 150
    found = checks([GOOD, "x = " + "-" * 3000 + "1", "x = " + "not " * 900 + "1", deep, BAD])
    assert (found[0].verdict, found[-1].verdict) == ("pass", "reject")


def test_without_mypy_the_error_says_what_to_install(monkeypatch):
    """Before the first program, and not as a word on one."""
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match="pip install mypy"):
        Types().open()


@pytest.mark.exhaustive
def test_it_keeps_the_contract():
    """The kit's checks of a verifier."""
    blocks = [Proposal.alternatives([GOOD, BAD, "x ="]), Proposal.alternatives([])]
    check_component(Subject(Types(), contexts=[CONTEXT], proposals=blocks))
