"""What networks that draft from a target's hidden states have in common: a head of its most frequent tokens, and files.

    DIR/config.json          its shape, as the library `speculators` has it
    DIR/model.safetensors    its weights; of the target's embeddings there is no copy unless others put one there

The head has a vocabulary of its own, those tokens that are met most often: `d2t` leads from it to the target's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeVar

import torch
from torch import nn

from draftverify import ConfigError
from draftverify_llm.packed import pack
from draftverify_tokens.drafter_config import CONFIG
from draftverify_tokens.models import TokenModel, is_packed

WEIGHTS = "model.safetensors"


class DrafterNetwork(nn.Module):
    """A network with a head; its parameters have the names that speculators gives them.

    Args:
        config: as it stands in the directory.
        width: of the target's hidden states.
        rows: of the target's logits.

    Attributes:
        reads: the target's hidden states that it reads, as indices into transformers' `hidden_states`.
        d2t: [draft vocabulary] int64, how far the target's id of each of the head's tokens lies behind its own.
        t2d: [rows] bool, whether the head has each of the target's tokens.
    """

    reads: tuple[int, ...]
    d2t: torch.Tensor
    t2d: torch.Tensor

    def __init__(self, config: Mapping[str, Any], width: int, rows: int) -> None:
        super().__init__()
        self.config = config
        self.lm_head = nn.Linear(width, config["draft_vocab_size"], bias=False)
        self.register_buffer("d2t", torch.zeros(config["draft_vocab_size"], dtype=torch.int64))
        self.register_buffer("t2d", torch.zeros(rows, dtype=torch.bool))

    @property
    def tokens(self) -> torch.Tensor:
        """[draft vocabulary] int64: the target's id of each of the head's tokens."""
        return torch.arange(len(self.d2t), device=self.d2t.device) + self.d2t

    def keep(self, tokens: Sequence[int]) -> None:
        """Give the head these of the target's tokens, in the order of their ids."""
        ids = torch.tensor(sorted(tokens), device=self.d2t.device)
        self.d2t.copy_(ids - torch.arange(len(ids), device=ids.device))
        self.t2d.zero_()[ids] = True

    def take_head(self, tokens: Sequence[int], head: Any) -> None:
        """`keep` tokens with the target's own rows [draft vocabulary, width], which no training changes."""
        self.keep(tokens)
        with torch.no_grad():
            self.lm_head.weight.copy_(head.float())
        self.lm_head.requires_grad_(False)


N = TypeVar("N", bound=DrafterNetwork)


def load_network(kind: type[N], config: Mapping[str, Any], directory: Path) -> N:
    """The network of a directory, in the type that it was saved in.

    Raises:
        ConfigError: the weights cannot be read, or are not the config's.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = directory / WEIGHTS
    try:
        network, tensors = kind(config), load_file(path)
        names = network.state_dict()
        if len(network.d2t) == len(network.t2d):  # a head of all tokens may come without maps
            tensors = {"d2t": network.d2t, "t2d": ~network.t2d, **tensors}
        network.to(tensors["lm_head.weight"].dtype)
        network.load_state_dict({name: part for name, part in tensors.items() if name in names})
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        why = shorten(str(error), 200, placeholder=" …")  # torch names every tensor
        raise ConfigError(
            f"{path} is not of the config beside it ({why}); train or fetch the directory again",
            path="weights",
        ) from error
    return network.eval().requires_grad_(False)


def save_network(network: DrafterNetwork, directory: Path) -> None:
    """Write the two files."""
    from safetensors.torch import save_file

    directory.mkdir(parents=True, exist_ok=True)
    save_file({name: part.contiguous() for name, part in network.state_dict().items()}, directory / WEIGHTS)
    (directory / CONFIG).write_text(json.dumps(network.config, indent=2) + "\n", encoding="utf-8")


def fitted(network: N, model: TokenModel) -> N:
    """The network where its target's model is, in its type, and packed beside a packed one.

    Raises:
        ConfigError: it was trained for another model.
    """
    module = model.model
    weights, rows = module.get_input_embeddings().weight, module.config.get_text_config().vocab_size
    width = network.lm_head.in_features
    if (width, len(network.t2d)) != (weights.shape[1], rows):
        raise ConfigError(
            f"the drafter is for states of {width} numbers and {len(network.t2d)} tokens, {type(module).__name__} has "
            f"{weights.shape[1]} and {rows}; it was trained for another model",
            path="weights",
        )
    network.to(weights.device, weights.dtype)
    if is_packed(model):
        pack(network, "bfloat16")
    return network
