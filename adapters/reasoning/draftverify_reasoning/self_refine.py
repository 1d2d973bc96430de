"""A model that reads its own solution and improves it: `reasoning.self_refine`.

Without anybody else's word this mostly makes solutions worse: asked for problems, a model finds some, right or wrong.
So it is refused unless a policy hands it the word of a verifier that is not of its own family, or the config says in
words that it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from draftverify import Context, Cost, Proposal
from draftverify.exchanges import noted
from draftverify.traits import GeneratorTraits
from draftverify_llm import Completion, Message, TextModel, answer_text, check_least, exchange_of
from draftverify_reasoning.answers import Form
from draftverify_reasoning.asking import PromptedGenerator, answers_to
from draftverify_reasoning.sample import TEMPLATE

REVIEW = "Review your previous answer and find problems with it."
IMPROVE = "Based on the problems you found, improve your answer. Answer the question again:\n\n"
REFINE = "{said}\n\nImprove your answer. Answer the question again:\n\n"


@dataclass(eq=False)
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

    model: TextModel
    without_outside_feedback: Literal["it may make answers worse"] | None = None
    rounds: int = 1
    template: str = TEMPLATE
    form: Form = "auto"
    system: str | None = None
    max_tokens: int = 512
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] = ()

    @cached_property
    def traits(self) -> GeneratorTraits:
        """That a pipeline must hand it an outside verifier's word, unless it reviews itself."""
        return replace(super().traits, needs_feedback=self.without_outside_feedback is None)

    def open(self) -> None:
        """Check the arguments.

        Raises:
            ConfigError: one is out of its range, or the template cannot be filled.
        """
        super().open()
        check_least(1, rounds=self.rounds)

    def propose(self, context: Context, n: int) -> Proposal:
        """Sample `n` solutions, or answer again what was refused; seeded by this round's draws.

        Raises:
            ConfigError: the task has no question.
        """
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """`propose` for many sessions, in one batch where the model has batches."""
        places_of: dict[str, list[int]] = {}
        for place, context in enumerate(contexts):
            places_of.setdefault(repr(self._how(context.settings)), []).append(place)
        proposals: dict[int, Proposal] = {}
        for places in places_of.values():
            batch = self._batch([contexts[place] for place in places], [ns[place] for place in places])
            proposals.update(zip(places, batch, strict=True))
        return [proposals[place] for place in range(len(contexts))]

    def _batch(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """The proposals of sessions that have one temperature and one top_p."""
        slots = [(context, i) for context, n in zip(contexts, ns, strict=True) for i in range(n)]
        talks = [self._begun(context, i) for context, i in slots]
        spent: list[list[Completion]] = [[] for _ in slots]
        reviews = 0 if self.traits.needs_feedback else self.rounds
        for turn in range(2 * reviews + 1):
            if turn:
                for (context, _), talk in zip(slots, talks, strict=True):
                    request = REVIEW if turn % 2 else IMPROVE + self._question(context)
                    talk.append({"role": "user", "content": request})
            # A round has a seed for each turn of each item.
            seeds = [context.draws.seed(i * (2 * self.rounds + 1) + turn) for context, i in slots]
            sampling = self._how(contexts[0].settings)
            answers = answers_to(self.model, talks, n=[1] * len(talks), seeds=seeds, **sampling)
            for talk, replies, (reply,) in zip(talks, spent, answers, strict=True):
                talk.append({"role": "assistant", "content": reply.text})
                replies.append(reply)
        items = iter(zip(spent, talks, strict=True))
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

    def _proposal(self, drafts: Sequence[tuple[list[Completion], Sequence[Message]]]) -> Proposal:
        completions = [reply for replies, _ in drafts for reply in replies]
        # An item's talk holds all its turns; the last is the answer.
        exchanges = [
            exchange_of(talk[:-1], replies[-1:], cost=self.model.price(replies), items=[item])
            for item, (replies, talk) in enumerate(drafts)
        ]
        return Proposal.alternatives(
            tuple([self._item([reply.text for reply in replies[::2]]) for replies, _ in drafts]),
            notes=noted(exchanges),
            evidence={
                "tokens_out": tuple([sum(reply.tokens_out for reply in replies) for replies, _ in drafts]),
                "tokens_in": sum(completion.tokens_in for completion in completions),
                "finish_reason": tuple([replies[-1].finish_reason for replies, _ in drafts]),
            },
            cost=Cost(amount=self.model.price(completions)),
        )

    def _item(self, texts: Sequence[str]) -> dict[str, Any]:
        """The solution of the last text; those before it are its drafts."""
        earlier = {"drafts": list(texts[:-1])} if len(texts) > 1 else {}
        return self._maker.solution(texts[-1], **earlier)
