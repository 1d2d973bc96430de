"""Solutions that grow side by side, so many tokens a round, as long as a rule holds them: `reasoning.partials`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftverify import ConfigError, Context, Cost, Proposal
from draftverify_llm import Completion, TextModel
from draftverify_reasoning.answers import Form
from draftverify_reasoning.asking import Asking, answers_to, stop_across, whole_characters
from draftverify_reasoning.sample import TEMPLATE
from draftverify_reasoning.solutions import solution, solution_text

__all__ = ["Partials"]


class Partials(Asking):
    """Proposes `n` beginnings of solutions; after that the held ones, each longer by `tokens` tokens.

    An item is {"text": all that was written so far, "answer", "finished", "tokens"}: a solution is finished where the
    model ended it, or where it has `max_tokens` tokens. `Proposal.extends` says which held one an item extends. When
    all that are held are finished the proposal is empty and `exhausted`. The rule `speculative_rejection` cuts the
    weakest ones on the way; `beam` keeps the best.

    Args:
        model: a text model that can go on with a turn that was begun (`llm.local`); any, with `chat: false`.
        tokens: by how many tokens a solution grows in a round, at most.
        template: what the model is asked, with the task's fields in braces; {question} is its `question`, else its
            `prompt`.
        form: how the solution says its answer.
        system: a system prompt; none when absent.
        chat: whether the model is asked in turns; False for a model that goes on from the template's text.
        max_tokens: the most tokens in one whole solution.
        temperature: when absent the pipeline's setting, without one 0.8.
        top_p: when absent the pipeline's setting, without one 1.
        stop: strings that end a solution.

    References:
        Sun et al., "Fast Best-of-N Decoding via Speculative Rejection" (2410.20290).
    """

    shape = "alternatives"

    def __init__(
        self,
        model: TextModel,
        tokens: int = 32,
        template: str = TEMPLATE,
        form: Form = "auto",
        system: str | None = None,
        chat: bool = True,
        max_tokens: int = 512,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: Sequence[str] = (),
    ) -> None:
        super().__init__(model, template, system, max_tokens, temperature, top_p, stop)
        self.tokens = tokens
        self.form = form
        self.chat = chat

    def open(self) -> None:
        """Check the arguments.

        Raises:
            ConfigError: one is out of its range, the template cannot be filled, or the model cannot go on with a turn.
        """
        super().open()
        self._needs_continuing()
        if self.tokens < 1:
            raise ConfigError(f"tokens is {self.tokens}; at least 1 is needed", path="tokens")

    def propose(self, context: Context, n: int) -> Proposal:
        """Begin `n` solutions, or extend at most `n` of the held ones.

        Raises:
            ContractError: the task has no question.
        """
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """`propose` for many sessions, in one batch where the model has batches."""
        batches: dict[str, tuple[dict[str, Any], list[_Request]]] = {}
        for place, (context, n) in enumerate(zip(contexts, ns, strict=True)):
            for request in self._requests(place, context, n):
                how = {**self._how(context.settings), "max_tokens": request.tokens}
                batches.setdefault(repr(how), (how, []))[1].append(request)
        found: list[list[tuple[_Request, Completion]]] = [[] for _ in contexts]
        for how, requests in batches.values():
            prompts = [each.prompt for each in requests]
            numbers, seeds = [each.n for each in requests], [each.seed for each in requests]
            made = answers_to(self.model, prompts, n=numbers, seeds=seeds, **how)
            for request, answers in zip(requests, made, strict=True):
                found[request.place] += [(request, each) for each in answers]
        return [self._block(each, n) for each, n in zip(found, ns, strict=True)]

    def _requests(self, place: int, context: Context, n: int) -> list[_Request]:
        """What the model is asked for one session."""
        if n == 0:
            return []
        if not context.held:
            tokens = min(self.tokens, self.max_tokens)
            return [_Request(place, self._asked(context.task), n, context.draws.seed(), tokens)]
        growing = [(i, each.value) for i, each in enumerate(context.held) if not _finished(each.value)]
        return [
            _Request(
                place,
                self._asked(context.task, solution_text(item)),
                1,
                context.draws.seed(i),
                min(self.tokens, self.max_tokens - item["tokens"]),
                i,
                item,
            )
            for i, item in growing[:n]
        ]

    def _block(self, made: Sequence[tuple[_Request, Completion]], n: int) -> Proposal:
        """The items of one session."""
        completions = [each for _, each in made]
        return Proposal.alternatives(
            tuple([self._item(request, each) for request, each in made]),
            extends=tuple([request.extends for request, _ in made]),
            evidence={
                "tokens_out": tuple([each.tokens_out for each in completions]),
                "tokens_in": sum(each.tokens_in for each in completions),
                "finish_reason": tuple([each.finish_reason for each in completions]),
            },
            cost=Cost(units=self.model.price(completions)),
            exhausted=n > 0 and not made,
        )

    def _item(self, request: _Request, more: Completion) -> dict[str, Any]:
        """A solution that has begun, or grown."""
        begun = request.begun
        text, tokens = (solution_text(begun), begun["tokens"]) if begun is not None else ("", 0)
        # A server that counts no tokens wrote as many as it was allowed, or its solutions would never be long enough.
        tokens += more.tokens_out or request.tokens
        stopped = stop_across(text, more.text, self.stop)
        finished = more.finish_reason != "length" or stopped is not None or tokens >= self.max_tokens
        whole = (text + whole_characters(more.text))[:stopped]
        return solution(whole, self.form, finished=finished, tokens=tokens)


@dataclass(frozen=True, slots=True)
class _Request:
    """A call of the model: `n` completions of at most `tokens` tokens, for the session at `place`; of a held solution,
    which one it extends, and what it is so far."""

    place: int
    prompt: Any
    n: int
    seed: int
    tokens: int
    extends: int = -1
    begun: Mapping[str, Any] | None = None


def _finished(item: Any) -> bool:
    """Whether there is nothing to extend: what is no partial solution, such as a person's own, is whole."""
    return not isinstance(item, Mapping) or bool(item.get("finished", True))
