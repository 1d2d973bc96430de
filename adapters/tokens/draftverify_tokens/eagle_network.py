"""EAGLE-3's network: one decoder layer that goes on from the target's hidden states, as speculators' `eagle3` has it.

At place t the layer sees the target's states of token t, from several depths and joined to one, beside the embedding of
token t + 1; what it makes of them stands for the state of token t + 1, whose head says which token comes after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

from draftverify_tokens.drafter_network import DrafterNetwork, load_network
from draftverify_tokens.eagle_config import read_eagle_config

FLAGS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
"""What else a config may ask for: where the layer's residual begins, norms of the states, and what is fed back."""


class EagleNetwork(DrafterNetwork):
    """The layer with its head.

    Args:
        config: as `read_eagle_config` returns it.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        given = dict(config["transformer_layer_config"])
        layer = AutoConfig.for_model(given.pop("model_type"), **given)
        super().__init__(config, layer.hidden_size, layer.vocab_size)
        self.reads = tuple(config["eagle_aux_hidden_state_layer_ids"])
        width, depths = layer.hidden_size, len(self.reads)
        self.flags = {name: bool(config.get(name)) for name in FLAGS}
        self.fc = nn.Linear(depths * width, width, bias=False)
        self.layers = nn.ModuleList([_DraftLayer(layer)])
        self.norm = _Norm(width, layer.rms_norm_eps)
        if self.flags["norm_before_fc"]:
            self.input_norm = _Norm(depths * width, layer.rms_norm_eps)
        if self.flags["fc_norm"]:
            self.fc_norm = nn.ModuleList(_Norm(width, layer.rms_norm_eps) for _ in range(depths))
        self.rotary = LlamaRotaryEmbedding(layer)
        self.rotary.requires_grad_(False)

    def join(self, states: Any) -> Any:
        """The target's states [..., depths, width] as one: [..., width]."""
        if self.flags["fc_norm"]:
            states = torch.stack(
                [norm(part) for norm, part in zip(self.fc_norm, states.unbind(-2), strict=True)], -2
            )
        joined = states.flatten(-2)
        return self.fc(self.input_norm(joined) if self.flags["norm_before_fc"] else joined)

    def enter(self, embedded: Any, states: Any, positions: Any) -> tuple[Any, Any, Any, Any]:
        """What stands before attention.

        Args:
            embedded: [n, width], of the tokens at `positions`.
            states: [n, width], of the tokens before them: joined ones of the target's, or `leave`'s.
            positions: [n].

        Returns:
            The residual [n, width]; queries [n, heads, size], keys and values [n, key heads, size].
        """
        layer = self.layers[0]
        normed = layer.hidden_norm(states)
        residual = normed if self.flags["norm_before_residual"] else states
        x = torch.cat([layer.input_layernorm(embedded), normed], -1)
        q, k, v = layer.self_attn(x)
        cos, sin = (part[0] for part in self.rotary(x, positions[None]))
        return residual, *apply_rotary_pos_emb(q, k, cos, sin), v

    def leave(self, residual: Any, attended: Any) -> Any:
        """The states that the layer makes, [n, width], of attention's output [n, heads · size]."""
        layer = self.layers[0]
        x = residual + layer.self_attn.o_proj(attended)
        x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.norm(x) if self.flags["norm_output"] else x

    def logits(self, states: Any) -> Any:
        """[n, draft vocabulary] of states that `leave` made."""
        return self.lm_head(states if self.flags["norm_output"] else self.norm(states))


class _Norm(nn.RMSNorm):
    """A norm that stays in its input's type, of whatever type its weight is while it is trained."""

    def forward(self, x: Any) -> Any:
        return functional.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class _DraftLayer(nn.Module):
    """A decoder layer whose queries, keys and values are read from an embedding and a state beside each other."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, epsilon = config.hidden_size, config.rms_norm_eps
        self.input_layernorm, self.hidden_norm, self.post_attention_layernorm = (
            _Norm(width, epsilon) for _ in range(3)
        )
        self.self_attn = _Attention(config)
        self.mlp = (Qwen3MLP if config.model_type == "qwen3" else LlamaMLP)(config)


class _Attention(nn.Module):
    """The projections around attention."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, bias = config.hidden_size, bool(getattr(config, "attention_bias", False))
        self.size = getattr(config, "head_dim", None) or width // config.num_attention_heads
        query, key = config.num_attention_heads * self.size, config.num_key_value_heads * self.size
        self.q_proj = nn.Linear(2 * width, query, bias=bias)
        self.k_proj = nn.Linear(2 * width, key, bias=bias)
        self.v_proj = nn.Linear(2 * width, key, bias=bias)
        self.o_proj = nn.Linear(query, width, bias=bias)
        if config.model_type == "qwen3":
            self.q_norm, self.k_norm = (_Norm(self.size, config.rms_norm_eps) for _ in range(2))

    def forward(self, x: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values, each [n, its heads, size]."""
        q, k, v = (part(x).unflatten(-1, (-1, self.size)) for part in (self.q_proj, self.k_proj, self.v_proj))
        return (self.q_norm(q), self.k_norm(k), v) if hasattr(self, "q_norm") else (q, k, v)


def load_eagle(directory: Path) -> EagleNetwork:
    """The network of a directory; errors are `read_eagle_config`'s and `load_network`'s."""
    return load_network(EagleNetwork, read_eagle_config(directory), directory)
