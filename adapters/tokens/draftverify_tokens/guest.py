"""Drafting in the target's cache: for a drafter that is the target itself, rounded or cut short.

What the target has read of prompt and answer, such a drafter need not read again: it reads on behind it, in the same
buffers. The target trusts none of it: its next pass reads the drafted tokens itself and writes over the guest's keys
and values, so its distributions are those of a target that was alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from draftverify import ConfigError, Context, Proposal
from draftverify_tokens.reader import BlockReader, BlockReading
from draftverify_tokens.sampling import Tail
from draftverify_tokens.slots import Slot, Slots

SAME = ("model_type", "hidden_size", "num_key_value_heads", "head_dim", "rope_parameters", "sliding_window")
"""What makes the keys and values of two models mean the same, as their configs name it."""


class Guest(BlockReader):
    """A reader without a cache of its own. It can read only where a target has: see `invited`.

    Args:
        module: the target's module with rounded weights, or its first layers.
        compiled: as `BlockReader`.

    References:
        J. Zhao et al., "QSpec: Speculative Decoding with Complementary Quantization Schemes", arXiv:2410.11305: a
        quantised draft that shares weights and cache with its target. LayerSkip, arXiv:2404.16710, shares the cache
        of the first layers.
    """

    def __init__(self, module: Any, *, compiled: bool | None = None, owned: bool = False) -> None:
        super().__init__(module, compiled=compiled, owned=owned)
        self.hosts: WeakSet[Any] = WeakSet()  # the modules of targets in whose caches it may read

    def invited(self, context: Context) -> bool:
        """Whether a target has read the session's text, so that there is a cache to read on in.

        Raises:
            ConfigError: the target's keys and values would mean nothing to this model.
        """
        owner = _lender(context)
        if owner is None or context.scratch[owner].slots is not owner.slots:
            return False
        if owner is not self._owner:
            self.check_fits(owner)
            self._owner = owner
        return True

    def read(
        self, contexts: Sequence[Context], proposals: Sequence[Proposal], tail: Tail | None = None
    ) -> BlockReading:
        """As `BlockReader.read`, of sessions that are `invited`."""
        self.slots = self._owner.slots
        return super().read(contexts, proposals, tail)

    def _new_slots(self) -> Slots:
        return super()._new_slots() if self._owner is self else self._owner.slots

    def _empty_slots(self) -> None:
        self.slots = self._owner.slots  # they are the target's, who empties them

    def _take(self, context: Context) -> Slot:
        slot: Slot = context.scratch.pop(self._owner)
        return slot

    def _settle(self, slot: Slot, context: Context) -> list[int]:
        pending = super()._settle(slot, context)
        slot.own = len(slot.tokens) if slot.own is None else min(slot.own, len(slot.tokens))
        return pending

    def check_fits(self, owner: BlockReader) -> None:
        """Refuse a target whose keys and values would mean nothing to this model.

        Raises:
            ConfigError: naming what differs.
        """
        guest_config, owner_config = (reader.module.config.get_text_config() for reader in (self, owner))
        both: list[tuple[str, Any, Any]] = [
            (name, getattr(guest_config, name, None), getattr(owner_config, name, None)) for name in SAME
        ]
        both.append(("type", self.dtype, owner.dtype))
        for name, value, target in both:
            if value != target:
                raise ConfigError(
                    f"a draft model without a cache of its own must be the target, rounded or cut short; its {name} is "
                    f"{value}, the target's {target}. Give it the target's, or leave `own_cache: false` out",
                    path="own_cache",
                )
        if guest_config.num_hidden_layers > owner_config.num_hidden_layers:
            raise ConfigError(
                f"a draft model without a cache of its own has {guest_config.num_hidden_layers} layers, the target "
                f"{owner_config.num_hidden_layers}",
                path="own_cache",
            )
        self.hosts.add(owner.module)


def _lender(context: Context) -> BlockReader | None:
    """The reader of a target that has read the session's text."""
    return next((key for key in context.scratch if isinstance(key, BlockReader) and key.lends), None)
