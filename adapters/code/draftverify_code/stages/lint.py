"""The lint stage: ruff over the whole block in one invocation."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from draftverify import Check, ConfigError, Context, Proposal, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.program import texts_of
from draftverify_code.sandbox.host import Sandbox
from draftverify_code.sandbox.jobs import CommandExit, SandboxCommand
from draftverify_code.stages.blocks import (
    Diagnostic,
    Job,
    Static,
    check_block,
    executable,
    file_names,
    limits,
    outside,
    programs_of,
    refused,
    verification,
    words,
)
from draftverify_code.stages.syntax import read_programs

HOW = "pip install ruff, or install draftverify with the extra `code`"
PYTHON = "py{}{}".format(*sys.version_info[:2])
_FAULTY = "("
"""A program that goes with every block: a ruff that finds nothing in it did not look, whatever its status says."""


@dataclass(eq=False)
class Lint(Static):
    """Rejects Python programs in which ruff finds an error of the selected rules.

    No configuration but this one is read, and no comment in a program (`# noqa`, `# ruff: …`) changes it. An undefined
    name (F821) is a fault only where Python looks it up when the program runs: not in quotes, nor in an annotation that
    is not evaluated (of a local variable; of anything after `from __future__ import annotations`, or from Python 3.14).

    Args:
        select: codes or prefixes of ruff's rules. The default ones are faults that a program meets when it is compiled
            or comes to that place: it does not parse, has `return`, `yield`, `break` or `continue` where none can be,
            shifts `print`, uses a name that is not defined.
        sandbox: where ruff runs; a shared one with the strongest isolation of this machine when None.
    """

    select: Sequence[str] = ("E9", "F633", "F70", "F821")
    sandbox: Sandbox | None = None

    _tried = False
    traits = VerifierTraits(name="lint", reads=frozenset())

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions that a sandbox must show."""
        return ("ruff",) if util.find_spec("ruff") is not None else ()

    @property
    def readable(self) -> tuple[Path, ...]:
        """Further paths that a sandbox must show.

        Raises:
            ResourceError: ruff is not installed.
        """
        return outside(executable("ruff", HOW))

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Lint the whole block in one invocation.

        Raises:
            ConfigError, ResourceError: as `open`.
        """
        programs = programs_of(proposal, context.task.input)
        box = self.box
        self._try(box)
        findings: dict[str, list[Diagnostic]] = {}
        checks = check_block(box, programs, lambda group: self._job(group, findings), "ruff", "syntax")
        undefined = [program for program in findings if any(map(_is_undefined, findings[program]))]
        heard: dict[str, Check] = {}
        for program, reading in read_programs(undefined, lambda: box, names=True).items():
            # What Python does not compile ruff is right to refuse.
            if reading.check.verdict == "pass":
                heard[program] = _looked_up(program, findings[program], reading.names)
            elif reading.check.verdict != "reject":
                heard[program] = reading.check
        return verification(self.traits.name, map(heard.get, programs, checks), box)

    def _job(self, programs: Sequence[str], findings_of: dict[str, list[Diagnostic]]) -> Job:
        """An invocation of ruff, which leaves its findings in `findings_of`."""
        names = file_names(len(programs) + 1, ".py")
        control = names[-1]
        files = {name: text.encode() for name, text in zip(names, (*programs, _FAULTY), strict=True)}
        flags = f"--isolated --ignore-noqa --no-cache --quiet --output-format json-lines --target-version {PYTHON}"
        select = ("--select", ",".join(texts_of(self.select, "`select`")))
        argv = (str(executable("ruff", HOW)), "check", *flags.split(), *select, *names)
        allowed = limits(len(programs), further=0.05, size=sum(map(len, files.values())))

        def read(ended: CommandExit) -> dict[int, Check]:
            if ended.status not in (0, 1) or ended.truncated or b"panicked" in ended.stderr:
                return {}
            findings: dict[str, list[Diagnostic]] = {name: [] for name in names}
            try:
                for line in ended.stdout.decode(errors="replace").splitlines():
                    diagnostic = json.loads(line)
                    if diagnostic["code"] == "panic":
                        return {}
                    findings[os.path.basename(diagnostic["filename"])].append(_finding(diagnostic))
            except (ValueError, KeyError, TypeError):
                return {}
            if not findings.pop(control):
                return {}
            findings_of.update(zip(programs, findings.values(), strict=True))
            return words(programs, list(findings.values()))

        return Job(SandboxCommand(argv, files, limits=allowed), read)

    def open(self) -> None:
        """Open the sandbox.

        Raises:
            ConfigError: ruff does not know one of the selected rules.
            ResourceError: ruff is not installed, or there is no sandbox.
        """
        super().open()
        self._try(self.box)

    def _try(self, box: Sandbox) -> None:
        """Ask ruff once whether it knows the rules."""
        if self._tried:
            return
        [ended] = box.run([self._job((), {}).command])
        message = ended.stderr.decode(errors="replace").strip()
        if ended.status == 2 and "select" in message:
            raise ConfigError(message.rpartition("Cause: ")[2], path="select")
        self._tried = ended.status in (0, 1)


def _is_undefined(finding: Diagnostic) -> bool:
    return finding.message.startswith("F821 ")


def _looked_up(program: str, findings: Sequence[Diagnostic], names: Sequence[Sequence[int]]) -> Check:
    """The check without the undefined names that Python does not look up when the program runs."""
    places = {tuple(place) for place in names}
    remaining = [
        finding
        for finding in findings
        if not _is_undefined(finding) or (finding.line, finding.column) in places
    ]
    return refused(program, remaining) if remaining else Check("pass")


def _finding(diagnostic: dict[str, object]) -> Diagnostic:
    code = diagnostic["code"]
    place = diagnostic["location"]
    assert isinstance(place, dict)
    # A text that does not parse has no rule's code, or one that is not a code.
    parses = isinstance(code, str) and code != "invalid-syntax" and not code.startswith("E999")
    message = f"{code} {diagnostic['message']}" if parses else f"SyntaxError: {diagnostic['message']}"
    return Diagnostic(message, place["row"], place["column"], "lint" if parses else "syntax")
