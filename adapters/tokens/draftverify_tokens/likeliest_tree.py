"""The tree of the n likeliest paths, best first, where what may come next is known without a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import TypeVar

from draftverify import Proposal

S = TypeVar("S")


def likeliest_tree(
    start: S,
    continuations: Callable[[S], Iterable[tuple[int, float]]],
    step: Callable[[S, int], S],
    n: int,
    threshold: float = 0.0,
) -> Proposal:
    """The n nodes of the highest path probability, parents before their children.

    Args:
        start: the place where the answer ends.
        continuations: the tokens that may follow at a place, with their probabilities.
        step: from a place to that behind one of its tokens.
        n: how many nodes at most.
        threshold: the least path probability.
    """
    items: list[int] = []
    parents: list[int] = []
    # Nodes that could come next: by path probability, and of equals the one met first.
    heap: list[tuple[float, int, int, int, S]] = []
    count = 0
    place, parent, probability = start, -1, 1.0
    while len(items) < n:
        for token, share in continuations(place):
            if probability * share >= threshold:
                heappush(heap, (-probability * share, count, token, parent, place))
                count += 1
        if not heap:
            break
        less, _, token, parent, place = heappop(heap)
        items.append(token)
        parents.append(parent)
        place, parent, probability = step(place, token), len(items) - 1, -less
    return Proposal.tree(tuple(items), parents)
