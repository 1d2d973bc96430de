"""The lint stage: ruff's word on each program of a block, whatever the program says to ruff."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftverify import ConfigError, Proposal, ResourceError
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages import lint
from draftverify_code.stages.lint import Lint

CONTEXT = make_context()


def checks(programs, stage=None):
    return (stage or Lint()).verify(CONTEXT, Proposal.alternatives(programs)).checks


def test_each_program_has_its_own_word():
    """One invocation, and findings go to the program that they are of."""
    found = checks(["x = 1\n", "def f(x):\n    return y\n", "def f(:\n", "import os\n"])
    assert [(check.verdict, check.reason) for check in found] == [
        ("pass", ""),
        ("reject", "lint"),
        ("reject", "syntax"),
        ("pass", ""),
    ]
    assert found[1].feedback == "line 2: F821 Undefined name `y`\n        return y\n               ^"
    assert found[2].feedback.startswith("line 1: SyntaxError: ")
    assert {check.stage for check in found} == {"lint"}


DIRECTIVES = [
    "x = nowhere  # noqa",
    "x = nowhere  # noqa: F821",
    "# ruff: noqa\nx = nowhere",
    "# ruff: noqa: F821\nx = nowhere",
    "# flake8: noqa\nx = nowhere",
    "# ruff: disable[F821]\nx = nowhere\n# ruff: enable[F821]",
    "# ruff: file-ignore[F821]\nx = nowhere",
    "x = nowhere  # ruff: ignore[F821]",
    "x = nowhere  # type: ignore  # pylint: disable=all",
    "# /// script\n# [tool.ruff.lint]\n# ignore = ['F821']\n# ///\nx = nowhere",
]


@pytest.mark.parametrize("program", DIRECTIVES)
def test_a_program_cannot_switch_it_off(program):
    """No comment is heard."""
    [found] = checks([program])
    assert (found.verdict, found.reason) == ("reject", "lint")


def test_the_rules_are_those_selected():
    """Others are not looked at, and a selection replaces the default."""
    programs = ["import os\n", "x = nowhere\n"]
    assert [check.verdict for check in checks(programs)] == ["pass", "reject"]
    assert [check.verdict for check in checks(programs, Lint(["F401"]))] == ["reject", "pass"]


FUTURE = "from __future__ import annotations\n"
SOUND = {
    "a quoted annotation": 'def height(root: "TreeNode") -> "int":\n    return 0\n',
    "quotes within": 'from typing import List\ndef f(é: List["TreeNode"]):\n    return é\n',
    "after a byte order mark": '\ufeffdef f(x: "TreeNode"):\n    return x\n',
    "words in quotes": 'def f(x: "list of ints"):\n    return x\n',
    "a cast": 'from typing import cast\nx = cast("Node", 1)\n',
    "annotations of the future": FUTURE
    + "def f(x: Lisst, *y: Lisst) -> Lisst:\n    z: Lisst = x\n    return z\n",
    "a local variable's annotation": "def f():\n    x: Lisst = 1\n    return x\n",
    "identity of a literal": "def f(x):\n    return x is 0\n",
    "a tuple asserted": "assert (1, 'message')\nif (1, 2):\n    pass\n",
    "an export": "__all__ = ['nowhere']\n",
    "assigned before, in a loop": "x = 1\nfor n in 1, 2:\n    def f():\n        for i in 0, 1:\n"
    "            if i:\n                print(x)\n            x = 2\n    f()\n",
}
UNSOUND = {
    "an annotation": "class A:\n    def f(self, x: Lisst):\n        return x\n",
    "a class's annotation": "def f():\n    class A:\n        x: Lisst\n",
    "beside annotations of the future": FUTURE + "def f(x: Lisst = é) -> Lisst:\n    return 'é', Lisst\n",
    "a base": FUTURE + "class A(Lisst):\n    pass\n",
    "in quotes and out of them": 'def f(x: "Lisst"):\n    return Lisst\n',
    "an f-string's": "x = f'{nowhere}'\n",
    "after a letter of many bytes": "x = 'é', nowhere\r\n",
}


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("program", SOUND.values(), ids=SOUND)
def test_what_runs_is_not_refused(program):
    """The default rules are of what fails when it is run."""
    exec(compile(program.encode(), "program", "exec", dont_inherit=True), {})
    [found] = checks([program])
    assert (found.verdict, found.feedback) == ("pass", "")


@pytest.mark.parametrize("name", UNSOUND)
def test_names_that_are_looked_up_are_refused(name):
    """Whatever else the program quotes or annotates."""
    if name.endswith("annotation") and sys.version_info >= (3, 14):
        pytest.skip("annotations are not evaluated")
    [found] = checks([UNSOUND[name]])
    assert (found.verdict, found.reason) == ("reject", "lint")


def test_only_names_that_are_looked_up_are_named():
    """A quoted one is no finding, beside others that are."""
    [found] = checks(['def f(x: "Lisst"):\n    return Lisst\n'])
    assert found.feedback.startswith("line 2: F821 Undefined name `Lisst`")
    assert "line 1" not in found.feedback


def test_an_unknown_rule_is_refused_once():
    """Before the first program, and by its name."""
    with pytest.raises(ConfigError, match="select: Unknown rule selector `F99`"):
        Lint(["F8", "F99"]).open()
    with pytest.raises(ConfigError, match="select: "):
        checks(["x = 1\n"], Lint([]))


@settings(max_examples=15)
@given(
    st.lists(
        st.sampled_from(
            ["x = 1", "x = nowhere", "def f(x: 'T'): T", "x = (", "'\ud800'", "", "x = 1\0", *DIRECTIVES]
        ),
        max_size=6,
    )
)
def test_a_block_is_judged_like_its_programs_alone(programs):
    """To the last word of feedback."""
    assert checks(programs) == tuple(checks([program])[0] for program in programs)


def test_deep_nesting_harms_nobody_else():
    """Ruff's parser may overflow its stack on a text; then that is an error of this text, and the others are judged."""
    deep = "x = " + "(" * 100_000 + ")" * 100_000
    found = checks(["x = 1", deep, "x = nowhere", "-" * 300_000 + "1"])
    assert [check.verdict for check in (found[0], found[2])] == ["pass", "reject"]
    for check in (found[1], found[3]):
        assert check.verdict in ("reject", "error", "pass")
        assert check.verdict != "reject" or check.reason == "syntax"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Another program in ruff's place, and a sandbox that shows it."""

    def install(source):
        # The sandbox's user must be able to reach it.
        for parent in [tmp_path, *tmp_path.parents]:
            if parent.owner() == tmp_path.owner() and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o555)
        path = tmp_path / "ruff"
        path.write_text(f"#!{sys.executable} -IS\n{source}")
        path.chmod(0o755)
        monkeypatch.setattr(lint, "executable", lambda name, how: path)
        return Lint(sandbox=Sandbox(readable=[tmp_path]))

    return install


