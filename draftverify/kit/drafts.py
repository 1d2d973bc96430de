"""Drafts with fresh draws, held against the law that they declare: for a part's author, and at rounds of real tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import msgspec
import numpy as np

from draftverify.kit.contexts import as_numpy
from draftverify.kit.counts import BINS, DEPTHS, THIRDS, CellCounts, count, even, pooled, strays, verdicts
from draftverify.randomness import Draws, stream_key
from draftverify.values import Law, Proposal

RAREST = 1e-4


class Redraft(msgspec.Struct, frozen=True, eq=False):
    """A proposal that the generator made with other draws, without its q, of which hundreds would not fit into memory.

    Args:
        number: which it is: of an even number and the next one the draws are those of two rounds under one key.
        items, parents, kind: of the proposal and its law.
        ranks: for each item its rank in the row that the law says it was drawn from, spread over its probability:
            uniform on [0, 1) when it was drawn from that row.
        quantiles: the same with the row in the order of the vocabulary, in which most generators draw: there a number
            that was used for two items shows.
        impossible: an item to which that row gives nothing, or None.
        surprise: Σ f(item) − E f over the items, f being the logarithm of the row's probability, cut off and scaled to
            [-1, 0]; what is drawn at another temperature is more or less likely than its row expects.
        variance: Σ of the terms' variances under their rows.
        first_row: [V], q's first row; the same array in all redrafts of a round whose rows are equal.
    """

    number: int
    items: tuple[int, ...]
    parents: tuple[int, ...]
    kind: str
    ranks: tuple[float, ...]
    quantiles: tuple[float, ...]
    impossible: int | None
    surprise: float
    variance: float
    first_row: Any


def redrafts_of(proposals: Iterable[Proposal], name: str) -> Iterator[Redraft]:
    """What is kept of proposals of one call with fresh draws.

    Args:
        proposals: in turn those of two rounds under one key; empty ones, and those of law "given", show nothing.
        name: of the call; two calls have other numbers by which ranks are spread.
    """
    first_row: Any = None
    for number, proposal in enumerate(proposals):
        if len(proposal) and proposal.law.q is not None:
            on_hand = on_host(proposal)
            row = np.asarray(on_hand.law.q[0], dtype=np.float64)  # type: ignore[index]
            first_row = row if first_row is None or not np.array_equal(row, first_row) else first_row
            # Numbers of its own for each call: an item that could only be one has no others.
            yield _redraft(
                number, on_hand, first_row, Draws(stream_key(number, f"ranks of {name}", 0, "audit"), 0)
            )


def _redraft(number: int, proposal: Proposal, first_row: Any, spread: Draws) -> Redraft:
    ranks: list[float] = []
    quantiles: list[float] = []
    impossible = None
    surprise = variance = 0.0
    for node, item in enumerate(proposal.items):
        row = _declared(proposal, node)
        if not row[item] > 0:
            impossible = item
            break
        row /= row.sum()
        mass_before = float(row[row > row[item]].sum() + row[:item][row[:item] == row[item]].sum())
        share = spread.uniform(node) * float(row[item])
        ranks.append(mass_before + share)
        quantiles.append(float(row[:item].sum()) + share)
        f = np.log(np.maximum(row, RAREST)) / -np.log(RAREST)
        mean = float(row @ f)
        surprise += float(f[item]) - mean
        variance += max(float(row @ np.square(f)) - mean**2, 0.0)
    return Redraft(
        number=number,
        items=tuple(proposal.items),
        parents=proposal.parents,
        kind=proposal.law.kind,
        ranks=tuple(ranks),
        quantiles=tuple(quantiles),
        impossible=impossible,
        surprise=surprise,
        variance=variance,
        first_row=first_row,
    )


def _declared(proposal: Proposal, node: int) -> Any:
    """The row [V] that the law says the item was drawn from."""
    q: Any = proposal.law.q
    parent = proposal.parents[node]
    row = np.array(q[parent + 1], dtype=np.float64)
    if proposal.law.kind == "without_replacement":
        row[[proposal.items[i] for i in range(node) if proposal.parents[i] == parent]] = 0.0
    return row


def on_host(proposal: Proposal) -> Proposal:
    """The proposal with plain items and NumPy rows, one row per parent and no more."""
    law, used = proposal.law, max(proposal.parents, default=-2) + 2
    items = tuple(int(item) for item in as_numpy(proposal.items))
    if law.q is not None:
        maxima = None if law.raw_maxima is None else as_numpy(law.raw_maxima)[:used]
        law = Law(law.kind, as_numpy(law.q)[:used], maxima)
    return Proposal(items=items, parents=proposal.parents, law=law)


def law_problems(drafted: Sequence[tuple[str, Sequence[Redraft]]], error: float) -> tuple[list[str], int]:
    """What speaks against the generator's law, and how many tests were made.

    An item's rank in its q, spread evenly over the item's probability, is uniform on [0, 1) when it was drawn from q
    (the probability integral transform), so draws at all prefixes and places can be counted together.

    Args:
        drafted: the redrafts of each call, and its name for messages.
        error: the probability that a sound generator has a problem, at most.
    """
    problems: list[str] = []
    counts: list[CellCounts] = []
    sound: list[Redraft] = []
    rounds: dict[int, list[tuple[float, float]]] = {}
    for where, redrafts in drafted:
        impossible = [redraft.impossible for redraft in redrafts if redraft.impossible is not None]
        if impossible:
            problems.append(
                f"{where}: the generator drew item {impossible[0]}, to which the q that it declares gives nothing"
            )
        elif redrafts:
            sound += redrafts
            for earlier, following in pairwise(redrafts):
                if following.number == earlier.number + 1 and following.number % 2:
                    _pair_rounds(earlier.quantiles[:DEPTHS], following.quantiles[:DEPTHS], rounds)
            row = redrafts[0].first_row
            first_items = [redraft.items[0] for redraft in redrafts if redraft.first_row is row]
            name = f"{where}: the generator's first item against its q"
            counts.append(count(name, first_items, row, pooled(row, len(first_items))))
            counts += _twins(where, redrafts, row)
    counts += _item_counts(sound, rounds)
    share = error / (len(counts) + 1)
    problems += verdicts(counts, share * len(counts))
    if strays(sum(redraft.surprise for redraft in sound), sum(redraft.variance for redraft in sound), share):
        problems.append(
            f"the generator's items, in {len(sound)} proposals, are more, or less, likely under its q than q expects: "
            "they are drawn at another temperature than is declared, or after a cut that is not"
        )
    return problems, len(counts) + 1


def _item_counts(
    redrafts: Sequence[Redraft], rounds: Mapping[int, list[tuple[float, float]]]
) -> list[CellCounts]:
    """All items by their places, with those before them, and with those of the next round."""
    ranks: dict[int, list[float]] = {}
    neighbours: dict[str, list[tuple[float, float]]] = {"2nd, 4th, …": [], "3rd, 5th, …": []}
    for redraft in redrafts:
        for place, rank in enumerate(redraft.ranks):
            ranks.setdefault(min(place, DEPTHS - 1), []).append(rank)
        # Pairs that share no item, since each test's counts must be independent.
        for place, pair in enumerate(pairwise(redraft.quantiles)):
            neighbours[list(neighbours)[place % 2]].append(pair)
    tests: list[tuple[str, Any, int]] = [
        (f"the generator's items number {place}, by their rank in q", place_ranks, BINS)
        for place, place_ranks in ranks.items()
        if place
    ]
    everything = list(chain(*ranks.values()))
    tests.append(("all the generator's items, by their rank in q", everything, BINS))
    for which, pairs in neighbours.items():
        name = f"the generator's {which} items and those before them together, by their quantiles in q"
        tests.append((name, pairs, THIRDS))
    for offset, pairs in sorted(rounds.items()):
        where = f"{abs(offset)} further {'on' if offset > 0 else 'back'}" if offset else "at the same place"
        name = f"the generator's items and those {where} in the next round together, by their quantiles in q"
        tests.append((name, pairs, THIRDS))
    return [even(*test) for test in tests if test[1]]


def _pair_rounds(
    earlier: Sequence[float], following: Sequence[float], rounds: dict[int, list[tuple[float, float]]]
) -> None:
    """Add the pairs of quantiles of two rounds, by how many places later the second one stands."""
    for i, quantile in enumerate(earlier):
        for j, next_quantile in enumerate(following):
            rounds.setdefault(j - i, []).append((quantile, next_quantile))


def _twins(where: str, redrafts: Sequence[Redraft], row: Any) -> list[CellCounts]:
    """How often the first two siblings are equal, against Σ q², as often as independent ones are."""
    pairs = []
    for redraft in redrafts:
        roots = [item for item, parent in zip(redraft.items, redraft.parents, strict=True) if parent == -1]
        if redraft.kind == "iid" and len(roots) > 1 and redraft.first_row is row:
            pairs.append(int(roots[0] == roots[1]))
    if not pairs:
        return []
    match_chance = float(np.sum((row / row.sum()) ** 2))
    name = f"{where}: how often the generator's first two siblings are equal"
    return [count(name, pairs, np.asarray([1.0 - match_chance, match_chance]), np.arange(2))]
