"""The drafters that are hardest on a rule, over tiny tables: for every law and shape that a generator declares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

import msgspec

from draftverify.kit.tables import DraftFrom, TablePair
from draftverify.randomness import Draws
from draftverify.traits import GeneratorTraits
from draftverify.values import GIVEN, Context, LawKind, Proposal, Shape, chain_parents

Parents: TypeAlias = "tuple[int, ...]"
Manner: TypeAlias = Literal["full", "stops", "likely", "unlikely", "twins", "unknown", "sorted"]
"""How a drafter behaves: "full" and "stops" (after the first item 0) draw by the law; the others are of law "given":
the likeliest siblings, items that the target may never emit, the same item for all siblings, draws from q that do
not say so, and draws without replacement that were put in order."""

_DRAWN: dict[Manner, LawKind] = {"unknown": "iid", "sorted": "without_replacement"}


class HardDraft(DraftFrom):
    """Drafts from a pair's q in a certain manner.

    Args:
        tables: p and q.
        law: what the proposals declare.
        shape: "chain", "alternatives" or "tree".
        parents: the parent of each item of a whole block, as many as are asked for at most.
        manner: how the items are found.
        reads: the settings of the pipeline that is audited, of which its own drafter may read any.
    """

    def __init__(
        self,
        tables: TablePair,
        law: LawKind,
        shape: Shape,
        parents: Parents,
        manner: Manner = "full",
        reads: Collection[str] = (),
    ) -> None:
        super().__init__(tables.q, shape=shape, law=_DRAWN.get(manner, law), parents=parents)
        self.tables = tables
        self.manner = manner
        self.declared = law
        self.reads = reads

    @property
    def traits(self) -> GeneratorTraits:
        """The shape, the law that the proposals declare, and the settings of the pipeline."""
        return GeneratorTraits(shape=self.shape, laws={self.declared}, reads=frozenset(self.reads))

    def propose(self, context: Context, n: int) -> Proposal:
        """The first n items of the layout, less where siblings run out."""
        proposal = super().propose(context, n)
        if self.manner == "sorted":
            proposal = msgspec.structs.replace(
                proposal, items=_sorted_siblings(proposal.items, proposal.parents)
            )
        return msgspec.structs.replace(proposal, law=GIVEN) if self.manner in _DRAWN else proposal

    def pick(self, path: tuple[int, ...], elder: list[int], draws: Draws, place: int) -> int | None:
        """One more child after `path`, or None when there is no other."""
        p, q = self.tables.rows(path)
        if self.manner == "twins":
            return int((p + q).argmax())
        if self.manner in ("likely", "unlikely"):
            order = (-q if self.manner == "likely" else p).argsort(kind="stable")
            return int(order[len(elder)]) if len(elder) < len(order) else None
        if self.manner == "stops" and place and path[-1] == 0:
            return None
        return super().pick(path, elder, draws, place)


def _sorted_siblings(items: Sequence[int], parents: Parents) -> tuple[int, ...]:
    """Siblings in the order of their values. For leaves alone: what is drafted below an item must stay below it."""
    ordered = list(items)
    for parent in set(parents):
        places = [at for at, item_parent in enumerate(parents) if item_parent == parent]
        for at, item in zip(places, sorted(items[at] for at in places), strict=True):
            ordered[at] = item
    return tuple(ordered)


def layouts(shape: Shape, n: int) -> list[Parents]:
    """How n items of a shape may hang together: a chain, alternatives, or a full and a lopsided tree."""
    if shape == "chain" or n < 2:
        return [chain_parents(n)]
    if shape == "alternatives":
        return [(-1,) * n]
    full = tuple(at // 2 - 1 for at in range(n))
    lopsided = (-1, *((-1,) if n > 2 else ()), *(at - 1 for at in range(2 if n > 2 else 1, n)))
    return list(dict.fromkeys([(-1,) * n, full, lopsided]))
