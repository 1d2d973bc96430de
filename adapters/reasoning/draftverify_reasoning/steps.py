"""Reasoning in steps that go on from those that were accepted, as one chain or several: `reasoning.steps`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from draftverify import ConfigError, Context, Proposal, Task
from draftverify.exchanges import noted, read_notes
from draftverify.traits import GeneratorTraits
from draftverify_llm import TextModel, check_least
from draftverify_reasoning.answered import UntilAnswered
from draftverify_reasoning.answers import Form
from draftverify_reasoning.asking import PromptedGenerator, stop_across, whole_characters

TEMPLATE = (
    "{question}\n\nSolve it in steps, each on a line of its own, and end with the line: The answer is …"
)


@dataclass(eq=False)
class Steps(PromptedGenerator):
    """Proposes the next steps of a solution: at most `n` in all, each a text.

    The model goes on with its own turn, which begins with the accepted steps, so that nothing that was accepted is
    written twice; after a refusal the steps that follow are sampled anew. What it writes is split at `separator`. A
    step that says the answer is the last of its chain. Once one is accepted, and where the model has nothing to add,
    the proposal is empty and `exhausted`.

    Several `chains` start from the same accepted steps and are merged into a tree: a step that several begin with
    stands there once. Steps join it depth by depth, so that `n` cuts all chains alike.

    The evidence and the cost are those of `llm.sample`, per chain.

    Args:
        model: a text model that can go on with a turn that was begun (`llm.local`); any, with `chat: false`.
        chains: how many are sampled side by side.
        template: what the model is asked, with the task's fields in braces; {question} is its `question`, else its
            `prompt`.
        separator: what stands between steps.
        form: how a step says the answer; "auto" tries all but "last_number", since any step may hold a number.
        system: a system prompt; none when absent.
        chat: whether the model is asked in turns; False for a model that goes on from the template's text.
        max_tokens: the most tokens sampled for one chain of one block. A last step that they cut off is left out,
            unless it is the only one.
        temperature: when absent the pipeline's setting, without one 0.8. With 0 a refused step comes again.
        top_p: when absent the pipeline's setting, without one 1.
        stop: strings that end a chain.
    """

    model: TextModel
    chains: int = 1
    template: str = TEMPLATE
    separator: str = "\n"
    form: Form = "auto"
    system: str | None = None
    chat: bool = True
    max_tokens: int = 512
    temperature: float | None = None
    top_p: float | None = None
    stop: Sequence[str] = ()

    @cached_property
    def traits(self) -> GeneratorTraits:
        """That it drafts a chain, or a tree where there are several."""
        return replace(super().traits, shape="chain" if self.chains == 1 else "tree")

    def open(self) -> None:
        """Check the arguments.

        Raises:
            ConfigError: one is out of its range, the template cannot be filled, or the model cannot go on with a turn.
        """
        super().open()
        self._needs_continuing()
        check_least(1, chains=self.chains)
        if not self.separator:
            raise ConfigError("a text is needed", path="separator")

    def propose(self, context: Context, n: int) -> Proposal:
        """Sample the steps that come next, seeded by this round's draws.

        Raises:
            ConfigError: the task has no question.
        """
        if n == 0 or self._answered(context):
            return self._nothing(n)
        texts = self._sampler().propose(self._inner(context), min(self.chains, n))
        return self._block(context, texts, n)

    @property
    def propose_many(self) -> Callable[[Sequence[Context], Sequence[int]], list[Proposal]]:
        """`propose` for many sessions in one batch, of a model that has `complete_many`; absent with another."""
        sample_many = self._sampler().propose_many

        def propose(contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
            sizes = [
                0 if self._answered(context) else min(self.chains, n)
                for context, n in zip(contexts, ns, strict=True)
            ]
            samples = sample_many([self._inner(context) for context in contexts], sizes)
            return [
                self._block(context, texts, n) if size else self._nothing(n)
                for context, texts, size, n in zip(contexts, samples, sizes, ns, strict=True)
            ]

        return propose

    def _answered(self, context: Context) -> bool:
        """Whether the last accepted step says the answer."""
        return UntilAnswered(self.form)(context, tuple(context.accepted[-1:])) is not None

    def _nothing(self, n: int) -> Proposal:
        return Proposal(items=(), parents=(), exhausted=n > 0)

    def _inner(self, context: Context) -> Context:
        """What `llm.sample` is asked: to go on behind the accepted steps. The draws stay this round's."""
        prompt = self._asked(context.task, self._begun(context))
        input: dict[str, Any] = {"messages": prompt} if self.chat else {"prompt": prompt, "chat": False}
        return msgspec.structs.replace(context, task=Task(id=context.task.id, input=input), feedback=())

    def _begun(self, context: Context) -> str:
        """What the model goes on from."""
        return "".join(f"{step}{self.separator}" for step in context.accepted)

    def _block(self, context: Context, samples: Proposal, n: int) -> Proposal:
        """The sampled chains as one block."""
        endings = [reason != "length" for reason in samples.evidence["finish_reason"]]
        begun = self._begun(context)
        texts = ["" if stop_across(begun, text, self.stop) is not None else text for text in samples.items]
        chains = [self._steps(context, text, ended) for text, ended in zip(texts, endings, strict=True)]
        items, parents = _merged(chains, n)
        asked = [exchange.about(None) for exchange in read_notes(samples.notes)]
        return msgspec.structs.replace(
            samples, items=items, parents=parents, exhausted=not items, notes=noted(asked)
        )

    def _steps(self, context: Context, text: str, ended: bool) -> list[str]:
        """The steps in a text, to the one that says the answer."""
        *parts, remainder = whole_characters(text).split(self.separator)
        if ended or not any(part.strip() for part in parts):
            parts.append(remainder)
        steps = [step for part in parts if (step := part.strip())]
        return steps[: UntilAnswered(self.form)(context, tuple(steps))]


def _merged(chains: Sequence[Sequence[str]], n: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """At most `n` steps of all chains with their parents, those of one depth before the next."""
    places: dict[tuple[str, ...], int] = {(): -1}
    items: list[str] = []
    parents: list[int] = []
    for depth in range(max(map(len, chains), default=0)):
        for chain in chains:
            path = tuple(chain[: depth + 1])
            if depth < len(chain) and path not in places and path[:-1] in places and len(items) < n:
                places[path] = len(items)
                items.append(path[-1])
                parents.append(places[path[:-1]])
    return tuple(items), tuple(parents)
