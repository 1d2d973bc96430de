"""One forward pass of a transformers model over the buffers of `Slots`: any decoder-only model, by its own code.

The module is handed a cache that writes by position, the positions, and the attention masks, so that it makes none of
its own: rows of different lengths, trees and sliding windows are all in the masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache

from draftverify import ConfigError
from draftverify_tokens.fingerprint import RECORDERS
from draftverify_tokens.llama import LlamaForward, is_llama, products_are_plain
from draftverify_tokens.models import positions_of
from draftverify_tokens.places import telling_of
from draftverify_tokens.slots import RowGroup, put, seen


def forward_of(module: Any, hidden: tuple[int, ...], compiled: bool | None) -> Any:
    """The quickest way to run the module: `LlamaForward` where it knows the architecture, else the module's own code.

    Args:
        module: a causal language model.
        hidden: hidden states to return, as indices into transformers' `hidden_states`.
        compiled: whether to compile the steps; None: on a GPU, where it is known how.

    Raises:
        ConfigError: a layer keeps a running state instead of keys and values, there is no such hidden state, or the
            steps of such a module cannot be compiled.
    """
    check_rollback(module)
    layers = module.config.get_text_config().num_hidden_layers
    for index in hidden:
        if not -layers - 1 <= index <= layers:
            raise ConfigError(
                f"hidden has {index}; {type(module).__name__} has the states 0 (the embeddings) to {layers}, or -1 for "
                "the last; give one of these, and a drafter that was trained for this model",
                path="hidden",
            )
    if not is_llama(module):
        # The module's own code would be compiled anew for every length of its inputs.
        if compiled:
            raise ConfigError(
                f"steps are compiled for the Llama family alone, with full attention, without hooks and as its classes "
                f"are written; this {type(module).__name__} is read by its own code. Leave `compiled` out",
                path="compiled",
            )
        return ModuleForward(module, hidden)
    forward = LlamaForward(module, hidden)
    if compiled and not products_are_plain(module):
        raise ConfigError(
            f"layers of {type(module).__name__} are no torch.nn.Linear (quantised or adapted weights?), so its steps "
            "cannot be compiled. Leave `compiled` out",
            path="compiled",
        )
    if compiled or (compiled is None and module.device.type == "cuda" and products_are_plain(module)):
        forward.compile()
    return forward


def check_rollback(module: Any) -> None:
    """Refuse a model that cannot go back to an earlier token.

    Raises:
        ConfigError: a layer keeps a running state instead of keys and values.
    """
    layers: list[Any] = DynamicCache(config=module.config).layers
    for index, layer in enumerate(layers):
        if not (layer.is_croppable or getattr(layer, "is_sliding", False)) or hasattr(layer, "conv_states"):
            raise ConfigError(
                f"layer {index} of {type(module).__name__} keeps a running state ({type(layer).__name__}), which "
                "cannot be rolled back to an earlier token in a cache that is shared"
            )


class ModuleForward:
    """A pass by the module's own `forward`."""

    needs_masks = True
    compiled = False

    def __init__(self, module: Any, hidden: tuple[int, ...]) -> None:
        self.module = module
        self.hidden = hidden
        self._cache = _ByPosition()
        self._telling = telling_of(module)
        self._positions, _ = positions_of(module)

    def go_on_from(self, previous: Any, *, graphs: bool) -> None:
        """Nothing is compiled."""

    @cached_property
    def windows(self) -> dict[str, int | None]:
        """The window of each type of layer; None looks at everything."""
        config = self.module.config.get_text_config()
        window = getattr(config, "sliding_window", None)
        kinds = getattr(config, "layer_types", None)
        if kinds is None:
            if getattr(config, "use_sliding_window", True) is False:
                window = None
            kinds = ["full_attention" if window is None else "sliding_attention"]
        # A text is never longer than a chunk: see `positions_of`.
        unknown = set(kinds) - {"full_attention", "sliding_attention", "chunked_attention"}
        if unknown:
            raise ConfigError(
                f"{type(self.module).__name__} has layers of {', '.join(sorted(unknown))}; their masks are not known, "
                "those of full and sliding attention are"
            )
        return {kind: window if kind == "sliding_attention" else None for kind in dict.fromkeys(kinds)}

    def __call__(
        self, groups: Sequence[RowGroup], want: Any, tail: Callable[[Any], tuple[Any, ...]] | None = None
    ) -> tuple[Any, Any]:
        """Run one pass.

        Args:
            groups: what is read.
            want: of which tokens the logits are wanted: an int for the last so many of a single row, indices [wanted]
                into the tokens of all groups, one group after the other and row by row, or None for none.
            tail: makes more of the logits; see `LlamaForward`.

        Returns:
            Logits [wanted, vocabulary] or None, and of each group hidden states [R, N, layers, width], or None.
        """
        keep = want if isinstance(want, int) else 1 if want is None else 0
        outputs = [[self._read(part, keep) for part in self._parts(group)] for group in groups]
        states = None
        if self.hidden:
            states = [
                torch.cat([torch.stack([out.hidden_states[i] for i in self.hidden], dim=2) for out in parts])
                for parts in outputs
            ]
        if want is None:
            return None, states
        parts = [out.logits.flatten(0, 1) for parts in outputs for out in parts]
        flat = parts[0] if len(parts) == 1 else torch.cat(parts)
        logits = flat if isinstance(want, int) else flat[want]
        return (logits if tail is None else (logits, *tail(logits))), states

    def _parts(self, group: RowGroup) -> list[RowGroup]:
        """The group, or its rows where the model can be told of one row's positions alone."""
        if self._telling is None or not self._telling.one_row or len(group.ids) == 1:
            return [group]
        return [
            group._replace(
                ids=group.ids[row : row + 1],
                positions=group.positions[row : row + 1],
                places=group.places[row : row + 1],
                first_row=group.first_row + row,
                masks={window: mask[row : row + 1] for window, mask in group.masks.items()},
            )
            for row in range(len(group.ids))
        ]

    def _read(self, group: RowGroup, keep: int) -> Any:
        """The module's output for one group, with logits of the last `keep` tokens of its rows (0: of all)."""
        self._cache.group = group
        masks = {kind: group.masks[window] for kind, window in self.windows.items()}
        positions = group.positions
        if self._positions is not None:
            # Padding goes on behind a text that ends where the model does: there are no embeddings there, and angles
            # that depend on the length of the whole pass would change for its neighbours.
            positions = positions.clamp(max=self._positions - 1)
        arguments: dict[str, Any] = {
            "input_ids": group.ids,
            "position_ids": positions,
            "attention_mask": masks if len(masks) > 1 else next(iter(masks.values())),
            "past_key_values": self._cache,
            "use_cache": True,
            "logits_to_keep": keep,
            "output_hidden_states": bool(self.hidden),
        }
        with ExitStack() as stack:
            if self.hidden:
                stack.enter_context(recording(self.module))
            if self._telling is not None:
                stack.enter_context(self._telling.enter(self.module.base_model, group, arguments))
            return self.module(**arguments)


_RECORDED = "_output_capturing_hooks_installed"


@contextmanager
def recording(module: Any) -> Iterator[None]:
    """transformers leaves the hooks in a model by which it records hidden states; inside this they are taken off
    again, unless they were there before."""
    parts = list(module.modules())
    ours = not any(_RECORDED in vars(part) for part in parts)
    try:
        yield
    finally:
        for part in parts if ours else ():
            part.__dict__.pop(_RECORDED, None)
            for number, hook in list(part._forward_hooks.items()):
                if getattr(hook, "__module__", None) == RECORDERS:
                    del part._forward_hooks[number]


class _ByPosition(Cache):
    """The shelves as a transformers cache."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.group: Any = None

    def update(
        self, key_states: Any, value_states: Any, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Any, Any]:
        group, shelf = self.group, self.group.shelf
        if layer_idx == len(shelf.keys):
            shelf.keys.append(shelf.new(key_states))
            shelf.values.append(shelf.new(value_states))
        keys, values = shelf.keys[layer_idx], shelf.values[layer_idx]
        put(keys, key_states, group)
        put(values, value_states, group)
        return seen(keys, group), seen(values, group)
