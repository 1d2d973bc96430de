"""The IR stage: LLVM's word on each function of a block, none of which can touch another."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib import util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import Proposal, ResourceError
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.stages import ir
from draftverify_code.stages.ir import Ir

CONTEXT = make_context()
GOOD = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"
UNKNOWN = "define i32 @f(i32 %x) {\n  ret i32 %y\n}\n"
EARLY = "define i32 @f(i32 %x) {\n  %y = add i32 %z, 1\n  %z = add i32 %x, 1\n  ret i32 %y\n}\n"


def checks(programs):
    return Ir().verify(CONTEXT, Proposal.alternatives(programs)).checks


def words(programs):
    return [check.verdict for check in checks(programs)]


def test_each_function_has_its_own_word():
    """What does not parse with its line, what does not verify with LLVM's reason."""
    found = checks([GOOD, UNKNOWN, EARLY, "no IR"])
    assert [(check.verdict, check.reason) for check in found] == [("pass", ""), *[("reject", "ir")] * 3]
    assert found[1].feedback == "line 2: use of undefined value '%y'\n  ret i32 %y\n          ^"
    assert found[2].feedback.startswith("Instruction does not dominate all uses!")
    assert {check.stage for check in found} == {"ir"}


@pytest.mark.parametrize("program", ["", "; a comment\n", "declare i32 @f(i32)\n", "@x = global i32 1\n"])
def test_a_module_without_a_function_is_refused(program):
    """There is nothing in it to verify."""
    [found] = checks([program])
    assert (found.verdict, found.reason) == ("reject", "missing")


def test_a_text_ends_where_it_ends():
    """Not at a zero byte, as a string of C does."""
    assert words([GOOD + "\0 anything"]) == ["reject"]


def test_names_may_collide():
    """Functions, declarations of other types, types, attributes and metadata of the same name are not the same."""
    one = (
        "%t = type { i32 }\ndeclare i32 @g(i32) #0\n"
        "define i32 @f(%t %x) { %r = call i32 @g(i32 1)\n ret i32 %r }\nattributes #0 = { readnone }\n!0 = !{i32 1}\n"
    )
    other = (
        "%t = type { double }\ndeclare void @g(double) #0\n"
        'define void @f(%t %x) { call void @g(double 1.0)\n ret void }\nattributes #0 = { noreturn }\n!0 = !{!"x"}\n'
    )
    assert words([one, other, GOOD, one + "\n; again"]) == ["pass"] * 4


def test_no_item_reaches_into_another():
    """Ending a function early, or calling a neighbour's, is a matter of the one item."""
    ends = "define void @a() { ret void }\ndefine i32 @f() { ret i32 2 }\n"
    calls = "define i32 @h() { %r = call i32 @a()\n ret i32 %r }\n"
    opens = "define void @open() {\n"
    assert words([GOOD, ends, calls, opens, GOOD + ";"]) == ["pass", "pass", "reject", "reject", "pass"]


@pytest.mark.parametrize("linkage", ["linkonce", "linkonce_odr", "available_externally", "internal", "weak"])
def test_what_nothing_refers_to_is_verified_too(linkage):
    """A linker would leave it out."""
    assert words([GOOD, EARLY.replace("define", f"define {linkage}")]) == ["pass", "reject"]


@pytest.mark.parametrize(
    "program",
    [
        "@x = global " + "{" * 100_000,
        "define void @f() { ret void }\n" * 20_000,
        'target datalayout = "e-p:999999999999999999:1"\n' + GOOD,
        "!0 = !{!0}\n!llvm.module.flags = !{!0}\n" + GOOD,
    ],
)
def test_hostile_text_harms_nobody_else(program):
    """LLVM may crash on it: an error of this text alone."""
    found = checks([GOOD, program, UNKNOWN])
    assert (found[0].verdict, found[2].verdict) == ("pass", "reject")
    assert found[1].verdict in ("reject", "error")


def test_nothing_is_executed():
    """Constructors and inline assembly are read, not run."""
    program = (
        "%c = type { i32, ptr, ptr }\n@llvm.global_ctors = appending global [1 x %c] [%c { i32 1, ptr @f, ptr null }]\n"
        'define void @f() {\n  call void asm sideeffect "ud2", ""()\n  unreachable\n}\n'
    )
    assert words([program]) == ["pass"]


@settings(max_examples=5)
@given(st.lists(st.sampled_from([GOOD, UNKNOWN, EARLY, "", "no IR", "\ud800", GOOD + "\0"]), max_size=6))
def test_a_block_is_judged_like_its_functions_alone(programs):
    """To the last word of feedback."""
    assert checks(programs) == tuple(checks([program])[0] for program in programs)


def test_an_llvm_that_crashes_is_an_error_of_one_item(monkeypatch):
    """The others have their word."""
    source = Path(ir.__file__).with_name("ir_process.py").read_text()
    trap = "import os\n    if 'boom' in text:\n        os.abort()\n    try:"
    monkeypatch.setattr(ir, "script", lambda _: source.replace("try:", trap, 1))
    found = checks([GOOD, GOOD.replace("@f", "@boom"), UNKNOWN])
    assert [(check.verdict, check.reason) for check in found] == [
        ("pass", ""),
        ("error", "tool"),
        ("reject", "ir"),
    ]


def test_without_llvmlite_the_error_says_what_to_install(monkeypatch):
    """It is of the machine, not of the block."""
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match="pip install llvmlite"):
        Ir().open()


@pytest.mark.exhaustive
def test_it_keeps_the_contract():
    """The kit's checks of a verifier."""
    blocks = [Proposal.alternatives([GOOD, UNKNOWN]), Proposal.alternatives([])]
    check_component(Subject(Ir(), contexts=[CONTEXT], proposals=blocks))


def test_packages_may_lie_where_a_pth_file_says(tmp_path):
    """As in an environment that shares another one's: what is shown in the sandbox is found there."""
    venv.create(tmp_path, symlinks=True)
    [site] = tmp_path.glob("lib/python3*/site-packages")
    (site / "shared.pth").write_text("\n".join(path for path in sys.path if path and Path(path).is_dir()))
    script = "from tests.code.test_stage_ir import GOOD, checks; print(checks([GOOD])[0].verdict)"
    root = Path(__file__).parents[2]
    run = subprocess.run([tmp_path / "bin/python", "-c", script], capture_output=True, text=True, cwd=root)
    assert run.stdout == "pass\n", run.stderr
