"""Test files as a stage: a directory, the file that programs are written to, and pytest or unittest on the rest."""

from __future__ import annotations

import posixpath
import secrets
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from functools import cached_property
from typing import Any, Literal

import msgspec

from draftverify import Check, Context, ContractError, Proposal, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages.command import files_of
from draftverify_code.stages.running import (
    NoTests,
    Sandboxed,
    abnormal,
    abstained,
    imported,
    lacking,
    limits_of,
    sandbox_for,
    verified,
)
from draftverify_code.stages.shared import OUTPUT, Event, ExpectedTests, Run, judged, report

__all__ = ["Suites"]

CONFIGURATION = (
    "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "pytest.toml", ".pytest.toml",
)  # fmt: skip


class Suites(Sandboxed):
    """Writes each program to the task's `target` among its `files` and runs the test files beside it.

    Program and tests share a process here, as pytest and unittest have it, so the record says `integrity:
    shared-process`. What is done about it: which tests there are is learned before, from a run that collects them
    with the target as the files have it (or with a stand-in for it, where that does not import), and each of them
    must report; the report is written by another process than the program's, behind a nonce, and an exit status means
    nothing; given files and test functions that changed, and tests made to fail that do not, are rejections; a
    skipped test counts only where the test itself speaks of skipping. What remains: a program made to find its way in
    the memory of its own process can forge results, and an object that equals everything passes an assertEqual. Tests
    that are to hold against such programs belong into `Tests` or `Cases`. The collected tests must not depend on the
    program's values.

    Args:
        sandbox: where they run; when None, a shared one with the strongest isolation of this machine that shows
            pytest and the packages that the test files import.
        runner: which framework the tests are written for.
        timeout: seconds for all tests of one program.
        memory: MiB of one program.
    """

    @cached_property
    def traits(self) -> VerifierTraits:
        """Verdicts, with the share of passed tests as the score."""
        return VerifierTraits(
            name="suites", provides={"verdicts", "scores"}, reads=frozenset(), at_once=self.at_once
        )

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        runner: Literal["pytest", "unittest"] = "pytest",
        timeout: float = 30.0,
        memory: int = 1024,
    ) -> None:
        self.sandbox = sandbox
        self.runner = runner
        self.timeout = timeout
        self.memory = memory

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Run the tests on every program of the block; the first time for a task, collect them before.

        A task that names no target, or has no file that holds tests, is abstained from.

        Raises:
            ContractError: the target is a conftest.py, or the files are no mapping of paths to texts.
        """
        task = context.task
        target = posixpath.normpath(str(task.input.get("target") or ""))
        files = files_of(task)
        if posixpath.basename(target) == "conftest.py":
            raise ContractError(
                f"the `target` of task {task.id}, to which programs are written, is a conftest.py"
            )
        tests = self._tests(path for path in files if path != target)
        if target == "." or not tests:
            missing = "`target`, the file to write programs to"
            if target != ".":
                missing = "`files` that hold tests (test*.py)"
            return abstained(proposal, self.traits.name, NoTests(f"task {task.id} has no {missing}"))
        sources = [
            text.decode(errors="replace")
            for path, text in files.items()
            if path.endswith(".py") and path != target
        ]
        framework = ("pytest",) if self.runner == "pytest" else ()
        box = sandbox_for(self.sandbox, (*framework, *imported(sources, files)))
        key = (__name__, self.runner)
        if key not in context.scratch:
            context.scratch[key] = self._plan(box, files, target, tests)
        plan: SuitePlan = context.scratch[key]
        if plan.trouble is not None:
            if plan.trouble.reason == "sandbox":
                del context.scratch[key]  # another time it may work
            check = lambda programs: [plan.trouble] * len(programs)
        else:
            check = lambda programs: self._check(box, plan, programs)
        return verified(context, proposal, box, self.traits.name, "shared-process", check)

    def _check(self, box: Sandbox, plan: SuitePlan, programs: Sequence[str]) -> list[Check]:
        runs = [self._run(box, plan, program.encode(errors="replace"), collect=False) for program in programs]
        ends = box.run([run.command for run in runs])
        return [judged(run, ended, plan.expected) for run, ended in zip(runs, ends, strict=True)]

    def _tests(self, paths: Iterable[str]) -> list[str]:
        """Those of some files in which the framework looks for tests."""
        pattern = ("test*.py", "*_test.py")[: 1 if self.runner == "unittest" else 2]
        return [path for path in paths if any(fnmatch(posixpath.basename(path), glob) for glob in pattern)]

    def _plan(self, box: Sandbox, files: dict[str, bytes], target: str, tests: Sequence[str]) -> SuitePlan:
        """Learn which tests there are."""
        original = files.get(target)
        files = {path: text for path, text in files.items() if path != target}
        # Imported last, so that it sees what was changed before; a file of its own name in each directory of tests.
        wrong = f"test_zzz_{secrets.token_hex(6)}"
        folders = sorted(set(map(posixpath.dirname, tests)))
        canaries = [posixpath.join(folder, f"{wrong}_{number}.py") for number, folder in enumerate(folders)]
        files |= dict.fromkeys(canaries, _must_fail(self.runner))
        plan = SuitePlan(files, target, (*sorted(tests), *canaries), ExpectedTests({}))
        stands = [_STAND_IN] if target.endswith(".py") else []
        stands[:0] = [original] if original is not None else []
        runs = [self._run(box, plan, text, collect=True) for text in stands]
        trouble = _uncollected("no `files` entry for the target")
        for run, ended in zip(runs, box.run([run.command for run in runs]), strict=True):
            events = report(run, ended)
            listed = next((event.tests for event in events if event.tests is not None), [])
            failed = next((event for event in events if event.outcome == "failed"), None)
            found_tests = {test: lenient for test, lenient in listed if wrong not in test}
            undisturbed = any(event.end for event in events) and not any(event.tampered for event in events)
            if found_tests and failed is None and undisturbed:
                must = frozenset(test for test, _ in listed if wrong in test)
                return msgspec.structs.replace(plan, expected=ExpectedTests(found_tests, must))
            trouble = _trouble(events, failed, abnormal(ended, run.command.limits), ended.stderr)
        return msgspec.structs.replace(plan, trouble=trouble)

    def _run(self, box: Sandbox, plan: SuitePlan, program: bytes, *, collect: bool) -> Run:
        plugins = any(name.startswith(("pytest-", "pytest_")) for name in box.packages)
        job: dict[str, Any] = {
            "mode": self.runner,
            "collect": collect,
            "target": plan.target,
            "files": list(plan.files),
            "tests": plan.tests,
            "plugins": plugins,
            "configured": any(name in plan.files for name in CONFIGURATION),
        }
        limits = limits_of(self.timeout, self.memory, OUTPUT)
        return Run.of(job, {**plan.files, plan.target: program}, limits)


class SuitePlan(msgspec.Struct, frozen=True):
    """What stands beside every program of a task.

    Args:
        files: all but the target, tests that must fail among them.
        target: where the program is written.
        tests: paths of the files that hold tests.
        expected: what a report must show.
        trouble: why the tests cannot be run.
    """

    files: dict[str, bytes]
    target: str
    tests: tuple[str, ...]
    expected: ExpectedTests
    trouble: Check | None = None


def _trouble(events: Iterable[Event], failed: Event | None, strange: Check | None, errors: bytes) -> Check:
    if strange is not None and strange.reason == "sandbox":
        return strange
    message = next(
        (message for event in events if (message := event.broken or event.internal or event.tampered)), ""
    )
    if failed is not None:
        message = f"{failed.id}\n{failed.text}{lacking(failed.text)}"
    message = (
        message
        or (strange.feedback if strange is not None else "")
        or errors.decode(errors="replace")[-1000:]
    )
    return _uncollected(message or "there are none")


def _uncollected(message: str) -> Check:
    return Check("error", reason="tests", feedback=f"the tests could not be collected: {message}")


_STAND_IN = b"""\
from unittest.mock import MagicMock


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return MagicMock(name=name)
"""


def _must_fail(runner: str) -> bytes:
    """Tests that fail wherever the framework and its assertions are what they were."""
    name = secrets.token_hex(4)
    function_text = ""
    wrong = """\
            lambda: self.assertEqual(1, 2),
            lambda: self.assertNotEqual(1, 1),
            lambda: self.assertTrue(0),
            lambda: self.assertFalse(1),
            lambda: self.assertIs(1, None),
            lambda: self.assertIsNone(1),
            lambda: self.assertIsNotNone(None),
            lambda: self.assertIn(1, []),
            lambda: self.assertNotIn(1, [1]),
            lambda: self.assertIsInstance(1, str),
            lambda: self.assertAlmostEqual(1.0, 1.1),
            lambda: self.assertGreater(1, 2),
            lambda: self.assertLess(2, 1),
            lambda: self.assertListEqual([1], [2]),
            lambda: self.assertDictEqual({1: 1}, {1: 2}),
            lambda: self.assertRaises(ValueError, int),
            lambda: self.fail(),
"""
    head = "import unittest\n"
    if runner == "pytest":
        head += "import pytest\n"
        function_text = f"\n\ndef test_{name}_c():\n    assert [1] == [2]\n"
        wrong += """\
            lambda: pytest.raises(ValueError, int),
            lambda: pytest.fail("no"),
            lambda: _same(1, pytest.approx(2)),
"""
    return f"""\
{head}

def _same(left, right):
    assert left == right


class Test_{name}(unittest.TestCase):
    def test_{name}_a(self):
        assert 1 == 2

    def test_{name}_b(self):
        for wrong in (
{wrong}        ):
            try:
                wrong()
            except BaseException:
                continue
            return
        raise AssertionError
{function_text}""".encode()
