"""What a text model is told: the texts around a task, a refused attempt and what was said of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter

from draftverify import ConfigError

__all__ = ["Templates", "check_templates", "commented", "filled"]


@dataclass(frozen=True)
class Templates:
    """The texts, as for `str.format`: a brace of their own is doubled. Runs of empty lines become one;
    what is put in stays as it is.

    Everywhere there is {language} and {entry_point} ("" where a task has none).

    Args:
        complete: asks a chat model to complete code; {prompt} is the code.
        write: asks a chat model for a program; {prompt} is the task in words.
        attempt: a refused program as the chat model's own turn; {attempt} is the program.
        refused: the user's turn after it; {stage} of the verifier, {reason}, {feedback}.
        docstring: what a model without chat continues when the task is in words; {prompt}.
        remark: a refused program for a model without chat, {attempt}, {stage}, {reason}, {feedback}. It is put, as
            a block of comments, above what the model continues.
    """

    complete: str = (
        "Complete this {language} function. Answer with the whole function, with the imports it needs, in one "
        "block of code.\n\n```{language}\n{prompt}\n```"
    )
    write: str = "{prompt}\n\nAnswer with the whole {language} program in one block of code."
    attempt: str = "```{language}\n{attempt}\n```"
    refused: str = (
        "This program was refused ({stage}: {reason}).\n\n{feedback}\n\n"
        "Answer with the whole corrected program in one block of code."
    )
    docstring: str = '"""\n{prompt}\n"""\n'
    remark: str = (
        "This attempt was refused ({stage}: {reason}):\n\n{attempt}\n\n{feedback}\n\nThe corrected program:"
    )


_WORDS: Mapping[str, tuple[str, ...]] = {
    "complete": ("prompt",), "write": ("prompt",), "attempt": ("attempt",), "docstring": ("prompt",),
    "refused": ("feedback", "stage", "reason"), "remark": ("feedback", "attempt", "stage", "reason"),
}  # fmt: skip
"""What each template may have beside the words that all have; the first it must have."""


def check_templates(templates: Templates) -> None:
    """Refuse templates that cannot be filled, or that leave out what they are for.

    Raises:
        ConfigError: naming the template and the word.
    """
    for name, (needed, *more) in _WORDS.items():
        allowed = {needed, *more, "language", "entry_point"}
        try:
            parts = Formatter().parse(getattr(templates, name))
            words = [word for _, word, _, _ in parts if word is not None]
        except ValueError as error:
            raise ConfigError(f"{error}; a brace of its own is doubled", path=f"templates.{name}") from error
        for word in words:
            if word not in allowed:
                known = ", ".join(f"{{{each}}}" for each in sorted(allowed))
                message = f"{{{word}}} is not known here; {known} are (a brace of its own is doubled)"
                raise ConfigError(message, path=f"templates.{name}")
        if needed not in words:
            raise ConfigError(f"{{{needed}}} is missing", path=f"templates.{name}")


def filled(template: str, **words: str) -> str:
    """The template with its words, at most one empty line in a row outside of them."""
    parts: list[str] = []
    own = ""
    for text, name, _, _ in Formatter().parse(template):
        own += text
        if name is not None and words[name]:
            parts += [_paragraphs(own), words[name]]
            own = ""
    return "".join(parts) + _paragraphs(own)


def _paragraphs(text: str) -> str:
    # A word that is empty leaves an empty paragraph behind.
    return re.sub(r"\n{3,}", "\n\n", text)


def commented(text: str, language: str) -> str:
    """The text as a block of comments."""
    mark = "#" if language in ("python", "ruby", "r", "bash", "perl") else "//"
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in text.splitlines())
