"""An index over one task's tokens: it lies in the task's scratch and reads only what is new since the last round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from draftverify import Context, Round
from draftverify_tokens.models import prompt_of


class TextIndex(Protocol):
    """What can be read into and grows with the text.

    Attributes:
        tokens: all that was read.
    """

    tokens: list[int]

    def extend(self, new: Sequence[int]) -> None:
        """Read on."""
        ...


IndexT = TypeVar("IndexT", bound=TextIndex)


@dataclass(slots=True, eq=False)
class _KeptIndex:
    """An index in scratch, and by what it is known to belong to the text that is there now."""

    index: Any
    prompt: Sequence[int]
    rounds: int = 0
    last: Round | None = None

    def continues_in(self, context: Context, prompt: Sequence[int]) -> bool:
        """Whether the text that was read is where the context's text begins.

        A round's record is made once and stands in one history, and what was accepted follows from the records. So the
        same prompt object, and the same record at the place of the last round that was seen, say that it is, at the
        cost of two comparisons. Where they do not (contexts made by hand), the tokens are compared.
        """
        tokens: list[int] = self.index.tokens
        if prompt is self.prompt:
            if self.rounds:
                if self.rounds <= len(context.rounds) and context.rounds[self.rounds - 1] is self.last:
                    return True
            elif len(tokens) == len(prompt):
                return True
        return tokens == [*prompt, *context.accepted][: len(tokens)]


def caught_up(context: Context, key: Any, make: Callable[[], IndexT]) -> IndexT:
    """The index that the task's scratch keeps under `key`, which has read the prompt and all that was accepted.

    A new one is made where scratch has none, or one of another text. The cost is that of the new tokens.

    Raises:
        ConfigError: the task has no prompt_ids.
    """
    prompt = prompt_of(context)
    # Taken out while it reads: one that was interrupted would have read half of a token.
    entry: _KeptIndex | None = context.scratch.pop(key, None)
    if entry is None or not entry.continues_in(context, prompt):
        entry = _KeptIndex(make(), prompt)
        entry.index.extend(prompt)
    index: IndexT = entry.index
    accepted = context.accepted
    read = len(index.tokens) - len(prompt)
    if read < len(accepted):
        index.extend(accepted[read:])
    rounds = context.rounds
    entry.rounds = len(rounds)
    entry.last = rounds[-1] if entry.rounds else None
    context.scratch[key] = entry
    return index
