"""Whole solutions from any text model: `reasoning.sample`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from draftverify import Context, Feedback, Proposal
from draftverify_llm import TextModel, answer_text
from draftverify_reasoning.answers import Form
from draftverify_reasoning.asking import PromptedGenerator, asked

TEMPLATE = "{question}\n\nThink step by step, and end with a line of its own: The answer is …"


@dataclass(eq=False)
class SolutionSampler(PromptedGenerator):
    """Proposes `n` sampled solutions as alternatives: {"text": all that the model wrote, "answer": its final answer}.

    The answer is found by `form` (`draftverify_reasoning.extract`) and normalised; None where there is none. When the
    policy hands back a refusal, the refused solution and what was said of it follow as two more turns.

    The evidence and the cost are those of `llm.sample`. Solutions of many tasks are sampled in one batch where the
    model has batches.

    Args:
        model: any text model.
        template: what the model is asked, with the task's fields in braces; {question} is its `question`, else its
            `prompt`. It should ask for the answer in a form that is found, as the default does.
        form: how the solution says its answer.
        system: a system prompt; none when absent.
        chat: whether the model is asked in turns; False for a model that goes on from the template's text.
        max_tokens: the most tokens in one solution.
        temperature: 0 takes the likeliest token each time, so that all solutions are the same. When absent the
            pipeline's setting, without one 0.8.
        top_p: sample among the likeliest tokens that hold this probability together. When absent the pipeline's
            setting, without one 1.
        stop: strings that end a solution.
    """

    model: TextModel
    template: str = TEMPLATE
    form: Form = "auto"
    system: str | None = None
    chat: bool = True
    max_tokens: int = 512
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] = ()

    def propose(self, context: Context, n: int) -> Proposal:
        """Sample `n` solutions, seeded by this round's draws.

        Raises:
            ConfigError: the task has no question.
            ConfigError: there is feedback, which must be a turn, and no chat.
        """
        return self._solutions(self._sampler(self.system, self.template).propose(self._inner(context), n))

    @property
    def propose_many(self) -> Callable[[Sequence[Context], Sequence[int]], list[Proposal]]:
        """`propose` for many sessions in one batch, of a model that has `complete_many`; absent with another."""
        sample_many = self._sampler(self.system, self.template).propose_many
        return lambda contexts, ns: [
            self._solutions(texts)
            for texts in sample_many([self._inner(context) for context in contexts], ns)
        ]

    def _inner(self, context: Context) -> Context:
        """What `llm.sample` is asked: the draws, and so the seed, stay this round's."""
        task = asked(context.task)
        if not self.chat:
            task = msgspec.structs.replace(task, input={**task.input, "chat": False})
        feedback = tuple(
            [
                Feedback(answer_text(refusal.item), refusal.reason, refusal.feedback)
                for refusal in context.feedback
            ]
        )
        return msgspec.structs.replace(context, task=task, feedback=feedback)

    def _solutions(self, texts: Proposal) -> Proposal:
        items: tuple[Any, ...] = tuple(map(self._maker.solution, texts.items))
        return msgspec.structs.replace(texts, items=items)
