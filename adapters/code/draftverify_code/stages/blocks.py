"""A block in one invocation of a tool: every program a file of its own, and a culprit looked for only where it breaks.

A tool that crashes, hangs or is ended for a limit has said nothing of the programs that it was given together. They are
given to it again in parts until each has its word, or is alone with a tool that breaks on it: that is an error (or a
timeout) of this one program, never a rejection: a check that hangs has not refused.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import util
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from draftverify import Check, Proposal, ResourceError, Verification
from draftverify_code.program import Reason, program_of
from draftverify_code.sandbox.host import Sandbox, default_sandbox
from draftverify_code.sandbox.jobs import MIB, CommandExit, Limits, SandboxCommand
from draftverify_code.stages.running import Sandboxed, capped

ALONE = 20.0
"""Seconds that a tool may take over one program that it is given alone."""
EACH = 0.25
"""Seconds more for every further program."""
HUNG = 8
"""Into how many parts a block is cut with which a tool did not end in time."""
SHOWN = 5
"""How many of a tool's findings a check's feedback names."""
WIDTH = 120
"""Characters of a program's line that feedback shows."""


class Static(Sandboxed):
    """A stage that runs no program: its tool works in the sandbox that it was given, or in a shared one."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions that a sandbox must show."""
        return ()

    @property
    def readable(self) -> tuple[Path, ...]:
        """Further paths that a sandbox must show."""
        return ()

    @property
    def box(self) -> Sandbox:
        """The sandbox that it was given, or the shared one that shows what the tool needs.

        Raises:
            ResourceError: the tool is not installed.
        """
        needs = self.packages, self.readable
        return default_sandbox(*needs) if self.sandbox is None else self.sandbox

    def open(self) -> None:
        """Open the sandbox.

        Raises:
            ResourceError: the tool is not installed, or there is no sandbox.
        """
        self.box.open()


class Job(msgspec.Struct, frozen=True):
    """One invocation of a tool on some programs.

    Args:
        command: what to run.
        read: how it ended → place of a program among those given → the tool's word on it. Those of which nothing is
            certain are left out.
    """

    command: SandboxCommand
    read: Callable[[CommandExit], Mapping[int, Check]]


class Diagnostic(msgspec.Struct, frozen=True):
    """One thing that a tool found wrong.

    Args:
        message: the tool's words, its name for the rule among them.
        line, column: from 1; 0 where there is none.
        reason: what kind of fault it is.
    """

    message: str
    line: int
    column: int
    reason: Reason


