"""A text model as a reader that must show its evidence: an answer with a verbatim quote, which is looked up here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from draftverify import UNCHECKED, Check, ConfigError, Context, Cost, Failure, Proposal, Task, Verification
from draftverify.errors import NotBoughtError
from draftverify.exchanges import Exchange, noted
from draftverify.traits import VerifierTraits
from draftverify_llm import (
    Shared,
    TextModel,
    check_least,
    exchange_of,
    fields_of,
    model_traits,
    question_text,
    reading_traits,
)
from draftverify_retrieval.answers import normalised
from draftverify_retrieval.folding import Folded
from draftverify_retrieval.passages import Passage, indexed, passage_of
from draftverify_retrieval.reading import check_questions, place_of

PROMPT = """Answer the question from the passage alone. Reply with one JSON object and nothing else:
{{"answer": "in as few words as possible", "quote": "the words of the passage that say so, copied exactly"}}
If the passage does not answer the question, reply {{"answer": null, "quote": null}}.

Passage:
{passage}

Question: {question}"""


_TEXT = {"type": ["string", "null"]}
SCHEMA = {
    "type": "object",
    "properties": {"answer": _TEXT, "quote": _TEXT},
    "required": ["answer", "quote"],
    "additionalProperties": False,
}


class _Reading(NamedTuple):
    check: Check
    exchange: Exchange | None = None
    failure: Failure | None = None


@dataclass(eq=False)
class QuoteReader(Shared[TextModel]):
    """Asks a text model, passage by passage, for an answer and the words of the passage that say so.

    A passage passes where the quote stands in it, but for case, spaces and the form of quotation marks; the check's
    correction is the passage with the answer and the quote, which rules that select keep in its place. It is rejected
    where the model finds no answer ("no answer"), or the quote stands nowhere in it ("quote not in the passage"). A
    reply that is no such object is an abstention. No log-probability is needed, so any server will do.

    Passages are asked about side by side, as many as the model takes at once (`concurrency` of an endpoint), and no
    more of them than are still missing once `context.enough` passed.

    Args:
        model: any text model.
        prompt: with {passage} and {question}; a brace of its own is doubled.
        max_tokens: the most tokens of a reply.
        structured: hold the model to the form of the reply, where it can be held to a schema.
    """

    model: TextModel
    prompt: str = PROMPT
    max_tokens: int = 300
    structured: bool = True

    @cached_property
    def traits(self) -> VerifierTraits:
        """As its model's."""
        at_once = max(model_traits(self.model).at_once, 1)
        return reading_traits(self.model, VerifierTraits(reads=frozenset(), at_once=at_once))

    def _members(self) -> list[Any]:
        return [self.model]

    def _make(self) -> TextModel:
        """The model, once the arguments were checked.

        Raises:
            ConfigError: the prompt lacks a field, or has one that is not filled.
        """
        if set(fields_of(self.prompt)) != {"passage", "question"}:
            raise ConfigError(
                "the prompt must have {passage} and {question}, and no other field", path="prompt"
            )
        check_least(1, max_tokens=self.max_tokens)
        return self.model

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without a question, before any passage is searched.

        Raises:
            ConfigError: naming the task.
        """
        check_questions(tasks)

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """One check per passage; those that were not needed any more are unchecked.

        Raises:
            ConfigError: the task has no question.
            ContractError: an item is no passage.
            EndpointError: the model could not be asked about any of the first passages.
        """
        question = question_text(context.task).strip()
        passages = [passage_of(item) for item in proposal.items]
        readings: list[_Reading] = []
        with ThreadPoolExecutor(self.traits.at_once) as pool:
            while len(readings) < len(passages):
                passed = sum(reading.check.verdict == "pass" for reading in readings)
                if context.enough is not None and passed >= context.enough:
                    break
                coming = passages[len(readings) : len(readings) + self.traits.at_once]
                readings += pool.map(lambda passage: self._read(question, passage), coming)
                failures = [reading.failure for reading in readings if reading.failure is not None]
                if len(failures) == len(readings):  # nobody is there: the others need not be tried
                    return Verification(checks=tuple(_failed(failures[0]) for _ in passages))
        unchecked = [UNCHECKED] * (len(passages) - len(readings))
        exchanges = [
            reading.exchange.about(item)
            for item, reading in enumerate(readings)
            if reading.exchange is not None
        ]
        return Verification(
            checks=(*(reading.check for reading in readings), *unchecked),
            cost=Cost(amount=sum(exchange.cost for exchange in exchanges)),
            notes=noted(exchanges),
        )

    def _read(self, question: str, passage: Passage) -> _Reading:
        if not question:
            return _Reading(Check("abstain", reason="empty question"))
        if not passage["text"].strip():
            return _Reading(Check("reject", reason="empty passage"))
        prompt = self.prompt.format(passage=indexed(passage), question=question)
        try:
            held = self.structured and model_traits(self.model).structured
            form: dict[str, Any] = {"schema": SCHEMA} if held else {}
            completions = self.model.complete(prompt, max_tokens=self.max_tokens, temperature=0.0, **form)
        except NotBoughtError:
            raise
        except Exception as error:
            failure = Failure.of(error)
            return _Reading(_failed(failure), exchange_of(prompt, (), failure=str(failure)), failure)
        exchange = exchange_of(prompt, completions, cost=self.model.price(completions))
        return _Reading(_check(passage, completions[0].text), exchange)


def _failed(failure: Failure) -> Check:
    """The check of a passage about which the model could not be asked: no rejection."""
    return Check(
        "timeout" if failure.kind == "timeout" else "error", reason=failure.error, feedback=failure.message
    )


def _check(passage: Passage, reply: str) -> Check:
    """The check that a reply makes of a passage."""
    said = _object(reply)
    if said is None or "answer" not in said:
        return Check("abstain", reason="no verdict", feedback=reply[:500])
    answer, quote = said["answer"], said.get("quote")
    if answer is None or not normalised(str(answer)):
        return Check("reject", reason="no answer")
    place = find_quote(passage["text"], quote) if isinstance(quote, str) else None
    if place is None and isinstance(quote, str) and find_quote(passage.get("heading") or "", quote) is None:
        return Check("reject", reason="quote not in the passage", feedback=f"{quote}"[:500])
    if place is None and not isinstance(quote, str):
        return Check("reject", reason="no quote", feedback=f"{answer}"[:500])
    reading: dict[str, Any] = {**passage, "answer": str(answer), "normalised": normalised(str(answer))}
    if place is not None:
        reading["quote"] = passage["text"][place[0] : place[1]]
        start, end = place_of(str(answer), passage["text"], *place)
        if start is not None:
            reading["answer_start"], reading["answer_end"] = start, end
    return Check("pass", correction=reading)


def _object(reply: str) -> Mapping[str, Any] | None:
    """The first JSON object in a reply, whatever words or fences stand around it."""
    for start in (match.start() for match in re.finditer(r"\{", reply)):
        try:
            value, _ = json.JSONDecoder().raw_decode(reply, start)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Where a quote stands in a text as whole words, in its characters; None where it does not, or has no word."""
    folded = Folded(quote)
    return Folded(text).find(folded.text) if folded.words else None
