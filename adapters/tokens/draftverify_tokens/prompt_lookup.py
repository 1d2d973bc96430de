"""Prompt lookup: what followed the last time the text went like this. No model; good where answers repeat inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from draftverify import BlockSize, ConfigError, Context, Proposal
from draftverify.traits import GeneratorTraits
from draftverify_tokens.block_size import default_block
from draftverify_tokens.models import room
from draftverify_tokens.text_index import caught_up


class PromptLookup:
    """Drafts the tokens that followed the most recent earlier occurrence of the last few tokens.

    The longest suffix of prompt and answer that occurred before counts, from `ngram` tokens down to `at_least`; of
    several occurrences the latest. A copy that reaches the end of the text goes on with itself, so a text that repeats
    is drafted at any length. No occurrence: an empty proposal, which is one plain step.

    Args:
        ngram: the longest suffix that is looked up.
        at_least: the shortest. 1 finds more and is wrong more often, which pays only where a block costs hardly more
            than one token.

    References:
        A. Saxena, "Prompt Lookup Decoding" (2023).
    """

    traits = GeneratorTraits(shape="chain", laws={"given"}, reads=frozenset(), free=True)

    def __init__(
        self, ngram: Annotated[int, Field(ge=1)] = 3, at_least: Annotated[int, Field(ge=1)] = 2
    ) -> None:
        self.ngram = ngram
        self.at_least = at_least

    def open(self) -> None:
        """Refuse sizes that no n-gram has.

        Raises:
            ConfigError: `at_least` is greater than `ngram`.
        """
        self._index()

    def default_block(self) -> BlockSize | int:
        """A controller that measures, of up to 16 tokens."""
        return default_block("chain")

    def propose(self, context: Context, n: int) -> Proposal:
        """At most `n` tokens, copied."""
        index = caught_up(context, self, self._index)
        return Proposal.chain(index.continuation(room(context, n)))

    def continuation(self, context: Context, n: int, drafted: Sequence[int] = ()) -> tuple[int, ...]:
        """At most `n` tokens that may follow the context and `drafted`; the index does not read `drafted`."""
        index: Index = caught_up(context, self, self._index)
        return index.continuation(n, drafted)

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """As `propose`, for many sessions; it saves the driver's work of one call each."""
        return [self.propose(context, n) for context, n in zip(contexts, ns, strict=True)]

    def _index(self) -> Index:
        return Index(self.ngram, self.at_least)


class Index:
    """Where each n-gram of a growing sequence was last followed by something.

    Args:
        longest: the longest n-gram.
        shortest: the shortest.

    Raises:
        ConfigError: no n-gram has both sizes.
    """

    def __init__(self, longest: int, shortest: int) -> None:
        if not 1 <= shortest <= longest:
            raise ConfigError(
                f"at_least is {shortest} and ngram is {longest}; 1 <= at_least <= ngram is needed"
            )
        self.sizes = range(longest, shortest - 1, -1)
        self.tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}

    def extend(self, new: Sequence[int]) -> None:
        """Read on; only what is new costs time."""
        tokens = self.tokens
        old = len(tokens)
        tokens += new
        for end in range(max(old, 1), len(tokens)):  # the n-gram at the very end has nothing after it yet
            for size in self.sizes:
                if size <= end:
                    self._after[tuple(tokens[end - size : end])] = end

    def find(self, drafted: Sequence[int] = ()) -> int | None:
        """The place after the latest earlier occurrence of the longest known suffix of the text and `drafted`."""
        end = [*self.tokens[-self.sizes[0] :], *drafted]
        for size in self.sizes:
            place = self._after.get(tuple(end[-size:])) if size <= len(end) else None
            if place is not None:
                return place
        return None

    def continuation(self, n: int, drafted: Sequence[int] = ()) -> tuple[int, ...]:
        """The `n` tokens from that place on; () when nothing is found."""
        start = self.find(drafted)
        if start is None:
            return ()
        copied = [*self.tokens[start : start + n], *drafted][:n]
        if len(copied) < n:  # the copy has reached the text's end, which begins again at `start`
            copied = (copied * (n // len(copied) + 1))[:n]
        return tuple(copied)
