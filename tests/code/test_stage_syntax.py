"""The syntax stage: what Python compiles, told here or in the sandbox, without harm from what it reads."""

from __future__ import annotations

import ast
import io
import time
import tokenize
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import ContractError, Proposal
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.stages import syntax, syntax_process
from draftverify_code.stages.syntax import LONG, Syntax
from draftverify_code.stages.syntax_process import without_comments

CONTEXT = make_context()


def checks(programs, stage=None):
    return (stage or Syntax()).verify(CONTEXT, Proposal.alternatives(programs)).checks


def check(program):
    return checks([program])[0]


def test_a_program_passes():
    """Nothing is said of it."""
    found = check("def f(x):\n    return x\n")
    assert (found.verdict, found.reason, found.feedback, found.stage) == ("pass", "", "", "syntax")


def test_a_fault_is_shown_with_its_line_and_column():
    """As Python shows it."""
    found = check("def f(x):\n    return (x +)\n")
    assert (found.verdict, found.reason) == ("reject", "syntax")
    assert found.feedback == "line 2: SyntaxError: invalid syntax\n        return (x +)\n                   ^"


@pytest.mark.parametrize(
    "program",
    [
        "return 1",
        "def f(a, a): pass",
        "for x in y: nonlocal z",
        "def f():\n    await g()",
        "x = 1\0",
        "x = '\ud800'",
        "def f():\n  x = 1\n\tx = 2",
        "from __future__ import braces",
        "1" * 5000,
        "é\u00a0= 1",
    ],
)
def test_what_python_does_not_compile_is_no_syntax(program):
    """Not the grammar alone: what stands where it cannot, and what is no text."""
    assert (check(program).verdict, check(program).reason) == ("reject", "syntax")


@pytest.mark.parametrize(
    "program",
    ["", "\n", "# -*- coding: utf-7 -*-\nx = 'a'", "x = 1\r\ny = 2\r", "if 1:\n\x0c    pass", "é = 1"],
)
def test_what_python_compiles_passes(program):
    """A text is a text, whatever encoding it claims to be in."""
    assert check(program).verdict == "pass"


