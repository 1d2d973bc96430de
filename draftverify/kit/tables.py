"""A small exact language model: tables of probabilities, the drafter and the target that read them.

A table is a function of a prefix that gives the distribution of what comes next. `TableModel` is one by itself;
`TablePair` are two that are hard on an acceptance rule together. `DraftFrom` drafts from a table by a declared law and
`TargetFrom` verifies with another, so whoever tests a rule or a pipeline knows the distribution that must come out. All
are stateless, deterministic and picklable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from draftverify.randomness import Draws, inverse_cdf, stream_key
from draftverify.traits import GeneratorTraits, VerifierTraits
from draftverify.values import Context, Cost, Evidence, Law, LawKind, Proposal, Shape, Verification

Table: TypeAlias = Callable[..., Any]
"""`table(prefix, temperature=1.0)`: the distribution [vocabulary] of the token after `prefix`."""


@dataclass(eq=False)
class TableModel:
    """A language model of a few tokens: its distribution is a fixed random function of the last `order` tokens.

    Args:
        vocabulary: how many tokens.
        seed: two seeds are two models.
        order: how many tokens back it looks; 0: every row is the same.
        sharpness: 1 gives rows uniform on the simplex, 0 flat ones, more gives rows nearer to one-hot.
    """

    vocabulary: int = 4
    _: KW_ONLY
    seed: int = 0
    order: int = 1
    sharpness: float = 1.0

    def __call__(self, prefix: Sequence[int], temperature: float = 1.0) -> Any:
        """The distribution [vocabulary] of the token after `prefix`; temperature 0 is one-hot."""
        recent = tuple(int(token) for token in prefix[-self.order :]) if self.order else ()
        return _row(self.vocabulary, self.seed, recent, self.sharpness, temperature)


@lru_cache(maxsize=65536)
def _row(vocabulary: int, seed: int, recent: tuple[int, ...], sharpness: float, temperature: float) -> Any:
    uniform = Draws(stream_key(seed, repr(recent), 0, "table"), 0).uniforms(range(vocabulary))
    logits = sharpness * np.log(-np.log1p(-np.asarray(uniform)) + 1e-3)
    if temperature == 0:
        row = (np.arange(vocabulary) == np.argmax(logits)).astype(np.float64)
    else:
        row = np.exp((logits - np.max(logits)) / temperature)
        row /= row.sum()
    row.setflags(write=False)
    return row


_SITUATIONS = ("far", "far", "same", "holes", "apart", "sure draft", "sure target")


@dataclass(eq=False)
class TablePair:
    """A target's table p and a drafter's table q, drawn anew after every prefix and hard on a rule together.

    Args:
        vocabulary: how many tokens; the last one is the end of an answer.
        seed: two seeds are two pairs.
        mixed: each prefix has a situation of its own: equal rows, holes, rows on disjoint tokens, rows of one token;
            else every row has mass on every token, in which most mistakes show.
        greedy: every row of p has all its mass on one token, as at temperature 0.
        free: the places in an answer where rows are drawn; both have all mass on one token elsewhere. None: everywhere.
    """

    vocabulary: int
    seed: int
    _: KW_ONLY
    mixed: bool = False
    greedy: bool = False
    free: frozenset[int] | None = None

    def p(self, prefix: Sequence[int], temperature: float = 1.0) -> Any:
        """The target's row [vocabulary]."""
        return _tempered(self.rows(prefix)[0], temperature)

    def q(self, prefix: Sequence[int], temperature: float = 1.0) -> Any:
        """The drafter's row [vocabulary]."""
        return _tempered(self.rows(prefix)[1], temperature)

    @property
    def end(self) -> int:
        """The token that ends an answer."""
        return self.vocabulary - 1

    def is_free(self, place: int) -> bool:
        """Whether rows at this place of an answer are drawn."""
        return self.free is None or place in self.free

    def rows(self, prefix: Sequence[int]) -> tuple[Any, Any]:
        """Both rows after a prefix: p, q."""
        if not self.is_free(len(prefix)):
            row = np.eye(self.vocabulary)[len(prefix) % self.end]  # never the end
            return row, row
        p, q = _pair(self.vocabulary, self.seed, tuple(prefix), self.mixed)
        return (_tempered(p, 0.0) if self.greedy else p), q


