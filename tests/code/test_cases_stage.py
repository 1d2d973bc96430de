"""Programs on standard input and output, in Python and in C: what holds, and what fails and why."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify import ContractError, Proposal, Task
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.sandbox import CommandExit, Sandbox
from draftverify_code.stages.cases import Cases, agree

DOUBLE = "import sys\nfor line in sys.stdin:\n    print(2 * int(line))\n"
CASES = [
    {"input": "1\n2\n", "output": "2\n4\n"},
    {"input": "", "output": ""},
    {"input": "-3\n", "output": "-6"},
]

IN_C = """\
#include <stdio.h>

int main(void) {
    int n;
    while (scanf("%d", &n) == 1) printf("%d\\n", 2 * n);
    return 0;
}
"""
C = {"language": "c"}


@pytest.fixture(scope="module")
def box():
    """A real sandbox."""
    with Sandbox() as made:
        yield made


def checks_of(stage, programs, cases=CASES, **more):
    task = Task(id="t", input={"cases": cases})
    return stage.verify(make_context(task, **more), Proposal.alternatives(programs)).checks


def test_the_score_is_the_share_of_cases_that_hold(box):
    """The feedback has the first that fails, with its input and both outputs, and names the others."""
    stage = Cases(box)
    half = DOUBLE.replace("2 * int(line)", "2 * abs(int(line))")
    task = Task(id="t", input={"cases": CASES})
    verification = stage.verify(make_context(task), Proposal.alternatives([DOUBLE, half, DOUBLE, "pass"]))
    right, wrong, again, empty = verification.checks
    assert (right.verdict, right.score, right.stage) == ("pass", 1.0, "cases")
    assert again == right
    assert (wrong.verdict, wrong.reason, wrong.score) == ("reject", "output", pytest.approx(2 / 3))
    assert wrong.feedback == ("case 3 of 3: with the input\n-3\n\nit is to write\n-6\nand wrote\n6\n")
    assert (empty.score, empty.feedback.splitlines()[-1]) == (pytest.approx(1 / 3), "also failed: case 3")
    assert verification.notes == {"isolation": box.tier, "integrity": "separate-process"}
    assert {check.caveat for check in verification.checks} == {""}


@pytest.mark.parametrize(
    ("program", "verdict", "reason", "said"),
    [
        ("print(", "reject", "syntax", "SyntaxError"),
        ("1 / 0", "reject", "exception", "ZeroDivisionError"),
        ("import sys\nsys.exit(3)", "reject", "status", "status 3"),
        ("import os\nos.abort()", "reject", "exit", "by signal"),
        ("import os\nos._exit(0)", "reject", "output", "and wrote"),
        ("print('2 4')", "reject", "output", "2 4"),
        ("print('2\\n4\\n' + 'x' * 3_000_000)", "reject", "output", "…"),
        ("import sys\nsys.stdout.buffer.write(bytes([255, 254]))", "reject", "output", "\ufffd"),
        ("import time\ntime.sleep(60)", "reject", "wall", "1.5 s"),
        ("x = bytearray(1 << 32)", "reject", "memory", "MemoryError"),
    ],
)
def test_each_way_of_failing_has_its_reason(box, program, verdict, reason, said):
    """A model reads what was wrong; a table counts by the reason."""
    (check,) = checks_of(Cases(box, timeout=1.5), [program])
    assert check.verdict == verdict, check
    assert check.reason == reason
    assert said in check.feedback
    assert check.score in (0.0, pytest.approx(1 / 3))  # one of the cases is to write nothing
    assert len(check.feedback) < 4000


def test_more_output_than_expected_may_be_long(box):
    """An expected output beyond the usual limit is still compared whole."""
    long = "7\n" * 1_000_000
    right, wrong = checks_of(
        Cases(box, timeout=10.0), ["print('7\\n' * 10**6)", "print('7\\n' * (10**6 - 1))"], [{"output": long}]
    )
    assert right.verdict == "pass"
    assert wrong.reason == "output"


def test_expected_outputs_never_enter_the_sandbox(box):
    """A program that prints all it can find finds its input and itself."""
    snoop = (
        "import os, sys\nfor path, _, names in os.walk('.'):\n    for name in names:\n"
        "        print(open(os.path.join(path, name)).read())\n"
        "print(sys.argv, sys.stdin.read(), dict(os.environ))\n"
    )
    (check,) = checks_of(Cases(box), [snoop], [{"input": "question", "output": "s3cret"}])
    assert check.verdict == "reject"
    assert check.feedback.count("s3cret") == 1  # where the harness says what it is to write
    assert "question" in check.feedback


READS = [
    "import io, os\ninput = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\nprint(2 * int(input()))\n",
    "import mmap\nprint(2 * int(mmap.mmap(0, 0, access=mmap.ACCESS_READ).read()))\n",
    "print(2 * int(open('/dev/stdin').read()))\n",
    "import sys\nprint(2 * int(sys.stdin.readline()), sys.stdin.read())\n",
]


@pytest.mark.parametrize("program", READS)
def test_input_is_a_file(box, program):
    """As in contests, where programs ask how long it is."""
    (check,) = checks_of(Cases(box), [program], [{"input": "21\n", "output": "42\n"}])
    assert check.verdict == "pass", check.feedback


class Recorder:
    """A sandbox that keeps what it is given, and echoes."""

    tier = "none"
    workers = at_once = 4
    packages = ()

    def __init__(self):
        self.calls = []

    def run(self, commands):
        self.calls.append(list(commands))
        return [
            CommandExit(failure="no room")
            if b"broken" in command.files["main.py"]
            else CommandExit(0, stdout=command.files[".input"])
            for command in commands
        ]


def test_a_block_is_one_call_for_each_case_and_few_programs_take_several_cases_at_once():
    """Every live program's next cases go together, as many as there are workers."""
    cases = [{"input": str(n), "output": str(n)} for n in range(8)]
    box = Recorder()
    assert [check.verdict for check in checks_of(Cases(box), list("abcd"), cases)] == ["pass"] * 4
    assert [len(call) for call in box.calls] == [4] * 8
    box.calls.clear()
    checks_of(Cases(box), ["a"], cases)
    assert [len(call) for call in box.calls] == [4, 4]
    box.calls.clear()
    checks_of(Cases(box), list("abcdef"), cases[:1], enough=1)
    assert [len(call) for call in box.calls] == [4]


