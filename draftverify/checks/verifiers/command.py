"""Anything with an exit status as a verifier: `command`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import monotonic, sleep
from typing import IO, Any

from draftverify.engine.failures import failed
from draftverify.engine.functions import each_item
from draftverify.errors import ConfigError, ContractError
from draftverify.traits import VerifierTraits
from draftverify.values import PASS, Check, Context, Failure, Proposal, Verification, utf8

FEEDBACK = 2000
"""Characters of the command's output that feedback holds at most: its last ones."""
KEPT = 64 << 10
"""Bytes of output that are kept, whatever is written."""
FULL = 1 << 20
"""Bytes that a pipe holds at most, so many of which are read when the command has ended."""
UNRUN = {126: "what it was to run could not be executed", 127: "what it was to run was not found"}
"""The statuses by which env, sh and others say that they never ran the program."""


class Command:
    """Runs a command on each item: status 0 passes it, others reject it, and what was written is the feedback.

    An item that is text is given as it stands, another as JSON: on standard input, or in a file whose path is put in
    the place of `{file}`. No shell is between. The command runs with this process's own rights, in its directory and
    environment; the item is data to it. Where items are programs to be run, the code adapter's verifiers run them in
    a sandbox.

    The command is the check, so one that does not end in time has not refused the item: a timeout. Where it runs the
    item itself, which is to fail for hanging, let it keep a limit of its own (`timeout 5 ./run {file}`: its status 124
    rejects), or use the code adapter's `code.command`.

    A command that a signal ended, or that cannot be started, is an error, and so are the statuses 126 and 127, by which
    env and sh say that they could not run the program. When it has ended, its process group is ended too. A child that
    left the group (setsid) is not: it goes on, and nothing waits for it or keeps what it writes.

    Args:
        command: the program and its arguments; what begins with ./, ../, / or ~ is a path.
        timeout: seconds for one item.
        rejects: the statuses that reject; any other but 0 is then an error, as of a checker that failed itself. All
            but 0, 126 and 127 reject when absent.
        suffix: of the file.
    """

    traits = VerifierTraits(reads=frozenset())

    def __init__(
        self,
        command: Sequence[Path | str],
        timeout: float = 10.0,
        rejects: Sequence[int] | None = None,
        suffix: str = ".txt",
    ) -> None:
        self.command = command
        self.timeout = timeout
        self.rejects = rejects
        self.suffix = suffix

    def open(self) -> None:
        """Check the arguments.

        Raises:
            ConfigError: there is no command, or no such program; `timeout` is no time.
        """
        if not self.command or isinstance(self.command, str):
            raise ConfigError("a list of words is needed, the program first", path="command")
        program = str(self.command[0])
        if shutil.which(program) is None:
            fault = "is not executable; chmod +x it" if Path(program).is_file() else "is not there"
            raise ConfigError(f"the program {program!r} {fault}", path="command")
        if not self.timeout > 0:
            raise ConfigError(f"timeout is {self.timeout}; seconds above 0 are needed", path="timeout")

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One run per item, one after the other."""
        return each_item(context, proposal, self._check)

    def _check(self, item: Any) -> Check:
        try:
            return self._run(_bytes(item))
        except Exception as error:
            return failed(Failure.of(error))

    def _run(self, data: bytes) -> Check:
        arguments = list(map(str, self.command))
        if not any("{file}" in argument for argument in arguments):
            return self._ended(arguments, data)
        with tempfile.TemporaryDirectory(prefix="draftverify-") as folder:
            file = Path(folder, f"item{self.suffix}")
            file.write_bytes(data)
            return self._ended([argument.replace("{file}", str(file)) for argument in arguments], b"")

    def _ended(self, arguments: Sequence[str], stdin: bytes) -> Check:
        with tempfile.TemporaryFile() as stdin_file:  # a pipe would block where nobody reads it
            stdin_file.write(stdin)
            stdin_file.seek(0)
            process = subprocess.Popen(
                arguments,
                stdin=stdin_file,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        assert process.stdout is not None
        output = bytearray()
        with process.stdout as pipe:
            os.set_blocking(pipe.fileno(), False)
            try:
                status = _waited(process, pipe, output, self.timeout)
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for _ in range(FULL // KEPT):  # what left the group may still write, and is not read to its end
                if not _keep(pipe, output):
                    break
        if status is None:
            feedback = f"{arguments[0]} did not end within {self.timeout:g} s"
            return Check("timeout", reason="timeout", feedback=utf8(feedback))
        return self._judged(arguments[0], status, bytes(output).decode(errors="replace").strip()[-FEEDBACK:])

    def _judged(self, program: str, status: int, output: str) -> Check:
        if status == 0:
            return PASS
        ended = f"it was ended by signal {-status}" if status < 0 else f"it ended with status {status}"
        if status > 0 and (status not in UNRUN if self.rejects is None else status in self.rejects):
            return Check("reject", reason="status", feedback=output or utf8(f"{program} refused it: {ended}"))
        if status in UNRUN:
            ended += f" ({UNRUN[status]})"
        return Check("error", reason="status", feedback=utf8(f"{program} failed: {ended}\n{output}".strip()))


def _bytes(item: Any) -> bytes:
    try:
        text = item if type(item) is str else json.dumps(item, ensure_ascii=False, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError) as error:
        raise ContractError(f"the item cannot be written down: {error}") from error


def _waited(
    process: subprocess.Popen[bytes], pipe: IO[bytes], output: bytearray, timeout: float
) -> int | None:
    """The status of a process that is read from until it ends; None when it did not within the time."""
    deadline, pause = monotonic() + timeout, 0.0005
    with DefaultSelector() as selector:
        selector.register(pipe, EVENT_READ)
        while (status := process.poll()) is None and (seconds_left := deadline - monotonic()) > 0:
            pause = min(2 * pause, 0.05)
            if not selector.get_map():
                sleep(min(pause, seconds_left))
            elif selector.select(min(pause, seconds_left)) and not _keep(pipe, output):
                selector.unregister(pipe)
    return status


def _keep(pipe: IO[bytes], output: bytearray) -> bool:
    """Read what is there now, and keep the last of it; False at the end, and where nothing is there."""
    try:
        chunk = os.read(pipe.fileno(), KEPT)
    except BlockingIOError:
        return False
    output += chunk
    del output[:-KEPT]
    return bool(chunk)