def check_block(
    box: Sandbox,
    programs: Sequence[str],
    job: Callable[[Sequence[str]], Job],
    tool: str,
    unfit: Reason,
    *,
    in_order: bool = False,
) -> list[Check]:
    """A tool's word on each program; equal programs are given to it once.

    Args:
        box: where it runs.
        programs: the block.
        job: programs → the invocation.
        tool: its name, for feedback.
        unfit: the reason for which a string is refused that no file can hold.
        in_order: it takes the programs one after the other and tells of each when it is done: the first without a
            word is the culprit. Else culprits are found by halving.
    """
    checks = {program: check for program in programs if (check := not_text(program, unfit)) is not None}
    distinct = [program for program in dict.fromkeys(programs) if program not in checks]
    waiting = [distinct] if distinct else []
    while waiting:
        jobs = [job(group) for group in waiting]
        ends = box.run([invocation.command for invocation in jobs])
        further: list[list[str]] = []
        for group, invocation, ended in zip(waiting, jobs, ends, strict=True):
            if ended.failure:
                checks |= dict.fromkeys(group, Check("error", None, "sandbox", capped(ended.failure)))
                continue
            named = invocation.read(ended)
            checks |= {group[place]: check for place, check in named.items()}
            unnamed = [program for place, program in enumerate(group) if place not in named]
            if unnamed and len(group) == 1:
                checks[group[0]] = broken(tool, ended, invocation.command.limits)
            elif unnamed and named and not in_order:
                further.append(unnamed)  # it has named a culprit itself
            elif unnamed and in_order:
                further += [part for part in (unnamed[:1], unnamed[1:]) if part]
            elif unnamed:
                # A tool that hangs takes all of its time in every round: more parts make for fewer rounds.
                size = -(-len(unnamed) // (HUNG if ended.limit in ("wall", "cpu") else 2))
                further += [unnamed[start : start + size] for start in range(0, len(unnamed), size)]
        waiting = further
    return [checks[program] for program in programs]


def broken(tool: str, ended: CommandExit, allowed: Limits) -> Check:
    """What a tool that broke on a program which it had alone leaves to say of it."""
    if ended.limit in ("wall", "cpu"):
        seconds = allowed.wall if ended.limit == "wall" else allowed.cpu
        return Check("timeout", None, ended.limit, f"{tool} did not end within {seconds:g} s")
    if ended.limit:
        ending = f"was ended for its use of {ended.limit}"
    elif ended.status is None:
        ending = f"was ended by signal {ended.signal}"
    elif ended.truncated:
        ending = f"wrote more than {allowed.output // MIB} MiB"
    else:
        ending = f"failed with status {ended.status}"
    output_end = (ended.stderr.strip() or ended.stdout.strip())[-1000:].decode(errors="replace")
    return Check("error", None, "tool", f"{tool} {ending}\n{output_end}".strip())


def limits(
    count: int, *, start: float = ALONE, further: float = EACH, memory: int = 4096, size: int = 0
) -> Limits:
    """What a tool may use on `count` programs of `size` bytes together; `memory` in MiB."""
    wall = start + further * (count - 1)
    # Tools that work on several processors at once use that much more of their time.
    return Limits(
        wall=wall,
        cpu=8 * wall,
        memory=memory * MIB,
        output=(8 + count // 8) * MIB,
        disk=(64 + 2 * count) * MIB + 8 * size,
        files=64 + 8 * count,
        processes=128,
    )


def file_names(count: int, suffix: str) -> list[str]:
    """Names for the files of a block: none is one that a program could import, guess, or print in a tool's output."""
    # What begins with a digit is no identifier; what is drawn anew cannot be guessed; and they sort as they stand.
    return [f"{place:06d}-{secrets.token_hex(8)}{suffix}" for place in range(count)]


def programs_of(proposal: Proposal, fields: Mapping[str, Any] = {}) -> list[str]:
    """The texts of a proposal's items, with what the task's input has for all of them."""
    return [program_of(item, fields) for item in proposal.items]


def not_text(program: str, reason: Reason) -> Check | None:
    """The refusal of a string that no file can hold; None for a text."""
    try:
        program.encode()
    except UnicodeEncodeError as error:
        line = program.count("\n", 0, error.start) + 1
        message = f"line {line}: it is no text: the surrogate {program[error.start]!r} stands alone"
        return Check("reject", None, reason, message)
    return None


def words(programs: Sequence[str], findings: Sequence[Sequence[Diagnostic]]) -> dict[int, Check]:
    """The check of each program by what a tool found in it: nothing found is a pass."""
    return {
        place: refused(program, faults) if faults else Check("pass")
        for place, (program, faults) in enumerate(zip(programs, findings, strict=True))
    }


def refused(program: str, findings: Sequence[Diagnostic]) -> Check:
    """The refusal of a program for what a tool found in it; "syntax" where one of the findings is that."""
    worst = min(findings, key=lambda finding: (finding.reason != "syntax", finding.line, finding.column))
    ordered = sorted(findings, key=lambda finding: (finding.line, finding.column))
    ordered.remove(worst)
    lines = [
        at_line(program, finding.line, finding.column, finding.message)
        for finding in (worst, *ordered[: SHOWN - 1])
    ]
    if len(findings) > SHOWN:
        lines.append(f"… and {len(findings) - SHOWN} more")
    return Check("reject", None, worst.reason, capped("\n".join(lines)))


def at_line(program: str, line: int, column: int, message: str) -> str:
    """A message with its line number, the line, and a mark under the column (both from 1; 0 where there is none)."""
    if line < 1:
        return message
    message = f"line {line}: {message}"
    lines = re.split("\r\n|\r|\n", program)
    if line > len(lines) or not lines[line - 1].strip():
        return message
    text = lines[line - 1].rstrip()
    if column < 1 or column > len(text) + 1:
        return f"{message}\n    {text[:WIDTH]}"
    start = max(0, column - WIDTH // 2) if len(text) > WIDTH else 0
    # Tabs stay, so that the mark stands under its place.
    padding = re.sub(r"\S", " ", text[start : column - 1])
    return f"{message}\n    {text[start : start + WIDTH]}\n    {padding}^"


def executable(name: str, remedy: str) -> Path:
    """A tool's program: the one beside this interpreter, else the one on the PATH.

    Args:
        name: of the program.
        remedy: what to do when there is none.

    Raises:
        ResourceError: there is none.
    """
    for place in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        if os.access(place / name, os.X_OK):
            return place / name
    path = shutil.which(name)
    if path is None:
        raise ResourceError(f"the program {name} is not installed; {remedy}")
    return Path(path).absolute()


def outside(*paths: Path) -> tuple[Path, ...]:
    """Those of some programs that a sandbox would not show by itself, as they are named and as they are found."""
    system_places = ("/bin", "/sbin", "/lib", "/usr", os.path.dirname(sys.executable), sys.base_prefix)
    both = dict.fromkeys(variant for path in paths for variant in (path, path.resolve()))
    return tuple(path for path in both if not any(path.is_relative_to(place) for place in system_places))


def installed(package: str) -> tuple[str, ...]:
    """A package that a tool is part of, for a sandbox to show.

    Raises:
        ResourceError: it is not installed.
    """
    if util.find_spec(package) is None:
        remedy = f"pip install {package}, or install draftverify with the extra `code`"
        raise ResourceError(f"{package} is not installed; {remedy}")
    return (package,)


def verification(stage: str, checks: Iterable[Check], box: Sandbox | None) -> Verification:
    """What a static stage returns; `box` is the sandbox that it used, if it did."""
    notes = {"integrity": "static"} if box is None else {"isolation": box.tier, "integrity": "static"}
    named = tuple(replace(check, stage=stage) for check in checks)
    return Verification(checks=named, notes=notes)
