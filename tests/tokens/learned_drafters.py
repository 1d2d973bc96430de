"""Learned drafters, written as a plugin's author would: public names alone, the target's hidden states.

A Medusa-like drafter has heads on the target's last hidden state, one for each place to come; an EAGLE-like one goes on
from hidden state to hidden state with a layer of its own. Both draft trees.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from draftverify import Context, GeneratorTraits, Proposal
from draftverify_tokens import DraftTree, History, TokenModel, hidden_states, probabilities


def room(context: Context, n: int) -> int:
    """How many of n tokens the target has positions for."""
    given = context.task.input
    return (
        n
        if given["positions"] is None
        else min(n, given["positions"] - len(given["prompt_ids"]) - len(context.accepted))
    )


class MedusaLike:
    """Heads on the last hidden state: head k says what comes k + 1 tokens after the token that is not read yet.

    Args:
        heads: a file with a tensor [heads, 1 + width, vocabulary], the first row of each a bias.
        widths: how many tokens of each head are tried.
    """

    traits = GeneratorTraits(shape="tree", hidden={-1})

    def __init__(self, heads: Path, widths: Sequence[int] = (4, 3, 2)) -> None:
        self.heads = heads
        self.widths = widths

    @cached_property
    def _weights(self) -> torch.Tensor:
        return torch.load(self.heads, weights_only=True)

    def propose(self, context: Context, n: int) -> Proposal:
        """The likeliest paths through the heads' tokens."""
        states = hidden_states(context, start=len(context.task.input["prompt_ids"]) - 1)
        n = room(context, n)
        if states is None or n < 1:
            return Proposal.chain(())
        scores = (states[-1, 0] @ self._weights[:, 1:] + self._weights[:, 0]).log_softmax(-1)
        likely = [
            list(zip(*(part.tolist() for part in row.topk(width)), strict=True))
            for row, width in zip(scores, self.widths, strict=False)
        ]
        items: list[int] = []
        parents: list[int] = []
        waiting = [(-score, 0, -1, token) for score, token in likely[0]]  # cost, depth, parent, token
        heapq.heapify(waiting)
        while waiting and len(items) < n:
            cost, depth, parent, token = heapq.heappop(waiting)
            items.append(token)
            parents.append(parent)
            if depth + 1 < len(likely):
                for score, child in likely[depth + 1]:
                    heapq.heappush(waiting, (cost - score, depth + 1, len(items) - 1, child))
        return Proposal.tree(items, parents)


class EagleHead(torch.nn.Module):
    """One layer that makes the next hidden state of the last one and the token that was chosen after it.

    Args:
        width: of hidden states.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.join = torch.nn.Linear(2 * width, width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 2 * width), torch.nn.SiLU(), torch.nn.Linear(2 * width, width)
        )

    def forward(self, states: Any, embedded: Any, keys: Any, values: Any, mask: Any) -> tuple[Any, Any, Any]:
        """Next states [n, width], and the new keys and values [n, width].

        Args:
            states: [n, width].
            embedded: [n, width], the embeddings of the tokens after them.
            keys, values: [m, width], of those before.
            mask: [n, m + n], what each may look at.
        """
        x = self.join(torch.cat([states, embedded], -1))
        q, k, v = self.qkv(x).chunk(3, -1)
        keys, values = torch.cat([keys, k]), torch.cat([values, v])
        look = (q @ keys.T / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf).softmax(-1)
        x = x + self.out(look @ values)
        return x + self.mlp(x), k, v


class _Trunk:
    """What an EAGLE-like drafter keeps of a session: keys and values of the answer, and this round's nodes."""

    def __init__(self, width: int) -> None:
        self.end = 0
        self.round = -1
        self.keys = self.values = torch.zeros(0, width)
        self.state = torch.zeros(width)
        self.nodes: dict[tuple[int, ...], tuple[Any, Any, Any]] = {}


