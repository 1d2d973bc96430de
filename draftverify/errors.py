"""Every exception that draftverify raises, and the rule for what becomes a Failure instead.

DraftVerifyError                  the root: catch this to catch all of them
├── ConfigError                   a config, option or argument is wrong; the user can mend it
│   └── ConfigErrors              (in draftverify.bench) all that is wrong with one config, at once
├── PipelineError                 parts that do not fit each other, found when the pipeline is built
├── ContractError                 a component broke its protocol (wrong shape, law, verdict count)
│   └── ConformanceError          (in draftverify.kit) the checks that a component failed
├── OutcomeError                  `Outcome.unwrap()` of a task that was not accepted
├── RunStoppedError               a run was ended before its tasks were done
├── PluginError                   a plugin is broken, missing, or one of two of the same name
├── ResourceError                 something outside is missing: a file, a package extra, a model
│   └── CorruptDownloadError      bytes that arrived are not the bytes that were promised
├── EndpointError                 a remote model answered with an error, or not at all
│   └── EndpointTimeout           (also a TimeoutError) it did not answer in time
├── NotBoughtError                a part that answers from its cache alone was asked something new
└── StoreError                    a run directory or its database cannot be used as asked

SelfVerificationWarning           (a UserWarning) a pipeline is checked by the kind of model that drafts for it

What a component raises while it works (anything at all, a ContractError or a SystemExit too) does not end a run:
the driver turns it into a `Failure` value, and the rejection policy decides what follows. Only Ctrl-C goes on.
`TimeoutError` becomes a failure of kind "timeout", anything else one of kind "error". ConfigError and
PipelineError belong before the first task and end the run there; one that a component raises while it works
is a failure like any other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from draftverify.secret import redact


class DraftVerifyError(Exception):
    """The root of the tree. No message shows a secret.

    Attributes:
        notes: what the records should keep about the call that it ended, such as what a model was asked; as of a
            Proposal.
    """

    notes: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, *args: object) -> None:
        super().__init__(*[redact(arg) if isinstance(arg, str) else arg for arg in args])

    def __str__(self) -> str:
        return redact(super().__str__())

    def __repr__(self) -> str:
        return redact(super().__repr__())


class ConfigError(DraftVerifyError):
    """A config, option or argument is wrong.

    Args:
        message: what is wrong and what to do.
        where: "file:line" where known.
        path: the dotted path of the value inside the config, e.g. "pipelines.lookup.block.at_most".
    """

    def __init__(self, message: str, *, where: str = "", path: str = "") -> None:
        self.message = redact(message)
        self.where = where
        self.path = path
        place = ": ".join(part for part in (where, path) if part)
        super().__init__(f"{place}: {message}" if place else message)


@contextmanager
def below(prefix: str, where: str = "") -> Iterator[None]:
    """A ConfigError that a part of a part raises inside says where that part stands.

    Args:
        prefix: its dotted path, before the error's own.
        where: "file:line", for an error that has none.
    """
    try:
        yield
    except ConfigError as error:
        path = f"{prefix}.{error.path}" if error.path else prefix
        raise ConfigError(error.message, where=error.where or where, path=path) from error


class PipelineError(DraftVerifyError):
    """Parts that do not fit each other; raised when a Pipeline is built, before any task runs."""


class ContractError(DraftVerifyError):
    """A component broke its protocol: what it returned is not what its kind must return."""


class OutcomeError(DraftVerifyError):
    """A task whose value was asked for ended otherwise than accepted.

    Args:
        message: how it ended and why.
        outcome: its Outcome.
    """

    def __init__(self, message: str, outcome: object) -> None:
        self.outcome = outcome
        super().__init__(message)


class PluginError(DraftVerifyError):
    """A plugin cannot be used: its import failed, it does not exist, or its name is taken twice."""


class ResourceError(DraftVerifyError):
    """Something outside the program is missing: a file, an optional package, a model's weights."""


class RunStoppedError(DraftVerifyError):
    """A run was ended before its tasks were done: they all failed alike, too many failed, or they cost too much."""


class CorruptDownloadError(ResourceError):
    """Bytes that arrived are not the bytes that were promised (their SHA-256 differs)."""


class EndpointError(DraftVerifyError):
    """A remote model answered with an error, or not at all."""


class EndpointTimeout(EndpointError, TimeoutError):
    """A remote model did not answer in time."""


class NotBoughtError(DraftVerifyError):
    """A part that answers from its cache alone was asked what it was never asked before."""


class StoreError(DraftVerifyError):
    """A run directory or its database cannot be used as asked."""


class SelfVerificationWarning(UserWarning):
    """A pipeline's verifier rests on the family of models that drafts for it, with no outside check behind it."""


self_verification_told: ContextVar[Callable[[str], None] | None] = ContextVar("told", default=None)
"""Who is told of such a pipeline in place of a warning; None where Python's warnings are. The command line sets it:
what `warnings` does is one state of the whole process, and a thread that leaves a `catch_warnings` puts an older one
back."""


_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]{8,}(?=>|, file )")
"""As Python's own reprs write it: <Part object at 0x7f4556ae3d50>."""


def without_addresses(text: str) -> str:
    """A text in which no object stands with its place in memory, which is another in every process."""
    return _ADDRESS.sub("", text) if " at 0x" in text else text


def shown(value: object) -> str:
    """A value and its type, for a message, in the same words in every run."""
    try:
        text = redact(without_addresses(repr(value)))  # before it is cut: half a key is too much of it
    except KeyboardInterrupt:
        raise
    except BaseException:  # a value so odd that it cannot even be shown
        return f"a {type(value).__name__}"
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({type(value).__name__})"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: the nearest known names, or all of them when none is near."""
    known = sorted(set(known))
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    near = near or [entry for entry in known if entry.rpartition(".")[2] == name.rpartition(".")[2]][:2]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; there are {', '.join(known)}" if known else ""


def check_known(
    noun: str, name: str, names: Iterable[str], *, path: str = "", holder: str = "there is"
) -> None:
    """Refuse a name that nothing here has.

    Args:
        noun: what has such names.
        name: that was given.
        names: that there are.
        path: where the name stands.
        holder: who has none of that name, with its verb.

    Raises:
        ConfigError: with the nearest names.
    """
    if name not in names:
        raise ConfigError(f"{holder} no {noun} {name!r}{did_you_mean(name, names)}", path=path)
