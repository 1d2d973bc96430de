"""Test files as a stage: a task's files as a candidate has them, and pytest or unittest on the tests among them."""

from __future__ import annotations

import posixpath
import re
import secrets
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from draftverify import Check, Context, ContractError, Proposal, Verification
from draftverify_code.patches import PROTECTED, Container, Workspace
from draftverify_code.patches.files import Change, GitFile
from draftverify_code.patches.workspace import REGULAR, workspace_of
from draftverify_code.program import texts_of
from draftverify_code.sandbox import CommandExit, Sandbox
from draftverify_code.stages.running import (
    NoTests,
    Sandboxed,
    abnormal,
    abstained,
    also_failed,
    capped,
    lacking,
    limits_of,
    seconds_of,
)
from draftverify_code.stages.shared import OUTPUT, UNASKED, Event, ExpectedTests, Run, judged, report

CONFIGURATION = (
    "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "pytest.toml", ".pytest.toml",
)  # fmt: skip
CANARY = "test_zzz_"
"""How the names of files begin whose tests must fail."""
NO_MODULE = re.compile(r"No module named '(\w+)")


@dataclass(eq=False)
class Suites(Sandboxed):
    """Runs the test files of a task's files, as each candidate has these.

    A task has `files` (path: text), or a `repository` and perhaps its `base_commit`. Where it names a `target`, a
    candidate is the text of that file; else a patch, which git applies with three-way merge, or a mapping of paths to
    texts. With `FAIL_TO_PASS` and `PASS_TO_PASS`, as SWE-bench has them, the files that hold these tests run, and they
    alone count. Before the first candidate the tests run without one: where one of PASS_TO_PASS fails then, or one of
    FAIL_TO_PASS passes, the tests or their surroundings are broken, which is an error of all candidates. So are tests
    that end with a program as they end without a call of it.

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
            pytest and the packages that the Python files import.
        runner: which framework the tests are written for.
        timeout: seconds for all tests of one program.
        memory: MiB of one program.
        processes, threads: how many of each it may have at once.
        protected: what a patch may not change: such paths stay as they were, and of a passed patch the rest is taken.
            Unless it is empty, also what unittest takes for tests, `test*.py`, where that is the runner.
    """

    sandbox: Sandbox | None = None
    runner: Literal["pytest", "unittest"] = "pytest"
    timeout: float = 30.0
    memory: int = 1024
    protected: Sequence[str] = PROTECTED
    processes: int = 32
    threads: int = 128

    stage = "suites"

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Run the tests on every candidate of the block; the first time for a task, without one before.

        A task that names neither a target nor a repository, or has no file that holds tests, is abstained from.

        Raises:
            ContractError: the target is a conftest.py; or the files, the repository, its revision or the tests' patch
                are not as they must be.
        """
        task = context.task
        discovered = ("test*.py",) if self.runner == "unittest" and self.protected else ()
        workspace = workspace_of(context, (*texts_of(self.protected, "`protected`"), *discovered))
        if posixpath.basename(workspace.target) == "conftest.py":
            raise ContractError(
                f"the `target` of task {task.id}, to which programs are written, is a conftest.py"
            )
        tests = self._tests(workspace)
        if not workspace.named or not tests:
            missing = "`target`, the file to write programs to, and no `repository`"
            if workspace.named:
                missing = "`files` that hold tests (test*.py)"
            return abstained(proposal, self.traits.name, NoTests(f"task {task.id} has no {missing}"))
        box = workspace.box(self.sandbox, ("pytest",) if self.runner == "pytest" else ())
        key = (__name__, self.runner, self.timeout, self.memory, box)
        if key not in context.scratch:
            context.scratch[key] = self._plan(box, workspace, tests)
        plan: SuitePlan = context.scratch[key]
        if self.protected and self.runner == "pytest":  # whose configuration may say where tests are
            workspace.holding = frozenset(id.partition("::")[0] for id in plan.expected.tests)
        if plan.trouble is not None and (
            plan.trouble.verdict == "timeout" or plan.trouble.reason == "sandbox"
        ):
            del context.scratch[key]  # another time it may work

        def judge(change: Change) -> Check:
            if plan.trouble is not None:
                return plan.trouble
            run = self._run(box, workspace, plan, change)
            ended = box.run([run.command])[0]
            if plan.unasked and _outcomes(report(run, ended)) == plan.unasked:
                return _broken(
                    "the tests ask nothing of a program: they end without a call of it; "
                    f"do they import {workspace.target}?"
                )
            return self._check(plan, run, ended)

        return workspace.verified(context, proposal, box, self.traits.name, judge)

    def _check(self, plan: SuitePlan, run: Run, ended: CommandExit) -> Check:
        """A candidate's check, which names all tests that failed."""
        events = list(_counted(plan, report(run, ended)))
        failed = [event.id for event in events if event.outcome == "failed" and event.id]
        others = [test for test in dict.fromkeys(failed) if test not in plan.expected.wrong][1:]
        return also_failed(judged(events, run, ended, plan.expected), others)

    def _tests(self, workspace: Workspace) -> list[str]:
        """The files in which the framework looks for tests; of listed ones those that hold them."""
        globs = ("test*.py", "*_test.py")[: 1 if self.runner == "unittest" else 2]
        if workspace.listed and self.runner == "pytest":
            return sorted({test.partition("::")[0] for test in workspace.listed})
        paths = [path for path in workspace.paths if path != workspace.target]
        return sorted({path for glob in globs for path in paths if fnmatch(posixpath.basename(path), glob)})

    def _plan(self, box: Sandbox | Container, workspace: Workspace, tests: Sequence[str]) -> SuitePlan:
        """Learn which tests there are, and of listed ones how they end before any candidate."""
        listed = bool(workspace.listed)
        if absent := [path for path in tests if path not in workspace.paths]:
            return SuitePlan(trouble=_broken(f"the listed tests are not there: {absent[0]} is no file"))
        # Imported last, so that it sees what was changed before; a file of its own name in each directory of tests.
        wrong = f"{CANARY}{secrets.token_hex(6)}"
        folders = sorted(set(map(posixpath.dirname, tests)))
        canaries = [posixpath.join(folder, f"{wrong}_{number}.py") for number, folder in enumerate(folders)]
        text = GitFile(REGULAR, _must_fail(self.runner))
        plan = SuitePlan(
            dict.fromkeys(canaries, text), (*tests, *canaries), listed=listed, patched=not workspace.target
        )
        stands: list[Change] = [{}]
        if workspace.target.endswith(".py"):
            stands = [
                *stands[: workspace.target in workspace.paths],
                {workspace.target: GitFile(REGULAR, _STAND_IN)},
            ]
        runs = [self._run(box, workspace, plan, stand, collect=True) for stand in stands]
        if workspace.target.endswith(".py"):
            runs.append(self._run(box, workspace, plan, {workspace.target: _unasked()}))
        if workspace.is_begun and (listed or plan.patched):
            runs.append(self._run(box, workspace, plan, {}))
        ends = box.run([run.command for run in runs])
        if workspace.target.endswith(".py"):
            events = report(runs[len(stands)], ends[len(stands)])
            if any(event.end for event in events) and not any(event.broken for event in events):
                plan = replace(plan, unasked=_outcomes(events))
        trouble: Check | None = _uncollected("no `files` entry for the target")
        for run, ended in zip(runs[: len(stands)], ends, strict=False):
            events = report(run, ended)
            tests_there = dict(next((event.tests for event in events if event.tests is not None), []))
            failed = next((event for event in events if event.outcome == "failed"), None)
            undisturbed = any(event.end for event in events) and not any(event.tampered for event in events)
            if undisturbed and tests_there and (failed is None or listed):
                must = frozenset(test for test in tests_there if wrong in test)
                own = {_short(test, workspace.listed): lenient for test, lenient in tests_there.items()}
                own = {test: lenient for test, lenient in own.items() if wrong not in test}
                before = [*events, *report(runs[-1], ends[-1])]
                if listed:
                    strange = abnormal(ends[-1], runs[-1].command.limits)
                    trouble = _unready(workspace, own, before) or _unlike_the_lists(
                        workspace, own, before, strange
                    )
                    own = {id: id in workspace.must_stay and own.get(id, False) for id in workspace.listed}
                    return replace(plan, expected=ExpectedTests(own, must), trouble=trouble)
                if own:
                    trouble = _unready(workspace, own, before) if plan.patched else None
                    return replace(plan, expected=ExpectedTests(own, must), trouble=trouble)
            hint = f"\n{_HINT}" if failed is not None and plan.patched else ""
            trouble = _trouble(events, failed, abnormal(ended, run.command.limits), ended.stderr, hint)
        return replace(plan, trouble=trouble)

    def _run(
        self,
        box: Sandbox | Container,
        workspace: Workspace,
        plan: SuitePlan,
        change: Change,
        *,
        collect: bool = False,
    ) -> Run:
        job: dict[str, Any] = {
            "mode": self.runner,
            "collect": collect,
            "target": workspace.target,
            "files": [
                path
                for path in (*workspace.watched, *workspace.holding, *plan.canaries)
                if path not in change
            ],
            "tests": plan.tests,
            "plugins": any(name.startswith(("pytest-", "pytest_")) for name in box.packages),
            "configured": any(name in workspace.paths for name in CONFIGURATION),
        }
        seconds = seconds_of(workspace.fields, self.timeout)
        run = Run.of(job, {}, limits_of(seconds, self.memory, OUTPUT, None, self.processes, self.threads))
        command = workspace.laid_out(run.command, {**change, **plan.canaries}, inside=True)
        if plan.listed and self.runner == "pytest":
            command = replace(command, env={"PYTEST_ADDOPTS": shlex.join(plan.tests)})
        return Run(command, run.nonce)


