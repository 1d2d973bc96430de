"""Tiny targets and the drafters that are hardest on a rule, for every law and shape that a generator declares.

A table gives p and q after every prefix, drawn anew each time: far apart, equal, with holes in either, on disjoint
items, with all mass on one item. The last item of the vocabulary ends an answer. Drafters read the table and draw by
their law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

from draftverify.values import Context, Evidence, Law, LawKind, Proposal, Shape, Verification

__all__ = ["Manner", "Parents", "Table", "TableDraft", "TableTarget", "chain", "layouts"]

Parents: TypeAlias = "tuple[int, ...]"
Manner: TypeAlias = Literal["full", "stops", "likely", "unlikely", "twins", "unknown", "sorted"]
"""How a drafter behaves: "full" and "stops" (after the first item 0) draw by the law; the others are of law "given":
the likeliest siblings, items that the target may never emit, the same item for all siblings, draws from q that do
not say so, and draws without replacement that were put in order."""

SITUATIONS = ("far", "far", "same", "holes", "apart", "sure draft", "sure target")


class Table:
    """p and q over a few items, after every prefix.

    Args:
        vocabulary: how many items.
        seed: two seeds are two tables.
        greedy: every row of p has all its mass on one item, as at temperature 0.
        mixed: each prefix has a situation of its own: equal rows, holes, rows on disjoint items, rows of one item; else
            every row has mass on every item, in which most mistakes show.
        free: the places in an answer where rows are drawn; both have all mass on one item elsewhere. None: everywhere.
    """

    def __init__(
        self,
        vocabulary: int,
        seed: int,
        *,
        mixed: bool = False,
        greedy: bool = False,
        free: frozenset[int] | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.seed = seed
        self.mixed = mixed
        self.greedy = greedy
        self.free = free
        self.rows: Callable[[tuple[int, ...]], tuple[Any, Any]] = lru_cache(None)(self._rows)

    @property
    def end(self) -> int:
        """The item that ends an answer."""
        return self.vocabulary - 1

    def is_free(self, place: int) -> bool:
        """Whether rows at this place of an answer are drawn."""
        return self.free is None or place in self.free

    def smaller(self) -> Table:
        """The like over one item less."""
        return Table(self.vocabulary - 1, self.seed, mixed=self.mixed, greedy=self.greedy, free=self.free)

    def p(self, prefix: tuple[int, ...]) -> Any:
        """The target's row [vocabulary]."""
        return self.rows(prefix)[0]

    def q(self, prefix: tuple[int, ...]) -> Any:
        """The drafter's row [vocabulary]."""
        return self.rows(prefix)[1]

    def _rows(self, prefix: tuple[int, ...]) -> tuple[Any, Any]:
        size = self.vocabulary
        if not self.is_free(len(prefix)):
            row = np.eye(size)[len(prefix) % (size - 1)]  # never the end
            return row, row
        rng = np.random.default_rng([self.seed, len(prefix), *prefix])
        situation = SITUATIONS[rng.integers(len(SITUATIONS))] if self.mixed else "far"
        p, q = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
        if situation == "same":
            q = p
        elif situation == "holes":
            p, q = _with_holes(p, rng), _with_holes(q, rng)
        elif situation == "apart":
            mine = rng.permutation(size) < max(1, size // 2)
            p, q = _normal(p * mine), _normal(q * ~mine)
        elif situation == "sure draft":
            q = np.eye(size)[rng.integers(size)]
        elif situation == "sure target":
            p = np.eye(size)[rng.integers(size)]
        if self.greedy:
            p = np.eye(size)[p.argmax()]
        return p, q


def _normal(row: Any) -> Any:
    return row / row.sum()


def _with_holes(row: Any, rng: np.random.Generator) -> Any:
    kept = rng.random(len(row)) < 0.6
    kept[rng.integers(len(row))] = True
    return _normal(row * kept)


class TableTarget:
    """Verifies with a table: the target's rows and their maxima, for a block of any shape."""

    provides = frozenset({"target", "raw_maxima"})

    def __init__(self, table: Table) -> None:
        self.table = table

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """Rows [n + 1, vocabulary]."""
        before, items = tuple(context.accepted), proposal.items
        paths = [(*before, *(items[i] for i in proposal.path(at))) for at in range(-1, len(proposal))]
        target = np.stack([self.table.p(path) for path in paths])
        return Verification(evidence=Evidence(target=target, raw_maxima=target.max(axis=1)))


class TableDraft:
    """Drafts from a table by a law.

    Args:
        table: p and q.
        law: what the proposals declare.
        shape: "chain", "alternatives" or "tree".
        parents: the parent of each item of a whole block, as many as are asked for at most.
        manner: how the items are found.
    """

    def __init__(
        self, table: Table, law: LawKind, shape: Shape, parents: Parents, manner: Manner = "full"
    ) -> None:
        self.table = table
        self.laws = frozenset({law})
        self.law = law
        self.shape = shape
        self.parents = parents
        self.manner = manner

    def propose(self, context: Context, n: int) -> Proposal:
        """The first n items of the layout, less where siblings run out."""
        before = tuple(context.accepted)
        items: list[int] = []
        parents: list[int] = []
        places = {-1: -1}  # of the layout's nodes in the block
        paths = {-1: before}
        for node, above in enumerate(self.parents[:n]):
            if above not in places:
                continue
            parent = places[above]
            elder = [item for item, other in zip(items, parents, strict=True) if other == parent]
            item = self._item(paths[parent], elder, context.draws.uniform(len(items)))
            if item is None:
                continue
            places[node] = len(items)
            paths[len(items)] = (*paths[parent], item)
            items.append(item)
            parents.append(parent)
            if self.manner == "stops" and item == 0:
                break
        if self.manner == "sorted":
            items = _sorted_siblings(items, parents)
        return Proposal(items=tuple(items), parents=tuple(parents), law=self._law(parents, paths))

    def _item(self, path: tuple[int, ...], elder: Sequence[int], u: Any) -> int | None:
        """One more child after `path`, or None when there is no other."""
        p, q = self.table.rows(path)
        if self.manner == "twins":
            return int((p + q).argmax())
        if self.manner in ("likely", "unlikely"):
            order = np.argsort(-q if self.manner == "likely" else p, kind="stable")
            return int(order[len(elder)]) if len(elder) < len(order) else None
        if self.law == "without_replacement" or self.manner == "sorted":
            q = np.array(q)
            q[list(elder)] = 0
        return choose(q, u) if q.sum() > 0 else None

    def _law(self, parents: Sequence[int], paths: dict[int, tuple[int, ...]]) -> Law:
        if self.law == "given":
            return Law("given")
        q = np.stack([self.table.q(paths[node]) for node in range(-1, max(parents, default=-1) + 1)])
        return Law(self.law, q, q.max(axis=1))


def choose(weights: Any, u: Any) -> int:
    """The first index at which the running sum passes u times the whole; never one of weight zero."""
    level, total = u * float(weights.sum()), 0.0
    possible = [int(index) for index in np.flatnonzero(weights)]
    for index in possible[:-1]:
        total += float(weights[index])
        if level < total:
            return index
    return possible[-1]


def _sorted_siblings(items: list[int], parents: list[int]) -> list[int]:
    """Siblings in the order of their values. For leaves alone: what is drafted below an item must stay below it."""
    found = list(items)
    for parent in set(parents):
        places = [at for at, above in enumerate(parents) if above == parent]
        for at, item in zip(places, sorted(items[at] for at in places), strict=True):
            found[at] = item
    return found


def chain(n: int) -> Parents:
    """The parents of a chain."""
    return tuple(range(-1, n - 1))


def layouts(shape: Shape, n: int) -> list[Parents]:
    """How n items of a shape may hang together: a chain, alternatives, or a full and a lopsided tree."""
    if shape == "chain" or n < 2:
        return [chain(n)]
    if shape == "alternatives":
        return [(-1,) * n]
    full = tuple(at // 2 - 1 for at in range(n))
    lopsided = (-1, *((-1,) if n > 2 else ()), *(at - 1 for at in range(2 if n > 2 else 1, n)))
    return list(dict.fromkeys([(-1,) * n, full, lopsided]))
