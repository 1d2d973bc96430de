"""What stands before each row of logits: the prompt, the answer so far, and the row's own path through a drafted block.

Penalties, custom processors and grammars read it, so that a row in a block is treated as plain decoding would treat
the same place. A row that needs none of them never looks at it: building a `History` copies nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class History:
    """One session's path to its rows of logits.

    Row 0 stands after the prompt and the accepted tokens, row `i + 1` after item `i` on its path.

    Args:
        prompt: the prompt's token ids.
        accepted: the answer so far.
        items: the n drafted tokens, parents before children; () for a plain step. A tensor is brought to the host only
            if a setting asks for paths.
        parents: each item's parent, -1 for the accepted tokens; None for a chain.
        start: the first row that is wanted. `len(items)` asks for the last row alone, as a draft model does at each
            of its steps; a tree's next level is the rows from its first item on.
        memo: a dict private to the task and the component (it lies in `context.scratch`) for what need not be computed
            from the beginning each time. It may be emptied at any time and nothing changes but the cost.
    """

    __slots__ = ("_items", "accepted", "memo", "parents", "prompt", "start")

    def __init__(
        self,
        prompt: Sequence[int],
        accepted: Sequence[int],
        items: Sequence[int] = (),
        parents: Sequence[int] | None = None,
        *,
        start: int = 0,
        memo: dict[Any, Any] | None = None,
    ) -> None:
        self.prompt = prompt
        self.accepted = accepted
        self.parents = parents
        self.start = start
        self.memo = {} if memo is None else memo
        self._items: Any = items

    @property
    def items(self) -> list[int]:
        """The drafted tokens, on the host."""
        if type(self._items) is not list:
            items = self._items
            self._items = items.tolist() if hasattr(items, "tolist") else [int(item) for item in items]
        return self._items

    def __len__(self) -> int:
        """How many rows are wanted."""
        return len(self._items) + 1 - self.start

    def places(self) -> list[list[int]]:
        """The indices of the items before each wanted row, the oldest first; needs no item on the host."""
        rows = range(self.start, len(self._items) + 1)
        parents = self.parents
        if parents is None:
            return [list(range(row)) for row in rows]
        paths = []
        for row in rows:
            path, item = [], row - 1
            while item >= 0:
                path.append(item)
                item = int(parents[item])
            paths.append(path[::-1])
        return paths

    def paths(self) -> list[list[int]]:
        """The drafted tokens before each wanted row, the oldest first."""
        items = self.items
        return [[items[place] for place in path] for path in self.places()]

    def items_like(self, tensor: Any) -> Any:
        """The drafted tokens as int64 on the device of `tensor`; without a synchronisation if they lie there."""
        import torch

        if isinstance(self._items, torch.Tensor) and self._items.device == tensor.device:
            return self._items.long()
        return upload(np.asarray(self.items, dtype=np.int64), tensor)


def upload(values: Any, like: Any) -> Any:
    """A NumPy array on the device of the tensor `like`. A CUDA device is not waited for."""
    import torch

    tensor = torch.from_numpy(values)
    if like.device.type == "cuda":
        return tensor.pin_memory().to(like.device, non_blocking=True)
    return tensor.to(like.device)
