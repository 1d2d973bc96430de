"""Another question for the same thing: a text model writes it when the policy gives feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from draftverify import ConfigError, Context, Cost, Proposal
from draftverify.exchanges import noted
from draftverify.traits import GeneratorTraits
from draftverify_llm import (
    Completion,
    TextModel,
    asking,
    exchange_of,
    fields_of,
    question_text,
    sampling_traits,
)
from draftverify_retrieval.passages import Passages, Retriever, passage_of
from draftverify_retrieval.ranking import Ranking, Refined, next_blocks, rank_with

_TEMPLATE = """A search for passages that answer this question found none that does.
Question: {question}
Found instead:
{found}
Write another search query for the same question, in other words. Answer with the query alone."""
_CHARACTERS = 200
"""Of each refused passage that the model is shown."""


@dataclass(eq=False)
class Reformulate(Refined):
    """Drafts as its retriever does; after the policy's step `feedback` by a query that a text model writes.

    The query is the first line of the model's answer; where that is empty the question stands.

    Args:
        retriever: ranks the passages.
        model: any text model.
        template: what it is asked, with {question} and {found}, the beginnings of the refused passages, a line each.
        max_tokens: the most tokens in its answer.
        temperature: 0 takes the likeliest token each time.
    """

    retriever: Retriever
    model: TextModel
    template: str = _TEMPLATE
    max_tokens: int = 64
    temperature: float = 0.0

    @cached_property
    def traits(self) -> GeneratorTraits:  # type: ignore[override]
        """As its model's."""
        return sampling_traits(self.model, self.temperature, top_p=1.0)

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """The same for many tasks, in one search; the model is asked for each that has feedback."""
        written = {
            place: self._written(context) for place, context in enumerate(contexts) if context.feedback
        }
        queries = {id(contexts[place]): _query(answer) for place, (_, answer) in written.items()}

        def reformulated(some: Sequence[Context], k: int) -> Ranking:
            rows, scores = self.rank(some, k)
            lines = [line for line, context in enumerate(some) if queries.get(id(context))]
            if lines:
                rows[lines], scores[lines] = self.search([queries[id(some[line])] for line in lines], k)
            return rows, scores

        blocks = next_blocks(self.corpus, reformulated, contexts, ns)
        for place, (prompt, answer) in written.items():
            amount = self.model.price([answer])
            notes = noted([exchange_of(prompt, [answer], cost=amount).about(None)])
            blocks[place] = msgspec.structs.replace(blocks[place], cost=Cost(amount=amount), notes=notes)
        return blocks

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        """The retriever's."""
        return self.retriever.search(queries, k)

    def _written(self, context: Context) -> tuple[str, Completion]:
        """The prompt, and what the model made of it."""
        texts = [passage_of(refusal.item)["text"] for refusal in context.feedback]
        lines = "\n".join("- " + " ".join(text[:_CHARACTERS].split()) for text in texts)
        prompt = self.template.format(question=question_text(context.task), found=lines)
        with asking(prompt):
            completions = self.model.complete(
                prompt, max_tokens=self.max_tokens, temperature=self.temperature, seed=context.draws.seed()
            )
        return prompt, completions[0]

    def rank(self, contexts: Sequence[Context], k: int) -> Ranking:
        """The retriever's."""
        return rank_with(self.retriever, contexts, k)

    def _members(self) -> list[Any]:
        return [self.retriever, self.model]

    def _make(self) -> Passages:
        for field in fields_of(self.template):
            if field not in {"question", "found"}:
                raise ConfigError(f"there is no field {field!r}; there are question, found", path="template")
        return super()._make()


def _query(answer: Completion) -> str:
    """The first line of an answer that says anything, without quotes around it; "" where none does."""
    lines = (line.strip().strip("\"'“”`").strip() for line in answer.text.splitlines())
    return next(filter(None, lines), "")
