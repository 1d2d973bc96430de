"""Steps as CUDA graphs: one launch in the place of some hundreds, which on a GPU take longer than a small step."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple
from weakref import ref

import torch

MOST = 256
"""So many graphs are held; a ladder of tokens and capacities for one batch size has some sixty."""
SEEN = 3
"""A step over several shelves is captured when its like comes for the third time. There are many compositions of
lengths and most come once, while a capture takes as long as some ten steps."""

log = logging.getLogger("draftverify.tokens")


class _Graph(NamedTuple):
    graph: Any
    inputs: list[Any]
    outputs: tuple[Any, ...]
    buffers: list[ref[Any]]


class Graphs:
    """Captures a step once for each of its shapes, and replays it.

    Weights and key-value buffers are read and written where they are, so only the step's own small tensors are copied.
    All captures share one pool of memory, which is as large as the largest step needs. A graph whose buffers were
    replaced by larger ones is dropped, and beyond `MOST` the one that was not used for longest.
    """

    def __init__(self) -> None:
        self._made: OrderedDict[Hashable, _Graph] = OrderedDict()
        self._seen: Counter[Hashable] = Counter()
        self._pool: Any = None

    def clear(self) -> None:
        """Drop all graphs: the weights lie elsewhere."""
        for key in list(self._made):
            self._drop(key)

    def __call__(
        self,
        key: Hashable,
        inputs: Sequence[Any],
        buffers: Sequence[Any],
        step: Callable[[Sequence[Any]], tuple[Any, ...]],
    ) -> tuple[Any, ...]:
        """What `step(inputs)` returns.

        Args:
            key: the same for steps that launch the same, but for what stands in inputs and buffers.
            inputs: small tensors, which are copied.
            buffers: one of each group of tensors that are replaced together when they grow.
            step: without a synchronisation, and such that doing it twice is doing it once.

        Returns:
            Tensors that the next call overwrites.
        """
        captured = self._made.get(key)
        if captured is None or not _same(captured.buffers, buffers):
            self._forget()
            if len(buffers) > 1 and self._seen[key] < SEEN - 1:
                self._seen[key] += 1
                return step(inputs)
            captured = self._made[key] = self._capture(inputs, buffers, step)
            log.info("captured a step of %s; %d graphs are held", key, len(self._made))
            if len(self._made) > MOST:
                self._drop(next(iter(self._made)))
        self._made.move_to_end(key)
        torch._foreach_copy_(captured.inputs, list(inputs))
        captured.graph.replay()
        return captured.outputs

    def _capture(
        self, inputs: Sequence[Any], buffers: Sequence[Any], step: Callable[[Sequence[Any]], tuple[Any, ...]]
    ) -> _Graph:
        held = [tensor.clone() for tensor in inputs]
        # What is compiled, tuned or allocated at the first call must not be in the graph.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                step(held)
        torch.cuda.current_stream().wait_stream(side)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        # Other threads may allocate meanwhile.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            outputs = step(held)
        return _Graph(graph, held, outputs, list(map(ref, buffers)))

    def _forget(self) -> None:
        """Drop the graphs of buffers that are no more."""
        held = self._made.items()
        stale = [key for key, graph in held if any(buffer() is None for buffer in graph.buffers)]
        for key in stale:
            self._drop(key)
        if stale:
            log.info("dropped %d graphs, whose buffers were replaced by larger ones", len(stale))

    def _drop(self, key: Hashable) -> None:
        self._made.pop(key).graph.reset()


def _same(held: Sequence[ref[Any]], buffers: Sequence[Any]) -> bool:
    return all(old() is new for old, new in zip(held, buffers, strict=True))
