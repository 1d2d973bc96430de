"""What drafters have in common that read the target's hidden states and draw one token after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from draftverify import Context, Proposal
from draftverify_tokens.draft_model import DraftModel
from draftverify_tokens.models import TokenModel, prompt_of
from draftverify_tokens.reader import BlockReading
from draftverify_tokens.target import hidden_states


class HiddenDrafter(DraftModel):
    """A `DraftModel` whose rows come of the target's states.

    Nothing is drafted in a session's first round, whose pass reads the prompt.

    Args:
        model: the target's model.
        margin: as `DraftModel`'s.
    """

    compiled, own_cache, lookup = None, True, None

    def __init__(self, model: TokenModel, margin: Annotated[float, Field(ge=0)] = 0.0) -> None:
        self.model = model
        self.margin = margin

    def room(self, context: Context, n: int) -> int:
        """As `DraftModel.room`; 0 where there are no states yet."""
        last = len(prompt_of(context)) + len(context.accepted) - 2
        return super().room(context, n) if last >= 0 and hidden_states(context, start=last) is not None else 0


class HiddenReader:
    """Reads as a `BlockReader` reads with a model: rows of the target's logits, chains alone."""

    no_trees = "what reads the target's states drafts chains"

    def tail(self, contexts: Sequence[Context], vocabulary: int, *, draws: bool = False) -> None:
        """Nothing is made of logits on the way."""

    def note(self, contexts: Sequence[Context]) -> None:
        """Nothing to do: what was drafted is forgotten with the next read."""


class SessionReader(HiddenReader, ABC):
    """Reads for one session after the other, as transformers' own drafters do."""

    @abstractmethod
    def begin(self, context: Context) -> Any:
        """Of a session that has states, the row [1, vocabulary] of logits after its context."""

    @abstractmethod
    def go_on(self, context: Context, token: Any, index: int) -> Any:
        """Its row after a token [1], the block's `index`-th."""

    def read(
        self, contexts: Sequence[Context], proposals: Sequence[Proposal], tail: None = None
    ) -> BlockReading:
        """The row after each context."""
        import torch

        with torch.inference_mode():
            return BlockReading(torch.cat(list(map(self.begin, contexts))), [1] * len(contexts))

    def extend(self, contexts: Sequence[Context], drafted: Any, tail: None = None) -> Sequence[Any]:
        """The row after one more drafted token of each session."""
        import torch

        place = drafted.shape[1] - 1
        with torch.inference_mode():
            pairs = zip(contexts, drafted[:, -1:], strict=True)
            return [torch.cat([self.go_on(context, token, place) for context, token in pairs])]
