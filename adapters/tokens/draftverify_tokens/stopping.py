"""When an answer is over: at an end token, after a stop string, at the token limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import Field

from draftverify import ConfigError, Context, Task
from draftverify_tokens.models import TokenModel, prompt_of
from draftverify_tokens.text import Detokeniser


class Stop:
    """Ends an answer at the very token at which decoding one token at a time would end it.

    The end token, and the token that completes a stop string, are the last ones kept, as in transformers' `generate`.
    A stop string may begin and end inside a token, and straddle tokens and rounds; a character counts from the token
    that completes it, never as a replacement character before. A round costs the same however long the answer is.

    Args:
        max_tokens: the most tokens in an answer, which never has more than the model has positions for; None: so many.
        strings: texts that end an answer; they are looked for in the answer alone, not in the prompt.
        model: decodes the answer for `strings`; not needed without.
        ignore_eos: go on after an end token, for measurements of a fixed length.

    Raises:
        ConfigError: there are `strings` and no model to decode with, a string is empty, or they are one text.
    """

    def __init__(
        self,
        max_tokens: Annotated[int, Field(ge=1)] | None = None,
        strings: tuple[str, ...] = (),
        model: TokenModel | None = None,
        ignore_eos: bool = False,
    ) -> None:
        if isinstance(strings, str):
            raise ConfigError(f"strings is the text {strings!r}; a list of texts is needed", path="strings")
        if "" in strings:
            raise ConfigError("an empty text would end every answer before it begins", path="strings")
        if strings and model is None:
            raise ConfigError("`strings` needs `model`, which decodes the answer", path="model")
        self.max_tokens = max_tokens
        self.strings = strings
        self.model = model
        self.ignore_eos = ignore_eos

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """How many of the `new` tokens to keep when the answer ends among them, else None."""
        most = positions_left(context.task)
        if self.max_tokens is not None:
            most = min(most, self.max_tokens)
        beyond = len(context.accepted) - most
        ends = [len(new) - int(beyond)] if beyond >= 0 else []
        if not self.ignore_eos:
            eos = context.task.input.get("eos_ids", ())
            ends += [i + 1 for i, token in enumerate(new) if token in eos][:1]
        if self.strings and self.model is not None:
            ends += self._after_string(context, self.model, new)
        return min(ends) if ends else None

    def _after_string(self, context: Context, model: TokenModel, new: tuple[Any, ...]) -> list[int]:
        searched = len(context.accepted) - len(new)
        search: Search | None = context.scratch.get(self)
        # Accepted tokens never change, so their number says whether these are the ones that were searched.
        if search is None or search.tokens != searched:
            search = context.scratch[self] = Search(model, self.strings)
            for token in context.accepted[:searched]:
                search.push(token)
        for n, token in enumerate(new, 1):
            if search.push(token):
                return [n]
        return []


class Criteria:
    """Ends an answer where another rule does, or after a token at which a criterion of transformers' form says so.

    Args:
        stop: the other rule.
        criteria: callables (input_ids [1, n], None) -> bool, or a tensor [1] of it.
    """

    def __init__(self, stop: Stop, criteria: Sequence[Callable[[Any, Any], Any]]) -> None:
        self.stop = stop
        self.criteria = criteria

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """As `Stop`."""
        import torch

        end = self.stop(context, new)
        text = [*prompt_of(context), *context.accepted]
        for n in range(1, (len(new) if end is None else end) + 1):
            ids = torch.tensor([text[: len(text) - len(new) + n]])
            if any(bool(criterion(ids, None)) for criterion in self.criteria):
                return n
        return end


def positions_left(task: Task) -> float:
    """How long an answer can be: the token after a text that fills all positions is the last that can be known."""
    positions = task.input.get("positions")
    return math.inf if positions is None else positions - len(task.input["prompt_ids"]) + 1


class Search:
    """Looks for strings in a text that comes token by token, and keeps no more of it than a string is long.

    Args:
        model: whose tokens they are.
        strings: what to look for.

    Attributes:
        tokens: how many have come.
    """

    def __init__(self, model: TokenModel, strings: tuple[str, ...]) -> None:
        self.tokens = 0
        self._strings = strings
        self._detokeniser = Detokeniser(model)
        self._end = ""  # of the text: a string that is still incomplete begins here
        self._kept = max(map(len, strings)) - 1

    def push(self, token: int) -> bool:
        """Whether a string is complete with this token, and was not before."""
        self.tokens += 1
        searched = len(self._end)
        text = self._end + self._detokeniser.push(token)
        self._end = text[max(0, len(text) - self._kept) :]
        return any(text.find(string, max(0, searched - len(string) + 1)) >= 0 for string in self._strings)
