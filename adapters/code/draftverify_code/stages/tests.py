"""The tests of a task as a stage: a check function, a script, asserts or examples, on the whole block at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from doctest import SKIP, DocTestParser
from typing import Any, Literal

from msgspec.structs import replace

from draftverify import Check, ConfigError, Context, ContractError, Proposal, Task, Verification
from draftverify_code.names import BUILTINS, bound
from draftverify_code.program import in_python, program_of, texts_of
from draftverify_code.sandbox import Sandbox, Suite, SuiteFinding
from draftverify_code.stages.running import (
    SHARED,
    NoTests,
    Sandboxed,
    abstained,
    also_failed,
    imported,
    lacking,
    limits_of,
    numpy_for,
    sandbox_for,
    seconds_of,
    verified,
)
from draftverify_code.stages.shared import Beside
from draftverify_code.stages.suites import Suites
from draftverify_code.stages.test_files import framework_of, with_test_file

_INTEGRITIES = ("auto", "separate-process", "shared-process")


@dataclass(eq=False)
class Tests(Sandboxed):
    """Runs a task's tests on Python programs.

    Which tests: with `doctest`, the examples of the prompt; else the task's `test` (a script, what defines
    `check(candidate)`, or classes and functions of unittest and pytest, which `Suites` runs), its `test_list`
    (asserts), or the examples of its prompt where it says `doctest: true`.

    With integrity "separate-process" the assertions run in a process where no program ever runs: what it is called
    with and what it returns cross as plain values (None, bool, int, float, complex, str, bytes, and lists, tuples,
    dicts, sets and frozensets of them). Tests that need more of a program, and a program that changes what its tests
    could see, are an error with the reason "needs shared-process". With "shared-process" the program runs in one
    process with its tests, as plain Python has it; one made for it can then fool its tests, so the check carries the
    caveat "shared-process". "auto" judges apart, and what ends in that error once more in one process, with the same
    time limit anew.

    A program that uses up its time, its processor time or its memory has failed, for the reason "wall", "cpu" or
    "memory". While the machine keeps it from the processor, its clock stands still. Where the tests took the time, or
    the machine very much of it, nothing is known of the program: a timeout. Nor is it where the sandbox refused the
    program something: the error "refused" names it.

    Args:
        sandbox: where programs run; a shared one with the strongest isolation of this machine when None, which shows
            the packages that the tests import, and numpy where a program does.
        timeout: seconds for all tests of one program together; a task's own `timeout` goes before it.
        memory: MiB of one program.
        processes, threads: how many of each a program may have at once.
        integrity: where the assertions run. The verification's `notes` say where they did: "mixed" where some programs
            of a block were judged so and some so.
        doctest: judge by the prompt's examples; tasks whose prompt has none that can be read are abstained from.

    Raises:
        ConfigError: the integrity is no known word, or a limit is none.
    """

    sandbox: Sandbox | None = None
    timeout: float = 3.0
    memory: int = 1024
    integrity: Literal["auto", "separate-process", "shared-process"] = "auto"
    doctest: bool = False
    processes: int = 32
    threads: int = 128

    stage = "tests"

    __test__ = False  # pytest takes a class of this name for a test

    def __post_init__(self) -> None:
        limits_of(self.timeout, self.memory, processes=self.processes, threads=self.threads)
        if self.integrity not in _INTEGRITIES:
            message = f"{self.integrity!r} is no integrity; one of {', '.join(_INTEGRITIES)} is"
            raise ConfigError(message, path="integrity")

    def suite(self, task: Task) -> Suite:
        """The task's tests; see `suite_of`."""
        return suite_of(task.input, f"task {task.id}", doctest=self.doctest)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Run the tests on the whole block in one pass; a task that has none is abstained from.

        Raises:
            ContractError: the tests cannot be read (with `doctest` the stage abstains), or an item is no program.
        """
        fields = context.task.input
        framework = "" if self.doctest else framework_of(str(fields.get("test") or ""))
        if framework:
            return self._verify_file(context, proposal, framework)
        try:
            suite = self.suite(context.task)
        except ContractError as error:
            # Prompts are written for models: some have examples that no Python reads.
            if not self.doctest and not isinstance(error, NoTests):
                raise
            return abstained(proposal, self.traits.name, error)
        programs = [program_of(item, fields) for item in proposal.items]
        seconds = seconds_of(fields, self.timeout)

        def check(piece: Sequence[str]) -> list[Check]:
            return [_naming(suite, finding) for finding in self.findings(box, suite, piece, seconds=seconds)]

        box = self._box((suite.setup, suite.source, *suite.asserts), programs)
        return verified(context, proposal, box, self.traits.name, self.integrity, check)

    def _verify_file(
        self, context: Context, proposal: Proposal, framework: Literal["pytest", "unittest"]
    ) -> Verification:
        """Run the tests of a framework, in one process with each program, as the framework has it."""
        name, task = self.traits.name, with_test_file(context.task)
        if self.integrity == "separate-process":
            message = f"{framework} runs tests in one process with the program: `integrity: shared-process`"
            check = Check("error", reason="needs shared-process", feedback=message, stage=name)
            return Verification(checks=(check,) * len(proposal))
        programs = [program_of(item, task.input) for item in proposal.items]
        texts = (*task.input["files"].values(), str(task.input.get("prologue") or ""))
        box = self._box(texts, programs, {framework} - {"unittest"})
        suites = Suites(
            box, framework, self.timeout, self.memory, processes=self.processes, threads=self.threads
        )
        # Another stage may have other files of the same task.
        scratch = context.scratch.setdefault((Tests, framework), {})
        verification = suites.verify(replace(context, task=task, scratch=scratch), proposal)
        checks = [replace(check, stage=check.stage and name) for check in verification.checks]
        return replace(verification, checks=tuple(checks))

    def _box(self, tests: Iterable[str], programs: Iterable[str], framework: Iterable[str] = ()) -> Sandbox:
        """The stage's sandbox, or one that shows what the tests import, and numpy where a program does."""
        return self.sandbox or sandbox_for(None, (*numpy_for(programs), *framework, *imported(tests)))

    def findings(
        self,
        box: Sandbox,
        suite: Suite,
        programs: Sequence[str],
        *,
        seconds: float | None = None,
        per_test: float | None = None,
    ) -> list[SuiteFinding]:
        """What the tests found of each program; equal ones are run once.

        Args:
            box: where they run.
            suite: the tests.
            programs: Python sources.
            seconds: for all tests of one program, where it is not the stage's `timeout`.
            per_test: seconds that any one test may take, where it is judged apart.
        """
        seconds = self.timeout if seconds is None else seconds
        counts = {"processes": self.processes, "threads": self.threads}
        limits = limits_of(seconds, self.memory, per_test=per_test, **counts)
        findings: dict[str, SuiteFinding] = {}
        distinct = together = list(dict.fromkeys(programs))
        if self.integrity != SHARED:
            apart: Iterable[SuiteFinding] = [SuiteFinding(_CALLS_NOTHING)] * len(distinct)
            if suite.entry_points:
                apart = map(_advised, box.judge(suite, distinct, limits))
            findings |= zip(distinct, apart, strict=True)
            together = [program for program in distinct if _needs_shared(findings[program])]
        if together and self.integrity != "separate-process":
            findings |= zip(together, Beside(box, suite, limits).findings(together), strict=True)
        return [findings[program] for program in programs]


