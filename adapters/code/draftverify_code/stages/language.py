"""A task's tests in the language of its programs: compiled together, and run, as in HumanEval-X and MultiPL-E."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from draftverify import Check, Context, Proposal, Verification
from draftverify_code.program import program_of
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages.running import (
    NoTests,
    Sandboxed,
    abstained,
    limits_of,
    seconds_of,
    verified,
)
from draftverify_code.stages.toolchains import box_for, build, run_each, toolchain_of


@dataclass(eq=False)
class LanguageTests(Sandboxed):
    """Compiles each program with the task's `test` behind it (and its `setup` before), and runs what comes of it.

    The two are apart, each in limits of its own: what the compiler refuses is the reason "compile", with its words as
    feedback; a program that ends with a status other than 0 the reason "status". A compiler that is missing, or that
    compiles nothing where programs run, is an error before anything is judged. Go's and Rust's tests may be those of
    their frameworks (`func Test…(t *testing.T)`, `#[test]`). A failed `console.assert` ends a program of JavaScript.

    Tests pass when their `main` has come to its end and the status is 0: a program that ends the process itself has
    failed them, with the reason "exit" (not so where Go's tests are a `main`). It runs in one process with its tests,
    so that one made for it can fool them.

    Args:
        language: "c", "c++", "rust", "go", "java", "javascript", "typescript" or "python"; the task's `language` when
            None.
        timeout: seconds that one program may run.
        memory: MiB of one program.
        sandbox: where it is compiled and runs; a shared one with the strongest isolation of this machine when None. A
            compiler that is not among the system's programs must be in its `readable`.
    """

    language: str | None = None
    timeout: float = 10.0
    memory: int = 1024
    sandbox: Sandbox | None = None

    stage = "language"
    evidence = frozenset({"verdicts"})

    def open(self) -> None:
        """Try the language that was named.

        Raises:
            ConfigError: it has no tools here.
            ResourceError: its tools are not installed or do not work in the sandbox, or there is no sandbox.
        """
        if self.language is not None:
            box_for(self.sandbox, toolchain_of(self.language))

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Compile and run the whole block; a task without `test` is abstained from.

        Raises:
            ConfigError: its language has no tools here, or none is named.
            ResourceError: as `open`.
        """
        fields = context.task.input
        test = str(fields.get("test") or "")
        if not test:
            why = NoTests(f"task {context.task.id} has no `test`, the text that follows a program")
            return abstained(proposal, self.traits.name, why)
        toolchain = toolchain_of(self.language or str(fields.get("language") or ""))
        programs = [program_of(item, fields) for item in proposal.items]
        box = box_for(self.sandbox, toolchain, programs)
        limits = limits_of(seconds_of(fields, self.timeout), self.memory)
        start = f"{setup}\n" if (setup := str(fields.get("setup") or "")) else ""
        # MultiPL-E's tests begin with the brace that ends the program.
        brace = re.match(r"\s*\}?", test)[0]  # type: ignore[index]
        end = "\n".join(filter(None, (brace, toolchain.anew, test[len(brace) :])))

        def check(programs: Sequence[str]) -> list[Check]:
            texts = [f"{start}{program}\n{end}" for program in programs]
            built = build(box, toolchain.for_tests(test), texts, nonce=f"End{secrets.token_hex(12)}")
            return [_exiting(check, test) for check in run_each(box, built, limits)]

        return verified(context, proposal, box, self.traits.name, "shared-process", check)


def _exiting(check: Check, test: str) -> Check:
    """The check; of a process that ended early an error, where it may be the tests that end it."""
    if check.reason != "exit" or not re.search(r"\b_?[eE]xit\s*\(", test):
        return check
    message = "the tests end the process themselves, as a program might: let their `main` come to its end"
    return Check("error", reason="tests", feedback=message)
