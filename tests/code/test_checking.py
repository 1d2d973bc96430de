"""One program and its tests in one call, and lists that are no lists."""

from __future__ import annotations

from typing import Any

import pytest

from draftverify import Check, ConfigError, ContractError, Proposal
from draftverify.kit import make_context
from draftverify_code import Sandbox, Suite, Syntax, check

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
    slow = check("import time\ndef add(a, b):\n    time.sleep(60)\n", ASSERTS, timeout=0.5)
    assert (slow.verdict, slow.score, slow.reason) == ("reject", 0.0, "wall")


def test_a_script_a_check_function_and_a_setup() -> None:
    """What stands in place of asserts, and what is executed before."""
    assert check(RIGHT, test="for n in range(3):\n    assert add(n, n) == 2 * n").verdict == "pass"
    function = "def check(candidate):\n    assert candidate(1, 2) == three"
    assert check(RIGHT, test=function, entry_point="add", setup="three = 3").verdict == "pass"
    assert check(RIGHT, test=function, entry_point="add", setup="three = 4").verdict == "reject"


@pytest.mark.parametrize("entry", ["", "Adder().add"])
def test_a_check_function_of_a_method(entry: str) -> None:
    """The script calls it itself, or the entry point is an expression."""
    function = "def check(candidate):\n    assert candidate(1, 2) == 3\n"
    for operator, verdict in (("+", "pass"), ("-", "reject")):
        program = f"class Adder:\n    def add(self, a, b):\n        return a {operator} b\n"
        test = function if entry else f"{function}check(Adder().add)\n"
        found = check(program, test=test, entry_point=entry)
        assert (found.verdict, found.caveat) == (verdict, "shared-process"), found


def test_what_a_program_may_import() -> None:
    """Without a sandbox of one's own: numpy, and what the tests import; of the rest is said what to do."""
    asserts = ["assert total([1, 2]) == 3"]
    program = "import {0}\ndef total(values):\n    return {0}.array(values).sum()\n"
    assert check(program.format("numpy"), asserts) == Check("pass", 1.0, caveat="shared-process")
    plain = program.replace("array(values).sum()", "array(values).sum().item()")
    assert check(plain.format("numpy"), asserts) == Check("pass", 1.0)
    needs = "import pytest\ndef total(values):\n    return pytest.approx(sum(values))\n"
    for integrity in ("auto", "shared-process"):
        hidden = check(needs, asserts, integrity=integrity)
        assert (hidden.verdict, hidden.reason, hidden.caveat) == ("error", "refused", "")
        assert hidden.feedback.endswith("; add pytest to the sandbox's `packages`")
        absent = check("import tensorflow\n" + needs, asserts, integrity=integrity)
        assert (absent.verdict, absent.reason) == ("error", "refused")
        assert absent.feedback.endswith("; tensorflow is not installed")
    missing = check(program.format("nowhere"), asserts)
    assert missing.verdict == "reject"
    assert missing.feedback.endswith("; nowhere is not installed")


def test_threads_and_processes_have_limits_that_can_be_set() -> None:
    """Forty threads are no fault of a program; more than it may have are the sandbox's refusal."""
    program = (
        "import threading, time\ndef total(values):\n"
        "    threads = [threading.Thread(target=time.sleep, args=(0.1,)) for _ in range(40)]\n"
        "    for thread in threads: thread.start()\n    for thread in threads: thread.join()\n"
        "    return sum(values)\n"
    )
    asserts = ["assert total([1, 2]) == 3"]
    assert check(program, asserts) == Check("pass", 1.0)
    for integrity in ("auto", "shared-process"):
        refused = check(program, asserts, threads=20, integrity=integrity)
        assert (refused.verdict, refused.reason) == ("error", "refused")
        assert "thread" in refused.feedback
    for name in ("threads", "processes"):
        with pytest.raises(ConfigError, match=f"{name} is 0"):
            check(program, asserts, **{name: 0})


def test_a_byte_order_mark_is_no_part_of_a_program() -> None:
    """Python takes such a file, and so do the stages that only read."""
    assert check("\ufeff" + RIGHT, ASSERTS).verdict == "pass"
    read = Syntax().verify(make_context(), Proposal.alternatives(["\ufeff" + RIGHT]))
    assert [each.verdict for each in read.checks] == ["pass"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"integrity": "seperate-process"},
            "integrity: 'seperate-process'.* one of auto, separate-process, ",
        ),
        ({"timeout": 0}, "timeout: .*seconds above 0"),
        ({"timeout": "3"}, "timeout: .*'3'.*seconds above 0"),
        ({"timeout": float("nan")}, "timeout: .*seconds above 0"),
        ({"memory": 1}, "memory: .* at least 32"),
        ({"memory": "1GB"}, "memory: .*'1GB'.* of MiB"),
        ({"sandbox": Sandbox(packages="numpy")}, "packages: put 'numpy' into a list"),
    ],
)
def test_a_setting_that_is_none_is_refused(given: dict[str, Any], said: str) -> None:
    """Not taken for a weaker one, and never a verdict on the program."""
    with pytest.raises(ConfigError, match=said):
        check(RIGHT, ASSERTS, **given)


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
        ({"asserts": ["assert add("]}, "the tests of task check\\(\\) do not parse"),
        ({"asserts": [ASSERTS[0], "assert add(1, 2) = 3"]}, "do not parse: `assert add\\(1, 2\\) = 3`: "),
        ({"asserts": ["add(1, 2) == 4"]}, "tests nothing; write `assert add"),
        ({"asserts": ["assert (add(1, 2) == 4, 'three')"]}, "always holds"),
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


LIBRARIES = {
    "scipy": "from scipy import stats\ndef f(x): return round(stats.norm.cdf(0) * 2 * x)\n",
    "sqlalchemy": "import sqlalchemy\ndef f(x):\n    with sqlalchemy.create_engine('sqlite://').connect() as link:\n"
    "        return link.execute(sqlalchemy.text(f'select {x}')).scalar()\n",
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_package_that_is_shown_may_do_without_what_is_not(name: str) -> None:
    """It asks for packages, places and sockets while it is imported, and for its bytecode; the program does not."""
    with Sandbox(packages=[name], workers=1) as box:
        result = check(LIBRARIES[name], ["assert f(3) == 3"], sandbox=box, timeout=30, memory=4096)
        assert result.verdict == "pass", result
        hidden = "def f(x):\n    try:\n        import hypothesis\n    except ImportError:\n        return x\n"
        result = check(hidden, ["assert f(3) == 3"], sandbox=box)
        assert (result.verdict, result.reason) == ("error", "refused")