@pytest.mark.parametrize("program", ["x = '\\d'", "1 is 1", "assert (1, 'x')"])
def test_a_warning_is_none_of_its_business(program):
    """Neither shown nor raised, though the harness turns warnings into errors."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("error")
        assert check(program).verdict == "pass"
    assert not seen


def test_nothing_is_executed(tmp_path):
    """Not on the way here, and not in the sandbox."""
    mark = tmp_path / "ran"
    program = f"open({str(mark)!r}, 'w')\n"
    assert [found.verdict for found in checks([program, program + "#" * LONG])] == ["pass", "pass"]
    assert not mark.exists()


NESTED = {
    "parentheses": "(" * 100_000,
    "closed parentheses": "(" * 150 + "1" + ")" * 150,
    "signs": "-" * 100_000 + "1",
    "short signs": "-" * (LONG - 1) + "1",
    "sums": "1" + "+1" * 100_000,
    "calls": "f" + "()" * 100_000,
    "attributes": "a" + ".b" * (LONG // 2 - 1),
    "lambdas": "lambda:" * (LONG // 7) + "1",
    "branches": "if 1:\n a\n" + "elif 1:\n a\n" * 300,
    "blocks": "\n".join(" " * depth + "if 1:" for depth in range(200)),
    "open dictionaries": "{1:" * 150,
    "f-strings": "f'{f\"{" * 500,
    "format specifications": "f'" + "{a:" * 500,
    "generators": "(x for x in " * 150,
    "dotted import": "import " + "a." * (LONG // 2 - 5) + "a",
    "long line": "x = '" + "a" * 10_000_000 + "'",
    "long name": "a" * 10_000_000,
    "many lines": "\n" * 1_000_000,
    "backslashes": "\\\n" * 100_000 + "1",
    "digits": "0x" + "f" * 1_000_000,
    "arithmetic": "x = 9 ** 9 ** 9 ** 9",
    "repetition": "x = 'a' * 10 ** 12",
}


@pytest.mark.parametrize("program", NESTED.values(), ids=NESTED)
def test_a_hostile_text_neither_crashes_nor_stops_it(program):
    """It has a word on it, soon, and the next text is read as ever."""
    start = time.perf_counter()
    found = checks([program, "x = 1"])
    assert found[0].verdict in ("pass", "reject")
    assert found[1].verdict == "pass"
    assert len(found[0].feedback) <= 2000
    assert time.perf_counter() - start < 20


PIECES = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    "=",
    "lambda ",
    "a",
    "1",
    " if ",
    " else ",
    " for ",
    " in ",
    "not ",
    "-",
    "**",
]
PIECES += [
    ".",
    "\n",
    "\n ",
    ":=",
    "yield ",
    'f"{',
    "async ",
    "def f",
    "with ",
    " as ",
    "try:",
    "*a",
    "@",
    "del ",
    "match ",
    '"',
]


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join),
    st.integers(1, LONG),
    st.lists(st.sampled_from(PIECES), max_size=4).map("".join),
)
def test_no_repetition_of_tokens_takes_long(unit, count, tail):
    """Parsers have backtracked exponentially on such texts; here none takes seconds."""
    text = (unit * count)[: LONG - len(tail)] + tail
    start = time.perf_counter()
    assert check(text).verdict in ("pass", "reject")
    assert time.perf_counter() - start < 5


@settings(max_examples=20)
@given(
    st.lists(
        st.sampled_from(
            ["x = 1", "x =", "return", "def f():\n pass", "'", "x = '\ud800'", "#" * LONG + "\nx = (", ""]
        ),
        max_size=6,
    )
)
def test_a_block_is_judged_like_its_programs_alone(programs):
    """Also where some are long."""
    assert checks(programs) == tuple(check(program) for program in programs)


@pytest.mark.parametrize("program", ["def f(x):\n    return (x +)\n", "return 1", "x = 1", "x = '\\d'"])
def test_a_long_text_is_judged_like_a_short_one(program, monkeypatch):
    """The sandbox says what is said here."""
    here = check(program)
    monkeypatch.setattr(syntax, "LONG", 0)
    assert check(program) == here


def test_a_parser_that_breaks_is_an_error(monkeypatch):
    """Of the one text that broke it, and no rejection."""
    monkeypatch.setattr(syntax, "LONG", 0)
    source = Path(syntax_process.__file__).read_text()
    trap = "import os\n    if 'boom' in text:\n        os.abort()\n    try:\n        compile("
    monkeypatch.setattr(syntax, "script", lambda _: source.replace("try:\n        compile(", trap))
    found = checks(["x = 1", "boom = 1", "x =", "y = 1"])
    assert [(each.verdict, each.reason) for each in found] == [
        ("pass", ""),
        ("error", "tool"),
        ("reject", "syntax"),
        ("pass", ""),
    ]


def test_the_notes_say_what_was_used():
    """No sandbox is opened for short programs."""
    short = Syntax().verify(CONTEXT, Proposal.alternatives(["x = 1"]))
    long = Syntax().verify(CONTEXT, Proposal.alternatives(["x = 1" + " " * 100_000]))
    assert short.notes == {"integrity": "static"}
    assert set(long.notes) == {"integrity", "isolation"}


def test_an_item_must_be_a_program():
    """A mapping's `text` is one, a number is none."""
    assert check({"text": "x = 1"}).verdict == "pass"
    with pytest.raises(ContractError, match="program's text"):
        check(3)


def test_it_keeps_the_contract():
    """The kit's checks of a verifier."""
    blocks = [Proposal.alternatives(["x = 1", "x =", "y = 1"]), Proposal.alternatives([])]
    check_component(Subject(Syntax(), contexts=[CONTEXT], proposals=blocks))


# --- the text that type checkers see

LIBRARY = sorted(Path(ast.__file__).parent.glob("*.py"))[:60]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.exhaustive] if place % 5 else [])
        for place, path in enumerate(LIBRARY)
    ],
)
def test_without_comments_a_program_is_the_same(path):
    """Of the standard library's sources: the same tree, the same lines, and no comment."""
    source = path.read_text(encoding="utf-8")
    bare = without_comments(source)
    assert ast.dump(ast.parse(bare), include_attributes=True) == ast.dump(
        ast.parse(source), include_attributes=True
    )
    assert not any(
        token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(bare).readline)
    )


@pytest.mark.parametrize(
    ("program", "bare"),
    [
        ("x = '# type: ignore'  # type: ignore", "x = '# type: ignore'  "),
        ("x = '''\n# type: ignore\n'''\n", "x = '''\n# type: ignore\n'''\n"),
        ("x = '''\n# mypy: ignore-errors\n'''\n", "x = '''\n#_mypy: ignore-errors\n'''\n"),
        ("x = f'{y:#x}'  # a", "x = f'{y:#x}'  "),
        ("x = 1 # a\r# b\r\ny = 2", "x = 1 \n\ny = 2"),
        ("@no_type_check\ndef f(): 'no_type_check'", "@no_type_check_decorator\ndef f(): 'no_type_check'"),
        ("a = no_type_check, no_type_check  # b", "a = no_type_check_decorator, no_type_check_decorator  "),
        ("@no_type_\uff43heck\ndef f(): pass", "@no_type_check_decorator\ndef f(): pass"),
    ],
)
def test_only_comments_and_the_decorator_go(program, bare):
    """Strings stay, but for what mypy takes for a setting in them, and so do line numbers."""
    assert without_comments(program) == bare
