"""Anything with an exit status, and what the ways in which a process ends mean."""

from __future__ import annotations

import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftverify import Check, ContractError, Proposal, Task
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.program import REASONS
from draftverify_code.sandbox import CommandExit, Limits, Sandbox
from draftverify_code.stages.cases import Cases
from draftverify_code.stages.command import ExitStatus
from draftverify_code.stages.compile import Compile
from draftverify_code.stages.lint import Lint
from draftverify_code.stages.running import abnormal, capped, imported, lacking, verified
from draftverify_code.stages.suites import Suites

GREP = ["grep", "-n", "x", "{file}"]


@pytest.fixture(scope="module")
def box():
    """A real sandbox."""
    with Sandbox() as made:
        yield made


def checks_of(stage, programs, given=None, **more):
    task = Task(id="t", input=given or {})
    return stage.verify(make_context(task, **more), Proposal.alternatives(programs)).checks


def test_status_zero_passes_and_any_other_is_refused(box):
    """With what it wrote as feedback; the record says that the program could have had a word in it."""
    stage = ExitStatus(
        box, ["sh", "-c", "cat {file}; grep -q x {file} || exit 3"], suffix=".txt", name="has x"
    )
    verification = stage.verify(make_context(Task(id="t")), Proposal.alternatives(["x = 1", "y = 2"]))
    assert [(c.verdict, c.reason, c.stage) for c in verification.checks] == [
        ("pass", "", "has x"),
        ("reject", "status", "has x"),
    ]
    assert verification.checks[1].feedback == "it ended with status 3\ny = 2"
    assert {check.caveat for check in verification.checks} == {"shared-process"}
    assert verification.notes == {"isolation": box.tier, "integrity": "shared-process"}


def test_a_task_may_bring_the_command_its_files_and_the_target(box):
    """A directory with one file to be written."""
    given = {
        "command": [sys.executable, "-s", "check.py"],
        "files": {"check.py": "from lib.answer import x\nassert x == 42, x\n", "lib/answer.py": "x = 0"},
        "target": "lib/answer.py",
    }
    right, wrong = checks_of(ExitStatus(box), ["x = 42", "x = 41"], given)
    assert right.verdict == "pass"
    assert (wrong.verdict, wrong.reason) == ("reject", "status")
    assert "AssertionError: 41" in wrong.feedback


@pytest.mark.parametrize(
    ("command", "verdict", "reason"),
    [
        (["sh", "-c", "sleep 60 # {file}"], "reject", "wall"),
        (["no-such-program", "{file}"], "error", "sandbox"),
    ],
)
def test_what_is_no_status_has_its_own_word(box, command, verdict, reason):
    """The command is the program's own run: its time is the program's. A harness failure is never a rejection."""
    (check,) = checks_of(ExitStatus(box, command, timeout=1.0), ["x"])
    assert (check.verdict, check.reason) == (verdict, reason)


def test_equal_programs_run_once_and_enough_stops(box):
    """What comes after the pass that was enough is unchecked."""
    found = checks_of(ExitStatus(box, GREP), ["y", "x", "y", "x", "x"], enough=1)
    assert [check.verdict for check in found] == ["reject", "pass", "unchecked", "unchecked", "unchecked"]


@pytest.mark.parametrize(
    ("command", "given", "said"),
    [
        (None, {}, "no command"),
        (None, {"command": "pytest -q"}, "no command"),
        (["true"], {}, "target"),
        (["true"], {"target": "a.py", "files": ["a.py"]}, "files"),
    ],
)
def test_what_is_missing_is_named(command, given, said):
    """Before anything runs."""
    with pytest.raises(ContractError, match=said):
        checks_of(ExitStatus(None, command), ["x"], given)


@pytest.mark.parametrize(
    "stage",
    [Cases(command="python {file}"), Compile(flags="-Wall"), Lint(select="E9"), Suites(protected="tests/")],
)
def test_a_text_is_no_list_of_texts(stage):
    """Its characters are not what was meant, and patterns of one protect nothing."""
    fields = {"cases": [{"output": ""}], "files": {"test_a.py": "def test_a(): ..."}, "target": "a.py"}
    with pytest.raises(ContractError, match="put it into a list"):
        stage.verify(make_context(Task(id="t", input=fields)), Proposal.alternatives(["x = 1"]))


def test_a_stage_can_be_sent_to_another_process(box):
    """Executors pickle what they are given."""
    again = pickle.loads(pickle.dumps(ExitStatus(Sandbox("none"), GREP)))
    try:
        assert [check.verdict for check in checks_of(again, ["x", "y"])] == ["pass", "reject"]
    finally:
        again.close()


