"""Generated tests: where they come from, what is taken of a text, and the evidence that comes of running them."""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import Check, ConfigError, Pipeline, Proposal, Task
from draftverify.kit import Subject, check_component, make_context
from draftverify.rules import Best, DualAgreement
from draftverify.traits import GeneratorTraits
from draftverify_code.agreement import (
    COMPLETION,
    INSTRUCTION,
    GeneratedTests,
    extract_asserts,
    read_tests,
)
from draftverify_code.sandbox import Sandbox, Suite, SuiteFinding
from draftverify_llm import Completion

TESTS = ["assert f(1) == 1", "assert f(2) == 4", "assert f(1) == 1", "assert f(3) == 8"]


class Board:
    """A judge that reads its findings off a board: what each program does on each test."""

    tier = "none"
    at_once = 2

    def __init__(self, board: dict[str, Any]) -> None:
        self.board = board
        self.asked: list[Any] = []

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None: ...

    def judge(self, suite: Any, programs: Any, limits: Any) -> list[SuiteFinding]:
        self.asked.append((suite, list(programs), limits))
        return [self.finding(suite, self.board[program]) for program in programs]

    @staticmethod
    def finding(suite: Any, entry: Any) -> SuiteFinding:
        if isinstance(entry, SuiteFinding):
            return entry
        passed = tuple(test in entry for test in suite.asserts)
        verdict = "pass" if all(passed) else "reject"
        return SuiteFinding(
            Check(verdict, sum(passed) / len(passed), "" if all(passed) else "assertion", "f"), passed
        )


BOARD = {
    "good": TESTS[:3],
    "half": TESTS[1:2],
    "all": TESTS,
    "none": [],
    "unparsed": SuiteFinding(Check("reject", 0.0, "syntax", "line 1")),
    "exits": SuiteFinding(Check("reject", 0.0, "exit"), (True, None, None)),
    "hangs": SuiteFinding(Check("reject", None, "wall"), (True, None, None)),
    "unlucky": SuiteFinding(Check("timeout", None, "wall"), (True, None, None)),
    "stuck": SuiteFinding(Check("timeout", None, "wall"), (None, None, None)),
    "broken": SuiteFinding(Check("error", None, "sandbox", "no judge"), ()),
}


def task(id: str = "t", **more: Any) -> Task:
    return Task(id=id, input={"prompt": "def f(x):\n", "entry_point": "f", "setup": "import math", **more})


def verify(verifier: GeneratedTests, *programs: Any, **more: Any) -> Any:
    return verifier.verify(make_context(task(**more), role="verify"), Proposal.alternatives(programs))


def test_every_program_meets_every_test() -> None:
    """Equal tests run once and count each; the judge gets the setup, the entry point and the time."""
    board = Board(BOARD)
    found = verify(GeneratedTests(timeout=2.0, sandbox=board), "good", "half", {"text": "all"}, tests=TESTS)  # type: ignore[arg-type]
    assert found.evidence.cross.tolist() == [[1, 1, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1]]
    assert [(c.verdict, c.score, c.stage) for c in found.checks] == [
        ("pass", 0.75, "generated_tests"),
        ("pass", 0.25, "generated_tests"),
        ("pass", 1.0, "generated_tests"),
    ]
    assert found.notes == {"isolation": "none", "integrity": "separate-process"}
    assert GeneratedTests().traits.provides == {"verdicts", "scores", "cross"}
    suite, programs, limits = board.asked[0]
    assert (suite.kind, suite.entry_points, suite.setup) == ("asserts", ("f",), "import math")
    assert suite.asserts == (TESTS[0], TESTS[1], TESTS[3])
    assert (programs, limits.wall, limits.cpu) == (["good", "half", "all"], 2.0, 2.0)


def test_programs_that_pass_the_same_tests_weigh_more() -> None:
    """By agreement the score is the share of tests times the share of programs; what passes nothing stays at 0."""
    names = ("good", "half", "good", "none", "stuck")
    scored = GeneratedTests(score="agreement", sandbox=Board(BOARD))  # type: ignore[arg-type]
    found = verify(scored, *names, tests=TESTS)
    *shares, stuck = [check.score for check in found.checks]
    assert shares == pytest.approx([0.75 * 2 / 5, 0.25 / 5, 0.75 * 2 / 5, 0.0])
    assert stuck is None
    assert [check.verdict for check in found.checks][:4] == ["pass", "pass", "pass", "reject"]
    with pytest.raises(ConfigError, match="'share' or 'agreement'"):
        GeneratedTests(score="sum", sandbox=Board(BOARD)).open()  # type: ignore[arg-type]


