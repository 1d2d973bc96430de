"""Heads that were trained on the target's last hidden state draft a tree, all tokens ahead at once (Medusa)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from draftverify import Context, Proposal
from draftverify.traits import GeneratorTraits
from draftverify_tokens.drafter_config import read_config
from draftverify_tokens.likeliest_tree import likeliest_tree
from draftverify_tokens.models import TokenModel, prompt_of, room
from draftverify_tokens.target import hidden_states

LAST = -1
"""The state that the target's own head reads."""
NODES = 4
"""Of a tree where no block size is given: on a CPU more of them cost more than they bring."""


class Medusa:
    """Drafts the n likeliest paths through its heads' tokens, by the product of the heads' probabilities on the way.

    The heads see the state of the last token that the target has read, and not which token the target chose then. So
    they cost one small product for the whole tree, and know less of each token than one that goes on from the one
    before (`Eagle`). Nothing is drafted in a session's first round, whose pass reads the prompt. The settings do not
    reach the heads.

    Args:
        model: the target's model.
        weights: a directory of `draftverify fit part drafter` with `kind=medusa`.

    References:
        Cai et al., "Medusa", arXiv:2401.10774.
    """

    def __init__(self, model: TokenModel, weights: str | Path) -> None:
        self.model = model
        self.weights = weights

    @cached_property
    def traits(self) -> GeneratorTraits:
        """Given trees, from the target's last states; it takes turns, as the target does."""
        read_config(Path(self.weights), "medusa")  # what is wrong with it is told before a model is loaded
        return GeneratorTraits(
            shape="tree",
            reads=frozenset(),
            vocabulary=lambda: self.model.vocabulary,
            hidden={LAST},
            concurrent=False,
            shares=lambda: (self.model.model,),
        )

    @cached_property
    def _network(self) -> Any:
        from draftverify_tokens.drafter_network import fitted
        from draftverify_tokens.medusa_network import load_medusa

        return fitted(load_medusa(Path(self.weights)), self.model)

    def open(self) -> None:
        """Load the weights.

        Raises:
            ResourceError: there are none.
            ConfigError: they are of another kind of drafter, or were trained for another model.
        """
        self._network  # noqa: B018

    def close(self) -> None:
        """Let them go."""
        self.__dict__.pop("_network", None)

    def default_block(self) -> int:
        """A number of nodes: the controller is for chains."""
        return NODES

    def propose(self, context: Context, n: int) -> Proposal:
        """A tree of at most `n` tokens, as deep as there are heads."""
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """`propose` for many sessions, in one pass of the heads."""
        import torch

        rooms = [room(context, n) for context, n in zip(contexts, ns, strict=True)]
        states = {
            index: state
            for index, context in enumerate(contexts)
            if rooms[index] and (state := _last_state(context)) is not None
        }
        proposals = [Proposal.chain(())] * len(contexts)
        if not states:
            return proposals
        with torch.inference_mode():
            shares = self._network.logits(torch.cat(list(states.values()))).float().softmax(-1)
            top = shares.topk(min(max(rooms), shares.shape[-1]))
            tokens = self._network.tokens[top.indices]
        for index, *likely in zip(states, tokens.tolist(), top.values.tolist(), strict=True):
            ends = frozenset(contexts[index].task.input.get("eos_ids", ()))
            proposals[index] = _tree(*likely, ends, rooms[index])
        return proposals


def _last_state(context: Context) -> Any:
    """[1, width], of the last token that the target has read; None where there is none."""
    last = len(prompt_of(context)) + len(context.accepted) - 2
    states = hidden_states(context, (LAST,), last) if last >= 0 else None
    return None if states is None else states[:, 0]


def _tree(tokens: list[list[int]], shares: list[list[float]], ends: frozenset[int], n: int) -> Proposal:
    """The n likeliest paths through the tokens of each head, nothing behind an end token."""
    heads = [list(zip(*head, strict=True)) for head in zip(tokens, shares, strict=True)]
    return likeliest_tree(
        0,
        lambda depth: heads[depth] if depth < len(heads) else (),
        lambda depth, token: len(heads) if token in ends else depth + 1,
        n,
    )
