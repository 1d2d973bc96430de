"""What the settings' schema or grammar leaves no choice about is drafted for nothing: names, quotes, commas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftverify import Context, Proposal
from draftverify_tokens.grammar import compiled, walk_of
from draftverify_tokens.models import TokenModel, room
from draftverify_tokens.sampling import CONSTRAINTS, check_settings, read_settings

__all__ = ["Forced"]


class Forced:
    """Drafts the text that must come next under the settings' `json_schema`, `regex` or `grammar`.

    Of a schema's objects these are the names of the properties with all that stands around them, and what is left of a
    word of an enum. A token that alone may stand at its place is always accepted. The end of such a text is a guess:
    the model may put its last characters into one token with what it chooses to say after them. Nothing is proposed
    where there is a choice, where the answer can only end (the target's row after the text says so already), and where
    the settings have no such key; then the round is one plain step.

    In `tokens.first_of` it stands first. The drafter behind it goes on after the forced text in the same block, if it
    has a `continuation`, and drafts where there is a choice.

    Args:
        model: the target's model, whose tokenizer writes the text.

    References:
        llguidance's fast-forward tokens, https://github.com/guidance-ai/llguidance
    """

    reads = frozenset(CONSTRAINTS)
    laws = frozenset({"given"})
    shape = "chain"
    certain = True

    def __init__(self, model: TokenModel) -> None:
        self.model = model

    @property
    def vocabulary(self) -> str:
        """The tokenizer's identity."""
        return self.model.vocabulary

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
            ConfigError: the grammar is too much for the matcher.
        """
        constraint = read_settings(context.settings).constraint
        if constraint is None or n < 1:
            return ()
        ends = context.task.input.get("eos_ids")
        grammar = compiled(constraint, self.model, None if ends is None else frozenset(ends))
        walk = walk_of(grammar, context.scratch.setdefault((self, "grammar"), {}))
        accepted = list(context.accepted)
        # An answer that breaks the grammar is for the target to refuse.
        if walk.go(0, accepted) < len(accepted):
            return ()
        path = [*map(int, drafted)]
        start = len(path)
        if walk.go(len(accepted), path) < start:
            return ()
        while len(path) < start + n and (guess := walk.forced()):
            path += guess
            if (legal := walk.go(len(accepted), path)) < len(path):
                del path[legal:]
                break
        return tuple(path[start : start + n])
