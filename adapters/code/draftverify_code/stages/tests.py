"""The tests of a task as a stage: a check function, a script, asserts or examples, on the whole block at once."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Sequence
from doctest import SKIP, DocTestParser
from typing import Literal

import msgspec

from draftverify import Check, Context, ContractError, Proposal, Task, Verification
from draftverify_code.program import program_of
from draftverify_code.sandbox import Sandbox, Suite
from draftverify_code.stages.running import (
    NoTests,
    Sandboxed,
    abstained,
    imported,
    lacking,
    limits_of,
    reported,
    sandbox_for,
    seconds_of,
    verified,
)
from draftverify_code.stages.shared import OUTPUT, Expected, Run, judged

__all__ = ["Tests"]

_BUILTINS = frozenset(dir(builtins))


class Tests(Sandboxed):
    """Runs a task's tests on Python programs.

    Which tests: with `doctest`, the examples of the prompt; else the task's `test` (a script, or what defines
    `check(candidate)`), its `test_list` (asserts), or the examples of its prompt where it says `doctest: true`.

    With integrity "separate-process" the assertions run in a process where no program ever runs: what it is called
    with and what it returns cross as plain values. With "shared-process" the program runs beside its tests, for
    values that cannot cross; a program can then fool its tests (an object that equals everything does), and the
    record says so.

    Args:
        sandbox: where programs run; a shared one with the strongest isolation of this machine when None.
        timeout: seconds for all tests of one program together; a task's own `timeout` goes before it.
        memory: MiB of one program.
        integrity: where the assertions run.
        doctest: judge by the prompt's examples; tasks whose prompt has none that can be read are abstained from.
    """

    reads: frozenset[str] = frozenset()
    __test__ = False  # pytest takes a class of this name for a test
    name = "tests"
    provides = frozenset({"verdicts", "scores"})
    packages: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        timeout: float = 3.0,
        memory: int = 1024,
        integrity: Literal["separate-process", "shared-process"] = "separate-process",
        doctest: bool = False,
    ) -> None:
        self.sandbox = sandbox
        self.timeout = timeout
        self.memory = memory
        self.integrity = integrity
        self.doctest = doctest

    def suite(self, task: Task) -> Suite:
        """The task's tests.

        Raises:
            NoTests: it has none.
            ContractError: they do not parse, or a check function has no entry point.
        """
        given = task.input
        entry = str(given.get("entry_point") or "")
        setup = str(given.get("setup") or "")
        if self.doctest or (given.get("doctest") and not given.get("test") and not given.get("test_list")):
            source = examples(str(given.get("prompt") or ""))
            if not source:
                raise NoTests(f"the prompt of task {task.id} has no examples (>>>) to test by")
            return Suite(
                "doctest", _entry_points(entry, _examples_in(source), setup, task), source, setup=setup
            )
        if given.get("test"):
            source = str(given["test"])
            if re.search(r"^def check\s*\(", source, re.MULTILINE):
                if not entry:
                    raise ContractError(
                        f"the tests of task {task.id} define check(candidate), and `entry_point` does not say "
                        "which function is the candidate"
                    )
                return Suite("check", (entry,), source, setup=setup)
            return Suite("script", _entry_points(entry, [source], setup, task), source, setup=setup)
        if given.get("test_list"):
            asserts = tuple(map(str, given["test_list"]))
            return Suite("asserts", _entry_points(entry, asserts, setup, task), asserts=asserts, setup=setup)
        raise NoTests(f"task {task.id} has no tests: `test`, `test_list` or `doctest: true` is needed")

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Run the tests on the whole block in one pass; a task that has none is abstained from.

        Raises:
            ContractError: the tests cannot be read (with `doctest` the stage abstains), or an item is no program.
        """
        try:
            suite = self.suite(context.task)
        except ContractError as error:
            # Prompts are written for models: some have examples that no Python reads.
            if not self.doctest and not isinstance(error, NoTests):
                raise
            return abstained(proposal, self.name, error)
        seconds = seconds_of(context.task.input, self.timeout)
        if self.integrity == "shared-process":
            box = sandbox_for(self.sandbox, imported((suite.setup, suite.source)))
            beside = lambda programs: self._beside(box, suite, programs, seconds)
            return verified(context, proposal, box, self.name, self.integrity, beside)
        box = sandbox_for(self.sandbox)
        programs = [program_of(item) for item in proposal.items]
        findings = box.judge(suite, programs, limits_of(seconds, self.memory), enough=context.enough)
        checks = [_advised(finding.check) for finding in findings]
        notes = {"isolation": box.tier, "integrity": self.integrity}
        return Verification(checks=reported(checks, context.enough, self.name), notes=notes)

    def _beside(self, box: Sandbox, suite: Suite, programs: Sequence[str], seconds: float) -> list[Check]:
        limits = limits_of(seconds, self.memory, OUTPUT)
        whole = msgspec.to_builtins(suite)
        runs = [
            Run.of({"mode": "suite", "target": "", "suite": whole, "program": each}, {}, limits)
            for each in programs
        ]
        count = {"asserts": len(suite.asserts), "doctest": len(_examples_in(suite.source))}.get(suite.kind, 1)
        expected = Expected({str(number): False for number in range(count)})
        ends = box.run([run.command for run in runs])
        return [judged(run, ended, expected) for run, ended in zip(runs, ends, strict=True)]


def examples(prompt: str) -> str:
    """The text in which a prompt's examples stand: its docstrings where it is Python, else all of it."""
    if ">>>" not in prompt:
        return ""
    try:
        tree = ast.parse(prompt)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # In words, then: a fence that closes a code block is no part of what an example prints.
        return re.sub(r"^\s*(```|\"\"\"|''').*$", "", prompt, flags=re.MULTILINE)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    return "\n\n".join(text for text in found if ">>>" in text)


def _examples_in(source: str) -> list[str]:
    try:
        found = DocTestParser().get_examples(source)
        return [example.source for example in found if SKIP not in example.options]
    except ValueError as error:
        raise ContractError(f"the prompt's examples cannot be read: {error}") from error


def _advised(check: Check) -> Check:
    if check.verdict == "error" and check.reason == "tests":
        return msgspec.structs.replace(check, feedback=check.feedback + lacking(check.feedback))
    return check


def _parsed(source: str, task: Task) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ContractError(f"the tests of task {task.id} do not parse: {error}") from error


def _entry_points(entry: str, sources: Iterable[str], setup: str, task: Task) -> tuple[str, ...]:
    """The named one, or what the tests call that neither they, nor the setup, nor Python defines."""
    if entry:
        return (entry,)
    called: dict[str, None] = {}
    bound = set(_BUILTINS)
    for source in (setup, *sources):
        for node in ast.walk(_parsed(source, task)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called[node.func.id] = None
            bound |= _bound(node)
    found = tuple(name for name in called if name not in bound)
    if not found:
        raise ContractError(
            f"the tests of task {task.id} call no function of the program; name it in `entry_point`"
        )
    return found


def _bound(node: ast.AST) -> set[str]:
    """Names that a piece of Python gives a value."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, ast.ExceptHandler) and node.name:
        return {node.name}
    return set()