def test_what_the_sandbox_could_not_do_is_an_error():
    """Never a rejection; the programs beside it keep their checks."""
    broken, fine = checks_of(Cases(Recorder()), ["broken", "fine"], [{"input": "1", "output": "1"}])
    assert (broken.verdict, broken.reason, broken.score) == ("error", "sandbox", None)
    assert fine.verdict == "pass"


def test_with_enough_the_rest_is_unchecked(box):
    """Lowest index first."""
    found = checks_of(Cases(box), ["print()", DOUBLE, "print(1)", DOUBLE, DOUBLE], enough=2)
    assert [check.verdict for check in found] == ["reject", "pass", "reject", "pass", "unchecked"]


# --- another language


needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@needs_cc
def test_programs_in_c_are_built_once_and_run_on_every_case(box):
    """The compiler's message is the feedback of what does not build."""
    right, wrong, broken, crashes = checks_of(
        Cases(box, **C),
        [
            IN_C,
            IN_C.replace("2 * n", "n"),
            IN_C.replace("int n;", ""),
            IN_C.replace("int n;", "int n = *(int *)0;"),
        ],
    )
    assert (right.verdict, right.score) == ("pass", 1.0)
    assert (wrong.reason, wrong.score) == ("output", pytest.approx(1 / 3))
    assert (broken.verdict, broken.reason) == ("reject", "compile")
    assert "main.c:5" in broken.feedback
    assert "undeclared" in broken.feedback
    assert (crashes.verdict, crashes.reason) == ("reject", "exit")
    assert "signal 11" in crashes.feedback


@needs_cc
def test_a_compiler_does_not_read_the_machine(box):
    """Where there is isolation, an include of a file outside fails like one that is not there."""
    if box.tier == "none":
        return
    (check,) = checks_of(Cases(box, **C), ['#include "/etc/passwd"\n' + IN_C])
    assert check.reason == "compile"
    assert "root:" not in check.feedback


@needs_cc
def test_a_build_that_fills_the_disk_is_an_error(box):
    """It says nothing of the program."""
    big = IN_C + "char x[300 << 20] = {1};\n"
    if shutil.which("cc") is None:
        pytest.skip("this machine has no C compiler")
    (check,) = checks_of(Cases(box, **C), [big])
    assert (check.verdict, check.reason) == ("error", "tool"), check


def test_a_command_that_is_not_there_is_an_error(box):
    """Nothing was found out about the program."""
    (check,) = checks_of(Cases(box, command=["no-such-interpreter", "{file}"]), [DOUBLE])
    assert (check.verdict, check.reason) == ("error", "sandbox")


