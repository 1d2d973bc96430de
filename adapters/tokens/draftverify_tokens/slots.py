"""Keys and values of many sequences, in buffers that are written by position, on shelves by length.

A shelf holds the sequences of one length class, a row each; one that outgrows its shelf is copied to the next. So a
short sequence beside a long one takes no more room than it needs, nor does a pass look at more of it. Nothing is
deleted: what a refused token wrote is overwritten by the next one, and until then the attention mask hides it.
Rejecting is moving a position back; only a tree, whose accepted path does not stand in one piece, is gathered into one.

What two sequences have in common at their beginning is read once: a new one copies it from whoever holds it, be it a
row whose sequence has ended and that nobody has taken yet. The whole prompt is not copied from a sequence of the same
task: of pipelines that are compared on a task, each reads it itself, or the first would pay for all.

The idea of writing by position is gpt-fast's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from draftverify_tokens.history import upload

FINE = 64
"""The smallest capacity where there are four steps to a doubling."""
COARSE = 256
"""The smallest capacity where each is twice the one before."""
SHARED = 16
"""Fewer tokens in common than these are read again."""
SLACK = 1.2
"""Most that is held for each place of the rows in use; with rows a quarter too long it is one and a half times."""


class RowGroup(NamedTuple):
    """Rows of one shelf in a forward pass: R rows of N tokens each, padded at the end.

    Padding, and all tokens of a row that sits the pass out, are written to a row's last place, which no sequence uses.

    Args:
        ids: [R, N] int64, token ids.
        positions: [R, N] int64, a token's place in its sequence, which is what rotates its keys. Siblings share one.
        places: [R, N] int64, where its key and value are written.
        shelf: whose rows they are.
        first_row: rows first_row … first_row + R - 1 of the shelf take part.
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
    shelf: CacheShelf
    first_row: int
    at: int | None
    visible: int
    masks: dict[int | None, Any]
    causal: bool = False
    paths: Any = None


def put(buffer: Any, new: Any, group: RowGroup) -> None:
    """Write new keys or values [R, heads, N, width] into a buffer [rows, heads, capacity, width]."""
    if group.at is not None:
        buffer[group.first_row, :, group.at : group.at + new.shape[2]] = new[0]
    else:
        import torch

        rows = torch.arange(group.first_row, group.first_row + new.shape[0], device=new.device)
        buffer[rows[:, None], :, group.places] = new.transpose(1, 2)


def seen(buffer: Any, group: RowGroup) -> Any:
    """What a group may look at: a view [R, heads, visible, width]."""
    return buffer[group.first_row : group.first_row + len(group.places), :, : group.visible]


@dataclass(slots=True, eq=False)
class ShelfRow:
    """A place for one sequence on a shelf.

    A sequence may end at any time and in any thread, in the midst of a pass of others too. So it says that in `left`
    alone; which row is taken, moved or let go is decided in passes, which take turns.

    Attributes:
        index: its place in the buffers.
        owner: whose row it is; dead or None where it was never taken.
        task: the last owner's.
        left: when the last owner left it, and which tokens can still be copied from it; None while it is owned.
    """

    index: int
    owner: ref[Slot] | None = None
    task: str | None = None
    left: tuple[int, list[int]] | None = field(default_factory=lambda: (0, []))

    def leave(self, tokens: list[int]) -> None:
        """Nobody owns it any more; the tokens can still be copied."""
        self.left = next(_leaving), tokens

    def held(self) -> list[int]:
        """The tokens that may be copied from it."""
        lent = self.left
        if lent is not None:
            return lent[1]
        slot = self.owner() if self.owner is not None else None
        return [] if slot is None else slot.tokens[: slot.own]


_leaving = count(1)


