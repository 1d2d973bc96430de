"""A layer of the Llama family as three functions of tensors, so that one compilation serves all layers.

Dynamo makes one variant of a function for each kind of its arguments. Methods of a layer would be a variant per layer,
and past a limit nothing at all; here weights are arguments, alike in every layer. Which sizes may differ from call to
call is said by `Pieces`, and sizes of one are a kind of their own (a product of one row is written as a sum over
the weights, which alone reaches a GPU's bandwidth). So a model has a handful of variants, whatever its number of layers
and the lengths of what it reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

log = logging.getLogger("draftverify.tokens")

OPTIONS = {"coordinate_descent_tuning": True}
"""Of inductor. With it a product of one row is no call of cuBLAS but a sum of inductor's own, tuned to the bandwidth:
gpt-fast sets the same, and `mm` in torch/_inductor/decomposition.py says why. It tries a few variants of each kernel,
once per kind of step. `max_autotune` would also compile and time many products in Triton for every kind, which takes
minutes for a large model and can win only where several rows are multiplied.
"""
VARIANTS = 64
"""A model has some ten variants of four functions, and a process some models."""
SPLITS_ALONE, SPLITS = 16, 4
"""Into how many parts keys and values are split over their length: a row alone, and rows of a batch. Eight key heads in
16 parts occupy a GPU of 132 processors; of a batch the rows do, and each part's result is written and read again."""