@lru_cache(maxsize=65536)
def _pair(size: int, seed: int, prefix: tuple[int, ...], mixed: bool) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, len(prefix), *prefix])
    situation = _SITUATIONS[rng.integers(len(_SITUATIONS))] if mixed else "far"
    p, q = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
    if situation == "same":
        q = p
    elif situation == "holes":
        p, q = _with_holes(p, rng), _with_holes(q, rng)
    elif situation == "apart":
        p_support = rng.permutation(size) < max(1, size // 2)
        p, q = _normal(p * p_support), _normal(q * ~p_support)
    elif situation == "sure draft":
        q = np.eye(size)[rng.integers(size)]
    elif situation == "sure target":
        p = np.eye(size)[rng.integers(size)]
    p.setflags(write=False)
    q.setflags(write=False)
    return p, q


def _with_holes(row: Any, rng: np.random.Generator) -> Any:
    support = rng.random(len(row)) < 0.6
    support[rng.integers(len(row))] = True
    return _normal(row * support)


def _normal(row: Any) -> Any:
    return row / row.sum()


def _tempered(row: Any, temperature: float) -> Any:
    if temperature == 1:
        return row
    if temperature == 0:
        return np.eye(len(row))[row.argmax()]
    return _normal((row / row.max()) ** (1 / temperature))  # the largest is 1, so that not all vanish


@dataclass(eq=False)
class DraftFrom:
    """Drafts from a table: with `TargetFrom`, an exact pair of known distributions.

    Args:
        model: the table.
        temperature: applied to it.
        shape: "chain"; "alternatives", all after the context; or "tree", a binary one.
        law: "iid": every item is drawn from its row; "without_replacement": siblings are drawn with the earlier ones
            struck out; "given": the most likely items, siblings in order of likelihood.
        parents: how a whole block hangs together, in place of the shape's own way: the parent of each item.
        seconds: what a call says it cost; None leaves it to the driver's clock.
    """

    model: Table
    _: KW_ONLY
    temperature: float = 1.0
    shape: Shape = "chain"
    law: LawKind = "iid"
    parents: tuple[int, ...] | None = None
    seconds: float | None = None

    @property
    def traits(self) -> GeneratorTraits:
        """The shape and the one law that were chosen."""
        return GeneratorTraits(shape=self.shape, laws={self.law})

    def propose(self, context: Context, n: int) -> Proposal:
        """n items; fewer where siblings have run out."""
        items: list[int] = []
        parents: list[int] = []
        nodes = {-1: -1}  # of the layout, in the block
        paths = {-1: _prefix(context)}
        for node, layout_parent in enumerate(self._layout(n)):
            parent = nodes.get(layout_parent)
            if parent is None:
                continue
            elder = [item for item, item_parent in zip(items, parents, strict=True) if item_parent == parent]
            item = self.pick(paths[parent], elder, context.draws, len(items))
            if item is None:
                continue
            nodes[node] = len(items)
            paths[len(items)] = (*paths[parent], item)
            items.append(item)
            parents.append(parent)
        law = Law(self.law)
        if self.law != "given":
            above_items = [paths[parent] for parent in range(-1, max(parents, default=-1) + 1)]
            q, raw = (
                np.stack([self.model(path, t) for path in above_items]) for t in (self.temperature, 1.0)
            )
            law = Law(self.law, q, raw.max(axis=1))
        return Proposal(items=tuple(items), parents=tuple(parents), law=law, cost=cost_of(self.seconds))

    def pick(self, path: tuple[int, ...], elder: list[int], draws: Draws, place: int) -> int | None:
        """One more child after `path`, beside its `elder` siblings; None when there is no other.

        Args:
            path: of tokens, from the prompt on.
            elder: the siblings before it.
            draws: of the round.
            place: of the item in its block.
        """
        row = np.array(self.model(path, self.temperature))
        if self.law != "iid":
            row[elder] = 0.0
        if not row.sum() > 0:
            return None
        return int(
            row.argmax() if self.law == "given" else inverse_cdf(row, np.asarray(draws.uniform(place)))
        )

    def _layout(self, n: int) -> tuple[int, ...]:
        if self.parents is not None:
            return self.parents[:n]
        if self.shape == "alternatives":
            return (-1,) * n
        return tuple(at // 2 - 1 if self.shape == "tree" else at - 1 for at in range(n))


@dataclass(eq=False)
class TargetFrom:
    """Verifies with a table: gives the target's distributions and the raw maxima, no verdicts.

    Args:
        model: the table.
        temperature: applied to it.
        seconds: what a call says it cost; None leaves it to the driver's clock.
    """

    traits = VerifierTraits(provides={"target", "raw_maxima"})

    model: Table
    _: KW_ONLY
    temperature: float = 1.0
    seconds: float | None = None

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Target rows [n + 1, vocabulary] and raw maxima [n + 1]."""
        raw = target = rows_of(self.model, context, proposal)
        if self.temperature != 1:
            target = rows_of(lambda prefix: self.model(prefix, self.temperature), context, proposal)
        evidence = Evidence(target=target, raw_maxima=raw.max(axis=1))
        return Verification(evidence=evidence, cost=cost_of(self.seconds))


def rows_of(model: Callable[[tuple[Any, ...]], Any], context: Context, proposal: Proposal) -> Any:
    """The model's rows after the context and after each item: [n + 1, vocabulary]."""
    prefix = _prefix(context)
    paths = [tuple(proposal.items[i] for i in proposal.path(index)) for index in range(-1, len(proposal))]
    return np.stack([np.asarray(model(prefix + path)) for path in paths])


def cost_of(seconds: float | None) -> Cost | None:
    """The cost that a part reports which was given its seconds."""
    return None if seconds is None else Cost(seconds)


def _prefix(context: Context) -> tuple[Any, ...]:
    return (*context.task.input.get("prompt_ids", ()), *context.accepted)
