"""Keys and values of many sequences, in buffers that are written by position, on shelves by length.

A shelf holds the sequences of one length class, a row each; one that outgrows its shelf is copied to the next. So a
short sequence beside a long one takes no more room than it needs, nor does a pass look at more of it. Nothing is
deleted: what a refused token wrote is overwritten by the next one, and until then the attention mask hides it.
Rejecting is moving a position back; only a tree, whose accepted path does not stand in one piece, is gathered into one.

What two sequences have in common at their beginning is read once: a new one copies it from whoever holds it, be it a
row whose sequence has ended and that nobody has taken yet.

The idea of writing by position is gpt-fast's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from draftverify_tokens.history import upload

__all__ = ["Group", "Shelf", "Slot", "Slots", "agreement", "put", "seen", "shared"]

FINE = 64
"""The smallest capacity where there are four steps to a doubling."""
COARSE = 256
"""The smallest capacity where each is twice the one before."""
SHARED = 16
"""Fewer tokens in common than these are read again."""
SLACK = 1.2
"""Most that is held for each place of the rows in use; with rows a quarter too long it is one and a half times."""


class Group(NamedTuple):
    """Rows of one shelf in a forward pass: R rows of N tokens each, padded at the end.

    Padding, and all tokens of a row that sits the pass out, are written to a row's last place, which no sequence uses.

    Args:
        ids: [R, N] int64, token ids.
        positions: [R, N] int64, a token's place in its sequence, which is what rotates its keys. Siblings share one.
        places: [R, N] int64, where its key and value are written.
        shelf: whose rows they are.
        first: rows first … first + R - 1 of the shelf take part.
        at: the first place, when a single row is written in one piece; None otherwise, and where steps are compiled.
        visible: how many places are looked at; the capacity where steps are compiled.
        masks: by window (None for full attention): [R, 1, N, visible], 0 where a token looks and the least number of
            the type elsewhere. Without one a token sees all of `visible`, or what stands before it when `causal`.
        causal: whether this is the beginning of one sequence, read as a chain.
        paths: [R, N] int64 where steps are compiled, instead of masks: bit i says whether a token looks at the
            i-th place after its row's first one.
    """

    ids: Any
    positions: Any
    places: Any
    shelf: Shelf
    first: int
    at: int | None
    visible: int
    masks: dict[int | None, Any]
    causal: bool = False
    paths: Any = None


def put(buffer: Any, new: Any, group: Group) -> None:
    """Write new keys or values [R, heads, N, width] into a buffer [rows, heads, capacity, width]."""
    if group.at is not None:
        buffer[group.first, :, group.at : group.at + new.shape[2]] = new[0]
    else:
        import torch

        rows = torch.arange(group.first, group.first + new.shape[0], device=new.device)
        buffer[rows[:, None], :, group.places] = new.transpose(1, 2)


def seen(buffer: Any, group: Group) -> Any:
    """What a group may look at: a view [R, heads, visible, width]."""
    return buffer[group.first : group.first + len(group.places), :, : group.visible]


class Shelf:
    """Rows of one capacity.

    Attributes:
        capacity: places per row; the last is for padding.
        rows: how many rows the buffers have.
        keys, values: a buffer [rows, heads, capacity, width] of each layer; [] until something was read.
        owners: the sequences, by row.
        free: the rows that nobody owns, the longest unused first, and the tokens that can still be copied from each.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows = 0
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.owners: WeakValueDictionary[int, Slot] = WeakValueDictionary()
        self.free: dict[int, list[int]] = {}

    def resize(self, rows: int, kept: Sequence[int]) -> None:
        """Make the buffers so many rows high; what the rows `kept` hold stands in the first of them after it."""
        some = upload(np.asarray(kept), self.keys[0]) if self.keys and len(kept) < self.rows else None
        for buffers in (self.keys, self.values):
            for index, old in enumerate(buffers):
                buffers[index] = self._zeros(old, rows)
                buffers[index][: len(kept)] = old if some is None else old.index_select(0, some)
        self.rows = rows

    def grow(self, rows: int) -> None:
        """Make the buffers at least so many rows high; what they hold stays."""
        if rows > self.rows:
            before = self.rows
            self.resize(rows, range(before))
            self.free |= {row: [] for row in range(before, rows)}

    def shrink(self) -> None:
        """Let the rows go that nobody owns."""
        slots = sorted(self.owned(), key=lambda slot: slot.row)
        self.resize(len(slots), [slot.row for slot in slots])
        for row, slot in enumerate(slots):
            slot.row = row
        self.owners = WeakValueDictionary(enumerate(slots))
        self.free = {}

    def new(self, like: Any) -> Any:
        """A layer's buffer, of the type, device, heads and width of `like` [R, heads, N, width]."""
        return self._zeros(like, self.rows)

    def _zeros(self, like: Any, rows: int) -> Any:
        # Zeros: what was never written is hidden by the mask, but a NaN would show through it.
        return like.new_zeros((rows, like.shape[1], self.capacity, like.shape[3]))

    def copy(self, row: int, source: Shelf, of: int, n: int) -> None:
        """Copy the first n entries of a row of another shelf, or of this."""
        if not n or (source is self and of == row):
            return
        for own, others in ((self.keys, source.keys), (self.values, source.values)):
            own += [self.new(other) for other in others[len(own) :]]
            for buffer, other in zip(own, others, strict=True):
                buffer[row, :, :n] = other[of, :, :n]

    def held(self) -> list[tuple[int, list[int]]]:
        """Rows, and the tokens that may be copied from them."""
        return [*self.free.items(), *((slot.row, slot.tokens[: slot.own]) for slot in self.owned())]

    def owned(self) -> list[Slot]:
        """The sequences here; a list, since other threads let go of theirs at any time."""
        return [slot for known in self.owners.valuerefs() if (slot := known()) is not None]

    def close_ranks(self, slots: Sequence[Slot], first: int) -> None:
        """Move sequences down into free rows from `first` on, so that they stand closer together."""
        for row in sorted(row for row in list(self.free) if row >= first):
            last = max(slots, key=lambda slot: slot.row)
            if last.row < row:
                break
            last.move(self, row)


