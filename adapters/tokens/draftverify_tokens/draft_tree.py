"""Trees over any drafter that has scores: several continuations of the answer, verified in one pass.

A tree is grown level by level. At each level the drafter reads the whole tree so far in one pass, which gives its
distribution after every token of the last level, and each of these tokens gets its children:

- law "given": the likeliest ones, so that in the end the tree holds the n likeliest paths (EAGLE-2);
- law "without_replacement": draws, one after the other, each struck out for its siblings (SpecInfer, Sequoia);
- law "iid": independent draws, which may be equal (k-SEQ of SpecTr).

The first two go with the rule `tree`, the third with `k_seq`. No drawn value changes the form of a sampled tree but for
tokens after which nothing can follow, so that what is told of the draws is the whole truth about them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Literal, Protocol

import msgspec
import numpy as np

from draftverify import (
    GIVEN,
    BlockSize,
    ConfigError,
    Context,
    Generator,
    Law,
    Proposal,
    inverse_cdf,
    uniforms,
)
from draftverify.errors import below
from draftverify.protocols import ChecksSettings, ChecksVerifier, Closes, Opens
from draftverify.traits import GeneratorTraits, offers, shared_things, traits_of
from draftverify_tokens.block_size import default_block
from draftverify_tokens.history import upload
from draftverify_tokens.models import no_trees_of, room_of
from draftverify_tokens.sampling import SETTINGS, read_settings


class ScoredDrafter(Generator, Protocol):
    """A drafter that has scores, which is what a tree is grown by. `DraftModel` is such.

    It may have besides `room(context, n)`: how many of n tokens it can draft now; 0 where what it reads is missing.
    """

    def rows(self, contexts: Sequence[Context], proposals: Sequence[Proposal], /) -> tuple[Any, Any]:
        """Its distributions under the contexts' settings, after each context and after each token drafted so far.

        Args:
            contexts: the sessions.
            proposals: of each the tokens drafted so far, a chain or a tree. It is asked with growing ones in one round;
                of none of them anything was accepted yet.

        Returns:
            q [rows, vocabulary], probabilities in the target's vocabulary, and raw maxima [rows], the largest
            entries at temperature 1: of each session the row after its context, then one after each item.
        """
        ...


class DraftTree:
    """Drafts a tree with the scores of another drafter, in as many of its passes as the tree is deep.

    A block of n items is a tree of at most n nodes. Sampled trees are filled breadth-first. Under the law "given" the
    nodes are the n likeliest of the tree that `branching` spans, by the product of the drafter's probabilities on the
    way to each, which are those of temperature 1 and no filter where the target decodes greedily. Nothing is drafted
    after an end token (on a device, where nobody looks at draws, nothing likely).

    Args:
        drafter: what the scores are of, a draft model for one.
        branching: how many children a node has at most, at each level from the first on; as many levels as entries.
        law: "given" (the likeliest tokens; rule `tree`), "without_replacement" (draws; rule `tree`) or "iid" (draws;
            rule `k_seq`).

    Raises:
        ConfigError: branching is empty or has an entry below 1; law is none of the three.

    References:
        Li et al., "EAGLE-2", arXiv:2406.16858; Miao et al., "SpecInfer", arXiv:2305.09781; Chen et al., "Sequoia",
        arXiv:2402.12374; Sun et al., "SpecTr", arXiv:2310.15141.
    """

    def __init__(
        self,
        drafter: ScoredDrafter,
        branching: Sequence[int] = (4, 3, 2, 2, 1, 1),
        law: Literal["given", "without_replacement", "iid"] = "given",
    ) -> None:
        if not branching or min(branching) < 1:
            raise ConfigError(
                f"branching is {list(branching)}; at least one level is needed, and 1 child or more at each",
                path="branching",
            )
        if law not in ("given", "without_replacement", "iid"):
            raise ConfigError(
                f"{law!r} is no law of a tree; one of given, without_replacement, iid is", path="law"
            )
        self.drafter = drafter
        self.branching = branching
        self.law = law

    @cached_property
    def traits(self) -> GeneratorTraits:
        """Trees of the one law, as the drafter otherwise; the settings of decoding, and the drafter's."""
        drafter = traits_of(self.drafter, GeneratorTraits)
        return replace(
            drafter,
            shape="tree",
            laws={self.law},
            reads=SETTINGS | (drafter.reads or frozenset()),
            shares=lambda: shared_things(self.drafter, drafter),
        )

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings that cannot be read, here or by the drafter.

        Raises:
            ConfigError: naming the setting.
        """
        read_settings(settings)
        if offers(self.drafter, ChecksSettings):
            self.drafter.check_settings(settings)

    def check_verifier(self, verifier: Any) -> None:
        """Let the drafter look at the verifier that it drafts for.

        Raises:
            ConfigError: it cannot draft for it.
        """
        if offers(self.drafter, ChecksVerifier):
            with below("drafter"):
                self.drafter.check_verifier(verifier)

    def open(self) -> None:
        """Open the drafter.

        Raises:
            ConfigError: its model cannot read the tree that grows.
        """
        if offers(self.drafter, Opens):
            with below("drafter"):
                self.drafter.open()
        if (why := no_trees_of(self.drafter)) is not None:
            raise ConfigError(f"the drafter's model reads no trees: {why}", path="drafter")

    def close(self) -> None:
        """Close the drafter."""
        if offers(self.drafter, Closes):
            self.drafter.close()

    def default_block(self) -> BlockSize | int:
        """16 nodes: the controller is for chains."""
        return default_block("tree")

    def propose(self, context: Context, n: int) -> Proposal:
        """A tree of at most `n` tokens, with q [1 + inner nodes, vocabulary] where they were drawn."""
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """`propose` for many sessions, each level of all trees in one pass of the drafter."""
        rooms = [room_of(self.drafter, context, n) for context, n in zip(contexts, ns, strict=True)]
        indices = [index for index, n in enumerate(rooms) if n]
        active, sizes = [contexts[index] for index in indices], [rooms[index] for index in indices]
        grown = self._likeliest(active, sizes) if self.law == "given" else self._drawn(active, sizes)
        proposals = [Proposal.chain((), self._law_of_nothing(context)) for context in contexts]
        for index, proposal in zip(indices, grown, strict=True):
            proposals[index] = proposal
        return proposals

    def _law_of_nothing(self, context: Context) -> Law:
        if self.law == "given":
            return GIVEN
        import torch

        return Law(self.law, torch.empty((0, context.task.input.get("vocabulary", 0))), torch.empty(0))

    def _likeliest(self, contexts: Sequence[Context], sizes: Sequence[int]) -> list[Proposal]:
        """Trees of the likeliest paths.

        A node that is not among the n best so far never will be, nor what stands on it: a path's probability falls with
        its length. So one look per level finds what looking at one node after the other would.
        """
        import torch

        trees = [_Best(*pair) for pair in zip(_with_scores_that_differ(contexts), sizes, strict=True)]
        growing = trees
        for children in self.branching:
            growing = [tree for tree in growing if tree.ends]
            if not growing:
                break
            q, _ = self.drafter.rows([tree.context for tree in growing], [tree.block for tree in growing])
            starts = _starts(growing)
            at = [start + 1 + node for start, tree in zip(starts, growing, strict=True) for node in tree.ends]
            top = q[upload(np.asarray(at), q)].topk(min(children, q.shape[1]), dim=-1)
            # The one transfer of the level: which tokens are likely decides what is read next.
            likely = iter(torch.stack([top.values.double(), top.indices.double()], dim=-1).tolist())
            for tree in growing:
                tree.grow([next(likely) for _ in tree.ends])
        return [tree.block for tree in trees]

    def _drawn(self, contexts: Sequence[Context], sizes: Sequence[int]) -> list[Proposal]:
        """Sampled trees. Node i of the full form is drawn with the uniform at position i."""
        if not contexts:
            return []
        forms = [
            _form(_possible(self.branching, context), n) for context, n in zip(contexts, sizes, strict=True)
        ]
        trees = [_Sampled(*pair) for pair in zip(contexts, forms, strict=True)]
        keys = np.asarray([context.draws.key for context in contexts])
        rounds = np.asarray([context.draws.round for context in contexts])
        u = uniforms(keys, rounds, np.arange(max(sizes) + max(self.branching)))
        for level in range(max(map(len, forms))):
            growing = [(b, tree) for b, tree in enumerate(trees) if tree.families(level)]
            if not growing:
                break
            now = [tree for _, tree in growing]
            q, raw_maxima = self.drafter.rows([tree.context for tree in now], [tree.block for tree in now])
            at, numbers = [], []
            k = max(family.count for tree in now for family in tree.families(level))
            for start, (b, tree) in zip(_starts(now), growing, strict=True):
                rows = slice(start + tree.known, start + len(tree) + 1)
                tree.learn(q[rows], raw_maxima[rows])
                for family in tree.families(level):
                    at.append(start + 1 + tree.places[family.parent])
                    numbers.append(u[b, family.start : family.start + k])
            tokens, possible = self._draw(q[upload(np.asarray(at), q)], upload(np.asarray(numbers), q))
            begin = 0
            for tree in now:
                end = begin + len(tree.families(level))
                tree.grow(level, tokens[begin:end], None if possible is None else possible[begin:end])
                begin = end
        return [tree.proposal(self.law) for tree in trees]

    def _draw(self, weights: Any, u: Any) -> tuple[Any, Any]:
        """Siblings of m nodes.

        Args:
            weights: [m, V], a copy.
            u: [m, k].

        Returns:
            Tokens [m, k], and on a CPU [m, k] whether there was anything left to draw from.
        """
        import torch

        most = weights.shape[1] - 1
        tokens, drawable = [], []
        for j in range(u.shape[1]):
            drawable.append(weights.sum(dim=-1) > 0)
            # Where nothing is left the index would be one too large.
            tokens.append(inverse_cdf(weights, u[:, j]).clamp(max=most))
            if self.law == "without_replacement":
                weights.scatter_(1, tokens[-1][:, None], 0.0)
        on_host = weights.device.type == "cpu"
        return torch.stack(tokens, dim=1), torch.stack(drawable, dim=1) if on_host else None


class _Best:
    """The likeliest nodes of one session's tree so far.

    Attributes:
        ends: the nodes that are to be continued; -1 is the context.
    """

    def __init__(self, context: Context, size: int) -> None:
        self.context = context
        self.size = size
        self.ends = [-1]
        self._eos = frozenset(context.task.input.get("eos_ids", ()))
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._scores: list[float] = []

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def block(self) -> Proposal:
        """The tree so far."""
        return Proposal.tree(tuple(self._tokens), self._parents)

    def grow(self, likely: Sequence[Sequence[tuple[float, float]]]) -> None:
        """Add the ends' children, given as (probability, token) with the largest first, and keep the best nodes."""
        old = len(self)
        for end, children in zip(self.ends, likely, strict=True):
            score = 0.0 if end < 0 else self._scores[end]
            for p, token in children:
                if p > 0:
                    self._tokens.append(int(token))
                    self._parents.append(end)
                    self._scores.append(score + math.log(p))
        # A child is never better than its parent and stands behind it, so the best are a tree.
        best = sorted(range(len(self)), key=lambda node: -self._scores[node])[: self.size]
        chosen = sorted(best)
        place = {-1: -1} | {node: index for index, node in enumerate(chosen)}
        self._tokens = [self._tokens[node] for node in chosen]
        self._parents = [place[self._parents[node]] for node in chosen]
        self._scores = [self._scores[node] for node in chosen]
        self.ends = [place[node] for node in chosen if node >= old]
        self.ends = [node for node in self.ends if self._tokens[node] not in self._eos]


