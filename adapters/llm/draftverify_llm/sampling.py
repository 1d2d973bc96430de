"""Plain sampling from a torch model: answers to many prompts in one batch, each from its own random stream."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftverify_llm.eval_mode import evaluating
from draftverify_llm.text import FinishReason, before_stop

__all__ = ["Drawn", "sample"]

COLD = 1e-6
"""Below it a temperature takes the likeliest token, as 0 does: logits that are divided by it leave float32."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One answer: its text, how many tokens were sampled, why it ended, its log-probability, and how many prompt
    tokens were read for it (answers that share a reading have them on the first)."""

    text: str
    tokens: int
    finish_reason: FinishReason
    logprob: float
    read: int


def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    n: Sequence[int],
    max_tokens: int,
    temperature: float,
    top_p: float,
    seeds: Sequence[int | None],
    ends: Collection[int],
    decode: Callable[[Sequence[int]], str],
    stop: Sequence[str] = (),
    at_once: int | None = None,
) -> list[list[Drawn]]:
    """Sample `n[k]` answers of at most `max_tokens` tokens to prompt k.

    A batch has a row per answer. Its prompts are read once each, padded on the left to the longest, and the cache is
    then repeated for the rows. Rows that have ended leave as soon as they are half of the batch. Answer i to
    prompt k draws from a generator seeded with (seeds[k], i), so that what else is asked for, in the same batch or not,
    changes none (up to rounding, which a batch's size and padding may change). Rows of a model that keeps a state in
    place of past tokens, into which padding would be read, are sampled one by one.

    Args:
        model: a transformers causal language model.
        prompts: token ids, at least one each.
        n: how many answers to each prompt, at least 1.
        max_tokens, temperature, top_p: as in `TextModel.complete`.
        seeds: one per prompt; None for any.
        ends: ids that end an answer.
        decode: ids to text.
        stop: strings that end an answer.
        at_once: the most rows of one batch, which bounds the memory; prompts of like length share one. None for all.

    Returns:
        For each prompt its answers, in order.
    """
    # A stop string that ends here lies within this many tokens: each but the special ones is a byte at least.
    window = max((len(string.encode()) for string in stop), default=0) + 4
    rows = [
        _AnswerRow(k, prompts[k], _stream(seed, i))
        for k in sorted(range(len(prompts)), key=lambda k: len(prompts[k]))
        for seed in [secrets.randbits(31) if seeds[k] is None else seeds[k]]
        for i in range(n[k])
    ]
    size = 1 if _recurrent(model) else at_once or max(len(rows), 1)
    for start in range(0, len(rows), size):
        batch = _PromptBatch(model, rows[start : start + size], max_tokens)
        for _ in range(max_tokens):
            batch.draw(temperature, top_p)
            for row in batch.rows:
                end = row.ids[-1] in ends or (
                    stop and any(string in decode(row.ids[-window:]) for string in stop)
                )
                if row.reason is None and end:
                    row.reason = "stop"
            if not batch.advance():
                break
    answers: list[list[Drawn]] = [[] for _ in prompts]
    for row in rows:
        ended = row.ids[-1] in ends
        text = decode(row.ids[:-1] if ended else row.ids)
        logprob = sum(row.logprobs[:-1] if ended else row.logprobs)
        answers[row.prompt].append(
            Drawn(before_stop(text, stop), len(row.ids), row.reason or "length", logprob, row.read)
        )
    return answers


@dataclass(slots=True, eq=False)
class _AnswerRow:
    """One answer under way."""

    prompt: int
    prompt_ids: Sequence[int]
    stream: Any
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reason: FinishReason | None = None
    read: int = 0


class _PromptBatch:
    """Rows that are sampled together: their cache, the logits of their next token, and the padding that they ignore.

    Attributes:
        rows: those that are still in the batch; some may have ended.
    """

    def __init__(self, model: Any, rows: list[_AnswerRow], max_tokens: int) -> None:
        self.model = model
        self.rows = rows
        self.max_tokens = max_tokens
        self._read()

    def _read(self) -> None:
        """Read each prompt once, and give every row its copy."""
        import torch

        head = {row.prompt: row for row in reversed(self.rows)}
        order = list(dict.fromkeys(row.prompt for row in self.rows))
        lengths = [len(head[k].prompt_ids) for k in order]
        longest, device = max(lengths), self.model.device
        pads = [longest - length for length in lengths]
        for k, length in zip(order, lengths, strict=True):
            head[k].read = length
        ids = torch.tensor(
            [[0] * pad + list(head[k].prompt_ids) for k, pad in zip(order, pads, strict=True)], device=device
        )
        self._mask = self._next = None
        extra: dict[str, Any] = {}
        if any(pads):  # without padding there is nothing to hide, and every place is its own index
            padding = torch.tensor(pads, device=device)[:, None]
            places = torch.arange(longest + self.max_tokens, device=device)[None] - padding
            self._mask = (places >= 0).long()
            extra = {
                "attention_mask": self._mask[:, :longest],
                "position_ids": places[:, :longest].clamp(min=0),
            }
            self._next = longest - padding
        with torch.inference_mode(), evaluating(self.model.modules()):
            out = self.model(ids, use_cache=True, logits_to_keep=1, **extra)
        self._cache, self._logits, self._width = out.past_key_values, out.logits[:, -1], longest
        if len(self.rows) > len(order):
            self._select([order.index(row.prompt) for row in self.rows])

    def draw(self, temperature: float, top_p: float) -> None:
        """Give every row that has not ended its next token."""
        import torch

        with torch.inference_mode():
            raw = self._logits.float().log_softmax(-1).cpu()
            alive = [place for place, row in enumerate(self.rows) if row.reason is None]
            streams = [self.rows[place].stream for place in alive]
            chosen = _choose(raw if len(alive) == len(raw) else raw[alive], temperature, top_p, streams)
            for place, token in zip(alive, chosen, strict=True):
                self.rows[place].ids.append(token)
                self.rows[place].logprobs.append(float(raw[place, token]))

    def advance(self) -> bool:
        """Let ended rows go, and read the last tokens of the others; False when there is nothing left to sample."""
        import torch

        alive = [place for place, row in enumerate(self.rows) if row.reason is None]
        if not alive or len(self.rows[alive[0]].ids) == self.max_tokens:
            return False
        if 2 * len(alive) <= len(self.rows):
            self._select(alive)
            self.rows = [self.rows[place] for place in alive]
        tokens = torch.tensor([row.ids[-1] for row in self.rows], device=self.model.device)[:, None]
        self._width += 1
        extra: dict[str, Any] = {}
        if self._mask is not None:
            extra = {"attention_mask": self._mask[:, : self._width], "position_ids": self._next}
            self._next = self._next + 1
        with torch.inference_mode(), evaluating(self.model.modules()):
            out = self.model(tokens, past_key_values=self._cache, use_cache=True, **extra)
        self._cache, self._logits = out.past_key_values, out.logits[:, -1]
        return True

    def _select(self, places: Sequence[int]) -> None:
        """These rows of all that the batch holds, in this order; one may be there several times."""
        import torch

        with torch.inference_mode():
            index = torch.tensor(places, device=self.model.device)
            self._cache.batch_select_indices(index)
            self._logits = self._logits[index]
            if self._mask is not None:
                self._mask, self._next = self._mask[index], self._next[index]


def _recurrent(model: Any) -> bool:
    """Whether some of its layers are no attention."""
    config = getattr(model, "config", None)
    kinds = getattr(getattr(config, "text_config", config), "layer_types", None) or ()
    return bool(getattr(model, "_is_stateful", False)) or any(
        not kind.endswith("attention") or kind.startswith("linear") for kind in kinds
    )


def _stream(seed: int, i: int) -> Any:
    """The random stream of answer i."""
    import torch

    return torch.Generator().manual_seed((seed * 1_000_003 + i) % 2**63)


def _choose(raw: Any, temperature: float, top_p: float, streams: Sequence[Any]) -> list[int]:
    """One token per row of `raw` [n, vocabulary] log-probabilities, each row by its own stream."""
    import torch

    if temperature < COLD:
        return [int(token) for token in raw.argmax(-1)]
    p = (raw / temperature).softmax(-1)
    if top_p < 1:
        ordered, order = p.sort(-1, descending=True)
        # The likeliest token always stays, though float32 may not tell so small a top_p from 0.
        outside = ordered.cumsum(-1) - ordered >= max(top_p, 1e-30)
        p = torch.zeros_like(p).scatter(-1, order, ordered.masked_fill(outside, 0))
    return [int(torch.multinomial(row, 1, generator=stream)) for row, stream in zip(p, streams, strict=True)]
