"""How EAGLE-3's layer learns: to go on from its own output as it will when it drafts.

A batch is a row of texts behind each other. The layer reads all their places with the target's states, then goes on
from each place that is learned several tokens, each time from what it made itself, while the tokens are the text's. In
a later step a place sees what the first one read up to it, and its own earlier steps: what drafting will hold
("training-time test", Li et al., "EAGLE-3", arXiv:2503.01840). What it should say is the target's distribution over
the tokens of its head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from draftverify_tokens.eagle_network import EagleNetwork

__all__ = ["ReadText", "TextBatch", "losses", "new_network", "rates_by_place"]

IGNORED = -100


class ReadText(NamedTuple):
    """A prompt with its answer, and what the target makes of them.

    Args:
        ids: [n] int64.
        start: how many of them are the prompt.
        states: [n, depths, width], those that the layer reads.
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


def steps_of(network: EagleNetwork, embeddings: Any, batch: TextBatch, steps: int) -> Iterator[Any]:
    """The layer's logits [bases, draft vocabulary] at each step, the answer's own tokens drafted so far."""
    seen = (batch.texts[:, None] == batch.texts) & (batch.positions[:, None] >= batch.positions)
    x, q, k, v = network.enter(embeddings(batch.next).detach(), network.join(batch.states), batch.positions)
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    attended = functional.scaled_dot_product_attention(
        *(part.transpose(0, 1) for part in (q, k, v)), attn_mask=seen
    )
    states = network.leave(x, attended.transpose(0, 1).flatten(1))[batch.bases]
    yield network.logits(states)
    seen, positions = seen[batch.bases], batch.positions[batch.bases]
    own_k, own_v = [], []
    for step in range(1, steps):
        tokens = batch.tokens[:, step].clamp(min=0)
        x, q, own, value = network.enter(embeddings(tokens).detach(), states, positions + step)
        own_k.append(own.repeat_interleave(group, 1))
        own_v.append(value.repeat_interleave(group, 1))
        scores = torch.einsum("nhd,mhd->hnm", q, k).masked_fill(~seen, float("-inf"))
        itself = torch.einsum("nhd,nshd->hns", q, torch.stack(own_k, 1))
        shares = (torch.cat([scores, itself], -1) * q.shape[-1] ** -0.5).float().softmax(-1).to(v.dtype)
        attended = torch.einsum("hnm,mhd->nhd", shares[..., : len(k)], v)
        attended = attended + torch.einsum("hns,nshd->nhd", shares[..., len(k) :], torch.stack(own_v, 1))
        states = network.leave(x, attended.flatten(1))
        yield network.logits(states)


def losses(network: EagleNetwork, embeddings: Any, head: Any, batch: TextBatch, steps: int) -> Any:
    """[steps]: the mean cross-entropy of the target's distribution over the head's tokens.

    Args:
        network: what is trained.
        embeddings: the target's.
        head: [draft vocabulary, width], the rows of the target's head.
        batch: of texts.
        steps: how many tokens ahead.
    """
    means = []
    for step, logits in enumerate(steps_of(network, embeddings, batch, steps)):
        there = batch.tokens[:, step + 1] != IGNORED
        with torch.no_grad():
            target = functional.linear(batch.last[:, step].to(head.dtype), head).float().softmax(-1)
        entropy = -(target * logits.float().log_softmax(-1)).sum(-1)
        means.append((entropy * there).sum() / there.sum().clamp(min=1))
    return torch.stack(means)


def rates_by_place(
    network: EagleNetwork, embeddings: Any, batches: Sequence[TextBatch], steps: int
) -> tuple[list[float], float]:
    """How often the layer names the answer's next tokens, where all that it drafted before them was right.

    Returns:
        The share of each place of a block, and the tokens that a pass brings with blocks of so many.
    """
    right, judged = [0] * steps, [0] * steps
    for batch in batches:
        going = torch.ones_like(batch.bases, dtype=torch.bool)
        for step, logits in enumerate(steps_of(network, embeddings, batch, steps)):
            token = batch.tokens[:, step + 1]
            going &= token != IGNORED
            judged[step] += int(going.sum())
            going &= network.tokens[logits.argmax(-1)] == token
            right[step] += int(going.sum())
    rates = [count / max(of, 1) for count, of in zip(right, judged, strict=True)]
    return rates, 1 + sum(right) / max(1, sum(map(len, batches)))


def new_network(
    config: dict[str, Any], tokens: Sequence[int], head: Any, texts: Sequence[ReadText], seed: int
) -> EagleNetwork:
    """An untrained network, whose head is the target's and stays so; its other norms bring what it reads to size 1.

    Args:
        config: of the network.
        tokens: the target's tokens that its head has.
        head: [draft vocabulary, width], those rows of the target's head.
        texts: what is to be learned.
        seed: of the other weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = EagleNetwork(config)
        for name, part in network.named_modules():
            if isinstance(part, torch.nn.Linear):
                # What is added to the residual is small at first.
                leaves = name.endswith(("o_proj", "down_proj"))
                torch.nn.init.normal_(part.weight, std=0.006 if leaves else 0.02)
    network.keep(tokens)
    normed = (functional.rms_norm(text.states.float(), text.states.shape[-1:]) for text in texts)
    with torch.no_grad():
        for norm, size in zip(network.fc_norm, _sizes(normed), strict=True):
            norm.weight.copy_(1 / size.clamp(min=1e-3))
        network.lm_head.weight.copy_(head.float())
        network.norm.weight.copy_(_sizes(text.last.float() for text in texts))
    network.lm_head.requires_grad_(False)
    return network


def _sizes(parts: Iterable[Any]) -> Any:
    """The root of the mean square of parts [n, …], over all their n."""
    total, count = 0.0, 0
    for part in parts:
        total, count = total + part.square().sum(0), count + len(part)
    return (total / count).sqrt()
