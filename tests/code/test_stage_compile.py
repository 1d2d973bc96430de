"""The compile stage: real compilers on hostile programs, each judged by itself."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import ConfigError, Proposal, ResourceError
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.stages.compile import Compile
from draftverify_code.stages.toolchains import LANGUAGES, Toolchain

CONTEXT = make_context()
GOOD = (
    '#include <stdio.h>\nint f(int x) { return x + 1; }\nint main(void) { printf("%d", f(1)); return 0; }\n'
)
BAD = "int f(int x) {\n    return y;\n}\n"


def checks(programs, stage=None):
    return (stage or Compile()).verify(CONTEXT, Proposal.alternatives(programs)).checks


def test_each_program_has_its_own_word():
    """With the compiler's message on it."""
    found = checks([GOOD, BAD, "int f(void);", "this is no C"])
    assert [(check.verdict, check.reason) for check in found] == [
        ("pass", ""),
        ("reject", "compile"),
        ("pass", ""),
        ("reject", "compile"),
    ]
    assert found[1].feedback.startswith("main.c: In function")
    assert "main.c:2:12: error: " in found[1].feedback
    assert {check.stage for check in found} == {"compile"}


def test_cpp_is_another_language():
    """Templates are; what is C alone is not."""
    programs = [
        "#include <vector>\nint f(std::vector<int> v) { return v.size(); }",
        "int f(void) { int class = 1; return class; }",
    ]
    assert [check.verdict for check in checks(programs, Compile("c++"))] == ["pass", "reject"]
    assert [check.verdict for check in checks(programs)] == ["reject", "pass"]


def test_flags_are_the_compilers():
    """Standards and warnings."""
    program = "int f(void) { int unused; return 0; }"
    assert checks([program])[0].verdict == "pass"
    strict = Compile(flags=["-Wunused", "-Werror", "-std=c11"])
    assert [check.verdict for check in checks([program], strict)] == ["reject"]


HOSTILE = {
    "another file": '#include "/etc/passwd"\n',
    "another file's bytes": 'asm(".incbin \\"/etc/passwd\\"");\nint x;\n',
    "the environment": '#include "/proc/self/environ"\n',
    "the compiler's own memory": 'asm(".incbin \\"/proc/self/maps\\"");\nint x;\n',
    "itself": '#include "main.c"\n',
    "itself by its name": "#include __FILE__\n",
    "a neighbour": '#include "../000000/main.c"\n',
    "another's name": '#line 1 "000000/main.c"\n#error forged\n',
    "templates without end": "template<int n> struct A { A<n + 1> a; };\nA<0> a;\n",
    "a device without end": '#include "/dev/zero"\n',
    "macros that double": "#define A(x) x x x x x x x x\n#define B(x) A(A(A(A(A(A(A(A(x))))))))\nint f = B(B(1+));\n",
    "a huge object": "char x[1 << 30] = {1};\n",
    "a huge line": "int x = " + "(" * 1_000_000 + ";\n",
    "a surrogate": "// \ud800\nint x;\n",
}


OWN = ("the environment", "the compiler's own memory")
"""What a process may read of itself where it has a /proc of its own; a compiler finds nothing in them."""


def test_hostile_programs_neither_pass_nor_harm_the_others():
    """No file of the machine shows in a message, and the others have their word."""
    programs = [GOOD, *HOSTILE.values(), BAD]
    found = checks(programs, Compile(timeout=1))
    assert (found[0].verdict, found[-1].verdict) == ("pass", "reject")
    for name, check in zip(HOSTILE, found[1:-1], strict=True):
        assert check.verdict in ("reject", "error", "timeout") or name in OWN, name
        assert "root:" not in check.feedback, name
        assert "PATH=" not in check.feedback, name
        assert len(check.feedback) <= 2000, name


def test_a_bomb_is_a_timeout():
    """The compiler's processor time is bounded for each program, and the next is compiled as ever."""
    bomb = "constexpr long f(long n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nstatic_assert(f(50) > 0);\n"
    stage = Compile("c++", flags=["-fconstexpr-ops-limit=1000000000000"], timeout=1)
    found = checks([bomb, "int f();", "int f(x);"], stage)
    assert [(check.verdict, check.reason) for check in found] == [
        ("timeout", "cpu"),
        ("pass", ""),
        ("reject", "compile"),
    ]


@pytest.fixture
def made_up(monkeypatch):
    """A language of which the compiler is a script in sh, with the program's file behind it."""

    def stage(script, sample="exit 0"):
        check = shlex.join(("sh", "-c", script))
        monkeypatch.setitem(LANGUAGES, "made up", Toolchain(".x", "", ("sh",), check=check, sample=sample))
        return Compile("made up")

    return stage


def test_a_compiler_that_fails_is_an_error(made_up):
    """An internal error is no word on the program."""
    programs = [
        "exit 0",
        "exit 1",
        "echo 'internal compiler error: oh'; exit 1",
        "kill -SEGV $$",
        "no-such-program",
    ]
    found = checks(programs, made_up('sh "./$0"'))
    assert [check.verdict for check in found] == ["pass", "reject", "error", "error", "error"]
    assert {check.reason for check in found[2:]} == {"tool"}


def test_what_one_program_makes_is_gone_before_the_next():
    """Together their objects are more than the disk holds; each alone is not."""
    objects = [f"char x[10 << 20] = {{1}};\nint v{i};\n" for i in range(24)]
    assert {check.verdict for check in checks(objects)} == {"pass"}


