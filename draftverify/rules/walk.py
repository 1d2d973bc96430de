"""The walk down the trees of a batch: at each node the children are tried in the order in which they stand; the first
accepted one is descended to, and where none is, the residual gives the splice. A leaf that was reached gets a bonus
sample of its row. A chain is a tree of one child at each node, and alternatives are one node's children.

Trees are walked together, level by level. On a device every tree is carried along until the deepest has ended, and only
the end of the walk comes to the host; on the host a tree that has ended costs nothing more, and a single one is walked
by itself. Random numbers: child i is
judged with draw 0 at position i; the splice has draw 1 at position 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import device

from draftverify.arrays import all_to, host_to, on_host
from draftverify.randomness import Draws, array_namespace
from draftverify.rules.batch import (
    BatchRule,
    blamed,
    checked_ids,
    drafted_from,
    no_distribution,
    numbers,
    sample,
    target_rows,
)
from draftverify.traits import RuleTraits
from draftverify.values import Array, Decision, LawKind, Proposal, Refusal, Verification

Siblings: TypeAlias = Callable[[Array, Array, Array, Array, Array], "tuple[Array, Array, Array]"]
"""`siblings(p, q, x, tried, u)` judges the children of m nodes, k of each at most.

Args:
    p, q: [m, V], the nodes' rows; q may be anything where the items were given.
    x: [m, k], the children's items.
    tried: [m, k], False where a node has no such child.
    u: [m, k], uniforms.

Returns:
    Which child is accepted, [m], k where none is; the places [r] among the m nodes of those without one (on a device
    of all nodes); and their residuals [r, V].
