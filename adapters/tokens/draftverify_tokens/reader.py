"""Reading sequences with a model, a batch in one forward pass: what a target and its drafters have in common.

A reader compares what its cache holds with what a session has accepted, so nobody has to tell it what was refused;
where the cache was thrown away it reads everything again, and the logits are the same. How a pass flows:

```
contexts, blocks ─▶ settle: which tokens of the last block were accepted; a tree's path is moved into one piece
                 ─▶ new sessions get what others hold of their prompts
                 ─▶ prompts that are far behind are read first, each for itself
                 ─▶ one pass: what is pending and the block of every session, a group of rows for each length class
                 ─▶ a row of logits after each context and after each item
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import add
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from draftverify import Context, ContractError, Proposal
from draftverify_llm import evaluating
from draftverify_tokens.fingerprint import Fingerprint
from draftverify_tokens.history import History, upload
from draftverify_tokens.models import TokenModel, ending_as, prompt_of
from draftverify_tokens.sampling import Tail, probabilities, read_settings
from draftverify_tokens.slots import CacheShelf, RowGroup, Slot, Slots, agreement, shared

AHEAD = 64
"""A session with more pending tokens than this is read alone before the batch, which would be padded to its length."""
CHUNK = 1024
"""Prompts are read in pieces of so many tokens, which bounds the memory of their masks."""
TAILS = 32
"""So many settings have a tail at a time; with another the oldest is forgotten, and made and captured again."""


class BlockReading(NamedTuple):
    """What one pass found.

    Args:
        logits: [rows, vocabulary]: of each session the row after its context, then one after each item.
        counts: rows per session.
        of_tail: what a tail made of the logits; () without one.
        slots: of each session where its keys, values and hidden states stand.
        starts: per session the place in its sequence of the first token that it has not asked for before.
    """

    logits: Any
    counts: list[int]
    of_tail: Sequence[Any] = ()
    slots: Sequence[Slot] = ()
    starts: Sequence[int] = ()

    @property
    def hidden(self) -> list[Any]:
        """Of each session [read, layers, width], the hidden states from its start to the block's end; until the next
        pass."""
        ends = (len(slot.tokens) + len(slot.block) for slot in self.slots)
        return [slot.states(slice(*span)) for slot, *span in zip(self.slots, self.starts, ends, strict=True)]


class _Frame(NamedTuple):
    """The rows of a shelf that take part in a pass, R of them from `first_row` on, n tokens each."""

    shelf: CacheShelf
    first_row: int
    rows: int
    n: int


class BlockReader:
    """One component's way to read with a model; its caches lie in each session's scratch.

    The model stays its user's, who may change it in any way between two tasks, so nothing of a task that has ended is
    lent: a session that is new while none is under way begins with an empty cache. Sessions that are under way together
    share what they have in common. Whenever a session is new the model is looked at as well, and of one that is seen to
    have changed nothing is used that was read or made before. It is read in eval mode, and is in its own mode between
    passes.

    Args:
        module: a transformers causal language model.
        hidden: which hidden states to keep with keys and values, as indices into transformers' `hidden_states` (0 the
            embeddings, -1 what the head reads).
        compiled: compile the steps; None: where the model is on a GPU.
        owned: whether the model is the library's own, so that what a task has read is lent to later ones, until the
            model is seen to have changed.
        lends: whether a `Guest` may read on in this cache.
        test: says why trees cannot be read with a model, None where they can, and raises a ConfigError where the model
            cannot be read at all; asked now, and again of a model that was changed.

    Attributes:
        no_trees: why trees cannot be read with this model, where that is so.

    Raises:
        ConfigError: the model keeps a state that cannot be rolled back, or does not stand the test.
    """

    def __init__(
        self,
        module: Any,
        *,
        hidden: Sequence[int] = (),
        compiled: bool | None = None,
        owned: bool = False,
        lends: bool = False,
        test: Callable[[Any], str | None] = lambda module: None,
    ) -> None:
        from draftverify_tokens.forward import forward_of

        self.module = module
        self.owned = owned
        self.lends = lends
        self.no_trees: str | None = None
        self._test = test
        self._how = tuple(hidden), compiled
        self._fingerprint: Fingerprint | None = Fingerprint(module)
        self._modules = list(module.modules())
        self._embeddings = module.get_input_embeddings()
        self._edge: Any = None
        self._tails: dict[Any, Tail] = {}
        self._known: WeakSet[Slot] = WeakSet()  # sequences that were begun since the last look at the model
        self._owner: BlockReader = self
        self._forward = forward_of(module, *self._how)
        self.slots = self._new_slots()
        self.no_trees = test(module)

    def keep_hidden(self, layers: Sequence[int]) -> None:
        """Keep these hidden states from now on, with an empty cache."""
        from draftverify_tokens.forward import forward_of

        how = tuple(layers), self._how[1]
        self._forward, self._how = forward_of(self.module, *how), how
        self.slots = self._new_slots()

    @property
    def dtype(self) -> Any:
        """The type that the model computes in."""
        return self._embeddings.weight.dtype

    @property
    def device(self) -> Any:
        """Where the model is."""
        return self._embeddings.weight.device

    def tail(self, contexts: Sequence[Context], vocabulary: int, *, draws: bool = False) -> Tail | None:
        """What a pass can make of its logits before they leave it; None where only the host can.

        Args:
            contexts: whose settings apply.
            vocabulary: how many columns count.
            draws: whether a token of each row is drawn too, of all rows with one uniform.
        """
        settings = contexts[0].settings
        if self.device.type != "cuda" or any(context.settings is not settings for context in contexts):
            return None
        sampling = read_settings(settings)
        if sampling.reads_paths or sampling.logit_bias:
            return None
        key = sampling, vocabulary, draws
        if key not in self._tails:
            if len(self._tails) == TAILS:
                del self._tails[next(iter(self._tails))]
            drawn = self._to_device(np.zeros(1)) if draws else None
            self._tails[key] = Tail(sampling, vocabulary, drawn)
        return self._tails[key]

    def read(
        self, contexts: Sequence[Context], proposals: Sequence[Proposal], tail: Tail | None = None
    ) -> BlockReading:
        """Logits after each context and after each item of its block, in one pass over the batch.

        A pass that fails leaves no cache behind.

        Raises:
            ContractError: a block is a tree, and the model reads none.
            ConfigError: the model was changed, and cannot be read block by block any more.
        """
        import torch

        held = next((shelf.keys[0] for shelf in self.slots.shelves.values() if shelf.keys), None)
        moved = held is not None and (held.dtype, held.device) != (self.dtype, self.device)
        fresh = any(context.scratch.get(self._owner) not in self._known for context in contexts)
        if moved or fresh:
            self._look_at_model()
        check_chains(self.module, self._owner.no_trees, proposals)

        # Taken out while the model runs: a pass that fails half-way leaves layers of different lengths behind.
        slots = list(map(self._take, contexts))
        most = AHEAD if len(slots) > 1 else CHUNK
        if any(isinstance(slot.block, torch.Tensor) for slot in slots):
            self.slots.arrived()
        blocks = [proposal.items for proposal in proposals]
        parents = [None if proposal.shape == "chain" else proposal.parents for proposal in proposals]
        with torch.inference_mode():
            pending = list(map(self._settle, slots, contexts))
            starts = [len(slot.tokens) for slot in slots]
            lengths = [
                start + len(new) + len(block)
                for start, new, block in zip(starts, pending, blocks, strict=True)
            ]
            new = [i for i, slot in enumerate(slots) if slot.shelf is None]
            self.slots.place(slots, lengths, pending)
            self._share(slots, pending, new)
            for slot, tokens in zip(slots, pending, strict=True):
                self._read_ahead(slot, tokens, most)
            counts = [len(block) + 1 for block in blocks]
            logits, *of_tail = self._pass(slots, pending, blocks, parents, counts, tail)
        for slot, tokens, block, tree, context in zip(slots, pending, blocks, parents, contexts, strict=True):
            slot.tokens += tokens
            slot.block = block
            slot.parents = tree
            context.scratch[self._owner] = slot
        if fresh:
            self._known.update(slots)
        self.slots.note(slots)
        return BlockReading(logits, counts, of_tail, slots, starts)

    def extend(self, contexts: Sequence[Context], drafted: Any, tail: Tail | None = None) -> Sequence[Any]:
        """Read on: one more drafted token of each session, after those that were read since `read` without a block.

        Args:
            contexts: those of that `read`.
            drafted: [sessions, k] int64 on the model's device: all tokens of the block, of which the last is new.

        Returns:
            Logits [sessions, vocabulary] after it, and what a tail made of them.
        """
        import torch

        slots = [context.scratch.pop(self._owner) for context in contexts]
        k = len(slots)
        with torch.inference_mode():
            outputs = self._pass(slots, [[]] * k, list(drafted[:, -1:]), [None] * k, [1] * k, tail)
        for index, (context, slot) in enumerate(zip(contexts, slots, strict=True)):
            slot.block, slot.parents = drafted[index], None
            context.scratch[self._owner] = slot
        return outputs

    def withdraw(self, contexts: Sequence[Context]) -> None:
        """Take what was read as if it were accepted for a block again, which may be refused.

        Args:
            contexts: the sessions, with what they have accepted in truth.
        """
        for context in contexts:
            slot = context.scratch[self._owner]
            settled = len(prompt_of(context)) + len(context.accepted)
            slot.block = (*slot.tokens[settled:], *slot.block)
            del slot.tokens[settled:]

    def note(self, contexts: Sequence[Context]) -> None:
        """Have what `extend` read on the host by the next `read`, without waiting for the device now."""
        self.slots.note([context.scratch[self._owner] for context in contexts])

    def _look_at_model(self) -> None:
        """Forget what was read with the model and made of it, if it was changed since the last look; or if it may have
        been, unseen, since the last session ended."""
        from draftverify_tokens.forward import forward_of

        now = Fingerprint(self.module)
        unchanged = now == self._fingerprint
        under_way = any(slot.shelf is not None for slot in self._known)
        if unchanged and (self.owned or under_way):
            return
        self._fingerprint = None  # until it has stood the test: else it is refused each time
        forward = forward_of(self.module, *self._how)
        forward.go_on_from(self._forward, graphs=unchanged)
        self._forward = forward
        if unchanged:
            self._empty_slots()
        else:
            self._modules = list(self.module.modules())
            self._embeddings, self._edge = self.module.get_input_embeddings(), None
            self._tails.clear()
            self.slots = self._new_slots()
            self.no_trees = self._test(self.module)
        self._fingerprint = now

    def _empty_slots(self) -> None:
        """Begin with an empty cache; graphs hold the addresses of its buffers."""
        import torch

        if self.slots.padded and self._forward.compiled:
            with torch.inference_mode():
                for shelf in self.slots.shelves.values():
                    shelf.forget()
        else:
            self.slots = self._new_slots()

    def _new_slots(self) -> Slots:
        compiled = self._forward.compiled
        return Slots(coarse=compiled or self._forward.needs_masks, padded=compiled)

    def _take(self, context: Context) -> Slot:
        """The session's slot, out of its scratch; a new one where there is none of this cache."""
        slot: Slot | None = context.scratch.pop(self, None)
        if slot is None or slot.slots is not self.slots:
            return self.slots.take(context.task.id)
        slot.reclaim()
        return slot

    def _settle(self, slot: Slot, context: Context) -> list[int]:
        """Bring the slot up to what was accepted.

        Returns:
            The tokens that it lacks; at least the sequence's last one, whose logits are always wanted.
        """
        tokens, accepted = slot.tokens, context.accepted
        prompt = prompt_of(context)
        held = len(tokens) - len(prompt)
        # Accepted values never change, so only those are compared that came since the last look.
        if (
            slot.prompt is prompt
            and 0 <= held <= len(accepted)
            and (not held or tokens[-1] == accepted[held - 1])
        ):
            new = list(accepted[held:])
        else:
            text = [*prompt, *accepted]
            held = agreement(tokens, text)
            slot.prompt = prompt
            if held < len(tokens):
                del tokens[held:]
                slot.block = ()
            new = text[held:]
        if new and len(slot.block):
            path = _path(slot.block, slot.parents, new)
            n = len(path)
            if n and path[-1] != n - 1:
                slot.gather(path)
            tokens += new[:n]
            new = new[n:]
        slot.block = ()
        return new or [tokens.pop()]

    def _share(self, slots: Sequence[Slot], pending: Sequence[list[int]], new: Sequence[int]) -> None:
        """Take off the new sessions' pending tokens what others hold of them, and what they share among themselves.

        Sorted by their texts, each has most in common with the one before it, which then is read first.
        """
        texts = {i: list(pending[i]) for i in new}
        for i in new:
            del pending[i][: len(slots[i].tokens)]
        for i, j in pairwise(sorted(new, key=texts.__getitem__)):
            held = len(slots[j].tokens)
            n = min(shared(texts[i], texts[j], held), len(texts[i]) - 1)
            if n > held:
                self._read_ahead(slots[i], pending[i], len(texts[i]) - n)
                slots[j].take(slots[i], n)
                del pending[j][: n - held]

    def _read_ahead(self, slot: Slot, pending: list[int], most: int) -> None:
        """Read so much of a long prompt that at most `most` tokens are left, and take it off `pending`."""
        while len(pending) > most:
            piece = pending[: min(CHUNK, len(pending) - 1)]
            del pending[: len(piece)]
            self._pass([slot], [piece], [()], [None], [0])
            slot.tokens += piece

    def _pass(
        self,
        slots: Sequence[Slot],
        pending: Sequence[list[int]],
        blocks: Sequence[Any],
        parents: Sequence[Sequence[int] | None],
        counts: Sequence[int],
        tail: Tail | None = None,
    ) -> Sequence[Any]:
        """One forward pass over the pending tokens and blocks; their hidden states are kept with keys and values.

        Args:
            slots: of the sessions.
            pending: the tokens that each lacks.
            blocks: the items that each drafted.
            parents: of the items; None for a chain.
            wanted: of how many of each session's last tokens the logits are wanted.
            tail: what to make of them.

        Returns:
            Logits [wanted rows, vocabulary] or None, and what the tail made.
        """
        import torch

        starts = [len(slot.tokens) + len(slot.block) for slot in slots]
        lengths = [len(tokens) + len(items) for tokens, items in zip(pending, blocks, strict=True)]
        self.slots.place(slots, list(map(add, starts, lengths)))
        shelves: dict[CacheShelf, list[int]] = {}
        for index, slot in enumerate(slots):
            shelves.setdefault(slot.shelf, []).append(index)
        # Prompts have every length: not worth a compilation.
        steps = self._forward.compiled and max(lengths) <= AHEAD and any(counts)
        frames, total = [], 0
        bases = [0] * len(slots)  # where each session's tokens begin among those of all groups
        for shelf, members in shelves.items():
            frame = self._frame(shelf, [slots[i] for i in members], max(lengths[i] for i in members), steps)
            for i in members:
                bases[i] = total + (slots[i].row - frame.first_row) * frame.n
            frames.append(frame)
            total += frame.rows * frame.n
        # Arrays are filled at once: one entry takes as long as all of them.
        ids, positions, places, *paths = table = np.zeros((3 + steps, total), dtype=np.int64)
        sizes = [frame.rows * frame.n for frame in frames]
        places[:] = np.repeat([frame.shelf.capacity - 1 for frame in frames], sizes)
        at = _counted(bases, lengths)
        positions[at] = places[at] = _counted(starts, lengths)
        token_ids: list[int] = []
        drafted: list[tuple[int, Any]] = []
        for base, tokens, items in zip(bases, pending, blocks, strict=True):
            token_ids += tokens
            on_device = isinstance(items, torch.Tensor)
            token_ids += [0] * len(items) if on_device else items
            if on_device:
                drafted.append((base + len(tokens), items))
        ids[at] = token_ids
        if steps:
            paths[0][:] = 1  # what is padded looks at something
            paths[0][at] = _CHAIN[_counted([0] * len(slots), lengths)]
        trees: dict[CacheShelf, list[tuple[int, int, Sequence[int]]]] = {}
        for slot, base, start, tokens, tree in zip(slots, bases, starts, pending, parents, strict=True):
            if tree is not None:
                p = len(tokens)
                positions[base + p : base + p + len(tree)] = start + p + _depths(tree)
                trees.setdefault(slot.shelf, []).append((slot.row, p, tree))
                if steps:
                    paths[0][base + p : base + p + len(tree)] = _bits(p, tree)
        wants = _counted([base + m - n for base, m, n in zip(bases, lengths, counts, strict=True)], counts)
        later = _counted([base for base, _ in drafted], [len(items) for _, items in drafted])
        # What the host knows goes to the device in one piece.
        uploaded = self._to_device(np.concatenate((table.ravel(), wants, later)))
        on_device = uploaded[: table.size].view(table.shape)
        if drafted:
            theirs = torch.cat([items for _, items in drafted]).long()
            on_device[0].index_copy_(0, uploaded[len(uploaded) - len(later) :], theirs)
        groups, offset = [], 0
        for frame, size in zip(frames, sizes, strict=True):
            span = slice(offset, offset + size)
            groups.append(self._group(frame, on_device[:, span], table[:, span], trees.get(frame.shelf, ())))
            offset += size
        want: Any = None
        if groups[0].at is not None and len(slots) == 1:
            want = counts[0] or None
        elif len(wants):
            want = uploaded[table.size :][: len(wants)]
        with evaluating(self._modules):
            outputs, states = self._forward(groups, want, tail)
        for group, state in zip(groups, states or (), strict=states is not None):
            group.shelf.keep_states(state, group)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    def _frame(self, shelf: CacheShelf, slots: Sequence[Slot], n: int, steps: bool) -> _Frame:
        """Which rows of a shelf take part, when the longest of them has n tokens; powers of two where compiled."""
        first_row = 0 if steps else min(slot.row for slot in slots)
        shelf.close_ranks(slots, first_row)
        rows = max(slot.row for slot in slots) + 1 - first_row
        if steps:
            rows, n = (1 << (number - 1).bit_length() for number in (rows, n))
            shelf.grow(rows)  # a guest's shelves are another's, who may not have a power of two
        return _Frame(shelf, first_row, rows, n)

    def _group(
        self, frame: _Frame, on_device: Any, arrays: Any, trees: Sequence[tuple[int, int, Sequence[int]]]
    ) -> RowGroup:
        """A group from its ids, positions and places [3, R · N], and the trees as (row, first token, parents).

        Where steps are compiled there is a fourth row, of paths."""
        shelf, first_row, rows, n = frame
        _, positions, places, *_ = arrays.reshape(-1, rows, n)
        ids, rotated, at, *paths = on_device.view(-1, rows, n)
        if paths:
            return RowGroup(ids, rotated, at, shelf, first_row, None, shelf.capacity, {}, paths=paths[0])
        needs_masks = self._forward.needs_masks
        real = places[places < shelf.capacity - 1]
        visible = int(real.max()) + 1
        start = int(places[0, 0]) if rows == 1 else None
        causal = start == 0 and not trees and n > 1 and not needs_masks
        masks = {}
        for window in set(self._forward.windows.values()):
            plain = start is not None and n == 1 and (window is None or visible <= window) and not needs_masks
            if plain or causal:
                continue
            if window is None and not trees:
                masks[window] = self._staircase(at, visible, shelf.capacity)
            else:
                masks[window] = self._mask(
                    positions, places, visible, window, [(row - first_row, *tree) for row, *tree in trees]
                )
        return RowGroup(ids, rotated, at, shelf, first_row, start, visible, masks, causal)

    def _mask(
        self,
        positions: Any,
        places: Any,
        visible: int,
        window: int | None,
        trees: Sequence[tuple[int, int, Sequence[int]]],
    ) -> Any:
        import torch

        dtype, device = self.dtype, self.device
        look = torch.arange(visible, device=device)
        hidden = look > self._to_device(places)[:, :, None]
        if window is not None or trees:
            stands = np.tile(
                np.arange(visible), (len(places), 1)
            )  # the position of what stands at each place
            for row, p, parents in trees:
                start = places[row, p]
                stands[row, start : start + len(parents)] = positions[row, p : p + len(parents)]
                block = self._to_device(~_ancestors(parents))
                hidden[row, p : p + len(parents), start : start + len(parents)] = block
            if window is not None:
                hidden |= (
                    self._to_device(positions)[:, :, None] - self._to_device(stands)[:, None, :] >= window
                )
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
        return mask.masked_fill_(hidden, torch.finfo(dtype).min)[:, None]

    def _staircase(self, places: Any, visible: int, capacity: int) -> Any:
        """The mask of chains, whose tokens see all places up to their own; places lie on the device.

        Each row is a window on one row of zeros that ends in the least number, where it ends at the right place: copied
        from there, a mask costs a tenth of what comparing every place with every token does.
        """
        import torch

        if self._edge is None or len(self._edge) < 2 * capacity or self._edge.dtype != self.dtype:
            self._edge = torch.zeros(2 * capacity, dtype=self.dtype, device=self.device)
            self._edge[capacity:] = torch.finfo(self.dtype).min
        size = len(self._edge) // 2
        windows = self._edge.unfold(0, visible, 1).index_select(0, size - 1 - places.flatten())
        return windows.view(len(places), 1, -1, visible)

    def _to_device(self, values: Any) -> Any:
        return upload(values, self._embeddings.weight)