class Slots:
    """The shelves of one model.

    Args:
        coarse: capacities are powers of two; else the steps are so fine that a row has at most a quarter more places
            than its shelf's shortest sequence has tokens. A group costs a call where the model is its own code, and
            a compilation where steps are compiled.
        padded: shelves have a power of two of rows and are never let go, since compiled steps hold their addresses.
    """

    def __init__(self, *, coarse: bool = False, padded: bool = False) -> None:
        self.coarse = coarse
        self.padded = padded
        self.shelves: dict[int, Shelf] = {}
        self.ahead: Any = None  # happens when a pass on another stream has ended
        self._copied: Any = None  # happens when the last noted block is on the host

    def take(self) -> Slot:
        """A new sequence; it has a row once it is placed."""
        return Slot(self)

    def capacity(self, places: int) -> int:
        """The least capacity of a row with so many places, and one for padding."""
        least = COARSE if self.coarse else FINE
        if places < least:
            return least
        octave = 1 << places.bit_length() - 1  # octave <= places < 2 * octave
        step = octave if self.coarse else octave // 4
        return octave + (places - octave) // step * step + step

    def shelf(self, capacity: int, rows: int = 0) -> Shelf:
        """The shelf of a capacity, with at least so many rows."""
        shelf = self.shelves.setdefault(capacity, Shelf(capacity))
        if rows > shelf.rows:
            # One more at a time would copy all of them each time.
            shelf.grow(1 << (rows - 1).bit_length() if self.padded else max(rows, shelf.rows * 9 // 8))
        return shelf

    def note(self, slots: Sequence[Slot]) -> None:
        """Have the blocks that lie on a CUDA device on the host when `arrived` is called, without waiting now."""
        import torch

        away = [slot for slot in slots if getattr(slot.block, "is_cuda", False)]
        if not away:
            return
        blocks = torch.cat([slot.block for slot in away])
        host = torch.empty(blocks.shape, dtype=blocks.dtype, pin_memory=True)
        host.copy_(blocks, non_blocking=True)
        self._copied = torch.cuda.Event()
        self._copied.record()
        for slot, own in zip(away, host.split([len(slot.block) for slot in away]), strict=True):
            slot.block = own

    def meet(self) -> None:
        """Have the device finish what was started ahead before it does anything else here; nobody waits."""
        import torch

        if self.ahead is not None:
            torch.cuda.current_stream().wait_event(self.ahead)
            self.ahead = None

    def arrived(self) -> None:
        """Have what was noted on the host."""
        # A rule that waited for the device since has waited for this too.
        if self._copied is not None and not self._copied.query():
            self._copied.synchronize()
        self._copied = None

    def place(
        self, slots: Sequence[Slot], places: Sequence[int], texts: Sequence[list[int]] | None = None
    ) -> None:
        """Give each sequence a row with so many places; one that has outgrown its shelf takes its entries along.

        Args:
            slots: the sequences.
            places: how many each needs.
            texts: what each is going to hold: a new one gets the beginning of it that some row holds, all but the last
                token at most, as its settled tokens. None: nothing is copied.
        """
        moving = [
            (index, self.capacity(n))
            for index, (slot, n) in enumerate(zip(slots, places, strict=True))
            if slot.shelf is None or slot.shelf.capacity <= n
        ]
        before = self._held()
        for capacity, more in Counter(capacity for _, capacity in moving).items():
            shelf = self.shelf(capacity)
            self.shelf(capacity, shelf.rows + more - len(shelf.free))
        for index, capacity in moving:
            slot, shelf = slots[index], self.shelves[capacity]
            row = next((row for row, tokens in list(shelf.free.items()) if not tokens), None)
            row = next(iter(shelf.free)) if row is None else row
            if slot.shelf is None and texts is not None:
                source, of, n = self._lender(texts[index])
                if source is shelf and of in shelf.free:
                    row = of
                if source is not None:
                    shelf.copy(row, source, of, n)
                    slot.tokens = texts[index][:n]
            slot.move(shelf, row)
        if self._held() > before and not self.padded:
            self._trim()

    def _lender(self, text: list[int]) -> tuple[Shelf | None, int, int]:
        """Who holds most of a text's beginning: the shelf, the row, and how many tokens; None for nobody."""
        best: tuple[Shelf | None, int, int] = None, 0, 0
        for shelf in self.shelves.values():
            for row, tokens in shelf.held():
                n = shared(tokens, text)
                if n > best[2]:
                    best = shelf, row, n
                    if n == len(text) - 1:
                        return best
        return best

    def _held(self) -> int:
        """Places in all rows."""
        return sum(shelf.rows * shelf.capacity for shelf in self.shelves.values())

    def _trim(self) -> None:
        """Let free rows go, where there are too many beside those in use."""
        used = sum(len(shelf.owners) * shelf.capacity for shelf in self.shelves.values())
        if self._held() > SLACK * used:
            for capacity, shelf in list(self.shelves.items()):
                if not shelf.owners:
                    del self.shelves[capacity]
                elif shelf.free:
                    shelf.shrink()


class Slot:
    """One sequence's row, and which tokens stand in it.

    Attributes:
        shelf: where the row is; None before it was placed, and once it was given back.
        row: the row.
        tokens: those that are settled, from place 0 on.
        block: what was written after them and may have been refused.
        parents: of the block's tokens, as a proposal has them; None for a chain.
        prompt: the list that the first tokens were taken from.
        own: how many of the tokens the owner of the cache has read itself, when a guest has written after them;
            None: all.
    """

    __slots__ = ("__weakref__", "block", "own", "parents", "prompt", "row", "shelf", "slots", "tokens")

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.shelf: Shelf | None = None
        self.row = -1
        self.tokens: list[int] = []
        self.block: Any = ()
        self.parents: Sequence[int] | None = None
        self.prompt: Sequence[int] | None = None
        self.own: int | None = None

    def move(self, shelf: Shelf, row: int) -> None:
        """Take what it has to a free row."""
        if self.shelf is not None:
            shelf.copy(row, self.shelf, self.row, len(self.tokens) + len(self.block))
            self.shelf.owners.pop(self.row)
            self.shelf.free[self.row] = []
        del shelf.free[row]
        self.shelf, self.row = shelf, row
        shelf.owners[row] = self

    def take(self, other: Slot, n: int) -> None:
        """Copy the first n settled tokens of another one."""
        assert self.shelf is not None
        assert other.shelf is not None
        self.shelf.copy(self.row, other.shelf, other.row, n)
        self.tokens = other.tokens[:n]

    def gather(self, chosen: Sequence[int]) -> None:
        """Move the block's entries `chosen` into one piece behind the settled tokens."""
        assert self.shelf is not None
        start = len(self.tokens)
        source = upload(np.asarray([start + index for index in chosen]), self.shelf.keys[0])
        for buffer in (*self.shelf.keys, *self.shelf.values):
            buffer[self.row, :, start : start + len(chosen)] = buffer[self.row].index_select(1, source)

    def reclaim(self) -> None:
        """Forget what a guest has written; the owner's next pass writes over it."""
        if self.own is not None:
            del self.tokens[self.own :]
            self.block, self.parents, self.own = (), None, None

    def close(self) -> None:
        """Give the row back; a slot that nobody holds any more does so by itself."""
        if self.shelf is not None:
            self.shelf.owners.pop(self.row, None)
            self.shelf.free[self.row] = self.tokens[: self.own]
            self.shelf = None

    __del__ = close


def shared(held: Sequence[int], text: Sequence[int], known: int = 0) -> int:
    """How many tokens a text may take from another: those that both begin with, but not its last, whose logits are
    wanted; 0 where that is not worth it, when the first `known` are at hand."""
    if held[:SHARED] != text[:SHARED]:
        return 0
    n = min(agreement(held, text), len(text) - 1)
    return n if n >= known + SHARED else 0


def agreement(held: Sequence[int], wanted: Sequence[int]) -> int:
    """How many tokens from the start on are the same."""
    low, high = 0, min(len(held), len(wanted))
    while low < high:  # comparing slices is quicker than comparing tokens
        middle = (low + high + 1) // 2
        if held[low:middle] == wanted[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
