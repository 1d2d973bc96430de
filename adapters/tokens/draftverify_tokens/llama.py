"""The forward pass of Llama and its near relations in as few operations as torch has for it.

A small model's step on a CPU, and any model's on a GPU, is spent in starting operations as much as in reading
weights. Here a layer is some twenty: rotation of queries and keys together, attention on the key heads without
repeating them, and one product for queries, keys and values and one for gate and up where their weights lie behind each
other in memory, as those of a model do that was loaded by name. The numbers are those of the module's own code but for
the order of some sums.

The weights and the projections are the module's own, and are read where they are at each pass: nothing is copied, and
nothing of the module is changed. What replaces the module's code does so only while that code is its classes' own,
without a hook anywhere; else the module runs itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch.nn import functional

from draftverify_tokens.fingerprint import global_hooks, hooks_of
from draftverify_tokens.graphs import Graphs
from draftverify_tokens.layer import Pieces
from draftverify_tokens.slots import RowGroup, put, seen

CALLED = ("apply_rotary_pos_emb", "eager_attention_forward")
"""The functions of a family's file that its attention calls."""
ROTATIONS = frozenset({"default", "linear", "llama3", "yarn"})
"""Kinds of rotary embedding whose angles do not depend on the length of the sequence."""
TABLE = 1 << 17
"""The table of rotations is made for all of a model's positions at once, but for no more than these."""
Tail = Callable[[Any], tuple[Any, ...]]
"""Makes tensors [T, …] of logits [T, vocabulary], row by row, without a synchronisation. One that equals another, and
has its hash, makes the same: it is part of what a graph is found by."""


def is_llama(module: Any) -> bool:
    """Whether `LlamaForward` computes what the module does, as it is now."""
    from transformers import LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM

    if type(module) not in (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM):
        return False
    config = module.config
    kinds = getattr(config, "layer_types", None)
    sliding = kinds is None and getattr(config, "sliding_window", None) is not None
    return (
        set(kinds or ["full_attention"]) == {"full_attention"}
        and not sliding
        and config.hidden_act in ("silu", "swish")
        and (config.rope_parameters or {}).get("rope_type", "default") in ROTATIONS
        and _attends_as_usual(config)
        and _runs_as_written(module)
    )


