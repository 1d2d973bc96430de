"""Penalties for tokens that are there already: each row is penalised for what stands on its own path.

How often each token occurs in a session's prompt and answer lies on the device, in the session's memo. What was
accepted since it was counted, and the drafted tokens of every row, go there in one transfer for all sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from draftverify_tokens.history import History, upload

LOOSE = 64
"""So many tokens of an answer are carried beside the counts before they are added to them."""


class Counts:
    """A session's tokens, counted.

    Attributes:
        prompt: the prompt, of which `in_prompt` [vocabulary] says which tokens it holds.
        answer: as much of the answer as `in_answer` [vocabulary] counts.
    """

    __slots__ = ("answer", "in_answer", "in_prompt", "prompt")

    def __init__(self, prompt: Sequence[int], like: Any) -> None:
        vocabulary = like.shape[-1]
        self.prompt = prompt
        self.answer: list[int] = []
        present = np.zeros(vocabulary, dtype=bool)
        present[[token for token in prompt if token < vocabulary]] = True
        self.in_prompt = upload(present, like)
        self.in_answer = like.new_zeros(vocabulary)

    def agrees(self, history: History, like: Any) -> bool:
        """Whether what was counted is where this history begins, for logits of this kind."""
        return (
            (self.prompt is history.prompt or list(self.prompt) == list(history.prompt))
            and list(history.accepted[: len(self.answer)]) == self.answer
            and self.in_answer.shape[-1] == like.shape[-1]
            and self.in_answer.dtype == like.dtype
            and self.in_answer.device == like.device
        )

    def fold(self, tokens: list[int]) -> None:
        """Count these tokens of the answer too."""
        self.answer += tokens
        vocabulary = self.in_answer.shape[-1]
        counts = np.bincount([token for token in tokens if token < vocabulary], minlength=vocabulary)
        # Out of place: a tensor made in inference mode may not be changed outside it.
        self.in_answer = self.in_answer + upload(counts, self.in_answer).to(self.in_answer.dtype)


def penalise(
    logits: Any, histories: Sequence[History], *, repetition: float, frequency: float, presence: float
) -> Any:
    """Logits after the repetition, frequency and presence penalties.

    Args:
        logits: [rows, vocabulary].
        histories: the sessions, whose rows follow each other in `logits`.
        repetition: the logit of a token that the prompt or the answer holds is divided by it when positive, multiplied
            when not; 1 is off.
        frequency: subtracted for every time that the answer holds the token; 0 is off.
        presence: subtracted once; 0 is off.

    Returns:
        [rows, vocabulary], a new tensor.

    References:
        N. S. Keskar et al., "CTRL", arXiv:1909.05858; the OpenAI API reference for the other two.
    """
    import torch

    rows, vocabulary = logits.shape
    sessions = [_counts(history, logits) for history in histories]
    # Tokens are named by their place in one vector, so that drafted ones may stay on the device.
    loose = [
        history.accepted[len(counts.answer) :] for history, counts in zip(histories, sessions, strict=True)
    ]
    source = [upload(np.asarray([token for tokens in loose for token in tokens], dtype=np.int64), logits)]
    begin, start_of_items = 0, len(source[0])
    owners: list[int] = []
    row_of: list[int] = []
    place_of: list[int] = []
    for owner, (history, tokens) in enumerate(zip(histories, loose, strict=True)):
        for path in history.places():
            row_of += repeat(len(owners), len(tokens) + len(path))
            place_of += range(begin, begin + len(tokens))
            place_of += [start_of_items + place for place in path]
            owners.append(owner)
        source.append(history.items_like(logits))
        begin += len(tokens)
        start_of_items += len(source[-1])
    owner_of_row, row, place = upload(_padded(owners, row_of, place_of), logits)
    owner_of_row, token = owner_of_row[:rows], torch.cat(source)[place[: len(place_of)]]
    # A draft model may have fewer rows of logits than the target has tokens.
    once = (token < vocabulary).to(logits.dtype)
    flat = row[: len(row_of)] * vocabulary + token.clamp(max=vocabulary - 1)
    counted = torch.stack([session.in_answer for session in sessions])[owner_of_row]
    counted = counted.view(-1).scatter_add(0, flat, once).view(rows, vocabulary)
    if repetition != 1:
        present = torch.stack([session.in_prompt for session in sessions])[owner_of_row] | (counted > 0)
        # Divided where positive, multiplied where not: that is the smaller of the two, or the larger.
        choose = torch.minimum if repetition > 1 else torch.maximum
        logits = torch.where(present, choose(logits / repetition, logits * repetition), logits)
    if frequency:
        logits = logits - frequency * counted
    if presence:
        logits = logits - presence * (counted > 0)
    return logits


def _padded(*lists: list[int]) -> Any:
    """The lists as rows of one array, so that they go to the device in one transfer."""
    padded = np.zeros((len(lists), max(map(len, lists))), dtype=np.int64)
    for row, values in zip(padded, lists, strict=True):
        row[: len(values)] = values
    return padded


def _counts(history: History, like: Any) -> Counts:
    """The session's counts, brought near the end of its answer."""
    counts = history.memo.get("penalties")
    if counts is None or not counts.agrees(history, like):
        counts = history.memo["penalties"] = Counts(history.prompt, like)
    if len(history.accepted) - len(counts.answer) > LOOSE:
        counts.fold(list(history.accepted[len(counts.answer) :]))
    return counts
