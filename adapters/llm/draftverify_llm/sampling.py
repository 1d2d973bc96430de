"""Plain sampling from a torch model: answers to many prompts in one batch, each from its own random stream."""

from __future__ import annotations

import inspect
import math
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from draftverify.errors import ConfigError
from draftverify_llm.eval_mode import evaluating
from draftverify_llm.text import Completion, FinishReason, before_stop

COLD = 1e-6
"""Below it a temperature takes the likeliest token, as 0 does: logits that are divided by it leave float32."""


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
) -> list[list[Completion]]:
    """Sample `n[k]` answers of at most `max_tokens` tokens to prompt k, or as many as the model has positions for.

    A batch has a row per answer. Its prompts are read once each, padded on the left to the longest, and the cache is
    then repeated for the rows. Rows that have ended leave as soon as they are half of the batch. Answer i to
    prompt k draws from a generator seeded with (seeds[k], i), so that what else is asked for, in the same batch or not,
    changes none (up to rounding, which a batch's size and padding may change). Rows of a model that keeps a state in
    place of past tokens are sampled one by one: such a cache cannot be repeated, nor cut to some of its rows. So are
    those that a model reads otherwise where they are padded.

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
    reach = max((len(string.encode()) for string in stop), default=0) + 4
    rows = [
        _AnswerRow(k, prompts[k], _stream(seed, i), min(max_tokens, window_of(model) - len(prompts[k]) + 1))
        for k in sorted(range(len(prompts)), key=lambda k: len(prompts[k]))
        for seed in [secrets.randbits(31) if seeds[k] is None else seeds[k]]
        for i in range(n[k])
    ]
    alone = _recurrent(model) or not reads_padded(model, list(map(len, prompts)))
    size = 1 if alone else at_once or max(len(rows), 1)
    for start in range(0, len(rows), size):
        batch = _PromptBatch(model, rows[start : start + size])
        going = True
        while going:
            batch.draw(temperature, top_p)
            for row in [row for row in batch.rows if row.reason is None]:
                if row.ids[-1] in ends or any(string in decode(row.ids[-reach:]) for string in stop):
                    row.reason = "stop"
                elif len(row.ids) >= row.most:
                    row.reason = "length"
            going = batch.advance()
    answers: list[list[Completion]] = [[] for _ in prompts]
    for row in rows:
        ended = row.ids[-1] in ends
        text = before_stop(decode(row.ids[:-1] if ended else row.ids), stop)
        logprobs = row.logprobs[:-1] if ended else row.logprobs
        answers[row.prompt].append(
            Completion(
                text, row.read, len(row.ids), row.reason or "length", sum(logprobs), weighed=len(logprobs)
            )
        )
    return answers


@dataclass(slots=True, eq=False)
class _AnswerRow:
    """One answer under way."""

    prompt: int
    prompt_ids: Sequence[int]
    stream: Any
    most: float
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reason: FinishReason | None = None
    read: int = 0


class PaddedRows:
    """Rows that a model reads together, padded on the left, in a cache of their own.

    Args:
        model: a transformers causal language model.
        prompts: token ids, at least one each.

    Attributes:
        logits: [rows, vocabulary], of each row's next token.
        cache: what the model keeps of them; None where it keeps nothing.
    """

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]]) -> None:
        import torch

        self.model = model
        pads = [max(map(len, prompts)) - len(prompt) for prompt in prompts]
        self._pads = torch.tensor(pads, device=model.device)[:, None]
        self._padded = any(pads)
        # Mamba has a name of its own for its states, and no positions.
        is_mamba = "cache_params" in inspect.signature(model.forward).parameters
        self._kept_as = "cache_params" if is_mamba else "past_key_values"
        self.cache: Any = None
        self._width = 0
        self.read([[0] * pad + list(prompt) for pad, prompt in zip(pads, prompts, strict=True)])

    def read(self, tokens: Sequence[Sequence[int]]) -> None:
        """Read on, as many tokens of one row as of another."""
        import torch

        start = self._width
        self._width += len(tokens[0])
        places = torch.arange(self._width, device=self.model.device)[None] - self._pads
        extra: dict[str, Any] = {self._kept_as: self.cache}
        if self._kept_as == "past_key_values":
            # Of rows that have ended and are read on the positions may have, too.
            extra["position_ids"] = places[:, start:].clamp(0, min(window_of(self.model), self._width) - 1)
        if self._padded:  # else there is nothing to hide
            extra["attention_mask"] = (places >= 0).long()
        ids = torch.tensor(tokens, device=self.model.device)
        with torch.inference_mode(), evaluating(self.model.modules()):
            out = self.model(ids, use_cache=True, logits_to_keep=1, **extra)
        self.cache, self.logits = getattr(out, self._kept_as, None), out.logits[:, -1]

    def select(self, places: Sequence[int]) -> None:
        """Keep these rows of all, in this order; one may be there several times."""
        import torch

        with torch.inference_mode():
            index = torch.tensor(places, device=self.model.device)
            self.cache.batch_select_indices(index)
            self.logits = self.logits[index]
            self._pads = self._pads[index]


_PADDED: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""By the module: whether what it reads of a row is the same beside a longer one."""