def test_what_was_not_run_is_not_a_pass_and_a_failed_check_is_no_refusal() -> None:
    """A program fails tests that it kept from running; those that the machine or the sandbox cut off stay unknown."""
    names = ("none", "unparsed", "exits", "hangs", "unlucky", "stuck", "broken")
    found = verify(GeneratedTests(sandbox=Board(BOARD)), *names, tests=TESTS)  # type: ignore[arg-type]
    assert [check.verdict for check in found.checks] == [
        "reject",
        "reject",
        "pass",
        "pass",
        "pass",
        "timeout",
        "error",
    ]
    assert [check.score for check in found.checks] == [0.0, 0.0, 0.5, 0.5, 0.5, None, None]
    assert [check.reason for check in found.checks] == ["assertion", "syntax", "", "", "", "wall", "sandbox"]
    nan = float("nan")
    expected = [[0] * 4, [0] * 4, [1, 0, 1, 0], [1, 0, 1, 0], [1, nan, 1, nan], [nan] * 4, [nan] * 4]
    np.testing.assert_array_equal(found.evidence.cross, np.asarray(expected))


def test_what_cannot_be_judged_apart_has_its_row_from_one_process() -> None:
    """Marked with the caveat; the other programs' rows are the judge's."""
    program = "class P:\n    def __init__(self, x): self.x = x\ndef f(x): return P(x)\n"
    other = program.replace("P(x)", "P(1)")

    class Apart(Sandbox):
        def judge(self, suite: Any, programs: Any, limits: Any = None, **more: Any) -> list[SuiteFinding]:
            needs = SuiteFinding(Check("error", reason="needs shared-process"), (None,) * 2)
            return [
                needs if each != "good" else SuiteFinding(Check("pass"), (True,) * 2) for each in programs
            ]

    tests = ["assert f(1).x == 1", "assert f(2).x == 2", "assert f(1).x == 1"]
    found = verify(GeneratedTests(sandbox=Apart()), program, "good", other, tests=tests)
    assert found.evidence.cross.tolist() == [[1, 1, 1], [1, 1, 1], [1, 0, 1]]
    assert [(check.verdict, check.caveat) for check in found.checks] == [
        ("pass", "shared-process"),
        ("pass", ""),
        ("pass", "shared-process"),
    ]
    assert found.notes["integrity"] == "mixed"


def test_without_tests_it_abstains() -> None:
    """And runs nothing; the evidence has no columns."""
    board = Board(BOARD)
    found = verify(GeneratedTests(sandbox=board), "good", "none", tests=[])  # type: ignore[arg-type]
    assert [(check.verdict, check.reason) for check in found.checks] == [("abstain", "no tests")] * 2
    assert (found.evidence.cross.shape, board.asked) == ((2, 0), [])


def test_both_rules_choose() -> None:
    """The agreement of two programs on three tests beats one that passes all four; `best` takes that one."""
    programs = ["none", "all", "good", "good"]

    class Drafts:
        traits = GeneratorTraits(shape="alternatives")

        def propose(self, context: Any, n: int) -> Proposal:
            return Proposal.alternatives(programs[:n])

    for rule, value in ((DualAgreement(), "good"), (Best(), "all")):
        verifier: Any = GeneratedTests(sandbox=Board(BOARD))  # type: ignore[arg-type]
        outcome = Pipeline(Drafts(), verifier, rule, block=4).run(task(tests=TESTS))
        assert (outcome.status, outcome.value) == ("accepted", value)