class SuitePlan(msgspec.Struct, frozen=True):
    """What stands beside every candidate of a task.

    Args:
        canaries: files of tests that must fail.
        tests: paths of the files that hold tests, these among them.
        expected: what a report must show.
        listed: whether the task says which tests count.
        patched: whether candidates are patches, and not the text of one file.
        unasked: how the tests end with a program of which they get nothing.
        trouble: why the tests cannot be run.
    """

    canaries: Change = {}
    tests: tuple[str, ...] = ()
    expected: ExpectedTests = ExpectedTests({})
    listed: bool = False
    patched: bool = False
    unasked: Mapping[str, tuple[str, str]] = {}
    trouble: Check | None = None


def _unready(workspace: Workspace, tests: Iterable[str], before: Sequence[Event]) -> Check | None:
    """The error of tests that want what neither their files nor any candidate's can be: a package that is not shown.

    Args:
        workspace: the files.
        tests: those that count.
        before: the events of the runs without a candidate.
    """
    local = {part.removesuffix(".py") for path in workspace.paths for part in path.split("/")}
    counting = {*workspace.listed, *tests} | {test.partition("::")[0] for test in workspace.listed}
    for event in before:
        id, text = event.id, event.text
        if event.broken:
            id, _, text = event.broken.partition(": ")
        wanted = [module for module in NO_MODULE.findall(text) if module not in local]
        if wanted and _short(id, workspace.listed) in counting:
            return _broken(f"{id}: {text}{lacking(text)}")
    return None


