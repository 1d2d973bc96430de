"""A real terminal for tests: a pseudo-terminal of so many columns, and what a command writes to it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

COMMANDS = (
    "import sys; from draftverify.bench.cli.main import main; [main(each.split()) for each in sys.argv[1:]]"
)


def on_terminal(commands: Sequence[str], columns: int, cwd: Path) -> str:
    """What commands of draftverify, one after the other in one process, write to a terminal; colours taken out.

    Args:
        commands: each as it is typed, without quoting.
        columns: of the terminal.
        cwd: where they run.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", COMMANDS, *commands],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**env, "TERM": "xterm-256color"},
        cwd=cwd,
    )
    os.close(theirs)
    written = bytearray()
    try:
        while data := os.read(ours, 65536):
            written += data
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    process.wait(60)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode()).replace("\r\n", "\n")
