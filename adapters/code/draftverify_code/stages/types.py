"""The types stage: mypy over the whole block in one invocation.

What a program says to the checker is taken out of it first: all its comments, and `no_type_check`. A program can still
keep a checker from looking (everything `Any`, code that is never reached), so a pass means that the checker found
nothing. Installed packages are not looked at, and an import that cannot be followed is no error: whether it works is
for the tests to find out.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftverify import Check, Context, Proposal, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.sandbox.host import Sandbox
from draftverify_code.sandbox.jobs import CommandExit, SandboxCommand
from draftverify_code.stages.blocks import (
    ALONE,
    Diagnostic,
    Job,
    Static,
    check_block,
    file_names,
    installed,
    limits,
    programs_of,
    verification,
    words,
)
from draftverify_code.stages.syntax import read_programs


@dataclass(eq=False)
class Types(Static):
    """Rejects Python programs in which mypy finds an error.

    Functions without annotations are checked too, and a variable may change its type. A program that does not compile
    is rejected for its syntax. Programs with which mypy does not end in time are looked for in ever smaller parts of
    the block; only one that hangs it alone is a timeout.

    Args:
        sandbox: where it runs; a shared one with the strongest isolation of this machine when None.
        timeout: seconds that mypy may take for one program alone, its own start included; it has a little more
            for each further one of a block.
    """

    sandbox: Sandbox | None = None
    timeout: float = ALONE

    traits = VerifierTraits(name="types", reads=frozenset())

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions that a sandbox must show."""
        return installed("mypy")

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Check the whole block in one invocation.

        Raises:
            ResourceError: mypy is not installed, or there is no sandbox.
        """
        programs = programs_of(proposal, context.task.input)
        box = self.box
        readings = read_programs(programs, lambda: box, bare=True)
        parsed = [program for program in programs if readings[program].check.verdict == "pass"]

        def job(group: Sequence[str]) -> Job:
            return _job(group, [readings[program].bare for program in group], self.timeout)

        typed = dict(zip(parsed, check_block(box, parsed, job, "mypy", "type"), strict=True))
        checks = [typed[program] if program in typed else readings[program].check for program in programs]
        return verification(self.traits.name, checks, box)


def _job(programs: Sequence[str], texts: Sequence[str], timeout: float) -> Job:
    names = file_names(len(texts) + 1, ".py")
    control = names[-1]
    files = {name: text.encode() for name, text in zip(names, (*texts, _FAULTY), strict=True)}
    allowed = limits(len(texts), start=timeout, size=sum(map(len, files.values())))

    def read(ended: CommandExit) -> dict[int, Check]:
        # 2 is mypy's status after an error at which it looked at nothing more.
        if ended.status not in (0, 1, 2) or ended.truncated or _CRASHED.search(ended.stderr):
            return {}
        findings: dict[str, list[Diagnostic]] = {name: [] for name in names}
        try:
            for line in ended.stdout.decode(errors="replace").splitlines():
                diagnostic = json.loads(line)
                name = os.path.basename(diagnostic["file"])
                code = diagnostic["code"] or ""
                if diagnostic["severity"] != "error":
                    continue
                if _BROKEN.match(code or diagnostic["message"]):
                    return {}
                if name in findings and code not in _NO_FAULT:
                    findings[name].append(_finding(diagnostic, name, code))
        except (ValueError, KeyError, TypeError):
            return {}
        looked = bool(findings.pop(control))
        checks = words(programs, list(findings.values()))
        if ended.status == 2:
            return {place: check for place, check in checks.items() if check.verdict != "pass"}
        return checks if looked else {}

    return Job(SandboxCommand((*_command(), *names), files, limits=allowed), read)


_FAULTY = "x: int = ''\n"
"""A program that goes with every block: a checker that finds nothing in it did not look, whatever its status says."""

_NO_FAULT = frozenset({"import", "import-not-found", "import-untyped"})
"""Rules about what lies outside the program."""

_BROKEN = re.compile(r"panic|internal[- ]error|an internal error|io$", re.IGNORECASE)
"""What stands in a diagnostic when the checker itself failed."""

_CRASHED = re.compile(rb"Traceback \(most recent call last\)|panicked at|INTERNAL ERROR")
"""What stands on standard error then."""


def _finding(diagnostic: Mapping[str, Any], name: str, code: str) -> Diagnostic:
    # A module is called after its file; that name means nothing to anybody.
    message = diagnostic["message"].replace(name.removesuffix(".py"), "program").replace("\xa0", " ")
    text = f"{message} [{code}]" if code else message
    return Diagnostic(
        text, diagnostic["line"], diagnostic["column"] + 1, "syntax" if code == "syntax" else "type"
    )


def _command() -> tuple[str, ...]:
    """What starts mypy; the programs' files are named after it."""
    flags = "--config-file= --cache-dir=/dev/null --no-site-packages --ignore-missing-imports --check-untyped-defs"
    flags += " --allow-redefinition --disable-error-code=var-annotated --output=json --no-error-summary"
    return (sys.executable, "-s", "-P", "-c", _START_MYPY, *flags.split())


# Called this way mypy writes nothing before it has come to its end. Where psutil is installed mypy asks it for the
# number of processors, which it reads where a sandbox does not let it.
_START_MYPY = """
import sys
sys.modules["psutil"] = None
from mypy import api
output, errors, status = api.run(sys.argv[1:])
sys.stdout.write(output)
sys.stderr.write(errors)
sys.exit(status)
"""