_CALLS_NOTHING = Check(
    "error",
    reason="needs shared-process",
    feedback="it is not certain which function of the program the tests call (`entry_point` names it); "
    "this suite needs `integrity: shared-process`",
)


def _needs_shared(finding: SuiteFinding) -> bool:
    return finding.check.reason == "needs shared-process"


def suite_of(fields: Mapping[str, Any], owner: str, *, doctest: bool = False) -> Suite:
    """The tests that a task's input holds.

    Args:
        fields: the input; see `Tests` for which of its fields are read.
        owner: for messages ("task 3").
        doctest: take the examples of its prompt, whatever else there is.

    Raises:
        NoTests: it has none.
        ContractError: they do not parse, or a check function has no entry point.
    """
    if not in_python(fields):
        raise NoTests(f"the tests of {owner} are for programs in {fields['language']}")
    entry = str(fields.get("entry_point") or "")
    setup = str(fields.get("setup") or "")
    if doctest or (fields.get("doctest") and not fields.get("test") and not fields.get("test_list")):
        source = examples(str(fields.get("prompt") or ""))
        if not source:
            raise NoTests(f"the prompt of {owner} has no examples (>>>) to test by")
        entry_points = _entry_points(entry, _examples_in(source), setup, owner)
        return Suite("doctest", entry_points, source, setup=setup)
    if fields.get("test"):
        source = _FROM_PROGRAM.sub("", str(fields["test"]))
        defines = re.search(r"^def check\s*\(", source, re.MULTILINE)
        if defines and entry and not entry.isidentifier():  # `Solution().add`
            source, entry, defines = f"{source}\ncheck({entry})\n", "", None
        if defines and (entry or not re.search(r"^check\s*\(", source, re.MULTILINE)):
            if not entry:
                raise ContractError(
                    f"the tests of {owner} define check(candidate), and `entry_point` does not say which function is "
                    "the candidate"
                )
            return Suite("check", (entry,), source, setup=setup)
        return Suite("script", _entry_points(entry, [source], setup, owner), source, setup=setup)
    if fields.get("test_list"):
        asserts = texts_of(fields["test_list"], f"the `test_list` of {owner}")
        for statement in asserts:
            _can_fail(statement, owner)
        return Suite("asserts", _entry_points(entry, asserts, setup, owner), asserts=asserts, setup=setup)
    raise NoTests(f"{owner} has no tests: `test`, `test_list` or `doctest: true` is needed")