# --- what all running stages share


@pytest.mark.parametrize(
    ("ended", "verdict", "reason"),
    [
        (CommandExit(0), None, None),
        (CommandExit(1), None, None),
        (CommandExit(failure="no room"), "error", "sandbox"),
        (CommandExit(signal=9, limit="wall", seconds=10.0, cpu=9.0), "reject", "wall"),
        (CommandExit(signal=9, limit="wall", seconds=10.0, cpu=0.1), "reject", "wall"),  # it slept
        (CommandExit(signal=9, limit="wall", seconds=10.0, cpu=0.1, waited=9.0), "timeout", "wall"),
        (
            CommandExit(signal=9, limit="wall", seconds=10.0, cpu=19.0, waited=9.0),
            "reject",
            "wall",
        ),  # it is many
        (CommandExit(signal=9, limit="cpu", seconds=20.0, cpu=10.0, waited=15.0), "reject", "cpu"),
        (CommandExit(signal=9, limit="memory"), "reject", "memory"),
        (CommandExit(signal=25, limit="disk"), "reject", "disk"),
        (CommandExit(signal=9, limit="processes"), "reject", "processes"),
        (CommandExit(signal=11), "reject", "exit"),
    ],
)
def test_an_abnormal_end_has_one_meaning(ended, verdict, reason):
    """What used up its own limit has failed; what the sandbox or the machine did has not. Reasons are of the list."""
    check = abnormal(ended, Limits())
    if verdict is None:
        assert check is None
    else:
        assert (check.verdict, check.reason) == (verdict, reason)
        assert check.reason in REASONS
        assert check.feedback


@given(
    st.lists(st.sampled_from("prx"), max_size=12),
    st.one_of(st.none(), st.integers(1, 4)),
    st.integers(1, 5),
)
def test_a_block_with_enough_is_the_block_cut_after_the_pass(programs, enough, workers):
    """Whatever the number of workers; and none runs twice."""
    words = {"p": "pass", "r": "reject", "x": "error"}
    ran = []

    class Box:
        tier = "none"

    Box.at_once = workers

    def check(piece):
        ran.extend(piece)
        return [Check(words[each[0]]) for each in piece]

    # Some equal, some not.
    texts = [f"{letter}{place // 3}" for place, letter in enumerate(programs)]
    context = make_context(Task(id="t"), enough=enough)
    found = verified(context, Proposal.alternatives(texts), Box, "stage", "static", check)
    expected, passed = [], 0
    for text in texts:
        cut = enough is not None and passed >= enough
        expected.append("unchecked" if cut else words[text[0]])
        passed += expected[-1] == "pass"
    assert [check.verdict for check in found.checks] == expected
    assert all(check.stage == ("" if check.verdict == "unchecked" else "stage") for check in found.checks)
    assert len(ran) == len(set(ran))
    if enough is not None:
        assert (
            len(ran)
            <= len({text for text, word in zip(texts, expected, strict=True) if word != "unchecked"})
            + workers
        )


@given(st.text(max_size=300), st.integers(10, 200))
def test_feedback_keeps_both_ends(text, most):
    """And is no longer than asked."""
    short = capped(text, most)
    assert len(short) <= most
    assert short == text or (text.startswith(short[:1]) and text.endswith(short[-1:]) and "…" in short)


def test_imports_name_distributions():
    """Not the standard library, nor the files beside the tests, nor what is not installed."""
    sources = [
        "import os, numpy.linalg\nfrom ruamel.yaml import YAML",
        "import helper, no_such_module",
        "def (",
    ]
    assert imported(sources, ["tests/helper.py"]) == ("numpy", "ruamel.yaml")
    assert (
        lacking("ModuleNotFoundError: No module named 'numpy'") == "; add numpy to the sandbox's `packages`"
    )
    assert lacking("No module named 'no_such_module'") == "; no_such_module is not installed"
    denied = "PermissionError: [Errno 13] Permission denied: '/x/site-packages/numpy/__init__.py'"
    assert lacking(denied) == "; add numpy to the sandbox's `packages`"
    assert lacking("1 != 2") == ""


def test_the_stage_conforms(box):
    """The kit's contract."""
    blocks = lambda context: [Proposal.alternatives(["x", "y"]), Proposal.alternatives([])]
    check_component(Subject(ExitStatus(box, GREP), tasks=[Task(id="t")], proposals=blocks))
