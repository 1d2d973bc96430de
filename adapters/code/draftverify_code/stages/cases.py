"""Programs that read standard input and write standard output, in any language, on given cases."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify import Check, Context, ContractError, Proposal, Task, Verification
from draftverify_code.program import Reason, program_of, texts_of
from draftverify_code.sandbox import CommandExit, Limits, Sandbox, SandboxCommand
from draftverify_code.sandbox.jobs import MIB
from draftverify_code.stages.running import (
    NoTests,
    Sandboxed,
    abnormal,
    abstained,
    also_failed,
    capped,
    denied_at_end,
    limits_of,
    seconds_of,
    verified,
)
from draftverify_code.stages.toolchains import BuiltProgram, Toolchain, box_for, build, toolchain_of

GO_ON = ("output", "exception", "status")
"""Why a case failed after which the others are run."""
SHOWN = 500
"""Characters of an input or an output that a feedback shows."""


@dataclass(eq=False)
class Cases(Sandboxed):
    """Runs each program on the task's `cases` ([{input, output}]) and compares what it writes.

    The score is the share of the cases that hold. A program that ends for a limit, or does not parse, is not run on
    the cases that are left. Each case is a process of its own in an empty directory, with a file as standard input.
    Outputs are compared here, in the harness, and the expected ones never enter the sandbox; white space at the end of
    lines and empty lines at the end do not count.

    Args:
        sandbox: where programs run; a shared one with the strongest isolation of this machine when None.
        language: in which programs are written; the task's `language`, or else Python, when None. One that the
            compiler refuses is rejected for the reason "compile".
        command: what runs a program in another one, `{file}` standing for its file.
        suffix: of the program's file, with `command`.
        timeout: seconds for one case; a task's own `timeout` goes before it.
        memory: MiB of one program.
        tolerance: numbers count as equal up to this much, or this share of the expected one; None compares text. A
            task's own `tolerance` goes before it.

    Examples:
        >>> in_rust, in_ruby = Cases(language="rust"), Cases(command=["ruby", "{file}"], suffix=".rb")
    """

    sandbox: Sandbox | None = None
    language: str | None = None
    command: Sequence[str] | None = None
    suffix: str = ".py"
    timeout: float = 3.0
    memory: int = 1024
    tolerance: float | None = None

    stage = "cases"

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Run the cases on the whole block: the first of every program, the next of those that are left, …

        A task that has none is abstained from.

        Raises:
            ContractError: a case is none, or an item is no program.
        """
        try:
            cases = _cases(context.task)
        except NoTests as error:
            return abstained(proposal, self.traits.name, error)
        fields = context.task.input
        limits = limits_of(seconds_of(fields, self.timeout), self.memory)
        tolerance = fields.get("tolerance", self.tolerance)
        if tolerance is not None and not (isinstance(tolerance, (int, float)) and 0 <= tolerance < inf):
            raise ContractError(
                f"the tolerance of task {context.task.id} should be a number of at least 0, not {tolerance!r:.80}"
            )
        toolchain = toolchain_of(self.language or str(fields.get("language") or "python"))
        if self.command is not None:
            toolchain = Toolchain(self.suffix, shlex.join(texts_of(self.command, "`command`")))
        box = box_for(self.sandbox, toolchain, [program_of(item, fields) for item in proposal.items])
        table = _CaseTable(box, toolchain, cases, limits, tolerance)
        return verified(context, proposal, box, self.traits.name, "separate-process", table.check)