_FROM_PROGRAM = re.compile(r"^from solution import (?:[\w, ]+|\*)$", re.MULTILINE)
"""What a script need not say: the program's names are there."""


def _naming(suite: Suite, finding: SuiteFinding) -> Check:
    """A check that names the other asserts which failed."""
    tests = zip(suite.asserts, finding.passed, strict=False)
    return also_failed(finding.check, [test for test, passed in tests if passed is False][1:])


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
    docstrings = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    return "\n\n".join(text for text in docstrings if ">>>" in text)


def _examples_in(source: str) -> list[str]:
    try:
        examples_found = DocTestParser().get_examples(source)
        return [example.source for example in examples_found if SKIP not in example.options]
    except ValueError as error:
        raise ContractError(f"the prompt's examples cannot be read: {error}") from error


def _can_fail(source: str, owner: str) -> None:
    """Refuse what looks like a test and holds for every program."""
    for node in _parsed(source, owner).body:
        text = ast.unparse(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
            raise ContractError(
                f"`{text:.80}` of the tests of {owner} tests nothing; write `assert {text:.80}`"
            )
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Tuple) and node.test.elts:
            raise ContractError(
                f"`{text:.80}` of the tests of {owner} always holds: it asserts a tuple; leave out its parentheses"
            )


def _advised(finding: SuiteFinding) -> SuiteFinding:
    check = finding.check
    if check.reason not in ("tests", "refused", "exception"):
        return finding
    check = replace(check, feedback=check.feedback + lacking(check.feedback))
    return replace(finding, check=check)


def _parsed(source: str, owner: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.text if isinstance(error, SyntaxError) else ""
        place = f"`{line.strip():.80}`: {error.msg}" if line else str(error)
        raise ContractError(f"the tests of {owner} do not parse: {place}") from error


def _entry_points(entry: str, sources: Iterable[str], setup: str, owner: str) -> tuple[str, ...]:
    """The named one, or what the tests call that neither they, nor the setup, nor Python defines; () where nothing is,
    but something is read, or where it may come from elsewhere (`from module import *`)."""
    if entry.isidentifier():  # and no `Solution().add`
        return (entry,)
    nodes = [node for source in (setup, *sources) for node in ast.walk(_parsed(source, owner))]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    called = dict.fromkeys(function.id for function in calls if isinstance(function, ast.Name))
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    names_bound = BUILTINS.union(*map(bound, nodes))
    if not read - names_bound:
        raise ContractError(
            f"the tests of {owner} use nothing of the program; name its function in `entry_point`"
        )
    return tuple(name for name in called if name not in names_bound) if "*" not in names_bound else ()
