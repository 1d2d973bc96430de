"""The compile stage: a compiler on each program of the block, as many at once as the sandbox runs.

Each program lies in a directory of its own. What decides is each run's exit status, not what is printed: a program
chooses what its messages say, down to the file that they name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from draftverify import Check, ConfigError, Context, Proposal, ResourceError, Task, Verification
from draftverify.traits import VerifierTraits
from draftverify_code.program import texts_of
from draftverify_code.sandbox.host import Sandbox
from draftverify_code.sandbox.jobs import MIB, SandboxCommand
from draftverify_code.stages.blocks import Static, not_text, programs_of, verification
from draftverify_code.stages.toolchains import BUILD, Toolchain, refusal, source_of, toolchain_of


@dataclass(eq=False)
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

    language: str = "c"
    flags: Sequence[str] | None = None
    timeout: float = 10.0
    sandbox: Sandbox | None = None

    _tried = False
    traits = VerifierTraits(name="compile", reads=frozenset())

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
        """Compile the whole block, equal programs once.

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
        toolchain = self._toolchain()
        flags = toolchain.quiet.split() if self.flags is None else texts_of(self.flags, "`flags`")
        call = (*toolchain.words(toolchain.check, ""), *flags)
        # Of the clock: a busy machine is no fault of the program's.
        reserve = toolchain.reserve * MIB
        allowed = replace(BUILD, wall=2 * self.timeout + 5, cpu=self.timeout, reserve=reserve, disk=64 * MIB)
        texts = [text for text in dict.fromkeys(programs) if not_text(text, "compile") is None]
        sources = [source_of(toolchain, text) for text in texts]
        commands = [
            SandboxCommand((*call, program.file), program.files, limits=allowed) for program in sources
        ]
        ends = zip(texts, box.run(commands), strict=True)
        checks = {text: refusal(ended, allowed) or Check("pass") for text, ended in ends}
        return [checks.get(program) or not_text(program, "compile") or Check("pass") for program in programs]
