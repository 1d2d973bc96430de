"""What a solution is, and the one place that reads one.

A solution is a mapping {"text": all that the model wrote, "answer": its final answer, normalised, or None}; other keys
may follow. A plain text is one too, and so is a sequence of texts, the steps of a chain.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from draftverify import ContractError
from draftverify_llm import answer_text
from draftverify_reasoning.answers import Form, extract, normalised

log = logging.getLogger("draftverify.reasoning")
ENOUGH = 20
"""Solutions after which it is said that most have no answer."""


def solution(text: str, form: Form = "auto", **fields: Any) -> dict[str, Any]:
    """The solution of this text, its answer extracted by `form`: {"text", "answer", **fields}."""
    return {"text": text, "answer": _known(extract(text, form)), **fields}


class SolutionMaker:
    """Makes solutions of texts, and says once where most of them have no answer that its form finds.

    Args:
        form: how a solution says its answer.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self._made = self._unanswered = 0
        self._told = False

    def solution(self, text: str, **fields: Any) -> dict[str, Any]:
        """The solution of this text, as by the function of this name; an `answer` among the fields is its own."""
        made = solution(text, self.form, **fields)
        self._made += 1
        self._unanswered += made["answer"] is None
        if not self._told and self._made >= ENOUGH and 2 * self._unanswered > self._made:
            self._told = True
            log.warning(
                "no answer is found in %d of the first %d solutions by form %r, as in the last, which ends %r; let the "
                "prompt ask for a form that is found, or name the one that it asks for",
                self._unanswered, self._made, self.form, text[-80:],
            )  # fmt: skip
        return made


def answer_of(item: Any, form: Form = "auto") -> str | None:
    """The normalised final answer of a solution, None where it has none: what its `answer` says, or else its text.

    Raises:
        ContractError: the item is no solution.
    """
    if isinstance(item, Mapping) and "answer" in item:
        answer = item["answer"]
        if answer is None or isinstance(answer, str):
            return _known(answer)
        if isinstance(answer, (int, float)) and not isinstance(answer, bool):
            return _known(str(answer))
        raise ContractError(f"the `answer` of a solution should be a text or None, not {answer!r:.80}")
    return _known(extract(answer_text(item), form))


def spelled_answer(item: Any, form: Form = "auto") -> str | None:
    """The answer of a solution as its text spells it, for checkers to which case or spacing matters.

    That of the text where it is the solution's answer, else what the solution says its answer is.

    Raises:
        ContractError: the item is no solution.
    """
    answer = answer_of(item, form)
    if answer is None:
        return None
    spelling = extract(answer_text(item), form) if not isinstance(item, Mapping) or "text" in item else None
    return spelling if spelling is not None and normalised(spelling) == answer else answer


def _known(answer: str | None) -> str | None:
    """The answer normalised; None for none, and where nothing is left of it ("$")."""
    return (normalised(answer) or None) if answer is not None else None
