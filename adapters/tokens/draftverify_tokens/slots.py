"""Keys and values of many sequences, in buffers that are allocated once and written by position.

Each sequence has a row of every layer's buffer. Nothing is deleted: what a refused token wrote is overwritten by the
next one, and until then the attention mask hides it. Rejecting is moving a position back; only a tree, whose accepted
path does not stand in one piece, is gathered into one.

The idea of writing by position is gpt-fast's.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

__all__ = ["Pass", "Slot", "Slots", "put", "seen"]

GRAIN = 256
"""Buffers grow in steps of so many places."""


class Pass(NamedTuple):
    """Where one forward pass reads and writes: R rows of N tokens each, padded at the end.

    Args:
        ids: [R, N] int64, token ids.
        positions: [R, N] int64, a token's place in its sequence, which is what rotates its keys. Siblings share one.
        places: [R, N] int64, where its key and value are written.
        at: the row and the first place, when one row is written in one piece; None otherwise.
        visible: how many places are looked at.
        masks: by window (None for full attention): [R, 1, N, visible], 0 where a token looks and the least number of
            the type elsewhere. Without one a token sees all of `visible`, or what stands before it when `causal`.
        causal: whether this is the beginning of a sequence, read as a chain.
    """

    ids: Any
    positions: Any
    places: Any
    at: tuple[int, int] | None
    visible: int
    masks: dict[int | None, Any]
    causal: bool = False


def put(buffer: Any, new: Any, now: Pass) -> None:
    """Write new keys or values [R, heads, N, width] into a buffer [rows, heads, places, width]."""
    if now.at is not None:
        row, start = now.at
        buffer[row, :, start : start + new.shape[2]] = new[0]
    else:
        import torch

        rows = torch.arange(new.shape[0], device=new.device)
        buffer[rows[:, None], :, now.places] = new.transpose(1, 2)


def seen(buffer: Any, now: Pass, rows: int) -> Any:
    """What a pass may look at: a view [R, heads, visible, width]."""
    first = 0 if now.at is None else now.at[0]
    return buffer[first : first + rows, :, : now.visible]


class Slots:
    """The buffers of one model, [rows, heads, places, width] per layer; they grow as they are needed."""

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.rows = 1
        self.places = GRAIN
        self.owners: WeakValueDictionary[int, Slot] = WeakValueDictionary()
        self._free: list[int] = []
        self._used = 0

    def take(self) -> Slot:
        """A row for a new sequence: the lowest free one."""
        row = heapq.heappop(self._free) if self._free else self._used
        self._used = max(self._used, row + 1)
        slot = self.owners[row] = Slot(self, row)
        return slot

    def give_back(self, row: int) -> None:
        """Let a row be used again."""
        self.owners.pop(row, None)
        heapq.heappush(self._free, row)

    def close_ranks(self, slots: Sequence[Slot]) -> int:
        """Move sequences down into free rows.

        Returns:
            How many rows, from the first on, hold all of `slots`.
        """
        for slot in sorted(slots, key=lambda slot: -slot.row) if self._free else ():
            if slot.row < len(slots) or not self._free or self._free[0] >= slot.row:
                break
            row = heapq.heappop(self._free)
            for buffer in (*self.keys, *self.values):
                buffer[row] = buffer[slot.row]
            self.give_back(slot.row)
            slot.row = row
            self.owners[row] = slot
        return max(slot.row for slot in slots) + 1

    def reserve(self, rows: int, places: int) -> None:
        """Make room; what the buffers hold stays."""
        if rows <= self.rows and places <= self.places:
            return
        if rows > self.rows:
            self.rows = rows if not self.keys else max(rows, 2 * self.rows)
        if places > self.places:
            self.places = -(-max(places, self.places * 3 // 2) // GRAIN) * GRAIN
        for buffers in (self.keys, self.values):
            for index, old in enumerate(buffers):
                new = old.new_zeros((self.rows, old.shape[1], self.places, old.shape[3]))
                new[: old.shape[0], :, : old.shape[2]] = old
                buffers[index] = new

    def new(self, like: Any) -> Any:
        """A layer's buffer, of the type, device, heads and width of `like` [R, heads, N, width]."""
        # Zeros: what was never written is hidden by the mask, but a NaN would show through it.
        return like.new_zeros((self.rows, like.shape[1], self.places, like.shape[3]))

    def gather(self, slot: Slot, start: int, chosen: Sequence[int]) -> None:
        """Move the entries at start + chosen[i] to start + i, into one piece."""
        import torch

        for buffer in (*self.keys, *self.values):
            source = torch.as_tensor([start + index for index in chosen], device=buffer.device)
            buffer[slot.row, :, start : start + len(chosen)] = buffer[slot.row].index_select(1, source)


class Slot:
    """One sequence's row, and which tokens stand in it.

    Attributes:
        tokens: those that are settled, from place 0 on.
        block: what was written after them and may have been refused.
        parents: of the block's tokens, as a proposal has them; None for a chain.
        prompt: the list that the first tokens were taken from.
        own: how many of the tokens the owner of the cache has read itself, when a guest has written after them;
            None: all.
    """

    __slots__ = ("__weakref__", "block", "own", "parents", "prompt", "row", "slots", "tokens")

    def __init__(self, slots: Slots, row: int) -> None:
        self.slots = slots
        self.row = row
        self.tokens: list[int] = []
        self.block: Any = ()
        self.parents: Sequence[int] | None = None
        self.prompt: Sequence[int] | None = None
        self.own: int | None = None

    def reclaim(self) -> None:
        """Forget what a guest has written; the owner's next pass writes over it."""
        if self.own is not None:
            del self.tokens[self.own :]
            self.block, self.parents, self.own = (), None, None

    def close(self) -> None:
        """Give the row back; a slot that nobody holds any more does so by itself."""
        if self.row >= 0:
            self.slots.give_back(self.row)
            self.row = -1

    __del__ = close
