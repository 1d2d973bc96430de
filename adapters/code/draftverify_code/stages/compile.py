"""The compile stage: a compiler on every program of the block, in one sandboxed command.

Most compilers take one file at a time even when they are given many, so the command is a loop. Each program lies in a
directory of its own, whose name no other can guess (`#include "../other/program.c"` finds nothing). What decides is
each run's exit status, not what is printed: a program chooses what its messages say, down to the file that they name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from draftverify import Check, ConfigError, Context, Proposal, ResourceError, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.sandbox.host import Sandbox
from draftverify_code.sandbox.jobs import CommandExit, Limits, SandboxCommand
from draftverify_code.stages.blocks import (
    Job,
    Static,
    check_block,
    executable,
    file_names,
    limits,
    outside,
    programs_of,
    verification,
)
from draftverify_code.stages.running import capped

__all__ = ["Compile", "broke"]

DEFAULT = {
    "c": (("cc", "-c", "-pipe", "-o", "program.o"), ".c"),
    "c++": (("c++", "-c", "-pipe", "-o", "program.o"), ".cpp"),
}
HOW = "install a compiler (Debian: apt install build-essential), or give its absolute path in `command`"
QUIET = ("-w",)
"""No warnings: they do not decide, and an error is found sooner among errors."""
EACH_IN_TURN = """
ulimit -S -t "$1"
shift
for d in 0*; do
  printf '%8000s' '' >words
  cd "$d" || exit 1
  "$@" 1<>../words 2>&1 </dev/null
  status=$?
  cd ..
  rm -rf "$d"
  [ $status = 0 ] || head -c 8000 words >"$d.said"
  echo $status >"$d.status"