def _attends_as_usual(config: Any) -> bool:
    """Whether the attention is one of transformers' implementations, and not a function that somebody registered."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    function = ALL_ATTENTION_FUNCTIONS.get(config._attn_implementation)  # None is eager
    function = getattr(function, "func", function)  # of a kernel's partial
    return function is None or function.__module__.startswith("transformers.")


def _runs_as_written(module: Any) -> bool:
    """Whether the modules that `LlamaForward` does not call are those of the family, with the code of their classes,
    and nobody listens at any module. Projections, embeddings and head are called, whatever they are."""
    from transformers.activations import SiLUActivation

    written, family = type(module).__module__, type(module).__name__.removesuffix("ForCausalLM")

    def is_its(name: str, *parts: Any) -> bool:
        return all(
            (type(part).__module__, type(part).__name__) == (written, family + name)
            and type(part).forward.__module__ == written
            for part in parts
        )

    # From the outside in: a part of another kind need not have the parts that are looked at then.
    inner = module.model
    if not (
        is_its("ForCausalLM", module) and is_its("Model", inner) and is_its("DecoderLayer", *inner.layers)
    ):
        return False
    attentions, mlps = ([getattr(layer, name) for layer in inner.layers] for name in ("self_attn", "mlp"))
    if not (is_its("Attention", *attentions) and is_its("MLP", *mlps)):
        return False
    norms = [inner.norm]
    for layer in inner.layers:
        norms += layer.input_layernorm, layer.post_attention_layernorm
        norms += [
            getattr(layer.self_attn, name) for name in ("q_norm", "k_norm") if hasattr(layer.self_attn, name)
        ]
    return (
        is_its("RMSNorm", *norms)
        and is_its("RotaryEmbedding", inner.rotary_emb)
        and all(type(mlp.act_fn) in (SiLUActivation, torch.nn.SiLU) for mlp in mlps)
        and all(attention.is_causal for attention in attentions)
        and all(getattr(sys.modules[written], name).__module__ == written for name in CALLED)
        and not any(hooks_of(part) or "forward" in vars(part) for part in module.modules())
        and not any(global_hooks())
    )


def products_are_plain(module: Any) -> bool:
    """Whether the layers' products are torch's own, so that their weights can be handed to compiled functions."""
    return all(
        type(part) is torch.nn.Linear
        for layer in module.model.layers
        for submodule in (layer.self_attn, layer.mlp)
        for name, part in submodule.named_children()
        if name.endswith("_proj")
    )


class LlamaForward:
    """A pass over a module of the Llama family.

    Compiled, a step (a pass of few tokens) is the functions of `layer`, and on a GPU one launch of a graph from the ids
    to the logits and what a `tail` makes of them. Prompts have every length, and are read as without compilation.

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
        self._cos: Any = None
        self._sin: Any = None
        self._pieces: Any = None
        self._graphs: Graphs | None = None

    def compile(self, backend: str = "inductor") -> None:
        """Compile the steps, with CUDA graphs on a GPU.

        Args:
            backend: of torch.compile.
        """
        self.compiled = True
        self._pieces = Pieces(backend)
        self._graphs = Graphs() if self.module.device.type == "cuda" else None

    def __call__(self, groups: Sequence[RowGroup], want: Any, tail: Tail | None = None) -> tuple[Any, Any]:
        """Run one pass; as `ModuleForward`.

        Args:
            groups, want: as there.
            tail: what to make of the logits, in the same launch.

        Returns:
            As there; with a tail, and logits wanted, a tuple (logits, *what the tail made) in the place of the logits.
        """
        self._prepare(groups)
        if groups[0].paths is not None:
            logits, *extras = self._compiled(groups, tail)
            states = extras.pop() if self.hidden else None
            output = None if want is None else (logits[want], *(extra[want] for extra in extras))
        else:
            x, states = self._steps(groups)
            output = None
            if want is not None:
                logits = self.module.lm_head(x[0, -want:] if isinstance(want, int) else x[0, want])
                output = logits, *(tail(logits) if tail is not None else ())
        if output is not None and tail is None:
            output = output[0]
        if states is None:
            return output, None
        if groups[0].paths is not None and self._graphs is not None:
            states = states.clone()  # a graph's outputs are its next call's too
        parts = states[0].split([group.ids.numel() for group in groups])
        return output, [part.unflatten(0, group.ids.shape) for part, group in zip(parts, groups, strict=True)]

    def go_on_from(self, previous: Any, *, graphs: bool) -> None:
        """Use what another one has compiled, if it has.

        Args:
            other: the forward of the same module before this one.
            graphs: whether its graphs too: all that they hold the addresses of lies where it lay. The table of
                rotations, which they hold as well, is filled anew.
        """
        if not (self.compiled and isinstance(previous, LlamaForward) and previous.compiled):
            return
        self._pieces = previous._pieces
        inner, head = self.module.model, self.module.lm_head
        plain = type(inner.embed_tokens) is torch.nn.Embedding and type(head) is torch.nn.Linear
        if (
            graphs and plain and previous._cos is not None
        ):  # of another's code a graph holds what nobody can look at
            self._graphs, self._cos, self._sin = previous._graphs, previous._cos, previous._sin
            with torch.inference_mode():
                for held, new in zip((self._cos, self._sin), self._table(len(self._cos)), strict=True):
                    held.copy_(new)

    def _prepare(self, groups: Sequence[RowGroup]) -> None:
        """Have the layers, the shelves' buffers and the table of rotations."""
        inner = self.module.model
        if not self._layers:
            self._layers = [_Layer(layer, self.module.config) for layer in inner.layers]
        embeddings = inner.embed_tokens.weight
        for shelf in {group.shelf for group in groups if not group.shelf.keys}:
            like = embeddings.new_empty((1, self._layers[0].key_heads, 1, self._layers[0].width))
            shelf.keys = [shelf.new(like) for _ in self._layers]
            shelf.values = [shelf.new(like) for _ in self._layers]
        most = max(group.visible for group in groups)
        if self._cos is None or self._cos.shape[0] < most:
            if self.compiled:  # graphs hold the table: it must not move
                most = max(most, min(self.module.config.max_position_embeddings, TABLE))
                if self._graphs is not None:
                    self._graphs.clear()
            self._cos, self._sin = self._table(-(-most // 1024) * 1024)

    def _table(self, positions: int) -> tuple[Any, Any]:
        """What rotates queries and keys at each position: two of [positions, width]."""
        embeddings = self.module.model.embed_tokens.weight
        places = torch.arange(positions, device=embeddings.device)[None]
        cos, sin = self.module.model.rotary_emb(embeddings[:1], places)
        half = sin.shape[-1] // 2
        return cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=-1)

    def _compiled(self, groups: Sequence[RowGroup], tail: Tail | None) -> tuple[Any, ...]:
        """A step; what it returns is of all tokens of the groups, and overwritten by the next one of its like.

        Returns:
            Logits [T, vocabulary], what the tail makes of them, and hidden states [1, T, layers, hidden] if any.
        """
        if self._graphs is None:
            return self._stepped(groups, tail)
        key = tuple((*group.ids.shape, group.shelf.capacity, group.first_row) for group in groups), tail
        inputs = [
            tensor for group in groups for tensor in (group.ids, group.positions, group.places, group.paths)
        ]

        def step(held: Sequence[Any]) -> tuple[Any, ...]:
            still = [
                group._replace(ids=ids, positions=positions, places=places, paths=paths)
                for group, ids, positions, places, paths in zip(
                    groups, held[::4], held[1::4], held[2::4], held[3::4], strict=True
                )
            ]
            return self._stepped(still, tail)

        return self._graphs(key, inputs, [group.shelf.keys[0] for group in groups], step)

    def _stepped(self, groups: Sequence[RowGroup], tail: Tail | None) -> tuple[Any, ...]:
        outputs: tuple[Any, ...] = self._pieces.run(lambda: self._step(groups, tail))
        return outputs

    def _step(self, groups: Sequence[RowGroup], tail: Tail | None) -> tuple[Any, ...]:
        pieces, inner = self._pieces, self.module.model
        x = inner.embed_tokens(_flat([group.ids for group in groups]))[0]
        positions = _flat([group.positions for group in groups])[0]
        cos, sin = self._cos[positions], self._sin[positions]
        sizes = [group.ids.numel() for group in groups]
        states = {}
        for index, layer in enumerate(self._layers):
            if index in self.hidden:
                states[index] = x
            new = [part.split(sizes) for part in pieces.enter(x, cos, sin, *layer.entering)]
            attended = [
                pieces.attend(
                    *(part.unflatten(0, group.ids.shape) for part in qkv),
                    group.shelf.keys[index][group.first_row : group.first_row + len(group.ids)],
                    group.shelf.values[index][group.first_row : group.first_row + len(group.ids)],
                    group.places,
                    group.paths,
                    layer.scaling,
                ).flatten(0, 1)
                for group, *qkv in zip(groups, *new, strict=True)
            ]
            x = pieces.leave(x, attended[0] if len(attended) == 1 else torch.cat(attended), *layer.leaving)
        norm, head = inner.norm, self.module.lm_head
        if type(head) is torch.nn.Linear:
            logits = pieces.finish(x, norm.weight, norm.variance_epsilon, head.weight, head.bias)
        else:
            logits = head(_norm(x, norm))
        outputs = logits, *(tail(logits) if tail is not None else ())
        if not self.hidden:
            return outputs
        states[len(self._layers)] = _norm(x, norm)
        return *outputs, torch.stack([states[index] for index in self.hidden], dim=1)[None]

    def _steps(self, groups: Sequence[RowGroup]) -> tuple[Any, Any]:
        """Without compilation: the last norm's output [1, T, hidden], and hidden states [1, T, layers, hidden]."""
        x = self.module.model.embed_tokens(_flat([group.ids for group in groups]))
        positions = _flat([group.positions for group in groups])
        cos, sin = self._cos[positions].unsqueeze(2), self._sin[positions].unsqueeze(2)
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
        by_index = dict(zip(sorted(set(self.hidden) - {len(self._layers)}), states, strict=True))
        by_index[len(self._layers)] = x
        return x, torch.stack([by_index[index] for index in self.hidden], dim=2)


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
        self.qkv = _Products(attention.q_proj, attention.k_proj, attention.v_proj)
        self.gate_up = _Products(mlp.gate_proj, mlp.up_proj)
        self.qk_norms = (attention.q_norm, attention.k_norm) if hasattr(attention, "q_norm") else None

    @property
    def qk_norm(self) -> tuple[Any, float]:
        """The scales of the norms of queries and keys, [heads + key heads, width], and their epsilon; (None, 0)
        where there are none."""
        if self.qk_norms is None:
            return None, 0.0
        q, k = self.qk_norms
        scales = q.weight.expand(self.heads, -1), k.weight.expand(self.key_heads, -1)
        return torch.cat(scales), q.variance_epsilon

    @property
    def entering(self) -> tuple[Any, ...]:
        """The weights of `layer.enter`."""
        norm = self.norm.weight, self.norm.variance_epsilon
        return *norm, *self.qkv.weights, *self.qk_norm, self.key_heads

    @property
    def leaving(self) -> tuple[Any, ...]:
        """The weights of `layer.leave`."""
        norm = self.norm_mlp.weight, self.norm_mlp.variance_epsilon
        return self.out.weight, self.out.bias, *norm, *self.gate_up.weights, self.down.weight, self.down.bias

    def __call__(
        self, x: Any, cos: Any, sin: Any, masks: Sequence[Any], groups: Sequence[RowGroup], index: int
    ) -> Any:
        qkv = _beside(self.qkv(_norm(x, self.norm))).unflatten(-1, (-1, self.width))
        qk, v = qkv[:, :, : -self.key_heads], qkv[:, :, -self.key_heads :]
        scale, epsilon = self.qk_norm
        if scale is not None:
            qk = functional.rms_norm(qk, (self.width,), None, epsilon) * scale
        qk = torch.addcmul(qk * cos, qk.roll(self.width // 2, -1), sin)
        attended, start = [], 0
        for group, mask in zip(groups, masks, strict=True):
            span = slice(start, start + group.ids.numel())
            attended.append(self._attend(qk[0, span], v[0, span], mask, group, index))
            start = span.stop
        x = x + self.out(_flat(attended))
        products = self.gate_up(_norm(x, self.norm_mlp))
        gate, up = products if len(products) == 2 else products[0].chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)

    def _attend(self, qk: Any, v: Any, mask: Any, group: RowGroup, index: int) -> Any:
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


def _beside(products: Sequence[Any]) -> Any:
    """Products [..., n] of one input beside each other."""
    return products[0] if len(products) == 1 else torch.cat(list(products), dim=-1)


class _Products:
    """Linear layers that read the same input: one product where their weights are one piece of memory, else each its
    own."""

    def __init__(self, *linears: Any) -> None:
        self._linears = linears
        self._joint = getattr(linears[0], "joint", None)  # layers of their own kind may have one
        if any(getattr(linear, "joint", None) is not self._joint for linear in linears):
            self._joint = None
        self._weight = self._bias = None
        if all(type(linear) is torch.nn.Linear for linear in linears):
            biases = [linear.bias for linear in linears]
            weight, bias = _one_piece([linear.weight for linear in linears]), _one_piece(biases)
            if weight is not None and (bias is not None or biases == [None] * len(biases)):
                self._weight, self._bias = weight, bias

    def __call__(self, x: Any) -> Sequence[Any]:
        """[..., n] of x [..., inputs]: of all layers together, or of each."""
        if self._joint is not None:
            return (self._joint(x),)
        if self._weight is not None:
            return (functional.linear(x, self._weight, self._bias),)
        return [linear(x) for linear in self._linears]

    @property
    def weights(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The weights, and the biases or None, of each product."""
        if self._weight is not None:
            return (self._weight,), (self._bias,)
        return tuple(linear.weight for linear in self._linears), tuple(
            linear.bias for linear in self._linears
        )


def _one_piece(tensors: Sequence[Any]) -> Any:
    """Tensors [n, …] that stand behind each other in memory as one, which is no copy; None where they do not."""
    first = tensors[0]
    if first is None:
        return None
    place = first.storage_offset()
    for tensor in tensors:
        if (
            tensor is None
            or (tensor.dtype, tensor.shape[1:]) != (first.dtype, first.shape[1:])
            or not tensor.is_contiguous()
            or tensor.untyped_storage().data_ptr() != first.untyped_storage().data_ptr()
            or tensor.storage_offset() != place
        ):
            return None
        place += tensor.numel()
    rows = sum(len(tensor) for tensor in tensors)
    return first.detach().as_strided((rows, *first.shape[1:]), first.stride())
