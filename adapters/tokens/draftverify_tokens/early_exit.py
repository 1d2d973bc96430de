"""The target's own first layers and its head draft: no second model, no weight held twice.

What the early layers think the next token is, read through the model's last norm and head; the idea of LayerSkip
(arXiv:2404.16710) and of "Draft & Verify" (arXiv:2309.08168), where the layers were trained or chosen for it. Any model
may be tried: the rule makes up for what the early layers do not know.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from draftverify import ConfigError, Context, Proposal
from draftverify_tokens.draft_model import DraftModel, Lookup
from draftverify_tokens.models import TokenModel

__all__ = ["EarlyExit", "first_layers"]


class EarlyExit(DraftModel):
    """Drafts with the first layers of a model, its final norm and its head; a `DraftModel` in all else.

    The layers are the model's own modules, so moving or converting it moves or converts both. Keys and values of the
    first layers are computed twice, once for the draft and once for the target's pass; without a cache of its own only
    those of drafted tokens.

    Args:
        model: the target's model.
        layers: how many of its layers draft.
        compiled: compile the steps; by default where the model is on a GPU.
        own_cache: False reads on in the target's cache, whose first layers hold the same keys and values.
        lookup, margin: as `DraftModel`'s.
        adapter: what `draftverify fit part drafter` wrote for so many layers of this model; without it the head reads
            the layers as they are.
    """

    def __init__(
        self,
        model: TokenModel,
        layers: int,
        compiled: bool | None = None,
        own_cache: bool = True,
        lookup: Lookup | None = None,
        margin: Annotated[float, Field(ge=0)] = 0.0,
        adapter: Path | None = None,
    ) -> None:
        super().__init__(model, compiled, own_cache, lookup, margin)
        self.layers = layers
        self.adapter = adapter
        self._copies = 0  # parts of `module` that are not the model's: those that hold the layers

    @cached_property
    def module(self) -> Any:
        """The transformers module of the first layers.

        Raises:
            ConfigError: the model has not so many layers, or they were not found; or the adapter is another's.
        """
        short = first_layers(self.model.model, self.layers)
        if self.adapter is not None:
            from draftverify_tokens.exit_adapter import adapted

            short = adapted(short, self.adapter, layers=self.layers)
        self._copies = _strangers(short, self.model.model)
        return short

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """As `DraftModel.propose_many`, with the layers that the model has now."""
        self._renew(contexts)
        return super().propose_many(contexts, ns)

    def rows(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> tuple[Any, Any]:
        """As `DraftModel.rows`, with the layers that the model has now."""
        self._renew(contexts)
        return super().rows(contexts, proposals)

    def close(self) -> None:
        """Let the cache's memory go."""
        super().close()
        self.__dict__.pop("module", None)

    def _renew(self, contexts: Sequence[Context]) -> None:
        """Begin again with a new task where parts of the model were replaced by others."""
        begins = any(not context.rounds for context in contexts)
        if begins and _strangers(self.module, self.model.model) != self._copies:
            self.close()


def first_layers(module: Any, layers: int) -> Any:
    """A causal language model of a module's first layers, its final norm and its head, all of them shared.

    Args:
        module: a transformers causal language model; it is not changed.
        layers: how many of its layers.

    Returns:
        A module of the same class: copied are the modules on the way to the list of layers, and the config.

    Raises:
        ConfigError: the model has not so many layers, or keeps them where they are not looked for.
    """
    from torch.nn import ModuleList

    total = module.config.get_text_config().num_hidden_layers
    if not 1 <= layers <= total:
        raise ConfigError(f"layers is {layers}; {type(module).__name__} has {total}", path="layers")
    base = module.base_model
    lists = [
        name for name, part in base.named_modules() if isinstance(part, ModuleList) and len(part) == total
    ]
    if len(lists) != 1:
        raise ConfigError(
            f"{type(base).__name__} has {len(lists)} lists of {total} modules where one, its layers, was looked for; "
            "use tokens.draft_model with a model of fewer layers"
        )
    prefix = next(name for name, part in module.named_modules() if part is base)
    short = _shortened(module.config, layers)
    text = module.config.get_text_config()
    exit_model = parent = _copied(module)
    for name in filter(None, f"{prefix}.{lists[0]}".split(".")):
        # The layers, which are shared, keep the old config: what they read in it says nothing of their number.
        if (config := getattr(parent, "config", None)) is not None:
            parent.config = short.get_text_config() if config is text else short
        child = parent._modules[name]
        is_list = isinstance(child, ModuleList) and len(child) == total
        parent._modules[name] = child[:layers] if is_list else _copied(child)
        parent = parent._modules[name]
    return exit_model


def _strangers(short: Any, module: Any) -> int:
    """How many parts of `short` are not parts of `module`."""
    ids = set(map(id, module.modules()))
    return sum(id(part) not in ids for part in short.modules())


def _copied(module: Any) -> Any:
    """The module with a table of parts of its own."""
    copied = copy.copy(module)
    copied._modules = dict(module._modules)
    return copied


def _shortened(config: Any, layers: int) -> Any:
    short_config = copy.deepcopy(config)
    text = short_config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds is not None:
        text.layer_types = list(kinds[:layers])
    text.num_hidden_layers = layers
    return short_config