def test_tests_come_from_a_file(tmp_path: Path) -> None:
    """Sampled texts, under the file's own names, found by id or prompt; the task's own tests go before."""
    file = tmp_path / "tests.jsonl"
    rows = [
        {"name": "t", "texts": [" f(1) == 1\nassert f(2) == 4\n", "f(3) == 8\nassert g(1)"]},
        {"name": 7, "texts": ["assert f(2) == 4"]},
    ]
    file.write_text("\n\n".join(map(json.dumps, rows)), encoding="utf-8")
    board = Board(BOARD)
    verifier = GeneratedTests(path=file, fields={"task_id": "name", "samples": "texts"}, sandbox=board)  # type: ignore[arg-type]
    verifier.open()
    for id, more in (("t", {}), ("7", {}), ("t", {"tests": ["assert f(3) == 8"]})):
        verify(verifier, "all", id=id, **more)
    assert [suite.asserts for suite, _, _ in board.asked] == [
        ("assert f(1) == 1", "assert f(2) == 4", "assert f(3) == 8"),
        ("assert f(2) == 4",),
        ("assert f(3) == 8",),
    ]
    file.write_text(json.dumps({"prompt": "def f(x):\n    pass\nassert ", "samples": ["f(2) == 4"]}))
    verify(GeneratedTests(path=file, match="prompt", sandbox=board), "all")  # type: ignore[arg-type]
    assert board.asked[-1][0].asserts == ("assert f(2) == 4",)
    with pytest.raises(ConfigError, match="'other'"):
        verify(verifier, "all", id="other")


def test_a_file_of_statements_is_one_of_texts(tmp_path: Path) -> None:
    """The layout {task_id, tests: [statement, …]}: each is a text; those of other functions are left out."""
    file = tmp_path / "tests.jsonl"
    file.write_text(json.dumps({"task_id": "t", "tests": [*TESTS, "assert g(1)"]}))
    board = Board(BOARD)
    found = verify(GeneratedTests(path=file, sandbox=board), "all")  # type: ignore[arg-type]
    assert (board.asked[0][0].asserts, found.evidence.cross.shape) == ((TESTS[0], TESTS[1], TESTS[3]), (1, 4))


class Writer:
    """A model that gives the same two answers to whatever it is asked."""

    deterministic = True

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.asked: list[Any] = []

    def complete(self, prompt: Any, **more: Any) -> list[Any]:
        self.asked.append((prompt, more))
        return [Completion(text, 0, 0, "stop") for text in self.answers]

    def price(self, completions: Any) -> float:
        return 0.5 * len(completions)


def test_tests_come_from_a_model() -> None:
    """It is asked once a task, the same way each time, and its price is the pass's cost."""
    writer = Writer(
        "Sure:\n```python\nassert f(1) == 1\nassert f(2) == 4\n```\nassert nothing", "assert f(2) == 4"
    )
    board = Board(BOARD)
    verifier = GeneratedTests(model=writer, samples=2, sandbox=board)  # type: ignore[arg-type]
    context = make_context(task(), role="verify")
    first = verifier.verify(context, Proposal.alternatives(["all"]))
    again = verifier.verify(context, Proposal.alternatives(["all"]))
    forgotten = verifier.verify(make_context(task(), role="verify"), Proposal.alternatives(["all"]))
    assert [found.evidence.cross.shape for found in (first, again, forgotten)] == [(1, 3)] * 3
    assert [found.cost and found.cost.amount for found in (first, again, forgotten)] == [1.0, None, 1.0]
    (prompt, more), other = writer.asked
    assert other == (prompt, more)
    assert prompt == INSTRUCTION.replace("{prompt}", "def f(x):\n").replace("{entry_point}", "f")
    assert (more["n"], more["chat"]) == (2, True)


def test_a_model_that_continues_text_is_asked_as_codet_does() -> None:
    """Its text goes on from the word assert; another template is filled alike, its other braces left alone."""
    writer = Writer("f(1) == 1\nassert f({2: 3}) == 4")
    board = Board(BOARD)
    verify(GeneratedTests(model=writer, chat=False, sandbox=board), "all")  # type: ignore[arg-type]
    assert writer.asked[0][0] == "def f(x):\n    pass\n\n# check the correctness of f\nassert "
    assert COMPLETION.endswith("assert ")
    assert board.asked[0][0].asserts == ("assert f(1) == 1", "assert f({2: 3}) == 4")
    verify(GeneratedTests(model=writer, template="{x} {entry_point}", sandbox=board), "all")  # type: ignore[arg-type]
    assert writer.asked[1][0] == "{x} f"


