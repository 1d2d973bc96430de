"""The forward pass of Llama and its near relations in as few operations as torch has for it.

A small model's step on a CPU, and any model's on a GPU, is spent in starting operations as much as in reading
weights. Here a layer is some twenty: one product for queries, keys and values, one for gate and up, rotation of queries
and keys together, attention on the key heads without repeating them. The numbers are those of the module's own code but
for the order of some sums. The weights are the module's: where three matrices become one, the module's three are views
of it, so nothing is held twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch.nn import functional

from draftverify_tokens.graphs import Graphs
from draftverify_tokens.slots import Group, Slots, put, seen

__all__ = ["LlamaForward", "is_llama"]

ROTATIONS = frozenset({"default", "linear", "llama3", "yarn"})
"""Kinds of rotary embedding whose angles do not depend on the length of the sequence."""


def is_llama(module: Any) -> bool:
    """Whether `LlamaForward` computes what the module does."""
    from transformers import LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM

    if type(module) not in (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM):
        return False
    config = module.config
    kinds = getattr(config, "layer_types", None)
    sliding = kinds is None and getattr(config, "sliding_window", None) is not None
    hooked = any(
        hasattr(part, "_hf_hook") for part in module.modules()
    )  # weights that are elsewhere until needed
    return (
        set(kinds or ["full_attention"]) == {"full_attention"}
        and not sliding
        and not hooked
        and config.hidden_act in ("silu", "swish")
        and (config.rope_parameters or {}).get("rope_type", "default") in ROTATIONS
    )


class LlamaForward:
    """A pass over a module of the Llama family.

    Args:
        module: for which `is_llama` is true.
        hidden: hidden states to return, as indices into transformers' `hidden_states`.
    """

    needs_masks = False
    windows: ClassVar[dict[str, int | None]] = {"full_attention": None}

    def __init__(self, module: Any, hidden: tuple[int, ...]) -> None:
        self.module = module
        self.compiled = False
        self.hidden = tuple(index % (len(module.model.layers) + 1) for index in hidden)
        self._layers: list[_Layer] = []
        self._cos = self._sin = None
        self._run: Any = self._steps

    def compile(self) -> None:
        """Compile the steps, with CUDA graphs on a GPU."""
        self.compiled = True
        self._run = torch.compile(self._steps, dynamic=False)
        if self.module.device.type == "cuda":
            self._run = Graphs(self._run)

    def __call__(self, slots: Slots, groups: Sequence[Group], want: Any) -> tuple[Any, Any]:
        """Run one pass; as `ModuleForward`."""
        inner = self.module.model
        if not self._layers or self._layers[0].stale:
            self._layers = [_Layer(layer, self.module.config) for layer in inner.layers]
            self._cos = None
        x = inner.embed_tokens(_flat([group.ids for group in groups]))
        for shelf in {group.shelf for group in groups if not group.shelf.keys}:
            like = x.new_empty((1, self._layers[0].key_heads, 1, self._layers[0].width))
            shelf.keys = [shelf.new(like) for _ in self._layers]
            shelf.values = [shelf.new(like) for _ in self._layers]
        cos, sin = self._rotation(x, groups)
        run = self._run if groups[0].at is None else self._steps
        x, states = run(x, cos, sin, groups)
        if states is not None:
            if self.compiled:
                states = states.clone()  # a graph's outputs are its next call's too
            parts = states[0].split([group.ids.numel() for group in groups])
            states = [part.unflatten(0, group.ids.shape) for part, group in zip(parts, groups, strict=True)]
        if want is None:
            return None, states
        return self.module.lm_head(x[0, -want:] if isinstance(want, int) else x[0, want]), states

    def _rotation(self, x: Any, groups: Sequence[Group]) -> tuple[Any, Any]:
        """cos and sin [1, T, 1, width]; sin's first half is negative, so that a rotation is x·cos + roll(x)·sin."""
        most = max(group.visible for group in groups)
        if self._cos is None or self._cos.shape[0] < most:
            places = torch.arange(-(-most // 1024) * 1024, device=x.device)[None]
            cos, sin = self.module.model.rotary_emb(x, places)
            half = sin.shape[-1] // 2
            self._cos, self._sin = cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)
        positions = _flat([group.positions for group in groups])
        return self._cos[positions].unsqueeze(2), self._sin[positions].unsqueeze(2)

    def _steps(self, x: Any, cos: Any, sin: Any, groups: Sequence[Group]) -> tuple[Any, Any]:
        """All layers and the last norm: [1, T, hidden], and hidden states [1, T, layers, hidden]."""
        repeated = self._layers[0].group
        masks = [group.masks.get(None) for group in groups]
        masks = [mask if mask is None else mask.repeat(1, 1, repeated, 1) for mask in masks]
        states = []
        for index, layer in enumerate(self._layers):
            if index in self.hidden:
                states.append(x)
            x = layer(x, cos, sin, masks, groups, index)
        x = _norm(x, self.module.model.norm)
        if not self.hidden:
            return x, None
        found = dict(zip(sorted(set(self.hidden) - {len(self._layers)}), states, strict=True))
        found[len(self._layers)] = x
        return x, torch.stack([found[index] for index in self.hidden], dim=2)


class _Layer:
    """One decoder layer."""

    def __init__(self, layer: Any, config: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.width = attention.head_dim
        self.heads = config.num_attention_heads
        self.key_heads = config.num_key_value_heads
        self.group = self.heads // self.key_heads
        self.scaling = attention.scaling
        self.norm, self.norm_mlp = layer.input_layernorm, layer.post_attention_layernorm
        self.out, self.down = attention.o_proj, mlp.down_proj
        self.qkv = _joined(attention.q_proj, attention.k_proj, attention.v_proj)
        self.gate_up = _joined(mlp.gate_proj, mlp.up_proj)
        self.qk_norm = None
        if hasattr(attention, "q_norm"):
            scales = (
                attention.q_norm.weight.expand(self.heads, -1),
                attention.k_norm.weight.expand(self.key_heads, -1),
            )
            self.qk_norm = torch.cat(scales), attention.q_norm.variance_epsilon
        self._layer = layer
        self._made_of = self._weights()

    @property
    def stale(self) -> bool:
        """Whether the module was moved, converted or quantised since."""
        return self._made_of != self._weights()

    def _weights(self) -> tuple[Any, int]:
        attention = self._layer.self_attn
        return attention.q_proj, self.norm.weight.data_ptr()

    def __call__(
        self, x: Any, cos: Any, sin: Any, masks: Sequence[Any], groups: Sequence[Group], index: int
    ) -> Any:
        qkv = self.qkv(_norm(x, self.norm)).unflatten(-1, (-1, self.width))
        qk, v = qkv[:, :, : -self.key_heads], qkv[:, :, -self.key_heads :]
        if self.qk_norm is not None:
            scale, epsilon = self.qk_norm
            qk = functional.rms_norm(qk, (self.width,), None, epsilon) * scale
        qk = torch.addcmul(qk * cos, qk.roll(self.width // 2, -1), sin)
        found, first = [], 0
        for group, mask in zip(groups, masks, strict=True):
            own = slice(first, first + group.ids.numel())
            found.append(self._attend(qk[0, own], v[0, own], mask, group, index))
            first = own.stop
        x = x + self.out(_flat(found))
        gate, up = self.gate_up(_norm(x, self.norm_mlp)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)

    def _attend(self, qk: Any, v: Any, mask: Any, group: Group, index: int) -> Any:
        """Attention of a group's tokens, [R, N, heads · width]; their keys and values are written first."""
        rows, n = group.ids.shape
        qk, v = (part.unflatten(0, (rows, n)).transpose(1, 2) for part in (qk, v))
        q, k = qk[:, : self.heads], qk[:, self.heads :]
        keys, values = group.shelf.keys[index], group.shelf.values[index]
        put(keys, k, group)
        put(values, v, group)
        k, v = seen(keys, group), seen(values, group)
        if group.causal or mask is None:
            out = functional.scaled_dot_product_attention(
                q, k, v, is_causal=group.causal, scale=self.scaling, enable_gqa=self.group > 1
            )
        else:
            # The queries of a key's group stand below each other, [rows, key heads, group · n, width].
            q = q.reshape(rows, self.key_heads, self.group * n, self.width)
            out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scaling)
            out = out.view(rows, self.heads, n, self.width)
        return out.transpose(1, 2).reshape(rows, n, -1)


def _flat(parts: Sequence[Any]) -> Any:
    """Tensors [R, N, …] of the groups as one of all tokens, [1, T, …]."""
    if len(parts) == 1:
        return parts[0].flatten(0, 1)[None]
    return torch.cat([part.flatten(0, 1) for part in parts])[None]


def _norm(x: Any, norm: Any) -> Any:
    return functional.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


_WEIGHTS: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()
"""By the first of some matrices that were put into one: that one, and the bias."""


def _joined(*linears: Any) -> Callable[[Any], Any]:
    """One product in the place of several. Layers of their own kind may have a `joint` one; else each is called."""
    first = linears[0]
    joint = getattr(first, "joint", None)
    if joint is not None and all(getattr(linear, "joint", None) is joint for linear in linears):
        whole: Callable[[Any], Any] = joint
        return whole
    plain = all(type(linear) is torch.nn.Linear for linear in linears)
    if not plain or len({linear.bias is None for linear in linears}) > 1:
        return lambda x: torch.cat([linear(x) for linear in linears], dim=-1)
    found = _WEIGHTS.get(first)
    if found is None or found[0].data_ptr() != first.weight.data_ptr():
        with torch.inference_mode(False), torch.no_grad():
            weight = torch.cat([linear.weight for linear in linears])
            bias = None if first.bias is None else torch.cat([linear.bias for linear in linears])
            for linear, part in zip(
                linears, weight.split([linear.out_features for linear in linears]), strict=True
            ):
                linear.weight = torch.nn.Parameter(part, requires_grad=linear.weight.requires_grad)
        found = _WEIGHTS[first] = weight, bias
    weight, bias = found
    return lambda x: functional.linear(x, weight, bias)