def test_a_full_disk_is_an_error(made_up):
    """Never a rejection."""
    full = "head -c 50000000 /dev/zero >a && head -c 50000000 /dev/zero >b && exit 0"
    found = checks(["exit 0", full, "echo no; exit 1"], made_up('. "./$0"'))
    assert [check.verdict for check in found] == ["pass", "error", "reject"]
    assert "No space left" in found[1].feedback


WORDS = "out of memory; internal compiler error: no; CPU time limit exceeded; java.lang.InternalError"
QUOTING = {
    "a line of source": f'void f(void) {{\n  puts("{WORDS}") return;\n}}\n',
    "a line that is not indented": f'int x = \n"{WORDS}"\n+;\n',
    "#error": f"#error {WORDS}\n",
    "an assertion": f'_Static_assert(0, "{WORDS}");\n',
    "a call": f'void g(void) __attribute__((error("{WORDS}")));\nvoid f(void) {{ g(); }}\n',
    "a file to include": f'#include "{WORDS}"\n',
    "a file's name": f'#line 1 "cc: {WORDS}"\nint f(void) {{ return y; }}\n',
    "a name with more lines": f'#line 1 "a\\n{WORDS}\\n"\nint f(void) {{ return y; }}\n',
    "the assembler": f'asm("{WORDS}");\nint x;\n',
    "the assembler's error": f'asm(".error \\"{WORDS}\\"");\nint x;\n',
}


@pytest.mark.parametrize("program", QUOTING.values(), ids=QUOTING)
def test_words_of_the_program_are_not_the_compilers(program):
    """Whatever its messages quote, a faulty program is rejected, not taken for a failure of the compiler."""
    [found] = checks([program])
    assert (found.verdict, found.reason) == ("reject", "compile")


def test_words_on_further_lines_of_a_message_are_the_programs():
    """C++ prints an assertion's text as it is."""
    [found] = checks([f'static_assert(false, "a\\n{WORDS}");'], Compile("c++"))
    assert (found.verdict, found.reason) == ("reject", "compile")


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("cc: fatal error: Killed signal terminated program cc1", "error"),
        ("cc1: out of memory allocating 65536 bytes after a total of 9 bytes", "error"),
        (
            "program.c:3:5: internal compiler error: in f, at x.cc:9\nPlease submit a full bug report.",
            "error",
        ),
        ("program.c:3:5: fatal error: error writing to x.s: No space left on device", "error"),
        ("{standard input}: Fatal error: can't close program.o: No space left on device", "error"),
        ("note: the compiler unexpectedly panicked. this is a bug.", "error"),
        ("Program.java:3: error: ';' expected\nputs(\"out of memory\")\n   ^\n1 error", "reject"),
        ("program.ts(1,9): error TS1005: ';' expected.", "reject"),
        ('./program.go:3:5: syntax error: unexpected literal "out of memory" at end', "reject"),
        ('error: expected `,`\n --> program.rs:2:9\n  |\n2 | f("out of memory" x)\n  |   ^', "reject"),
    ],
)
def test_how_compilers_speak_of_themselves(said, verdict, made_up):
    """And how of a program: recorded messages, as a command gives them back."""
    stage = made_up(f'grep -q good "$0" || exit 0; echo {shlex.quote(said)}; exit 1')
    [found] = checks(["good"], stage)
    assert found.verdict == verdict


@settings(max_examples=8)
@given(st.lists(st.sampled_from([GOOD, BAD, "", "int x", "\ud800", HOSTILE["itself"]]), max_size=5))
def test_a_block_is_judged_like_its_programs_alone(programs):
    """To the last word of feedback."""
    assert checks(programs) == tuple(checks([program])[0] for program in programs)


@pytest.mark.parametrize("language", ["fortran", "python"])
def test_a_language_without_a_compiler_here_is_refused(language):
    """Before the first program; the message says what there is instead."""
    with pytest.raises(ConfigError, match=r"`code\.(command|syntax)`"):
        Compile(language).open()


def test_without_the_compiler_the_error_says_what_to_do(monkeypatch):
    """It is of the machine, not of the block."""
    absent = Toolchain(".x", "", ("no-such-compiler",), "its-package", "no-such-compiler -c")
    monkeypatch.setitem(LANGUAGES, "x", absent)
    with pytest.raises(
        ResourceError, match="no-such-compiler is not installed; Debian: apt install its-package"
    ):
        Compile("x").open()


def test_a_compiler_that_does_not_work_here_is_no_word_on_a_program():
    """It is found out once, with a program that surely compiles."""
    stage = Compile(flags=["-B/nowhere", "-no-such-flag"])
    with pytest.raises(ResourceError, match=r"does not compile .int main.* in the sandbox"):
        stage.verify(CONTEXT, Proposal.alternatives([GOOD]))


@pytest.mark.exhaustive
def test_it_keeps_the_contract():
    """The kit's checks of a verifier."""
    blocks = [Proposal.alternatives(["int x;", "int x"]), Proposal.alternatives([])]
    check_component(Subject(Compile(), contexts=[CONTEXT], proposals=blocks))


def test_its_needs_are_said():
    """A compiler of the system is shown anyway."""
    assert list(Compile().readable) == []
