"""Anything with an exit status as a stage: a script of checks, a build, a linter of another language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from msgspec.structs import replace

from draftverify import Check, Context, ContractError, Proposal, Task, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.patches import PROTECTED
from draftverify_code.patches.files import Change
from draftverify_code.patches.workspace import NOT_STARTED, workspace_of
from draftverify_code.sandbox import CommandExit, Sandbox, SandboxCommand
from draftverify_code.stages.running import (
    Sandboxed,
    abnormal,
    capped,
    limits_of,
    sandbox_for,
    seconds_of,
    verified,
)
from draftverify_code.stages.toolchains import by_status

SHELLS = ("sh", "bash", "dash", "env")
"""What ends with status 127 where a tool is missing, and with 126 where it cannot be started."""


@dataclass(eq=False)
class ExitStatus(Sandboxed):
    """Runs a command on each program; status 0 passes, any other is the reason "status".

    The program is written to `{file}` where the command has that; else the command runs in a directory with the task's
    files as the candidate has them, as `Suites` has it: a program in the `target`, or a patch to the `repository`. A
    command that runs the program takes its word: a program that calls exit(0) ends well. Where programs are hostile
    use `Suites` or `Tests`. The command is the program's own run: one that uses up its time or memory refuses the
    program. A tool that may hang by itself belongs into `Compile`, or into the verifier `command`. Of languages that
    are compiled see `LanguageTests`. A tool that a shell does not find is an error.

    Args:
        sandbox: where it runs; a shared one with the strongest isolation of this machine when None. What the command
            needs beyond the system's own programs must be in its `packages` or `readable`.
        command: the program and its arguments; the task's `command` when None.
        suffix: of the program's file.
        timeout: seconds for one program.
        memory: MiB of one program.
        name: of the stage, in checks and tables.
        protected: what a patch may not change, as in `Suites`.
    """

    sandbox: Sandbox | None = None
    command: Sequence[str] | None = None
    suffix: str = ".py"
    timeout: float = 10.0
    memory: int = 1024
    name: str = "command"
    protected: Sequence[str] = PROTECTED

    @cached_property
    def traits(self) -> VerifierTraits:
        """Verdicts, under the name that was given."""
        return VerifierTraits(name=self.name, reads=frozenset(), at_once=self.at_once)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Run the command on every program of the block.

        Raises:
            ContractError: neither the stage nor the task has a command, or it is not said where the program is to
                stand.
        """
        argv = self._argv(context.task)
        limits = limits_of(seconds_of(context.task.input, self.timeout), self.memory)
        if any("{file}" in argument for argument in argv):
            box = sandbox_for(self.sandbox)
            file = f"main{self.suffix}"
            argv = tuple(argument.replace("{file}", file) for argument in argv)

            def check(programs: Sequence[str]) -> list[Check]:
                contents = [program.encode(errors="replace") for program in programs]
                ends = box.run([SandboxCommand(argv, {file: text}, limits=limits) for text in contents])
                return [abnormal(ended, limits) or _outcome(argv, ended) for ended in ends]

            return verified(context, proposal, box, self.name, "shared-process", check)
        workspace = workspace_of(context, self.protected)
        if not workspace.named:
            raise ContractError(
                f"the command of the stage {self.name!r} names no {{file}}, and task {context.task.id} has neither "
                "`target` nor `repository`"
            )
        place = workspace.box(self.sandbox)

        def judge(change: Change) -> Check:
            (ended,) = place.run([workspace.laid_out(SandboxCommand(argv, limits=limits), change)])
            return _not_started(ended) or abnormal(ended, limits) or _outcome(argv, ended)

        return workspace.verified(context, proposal, place, self.name, judge)

    def _argv(self, task: Task) -> tuple[str, ...]:
        argv = self.command if self.command is not None else task.input.get("command")
        if not isinstance(argv, Sequence) or isinstance(argv, str) or not argv:
            raise ContractError(
                f"the stage {self.name!r} has no command and task {task.id} has none either: a list of words is needed"
            )
        return tuple(map(str, argv))


def _not_started(ended: CommandExit) -> Check | None:
    """The error of a command that never ran; None of one that did."""
    message = ended.stderr.decode(errors="replace")
    if not message.startswith(NOT_STARTED):
        return None
    return Check("error", reason="sandbox", feedback=capped(message.removeprefix(NOT_STARTED).strip()))


def _outcome(argv: Sequence[str], ended: CommandExit) -> Check:
    """The check of a command that ended; where a shell has not what it was to start, the error."""
    check = by_status(ended)
    if ended.status in (126, 127) and PurePath(argv[0]).name in SHELLS:
        return replace(check, verdict="error", reason="tool")
    return check
