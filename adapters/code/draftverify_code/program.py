"""What an item of this adapter is, a program's whole text, and the closed list of reasons for which one is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from draftverify import ContractError

_NAMES = {
    "bash": "sh", "c#": "cs csharp", "c++": "cpp cc cxx", "diff": "patch", "go": "golang go_test.go",
    "javascript": "js", "julia": "jl", "perl": "pl", "python": "py python3", "racket": "rkt", "ruby": "rb",
    "rust": "rs", "typescript": "ts",
}  # fmt: skip
"""Languages, and what models, published files and people call them too."""
_LANGUAGES = {other: language for language, names in _NAMES.items() for other in names.split()}

Reason: TypeAlias = Literal[
    "patch",  # it does not apply, or changes what it may not
    "syntax",  # it does not parse
    "lint",  # the linter found an error
    "type",  # the type checker found an error
    "compile",  # the compiler refused it
    "ir",  # the module did not verify
    "assertion",  # a test's assertion did not hold
    "exception",  # it raised where the test expects none
    "output",  # what it wrote is not what was expected
    "status",  # a command ended with a status that is not zero
    "missing",  # it does not define what the tests call
    "value",  # it returned something that cannot be compared outside its process
    "exit",  # its process ended before the tests did
    "memory",  # it used more memory than it may (an error where the tests did, on what it returned)
    "disk",  # it wrote more than it may
    "processes",  # it started more processes than it may
    "no tests",  # the run ended without a report of passed tests
    "cpu",  # it used up its processor time (of a checker: a timeout)
    "wall",  # it used up its time (a timeout where it was the checker's, or the machine's doing)
    "refused",  # the sandbox refused what it asked for (an error)
    "sandbox",  # the check itself failed (an error)
    "tests",  # the tests themselves are broken (an error)
    "needs shared-process",  # the tests cannot be judged apart from the program (an error)
    "tool",  # the checker itself failed (an error)
]
"""Why a check is not a pass. `refused`, `sandbox`, `tests`, `needs shared-process` and `tool` are of verdict "error";
all others reject, but for the `cpu` and `wall` of who checks, and the `memory` of the tests."""

REASONS: tuple[str, ...] = get_args(Reason)


def program_of(item: Any, fields: Mapping[str, Any] = {}) -> str:
    """The program's text of an item: the item itself, or its `text` where it is a mapping; without a byte order mark.

    Args:
        item: of a proposal.
        fields: the task's input, whose `prologue` and `epilogue` stand before and behind every program.

    Raises:
        ContractError: it is neither, or one of these is no text.
    """
    text = item.get("text") if isinstance(item, Mapping) else item
    if not isinstance(text, str):
        raise ContractError(
            f"an item must be a program's text, or a mapping with `text`, not {type(item).__name__}"
        )
    text = text.removeprefix("\ufeff")
    prologue, epilogue = fields.get("prologue"), fields.get("epilogue")
    for part in (prologue, epilogue):
        if part is not None and not isinstance(part, str):
            raise ContractError(f"a task's `prologue` and `epilogue` should be texts, not {part!r:.80}")
    # What a program imports from the future stands before all else.
    start = _HEAD.match(text).end() if "__future__" in text else 0  # type: ignore[union-attr]
    parts = (text[: start - 1] if start else None, prologue, text[start:], epilogue)
    return "\n".join(part for part in parts if part is not None)


_HEAD = re.compile(
    r"""(?:[ \t]*(?:\#.*)?\n | [rR]?(?P<quotes>\"{3}|'{3})[\s\S]*?(?P=quotes)[ \t]*\n
    | from[ \t]+__future__[ \t]+import[ \t]+(?:[\w, ]+|\([\w,\s]*\))(?:\#.*)?\n)*""",
    re.VERBOSE,
)
"""A program's beginning: comments, its docstring, imports from the future."""


def language_of(name: str) -> str:
    """A language's own name, by any that it has."""
    return _LANGUAGES.get(name.lower(), name.lower())


def in_python(fields: Mapping[str, Any]) -> bool:
    """Whether a task's input asks for programs in Python, as it does where it names no `language`."""
    return language_of(str(fields.get("language") or "python")) == "python"


def texts_of(values: Any, label: str) -> tuple[str, ...]:
    """A list of texts; one text is none.

    Raises:
        ContractError: naming it as `label`.
    """
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        texts = tuple(values)
        if all(isinstance(text, str) for text in texts):
            return texts
    hint = "; put it into a list" if isinstance(values, str) else ""
    raise ContractError(f"{label} must be a list of texts, not {values!r:.80}{hint}")
