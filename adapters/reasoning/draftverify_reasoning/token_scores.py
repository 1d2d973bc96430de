"""A causal language model with a scalar on every token: what the trained verifier computes and its training trains.

The model is read as far as its layer `depth`; of these the top `layers` are trained and the others stay as they are, so
that their states of a text can be computed once. On the states, normed as for the model's own head, stands a linear
head of one output: the log-odds that the solution, read up to this token, is right. (Cobbe et al. scale and shift the
logit of a token that the vocabulary has no other use for, which is the same head, tied to that token's row. One of its
own needs no such token.)
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from draftverify import ConfigError
from draftverify_llm import readable

__all__ = ["TokenRow", "TokenScores", "padded", "row_of", "width_of"]

_GRAIN = 16


class TokenRow(NamedTuple):
    """A question and a solution, or the steps of one, as the model reads them.

    Args:
        ids: of the tokens.
        begin: where the solution's begin.
        ends: the place of each step's last token, a line's end; of a whole solution the last token alone.
    """

    ids: tuple[int, ...]
    begin: int
    ends: tuple[int, ...]


def row_of(tokenizer: Any, question: str, steps: Sequence[str]) -> TokenRow:
    """The question and each step, a line each, every line ending in a line's end.

    Lines are encoded one by one, so that a solution has the same tokens whether it comes whole or in steps; white space
    around a step is not read. What looks like one of the tokenizer's special tokens is read as the text that it is.
    """
    # Special tokens split here too: the tokenizer keeps that choice as its state, which threads share.
    opening = tokenizer("", split_special_tokens=True).input_ids
    ids = [id for id in opening if id != tokenizer.eos_token_id]
    ids += _encoded(tokenizer, question)
    begin, ends = len(ids), []
    for step in steps:
        ids += _encoded(tokenizer, step)
        ends.append(len(ids) - 1)
    return TokenRow(tuple(ids), begin, tuple(ends))


def _encoded(tokenizer: Any, text: str) -> list[int]:
    lines = readable(text).strip().split("\n")
    encoded = tokenizer(
        [f"{line}\n" for line in lines], add_special_tokens=False, split_special_tokens=True
    ).input_ids
    return [id for line in encoded for id in line]


def width_of(row: TokenRow, longest: int) -> int:
    """How wide the row is when it is padded: its tokens, up to the next of a few widths.

    torch keeps what it prepared for every shape that it multiplied, some MB each on a CPU; a training with a shape of
    its own for every batch came to 3 GB.
    """
    return min(-(-len(row.ids) // _GRAIN) * _GRAIN, max(longest, len(row.ids)))


def padded(rows: Sequence[TokenRow], longest: int, device: Any) -> torch.Tensor:
    """Ids [rows, width], padded at the end, where a causal model's padding touches nothing before it."""
    ids = torch.zeros((len(rows), max(width_of(row, longest) for row in rows)), dtype=torch.long)
    for place, row in enumerate(rows):
        ids[place, : len(row.ids)] = torch.tensor(row.ids)
    return ids.to(device)


class TokenScores(torch.nn.Module):
    """The network.

    Args:
        model: a transformers causal language model; it is not changed.
        layers: how many of the layers that are read are trained, from the top.
        depth: how many layers are read, from the bottom.

    Raises:
        ConfigError: the model has not so many layers, or they cannot be taken apart.
    """

    def __init__(self, model: Any, layers: int, depth: int) -> None:
        super().__init__()
        base = model.base_model
        count = int(model.config.get_text_config().num_hidden_layers)
        self.depth = depth
        self.layers = layers
        if not 1 <= self.depth <= count:
            raise ConfigError(f"depth is {depth}; the model has {count} layers", path="depth")
        if not 0 <= layers <= self.depth:
            raise ConfigError(
                f"layers is {layers}; of {self.depth} that are read so many cannot be trained", path="layers"
            )
        self.dtype = next(base.parameters()).dtype
        cut = self.depth - layers
        # Not as submodules: neither is trained, moved or saved with this one.
        self._frozen: Any
        self._words: Any
        if layers or self.depth < count:
            object.__setattr__(self, "_frozen", _between(base, 0, cut, norm=not layers))
        else:
            object.__setattr__(self, "_frozen", base)
        object.__setattr__(self, "_words", model.get_output_embeddings())
        self.top: Any = None
        if layers:
            top = _between(base, cut, self.depth, norm=True)
            self._check(model, top, _between(base, 0, self.depth, norm=True))
            top.embed_tokens = None
            self.top = copy.deepcopy(top).float()
            for name, parameter in self.top.named_parameters():
                parameter.requires_grad_(name.startswith("layers."))
        self.head = torch.nn.Linear(int(model.config.get_text_config().hidden_size), 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.to(model.device)

    @property
    def device(self) -> Any:
        """The torch device."""
        return self.head.weight.device

    def trained(self) -> dict[str, torch.Tensor]:
        """What training changes, by name: the layers in float32 and the head."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def states(self, ids: torch.Tensor) -> torch.Tensor:
        """What the layers that stay make of ids [rows, tokens]: [rows, tokens, hidden], in the model's type."""
        with torch.no_grad():
            states: torch.Tensor = self._frozen(input_ids=ids, use_cache=False).last_hidden_state
        return states

    def read(self, states: torch.Tensor) -> torch.Tensor:
        """What the trained layers make of those: [rows, tokens, hidden], in float32."""
        if self.top is None:
            return states.float()
        with torch.autocast(states.device.type, self.dtype, enabled=self.dtype != torch.float32):
            states_above: torch.Tensor = self.top(
                inputs_embeds=states.float(), use_cache=False
            ).last_hidden_state
        return states_above.float()

    def score(self, read: torch.Tensor) -> torch.Tensor:
        """Log-odds in nats: [rows, tokens]."""
        scores: torch.Tensor = self.head(read)[..., 0]
        return scores

    def words(self, read: torch.Tensor) -> torch.Tensor:
        """The language model's logits of the next token, of states [n, hidden]: [n, vocabulary]."""
        logits: torch.Tensor = self._words(read.to(self._words.weight.dtype))
        return logits.float()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Log-odds after every token of ids [rows, tokens]: [rows, tokens]."""
        return self.score(self.read(self.states(ids)))

    def _check(self, model: Any, top: Any, together: Any) -> None:
        """That the lower and the upper layers, one after the other, are what they are together: a model that scales
        what it embeds would do it twice. Both in the model's own type, in which they are the same products.
        """
        ids = torch.arange(1, 9, device=model.device)[None] % model.config.get_text_config().vocab_size
        with torch.no_grad():
            at_once = together(input_ids=ids, use_cache=False).last_hidden_state.float()
            apart = top(inputs_embeds=self.states(ids), use_cache=False).last_hidden_state.float()
        if not (at_once - apart).norm() <= 1e-3 * at_once.norm():
            raise ConfigError(_APART.format(type(model).__name__), path="layers")


_APART = "the layers of {} cannot be taken apart; train the head alone (layers: 0) on all of its layers"


def _between(base: Any, bottom: int, top: int, *, norm: bool) -> Any:
    """The model's layers from `bottom` up to `top`, with its last norm or without; they are shared, not copied."""
    mixed = len(set(getattr(base.config, "layer_types", None) or ())) > 1
    if mixed or not (hasattr(base, "layers") and hasattr(base, "norm")):
        raise ConfigError(_APART.format(type(base).__name__), path="layers")
    part = copy.copy(base)
    part._modules = dict(base._modules)
    part.layers = torch.nn.ModuleList(list(base.layers)[bottom:top])
    if not norm:
        part.norm = torch.nn.Identity()
    return part
