"""The layers that a model brings for tokens further ahead draft them, a layer for each (multi-token prediction)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import shorten
from typing import Any

import numpy as np

from draftverify import ConfigError, Context, ResourceError
from draftverify.traits import GeneratorTraits
from draftverify_llm.weights import quiet_transformers
from draftverify_tokens.hidden_drafter import HiddenDrafter, SessionReader
from draftverify_tokens.history import upload
from draftverify_tokens.models import prompt_of
from draftverify_tokens.target import hidden_states

LAST = -1
"""The state that the target's own head reads."""


class Mtp(HiddenDrafter):
    """Drafts with the target's own layers for further tokens, which lie in its checkpoint: at most a token a layer.

    transformers runs the layers. Models of DeepSeek-V3's and GLM-4.5's kind have them.

    Args:
        model: the target's model, loaded from a checkpoint that has such layers (`num_mtp_layers` in its config).
        margin: as `DraftModel`'s.

    References:
        DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv:2412.19437, section 2.2.
    """

    @cached_property
    def traits(self) -> GeneratorTraits:
        """Chains that are drawn, from the target's last states."""
        return replace(super().traits, hidden={LAST})

    @cached_property
    def _reader(self) -> Any:
        return _MtpReader(load_layers(self.module))

    def room(self, context: Context, n: int) -> int:
        """As `HiddenDrafter.room`; no more than there are layers."""
        return super().room(context, min(n, len(self._reader.layers)))


def load_layers(module: Any) -> Any:
    """The layers for further tokens of a model, a transformers `MtpModel`.

    Raises:
        ResourceError: this transformers runs none.
        ConfigError: the model has none, or they cannot be read.
    """
    import transformers

    try:
        from transformers.modeling_layers import MtpModel
    except ImportError as error:
        raise ResourceError(
            f"transformers {transformers.__version__} runs no layers for further tokens; install a newer one: "
            "pip install -U transformers"
        ) from error
    name = type(module).__name__
    if not getattr(module.config.get_text_config(), "num_mtp_layers", None):
        raise ConfigError(
            f"{name} has no layers for further tokens (num_mtp_layers in its config); choose another drafter",
            path="model",
        )
    if not module.config.name_or_path:
        raise ConfigError(
            f"{name} was made in memory; load it from a checkpoint, where its layers for further tokens are",
            path="model",
        )
    try:
        with quiet_transformers():
            network = MtpModel.from_pretrained(module, device_map={"": module.device})
    except Exception as error:  # transformers raises many kinds for checkpoints that it cannot read
        why = shorten(str(error), 200, placeholder=" …")
        raise ConfigError(
            f"{name}'s layers for further tokens cannot be loaded ({type(error).__name__}: {why}); load the model from "
            "a checkpoint that has them",
            path="model",
        ) from error
    network.layers.eval().to(module.dtype)  # and nothing else: embeddings and head are the target's own
    return network


@dataclass(slots=True, eq=False)
class _Ahead:
    """What the layers have read of a session.

    Args:
        cache: transformers' `MtpCache`.
        known: tokens of the text that were known at the last read.
        layer: the layer that reads next.
        tokens: [1, n], what the last layer that ran has read.
        positions: [1, n], of these tokens.
        states: [1, n, width], what it made of them.
    """

    cache: Any
    known: int = 0
    layer: int = 0
    tokens: Any = None
    positions: Any = None
    states: Any = None


class _MtpReader(SessionReader):
    """Layer k reads the states of the layer before it, each with the token that comes k behind the next one."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self.layers = network.layers

    def begin(self, context: Context) -> Any:
        """Drop what was read of tokens that were drafted, and read on with the first layer."""
        import torch

        ahead = context.scratch.get(self) or self._new()
        context.scratch[self] = ahead
        text = [*prompt_of(context), *context.accepted]
        lengths = [layer.get_seq_length() for layer in ahead.cache.layers]
        # The last layer has read a drafted token for each layer before it; a place is read anew by all of them.
        start = max(0, min(*lengths, ahead.known - len(self.layers), len(text) - 2))
        for layer, length in zip(ahead.cache.layers, lengths, strict=True):
            if length:  # an empty layer that looks back some places alone cannot be cropped
                layer.crop(start - length)
        ahead.known, ahead.layer = len(text), 0
        ahead.states = hidden_states(context, (LAST,), start).transpose(0, 1)
        ahead.tokens = upload(np.asarray(text[start + 1 :]), ahead.states)[None]
        ahead.positions = torch.arange(start + 1, len(text), device=ahead.states.device)[None]
        self._read(ahead)
        return self._logits(ahead)

    def go_on(self, context: Context, token: Any, index: int) -> Any:
        """Read on with the next layer."""
        ahead = context.scratch[self]
        self._read_behind(ahead, token)
        return self._logits(ahead)

    def note(self, contexts: Sequence[Context]) -> None:
        """Have the layers that were not asked read the text too: what one of them lacks, all would read again."""
        import torch

        with torch.inference_mode():
            for ahead in (context.scratch[self] for context in contexts):
                while ahead.layer < len(self.layers):
                    self._read_behind(ahead, ahead.tokens[0, -1:])  # any token does: its place is read again

    def _new(self) -> _Ahead:
        from transformers.cache_utils import MtpCache

        cache = MtpCache(config=self._network.config)
        cache.activate_past_recording()
        return _Ahead(cache)

    def _read_behind(self, ahead: _Ahead, token: Any) -> None:
        import torch

        ahead.tokens = torch.cat([ahead.tokens[:, 1:], token[None]], 1)
        ahead.positions = ahead.positions + 1
        self._read(ahead)

    def _read(self, ahead: _Ahead) -> None:
        ahead.states = self._network.forward_layer(
            ahead.layer, ahead.states, ahead.positions, ahead.cache, input_ids=ahead.tokens
        )
        ahead.layer += 1

    def _logits(self, ahead: _Ahead) -> Any:
        """By the target's head, as the target applies it."""
        return self._network._project_to_logits(ahead.states[:, -1])
