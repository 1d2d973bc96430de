"""Medusa's network: heads on the target's last hidden state, each for a token further ahead.

Head k, counted from 1, reads the state from which the target's own head names the next token, and names the one that
comes k tokens behind that: with a residual block of its own, and the target's head, which all of them share.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from draftverify_tokens.drafter_config import read_config
from draftverify_tokens.drafter_network import DrafterNetwork, load_network


class MedusaNetwork(DrafterNetwork):
    """The heads.

    Args:
        config: as `read_config` returns it.
    """

    reads = (-1,)

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config, config["hidden_size"], config["vocab_size"])
        width = config["hidden_size"]
        self.blocks = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(config["num_heads"]))

    def logits(self, states: Any) -> Any:
        """[n, heads, draft vocabulary] of states [n, width]."""
        ahead = [states + functional.silu(block(states)) for block in self.blocks]
        return self.lm_head(torch.stack(ahead, 1))


def load_medusa(directory: Path) -> MedusaNetwork:
    """The network of a directory; errors are `read_config`'s and `load_network`'s."""
    return load_network(MedusaNetwork, read_config(directory, "medusa"), directory)
