"""The compile stage: a compiler on every program of the block, in one sandboxed command.

Most compilers take one file at a time even when they are given many, so the command is a loop. Each program lies in a
directory of its own, whose name no other can guess (`#include "../other/program.c"` finds nothing). What decides is
each run's exit status, not what is printed: a program chooses what its messages say, down to the file that they name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from draftverify import Check, ConfigError, Context, Proposal, ResourceError, Task, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.sandbox.host import Sandbox
from draftverify_code.sandbox.jobs import MIB, CommandExit, SandboxCommand
from draftverify_code.stages.blocks import (
    Job,
    Static,
    check_block,
    file_names,
    limits,
    programs_of,
    verification,
)
from draftverify_code.stages.running import capped
from draftverify_code.stages.toolchains import Toolchain, broke, own_words, toolchain_of

__all__ = ["Compile"]

EACH_IN_TURN = """
ulimit -S -t "$1"
shift
for d in 0*; do
  printf '%8000s' '' >words
  cd "$d" || exit 1
  "$@" * 1<>../words 2>&1 </dev/null
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
    """Rejects programs that a compiler refuses; they need not have a `main`.

    Args:
        language: "c", "c++", "rust", "go", "java", "javascript" or "typescript".
        flags: further arguments of its compiler, in place of those that leave warnings out: ["-std=c11", "-Wall",
            "-Werror"].
        timeout: seconds of the processor for one program.
        sandbox: where the compiler runs; a shared one with the strongest isolation of this machine when None. A
            compiler that is not among the system's programs needs its own files shown: `readable` of the sandbox.
    """

    traits = VerifierTraits(name="compile", reads=frozenset())

    def __init__(
        self,
        language: str = "c",
        flags: Sequence[str] | None = None,
        timeout: float = 10.0,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.language = language
        self.flags = flags
        self.timeout = timeout
        self.sandbox = sandbox
        self._tried = False

    @property
    def readable(self) -> tuple[Path, ...]:
        """Further paths that a sandbox must show.

        Raises:
            ConfigError, ResourceError: as `open`.
        """
        return self._toolchain().readable

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks in another `language`, whose programs this compiler would all refuse.

        Raises:
            ConfigError: naming the task.
        """
        for task in tasks:
            language = task.input.get("language")
            if isinstance(language, str) and toolchain_of(language) is not self._toolchain():
                raise ConfigError(
                    f"this stage compiles {self.language}, and task {task.id} is in {language}; name that here, or "
                    "leave the stage out: code.language and code.cases compile too",
                    path="language",
                )

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Compile the whole block; with several processors, that many parts of it beside each other.

        Raises:
            ConfigError, ResourceError: as `open`; or the task is in another language.
        """
        self.check_tasks([context.task])
        programs = programs_of(proposal)
        box = self.box
        self._try(box)
        return verification(self.traits.name, self._compiled(box, programs), box)

    def open(self) -> None:
        """Open the sandbox, and compile a program that is right.

        Raises:
            ConfigError: the language is not known.
            ResourceError: the compiler is not installed or does not work in the sandbox, or there is no sandbox.
        """
        self._try(self.box)

    def _toolchain(self) -> Toolchain:
        toolchain = toolchain_of(self.language)
        if not toolchain.check:
            raise ConfigError(f"{self.language!r} has no compiler; `code.syntax` reads it", path="language")
        return toolchain

    def _try(self, box: Sandbox) -> None:
        """Find out once that the compiler works."""
        if self._tried:
            return
        toolchain = self._toolchain()
        [check] = self._compiled(box, [toolchain.sample])
        if check.verdict != "pass":
            raise ResourceError(
                f"{toolchain.tools[0]} does not compile {toolchain.sample!r} in the sandbox: {check.feedback}"
            )
        self._tried = True

    def _compiled(self, box: Sandbox, programs: Sequence[str]) -> list[Check]:
        tool = self._toolchain().tools[0]
        return check_block(box, programs, self._job, tool, "compile", in_order=True, at_once=box.at_once)

    def _job(self, programs: Sequence[str]) -> Job:
        """A job that compiles one after the other."""
        toolchain = self._toolchain()
        places = file_names(len(programs), "")
        files = {
            f"{place}/{toolchain.file_name(program, 'program')}": program.encode()
            for place, program in zip(places, programs, strict=True)
        }
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
        start = 2 * self.timeout + 5  # of the clock: a busy machine is no fault of the program's
        size = sum(map(len, files.values()))
        allowed = limits(len(files), start=start, further=self.timeout, memory=2048, size=size)
        reserve = toolchain.reserve * MIB
        allowed = msgspec.structs.replace(
            allowed, cpu=seconds + 2, reserve=reserve, files=allowed.files + 4096
        )
        flags = toolchain.quiet.split() if self.flags is None else self.flags
        call = (*toolchain.words(toolchain.check, ""), *flags)
        argv = ("/bin/sh", "-c", EACH_IN_TURN, "sh", str(seconds), *call)
        return Job(SandboxCommand(argv, files, collect=collect, limits=allowed), read)

    def _word(self, status: int, output: str) -> Check:
        if status == 0:
            return Check("pass")
        if status == 128 + 24 or "CPU time limit exceeded" in own_words(output):
            output = f"the compiler did not end within {self.timeout:g} s of processor time"
            return Check("timeout", None, "cpu", output)
        if broke(status, output):
            return Check("error", None, "tool", capped(f"the compiler failed with status {status}\n{output}"))
        return Check("reject", None, "compile", capped(output or f"the compiler ended with status {status}"))