FAKE = """
import json, os, sys
for name in sys.argv[1:]:
    if name.endswith(".py"):
        text = open(name).read()
        if "crash" in text:
            os.abort()
        if "status" in text:
            sys.exit(2)
        if "nonsense" in text:
            print("no JSON")
        if "panic" in text:
            print(json.dumps({"code": "panic", "filename": name}))
        if "blind" in text:
            sys.exit(0)
        if text == "(":
            place = {"row": 1, "column": 1}
            print(json.dumps({"code": None, "filename": name, "message": "syntax", "location": place}))
"""


@pytest.mark.parametrize("culprit", ["crash", "status", "panic", "nonsense", "blind"])
def test_a_ruff_that_breaks_on_a_program_is_an_error_of_this_program(culprit, fake):
    """The others have their word."""
    stage = fake(FAKE)
    found = checks(["a", culprit, "b", "c"], stage)
    stage.close()
    assert [check.verdict for check in found] == ["pass", "error", "pass", "pass"]
    assert found[1].reason == "tool"


def test_without_ruff_the_error_says_what_to_install(monkeypatch):
    """Before the first program, and not as a word on one."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(lint.executable.__globals__["sysconfig"], "get_path", lambda name: "/nowhere")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ResourceError, match="ruff is not installed; pip install ruff"):
        Lint().open()


def test_the_notes_name_the_isolation():
    """The sandbox's tier, and that nothing of the program ran."""
    notes = Lint().verify(CONTEXT, Proposal.alternatives(["x = 1"])).notes
    assert notes["integrity"] == "static"
    assert notes["isolation"] in ("bubblewrap", "namespaces", "landlock")


@pytest.mark.exhaustive
def test_it_keeps_the_contract():
    """The kit's checks of a verifier."""
    blocks = [Proposal.alternatives(["x = 1", "x = y", "x ="]), Proposal.alternatives([])]
    check_component(Subject(Lint(), contexts=[CONTEXT], proposals=blocks))