@pytest.mark.parametrize("cases", [None, []])
def test_a_task_without_cases_is_abstained_from(cases):
    """Another stage may have tests for it; what is missing is named."""
    (check,) = checks_of(Cases(Recorder()), [DOUBLE], cases)
    assert (check.verdict, check.stage, "`cases`" in check.feedback) == ("abstain", "cases", True)


def test_a_case_that_is_no_text_is_a_case_nonetheless(box):
    """JSON may hold half of a character."""
    echo = "print(input())\n"
    (check,) = checks_of(Cases(box), [echo], [{"input": "a\ud83d\n", "output": "a?\n"}])
    assert check.verdict == "pass", check


def test_what_the_sandbox_does_not_give_is_an_error(box):
    """A package that is hidden or missing, a call that is refused: with the remedy, and no verdict."""
    programs = ["import pandas\n", "import socket\nsocket.socket()\n", "import no_such_module\n"]
    pandas, socket, none = checks_of(Cases(box), programs)
    assert (pandas.verdict, pandas.reason) == (socket.verdict, socket.reason) == ("error", "refused")
    assert "No module named 'pandas'; add pandas to the sandbox's `packages`" in pandas.feedback
    assert (none.verdict, none.reason) == ("reject", "exception")


def test_without_a_sandbox_programs_may_import_numpy():
    """As `code.tests` shows it to those that do."""
    (check,) = checks_of(Cases(), ["import numpy as np\nprint(np.sum([1, 2]))"], [{"output": "3"}])
    assert check.verdict == "pass", check


@pytest.mark.parametrize("tolerance", ["0.1", -1.0, float("nan")])
def test_a_tolerance_that_is_none_is_refused(tolerance):
    """Before a program runs, and by name."""
    task = Task(id="t", input={"cases": CASES, "tolerance": tolerance})
    with pytest.raises(ContractError, match="tolerance of task t"):
        Cases(Recorder()).verify(make_context(task), Proposal.alternatives([DOUBLE]))


@pytest.mark.parametrize("cases", ["text", [3], [{"input": "1"}], [{"input": 1, "output": "2"}]])
def test_a_task_without_usable_cases_is_refused(cases):
    """What is missing is named."""
    with pytest.raises(ContractError, match="case"):
        checks_of(Cases(Recorder()), [DOUBLE], cases)


# --- the comparison

LINE = st.text(st.characters(blacklist_characters="\n", blacklist_categories=("Cs",)), max_size=20)


@given(st.lists(LINE, max_size=8), st.data())
def test_white_space_at_the_ends_does_not_count(lines, data):
    """Of lines, and empty lines at the end of all."""
    padded = [line + data.draw(st.sampled_from(["", " ", "\t", "\r"])) for line in lines]
    assert agree("\n".join(lines), "\n".join(padded) + data.draw(st.sampled_from(["", "\n", "\n \n\n"])))


@given(st.lists(LINE, min_size=1, max_size=6), st.lists(LINE, min_size=1, max_size=6))
def test_different_lines_differ(left, right):
    """Nothing else is forgiven: the same lines up to their ends, or no agreement."""
    strip = lambda lines: "\n".join(line.rstrip() for line in lines).rstrip("\n")
    assert agree("\n".join(left), "\n".join(right)) == (strip(left) == strip(right))


@given(st.floats(-1e6, 1e6), st.floats(-1.0, 1.0))
@example(0.0, 1.0)
def test_numbers_agree_within_the_tolerance(number, share):
    """|a − b| ≤ tolerance · max(1, |a|)."""
    other = number + share * 1e-3 * max(1.0, abs(number))
    near = abs(other - number) <= 1e-4 * max(1.0, abs(number))
    assert agree(f"x {number!r}", f"x {other!r}", 1e-4) == (near or repr(number) == repr(other))
    assert agree(f"{number!r}", f"{other!r}") == (repr(number) == repr(other))


@pytest.mark.parametrize("got", ["nan", "inf", "1_0", "10 0", "1e999", "0x0a", "x", "", "10\n10", "9" * 500])
def test_what_is_no_plain_number_is_compared_as_text(got):
    """A tolerance is no door."""
    assert not agree("10", got, 1.0)
    assert agree(got, got, 1.0)


def test_the_stage_conforms(box):
    """The kit's contract, on real programs."""
    blocks = lambda context: [Proposal.alternatives([DOUBLE, "print(1)"]), Proposal.alternatives([])]
    check_component(Subject(Cases(box), tasks=[Task(id="t", input={"cases": CASES})], proposals=blocks))