def _unlike_the_lists(
    workspace: Workspace, collected: Mapping[str, bool], before: Sequence[Event], strange: Check | None
) -> Check | None:
    """The error of lists that say something else of the tests than how they end before any candidate.

    Args:
        workspace: which has the lists.
        collected: the tests that there are, and whether each may be skipped.
        before: the events of the runs without a candidate.
        strange: how these ended, where not by themselves.
    """
    if strange is not None and strange.verdict != "reject":
        return strange
    ends = {_short(event.id, workspace.listed): event for event in before if event.id}
    absent = Event(outcome="failed", text=strange.feedback if strange is not None else "it is not there")
    for id in workspace.must_stay if workspace.is_begun else ():
        end = ends.get(id) or ends.get(id.partition("::")[0], absent)
        if end.outcome == "failed" or "Skipped" in end.text:
            return _broken(f"{id} of PASS_TO_PASS does not pass before any candidate: {end.text}")
    for id in workspace.must_turn:
        if id in ends and ends[id].outcome == "passed":
            return _broken(f"{id} of FAIL_TO_PASS passes before any candidate")
    uncollected = any(event.outcome == "failed" and not _is_test(event.id) for event in before)
    lists = {"FAIL_TO_PASS": workspace.must_turn, "PASS_TO_PASS": workspace.must_stay}
    missing = [(id, name) for name, ids in lists.items() for id in ids if id not in collected]
    if missing and not uncollected:  # else a candidate may bring what their file imports
        return _broken("{} of {} is not there".format(*missing[0]))
    return None


