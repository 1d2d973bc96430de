"""Reading sequences with a model, a batch in one forward pass: what a target and its drafters have in common.

A reader compares what its cache holds with what a session has accepted, so nobody has to tell it what was refused;
where the cache was thrown away it reads everything again, and the logits are the same. How a pass flows:

```
contexts, blocks ─▶ settle: which tokens of the last block were accepted; a tree's path is moved into one piece
                 ─▶ prompts that are far behind are read first, each for itself
                 ─▶ one pass: what is pending and the block of every session, ragged rows padded at the end
                 ─▶ a row of logits after each context and after each item
```
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from draftverify import Context, Proposal
from draftverify_tokens.history import History
from draftverify_tokens.models import TokenModel, prompt_of
from draftverify_tokens.sampling import probabilities, read_settings
from draftverify_tokens.slots import Pass, Slot, Slots

__all__ = ["Reader", "Reading", "distributions", "history_of"]

AHEAD = 64
"""A session with more pending tokens than this is read alone before the batch, which would be padded to its length."""
CHUNK = 1024
"""Prompts are read in pieces of so many tokens, which bounds the memory of their masks."""


class Reading(NamedTuple):
    """What one pass found.

    Args:
        logits: [rows, vocabulary]: of each session the row after its context, then one after each item.
        counts: rows per session.
        hidden: per session [read, layers, width], the hidden states of the tokens that the pass read (of a whole
            prompt the first time), the block's last; () when none were asked for.
        starts: per session the place in its sequence of the first of these.
    """

    logits: Any
    counts: list[int]
    hidden: Sequence[Any] = ()
    starts: Sequence[int] = ()


class Reader:
    """One component's way to read with a model; its caches lie in each session's scratch.

    Args:
        module: a transformers causal language model, in eval mode.
        hidden: which hidden states to return, as indices into transformers' `hidden_states` (0 the embeddings, -1 what
            the head reads).
        compiled: compile the steps; None: where the model is on a GPU.
        lends: whether a `Guest` may read on in this cache.

    Raises:
        ConfigError: the model keeps a state that cannot be rolled back.
    """

    def __init__(
        self, module: Any, *, hidden: Sequence[int] = (), compiled: bool | None = None, lends: bool = False
    ) -> None:
        from draftverify_tokens.forward import forward_of

        self.module = module
        self.lends = lends
        self.slots = Slots()
        self._embeddings = module.get_input_embeddings()
        self._copied: Any = None
        self._edge: Any = None
        self._owner: Reader = self
        self._forward = forward_of(module, tuple(hidden), compiled)

    @property
    def dtype(self) -> Any:
        """The type that the model computes in."""
        return self._embeddings.weight.dtype

    @property
    def device(self) -> Any:
        """Where the model is."""
        return self._embeddings.weight.device

    def read(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> Reading:
        """Logits after each context and after each item of its block, in one pass over the batch.

        A pass that fails leaves no cache behind.
        """
        import torch

        if self._copied is not None:
            self._copied.synchronize()  # long done: the rule waited for the device after this copy
            self._copied = None
        held = self.slots.keys[0] if self.slots.keys else None
        if held is not None and (held.dtype, held.device) != (self.dtype, self.device):
            self.slots, self._edge = Slots(), None  # the model was converted or moved
        # Taken out while the model runs: a pass that fails half-way leaves layers of different lengths behind.
        slots = list(map(self._take, contexts))
        ahead = AHEAD if len(slots) > 1 else CHUNK
        blocks = [proposal.items for proposal in proposals]
        parents = [None if proposal.shape == "chain" else proposal.parents for proposal in proposals]
        with torch.inference_mode():
            pending = list(map(self._settle, slots, contexts))
            starts = [len(slot.tokens) for slot in slots]
            early = {
                i: self._read_ahead(slots[i], tokens, ahead)
                for i, tokens in enumerate(pending)
                if len(tokens) > ahead
            }
            logits, states = self._pass(slots, pending, blocks, parents)
            hidden: Sequence[Any] = states
            if states and early:
                hidden = [torch.cat([*early.get(i, ()), own]) for i, own in enumerate(states)]
        for slot, tokens, block, own, context in zip(slots, pending, blocks, parents, contexts, strict=True):
            slot.tokens += tokens
            slot.block = block
            slot.parents = own
            context.scratch[self._owner] = slot
        return Reading(logits, [len(block) + 1 for block in blocks], hidden, starts)

    def extend(self, contexts: Sequence[Context], drafted: Any) -> Any:
        """Read on: one more drafted token of each session, after those that were read since `read` without a block.

        Args:
            contexts: those of that `read`.
            drafted: [sessions, k] int64 on the model's device: all tokens of the block, of which the last is new.

        Returns:
            Logits [sessions, vocabulary] after it.
        """
        import torch

        slots = [context.scratch.pop(self._owner) for context in contexts]
        with torch.inference_mode():
            rows, order = self._rows(slots)
            places = np.zeros((rows, 1), dtype=np.int64)
            for slot in self.slots.owners.values():
                if slot.row < rows:
                    places[slot.row] = len(slot.tokens) + len(slot.block)
            ids = drafted[:, -1:]
            if order is not None:
                ids = ids.new_zeros((rows, 1)).index_copy_(0, self._to_device(order), ids)
            one = slots[0] if len(slots) == 1 else None
            if one is not None:
                places = places[one.row :][:1]
            now = self._plan(ids, places, places, int(places.max()) + 1, None if one is None else one.row)
            logits, _ = self._forward(
                self.slots, now, 1 if one is not None else self._to_device(np.arange(rows))
            )
            if order is not None and one is None:
                logits = logits[self._to_device(order)]
        for index, (context, slot) in enumerate(zip(contexts, slots, strict=True)):
            slot.block, slot.parents = drafted[index], None
            context.scratch[self._owner] = slot
        return logits

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

    def note(self, contexts: Sequence[Context], drafted: Any) -> None:
        """Have what `extend` read on the host by the next `read`, without waiting for the device now.

        Args:
            contexts: the sessions.
            drafted: [sessions, k] on the model's device, their blocks.
        """
        import torch

        if drafted.device.type != "cuda":
            return
        host = torch.empty(drafted.shape, dtype=drafted.dtype, pin_memory=True)
        host.copy_(drafted, non_blocking=True)
        self._copied = torch.cuda.Event()
        self._copied.record()
        for context, row in zip(contexts, host, strict=True):
            slot = context.scratch[self._owner]
            slot.block = row[: len(slot.block)]

    def _take(self, context: Context) -> Slot:
        """The session's slot, out of its scratch; a new one where there is none of this cache."""
        slot: Slot | None = context.scratch.pop(self, None)
        if slot is None or slot.slots is not self.slots:
            return self.slots.take()
        slot.reclaim()
        return slot

    def _settle(self, slot: Slot, context: Context) -> list[int]:
        """Bring the slot up to what was accepted.

        Returns:
            The tokens that it lacks; at least the sequence's last one, whose logits are always wanted.
        """
        tokens, accepted = slot.tokens, context.accepted
        prompt = prompt_of(context)
        known = len(tokens) - len(prompt)
        # Accepted values never change, so only those are compared that came since the last look.
        if (
            slot.prompt is prompt
            and 0 <= known <= len(accepted)
            and (not known or tokens[-1] == accepted[known - 1])
        ):
            new = list(accepted[known:])
        else:
            wanted = [*prompt, *accepted]
            known = _agreement(tokens, wanted)
            slot.prompt = prompt
            if known < len(tokens):
                del tokens[known:]
                slot.block = ()
            new = wanted[known:]
        if new and len(slot.block):
            path = _path(slot.block, slot.parents, new)
            n = len(path)
            if n and path[-1] != n - 1:
                self.slots.gather(slot, len(tokens), path)
            tokens += new[:n]
            new = new[n:]
        slot.block = ()
        return new or [tokens.pop()]

    def _read_ahead(self, slot: Slot, pending: list[int], most: int) -> list[Any]:
        """Read so much of a long prompt that at most `most` tokens are left, and take it off `pending`.

        Returns:
            Hidden states [read, layers, width] of each piece.
        """
        states = []
        while len(pending) > most:
            piece = pending[: min(CHUNK, len(pending) - 1)]
            del pending[: len(piece)]
            _, found = self._pass([slot], [piece], [()], [None], logits=False)
            slot.tokens += piece
            states += found
        return states

    def _rows(self, slots: Sequence[Slot]) -> tuple[int, Any]:
        """How many rows a pass has, and each session's row when they are not in order."""
        if len(slots) == 1:
            return slots[0].row + 1, None
        rows = self.slots.close_ranks(slots)
        order = [slot.row for slot in slots]
        return rows, None if order == list(range(rows)) else np.asarray(order)

    def _pass(
        self,
        slots: Sequence[Slot],
        pending: Sequence[list[int]],
        blocks: Sequence[Any],
        parents: Sequence[Sequence[int] | None],
        *,
        logits: bool = True,
    ) -> tuple[Any, list[Any]]:
        """One forward pass over the pending tokens and blocks.

        Args:
            slots: of the sessions.
            pending: the tokens that each lacks.
            blocks: the items that each drafted.
            parents: of the items; None for a chain.
            logits: whether any are wanted.

        Returns:
            Logits [wanted rows, vocabulary] or None; hidden states of each session, or [].
        """
        import torch

        lengths = [len(tokens) + len(items) for tokens, items in zip(pending, blocks, strict=True)]
        n = max(lengths)
        alone = len(slots) == 1
        rows, _ = self._rows(slots)
        first = slots[0].row if alone else 0
        rows -= first
        # Lists until they are whole: an array takes longer over one entry than over all of them at once.
        padding = [0] * n
        lines, starts = [padding] * rows, [0] * rows
        offsets = np.arange(n)
        placed: list[tuple[int, int, Any]] = []
        trees: list[tuple[int, int, Sequence[int]]] = []
        if rows > len(slots):
            for slot in self.slots.owners.values():  # who sits this pass out is written to where nobody looks
                if first <= slot.row < first + rows:
                    starts[slot.row - first] = len(slot.tokens) + len(slot.block)
        for slot, tokens, items, tree in zip(slots, pending, blocks, parents, strict=True):
            row = slot.row - first
            starts[row] = len(slot.tokens)
            if isinstance(items, torch.Tensor):
                line = tokens
                placed.append((row, len(tokens), items))
            else:
                line = [*tokens, *items]
            lines[row] = line + padding[len(line) :]
            if tree is not None:
                trees.append((row, len(tokens), tree))
        if trees:
            offsets = np.tile(offsets, (rows, 1))
            for row, p, tree in trees:
                offsets[row, p : p + len(tree)] = p + _depths(tree)
        ids = self._to_device(np.asarray(lines, dtype=np.int64))
        if placed:
            at = [np.concatenate([np.full(len(items), row) for row, _, items in placed])]
            at.append(np.concatenate([np.arange(p, p + len(items)) for _, p, items in placed]))
            ids[tuple(map(self._to_device, at))] = torch.cat([items for *_, items in placed]).long()
        first_places = np.asarray(starts, dtype=np.int64)[:, None]
        places, positions = first_places + np.arange(n), first_places + offsets
        now = self._plan(ids, positions, places, max(starts) + n, first if alone else None, trees)
        want: Any = None
        if logits and alone:
            want = len(blocks[0]) + 1
        elif logits:
            ends = np.asarray([slot.row * n + m for slot, m in zip(slots, lengths, strict=True)])
            counts = np.asarray([len(items) + 1 for items in blocks])
            last = np.cumsum(counts)
            want = self._to_device(np.arange(last[-1]) + np.repeat(ends - last, counts))
        found, states = self._forward(self.slots, now, want)
        if states is None:
            return found, []
        return found, [states[slot.row - first, :m] for slot, m in zip(slots, lengths, strict=True)]

    def _plan(
        self,
        ids: Any,
        positions: Any,
        places: Any,
        visible: int,
        row: int | None,
        trees: Sequence[tuple[int, int, Sequence[int]]] = (),
    ) -> Pass:
        """Where the pass reads and writes; positions and places are NumPy's, [R, N]."""
        rows, n = places.shape
        self.slots.reserve(rows if row is None else row + 1, visible)
        compiled = self._forward.compiled and n <= AHEAD  # prompts have every length: not worth a compilation
        start = int(places[0, 0])
        alone = row is not None and not (compiled and row == 0)
        causal = alone and start == 0 and not trees and n > 1 and not self._forward.needs_masks
        if compiled and not alone:
            visible = self.slots.places
        at = self._to_device(places)
        masks = {}
        for window in set(self._forward.windows.values()):
            plain = (
                alone and n == 1 and (window is None or visible <= window) and not self._forward.needs_masks
            )
            if plain or causal:
                continue
            if window is None and not trees:
                masks[window] = self._staircase(at, visible)
            else:
                masks[window] = self._mask(positions, places, visible, window, trees)
        return Pass(
            ids,
            self._to_device(positions),
            at,
            (row, start) if alone else None,
            visible,
            masks,
            causal,
        )

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
                block = torch.as_tensor(~_ancestors(parents), device=device)
                hidden[row, p : p + len(parents), start : start + len(parents)] = block
            if window is not None:
                hidden |= (
                    self._to_device(positions)[:, :, None] - self._to_device(stands)[:, None, :] >= window
                )
        mask = torch.zeros(hidden.shape, dtype=dtype, device=device)
        return mask.masked_fill_(hidden, torch.finfo(dtype).min)[:, None]

    def _staircase(self, places: Any, visible: int) -> Any:
        """The mask of chains, whose tokens see all places up to their own; places lie on the device.

        Each row is a window on one row of zeros that ends in the least number, where it ends at the right place: copied
        from there, a mask costs a tenth of what comparing every place with every token does.
        """
        import torch

        size = self.slots.places
        if self._edge is None or len(self._edge) != 2 * size or self._edge.dtype != self.dtype:
            self._edge = torch.zeros(2 * size, dtype=self.dtype, device=self.device)
            self._edge[size:] = torch.finfo(self.dtype).min
        windows = self._edge.unfold(0, visible, 1).index_select(0, size - 1 - places.flatten())
        return windows.view(len(places), 1, -1, visible)

    def _to_device(self, values: Any) -> Any:
        import torch

        return torch.as_tensor(values).to(self.device, non_blocking=True)


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

    settings = contexts[0].settings
    if all(context.settings is settings for context in contexts):
        read = tuple(histories) if read_settings(settings).reads_paths else ()
        return probabilities(logits, settings, read, model=model)
    histories = tuple(histories)
    parts = zip(logits.split([len(history) for history in histories]), contexts, histories, strict=True)
    found = [
        probabilities(rows, context.settings, [history], model=model) for rows, context, history in parts
    ]
    probs, raw_maxima = zip(*found, strict=True)
    return torch.cat(probs), torch.cat(raw_maxima)


def _agreement(held: Sequence[int], wanted: Sequence[int]) -> int:
    """How many tokens from the start on are the same."""
    n = min(len(held), len(wanted))
    if held[:n] == wanted[:n]:
        return n
    return next(i for i in range(n) if held[i] != wanted[i])


def _path(block: Any, parents: Sequence[int] | None, new: Sequence[int]) -> Sequence[int]:
    """The indices of the longest path of the block that the new tokens begin with."""
    if type(block) is not tuple:
        block = block.tolist() if hasattr(block, "tolist") else tuple(map(int, block))
    if parents is None:
        n = 0
        for token, wanted in zip(block, new, strict=False):
            if token != wanted:
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


def _depths(parents: Sequence[int]) -> Any:
    """How many tokens of the block stand before each one on its path."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return np.asarray(depths)


def _ancestors(parents: Sequence[int]) -> Any:
    """[n, n], whether token j is token i or stands before it on its path."""
    found = np.eye(len(parents), dtype=bool)
    for index, parent in enumerate(parents):
        if parent >= 0:
            found[index] |= found[parent]
    return found