class CacheShelf:
    """Rows of one capacity.

    Attributes:
        capacity: places per row; the last is for padding.
        line: its rows, in their order in the buffers.
        keys, values: a buffer [rows, heads, capacity, width] of each layer; [] until something was read.
        states: [rows, layers, capacity, width], where hidden states are kept; in a list, as the others are.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.line: list[ShelfRow] = []
        self.keys: list[Any] = []
        self.values: list[Any] = []
        self.states: list[Any] = []

    @property
    def buffers(self) -> tuple[list[Any], list[Any], list[Any]]:
        """All that is kept of a token."""
        return self.keys, self.values, self.states

    @property
    def rows(self) -> int:
        """How many rows the buffers have."""
        return len(self.line)

    def free(self) -> list[ShelfRow]:
        """The rows that nobody owns: those without tokens, then the longest unused first."""
        rows = [(row.left, row) for row in self.line]
        free = [(bool(lent[1]), lent[0], row) for lent, row in rows if lent is not None]
        return [row for *_, row in sorted(free, key=lambda entry: entry[:2])]

    def forget(self) -> None:
        """Have nothing of what its rows hold lent; nobody may own one."""
        self.line = [ShelfRow(index) for index in range(self.rows)]
        for buffer in chain(*self.buffers):
            buffer.zero_()  # the mask hides what it holds, but not a NaN

    def resize(self, line: list[ShelfRow], rows: int) -> None:
        """Make the buffers so many rows high; what the rows of `line` hold stands in the first of them after it."""
        indices = [row.index for row in line]
        some = upload(np.asarray(indices), self.keys[0]) if self.keys and len(indices) < self.rows else None
        for buffers in self.buffers:
            for index, old in enumerate(buffers):
                buffers[index] = self._zeros(old, rows)
                buffers[index][: len(indices)] = old if some is None else old.index_select(0, some)
        for index, row in enumerate(line):
            row.index = index
        self.line = line + [ShelfRow(index) for index in range(len(line), rows)]

    def grow(self, rows: int) -> None:
        """Make the buffers at least so many rows high; what they hold stays."""
        if rows > self.rows:
            self.resize(self.line, rows)

    def shrink(self) -> None:
        """Let the rows go that nobody owns."""
        owned = [row for row in self.line if row.left is None]
        self.resize(owned, len(owned))

    def new(self, like: Any) -> Any:
        """A layer's buffer, of the type, device, heads and width of `like` [R, heads, N, width]."""
        return self._zeros(like, self.rows)

    def _zeros(self, like: Any, rows: int) -> Any:
        # Zeros: what was never written is hidden by the mask, but a NaN would show through it.
        return like.new_zeros((rows, like.shape[1], self.capacity, like.shape[3]))

    def keep_states(self, states: Any, group: RowGroup) -> None:
        """Keep a pass's hidden states [R, N, layers, width]."""
        new = states.transpose(1, 2)
        if not self.states:
            self.states.append(self.new(new))
        put(self.states[0], new, group)

    def copy(self, row: ShelfRow, source: CacheShelf, of: ShelfRow, n: int) -> None:
        """Copy the first n entries of a row of another shelf, or of this."""
        if not n or of is row:
            return
        for buffers, originals in zip(self.buffers, source.buffers, strict=True):
            buffers += [self.new(original) for original in originals[len(buffers) :]]
            for buffer, original in zip(buffers, originals, strict=True):
                buffer[row.index, :, :n] = original[of.index, :, :n]

    def close_ranks(self, slots: Sequence[Slot], first_row: int) -> None:
        """Move sequences down into free rows from `first` on, so that they stand closer together."""
        for row in sorted(self.free(), key=lambda row: row.index):
            highest = max(slots, key=lambda slot: slot.row)
            if first_row <= row.index < highest.row:
                highest.move(self, row)


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
        self.shelves: dict[int, CacheShelf] = {}
        self._copied: Any = None  # happens when the last noted block is on the host

    def take(self, task: str | None = None) -> Slot:
        """A new sequence, of a task's id where that is known; it has a row once it is placed."""
        return Slot(self, task)

    def capacity(self, places: int) -> int:
        """The least capacity of a row with so many places, and one for padding."""
        least = COARSE if self.coarse else FINE
        if places < least:
            return least
        octave = 1 << places.bit_length() - 1  # octave <= places < 2 * octave
        step = octave if self.coarse else octave // 4
        return octave + (places - octave) // step * step + step

    def shelf(self, capacity: int, rows: int = 0) -> CacheShelf:
        """The shelf of a capacity, with at least so many rows."""
        shelf = self.shelves.setdefault(capacity, CacheShelf(capacity))
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
        for slot, block in zip(away, host.split([len(slot.block) for slot in away]), strict=True):
            slot.block = block

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
        if not moving:
            return
        held_before = self._held()
        for capacity, joining in Counter(capacity for _, capacity in moving).items():
            shelf = self.shelf(capacity)
            self.shelf(capacity, shelf.rows + joining - len(shelf.free()))
        for index, capacity in moving:
            slot, shelf = slots[index], self.shelves[capacity]
            row, lender = shelf.free()[0], None
            if slot.shelf is None and texts is not None:
                lender = self._lender(texts[index], slot.task)
            if lender is not None:
                source, of, n = lender
                row = of if source is shelf and of.left is not None else row
                shelf.copy(row, source, of, n)
                slot.tokens = texts[index][:n]  # type: ignore[index]
            slot.move(shelf, row)
        if self._held() > held_before and not self.padded:
            self._trim()

    def _lender(self, text: list[int], task: str | None) -> tuple[CacheShelf, ShelfRow, int] | None:
        """Who holds most of a text's beginning: the shelf, the row, and how many tokens; None for nobody."""
        best, most = None, 0
        for shelf in self.shelves.values():
            for row in shelf.line:
                n = shared(row.held(), text)
                same_task = task is not None and row.task == task and n == len(text) - 1
                if n > most and not same_task:
                    best, most = (shelf, row, n), n
                    if n == len(text) - 1:
                        return best
        return best

    def _held(self) -> int:
        """Places in all rows."""
        return sum(shelf.rows * shelf.capacity for shelf in self.shelves.values())

    def _trim(self) -> None:
        """Let free rows go, where there are too many beside those in use."""
        free = {capacity: len(shelf.free()) for capacity, shelf in self.shelves.items()}
        used = self._held() - sum(capacity * rows for capacity, rows in free.items())
        if self._held() > SLACK * used:
            for capacity, rows in free.items():
                shelf = self.shelves[capacity]
                if rows == shelf.rows:
                    del self.shelves[capacity]
                elif rows:
                    shelf.shrink()