def enter(
    x: Any,
    cos: Any,
    sin: Any,
    norm: Any,
    epsilon: float,
    weights: Sequence[Any],
    biases: Sequence[Any],
    scale: Any,
    scale_epsilon: float,
    key_heads: int,
) -> tuple[Any, Any, Any]:
    """Norm, the products, rotation.

    Args:
        x: [tokens, hidden].
        cos, sin: [tokens, width]; sin's first half is negative.
        norm, epsilon: of the layer's first norm.
        weights, biases: of queries, keys and values, [heads · width, hidden] and twice [key heads · width, hidden], or
            one that is the three; biases may be None.
        scale, scale_epsilon: norms of queries and keys, [heads + key heads, width]; None where there are none.
        key_heads: how many there are.

    Returns:
        Queries [tokens, heads, width], keys and values [tokens, key heads, width].
    """
    x = functional.rms_norm(x, (x.shape[-1],), norm, epsilon)
    products = [functional.linear(x, *pair) for pair in zip(weights, biases, strict=True)]
    qkv = torch.cat(products, dim=-1).view(x.shape[0], -1, cos.shape[-1])
    qk, v = qkv[:, :-key_heads], qkv[:, -key_heads:]
    if scale is not None:
        qk = functional.rms_norm(qk, (cos.shape[-1],), None, scale_epsilon) * scale
    qk = qk * cos[:, None] + qk.roll(cos.shape[-1] // 2, -1) * sin[:, None]
    return qk[:, :-key_heads], qk[:, -key_heads:], v


def attend(q: Any, k: Any, v: Any, keys: Any, values: Any, places: Any, paths: Any, scaling: float) -> Any:
    """Write new keys and values by place, and let a few queries of each row look at what stands before them.

    Keys and values are split over their length; each part's result is weighed by the sum of its exponentials, as in
    T. Dao et al., "Flash-Decoding for long-context inference" (2023). Sums and exponentials are float32 at least.

    Args:
        q: [rows, n, heads, width].
        k, v: [rows, n, key heads, width].
        keys, values: [rows, key heads, capacity, width]; the capacity is a multiple of 16.
        places: [rows, n] int64, where they are written; n is at most 64.
        paths: [rows, n] int64, whose bit i says whether a query looks at the i-th place after its row's first one:
            itself and what stands before it, in a chain or on its path of a tree. Every query looks at all places
            before its row's first one.
        scaling: of the scores.

    Returns:
        [rows, n, heads · width].
    """
    rows, n, heads, width = q.shape
    key_heads, capacity = keys.shape[1], keys.shape[2]
    group = heads // key_heads
    splits = SPLITS_ALONE if rows == 1 else SPLITS
    chunk = capacity // splits
    row = torch.arange(rows, device=q.device)[:, None]
    keys[row, :, places] = k
    values[row, :, places] = v
    exact = torch.float64 if q.dtype == torch.float64 else torch.float32
    # Batched products: of each row, key head and part, all queries of the key's group with its chunk of keys.
    q = q.view(rows, n, key_heads, group, width).permute(0, 2, 3, 1, 4)
    q = q.reshape(rows, key_heads, 1, group * n, width).expand(-1, -1, splits, -1, -1)
    parts = keys.view(rows, key_heads, splits, chunk, width)
    scores = torch.matmul(q, parts.transpose(-1, -2)).to(exact) * scaling
    scores = scores.view(rows, key_heads, splits, group, n, chunk)
    offset = (
        torch.arange(capacity, device=q.device).view(splits, 1, 1, chunk)
        - places[:, :1, None, None, None, None]
    )
    on_path = (paths[:, None, None, None, :, None] >> offset.clamp(0, 63)) & 1
    sees = (offset < 0) | ((offset < 64) & (on_path == 1))
    scores = scores.masked_fill(~sees, -torch.inf)
    # Where a query sees nothing of a part there is no greatest score: the part weighs nothing, instead of nan.
    best = scores.amax(dim=-1, keepdim=True).clamp_min(torch.finfo(exact).min)
    weights = torch.exp(scores - best)
    totals = weights.sum(dim=-1, keepdim=True)
    parts = values.view(rows, key_heads, splits, chunk, width)
    weighted = torch.matmul(weights.to(values.dtype).view(rows, key_heads, splits, group * n, chunk), parts)
    weighted = weighted.view(rows, key_heads, splits, group, n, width)
    share = torch.exp(best - best.amax(dim=2, keepdim=True))
    out = (weighted * share).sum(dim=2) / (totals * share).sum(dim=2)
    return out.to(values.dtype).permute(0, 3, 1, 2, 4).reshape(rows, n, heads * width)


def leave(
    x: Any,
    attended: Any,
    out: Any,
    out_bias: Any,
    norm: Any,
    epsilon: float,
    gate_up: Sequence[Any],
    gate_up_biases: Sequence[Any],
    down: Any,
    down_bias: Any,
) -> Any:
    """What attention brought is added, then what the gated products make of it.

    Args:
        x: [tokens, hidden], as it came into the layer.
        attended: [tokens, heads · width], of `attend`.
        out, out_bias: of the output projection.
        norm, epsilon: of the layer's second norm.
        gate_up, gate_up_biases: of the gated products, twice [inner, hidden] or one that is both; biases may be None.
        down, down_bias: of the last product.

    Returns:
        [tokens, hidden].
    """
    x = x + functional.linear(attended, out, out_bias)
    normed = functional.rms_norm(x, (x.shape[-1],), norm, epsilon)
    products = [functional.linear(normed, *pair) for pair in zip(gate_up, gate_up_biases, strict=True)]
    gate, up = torch.cat(products, dim=-1).chunk(2, dim=-1)
    return x + functional.linear(functional.silu(gate) * up, down, down_bias)


def finish(x: Any, norm: Any, epsilon: float, head: Any, bias: Any) -> Any:
    """Logits [wanted, vocabulary] of x [wanted, hidden]: the last norm and the head."""
    return functional.linear(functional.rms_norm(x, (x.shape[-1],), norm, epsilon), head, bias)


class Pieces:
    """The functions of this module, compiled for one model.

    Args:
        backend: of torch.compile.
    """

    def __init__(self, backend: str = "inductor") -> None:
        options: dict[str, Any] = {"options": OPTIONS} if backend == "inductor" else {}
        self._enter, self._attend, self._leave, self._finish = (
            torch.compile(function, backend=backend, dynamic=False, fullgraph=True, **options)
            for function in (enter, attend, leave, finish)
        )

    def enter(self, x: Any, cos: Any, sin: Any, *weights: Any) -> Any:
        """As `enter`."""
        _differ(x, cos, sin, dims=(0,))
        return self._enter(x, cos, sin, *weights)

    def attend(
        self, q: Any, k: Any, v: Any, keys: Any, values: Any, places: Any, paths: Any, scaling: float
    ) -> Any:
        """As `attend`."""
        _differ(q, k, v, places, paths, dims=(0, 1))
        _differ(keys, values, dims=(0, 2))
        return self._attend(q, k, v, keys, values, places, paths, scaling)

    def leave(self, x: Any, attended: Any, *weights: Any) -> Any:
        """As `leave`."""
        _differ(x, attended, dims=(0,))
        return self._leave(x, attended, *weights)

    def finish(self, x: Any, *weights: Any) -> Any:
        """As `finish`."""
        _differ(x, dims=(0,))
        return self._finish(x, *weights)

    def run(self, step: Callable[[], Any]) -> Any:
        """What a step gives that calls these functions; without compilation, and said in the log, where that fails.

        Args:
            step: such that beginning it again does no harm.
        """
        config: Any = torch._dynamo.config
        exceptions: Any = torch._dynamo.exc
        shapes: Any = torch.fx.experimental._config
        try:
            # Models of other shapes have variants of their own, and Dynamo's limit counts them all together. Sizes that
            # happen to be the same are not taken for one size, which would be another variant when they are not.
            with config.patch({"recompile_limit": VARIANTS}), shapes.patch({"use_duck_shape": False}):
                return step()
        except (exceptions.TorchDynamoException, exceptions.FailOnRecompileLimitHit) as error:
            reason = " ".join(str(error).split())[:200]
            log.warning(
                "torch.compile failed (%s: %s); steps are run without it, and are slower",
                type(error).__name__,
                reason,
            )
            self._enter, self._attend, self._leave, self._finish = enter, attend, leave, finish
            return step()


def _differ(*tensors: Any, dims: tuple[int, ...]) -> None:
    """Say to Dynamo that these sizes differ from call to call; a size of one stays a kind of its own."""
    for tensor in tensors:
        for dim in dims:
            if tensor.shape[dim] > 1:
                torch._dynamo.mark_dynamic(tensor, dim)