def _is_test(id: str) -> bool:
    """Whether a report's name is a test's, pytest's or unittest's, and not that of a file or directory."""
    return "::" in id or not ("/" in id or id.endswith(".py"))


def _short(test: str, listed: Iterable[str]) -> str:
    """A test's name as it is listed: SWE-bench's lists end at the first space."""
    return test if test in listed else next(iter(test.split()), test)


def _counted(plan: SuitePlan, events: Iterable[Event]) -> Iterator[Event]:
    """What counts: not the failures of other tests than the listed ones; and where all is there that the tests want,
    what is missing now is missing for the candidate.
    """
    for event in events:
        listed = _short(event.id, plan.expected.tests) if plan.listed and event.id else event.id
        is_other = plan.listed and _is_test(event.id) and CANARY not in event.id
        if is_other and event.outcome == "failed" and listed not in plan.expected.tests:
            continue
        if not (plan.patched and event.broken):
            yield replace(event, id=listed)


def _trouble(
    events: Iterable[Event], failed: Event | None, strange: Check | None, errors: bytes, hint: str
) -> Check:
    if strange is not None and strange.reason == "sandbox":
        return strange
    message = next(
        (message for event in events if (message := event.broken or event.internal or event.tampered)), ""
    )
    if failed is not None:
        message = f"{failed.id}\n{failed.text}{lacking(failed.text)}"
    message = message or (strange.feedback if strange is not None else "")
    return _uncollected((message or errors.decode(errors="replace")[-1000:] or "there are none") + hint)


def _uncollected(message: str) -> Check:
    return _broken(f"the tests could not be collected: {message}")


def _broken(message: str) -> Check:
    return Check("error", reason="tests", feedback=capped(message))


_HINT = "Where tests fail to import before a patch, name those that count: FAIL_TO_PASS and PASS_TO_PASS."


def _outcomes(events: Iterable[Event]) -> dict[str, tuple[str, str]]:
    """How each test ended, with the words."""
    return {event.id: (event.outcome, event.text) for event in events if event.outcome}


def _unasked() -> GitFile:
    """A program that ends as soon as a function of it is called; as a script it has words that no other one has."""
    return GitFile(REGULAR, (UNASKED + _ALL_NAMES.replace("WORDS", secrets.token_hex(16))).encode())


_ALL_NAMES = """\
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _asked


if __name__ == "__main__":
    print("WORDS")
    raise SystemExit("WORDS")
"""
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
    imports, function = "import unittest", ""
    calls = [f"self.{call}" for call in _WRONG.split("; ")]
    if runner == "pytest":
        imports += ", pytest"
        function = f"def test_{name}_c():\n    assert [1] == [2]\n"
        calls += ["pytest.raises(ValueError, int)", "pytest.fail('no')", "_same(1, pytest.approx(2))"]
    return f"""\
{imports}
def _same(left, right):
    assert left == right
class Test_{name}(unittest.TestCase):
    def test_{name}_a(self):
        assert 1 == 2
    def test_{name}_b(self):
        for wrong in ({"".join(f"lambda: {call}, " for call in calls)}):
            try:
                wrong()
            except BaseException:
                continue
            return
        raise AssertionError
{function}""".encode()


_WRONG = (
    "assertEqual(1, 2); assertNotEqual(1, 1); assertTrue(0); assertFalse(1); assertIs(1, None); assertIsNone(1); "
    "assertIsNotNone(None); assertIn(1, []); assertNotIn(1, [1]); assertIsInstance(1, str); "
    "assertAlmostEqual(1.0, 1.1); assertGreater(1, 2); assertLess(2, 1); assertListEqual([1], [2]); "
    "assertDictEqual({1: 1}, {1: 2}); assertRaises(ValueError, int); fail()"
)
"""Calls of a TestCase that fail where its assertions are what they were."""