class _Siblings(msgspec.Struct, frozen=True):
    """One node's children in the full form: `count` of them from node `start` on."""

    parent: int
    start: int
    count: int


class _Sampled:
    """One session's sampled tree so far.

    Attributes:
        places: by node of the full form its index in the tree; absent where nothing could be drawn.
        known: of how many rows q is known.
    """

    def __init__(self, context: Context, form: Sequence[Sequence[_Siblings]]) -> None:
        self.context = context
        self.places = {-1: -1}
        self.known = 0
        self._form = form
        self._closed: set[int] = set()
        self._eos = frozenset(context.task.input.get("eos_ids", ()))
        self._items: list[Any] = []  # of each level
        self._parents: list[int] = []
        self._q: list[Any] = []
        self._raw_maxima: list[Any] = []

    def __len__(self) -> int:
        return len(self._parents)

    def families(self, level: int) -> list[_Siblings]:
        """Those nodes of a level that are to have children."""
        if level >= len(self._form):
            return []
        open_ = self.places.keys() - self._closed
        return [family for family in self._form[level] if family.parent in open_]

    @property
    def block(self) -> Proposal:
        """The tree as the drafter reads it."""
        import torch

        tensors = bool(self._items) and isinstance(self._items[0], torch.Tensor)
        items = (
            torch.cat(self._items) if tensors else tuple(token for level in self._items for token in level)
        )
        return Proposal.tree(items, self._parents)

    def proposal(self, law: Literal["without_replacement", "iid"]) -> Proposal:
        """The tree with what it was drawn from."""
        import torch

        drawn = Law(law, torch.cat(self._q), torch.cat(self._raw_maxima))
        return msgspec.structs.replace(self.block, law=drawn)

    def learn(self, q: Any, raw_maxima: Any) -> None:
        """Keep the rows of the last level, from which its children are about to be drawn."""
        self._q.append(q)
        self._raw_maxima.append(raw_maxima)
        self.known += len(q)

    def grow(self, level: int, tokens: Any, possible: Any) -> None:
        """Add a level's children.

        Args:
            level: which one.
            tokens: [families, k], of which each family takes the first so many.
            possible: [families, k], or None, as `DraftTree._draw` returns it.
        """
        families = self.families(level)
        chosen = [
            (place, j)
            for place, (family, drawable) in enumerate(
                zip(families, [None] * len(families) if possible is None else possible.tolist(), strict=True)
            )
            for j in range(family.count)
            if drawable is None or drawable[j]
        ]
        nodes = [families[place].start + j for place, j in chosen]
        parents = [self.places[families[place].parent] for place, _ in chosen]
        self.places.update({node: len(self) + index for index, node in enumerate(nodes)})
        self._parents += parents
        at = np.asarray([place * tokens.shape[1] + j for place, j in chosen], dtype=np.int64)
        flat = tokens.flatten()[upload(at, tokens)]
        if possible is None:
            self._items.append(flat)
            return
        values = flat.tolist()
        self._items.append(values)
        self._closed.update(node for node, token in zip(nodes, values, strict=True) if token in self._eos)


