"""Whether there is an answer: the verifier that refuses solutions without one, and where a chain of steps ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from draftverify import PASS, Check, Context, Proposal, Verification
from draftverify.traits import VerifierTraits
from draftverify_llm import answer_text
from draftverify_reasoning.answers import FORMS, Form, extract
from draftverify_reasoning.checking import check_solutions
from draftverify_reasoning.solutions import answer_of, solution


@dataclass(eq=False)
class Answered:
    """Passes solutions that have a final answer; the others are rejected ("no answer"). Right or wrong it does not say.

    The check of a plain text is corrected to the solution that it is, with its answer, so that votes are by answers.

    Args:
        form: how the answer is found in a text that does not come with one, as of `extract`. With "auto" every text
            with a number in it has an answer; name the form that the prompt asks for.
    """

    traits = VerifierTraits(reads=frozenset())

    form: Form = "auto"

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per solution."""
        return check_solutions(proposal, self._check)

    def _check(self, item: Any) -> Check:
        if answer_of(item, self.form) is None:
            return NO_ANSWER
        return Check("pass", correction=solution(item, self.form)) if isinstance(item, str) else PASS


NO_ANSWER = Check("reject", reason="no answer", feedback="no final answer was found; end with one")


@dataclass(eq=False)
class UntilAnswered:
    """Stops a chain of steps at the first step that states the final answer, and keeps nothing after it.

    Args:
        form: how a step states it, as of `extract`; "auto" tries all but "last_number", since any step may hold a
            number.
    """

    form: Form = "auto"

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """How many of the new steps to keep: up to the answer; None where there is none yet."""
        forms = [form for form in FORMS if form != "last_number"] if self.form == "auto" else [self.form]
        for count, step in enumerate(new, 1):
            text = answer_text(step)
            if any(extract(text, form) is not None for form in forms):
                return count
        return None
