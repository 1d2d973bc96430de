"""A pass as a CUDA graph: one launch in the place of some hundreds, which on a GPU take longer than a small step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from draftverify_tokens.slots import Group

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
        run: `run(x, cos, sin, groups)`, the layers of a model, without a synchronisation.
    """

    def __init__(self, run: Callable[..., tuple[Any, Any]]) -> None:
        self.run = run
        self._made: dict[Any, _Graph] = {}

    def __call__(self, x: Any, cos: Any, sin: Any, groups: Sequence[Group]) -> tuple[Any, Any]:
        """As `run`; what it returns is overwritten by the next call of the same shape."""
        given = [x, cos, sin]
        for group in groups:
            given += [group.places, *group.masks.values()]
        shape = tuple(
            (tuple(group.ids.shape), group.visible, group.first, group.shelf.keys[0].data_ptr())
            for group in groups
        )
        found = self._made.get(shape)
        if found is None:
            found = self._made[shape] = self._capture([tensor.clone() for tensor in given], groups)
        for held, tensor in zip(found.inputs, given, strict=True):
            held.copy_(tensor)
        found.graph.replay()
        return found.outputs

    def _capture(self, inputs: list[Any], groups: Sequence[Group]) -> _Graph:
        x, cos, sin, *more = inputs
        held = iter(more)
        still = [
            group._replace(places=next(held), masks={window: next(held) for window in group.masks})
            for group in groups
        ]
        # What is compiled or allocated at the first call must not be in the graph.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.run(x, cos, sin, still)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = self.run(x, cos, sin, still)
        return _Graph(graph, inputs, outputs)