@lru_cache(256)
def _form(branching: tuple[int, ...], size: int) -> tuple[tuple[_Siblings, ...], ...]:
    """The first `size` nodes, breadth-first, of the tree with so many children at each level: each level's families."""
    levels: list[tuple[_Siblings, ...]] = []
    parents, used = [-1], 0
    for children in branching:
        families = []
        for parent in parents:
            if count := min(children, size - used):
                families.append(_Siblings(parent, used, count))
                used += count
        if not families:
            break
        levels.append(tuple(families))
        parents = list(range(families[0].start, used))
    return tuple(levels)


def _possible(branching: Sequence[int], context: Context) -> tuple[int, ...]:
    """How many children the settings leave a node, as far as they tell without a look at q."""
    sampling = read_settings(context.settings)
    most = 1 if sampling.temperature == 0 else sampling.top_k
    return tuple(branching) if most is None else tuple(min(children, most) for children in branching)


def _with_scores_that_differ(contexts: Sequence[Context]) -> list[Context]:
    """The contexts, with a temperature where they have none: one-hot rows would make a tree a chain."""
    warmed, cached = [], dict[int, Mapping[str, Any]]()
    for context in contexts:
        settings = context.settings
        if read_settings(settings).temperature == 0:
            if id(settings) not in cached:
                cut = ("temperature", "top_k", "top_p", "min_p")
                cached[id(settings)] = {name: value for name, value in settings.items() if name not in cut}
            context = msgspec.structs.replace(context, settings=cached[id(settings)])
        warmed.append(context)
    return warmed


def _starts(trees: Sequence[_Best] | Sequence[_Sampled]) -> list[int]:
    """Where each tree's rows begin: one for its context and one for each node."""
    return np.cumsum([0, *(len(tree) + 1 for tree in trees[:-1])]).tolist()
