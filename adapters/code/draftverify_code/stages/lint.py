"""The lint stage: ruff over the whole block in one invocation."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from draftverify import Check, Context, Proposal, Verification
from draftverify_code.sandbox.host import Sandbox
from draftverify_code.sandbox.jobs import Command, Exit
from draftverify_code.stages.blocks import (
    Finding,
    Job,
    check_block,
    distributions,
    executable,
    file_names,
    limits,
    outside,
    programs_of,
    sandbox_of,
    verification,
    words,
)

__all__ = ["Lint"]

HOW = "pip install ruff, or install draftverify with the extra `code`"
PYTHON = "py{}{}".format(*sys.version_info[:2])
_FAULTY = "("
"""A program that goes with every block: a ruff that finds nothing in it did not look, whatever its status says."""


class Lint:
    """Rejects Python programs in which ruff finds an error of the selected rules.

    No configuration but this one is read, and no comment in a program (`# noqa`, `# ruff: …`) changes it.

    Args:
        select: codes or prefixes of ruff's rules. The default ones are faults that a program meets when it runs: it
            does not parse, compares or formats what cannot be, returns from where one cannot, uses a name that is not
            there.
        sandbox: where ruff runs; a shared one with the strongest isolation of this machine when None.
    """

    name = "lint"

    def __init__(
        self, select: Sequence[str] = ("E9", "F63", "F7", "F82"), sandbox: Sandbox | None = None
    ) -> None:
        self.select = select
        self.sandbox = sandbox

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions that a sandbox must show."""
        return distributions(["ruff"])

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
            ResourceError: ruff is not installed, or there is no sandbox.
        """
        ruff = str(executable("ruff", HOW))
        programs = programs_of(proposal)
        box = sandbox_of(self)
        checks = check_block(box, programs, lambda group: self._job(ruff, group), "ruff", "syntax")
        return verification(self.name, checks, box)

    def _job(self, ruff: str, programs: Sequence[str]) -> Job:
        names = file_names(len(programs) + 1, ".py")
        control = names[-1]
        files = {name: text.encode() for name, text in zip(names, (*programs, _FAULTY), strict=True)}
        flags = f"--isolated --ignore-noqa --no-cache --quiet --output-format json-lines --target-version {PYTHON}"
        argv = (ruff, "check", *flags.split(), "--select", ",".join(self.select), *names)
        allowed = limits(len(programs), each=0.05, size=sum(map(len, files.values())))

        def read(ended: Exit) -> dict[int, Check]:
            if ended.status not in (0, 1) or ended.truncated or b"panicked" in ended.stderr:
                return {}
            findings: dict[str, list[Finding]] = {name: [] for name in names}
            try:
                for line in ended.stdout.decode(errors="replace").splitlines():
                    given = json.loads(line)
                    if given["code"] == "panic":
                        return {}
                    findings[os.path.basename(given["filename"])].append(_finding(given))
            except (ValueError, KeyError, TypeError):
                return {}
            looked = bool(findings.pop(control))
            return words(programs, list(findings.values())) if looked else {}

        return Job(Command(argv, files, limits=allowed), read)

    def open(self) -> None:
        """Open the sandbox.

        Raises:
            ResourceError: ruff is not installed, or there is no sandbox.
        """
        executable("ruff", HOW)
        sandbox_of(self).open()

    def close(self) -> None:
        """Close the sandbox that was given."""
        if self.sandbox is not None:
            self.sandbox.close()


def _finding(given: dict[str, object]) -> Finding:
    code = given["code"]
    place = given["location"]
    assert isinstance(place, dict)
    # A text that does not parse has no rule's code, or one that is not a code.
    parses = isinstance(code, str) and code != "invalid-syntax" and not code.startswith("E999")
    message = f"{code} {given['message']}" if parses else f"SyntaxError: {given['message']}"
    return Finding(message, place["row"], place["column"], "lint" if parses else "syntax")
