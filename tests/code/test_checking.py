"""One program and its tests in one call, and lists that are no lists."""

from __future__ import annotations

from typing import Any

import pytest

from draftverify import Check, ConfigError, ContractError, Task
from draftverify_code import Sandbox, Suite, Syntax, check, measure

RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
ASSERTS = ["assert add(1, 2) == 3", "assert add(0, 0) == 0"]


def test_a_program_and_its_asserts() -> None:
    """The verdict, the share of asserts that hold, and why not."""
    assert check(RIGHT, ASSERTS) == Check("pass", 1.0)
    wrong = check(WRONG, ASSERTS)
    assert (wrong.verdict, wrong.score, wrong.reason) == ("reject", 0.5, "assertion")
    assert "add(1, 2)" in wrong.feedback
    assert "-1" in wrong.feedback
    slow = check("def add(a, b):\n    while True: pass\n", ASSERTS, timeout=0.5)
    assert (slow.verdict, slow.score) == ("timeout", 0.0)


def test_a_script_a_check_function_and_a_setup() -> None:
    """What stands in place of asserts, and what is executed before."""
    assert check(RIGHT, test="for n in range(3):\n    assert add(n, n) == 2 * n").verdict == "pass"
    function = "def check(candidate):\n    assert candidate(1, 2) == three"
    assert check(RIGHT, test=function, entry_point="add", setup="three = 3").verdict == "pass"
    assert check(RIGHT, test=function, entry_point="add", setup="three = 4").verdict == "reject"


def test_what_needs_the_programs_own_process_is_marked() -> None:
    """Unless the weaker integrity is not wanted."""
    program, asserts = "LIMIT = 3\n", ["assert LIMIT == 3"]
    assert check(program, asserts) == Check("pass", 1.0, caveat="shared-process")
    apart = check(program, asserts, integrity="separate-process")
    assert (apart.verdict, apart.reason) == ("error", "needs shared-process")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "`asserts` or `test`"),
        ({"asserts": ASSERTS, "test": "add(1, 2)"}, "`asserts` or `test`"),
        ({"asserts": ASSERTS[0]}, "`asserts` must be a list of texts, not 'assert add.*; put it into a list"),
        ({"asserts": [RIGHT, 3]}, "`asserts` must be a list of texts"),
        ({"asserts": ["assert add("]}, "the tests of this program do not parse"),
        ({"test": "def check(candidate): pass"}, "entry_point"),
    ],
)
def test_what_cannot_be_tests_is_refused(given: dict[str, Any], said: str) -> None:
    """The message says what to give."""
    with pytest.raises(ContractError, match=said):
        check(RIGHT, **given)


def test_a_text_is_no_list_of_texts() -> None:
    """It would be split into characters, each a program or a test."""
    suite = Suite("asserts", ("add",), asserts=tuple(ASSERTS))
    with Sandbox() as box:
        for wrong, said in (
            (lambda: box.judge(suite, RIGHT), "the programs"),
            (lambda: box.judge(Suite("asserts", ("add",), asserts=ASSERTS[0]), [RIGHT]), "asserts"),  # type: ignore[arg-type]
            (lambda: box.judge(Suite("script", "add", "add(1, 2)"), [RIGHT]), "entry points"),  # type: ignore[arg-type]
        ):
            with pytest.raises(ContractError, match=f"{said} must be a list of texts"):
                wrong()
    with pytest.raises(ConfigError, match="must be a list"):
        measure([Syntax()], [(Task(id="t"), RIGHT)])
