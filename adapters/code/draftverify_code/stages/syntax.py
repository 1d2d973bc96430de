"""The syntax stage: does Python compile the program? Short texts are read here, long ones in the sandbox.

Reading a text executes nothing of it, but a parser can be made to crash or to take its time. Measured on CPython 3.10,
3.11, 3.12 and 3.13, over 75,000 texts each that nest, recurse and backtrack: at 4,000 characters none took more than
0.06 s of processor time, and none crashed a thread with a stack of 1 MiB (Linux with glibc gives 8; with 512 KiB
3.13 does crash on 4,000 signs in a row). So a short text is read here, for 0.1 ms, and a long one costs the start of a
process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify import Check, Context, Proposal, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.sandbox.host import Sandbox
from draftverify_code.sandbox.jobs import CommandExit, SandboxCommand
from draftverify_code.stages import syntax_process
from draftverify_code.stages.blocks import (
    Diagnostic,
    Job,
    Static,
    check_block,
    limits,
    not_text,
    programs_of,
    refused,
    verification,
)
from draftverify_code.stages.running import Sandboxed, script

LONG = 4000
"""Characters; a longer text is read in the sandbox."""


@dataclass(eq=False)
class Syntax(Static):
    """Passes programs that Python compiles; of the others it tells the line.

    Args:
        sandbox: where long programs are read; a shared one with the strongest isolation of this machine when None. It
            is opened when the first of them comes.
    """

    sandbox: Sandbox | None = None

    traits = VerifierTraits(name="syntax", reads=frozenset())
    open = Sandboxed.open

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Compile every program of the block; nothing of any is executed."""
        programs = programs_of(proposal)
        readings = read_programs(programs, lambda: self.box)
        used = self.box if any(len(program) > LONG for program in programs) else None
        return verification(self.traits.name, (readings[program].check for program in programs), used)


class SyntaxReading(msgspec.Struct, frozen=True):
    """What was read of a text.

    Args:
        check: pass, or why not.
        bare: the text without comments, when that was asked for and it passed.
        names: line and column, both from 1, of each name that Python looks up, when these were asked for.
    """

    check: Check
    bare: str = ""
    names: Sequence[Sequence[int]] = ()


def read_programs(
    programs: Sequence[str], sandbox: Callable[[], Sandbox], *, bare: bool = False, names: bool = False
) -> dict[str, SyntaxReading]:
    """Read texts as Python, each once.

    Args:
        programs: the texts.
        sandbox: gives the one in which long texts are read; called only when there are any.
        bare: whether the texts without comments are wanted.
        names: whether the names are.
    """
    readings: dict[str, SyntaxReading] = {}
    long: list[str] = []
    for program in dict.fromkeys(programs):
        unfit = not_text(program, "syntax")
        if unfit is not None:
            readings[program] = SyntaxReading(unfit)
        elif len(program) > LONG:
            long.append(program)
        else:
            readings[program] = _reading(program, syntax_process.answer(program, bare, names))
    if long:
        readings |= _read_apart(long, sandbox(), bare, names)
    return readings


def _reading(program: str, answer: Mapping[str, Any]) -> SyntaxReading:
    if answer.get("error"):
        return SyntaxReading(
            Check("error", None, "tool", f"its comments cannot be told from its code: {answer['error']}")
        )
    wrong = answer["wrong"]
    if wrong is None:
        return SyntaxReading(Check("pass"), answer["bare"], answer["names"])
    return SyntaxReading(refused(program, [Diagnostic(**wrong, reason="syntax")]))


def _read_apart(programs: Sequence[str], box: Sandbox, bare: bool, names: bool) -> dict[str, SyntaxReading]:
    passed: dict[str, SyntaxReading] = {}

    def job(group: Sequence[str]) -> Job:
        requests = [json.dumps({"text": program, "bare": bare, "names": names}) + "\n" for program in group]
        size = sum(map(len, requests))

        def read(ended: CommandExit) -> dict[int, Check]:
            checks = {}
            # A line without its end is half an answer.
            for place, line in enumerate(ended.stdout.decode().split("\n")[:-1]):
                reading = _reading(group[place], json.loads(line))
                checks[place] = reading.check
                passed[group[place]] = reading
            return checks

        allowed = limits(len(group))
        allowed = replace(allowed, output=allowed.output + 10 * size)
        argv = (sys.executable, "-I", "-S", "-c", script("stages/syntax_process.py"))
        return Job(SandboxCommand(argv, stdin="".join(requests).encode(), limits=allowed), read)

    checks = check_block(box, programs, job, "the Python parser", "syntax", in_order=True)
    return {
        program: passed[program] if check.verdict == "pass" else SyntaxReading(check)
        for program, check in zip(programs, checks, strict=True)
    }
