"""A container image as a place to run commands, where a task names one: docker's or podman's.

It stands where a `Sandbox` does. The files of the repository are the image's own, in its working directory; what a
candidate changes is laid out over them in a new container each time, which has no network and no capabilities.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from time import monotonic
from typing import IO

from draftverify_code.sandbox.host import usable_cores
from draftverify_code.sandbox.jobs import CommandExit, SandboxCommand

ENGINES = ("docker", "podman")
STARTING = 20.0  # seconds that a container may take to start and to end
NOT_RUN = 125  # the status with which both say that they did not run the command
GIVEN = "/draftverify"  # where the files of a command are, in the container


@dataclass(frozen=True)
class Container:
    """Runs commands in new containers of an image.

    Args:
        image: its name; it must be on this machine.
    """

    image: str

    tier = "container"
    packages: Sequence[str] = ()

    @property
    def at_once(self) -> int:
        """How many containers are to run at once."""
        return usable_cores()

    def run(self, commands: Sequence[SandboxCommand]) -> list[CommandExit]:
        """One CommandExit for each; what the engine could not run has a `failure`."""
        engine = next(filter(shutil.which, ENGINES), None)
        if engine is None:
            missing = f"the task names the image {self.image}, and neither docker nor podman is installed"
            return [CommandExit(failure=missing)] * len(commands)
        return [self._run(engine, command) for command in commands]

    def _run(self, engine: str, command: SandboxCommand) -> CommandExit:
        limits, name = command.limits, f"draftverify-{secrets.token_hex(8)}"
        with (
            tempfile.TemporaryDirectory(prefix="draftverify-given-") as given,
            tempfile.TemporaryFile() as stdin,
        ):
            Path(given).chmod(0o755)
            for file, content in command.files.items():
                (Path(given) / file).write_bytes(content)
            # An image has a Python of its own, and its own copy of what lies in `given`.
            argv = ["python" if word == sys.executable else word for word in command.argv]
            argv = [f"{GIVEN}/{word}" if word in command.files else word for word in argv]
            options = f"--rm -i --name {name} --network none --pull never --cap-drop ALL".split()
            options += ["--security-opt", "no-new-privileges", "--pids-limit", str(limits.processes)]
            options += ["--memory", str(limits.memory), "-v", f"{given}:{GIVEN}:ro"]
            options += [word for key, value in command.env.items() for word in ("-e", f"{key}={value}")]
            argv = [engine, "run", *options, self.image, *argv]
            stdin.write(command.stdin)
            stdin.seek(0)
            began = monotonic()
            with (
                subprocess.Popen(argv, stdin=stdin, stdout=PIPE, stderr=PIPE) as process,
                ThreadPoolExecutor(2) as readers,
            ):
                streams = process.stdout, process.stderr
                output, errors = (readers.submit(_beginning, stream, limits.output) for stream in streams)
                try:
                    status = process.wait(limits.wall + STARTING)
                except subprocess.TimeoutExpired:
                    subprocess.run([engine, "kill", name], capture_output=True)
                    return CommandExit(limit="wall", seconds=limits.wall)
                finally:
                    process.kill()
        if status == NOT_RUN:
            message = errors.result().decode(errors="replace").strip()
            return CommandExit(failure=f"{engine} did not run the image {self.image}: {message}")
        kept = {"stdout": output.result(), "stderr": errors.result(), "seconds": monotonic() - began}
        return CommandExit(signal=status - 128, **kept) if status > 128 else CommandExit(status, **kept)


def _beginning(stream: IO[bytes] | None, most: int) -> bytes:
    """The first bytes of a stream, all of which is read: what a program prints may have no end."""
    assert stream is not None
    beginning = stream.read(most)
    while stream.read(1 << 16):
        pass
    return beginning