class _CaseTable(msgspec.Struct, frozen=True):
    """The cases of one task, and how they are run."""

    box: Sandbox
    toolchain: Toolchain
    cases: Sequence[tuple[str, str]]
    limits: Limits
    tolerance: float | None

    def check(self, programs: Sequence[str]) -> list[Check]:
        """The checks of some programs, case by case."""
        box, cases = self.box, self.cases
        built = dict(enumerate(build(box, self.toolchain, programs)))
        checks = [program if isinstance(program, Check) else None for program in built.values()]
        ready = {place: program for place, program in built.items() if isinstance(program, BuiltProgram)}
        failures: list[dict[int, Check]] = [{} for _ in programs]
        done = 0
        while done < len(cases) and (alive := [index for index, check in enumerate(checks) if check is None]):
            # A few programs do not fill the sandbox's workers: then several cases of each run at once.
            ahead = max(1, box.at_once // len(alive))
            piece = [(index, case) for index in alive for case in range(done, min(done + ahead, len(cases)))]
            ends = box.run([self._command(ready[index], cases[case]) for index, case in piece])
            for (index, case), ended in zip(piece, ends, strict=True):
                failed = self._compare(cases[case], ended)
                if checks[index] is None and failed is not None:
                    message = f"case {case + 1} of {len(cases)}: {failed.feedback}"
                    failures[index][case] = failed = replace(failed, feedback=message)
                    if failed.verdict != "reject":
                        checks[index] = failed
                    elif failed.reason not in GO_ON:
                        left = len(cases) - case - 1
                        checks[index] = _rejected(failures[index], len(cases), left)
            done += ahead
        checks = [check or _rejected(failures[index], len(cases)) for index, check in enumerate(checks)]
        return [Check("pass", 1.0) if check is None else check for check in checks]

    def _command(self, program: BuiltProgram, case: tuple[str, str]) -> SandboxCommand:
        most = max(MIB, 2 * len(case[1].encode(errors="replace")))
        limits = replace(self.limits, output=most)
        return program.run(limits, case[0].encode(errors="replace"))

    def _compare(self, case: tuple[str, str], ended: CommandExit) -> Check | None:
        """None when the case holds."""
        strange = abnormal(ended, self.limits)
        if strange is not None:
            return strange
        stdin, expected = case
        fed = f"with the input\n{capped(stdin, SHOWN)}\n"
        if ended.status:
            errors = ended.stderr.decode(errors="replace").strip()
            message = f"{fed}it ended with status {ended.status}\n{capped(errors, 2 * SHOWN)}"
            check = Check("reject", reason=_reason(errors), feedback=message)
            return denied_at_end(errors) or check
        got = ended.stdout.decode(errors="replace")
        if not ended.truncated and agree(expected, got, self.tolerance):
            return None
        texts = capped(expected, SHOWN), capped(got, SHOWN)
        return Check(
            "reject", reason="output", feedback=fed + "it is to write\n{}\nand wrote\n{}".format(*texts)
        )


def _rejected(failures: Mapping[int, Check], count: int, left: int = 0) -> Check | None:
    """The check of the first case that failed, with the share of those that hold; None where all do.

    Args:
        failures: by case.
        count: how many cases there are.
        left: how many were not run.
    """
    if not failures:
        return None
    (_, first), *others = failures.items()
    first = replace(first, score=(count - left - len(failures)) / count)
    return also_failed(first, [f"case {case + 1}" for case, _ in others])


def _reason(errors: str) -> Reason:
    """Why a program ended with a status that is not zero: what Python says last, or the status itself."""
    last_line = errors.rsplit("\n", 1)[-1]
    if re.match(r"(SyntaxError|IndentationError|TabError): ", last_line):
        return "syntax"
    if "Traceback (most recent call last)" not in errors:
        return "status"
    return "memory" if last_line.startswith("MemoryError") else "exception"


def agree(expected: str, got: str, tolerance: float | None = None) -> bool:
    """Whether two outputs are the same but for white space at the ends of lines and empty lines at the end.

    Args:
        expected: the output that is right.
        got: the other.
        tolerance: where given, lines are compared word by word, and numbers a and b agree when
            |a − b| ≤ tolerance · max(1, |a|) for the expected a.
    """
    expected_lines, right = _lines(expected), _lines(got)
    if expected_lines == right:
        return True
    if tolerance is None or len(expected_lines) != len(right):
        return False
    return all(_near(a, b, tolerance) for a, b in zip(expected_lines, right, strict=True))


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,4})?")


def _near(expected: str, right: str, tolerance: float) -> bool:
    expected_words, got_words = expected.split(), right.split()
    if len(expected_words) != len(got_words):
        return False
    for a, b in zip(expected_words, got_words, strict=True):
        if a == b:
            continue
        if not (_NUMBER.fullmatch(a) and _NUMBER.fullmatch(b)):
            return False
        x, y = Decimal(a), Decimal(b)
        if x != y and abs(x - y) > Decimal(tolerance) * max(Decimal(1), abs(x)):
            return False
    return True


def _cases(task: Task) -> list[tuple[str, str]]:
    rows: Any = task.input.get("cases")
    if not rows:
        raise NoTests(f"task {task.id} has no `cases`: a list of {{input, output}} is needed")
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise ContractError(f"the `cases` of task {task.id} must be a list of {{input, output}}")
    cases = []
    for number, case in enumerate(rows):
        case = case if isinstance(case, Mapping) else {}
        fed, expected = case.get("input", ""), case.get("output")
        if not isinstance(fed, str) or not isinstance(expected, str):
            raise ContractError(f"case {number} of task {task.id} must have `input` and `output`, both text")
        cases.append((fed, expected))
    return cases
