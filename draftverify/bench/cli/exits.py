"""Exit codes, one meaning each, and which error leads to which."""

from __future__ import annotations

from enum import IntEnum

import click

from draftverify import errors


class ExitCode(IntEnum):
    """What the command's exit code says.

    Attributes:
        meaning: in words.
    """

    meaning: str

    OK = 0, "all went well"
    UNEXPECTED = 1, "an unexpected failure; --traceback shows where"
    USAGE = 2, "the command line is wrong"
    CONFIG = 3, "the config is wrong, or its parts do not fit each other"
    PLUGIN = 4, "a plugin is broken, missing or ambiguous, or broke its contract"
    RESOURCE = 5, "a file, package, model, endpoint or run directory is missing or damaged"
    FAILED_TASKS = (
        6,
        "some tasks failed, or nothing of them could be judged; or the run stopped since they all did",
    )
    WAITING = 7, "the run ended, and some tasks wait for a person (draftverify view RUN --review)"
    NOT_LOSSLESS = 8, "the audit found that an exact rule's output is not the verifier's own"
    NOT_CONFORMING = 9, "a part fails checks of the conformance kit"
    WORSE = 10, "compare --fail-on-worse saw that something is worse"
    INTERRUPTED = 130, "interrupted; the same command goes on where it stopped"

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member


_KINDS: dict[ExitCode, tuple[type[Exception], ...]] = {
    ExitCode.CONFIG: (errors.ConfigError, errors.PipelineError),
    ExitCode.PLUGIN: (errors.PluginError, errors.ContractError),
    ExitCode.RESOURCE: (errors.ResourceError, errors.EndpointError, errors.StoreError),
    ExitCode.FAILED_TASKS: (errors.RunStoppedError,),
}


def exit_for(error: BaseException) -> ExitCode:
    """The exit code for an error that ended a command."""
    codes = {exit_for(cause) for cause in getattr(error, "errors", ())}
    if len(codes) == 1:  # a config with several errors of one kind
        return codes.pop()
    return next((code for code, kinds in _KINDS.items() if isinstance(error, kinds)), ExitCode.UNEXPECTED)


def exit_with(code: ExitCode) -> None:
    """End the command under way with a code of its own."""
    click.get_current_context().exit(code)


def exit_with_tasks(*, failed: bool, waiting: bool) -> None:
    """End the command under way as its tasks did, where some failed or wait for a person."""
    if failed or waiting:
        exit_with(ExitCode.FAILED_TASKS if failed else ExitCode.WAITING)
