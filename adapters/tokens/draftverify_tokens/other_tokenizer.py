"""A draft model of another tokenizer: what it writes is brought to the target's tokens as text.

```
answer, the target's tokens ─▶ its text ─▶ the draft model's tokens ─▶ more of them ─▶ their text ─▶ the target's tokens
```

Both ways the new text is encoded together with the text before it, so that words and spaces are cut as the tokenizer
would have cut them. The target's tokens are of the law "given": a token that the target would not have written like
this is refused, and nothing else depends on how text was cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from draftverify import BlockSize, Context, Proposal, Trail
from draftverify.traits import GeneratorTraits
from draftverify_tokens.block_size import default_block
from draftverify_tokens.draft_model import DraftModel
from draftverify_tokens.models import TokenModel, prompt_of, room
from draftverify_tokens.text import HALF, LONGEST

BEHIND = 12
"""So many tokens before the new text are encoded again with it."""
KEPT = ("repetition_penalty", "frequency_penalty", "presence_penalty")
"""Settings that mean the same for other tokens."""
GREEDY = {"temperature": 0}
STRETCH = 128
"""Of the answer at most twice so many tokens are encoded anew each round."""


class OtherTokenizer:
    """Drafts with a language model whose tokens are not the target's; every exact rule stays exact.

    The draft model gets the task's prompt in its own way (through its own chat template, where it has one and the task
    came as text or turns), then the answer's text, and goes on with what it finds likeliest: of given tokens a rule
    keeps most when they are likely, whatever the temperature. Of the settings only the penalties apply to it, counted
    on its own tokens. It drafts nothing while the answer ends inside a character. Where it ends its answer, the
    target's end token is drafted.

    A model of the target's own tokenizer is better used by `DraftModel`, which has scores.

    Args:
        model: the draft model.
        target: the target's model, for its tokenizer.
        compiled: compile the draft model's steps; by default where it is on a GPU.

    References:
        Timor et al., "Accelerating LLM inference with lossless speculative decoding algorithms for heterogeneous
        vocabularies", arXiv:2502.05202 (string-level exact match); transformers' universal assisted generation.
    """

    def __init__(self, model: TokenModel, target: TokenModel, compiled: bool | None = None) -> None:
        self.model = model
        self.target = target
        self.compiled = compiled

    @cached_property
    def traits(self) -> GeneratorTraits:
        """Chains in the vocabulary of the target's tokenizer; it takes turns, as the target does."""
        return GeneratorTraits(
            shape="chain",
            reads=frozenset(KEPT),
            vocabulary=lambda: self.target.vocabulary,
            concurrent=False,
            shares=lambda: (self.model.model, self.target.model),
        )

    @cached_property
    def _drafter(self) -> DraftModel:
        return DraftModel(self.model, self.compiled)

    def open(self) -> None:
        """Load the weights, and refuse a model as `DraftModel` does.

        Raises:
            ConfigError: of the model.
        """
        self._drafter.open()

    def close(self) -> None:
        """Let the cache's memory go."""
        self._drafter.close()

    def default_block(self) -> BlockSize | int:
        """A controller that measures, of up to 16 tokens."""
        return default_block("chain")

    def propose(self, context: Context, n: int) -> Proposal:
        """At most `n` of the target's tokens."""
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """`propose` for many sessions; the draft model's steps in one batch."""
        rooms = [room(context, n) for context, n in zip(contexts, ns, strict=True)]
        proposals = [Proposal.chain(())] * len(contexts)
        indices = [
            index for index, n in enumerate(rooms) if n and not self._inside_a_character(contexts[index])
        ]
        if not indices:
            return proposals
        retold = [self._retold(contexts[index]) for index in indices]
        settings: dict[
            int, dict[str, Any]
        ] = {}  # one object for one, so that a batch's rows are treated as one
        inner = []
        for index, text_told in zip(indices, retold, strict=True):
            outer = contexts[index].settings
            shared = settings.setdefault(
                id(outer), {name: outer[name] for name in KEPT if name in outer} | GREEDY
            )
            inner.append(self._as_its_own(contexts[index], text_told, shared))
        sizes = [math.ceil(rooms[i] * text_told.ratio) for i, text_told in zip(indices, retold, strict=True)]
        drafts = self._drafter.propose_many(inner, sizes)
        for index, context, draft in zip(indices, inner, drafts, strict=True):
            drafted = self._in_the_targets_tokens(contexts[index], context, draft)
            proposals[index] = Proposal.chain(tuple(drafted[: rooms[index]]))
        return proposals

    def _inside_a_character(self, context: Context) -> bool:
        return self.target.decode(context.accepted[-2 * LONGEST :]).endswith(HALF)

    def _retold(self, context: Context) -> _Retold:
        """What the session keeps of its text in the draft model's tokens."""
        retold: _Retold | None = context.scratch.get((self, "retold"))
        if retold is None:
            retold = context.scratch[self, "retold"] = _Retold(self.model, self.target, context)
        return retold

    def _as_its_own(self, context: Context, retold: _Retold, settings: Mapping[str, Any]) -> Context:
        """The context as the draft model would have it, had it written the answer."""
        # A new list each time: the end of the answer may be cut into other tokens than a round ago, and only a prompt
        # that is another object has the reader compare all.
        input = {"prompt_ids": list(retold.prompt)}
        return msgspec.structs.replace(
            context,
            task=msgspec.structs.replace(context.task, input=input),
            accepted=Trail.of(retold.answer(context.accepted)),
            settings=settings,
            scratch=context.scratch.setdefault((self, "scratch"), {}),
        )

    def _in_the_targets_tokens(self, context: Context, inner: Context, draft: Proposal) -> list[int]:
        """The text of a draft in the target's tokens.

        Args:
            context: the session.
            own: as the draft model has it.
            draft: what the draft model adds there.
        """
        drafted = draft.items.tolist() if hasattr(draft.items, "tolist") else list(draft.items)
        end = next((i for i, token in enumerate(drafted) if token in self.model.eos_ids), None)
        text = _text(self.model, _last(prompt_of(inner), inner.accepted), drafted[:end]).rstrip(HALF)
        tokens = continuation(self.target, _last(prompt_of(context), context.accepted), text)
        eos = self.target.tokenizer.eos_token_id
        if end is not None and eos in self.target.eos_ids:
            tokens.append(eos)
        # A tokenizer may know more tokens than its model has.
        vocabulary = context.task.input.get("vocabulary", math.inf)
        return tokens[: next((i for i, token in enumerate(tokens) if token >= vocabulary), None)]


