"""What is handed to the sandbox and what comes back: plain values, nothing that runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from draftverify import Check

Tier: TypeAlias = Literal["bubblewrap", "namespaces", "landlock", "none"]
Isolation: TypeAlias = Literal["auto", "bubblewrap", "namespaces", "landlock", "none"]
Integrity: TypeAlias = Literal["separate-process", "mixed", "shared-process", "static"]
SuiteKind: TypeAlias = Literal["check", "script", "asserts", "doctest"]

MIB = 1 << 20


class Limits(msgspec.Struct, frozen=True):
    """What one candidate, or one command, may use before it is ended.

    Args:
        wall: seconds from start to end; for a suite those that the program itself takes, in all tests together.
        cpu: seconds of processor time, of each process.
        memory: resident bytes of all processes together, and of address space of each.
        reserve: bytes of address space beyond that, which a runtime (Java's, Go's) sets aside and does not use.
        output: bytes kept of each of standard output and standard error; what is beyond is thrown away.
        disk: bytes of all files in the scratch directory together, and of any one file.
        files: how many files and directories it may make.
        processes: how many processes at once, itself included.
        threads: how many threads at once, of all of these together.
        each: seconds of `wall` that any one test of a suite may take, with what it does itself; None for no limit.
    """

    wall: float = 10.0
    cpu: float = 10.0
    memory: int = 1024 * MIB
    output: int = 1 * MIB
    disk: int = 64 * MIB
    files: int = 1024
    processes: int = 32
    threads: int = 128
    each: float | None = None
    reserve: int = 0


class SandboxCommand(msgspec.Struct, frozen=True):
    """A program to run in a fresh scratch directory, which is its working directory and its home.

    Args:
        argv: the program, by absolute path or looked up on the sandbox's PATH, and its arguments.
        files: relative path → content, written before the start.
        stdin: given on standard input, through a pipe.
        input: which of the files is standard input in place of that; it has no name any more when the program starts.
        collect: relative paths of files to bring back, if they exist and are regular files below `limits.disk`.
        env: variables beside the sandbox's own few.
        limits: of the run.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = {}
    stdin: bytes = b""
    input: str = ""
    collect: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    limits: Limits = Limits()


class CommandExit(msgspec.Struct, frozen=True):
    """How a command, or a candidate, ended.

    Args:
        status: the exit status; None when a signal ended it.
        signal: the signal's number; 0 when none did.
        limit: the limit that it was ended for: "wall", "cpu", "memory", "disk", "processes"; "" when none.
        stdout, stderr: the first `limits.output` bytes.
        truncated: whether more was written.
        files: the collected files.
        seconds: from start to end.
        cpu: seconds of processor time that it used, of all its processes together.
        waited: seconds for which the machine kept it from the processor, less those that the sandbox's own programs
            took from each other; measured of what was ended for a limit.
        failure: why the sandbox itself could not run it; "" when it did. Nothing else means anything then.
    """

    status: int | None = None
    signal: int = 0
    limit: Literal["", "wall", "cpu", "memory", "disk", "processes"] = ""
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    files: dict[str, bytes] = {}
    seconds: float = 0.0
    cpu: float = 0.0
    waited: float = 0.0
    failure: str = ""


class Suite(msgspec.Struct, frozen=True):
    """Tests of one task that the judge runs in a process where no candidate code ever runs.

    The judge executes `setup`, then the tests, in a namespace of its own, where the names of `entry_points` are
    functions that send their arguments to the candidate and give what comes back.

    Args:
        kind: "check": `source` defines `check(candidate)`, which is called with the first entry point; "script":
            `source` is executed; "asserts": each of `asserts` is a test of its own; "doctest": `source` is a text
            with examples (`>>>`), each a test of its own.
        entry_points: names that the candidate's program must define.
        source: Python, or text for "doctest".
        asserts: Python statements.
        setup: Python executed before; trusted like the tests. Names that it defines are the judge's own, entry points
            excepted.
    """

    kind: SuiteKind
    entry_points: tuple[str, ...]
    source: str = ""
    asserts: tuple[str, ...] = ()
    setup: str = ""


class SuiteFinding(msgspec.Struct, frozen=True):
    """What the judge found of one program.

    Args:
        check: verdict, reason, feedback and score (the share of tests passed).
        passed: for each test of an "asserts" or "doctest" suite whether it passed; None where it was not run.
        seconds: from start to end.
    """

    check: Check
    passed: tuple[bool | None, ...] = ()
    seconds: float = 0.0
