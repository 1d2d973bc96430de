"""A causal language model with a scalar on every token: what the trained verifier computes and its training trains.

The model is read as far as its layer `depth`; of these the top `layers` are trained and the others stay as they are. On
the states, normed as for the model's own head, stands a linear head of one output: the log-odds that the solution, read
up to this token, is right. (Cobbe et al. scale and shift the logit of a token that the vocabulary has no other use for,
which is the same head, tied to that token's row. One of its own needs no such token.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from draftverify import ConfigError
from draftverify_llm import readable

_GRAIN = 16
_DROPOUT = 0.1


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
        base: of a transformers causal language model all but its head; it is cut, and a part of it is trained.
        layers: how many of the layers that are read are trained, from the top.
        depth: how many layers are read, from the bottom.

    Raises:
        ConfigError: the model has not so many layers, or it cannot be told which they are.
    """

    def __init__(self, base: Any, layers: int, depth: int) -> None:
        super().__init__()
        stack = next((part for part in base.children() if isinstance(part, torch.nn.ModuleList)), None)
        if stack is None:
            raise ConfigError(f"a {type(base).__name__} has no list of layers; take another", path="model")
        if not 1 <= depth <= len(stack):
            raise ConfigError(f"depth is {depth}; the model has {len(stack)} layers", path="depth")
        if not 0 <= layers <= depth:
            raise ConfigError(
                f"layers is {layers}; of {depth} that are read so many cannot be trained", path="layers"
            )
        self.base, self.dtype = base.requires_grad_(False), base.dtype
        del stack[depth:]
        for layer in stack[depth - layers :]:
            layer.float().requires_grad_(True)
        self.dropout = torch.nn.Dropout(_DROPOUT)
        self.head = torch.nn.Linear(base.config.get_text_config().hidden_size, 1, device=base.device)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    @property
    def device(self) -> Any:
        """The torch device."""
        return self.head.weight.device

    def trained(self) -> dict[str, torch.Tensor]:
        """What training changes, by name: the layers in float32 and the head."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Log-odds in nats after every token of ids [rows, tokens]: [rows, tokens]."""
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            states = self.base(input_ids=ids, use_cache=False).last_hidden_state
        scores: torch.Tensor = self.head(self.dropout(states.float()))[..., 0]
        return scores
