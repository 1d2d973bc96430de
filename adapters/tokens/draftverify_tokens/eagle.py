"""A decoder layer that was trained on the target's hidden states drafts one token after the other (EAGLE-3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from draftverify import Context, Proposal
from draftverify.traits import GeneratorTraits
from draftverify_tokens.eagle_config import read_eagle_config
from draftverify_tokens.hidden_drafter import HiddenDrafter, HiddenReader
from draftverify_tokens.history import upload
from draftverify_tokens.models import TokenModel, prompt_of
from draftverify_tokens.reader import BlockReading
from draftverify_tokens.target import hidden_states

UNKNOWN = -1e4
"""The logit of tokens that the head does not have: none is drawn, unless a form of the answer leaves no other."""


class Eagle(HiddenDrafter):
    """Drafts with one layer on the target's hidden states; a `DraftModel` in all else.

    From a session's second round on the layer reads the states of all that stands before.

    Args:
        model: the target's model, whose embeddings it shares.
        weights: a directory of `draftverify fit part drafter`, or of an EAGLE-3 drafter of the library speculators.
        margin: as `DraftModel`'s.

    References:
        Li et al., "EAGLE-3", arXiv:2503.01840.
    """

    def __init__(
        self, model: TokenModel, weights: str | Path, margin: Annotated[float, Field(ge=0)] = 0.0
    ) -> None:
        super().__init__(model, margin)
        self.weights = weights

    @cached_property
    def traits(self) -> GeneratorTraits:
        """Chains that are drawn, from the states that the directory's config names."""
        layers = read_eagle_config(Path(self.weights))["eagle_aux_hidden_state_layer_ids"]
        return replace(super().traits, hidden=set(layers))

    @cached_property
    def _reader(self) -> Any:
        from draftverify_tokens.drafter_network import fitted
        from draftverify_tokens.eagle_network import load_eagle

        return _EagleReader(self.model.model, fitted(load_eagle(Path(self.weights)), self.model))


class _Trunk:
    """A session's keys and values, in buffers [key heads, capacity, size]: of what the target has read, drafts behind.

    Attributes:
        settled: how many places were read with the target's states.
        length: those and the drafted ones.
        states: [1, width], what the layer made at the last one.
    """

    def __init__(self) -> None:
        self.settled = self.length = 0
        self.keys: Any = None
        self.values: Any = None
        self.states: Any = None

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        """Attention [n, heads · size] of new places, which see all before them; their keys and values are kept."""
        from torch.nn import functional

        n, end = len(q), self.length + len(q)
        q, k, v = (part.transpose(0, 1) for part in (q, k, v))
        if self.keys is None or end > self.keys.shape[1]:
            for name, new in (("keys", k), ("values", v)):
                buffer = new.new_zeros((new.shape[0], end + end // 2 + 32, new.shape[2]))
                if self.length:
                    buffer[:, : self.length] = getattr(self, name)[:, : self.length]
                setattr(self, name, buffer)
        self.keys[:, self.length : end], self.values[:, self.length : end] = k, v
        mask = None
        if n > 1:
            mask = q.new_ones((n, end), dtype=bool).tril(self.length)
        self.length = end
        attended = functional.scaled_dot_product_attention(
            q[None], self.keys[None, :, :end], self.values[None, :, :end], attn_mask=mask, enable_gqa=True
        )
        return attended[0].transpose(0, 1).flatten(1)


class _EagleReader(HiddenReader):
    """Reads with the layer."""

    def __init__(self, module: Any, network: Any) -> None:
        self.network = network
        self._embeddings = module.get_input_embeddings()
        self._tokens, self._rows = network.tokens, module.config.get_text_config().vocab_size

    def read(
        self, contexts: Sequence[Context], proposals: Sequence[Proposal], tail: None = None
    ) -> BlockReading:
        """The row after each context, of sessions that have states."""
        import torch

        trunks, states, tokens = [], [], []
        for context in contexts:
            trunk = context.scratch.setdefault(self, _Trunk())
            text = [*prompt_of(context), *context.accepted]
            if trunk.settled >= len(text) - 1:  # nothing was accepted since: read the last place again
                trunk.settled = len(text) - 2
            states.append(hidden_states(context, self.network.reads, trunk.settled))
            trunk.length = trunk.settled
            tokens += text[trunk.settled + 1 :]
            trunk.settled = len(text) - 1
            trunks.append(trunk)
        with torch.inference_mode():
            joined = self.network.join(torch.cat(states))
            logits = self._pass(trunks, joined, upload(np.asarray(tokens), joined), list(map(len, states)))
        return BlockReading(logits, [1] * len(trunks))

    def extend(self, contexts: Sequence[Context], drafted: Any, tail: None = None) -> Sequence[Any]:
        """The row after one more drafted token of each session."""
        import torch

        trunks = [context.scratch[self] for context in contexts]
        with torch.inference_mode():
            states = torch.cat([trunk.states for trunk in trunks])
            return [self._pass(trunks, states, drafted[:, -1], [1] * len(trunks))]

    def _pass(self, trunks: Sequence[_Trunk], states: Any, tokens: Any, counts: list[int]) -> Any:
        """Read states [n, width] and the tokens [n] after them, `counts` of each session: its last row of logits."""
        import torch

        positions = torch.cat(
            [
                torch.arange(trunk.length + 1, trunk.length + 1 + n)
                for trunk, n in zip(trunks, counts, strict=True)
            ]
        ).to(states.device)
        residual, *qkv = self.network.enter(self._embeddings(tokens), states, positions)
        parts = zip(trunks, *(part.split(counts) for part in qkv), strict=True)
        attended = torch.cat([trunk.attend(*part) for trunk, *part in parts])
        states = self.network.leave(residual, attended)[[end - 1 for end in accumulate(counts)]]
        for trunk, state in zip(trunks, states[:, None], strict=True):
            trunk.states = state
        logits = self.network.logits(states)
        whole = logits.new_full((len(logits), self._rows), UNKNOWN)
        whole[:, self._tokens] = logits
        return whole
