"""Models that count places in the cache where positions are meant, and how each of them is told.

A bias that grows with the distance (ALiBi: Bloom, MPT, the first Falcons) and the windows of GPT-Neo's local layers are
made by these models' own code from the number of keys, whatever positions and masks they are handed. In a tree, and in
a batch of sequences of different lengths, place and position are not the same. So for the time of a pass the thing that
the code looks at is put in the place of the one that it would make itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch

from draftverify_tokens.slots import RowGroup


class Telling(NamedTuple):
    """How a family is told of positions that are not places.

    Args:
        enter: called with the base model, a group of rows and the arguments that the module is about to be called with,
            which it may change; a context in which the module sees positions.
        one_row: whether it can be told of one row at a time only.
    """

    enter: Callable[[Any, RowGroup, dict[str, Any]], AbstractContextManager[None]]
    one_row: bool = False


def telling_of(module: Any) -> Telling | None:
    """How a model is told; None for most, which take positions as arguments."""
    base = module.base_model
    name = type(base).__name__
    if name == "FalconModel" and not base.use_alibi:
        return None
    return {
        "BloomModel": Telling(_bloom),
        "FalconModel": Telling(_falcon),
        "GPTNeoModel": Telling(_gpt_neo),
        "MptModel": Telling(_mpt, one_row=True),
    }.get(name)


def _stands(group: RowGroup) -> Any:
    """[R, visible], the position of the token at each place."""
    rows = len(group.places)
    stands = torch.arange(group.shelf.capacity, device=group.places.device).repeat(rows, 1)
    return stands.scatter_(1, group.places, group.positions)[:, : group.visible]


@contextmanager
def _made_as(base: Any, method: str, bias: Any) -> Iterator[None]:
    """A method of the model's gives this bias."""
    setattr(base, method, lambda *_, **__: bias)
    try:
        yield
    finally:
        delattr(base, method)


def _bloom(base: Any, group: RowGroup, arguments: dict[str, Any]) -> AbstractContextManager[None]:
    """Bloom makes its bias, [R · heads, 1, visible], by a method."""
    stands = _stands(group)
    every = stands.new_ones((1, group.shelf.capacity))
    table = base.build_alibi_tensor(every, base.num_heads, base.dtype)[:, 0]
    bias = table[:, stands].transpose(0, 1).reshape(-1, 1, group.visible)
    return _made_as(base, "build_alibi_tensor", bias)


@contextmanager
def _falcon(base: Any, group: RowGroup, arguments: dict[str, Any]) -> Iterator[None]:
    """Falcon adds its bias to a mask that it makes itself. Here it comes with the mask, and the model is run as one
    that rotates, with every token at position 0, which rotates nothing."""
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    stands = _stands(group)
    every = stands.new_ones((1, group.shelf.capacity))
    table = build_alibi_tensor(every, base.num_heads, base.dtype)[:, 0]
    bias = table[:, stands].transpose(0, 1)[:, :, None] / math.sqrt(base.config.hidden_size // base.num_heads)
    arguments["attention_mask"] = arguments["attention_mask"] + bias
    arguments["position_ids"] = torch.zeros_like(group.positions)
    base.use_alibi = False
    try:
        yield
    finally:
        base.use_alibi = True


def _mpt(base: Any, group: RowGroup, arguments: dict[str, Any]) -> AbstractContextManager[None]:
    """MPT makes its bias, [heads, 1, visible], by a method, for all rows alike: they must be read one by one."""
    table = base.build_mpt_alibi_tensor(base.num_heads, group.shelf.capacity, device=base.device)
    bias = table[:, :, _stands(group)[0]]
    bias = bias - bias.amax(-1, keepdim=True)  # near 0 where it matters most, as the model's own
    return _made_as(base, "build_mpt_alibi_tensor", bias)


@contextmanager
def _gpt_neo(base: Any, group: RowGroup, arguments: dict[str, Any]) -> Iterator[None]:
    """GPT-Neo's layers cut their causal masks, with windows in the local ones, out of a square [places, places]."""
    rows, n = group.places.shape
    window = base.config.window_size
    near = group.positions[:, :, None] - _stands(group)[:, None] < window
    everything = near.new_ones((rows, 1, group.visible, group.visible))
    local = everything.clone()
    local[:, 0, -n:] = near
    layers = [block.attn.attention for block in base.h]
    biases = [layer.bias for layer in layers]
    for layer in layers:
        layer.bias = local if layer.attention_type == "local" else everything
    try:
        yield
    finally:
        for layer, bias in zip(layers, biases, strict=True):
            layer.bias = bias
