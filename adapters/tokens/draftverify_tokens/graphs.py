"""A pass as a CUDA graph: one launch in the place of some hundreds, which on a GPU take longer than a small step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from draftverify_tokens.slots import Pass

__all__ = ["Graphs"]


class _Graph(NamedTuple):
    graph: Any
    inputs: list[Any]
    outputs: tuple[Any, Any]


class Graphs:
    """Captures a function of a pass once for each shape, and replays it.

    Weights and key-value buffers are read and written where they are, so only the pass's own small tensors are copied.
    Buffers that have grown lie elsewhere, and are captured anew.

    Args:
        run: `run(x, cos, sin, now, keys, values)`, the layers of a model, without a synchronisation.
    """

    def __init__(self, run: Callable[..., tuple[Any, Any]]) -> None:
        self.run = run
        self._made: dict[Any, _Graph] = {}

    def __call__(
        self, x: Any, cos: Any, sin: Any, now: Pass, keys: list[Any], values: list[Any]
    ) -> tuple[Any, Any]:
        """As `run`; what it returns is overwritten by the next call of the same shape."""
        given = [x, cos, sin, now.places, *now.masks.values()]
        shape = tuple(x.shape), now.visible, keys[0].data_ptr()
        found = self._made.get(shape)
        if found is None:
            if any(key[2] != shape[2] for key in self._made):
                self._made.clear()
            found = self._made[shape] = self._capture([tensor.clone() for tensor in given], now, keys, values)
        for held, tensor in zip(found.inputs, given, strict=True):
            held.copy_(tensor)
        found.graph.replay()
        return found.outputs

    def _capture(self, inputs: list[Any], now: Pass, keys: list[Any], values: list[Any]) -> _Graph:
        x, cos, sin, places, *masks = inputs
        still = now._replace(places=places, masks=dict(zip(now.masks, masks, strict=True)))
        # What is compiled or allocated at the first call must not be in the graph.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.run(x, cos, sin, still, keys, values)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = self.run(x, cos, sin, still, keys, values)
        return _Graph(graph, inputs, outputs)