def test_what_is_missing_is_told() -> None:
    """No source of tests, no entry point, tests that are no list of texts, settings out of range."""
    verifier = GeneratedTests(sandbox=Board(BOARD))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="`path` or a `model`"):
        verify(verifier, "all")
    with pytest.raises(ConfigError, match="entry_point"):
        verify(verifier, "all", tests=TESTS, entry_point="f(x)")
    for wrong in ("assert f(1)", [1], {"a": 1}, None):
        with pytest.raises(ConfigError, match="should be a list of texts"):
            verify(verifier, "all", tests=wrong)
    for more in ({"samples": 0}, {"limit": 0}, {"timeout": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(more))):
            GeneratedTests(sandbox=Board(BOARD), **more).open()  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not both"):
        GeneratedTests(path=Path("x"), model=Writer()).open()  # type: ignore[arg-type]


def test_a_broken_file_is_told_by_its_line(tmp_path: Path) -> None:
    """What is wrong, and in which line; and so is a missing or empty one."""
    file = tmp_path / "tests.jsonl"
    file.write_text('{"task_id": "b", "tests": []}\n{"task_id": "a", "tests": [1]}\n', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        GeneratedTests(path=file).open()
    assert f"{file}:2" in str(caught.value)
    for path in (tmp_path / "none.jsonl", tmp_path / "empty.jsonl"):
        (tmp_path / "empty.jsonl").write_text("\n \n")
        with pytest.raises(ConfigError, match=r"cannot be read|no samples"):
            GeneratedTests(path=path).open()


@given(st.binary(max_size=200))
def test_a_hostile_file_is_read_or_refused(tmp_path_factory: Any, content: bytes) -> None:
    """Never anything else."""
    file = tmp_path_factory.getbasetemp() / "hostile.jsonl"
    file.write_bytes(content)
    with suppress(ConfigError):
        read_tests(file)


def test_assertions_are_taken_out_of_a_text() -> None:
    """Those that name the entry point and compile, the first so many, each to its own end."""
    text = (
        "f(1) == 1\n"
        "assert f(2) == (\n    4\n)\n"
        "assert g(f) == 2, 'f'\n"
        "assert 'f' == 'f'\n"
        "assert f(3 ==\n"
        "assert f(4) == 16; import os\n"
        "assert f(5) == 25\nimport os\nos.remove('x')\n"
        "assert f(1) == 1\n"
        "assert f(6) == 36\n"
    )
    every = [
        "assert f(1) == 1",
        "assert f(2) == (\n    4\n)",
        "assert g(f) == 2, 'f'",
        "assert f(5) == 25",
        "assert f(1) == 1",
        "assert f(6) == 36",
    ]
    assert extract_asserts(text, "f", limit=10) == every
    assert extract_asserts(text, "f") == every[:5]
    assert extract_asserts(text, "f", limit=10, continued=False) == every[1:]


def test_an_assertion_may_begin_with_a_bracket() -> None:
    """With or without a space before it; a word that only begins alike is none."""
    text = "assert(f(1) == 2)\nassert[f(2)] == [3]\nassert\tf(3) == 4\n"
    text += "assertEqual(f(4), 5)\nassert f(5) == 6, 'assert.'\n"
    assert extract_asserts(text, "f", continued=False) == [
        "assert (f(1) == 2)",
        "assert [f(2)] == [3]",
        "assert f(3) == 4",
        "assert f(5) == 6, 'assert.'",
    ]


@pytest.mark.parametrize("stop", ["class", "def", "#", "if", "print", "@", "```"])
def test_an_assertion_ends_at_a_stop(stop: str) -> None:
    """What follows would not have parsed."""
    assert extract_asserts(f"f(1) == 1\n{stop} f (", "f") == ["assert f(1) == 1"]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000 + "f(1)",
        "f(" * 5_000,
        "f(1) == " + "-" * 100_000 + "1",
        "f(1) == " + "[" * 3_000 + "]" * 3_000,
        "f('\0')",
        "f('\ud800')",
        "await f(1)",
        "(yield f(1))",
        "f(1" + "\n" * 100_000,
        "f.\n" * 100_000,
    ],
    ids=lambda text: ascii(text)[:12],
)
def test_hostile_texts_give_no_test(text: str) -> None:
    """And take no long time."""
    assert extract_asserts(text, "f") == []


