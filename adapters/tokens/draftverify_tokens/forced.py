"""What the settings' schema or grammar leaves no choice about is drafted for nothing: names, quotes, commas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from draftverify import Context, Proposal
from draftverify.traits import GeneratorTraits
from draftverify_tokens.grammar import Grammar, Walk, compiled, walk_of
from draftverify_tokens.models import TokenModel, room
from draftverify_tokens.sampling import CONSTRAINTS, check_settings, read_settings


class Forced:
    """Drafts the text that must come next under the settings' `json_schema`, `regex` or `grammar`.

    Of a schema's objects these are the names of the properties with all that stands around them, and what is left of a
    word of an enum. A token that alone may stand at its place is always accepted. The end of such a text can be written
    in several ways, since its last characters may share a token with what is chosen after them: it is drafted as this
    answer wrote it the last time, or else as the tokenizer would. Nothing is proposed
    where there is a choice, where the answer can only end (the target's row after the text says so already), and where
    the settings have no such key; then the round is one plain step.

    In `tokens.first_of` it stands first. The drafter behind it goes on after the forced text in the same block, if it
    has a `continuation`, and drafts where there is a choice.

    Args:
        model: the target's model, whose tokenizer writes the text.

    References:
        llguidance's fast-forward tokens, https://github.com/guidance-ai/llguidance
    """

    certain = True

    def __init__(self, model: TokenModel) -> None:
        self.model = model

    @cached_property
    def traits(self) -> GeneratorTraits:
        """Chains in the model's vocabulary, of what the settings constrain."""
        return GeneratorTraits(
            shape="chain", reads=frozenset(CONSTRAINTS), vocabulary=lambda: self.model.vocabulary
        )

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse a constraint that is none, or that this tokenizer cannot follow.

        Raises:
            ConfigError: naming the setting.
            ResourceError: a constraint is asked for and llguidance is not installed.
        """
        check_settings({name: settings[name] for name in CONSTRAINTS if name in settings}, self.model)

    def propose(self, context: Context, n: int) -> Proposal:
        """At most `n` tokens of the text that must follow."""
        return Proposal.chain(self.continuation(context, room(context, n)))

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """As `propose`, for many sessions; it saves the driver's work of one call each."""
        return [self.propose(context, n) for context, n in zip(contexts, ns, strict=True)]

    def continuation(self, context: Context, n: int, drafted: Sequence[int] = ()) -> tuple[int, ...]:
        """At most `n` tokens of the text that must follow the context and `drafted`; () where there is a choice.

        Raises:
            ConfigError: the grammar is too much for the matcher, and will be for the target.
        """
        constraint = read_settings(context.settings).constraint
        if constraint is None or n < 1:
            return ()
        ends = context.task.input.get("eos_ids")
        grammar = compiled(constraint, self.model, None if ends is None else frozenset(ends))
        memo = context.scratch.setdefault((self, "grammar"), {})
        accepted = list(context.accepted)
        walk, written = walk_of(grammar, memo), memo.get("ends")
        if written is None or not written.continues_in(grammar, accepted):
            written = memo["ends"] = _Ends(grammar)
        # An answer that breaks the grammar is for the target to refuse.
        if walk.go(0, accepted) < len(accepted):
            return ()
        written.read(accepted)
        path = [*map(int, drafted)]
        start = len(path)
        if walk.go(len(accepted), path) < start:
            return ()
        while len(path) < start + n:
            certain, text = walk.forced()
            path += certain
            path += written.of(text)
            legal = walk.go(len(accepted), path)
            if legal < len(path) or not (certain or text):
                del path[legal:]
                break
        return tuple(path[start : start + n])


class _Ends:
    """How an answer has written the ends of its forced texts, where there were several ways.

    It follows from the accepted tokens alone: lost and made anew it says the same.

    Args:
        grammar: the constraint.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._walk = Walk(grammar)
        self._read: list[int] = []
        self._written: dict[bytes, list[int]] = {}

    def continues_in(self, grammar: Grammar, accepted: Sequence[int]) -> bool:
        """Whether what was read is where this answer begins."""
        return self._grammar is grammar and self._read == accepted[: len(self._read)]

    def of(self, text: bytes) -> list[int]:
        """The tokens in which this end will be written."""
        grammar = self._grammar
        return self._written.get(text) or (grammar.written(text) if text else [])

    def read(self, accepted: Sequence[int]) -> None:
        """Read on; only what is new costs time. A text whose end was not reached yet is read the next time."""
        text_of = self._grammar.text
        while len(self._read) < len(accepted):
            begun = len(self._read)
            certain, text = self._walk.forced()
            start = end = begun + len(certain)
            while end < len(accepted) and len(text_of(accepted[start:end])) < len(text):
                end += 1
            written = len(text_of(accepted[start:end]))
            if written < len(text):
                return
            if text:
                # A token that goes on behind the text holds what was chosen, which will be something else.
                self._written[text] = list(accepted[start : end - (written > len(text))])
            new = accepted[begun : max(end, begun + 1)]
            self._walk.go(begun, new)
            self._read += new
