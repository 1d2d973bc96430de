"""What the trainings of all learned drafters have in common: the texts, and what is asked of drafts at their places.

A batch is a row of texts behind each other. From each place that is learned the network drafts several tokens, while
the tokens are the text's. What it should say is the target's distribution over the tokens of its head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from draftverify_tokens.drafter_network import DrafterNetwork

IGNORED = -100


class Kind(NamedTuple):
    """What the training of one kind of drafter has of its own.

    Args:
        name: in configs.
        config_of: (the target's module, `layers` of the training, its steps): the config's own part.
        network: of a config.
        initialise: (network, the texts that are learned, seed): gives it its first weights, but for its head.
        steps_of: (network, the target's embeddings, batch, steps): the logits [bases, draft vocabulary] at each step,
            the text's own tokens drafted so far.
        alone: the share of the training in which one token ahead is learned and no more.
    """

    name: str
    config_of: Callable[[Any, tuple[int, ...] | None, int], dict[str, Any]]
    network: Callable[[Mapping[str, Any]], DrafterNetwork]
    initialise: Callable[[Any, Sequence[ReadText], int], None]
    steps_of: Callable[[Any, Any, TextBatch, int], Iterable[Any]]
    alone: float


class ReadText(NamedTuple):
    """A prompt with its answer, and what the target makes of them.

    Args:
        ids: [n] int64.
        start: how many of them are the prompt.
        states: [n, depths, width], those that the network reads.
        last: [n, width], what the target's head reads.
    """

    ids: Any
    start: int
    states: Any
    last: Any


class TextBatch:
    """Texts behind each other, the last token of each left out: no state of the target's comes after it.

    Args:
        texts: at least one.
        steps: how many tokens each place goes on.

    Attributes:
        states: [places, depths, width], of the tokens.
        positions, texts: [places], where the token after each stands, and in which text.
        bases: [n], the places from which the layer goes on: those whose next token is the answer's, but its last.
        tokens: [n, steps + 1], the answer from each base's next token on; `IGNORED` behind its end.
        last: [n, steps, width], what the target's head reads at those tokens.
    """

    def __init__(self, texts: Sequence[ReadText], steps: int) -> None:
        self.states = torch.cat([text.states[:-1] for text in texts])
        self.next = torch.cat([text.ids[1:] for text in texts])
        lengths = [len(text.ids) - 1 for text in texts]
        arange = partial(torch.arange, device=self.next.device)
        self.positions = torch.cat([arange(1, n + 1) for n in lengths])
        self.texts = torch.cat([arange(1).expand(n) + index for index, n in enumerate(lengths)])
        bases, tokens, last, offset = [], [], [], 0
        for text, n in zip(texts, lengths, strict=True):
            at = arange(text.start - 1, n - 1)  # the place before the answer's first token, and on
            after = at[:, None] + arange(1, steps + 2)
            tokens.append(torch.where(after <= n, text.ids[after.clamp(max=n)], IGNORED))
            last.append(text.last[after[:, :-1].clamp(max=n)])
            bases.append(at + offset)
            offset += n
        self.bases, self.tokens, self.last = torch.cat(bases), torch.cat(tokens), torch.cat(last)

    def __len__(self) -> int:
        return len(self.bases)


def losses(drafted: Iterable[Any], head: Any, batch: TextBatch) -> Any:
    """[steps]: the mean cross-entropy of the target's distribution over the head's tokens.

    Args:
        drafted: the logits [bases, draft vocabulary] of each step.
        head: [draft vocabulary, width], the rows of the target's head.
        batch: of texts.
    """
    means = []
    for step, logits in enumerate(drafted):
        there = batch.tokens[:, step + 1] != IGNORED
        with torch.no_grad():
            target = functional.linear(batch.last[:, step].to(head.dtype), head).float().softmax(-1)
        entropy = -(target * logits.float().log_softmax(-1)).sum(-1)
        means.append((entropy * there).sum() / there.sum().clamp(min=1))
    return torch.stack(means)


def rates_by_place(
    drafted: Callable[[TextBatch, int], Iterable[Any]], tokens: Any, batches: Sequence[TextBatch], steps: int
) -> tuple[list[float], float]:
    """How often the answer's next tokens are the likeliest ones, where all that were drafted before were right.

    Args:
        drafted: of a batch the logits [bases, draft vocabulary] of each step.
        tokens: [draft vocabulary], the target's ids of the head's tokens.
        batches: of texts.
        steps: how many tokens ahead.

    Returns:
        The share of each place of a block, and the tokens that a pass brings with blocks of so many.
    """
    right, judged = [0] * steps, [0] * steps
    for batch in batches:
        going = torch.ones_like(batch.bases, dtype=torch.bool)
        for step, logits in enumerate(drafted(batch, steps)):
            token = batch.tokens[:, step + 1]
            going &= token != IGNORED
            judged[step] += int(going.sum())
            going &= tokens[logits.argmax(-1)] == token
            right[step] += int(going.sum())
    rates = [count / max(of, 1) for count, of in zip(right, judged, strict=True)]
    return rates, 1 + sum(right) / max(1, sum(map(len, batches)))