done
"""
"""What one program's compilation leaves is gone before the next one's; and there is room for what a compiler says on a
full disk, since its words are written over others."""


class Compile(Static):
    """Rejects programs that a compiler refuses.

    Args:
        language: "c" or "c++", which the system's compiler (cc, c++) turns into an object file; any other word with
            `command`.
        command: the program and its arguments, for other compilers. `{file}` stands for one program's file, and the
            command is run for each; `{files}` for the files of all, for compilers that take many and judge each by
            itself: the command is run once, and again on halves of the block when its status is not 0.
            Before the first block it is given an empty file and one that no compiler accepts. A command that accepts
            the second, or refuses both with the same words (but for numbers), does not judge what is in the files: a
            virtual machine that does not start, an unknown flag. Then each program is an error, "tool". What breaks
            only on a sound program, such as a library that is not there to be linked, is not found out this way.
        suffix: of the files, with `command`: ".rs". Many compilers tell by it what is theirs.
        flags: further arguments of the system's compiler: ["-std=c11", "-Wall", "-Werror"]; none of them for `command`.
        timeout: seconds of the processor for one program.
        memory: MiB of address space; what runs on a virtual machine (javac, go, tsc) reserves more than it uses.
        sandbox: where the compiler runs; a shared one with the strongest isolation of this machine when None. A
            compiler that is not among the system's programs needs its own files shown: `readable` of the sandbox.
    """

    traits = VerifierTraits(name="compile", reads=frozenset())

    def __init__(
        self,
        language: str = "c",
        command: Sequence[str] = (),
        suffix: str = "",
        flags: Sequence[str] = QUIET,
        timeout: float = 10.0,
        memory: int = 2048,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.language = language
        self.command = command
        self.suffix = suffix
        self.flags = flags
        self.timeout = timeout
        self.memory = memory
        self.sandbox = sandbox
        self._tried = False

    @property
    def readable(self) -> tuple[Path, ...]:
        """Further paths that a sandbox must show.

        Raises:
            ConfigError, ResourceError: as `open`.
        """
        return outside(Path(self._call()[0][0]))

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Compile the whole block; with several processors, that many parts of it beside each other.

        Raises:
            ConfigError, ResourceError: as `open`.
        """
        argv, suffix = self._call()
        programs = programs_of(proposal)
        box = self.box
        blind = self._try(box)
        if blind is not None:
            return verification(self.traits.name, [blind] * len(programs), box)
        return verification(self.traits.name, self._compiled(box, argv, suffix, programs), box)

    def _compiled(
        self, box: Sandbox, argv: Sequence[str], suffix: str, programs: Sequence[str]
    ) -> list[Check]:
        tool = Path(argv[0]).name
        if "{files}" in argv:
            at_once = lambda group: self._at_once(argv, suffix, group)
            return check_block(box, programs, at_once, tool, "compile")
        in_turn = lambda group: self._in_turn(argv, suffix, group)
        return check_block(box, programs, in_turn, tool, "compile", in_order=True, at_once=box.at_once)

    def open(self) -> None:
        """Open the sandbox.

        Raises:
            ConfigError: the language is not known and there is no command, or the command names no file, or there is no
                suffix for its files.
            ResourceError: the compiler is not installed or does not work in the sandbox, or there is no sandbox.
        """
        self._call()
        box = self.box
        box.open()
        blind = self._try(box)
        if blind is not None:
            raise ResourceError(blind.feedback)

    def _try(self, box: Sandbox) -> Check | None:
        """Find out once whether the compiler judges what is in a file.

        Returns:
            What a command's word on every program is when it does not; else None.

        Raises:
            ResourceError: the system's compiler refuses what surely compiles; it finds no part of itself.
        """
        if self._tried:
            return None
        argv, suffix = self._call()
        if self.command:
            empty, faulty = self._compiled(box, argv, suffix, ["", _FAULTY])
            if faulty.verdict == "pass":
                message = f"{argv[0]} ends with status 0 on a {suffix} file that no compiler accepts"
                return Check("error", None, "tool", message)
            if faulty.verdict != "reject":
                message = f"of a file that no compiler accepts: {faulty.feedback}"
                return msgspec.structs.replace(faulty, feedback=capped(message))
            if empty.verdict == "reject" and _without_numbers(empty) == _without_numbers(faulty):
                message = f"{argv[0]} says the same of an empty file and of one that no compiler accepts"
                return Check("error", None, "tool", capped(f"{message}\n{faulty.feedback}"))
        else:
            [check] = self._compiled(box, argv, suffix, ["int x;\n"])
            if check.verdict != "pass":
                raise ResourceError(f"{argv[0]} does not compile `int x;` in the sandbox: {check.feedback}")
        self._tried = True
        return None

    def _call(self) -> tuple[tuple[str, ...], str]:
        """The command, its program by its path, and the files' suffix."""
        if self.command:
            argv, suffix = tuple(self.command), self.suffix
            if tuple(self.flags) != QUIET:
                raise ConfigError(
                    "flags are for the system's compiler; write them into the command", path="flags"
                )
            if not any("{file}" in argument or argument == "{files}" for argument in argv):
                raise ConfigError(
                    "the command names no file: write {file}, or {files} as a word of its own", path="command"
                )
            if not suffix:
                raise ConfigError(
                    "the files of a command need a suffix, by which it knows its language", path="suffix"
                )
        elif self.language in DEFAULT:
            (program, *arguments), suffix = DEFAULT[self.language]
            argv = (program, *self.flags, *arguments, "{file}")
        else:
            languages = " and ".join(DEFAULT)
            raise ConfigError(f"{self.language!r} needs a `command`; {languages} have one", path="language")
        return (str(executable(argv[0], HOW)), *argv[1:]), suffix

    def _in_turn(self, call: Sequence[str], suffix: str, programs: Sequence[str]) -> Job:
        """A job that compiles one after the other."""
        places = file_names(len(programs), "")
        file = f"program{suffix}"
        call = [argument.replace("{file}", file) for argument in call]
        files = {f"{place}/{file}": program.encode() for place, program in zip(places, programs, strict=True)}
        collect = tuple(f"{place}.{name}" for place in places for name in ("status", "said"))

        def read(ended: CommandExit) -> dict[int, Check]:
            checks = {}
            for place, name in enumerate(places):
                status = ended.files.get(f"{name}.status", b"").strip()
                if not status.isdigit():
                    break  # this is where it broke; what comes after was not looked at
                output = ended.files.get(f"{name}.said", b"").decode(errors="replace").rstrip(" ")
                checks[place] = self._word(int(status), output)
            return checks

        # With the soft limit below the hard one a compiler dies of a signal that says why.
        seconds = math.ceil(self.timeout)
        allowed = msgspec.structs.replace(self._limits(files), cpu=seconds + 2)
        argv = ("/bin/sh", "-c", EACH_IN_TURN, "sh", str(seconds), *call)
        return Job(SandboxCommand(argv, files, collect=collect, limits=allowed), read)

    def _at_once(self, argv: Sequence[str], suffix: str, programs: Sequence[str]) -> Job:
        """A job that gives the compiler all files."""
        names = file_names(len(programs), suffix)
        files = {name: program.encode() for name, program in zip(names, programs, strict=True)}
        call = [
            expanded for argument in argv for expanded in (names if argument == "{files}" else [argument])
        ]

        def read(ended: CommandExit) -> dict[int, Check]:
            if ended.status == 0:
                return dict.fromkeys(range(len(programs)), Check("pass"))
            if ended.status is None or len(programs) > 1:
                return {}
            output = (ended.stderr + b"\n" + ended.stdout).decode(errors="replace").strip()
            return {0: self._word(ended.status, output.replace(names[0], f"program{suffix}"))}

        return Job(SandboxCommand(tuple(call), files, limits=self._limits(files)), read)

    def _limits(self, files: Mapping[str, bytes]) -> Limits:
        size = sum(map(len, files.values()))
        start = 2 * self.timeout + 5  # of the clock: a busy machine is no fault of the program's
        return limits(len(files), start=start, further=self.timeout, memory=self.memory, size=size)

    def _word(self, status: int, output: str) -> Check:
        if status == 0:
            return Check("pass")
        if status == 128 + 24 or "CPU time limit exceeded" in _own(output):
            output = f"the compiler did not end within {self.timeout:g} s of processor time"
            return Check("timeout", None, "cpu", output)
        if broke(status, output):
            return Check("error", None, "tool", capped(f"the compiler failed with status {status}\n{output}"))
        return Check("reject", None, "compile", capped(output or f"the compiler ended with status {status}"))