def reads_padded(model: Any, lengths: Sequence[int]) -> bool:
    """Whether a model can read rows of these lengths together, padded; it is tried once where they differ.

    Some count places in a row whatever positions they are given, and into some states padding goes too.
    """
    if len(set(lengths)) < 2:
        return True
    if model not in _PADDED:
        short, long = [1, 2, 3], [3, 1, 2, 1, 3, 2]
        try:
            alone, beside = (PaddedRows(model, rows).logits[0].double() for rows in ([short], [short, long]))
            # Rounding is far from that, in half precision too.
            _PADDED[model] = bool((beside - alone).norm() <= 0.1 * (alone - alone.mean()).norm())
        except Exception:  # one by one it may read them, or say itself what is wrong
            _PADDED[model] = False
    return _PADDED[model]


class _PromptBatch:
    """Answers that are sampled together.

    Attributes:
        rows: those that are still in the batch; some may have ended.
    """

    def __init__(self, model: Any, rows: list[_AnswerRow]) -> None:
        self.rows = rows
        places: dict[int, int] = {}  # of the prompts among those that are read, each by its first row
        for row in rows:
            if row.prompt not in places:
                places[row.prompt] = len(places)
                row.read = len(row.prompt_ids)
        self._padded = PaddedRows(model, [row.prompt_ids for row in rows if row.read])
        if self._padded.cache is None:
            raise ConfigError(f"{type(model).__name__} gives no cache back, and cannot be sampled from")
        if len(rows) > len(places):
            self._padded.select([places[row.prompt] for row in rows])

    def draw(self, temperature: float, top_p: float) -> None:
        """Give every row that has not ended its next token."""
        import torch

        with torch.inference_mode():
            raw = self._padded.logits.float().log_softmax(-1).cpu()
            alive = [place for place, row in enumerate(self.rows) if row.reason is None]
            streams = [self.rows[place].stream for place in alive]
            chosen = _choose(raw if len(alive) == len(raw) else raw[alive], temperature, top_p, streams)
            for place, token in zip(alive, chosen, strict=True):
                self.rows[place].ids.append(token)
                self.rows[place].logprobs.append(float(raw[place, token]))

    def advance(self) -> bool:
        """Let ended rows go, and read the last tokens of the others; False when there is nothing left to sample."""
        alive = [place for place, row in enumerate(self.rows) if row.reason is None]
        if not alive:
            return False
        if 2 * len(alive) <= len(self.rows):
            self._padded.select(alive)
            self.rows = [self.rows[place] for place in alive]
        self._padded.read([row.ids[-1:] for row in self.rows])
        return True


def window_of(model: Any) -> float:
    """How many tokens a model takes, as its config says; infinite where it does not."""
    config = getattr(model.config, "text_config", model.config)
    return getattr(config, "max_position_embeddings", None) or math.inf


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