class EagleLike:
    """Drafts with a layer on (hidden state, next token), the target's embeddings and its head.

    Args:
        model: the target's model.
        head: a file with an `EagleHead`'s weights.
    """

    def __init__(self, model: TokenModel, head: Path) -> None:
        self.model = model
        self.head = head

    @cached_property
    def _head(self) -> EagleHead:
        made = EagleHead(self.model.model.config.hidden_size)
        made.load_state_dict(torch.load(self.head, weights_only=True))
        return made.eval()

    @cached_property
    def traits(self) -> GeneratorTraits:
        return GeneratorTraits(shape="chain", vocabulary=self.model.vocabulary, hidden={-1}, concurrent=False)

    def room(self, context: Context, n: int) -> int:
        """Nothing before there are features."""
        return 0 if self._trunk(context) is None else room(context, n)

    def propose(self, context: Context, n: int) -> Proposal:
        """The likeliest chain."""
        return DraftTree(self, (1,) * max(1, n)).propose(context, n)

    @torch.inference_mode()
    def rows(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> tuple[Any, Any]:
        """Scores of trees, node by node; those of earlier levels are remembered."""
        found = []
        for context, proposal in zip(contexts, proposals, strict=True):
            trunk = self._trunk(context)
            none = torch.zeros(0, trunk.keys.shape[1])
            trunk.nodes.setdefault((), (trunk.state, none, none))
            paths = [()] + [
                tuple(proposal.items[i] for i in proposal.path(index)) for index in range(len(proposal))
            ]
            for path in paths[1:]:
                if path not in trunk.nodes:
                    state, keys, values = trunk.nodes[path[:-1]]
                    before = torch.cat([trunk.keys, keys]), torch.cat([trunk.values, values])
                    mask = torch.ones(1, len(before[0]) + 1, dtype=torch.bool)
                    new, k, v = self._head(state[None], self._embedded(path[-1:]), *before, mask)
                    trunk.nodes[path] = new[0], torch.cat([keys, k]), torch.cat([values, v])
            logits = self.model.model.lm_head(torch.stack([trunk.nodes[path][0] for path in paths]))
            history = History(
                context.task.input["prompt_ids"], context.accepted, proposal.items, proposal.parents
            )
            found.append(probabilities(logits, context.settings, [history], model=self.model))
        q, raw_maxima = zip(*found, strict=True)
        return torch.cat(q), torch.cat(raw_maxima)

    def _embedded(self, tokens: Sequence[int]) -> Any:
        return self.model.model.get_input_embeddings()(torch.tensor(tokens))

    @torch.inference_mode()
    def _trunk(self, context: Context) -> _Trunk | None:
        """The session's keys and values up to its last token; begun anew where some are missing."""
        trunk: _Trunk | None = context.scratch.get(self)
        if trunk is not None and trunk.round == context.round:
            return trunk
        states = hidden_states(context, start=0 if trunk is None else trunk.end)
        if states is None:
            return None
        states = states[:, 0]
        if trunk is None:
            trunk = context.scratch[self] = _Trunk(states.shape[1])
        tokens = [*context.task.input["prompt_ids"], *context.accepted][trunk.end + 1 :]
        n, m = len(states), len(trunk.keys)
        mask = torch.ones(n, m + n, dtype=torch.bool).tril(m)
        new, k, v = self._head(states, self._embedded(tokens), trunk.keys, trunk.values, mask)
        trunk.keys, trunk.values = torch.cat([trunk.keys, k]), torch.cat([trunk.values, v])
        trunk.state, trunk.nodes = new[-1], {}
        trunk.end, trunk.round = trunk.end + n, context.round
        return trunk


def eagle_tree(
    model: TokenModel,
    head: Path,
    branching: Sequence[int] = (4, 3, 2),
    law: Literal["given", "without_replacement", "iid"] = "given",
) -> DraftTree:
    """A tree of an EAGLE-like drafter, for a config."""
    return DraftTree(EagleLike(model, head), branching, law)