def broke(status: int, output: str) -> bool:
    """Whether a compiler that ended with a status other than 0, and such words, failed itself: on a full disk too."""
    return status >= 126 or _BROKEN.search(_own(output)) is not None


_FAULTY = "<?php ( [ { these are words and no program $ @ % ? ) }\n"
"""A file that no compiler accepts; one for PHP takes what stands before its mark for text."""


def _without_numbers(check: Check) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+", "0", check.feedback)


def _own(output: str) -> str:
    """The lines of a compiler's output in which it speaks of itself: "" when it names an error in the program.

    What quotes the program belongs to such an error, which is told by its place and the word after it; or it is a line
    of source, indented or with its number; or it begins with the place itself.
    """
    if _FOUND.search(output):
        return ""
    return "\n".join(line for line in output.split("\n") if not _ON_PROGRAM.match(line))


_FOUND = re.compile(
    r"(:\d+(:\d+)?: (fatal )?|\(\d+,\d+\): )error\b(?!: error (while )?writing )", re.IGNORECASE
)
"""`program.c:2:12: error: …`, `program.ts(2,12): error TS1005: …`. That what it makes cannot be written is none."""

_ON_PROGRAM = re.compile(r"\s|\d+ +\||(?!.*error: error (while )?writing ).*[:(]\d+[:,)]", re.IGNORECASE)

_BROKEN = re.compile(
    r"internal compiler error|out of memory|memory exhausted|[Cc]annot allocate memory|No space left|"
    r"signal terminated program|unable to execute command|unexpectedly panicked|initialization of VM|"
    r"[Ii]nsufficient memory|java\.lang\.\w*Error|(?i:please (submit|file|report) (a|this)\b.* bug)"
)
"""How compilers say that they failed. A program that makes its messages say so is not accepted either."""
