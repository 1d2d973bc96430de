"""Anything with an exit status as a stage: a script of checks, a build, a linter of another language."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from functools import cached_property

from draftverify import Check, Context, ContractError, Proposal, Task, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.sandbox import CommandExit, Sandbox, SandboxCommand
from draftverify_code.stages.running import Sandboxed, abnormal, capped, limits_of, sandbox_for, verified

__all__ = ["ExitStatus"]


class ExitStatus(Sandboxed):
    """Runs a command on each program; status 0 passes, any other is the reason "status".

    The program is written to `{file}` where the command has that, else to the task's `target` among its `files`. A
    command that runs the program takes its word: a program that calls exit(0) ends well. Where programs are hostile
    use `Suites` or `Tests`. The command is the program's own run: one that uses up its time or memory refuses the
    program. A tool that may hang by itself belongs into `Compile`, or into the verifier `command`.

    Args:
        sandbox: where it runs; a shared one with the strongest isolation of this machine when None. What the command
            needs beyond the system's own programs must be in its `packages` or `readable`.
        command: the program and its arguments; the task's `command` when None.
        suffix: of the program's file.
        timeout: seconds for one program.
        memory: MiB of one program.
        name: of the stage, in checks and tables.
    """

    @cached_property
    def traits(self) -> VerifierTraits:
        """Verdicts, under the name that was given."""
        return VerifierTraits(name=self.name, reads=frozenset(), at_once=self.at_once)

    def __init__(
        self,
        sandbox: Sandbox | None = None,
        command: Sequence[str] | None = None,
        suffix: str = ".py",
        timeout: float = 10.0,
        memory: int = 1024,
        name: str = "command",
    ) -> None:
        self.sandbox = sandbox
        self.command = command
        self.suffix = suffix
        self.timeout = timeout
        self.memory = memory
        self.name = name

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Run the command on every program of the block.

        Raises:
            ContractError: neither the stage nor the task has a command, or it is not said where the program is to
                stand.
        """
        argv = self._argv(context.task)
        file, files = self._place(context.task, argv)
        argv = tuple(argument.replace("{file}", file) for argument in argv)
        limits = limits_of(self.timeout, self.memory)
        box = sandbox_for(self.sandbox)

        def check(programs: Sequence[str]) -> list[Check]:
            written = [{**files, file: program.encode(errors="replace")} for program in programs]
            ends = box.run([SandboxCommand(argv, contents, limits=limits) for contents in written])
            return [abnormal(ended, limits) or _by_status(ended) for ended in ends]

        return verified(context, proposal, box, self.name, "shared-process", check)

    def _argv(self, task: Task) -> tuple[str, ...]:
        argv = self.command if self.command is not None else task.input.get("command")
        if not isinstance(argv, Sequence) or isinstance(argv, str) or not argv:
            raise ContractError(
                f"the stage {self.name!r} has no command and task {task.id} has none either: a list of words is needed"
            )
        return tuple(map(str, argv))

    def _place(self, task: Task, argv: Sequence[str]) -> tuple[str, dict[str, bytes]]:
        """Where the program is written, and what stands beside it."""
        if any("{file}" in argument for argument in argv):
            return f"main{self.suffix}", {}
        target = task.input.get("target")
        if not isinstance(target, str) or not target:
            raise ContractError(
                f"the command of the stage {self.name!r} names no {{file}}, and task {task.id} has no `target`"
            )
        return posixpath.normpath(target), files_of(task)


def files_of(task: Task) -> dict[str, bytes]:
    """The task's `files`, as bytes.

    Raises:
        ContractError: they are no mapping of paths to texts.
    """
    files = task.input.get("files", {})
    if not isinstance(files, Mapping) or not all(isinstance(text, str) for text in files.values()):
        raise ContractError(f"the `files` of task {task.id} must be a mapping of relative paths to texts")
    return {posixpath.normpath(path): text.encode(errors="replace") for path, text in files.items()}


def _by_status(ended: CommandExit) -> Check:
    if ended.status == 0:
        return Check("pass")
    output = capped((ended.stdout + ended.stderr).decode(errors="replace").strip())
    return Check("reject", reason="status", feedback=f"it ended with status {ended.status}\n{output}")