def check_chains(module: Any, no_trees: str | None, proposals: Sequence[Proposal]) -> None:
    """Refuse trees where a model reads none.

    Raises:
        ContractError: with the reason, `no_trees`.
    """
    if no_trees is not None and any(proposal.shape != "chain" for proposal in proposals):
        raise ContractError(
            f"a tree was drafted, which {type(module).__name__} cannot read: {no_trees}; use a drafter of chains"
        )


def history_of(owner: object, context: Context, proposal: Proposal, *, start: int = 0) -> History:
    """What precedes a session's rows, with the owner's memo from the session's scratch; rows from `start` on."""
    memo = context.scratch.setdefault((owner, "history"), {})
    parents = None if proposal.shape == "chain" else proposal.parents
    return History(prompt_of(context), context.accepted, proposal.items, parents, start=start, memo=memo)


def distributions(
    model: TokenModel, logits: Any, contexts: Sequence[Context], histories: Iterable[History]
) -> tuple[Any, Any]:
    """`probabilities` for sessions that may have different settings.

    Args:
        model: whose logits they are.
        logits: [rows, vocabulary], the wanted rows of each session.
        contexts: whose settings apply.
        histories: what precedes the rows, one per session; not made where no setting reads them.

    Returns:
        Probabilities [rows, vocabulary] and raw maxima [rows].
    """
    import torch

    settings, ends = contexts[0].settings, contexts[0].task.input.get("eos_ids")
    if all(
        context.settings is settings and context.task.input.get("eos_ids") == ends for context in contexts
    ):
        read = tuple(histories) if read_settings(settings).reads_paths else ()
        return probabilities(logits, settings, read, model=ending_as(model, contexts[0]))
    histories = tuple(histories)
    parts = zip(logits.split([len(history) for history in histories]), contexts, histories, strict=True)
    shaped = [
        probabilities(rows, context.settings, [history], model=ending_as(model, context))
        for rows, context, history in parts
    ]
    probs, raw_maxima = zip(*shaped, strict=True)
    return torch.cat(probs), torch.cat(raw_maxima)