"""


ON_TREES = RuleTraits(shapes={"alternatives", "chain", "tree"}, needs={"target"})
"""What a rule on trees is, unless it says more."""


class TreeRule(BatchRule):
    """A rule on trees."""

    at_once = 1 << 16

    @property
    def traits(self) -> RuleTraits:
        """That the rule takes blocks of any shape."""
        return ON_TREES


def walk(
    proposals: Sequence[Proposal],
    verifications: Sequence[Verification],
    rngs: Sequence[Draws],
    laws: Set[LawKind] | None,
    siblings: Siblings,
) -> list[Decision]:
    """Walk down all trees of a batch, whose siblings were drawn by one law."""
    p = q = target_rows(verifications)
    xp, on, host, size = array_namespace(p), device(p), on_host(p), len(proposals)
    ids = checked_ids(proposals, p, laws)
    drawn = any(proposal.law.q is not None and len(proposal.items) for proposal in proposals)
    if drawn:
        q = drafted_from(proposals, lambda b: p[b, ...], p)  # a block without items may have none
    if host and size == 1:
        return [_alone(proposals[0], p[0, ...], q[0, ...], drawn, host_to(p, ids)[0, :], rngs[0], siblings)]
    host_table, depth = _children([proposal.parents for proposal in proposals])
    items, table, u, v = all_to(p, ids, host_table, *numbers(rngs, ids.shape[1]))
    trees = xp.arange(size, device=on)
    path = xp.full((size, depth), -1, dtype=xp.int64, device=on)
    end = xp.zeros(size, dtype=xp.int64, device=on)  # the row that each tree has come to
    judged = xp.zeros_like(end)  # the row of the children that were judged last
    # Nothing where a leaf was reached, so that its own row of p is drawn from.
    residuals = xp.zeros((size, p.shape[-1]), dtype=p.dtype, device=on)
    live = table[:, 0, 0] >= 0
    at = xp.nonzero(live)[0] if host else trees
    node, live = end[at], live[at]  # as `end`, of the trees that go on; on a device of all
    for level in range(depth):
        if not at.shape[0]:
            break
        judged[at] = xp.where(live, node, judged[at])
        children = table[at, node]
        if host:
            children = children[:, xp.any(children >= 0, axis=0)]
        # What is not there is stood in for by the first child, so that it does no harm where it is looked up.
        child = xp.where(children >= 0, children, children[:, :1])
        tried = (children >= 0) & live[:, None]
        drafted = at[:, None], child
        accepted, unaccepted, residual = siblings(p[at, node], q[at, node], items[drafted], tried, u[drafted])
        took = accepted < children.shape[1]
        step = child[trees[: at.shape[0]], xp.where(took, accepted, 0)]
        path[at, level] = xp.where(took, step, -1)
        end[at] = xp.where(took, step + 1, end[at])
        if host:
            residuals[at[unaccepted], :] = residual
        else:
            residuals = xp.where((live & ~took)[:, None], residual, residuals)
        node = xp.where(took, step + 1, 0)
        live = took & (table[at, node, 0] >= 0)
        if host:
            at, node, live = at[live], node[live], live[live]
        else:
            node = xp.where(live, node, 0)  # where q may have no row
    item = sample(residuals, p[trees, end], v)
    if drawn:
        item = blamed(item, q[trees, judged], table[:, 0, 0] >= 0)
    decisions = []
    for proposal, (value, *steps) in zip(
        proposals, xp.concat([item[:, None], path], axis=1).tolist(), strict=True
    ):
        decisions.append(_decision(proposal, tuple(step for step in steps if step >= 0), value))
    return decisions


def _alone(
    proposal: Proposal, p: Array, q: Array, drawn: bool, items: Array, rng: Draws, siblings: Siblings
) -> Decision:
    """Walk down a single tree on the host, whose few draws are made when they are needed; p and q are [rows, V].

    It takes half to two thirds of the time of a batch of one.
    """
    children_at, path, end, judged, residual = _children_of(proposal.parents)[2], [], 0, 0, None
    while residual is None and (children := children_at[end]):
        judged, row = end, slice(end, end + 1)
        u, tried = np.asarray([rng.uniforms(children)]), np.ones((1, len(children)), dtype=bool)
        accepted, _, leftover = siblings(p[row], q[row], items[None, children], tried, u)
        took = int(accepted[0])
        if took < len(children):
            path.append(children[took])
            end = children[took] + 1
        else:
            residual = leftover
    of_p = p[end : end + 1]
    item = sample(of_p if residual is None else residual, of_p, np.asarray([rng.uniform(0, 1)]))
    if drawn:
        item = blamed(item, q[judged : judged + 1], np.asarray([True]))
    return _decision(proposal, tuple(path), int(item[0]))


def _decision(proposal: Proposal, path: tuple[int, ...], item: int) -> Decision:
    if item < 0:
        leaf = path[-1] if path else -1
        # Whose children were judged last.
        judged = leaf if leaf < 0 or leaf in proposal.parents else proposal.parents[leaf]
        raise no_distribution(item, leaf + 1, judged + 1)
    return Decision(kept=path, spliced=(item,), refused=_refused(proposal.parents, path))


def _refused(parents: tuple[int, ...], path: tuple[int, ...]) -> tuple[Refusal, ...]:
    """The siblings before each kept item, and the children of the last one."""
    steps = dict(zip((-1, *path), (*path, len(parents)), strict=True))
    return tuple([Refusal(i, "improbable") for i, parent in enumerate(parents) if i < steps.get(parent, -1)])


def _children(trees: Sequence[tuple[int, ...]]) -> tuple[Any, int]:
    """[batch, nodes, k], of each tree and node the children, the context's first, −1 where there are less; and how
    deep the deepest tree is."""
    trees_read = [_children_of(parents)[:2] for parents in trees]
    rows, k = (max(table.shape[axis] for table, _ in trees_read) for axis in (0, 1))
    tables = np.full((len(trees), rows, k), -1, dtype=np.int64)
    for b, (table, _) in enumerate(trees_read):
        tables[b, : table.shape[0], : table.shape[1]] = table
    return tables, max(depth for _, depth in trees_read)


@lru_cache(1024)
def _children_of(parents: tuple[int, ...]) -> tuple[Any, int, list[list[int]]]:
    children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    depths = [0]
    for index, parent in enumerate(parents):
        children[parent + 1].append(index)
        depths.append(depths[parent + 1] + 1)
    k = max(1, *map(len, children))
    table = np.asarray([some + [-1] * (k - len(some)) for some in children], dtype=np.int64)
    return table, max(depths), children
