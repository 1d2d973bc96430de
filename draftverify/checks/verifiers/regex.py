"""Texts of a given form: `regex`."""

from __future__ import annotations

import regex

from draftverify.checks.verifiers.text import shown, text_of
from draftverify.engine.failures import failed
from draftverify.engine.functions import each_item
from draftverify.errors import ConfigError, ContractError
from draftverify.traits import VerifierTraits
from draftverify.values import PASS, Check, Context, Failure, Proposal, Verification


class Regex:
    """Passes texts that a regular expression matches; of the others it tells what does match, and what is too much.

    An item that is no text is an error. An expression that backtracks without end, such as `(a|aa)+b`, can be held up
    by a text that a model writes: after `timeout` seconds the check is a timeout, which is no rejection.

    Args:
        pattern: Python's syntax (that of the package regex); `(?i)` at its beginning for either case, `(?s)` for a dot
            that takes line breaks.
        whole: whether the whole text must match; else a part of it.
        timeout: seconds for one item.
    """

    traits = VerifierTraits(reads=frozenset(), free=True)

    def __init__(self, pattern: str, whole: bool = True, timeout: float = 1.0) -> None:
        self.pattern = pattern
        self.whole = whole
        self.timeout = timeout

    def open(self) -> None:
        """Check the pattern.

        Raises:
            ConfigError: it is no regular expression.
        """
        try:
            regex.compile(self.pattern)
        except regex.error as error:
            raise ConfigError(
                f"{self.pattern!r} is no regular expression: {error}", path="pattern"
            ) from error

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per item."""
        return each_item(context, proposal, self._check)

    def _check(self, item: object) -> Check:
        try:
            text = text_of(item, "regex")
            pattern = regex.compile(self.pattern)
            if (pattern.fullmatch if self.whole else pattern.search)(text, timeout=self.timeout):
                return PASS
            return Check("reject", reason="no match", feedback=self._why(pattern, text))
        except (ContractError, TimeoutError) as error:
            return failed(Failure.of(error))

    def _why(self, pattern: regex.Pattern[str], text: str) -> str:
        whole = "whole " if self.whole else ""
        requirement = f"the {whole}text must match the regular expression {self.pattern}"
        match, bound = None, self.timeout
        if self.whole:
            match = pattern.match(text, timeout=bound) or pattern.search(text, timeout=bound)
        if match is None or not match[0]:
            return f"{requirement}; nothing in {shown(text)} does"
        around = [
            f"{shown(part)} {where} it"
            for part, where in ((text[: match.start()], "before"), (text[match.end() :], "after"))
            if part
        ]
        return f"{requirement}; {shown(match[0])} does, but there is {' and '.join(around)}"