@dataclass(slots=True, weakref_slot=True, eq=False, repr=False)
class Slot:
    """One sequence's row, and which tokens stand in it.

    Attributes:
        shelf: where the row is; None before it was placed, and once it was given back.
        tokens: those that are settled, from place 0 on.
        block: what was written after them and may have been refused.
        parents: of the block's tokens, as a proposal has them; None for a chain.
        prompt: the list that the first tokens were taken from.
        own: how many of the tokens the owner of the cache has read itself, when a guest has written after them;
            None: all.
        task: whose sequence it is, where that is known.
    """

    slots: Slots
    task: str | None = None
    shelf: CacheShelf | None = None
    tokens: list[int] = field(default_factory=list)
    block: Any = ()
    parents: Sequence[int] | None = None
    prompt: Sequence[int] | None = None
    own: int | None = None
    _row: ShelfRow | None = None

    @property
    def row(self) -> int:
        """The row's place in its shelf's buffers."""
        assert self._row is not None
        return self._row.index

    def move(self, shelf: CacheShelf, row: ShelfRow) -> None:
        """Take what it has to a free row."""
        if self.shelf is not None and self._row is not None:
            shelf.copy(row, self.shelf, self._row, len(self.tokens) + len(self.block))
            self._row.leave([])
        row.owner, row.left, row.task = ref(self), None, self.task
        self.shelf, self._row = shelf, row

    def take(self, lender: Slot, n: int) -> None:
        """Copy the first n settled tokens of another one."""
        assert self.shelf is not None
        assert self._row is not None
        assert lender.shelf is not None
        assert lender._row is not None
        self.shelf.copy(self._row, lender.shelf, lender._row, n)
        self.tokens = lender.tokens[:n]

    def gather(self, chosen: Sequence[int]) -> None:
        """Move the block's entries `chosen` into one piece behind the settled tokens."""
        assert self.shelf is not None
        start = len(self.tokens)
        source = upload(np.asarray([start + index for index in chosen]), self.shelf.keys[0])
        for buffer in chain(*self.shelf.buffers):
            buffer[self.row, :, start : start + len(chosen)] = buffer[self.row].index_select(1, source)

    def states(self, places: Any) -> Any:
        """The hidden states [n, layers, width] of the tokens at some places (a slice, or indices); None where there are
        none any more."""
        if self.shelf is None or not self.shelf.states:
            return None
        return self.shelf.states[0][self.row, :, places].transpose(0, 1)

    def reclaim(self) -> None:
        """Forget what a guest has written; the owner's next pass writes over it."""
        if self.own is not None:
            del self.tokens[self.own :]
            self.block, self.parents, self.own = (), None, None

    def close(self) -> None:
        """Give the row back; a slot that nobody holds any more does so by itself."""
        row, self._row, self.shelf = self._row, None, None
        if row is not None:
            row.leave(self.tokens[: self.own])

    __del__ = close


def shared(held: Sequence[int], text: Sequence[int], at_hand: int = 0) -> int:
    """How many tokens a text may take from another: those that both begin with, but not its last, whose logits are
    wanted; 0 where that is not worth it, when the first `at_hand` are there already."""
    if held[:SHARED] != text[:SHARED]:
        return 0
    n = min(agreement(held, text), len(text) - 1)
    return n if n >= at_hand + SHARED else 0


def agreement(held: Sequence[int], text: Sequence[int]) -> int:
    """How many tokens from the start on are the same."""
    low, high = 0, min(len(held), len(text))
    while low < high:  # comparing slices is quicker than comparing tokens
        middle = (low + high + 1) // 2
        if held[low:middle] == text[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
