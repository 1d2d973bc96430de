"""One program and its tests, checked in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from draftverify import Check, ContractError, Proposal, Task
from draftverify.kit import make_context
from draftverify_code.program import texts_of
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages.tests import Tests


def check(
    program: str,
    asserts: Sequence[str] = (),
    *,
    test: str = "",
    setup: str = "",
    entry_point: str = "",
    timeout: float = 3.0,
    memory: int = 1024,
    integrity: Literal["auto", "separate-process", "shared-process"] = "auto",
    sandbox: Sandbox | None = None,
    processes: int = 32,
    threads: int = 128,
) -> Check:
    """Run one program's tests in a sandbox.

    Args:
        program: Python.
        asserts: assert statements, each a test of its own.
        test: in their place a script, what defines `check(candidate)`, or classes and functions as unittest and
            pytest have them.
        setup: Python executed before the tests.
        entry_point: the function that is tested; what the tests call and nobody else defines, when not given.
            `check(candidate)` needs it.
        timeout: seconds for all tests together.
        memory: MiB.
        integrity: where the tests run; see `Tests`.
        processes, threads: how many of each the program may have at once.
        sandbox: where the program runs; a shared one with the strongest isolation of this machine when None. Many
            programs are better given to a stage, a block at a time.

    Returns:
        The verdict, the share of tests that passed, a reason and what a model could use to do better; the caveat
        "shared-process" where the tests ran in one process with the program.

    Raises:
        ContractError: there are no tests, or both kinds; they do not parse; or `asserts` is a single text.
        ResourceError: this machine does not allow the isolation asked for.
    """
    asserts = texts_of(asserts, "`asserts`")
    if bool(asserts) == bool(test):
        raise ContractError("give check() `asserts` or `test`, one of them")
    fields = {"test": test, "test_list": asserts, "setup": setup, "entry_point": entry_point}
    stage = Tests(sandbox, timeout, memory, integrity, processes=processes, threads=threads)
    context = make_context(Task(id="check()", input=fields))
    (check,) = stage.verify(context, Proposal.alternatives([program])).checks
    return replace(check, stage="")