def _path(block: Any, parents: Sequence[int] | None, new: Sequence[int]) -> Sequence[int]:
    """The indices of the longest path of the block that the new tokens begin with."""
    if type(block) is not tuple:
        block = block.tolist() if hasattr(block, "tolist") else tuple(map(int, block))
    if parents is None:
        n = 0
        for token, accepted in zip(block, new, strict=False):
            if token != accepted:
                break
            n += 1
        return range(n)
    best: list[int] = []
    paths: dict[int, list[int]] = {-1: []}
    for index, (token, parent) in enumerate(zip(block, parents, strict=True)):
        path = paths.get(parent)
        if path is not None and len(path) < len(new) and token == new[len(path)]:
            paths[index] = [*path, index]
            if len(path) >= len(best):
                best = paths[index]
    return best


def _counted(starts: Sequence[int], counts: Sequence[int]) -> Any:
    """start, start + 1, … of each start, so many as its count, one after the other."""
    if len(starts) == 1:
        return np.arange(starts[0], starts[0] + counts[0])
    ends = np.cumsum(counts)
    offsets = np.asarray(starts) - ends + counts
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(offsets, counts).astype(np.int64)


_CHAIN = np.asarray([(2 << i) - 1 for i in range(63)] + [-1])
"""The paths of a chain's tokens; -1 has all 64 bits."""


def _bits(start: int, parents: Sequence[int]) -> Any:
    """The paths of a tree's tokens, behind `start` tokens that all of them see."""
    bits: list[int] = []
    for index, parent in enumerate(parents):
        visible = (1 << start) - 1 if parent < 0 else bits[parent]
        bits.append(visible | 1 << start + index)
    return np.asarray(bits, dtype=np.uint64).view(np.int64)


def _depths(parents: Sequence[int]) -> Any:
    """How many tokens of the block stand before each one on its path."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return np.asarray(depths)


def _ancestors(parents: Sequence[int]) -> Any:
    """[n, n], whether token j is token i or stands before it on its path."""
    ancestors = np.eye(len(parents), dtype=bool)
    for index, parent in enumerate(parents):
        if parent >= 0:
            ancestors[index] |= ancestors[parent]
    return ancestors