class _Retold:
    """One session's prompt and answer in the draft model's tokens.

    Attributes:
        prompt: the prompt.
        ratio: tokens of the draft model for each of the target's, measured on the prompt's text.
    """

    def __init__(self, model: TokenModel, target: TokenModel, context: Context) -> None:
        self._model, self._target = model, target
        self._given = prompt_of(context)
        text = target.decode(self._given)
        self.prompt = _prompt(model, context, text)
        self.ratio = max(1, len(_encoded(model, text))) / max(1, len(_encoded(target, text)))
        self._settled: list[int] = []
        self._told = 0  # of how many of the answer's tokens those are

    def answer(self, accepted: Sequence[int]) -> list[int]:
        """The whole answer; what came since the last look is settled as far as it is long."""
        # Where it is cut depends on the answer alone, so that a session that lost its scratch is told the same.
        while len(accepted) >= self._told + 2 * STRETCH:
            cut = self._cut(accepted)
            self._settled += self._going_on(self._text(accepted[:cut], self._told))
            self._told = cut
        return [*self._settled, *self._going_on(self._text(accepted, self._told))]

    def _cut(self, accepted: Sequence[int]) -> int:
        """Where the next stretch may end: before a word, or at least between characters."""
        start = between = self._told + STRETCH
        for place in range(start + STRETCH - 1, start - 1, -1):
            if not self._target.decode(accepted[place - BEHIND : place]).endswith(HALF):
                between = place
                if self._text(accepted[: place + 1], place)[:1].isspace():
                    return place
        return between

    def _text(self, accepted: Sequence[int], start: int) -> str:
        """The text of the answer's tokens from one on."""
        return _text(self._target, _last(self._given, accepted[:start]), accepted[start:])

    def _going_on(self, text: str) -> list[int]:
        return continuation(self._model, _last(self.prompt, self._settled), text)


def _prompt(model: TokenModel, context: Context, text: str) -> list[int]:
    """The prompt as the draft model would be given it; turns for which it has no template as the target's text."""
    fields = context.task.input
    has_template = bool(getattr(model.tokenizer, "chat_template", None))
    if "prompt" in fields or ("messages" in fields and has_template):
        ids = model.encode_prompt(fields)
    else:
        ids = list(model.tokenizer(text).input_ids)
    return ids or [min(model.eos_ids, default=0)]  # it needs a token to go on from


def continuation(model: TokenModel, prefix: Sequence[int], text: str) -> list[int]:
    """Tokens that go on from others and add a text to theirs.

    Args:
        model: whose tokens they are.
        prefix: some tokens that stand directly before.
        text: what is to be added.

    Returns:
        Where the tokenizer cuts the text before at the same places alone and with the new text: what it cuts the new
        text into there. Else the new text begins inside a word, and is encoded alone.
    """
    if not text:
        return []
    # After a line break a tokenizer that puts a space before every text puts none before this one.
    for behind in (model.decode(prefix), "\n"):
        prefix_ids, both = _encoded(model, behind), _encoded(model, behind + text)
        if both[: len(prefix_ids)] == prefix_ids:
            return both[len(prefix_ids) :]
    return _encoded(model, text)


def _text(model: TokenModel, prefix: Sequence[int], tokens: Sequence[int]) -> str:
    """What tokens add to the text of those before them: alone, a first word would lose its space."""
    behind, full = model.decode(prefix), model.decode([*prefix, *tokens])
    return full[len(behind) :] if full.startswith(behind) else model.decode(tokens)


def _encoded(model: TokenModel, text: str) -> list[int]:
    return list(model.tokenizer(text, add_special_tokens=False).input_ids)


def _last(prompt: Sequence[int], answer: Sequence[int]) -> list[int]:
    """The last tokens of both together."""
    return [*prompt[-BEHIND:], *answer[-BEHIND:]][-BEHIND:]
