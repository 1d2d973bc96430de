"""Exit codes, one meaning each, and which error leads to which."""

from __future__ import annotations

from enum import IntEnum

from draftverify.errors import (
    ConfigError,
    ContractError,
    EndpointError,
    PipelineError,
    PluginError,
    ResourceError,
    StoreError,
)

__all__ = ["Exit", "exit_for"]


class Exit(IntEnum):
    """What the command's exit code says."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    CONFIG = 3
    PLUGIN = 4
    RESOURCE = 5
    FAILED_TASKS = 6
    WAITING = 7
    NOT_LOSSLESS = 8
    NOT_CONFORMING = 9
    WORSE = 10
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "all went well",
    Exit.UNEXPECTED: "an unexpected failure; --traceback shows where",
    Exit.USAGE: "the command line is wrong",
    Exit.CONFIG: "the config is wrong, or its parts do not fit each other",
    Exit.PLUGIN: "a plugin is broken, missing or ambiguous, or broke its contract",
    Exit.RESOURCE: "a file, package, model, endpoint or run directory is missing or damaged",
    Exit.FAILED_TASKS: "the run ended, and some tasks failed, or nothing of them could be judged",
    Exit.WAITING: "the run ended, and some tasks wait for a person (draftverify review)",
    Exit.NOT_LOSSLESS: "the audit found that an exact rule's output is not the verifier's own",
    Exit.NOT_CONFORMING: "a part fails checks of the conformance kit",
    Exit.WORSE: "compare --fail-on-worse saw that something is worse",
    Exit.INTERRUPTED: "interrupted; the same command goes on where it stopped",
}

_CODES: tuple[tuple[type[Exception], Exit], ...] = (
    (ConfigError, Exit.CONFIG),
    (PipelineError, Exit.CONFIG),
    (PluginError, Exit.PLUGIN),
    (ContractError, Exit.PLUGIN),
    (ResourceError, Exit.RESOURCE),
    (EndpointError, Exit.RESOURCE),
    (StoreError, Exit.RESOURCE),
)


def exit_for(error: BaseException) -> Exit:
    """The exit code for an error that ended a command."""
    codes = {exit_for(each) for each in getattr(error, "errors", ())}
    if len(codes) == 1:  # a config with several errors of one kind
        return codes.pop()
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.UNEXPECTED)
