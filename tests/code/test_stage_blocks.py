"""A block in one invocation: equal programs once, culprits found, the others judged, a broken tool no rejection."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import Check, ResourceError
from draftverify_code.sandbox import CommandExit, Limits, Sandbox, SandboxCommand
from draftverify_code.stages.blocks import (
    Diagnostic,
    Job,
    at_line,
    check_block,
    executable,
    file_names,
    refused,
)


class Box:
    """A sandbox whose tool passes "good", rejects "bad", names "blocker" and stops there, and breaks on the rest."""

    def __init__(self, *, in_order: bool = False) -> None:
        self.in_order = in_order
        self.given: list[list[str]] = []
        self.rounds = 0

    def run(self, commands):
        self.rounds += 1
        return [self._run(json.loads(command.stdin)) for command in commands]

    def _run(self, programs):
        self.given.append(programs)
        words = {}
        for place, program in enumerate(programs):
            kind = program.split()[0]
            if kind == "unstartable":
                return CommandExit(failure="the server is gone")
            if kind in ("crash", "hang"):
                ended = CommandExit(status=None, signal=11, stderr=b"core dumped")
                if kind == "hang":
                    ended = CommandExit(status=None, signal=9, limit="wall")
                said = words if self.in_order else {}
                return CommandExit(
                    ended.status, ended.signal, ended.limit, json.dumps(said).encode(), ended.stderr
                )
            if kind == "blocker":
                return CommandExit(status=2, stdout=json.dumps({place: "reject"}).encode())
            words[place] = "pass" if kind == "good" else "reject"
        return CommandExit(status=0, stdout=json.dumps(words).encode())


def job(programs):
    def read(ended):
        return {int(place): Check(word) for place, word in json.loads(ended.stdout).items()}

    return Job(SandboxCommand(("tool",), stdin=json.dumps(programs).encode(), limits=Limits(wall=7)), read)


def words(programs, box=None, **more):
    return [check.verdict for check in check_block(box or Box(), programs, job, "tool", "lint", **more)]


EXPECTED = {"good": "pass", "bad": "reject", "crash": "error", "hang": "timeout", "blocker": "reject"}
PROGRAMS = st.lists(
    st.tuples(st.sampled_from(sorted(EXPECTED)), st.integers(0, 9)).map(lambda pair: f"{pair[0]} {pair[1]}"),
    max_size=20,
)


@given(PROGRAMS)
def test_a_block_is_judged_like_its_programs_alone(programs):
    """Whatever crashes, hangs or stops the tool beside it, each program has the word that it has alone."""
    assert words(programs) == [EXPECTED[program.split()[0]] for program in programs]


@given(PROGRAMS.filter(lambda programs: not any("blocker" in each for each in programs)))
def test_in_order_too(programs):
    """A tool that tells of each program when it is done says by where it stops who the culprit is."""
    found = words(programs, Box(in_order=True), in_order=True)
    assert found == [EXPECTED[program.split()[0]] for program in programs]


def test_one_culprit_costs_few_invocations():
    """Of 64 programs one crashes: halving finds it in a dozen invocations, not in 64."""
    box = Box()
    words([*(f"good {number}" for number in range(63)), "crash"], box)
    assert len(box.given) == 13


def test_one_that_hangs_costs_few_rounds():
    """A round takes as long as the tool may take: of 64 programs one is found in three, not in seven."""
    box = Box()
    found = words([*(f"good {number}" for number in range(63)), "hang"], box)
    assert found == ["pass"] * 63 + ["timeout"]
    assert box.rounds == 3


def test_in_order_a_culprit_costs_two_invocations():
    """It is run again alone, and what stood behind it without it."""
    box = Box(in_order=True)
    programs = ["good 1", "good 2", "crash", "good 3", "good 4"]
    words(programs, box, in_order=True)
    assert box.given == [programs, ["crash"], ["good 3", "good 4"]]


def test_a_tool_that_names_the_culprit_is_asked_once_more():
    """What it did not look at goes to it again as a whole."""
    box = Box()
    words(["good 1", "blocker", "good 2", "good 3"], box)
    assert box.given[1:] == [["good 1", "good 2", "good 3"]]


def test_equal_programs_are_given_to_the_tool_once():
    """Two samples of the same text are one file."""
    box = Box()
    assert words(["good 1", "bad", "good 1"], box) == ["pass", "reject", "pass"]
    assert box.given == [["good 1", "bad"]]


def test_a_broken_sandbox_is_an_error_at_once():
    """It is not tried again with every half of the block."""
    box = Box()
    checks = check_block(box, ["good", "unstartable", "bad"], job, "tool", "lint")
    assert [(check.verdict, check.reason) for check in checks] == [("error", "sandbox")] * 3
    assert len(box.given) == 1


def test_what_broke_is_said():
    """A crash names the signal and the last words, a hang its time."""
    crash, hang = check_block(Box(), ["crash", "hang"], job, "tool", "lint")
    assert (crash.reason, crash.feedback) == ("tool", "tool was ended by signal 11\ncore dumped")
    assert (hang.verdict, hang.reason, hang.feedback) == ("timeout", "wall", "tool did not end within 7 s")


def test_a_string_that_is_no_text_is_refused_for_it():
    """A surrogate alone cannot be written to a file; the tool is not asked."""
    box = Box()
    [check] = check_block(box, ["x = 1\ny = '\ud800'"], job, "tool", "lint")
    assert (check.verdict, check.reason) == ("reject", "lint")
    assert check.feedback.startswith("line 2")
    assert box.given == []


def test_the_mark_stands_under_the_column():
    """Tabs stay tabs, and of a long line the part around the column is shown."""
    assert at_line("a\n\tb = c\n", 2, 6, "no c") == "line 2: no c\n    \tb = c\n    \t    ^"
    text = "x" * 500 + "?" + "x" * 500
    shown, mark = at_line(text, 1, 501, "odd").split("\n")[1:]
    assert shown[mark.index("^")] == "?"
    assert len(shown) < 200


@given(st.text(), st.integers(-1, 5), st.integers(-1, 50))
def test_a_place_that_is_not_there_is_no_error(program, line, column):
    """A tool may name any line and column."""
    assert "said" in at_line(program, line, column, "said")


def test_feedback_is_bounded():
    """A thousand findings are named by the first few, syntax first."""
    found = [Diagnostic(f"fault {number} " + "x" * 300, 1, number + 1, "lint") for number in range(1000)]
    check = refused("y = 1", [*found, Diagnostic("no syntax", 9, 1, "syntax")])
    assert check.reason == "syntax"
    assert check.feedback.startswith("line 9: no syntax")
    assert len(check.feedback) <= 2000
    assert "996 more" in check.feedback


def test_names_cannot_be_imported_or_guessed():
    """No identifier, and other ones each time."""
    names = file_names(3, ".py")
    assert not any(name.removesuffix(".py").isidentifier() for name in names)
    assert not set(names) & set(file_names(3, ".py"))
    assert names == sorted(names)


def test_a_missing_program_says_what_to_install():
    """The error is of the machine, not of the block."""
    with pytest.raises(ResourceError, match="no-such-tool is not installed; pip install it"):
        executable("no-such-tool", "pip install it")


def test_output_beyond_its_bound_is_an_error_of_the_tool():
    """A tool that was cut off has not said all it had to say, whatever its status."""

    def chatter(programs):
        argv = (sys.executable, "-I", "-S", "-c", "print('x' * 10_000)")
        return Job(
            SandboxCommand(argv, limits=Limits(output=1000)),
            lambda ended: {} if ended.truncated else {0: Check("pass")},
        )

    with Sandbox() as box:
        [check] = check_block(box, ["x"], chatter, "chatter", "lint")
    assert (check.verdict, check.reason) == ("error", "tool")
    assert check.feedback.startswith("chatter wrote more than")
