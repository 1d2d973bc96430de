"""INTERIM (the real one is being written): runs commands with no isolation, so that stages can be tried."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from draftverify_code.sandbox.jobs import Command, Exit, Finding, Isolation, Limits, Suite, Tier


class Sandbox:
    """Runs untrusted programs under limits.

    Args:
        isolation: "auto" takes the strongest that this machine has, and refuses when there is none.
        packages: installed Python packages that candidates may read, with what they depend on.
        readable: further paths that candidates may read.
        workers: how many run at once; the number of processors when 0.
    """

    def __init__(
        self,
        isolation: Isolation = "auto",
        packages: Sequence[str] = (),
        readable: Sequence[Path] = (),
        workers: int = 0,
    ) -> None:
        self.isolation = isolation
        self.packages = packages
        self.readable = readable
        self.workers = workers

    @property
    def tier(self) -> Tier:
        """The isolation in force (opens the sandbox)."""
        return "none"

    def open(self) -> None: ...

    def close(self) -> None: ...

    def run(self, commands: Sequence[Command]) -> list[Exit]:
        """Run commands, as many at once as there are workers; one Exit for each, in order."""
        return [self._run(command) for command in commands]

    def _run(self, command: Command) -> Exit:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as box:
            for name, content in command.files.items():
                path = Path(box, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            try:
                done = subprocess.run(
                    command.argv,
                    input=command.stdin,
                    capture_output=True,
                    cwd=box,
                    timeout=command.limits.wall,
                )
            except subprocess.TimeoutExpired:
                return Exit(signal=9, limit="wall", seconds=time.perf_counter() - start)
            except OSError as error:
                return Exit(failure=str(error))
            found = {
                name: Path(box, name).read_bytes() for name in command.collect if Path(box, name).is_file()
            }
            code = done.returncode
            return Exit(
                status=code if code >= 0 else None,
                signal=max(-code, 0),
                stdout=done.stdout[: command.limits.output],
                stderr=done.stderr[: command.limits.output],
                files=found,
                seconds=time.perf_counter() - start,
            )

    def judge(
        self,
        suite: Suite,
        programs: Sequence[str],
        limits: Limits = Limits(),
        *,
        enough: int | None = None,
        lines: bool = False,
    ) -> list[Finding]:
        """Run a suite on programs, each in a process of its own, as many at once as there are workers.

        Args:
            suite: the tests.
            programs: Python sources.
            limits: of each program; `wall` is for all its tests together.
            enough: stop once so many passed, lowest index first; programs after that are "unchecked".
            lines: whether to note which lines of the program each test ran (slower).

        Returns:
            A Finding per program. Equal programs are run once.
        """
        raise NotImplementedError
