"""A model that reads its own solution and improves it: `reasoning.self_refine`.

Without anybody else's word this mostly makes solutions worse: asked for problems, a model finds some, right or wrong.
So it is refused unless a policy hands it the word of a verifier that is not of its own family, or the config says in
words that it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from draftverify import ConfigError, Context, Cost, Proposal
from draftverify.exchanges import noted
from draftverify.traits import GeneratorTraits
from draftverify_llm import Completion, Message, TextModel, answer_text, exchange_of
from draftverify_reasoning.answers import Form
from draftverify_reasoning.asking import PromptedGenerator, answers_to
from draftverify_reasoning.sample import TEMPLATE
from draftverify_reasoning.solutions import SolutionMaker

__all__ = ["SelfRefine"]

REVIEW = "Review your previous answer and find problems with it."
IMPROVE = "Based on the problems you found, improve your answer. Answer the question again:\n\n"
REFINE = "{said}\n\nImprove your answer. Answer the question again:\n\n"


class SelfRefine(PromptedGenerator):
    """Proposes `n` solutions as alternatives, each sampled as by `reasoning.sample` and then improved by its model.

    With feedback from outside, which is how it is meant: the policy has a `feedback` clause and the verifier is no
    model of the same family. Each round after a refusal puts the refused solution and what the verifier said of it into
    the prompt, and the model answers again. A pipeline without these is refused when it is built.

    Without it, the model itself reviews each solution and improves it, `rounds` times within one proposal; the item's
    `drafts` are the texts on the way. That a config wants this it says in words, by `without_outside_feedback`.

    Args:
        model: any text model.
        without_outside_feedback: "it may make answers worse", to have the model review itself; that sentence and no
            other, so that nobody switches it on without having read it. See `benchmarks/reasoning_correction.py`.
        rounds: how often it then reviews and improves.
        template: what the model is asked, with the task's fields in braces; {question} is its `question`, else its
            `prompt`.
        form: how the solution says its answer.
        system: a system prompt; none when absent.
        max_tokens: the most tokens in one turn.
        temperature: when absent the pipeline's setting, without one 0.8.
        top_p: when absent the pipeline's setting, without one 1.
        stop: strings that end a turn.

    References:
        Madaan et al., "Self-Refine" (2303.17651); Huang et al., "Large Language Models Cannot Self-Correct Reasoning
        Yet" (2310.01798), whose words the review has.
    """

    def __init__(
        self,
        model: TextModel,
        without_outside_feedback: Literal["it may make answers worse"] | None = None,
        rounds: int = 1,
        template: str = TEMPLATE,
        form: Form = "auto",
        system: str | None = None,
        max_tokens: int = 512,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: Sequence[str] = (),
    ) -> None:
        super().__init__(model, template, system, max_tokens, temperature, top_p, stop)
        self.without_outside_feedback = without_outside_feedback
        self.rounds = rounds
        self.form = form

    @cached_property
    def traits(self) -> GeneratorTraits:
        """That a pipeline must hand it an outside verifier's word, unless it reviews itself."""
        return replace(super().traits, needs_feedback=self.without_outside_feedback is None)

    @cached_property
    def _maker(self) -> SolutionMaker:
        return SolutionMaker(self.form)

    def open(self) -> None:
        """Check the arguments.

        Raises:
            ConfigError: one is out of its range, or the template cannot be filled.
        """
        super().open()
        if self.rounds < 1:
            raise ConfigError(f"rounds is {self.rounds}; at least 1 is needed", path="rounds")

    def propose(self, context: Context, n: int) -> Proposal:
        """Sample `n` solutions, or answer again what was refused; seeded by this round's draws.

        Raises:
            ConfigError: the task has no question.
        """
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """`propose` for many sessions, in one batch where the model has batches."""
        by_place: list[Proposal | None] = [None] * len(contexts)
        places_of: dict[str, list[int]] = {}
        for place, context in enumerate(contexts):
            places_of.setdefault(repr(self._how(context.settings)), []).append(place)
        for places in places_of.values():
            proposals = self._batch([contexts[place] for place in places], [ns[place] for place in places])
            for place, proposal in zip(places, proposals, strict=True):
                by_place[place] = proposal
        return [proposal for proposal in by_place if proposal is not None]

    def _batch(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """The proposals of sessions that have one temperature and one top_p."""
        slots = [(context, i) for context, n in zip(contexts, ns, strict=True) for i in range(n)]
        talks = [self._begun(context, i) for context, i in slots]
        sampling = self._how(contexts[0].settings)
        spent: list[list[Completion]] = [[] for _ in slots]
        texts: list[list[str]] = [[] for _ in slots]

        def ask(turn: int) -> list[str]:
            # A round has a seed for each turn of each item.
            seeds = [context.draws.seed(i * (2 * self.rounds + 1) + turn) for context, i in slots]
            answers = answers_to(self.model, talks, n=[1] * len(talks), seeds=seeds, **sampling)
            for talk, paid, (reply,) in zip(talks, spent, answers, strict=True):
                talk.append({"role": "assistant", "content": reply.text})
                paid.append(reply)
            return [reply.text for (reply,) in answers]

        def say(turns: Sequence[str]) -> None:
            for talk, turn in zip(talks, turns, strict=True):
                talk.append({"role": "user", "content": turn})

        for drafts, text in zip(texts, ask(0), strict=True):
            drafts.append(text)
        for turn in range(0 if self.traits.needs_feedback else self.rounds):
            say([REVIEW] * len(talks))
            ask(2 * turn + 1)
            say([IMPROVE + self._question(context) for context, _ in slots])
            for drafts, text in zip(texts, ask(2 * turn + 2), strict=True):
                drafts.append(text)
        items = iter(zip(texts, spent, talks, strict=True))
        return [self._proposal([next(items) for _ in range(n)]) for n in ns]

    def _begun(self, context: Context, i: int) -> list[Message]:
        """The turns that item i answers: the question, and what was refused with what was said of it."""
        turns = list(self._asked(context.task))
        if context.feedback:
            refusal = context.feedback[i % len(context.feedback)]
            objection = refusal.feedback or refusal.reason or "This answer is wrong."
            request = REFINE.format(said=objection) + self._question(context)
            turns += [
                {"role": "assistant", "content": answer_text(refusal.item)},
                {"role": "user", "content": request},
            ]
        return turns  # type: ignore[return-value]

    def _question(self, context: Context) -> str:
        """What the model was asked."""
        return str(self._asked(context.task)[-1]["content"])  # type: ignore[index]

    def _proposal(self, drafts: Sequence[tuple[list[str], list[Completion], Sequence[Message]]]) -> Proposal:
        completions = [completion for _, spent, _ in drafts for completion in spent]
        # An item's talk holds all its turns; the last is the answer.
        exchanges = [
            exchange_of(talk[:-1], spent[-1:], cost=self.model.price(spent), items=[item])
            for item, (_, spent, talk) in enumerate(drafts)
        ]
        return Proposal.alternatives(
            tuple([self._item(texts) for texts, _, _ in drafts]),
            notes=noted(exchanges),
            evidence={
                "tokens_out": tuple(
                    [sum(completion.tokens_out for completion in spent) for _, spent, _ in drafts]
                ),
                "tokens_in": sum(completion.tokens_in for completion in completions),
                "finish_reason": tuple([spent[-1].finish_reason for _, spent, _ in drafts]),
            },
            cost=Cost(amount=self.model.price(completions)),
        )

    def _item(self, texts: Sequence[str]) -> dict[str, Any]:
        earlier = {"drafts": list(texts[:-1])} if len(texts) > 1 else {}
        return self._maker.solution(texts[-1], **earlier)
