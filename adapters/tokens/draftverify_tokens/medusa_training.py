"""How Medusa's heads learn: all of them from the first step on, each as if no other were there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import nn

from draftverify import ConfigError
from draftverify_tokens.drafter_learning import Kind, ReadText, TextBatch
from draftverify_tokens.medusa_network import MedusaNetwork


def config_of(module: Any, layers: tuple[int, ...] | None, steps: int) -> dict[str, Any]:
    """The heads' part of a config.

    Raises:
        ConfigError: `layers` are given.
    """
    if layers is not None:
        raise ConfigError("layers are an EAGLE layer's; heads read the last states alone", path="layers")
    text = module.config.get_text_config()
    return {"hidden_size": text.hidden_size, "vocab_size": text.vocab_size, "num_heads": steps}


def initialise(network: MedusaNetwork, texts: Sequence[ReadText], seed: int) -> None:
    """Blocks that add nothing: at first each head says what the target's does."""
    for block in network.blocks:
        nn.init.zeros_(block.weight)


def steps_of(network: MedusaNetwork, embeddings: Any, batch: TextBatch, steps: int) -> Iterable[Any]:
    """The logits [bases, draft vocabulary] of each head."""
    logits: Any = network.logits(batch.states[batch.bases, 0])
    return logits.unbind(1)


MEDUSA = Kind("medusa", config_of, MedusaNetwork, initialise, steps_of, alone=0.0)
