"""A model that fills masked places from the target's hidden states drafts a whole block in one pass (DFlash)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from draftverify import ConfigError, Context
from draftverify.traits import GeneratorTraits
from draftverify_llm.weights import quiet_transformers
from draftverify_tokens.drafter_config import CONFIG, STATES
from draftverify_tokens.hidden_drafter import HiddenDrafter, SessionReader
from draftverify_tokens.history import upload
from draftverify_tokens.models import TokenModel, prompt_of
from draftverify_tokens.target import hidden_states


class DFlash(HiddenDrafter):
    """Drafts with a model that was trained to fill the places behind the last token, all of them at once.

    transformers runs it. Its head and embeddings are the target's, and each token's q knows nothing of those drafted
    before it.

    Args:
        model: the target's model.
        weights: a directory of such a model, as transformers saves it (`target_layer_ids` in its config).
        margin: as `DraftModel`'s.

    References:
        Chen, Liang and Liu, "DFlash: Block Diffusion for Flash Speculative Decoding", arXiv:2602.06036.
    """

    def __init__(
        self, model: TokenModel, weights: str | Path, margin: Annotated[float, Field(ge=0)] = 0.0
    ) -> None:
        super().__init__(model, margin)
        self.weights = weights

    @cached_property
    def traits(self) -> GeneratorTraits:
        """Chains that are drawn, from the states that the directory's config names."""
        return replace(super().traits, hidden=set(layers_of(Path(self.weights))))

    @cached_property
    def _reader(self) -> Any:
        layers = layers_of(Path(self.weights))
        return _DFlashReader(self.module, load_filler(Path(self.weights), self.module), layers)

    def room(self, context: Context, n: int) -> int:
        """As `HiddenDrafter.room`; no more than the block has places to fill."""
        return super().room(context, min(n, self._reader.block - 1))


def layers_of(directory: Path) -> list[int]:
    """The target's states that a directory's model reads, as indices into transformers' `hidden_states`.

    Raises:
        ConfigError: the directory has no such model.
    """
    path = directory / CONFIG
    try:
        layers = json.loads(path.read_text(encoding="utf-8"))[STATES]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} does not name {STATES} ({type(error).__name__}: {error}); a directory of transformers' own models "
            "is needed, none that brings code (auto_map)",
            path="weights",
        ) from error
    if not isinstance(layers, list) or not layers or any(type(layer) is not int for layer in layers):
        raise ConfigError(
            f"{path} has {STATES} {layers!r:.80}; a list of the target's layers is needed", path="weights"
        )
    return [layer + 1 for layer in layers]


def load_filler(directory: Path, module: Any) -> Any:
    """The model of a directory, as transformers has it, where a target's module is and in its type.

    Raises:
        ConfigError: it cannot be loaded, or was trained for another target.
    """
    from transformers import AutoModel

    try:
        with quiet_transformers():
            network, report = AutoModel.from_pretrained(
                directory, dtype=module.dtype, device_map={"": module.device}, output_loading_info=True,
                local_files_only=True, trust_remote_code=False, use_safetensors=True,
            )  # fmt: skip
        config = network.config
        width, block, mask = config.hidden_size, config.block_size, config.mask_token_id
    except Exception as error:  # transformers raises many kinds for files that it cannot read
        why = shorten(str(error), 200, placeholder=" …")
        raise ConfigError(
            f"{directory} cannot be loaded ({type(error).__name__}: {why}); fetch it again", path="weights"
        ) from error
    if missing := sorted(report["missing_keys"]):
        raise ConfigError(
            f"{directory} lacks {', '.join(missing[:4])}, which would be random numbers; fetch it again",
            path="weights",
        )
    if block < 2:
        raise ConfigError(
            f"{directory / CONFIG} has block_size {block}; with the last token's place it is 2 or more",
            path="weights",
        )
    rows, size = module.get_input_embeddings().weight.shape
    if width != size or not 0 <= mask < rows:
        raise ConfigError(
            f"{directory} is for states of {width} numbers and masks with token {mask}, {type(module).__name__} has "
            f"{size} and {rows} tokens; it was trained for another model",
            path="weights",
        )
    return network.eval().requires_grad_(False)


@dataclass(slots=True, eq=False)
class _Filled:
    """What the model has read of a session.

    Args:
        cache: transformers' `DFlashCache`: places that the target has read, and behind them the last block.
        settled: how many of the first there are.
        rows: [block - 1, vocabulary], the logits of the block's places.
    """

    cache: Any
    settled: int = 0
    rows: Any = None


class _DFlashReader(SessionReader):
    """Reads what the target has read since, and the places to fill, in one pass."""

    def __init__(self, module: Any, network: Any, layers: list[int]) -> None:
        self._module, self._network, self._layers = module, network, layers
        self.block: int = network.config.block_size

    def begin(self, context: Context) -> Any:
        """The logits of all places; the first one's are returned."""
        import torch

        filled = context.scratch.pop(self, None) or self._new()  # of a pass that fails nothing is kept
        text = [*prompt_of(context), *context.accepted]
        start = min(filled.settled, len(text) - 2)
        states = hidden_states(context, self._layers, start).flatten(1)[None]
        filled.cache.set_previous_accepted_tokens(states.shape[1])
        if filled.rows is not None:
            filled.cache.crop(start - filled.settled - self.block)
        places = [text[-1]] + [self._network.config.mask_token_id] * (self.block - 1)
        read = self._network(
            noise_embeds=self._embed(upload(np.asarray(places), states)[None]),
            context_hidden_states=states,
            position_ids=torch.arange(start, len(text) - 1 + self.block, device=states.device)[None],
            past_key_values=filled.cache,
        )
        filled.settled = len(text) - 1
        filled.rows = self._module.get_output_embeddings()(read.last_hidden_state[0, 1:])
        context.scratch[self] = filled
        return filled.rows[:1]

    def go_on(self, context: Context, token: Any, index: int) -> Any:
        """The next place's; the token does not matter."""
        return context.scratch[self].rows[index + 1 : index + 2]

    def _new(self) -> _Filled:
        from transformers.cache_utils import DFlashCache

        cache = DFlashCache(config=self._network.config)
        cache.activate_past_recording()
        return _Filled(cache)

    def _embed(self, tokens: Any) -> Any:
        """The target's embeddings; where they have a norm, without it."""
        from torch.nn import Embedding

        embeddings = self._module.get_input_embeddings()
        return (
            Embedding.forward(embeddings, tokens) if hasattr(embeddings, "embed_norm") else embeddings(tokens)
        )