@given(
    st.lists(
        st.sampled_from(["assert ", "f(1)", " == 2", "\n", "(", ")", "'", "#", "x = 1", ";", "\\", "```"])
    )
)
def test_whatever_is_taken_is_one_assertion_on_the_entry_point(parts: list[str]) -> None:
    """That compiles; and giving it again gives it back."""
    for statement in extract_asserts("".join(parts), "f"):
        (node,) = ast.parse(statement).body
        assert isinstance(node, ast.Assert)
        assert "f" in {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        assert extract_asserts(statement, "f", continued=False) == [statement]


def test_the_verifier_conforms() -> None:
    """As every verifier is held to it."""

    def blocks(context: Any) -> list[Proposal]:
        return [Proposal.alternatives([name, "all", name]) for name in ("good", "none", "stuck")] + [
            Proposal.alternatives([])
        ]

    subject = Subject(
        GeneratedTests(sandbox=Board(BOARD)),  # type: ignore[arg-type]
        tasks=[task(tests=TESTS), task("u", tests=TESTS[:1])],
        proposals=blocks,
    )
    check_component(subject)


PROGRAMS = ["def f(x):\n    return x * x\n", "def f(x):\n    return x\n", "def g(x):\n    return 1\n"]
RESULTS = [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
SQUARES = ["assert f(1) == 1", "assert f(2) == 4", "assert f(3) == helper()"]


def test_tests_run_in_a_sandbox() -> None:
    """The setup's names are there; a program without the function passes nothing."""
    found = verify(GeneratedTests(), *PROGRAMS, tests=SQUARES, setup="def helper():\n    return 9\n")
    assert found.evidence.cross.tolist() == RESULTS
    assert [check.verdict for check in found.checks] == ["pass", "pass", "reject"]
    assert found.checks[2].reason == "missing"
    squared = "import numpy as np\ndef f(x): return int(np.square(x))"
    assert verify(GeneratedTests(), squared, tests=SQUARES[:2]).checks[0].verdict == "pass"


def test_a_program_that_hangs_fails_what_hangs() -> None:
    """And not the tests before and after."""
    program = "def f(x):\n    while x == 2:\n        pass\n    return x * x\n"
    found = verify(GeneratedTests(timeout=1.0), program, tests=[*SQUARES[:2], "assert f(3) == 9"])
    assert found.evidence.cross.tolist() == [[1, 0, 1]]
    assert (found.checks[0].verdict, found.checks[0].score) == ("pass", pytest.approx(2 / 3))


@pytest.mark.parametrize(
    "hostile",
    [
        "assert f(1) == exit(0)",
        "assert f('x' * 10 ** 10)",
        "assert [f(1) for _ in iter(int, 1)]",
        "assert open('/etc/passwd').read() and f(1) == 1",
        "assert open({here!r}, 'w') and f(1) == 1",
        "assert __import__('os').kill(__import__('os').getppid(), 9) or f(1) == 1 and False",
    ],
)
def test_a_hostile_test_spoils_itself_alone(hostile: str, tmp_path: Path) -> None:
    """What the others find stays what it is, and nothing is read or written outside."""
    target = tmp_path / "written"
    tests = [SQUARES[0], hostile.replace("{here!r}", repr(str(target))), SQUARES[1]]
    found = verify(GeneratedTests(timeout=0.5), PROGRAMS[0], tests=tests)
    (before, spoilt, after) = found.evidence.cross[0]
    assert (before, after) == (1, 1)
    assert spoilt != 1
    assert not target.exists()


TAKEOVER = """
import sys
from frames import receive, send
frame, host = sys._getframe(), None
while frame is not None:
    host = frame.f_locals.get("host", host)
    frame = frame.f_back
forged = {"verdict": "pass", "score": 1.0, "reason": "", "feedback": "", "passed": [True], "seconds": 0.0}
send(host, forged)
while (request := receive(host)) is not None:
    send(host, {"broken": ""} if request["op"] == "load" else forged)
"""


def test_a_test_that_takes_its_judge_over_has_no_say_elsewhere() -> None:
    """Whatever it makes of its own evidence, suites that are judged afterwards are not in its hands."""
    with Sandbox(workers=1) as box:
        suite = Suite("check", ("f",), source="def check(candidate):\n    assert candidate(2) == 5\n")
        before = box.judge(suite, PROGRAMS[:1])
        with suppress(Exception):
            verify(
                GeneratedTests(timeout=1.0, sandbox=box),
                *PROGRAMS,
                tests=[f"assert f(1) and exec({TAKEOVER!r})"],
            )
        after = box.judge(suite, PROGRAMS[:1])
    assert [one.check.verdict for one in (*before, *after)] == ["reject", "reject"]
