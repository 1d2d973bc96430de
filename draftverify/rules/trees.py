"""Rules on trees: at each node the children are tried in the order in which they stand; the first accepted one is
descended to, and where none is, the residual gives the splice. A leaf that was reached gets a bonus sample of its
row. A chain is a tree of one child at each node, and alternatives are one node's children.

Which test is right depends on how the siblings were drawn, so each rule takes the laws it is exact for and no other.
Random numbers: child i is judged with draw 0 at position i; the splice has draw 1 at position 0.

A batch is walked together, level by level, and a single session is a batch of one. On a device every tree is carried
along until the deepest has ended, and only the end of the walk comes to the host, in one transfer. On the host a tree
that has ended costs nothing more, and no more trees are walked together than the processor's cache has room for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, device

from draftverify.engine.randomness import Draws, inverse_cdf
from draftverify.rules.laws import positive
from draftverify.rules.sampling import (
    TARGET,
    BatchRule,
    at_hand,
    checked_ids,
    host_to,
    no_distribution,
    numbers,
    on_host,
    place_of,
    sample,
    target_of,
    together,
)
from draftverify.values import (
    Array,
    Context,
    Decision,
    LawKind,
    Place,
    Proposal,
    Refusal,
    Shape,
    Verification,
)

__all__ = ["KSeq", "Tree"]

TREES: frozenset[Shape] = frozenset({"alternatives", "chain", "tree"})

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


class Tree(BatchRule):
    """Sampling from a tree whose siblings were drawn without replacement, or were given.

    Without replacement (Sequoia, SpecInfer): a sibling x is accepted with probability p(x)/q(x); else
    p ← norm((p − q)₊), x is struck from q, and the next is tried. Given (top-k trees, EAGLE-2): accepted with
    probability p(x) among what is left of p; else x is struck from p. Exact: emits the target's distribution.

    References:
        Chen et al., "Sequoia", arXiv:2402.12374; Miao et al., "SpecInfer", arXiv:2305.09781; EAGLE-2's code.
    """

    needs = TARGET
    shapes = TREES
    laws: frozenset[LawKind] = frozenset({"given", "without_replacement"})
    exact = True

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        """Walk down from the contexts; blocks of the two laws, which seldom meet in a batch, apart."""
        made: list[Decision | None] = [None] * len(proposals)
        for siblings in (_given, _without_replacement):
            at = [b for b, o in enumerate(proposals) if (o.law.q is None) == (siblings is _given)]
            if not at:
                continue
            blocks, verified, draws = (
                [proposals[b] for b in at],
                [verifications[b] for b in at],
                [rngs[b] for b in at],
            )
            for b, decision in zip(at, _walk(blocks, verified, draws, self.laws, siblings), strict=True):
                made[b] = decision
        return [decision for decision in made if decision is not None]


class KSeq(BatchRule):
    """Sampling from a tree whose siblings were drawn independently (k-SEQ of SpecTr).

    With k siblings and β(ρ) = Σ min(p/ρ, q), each is accepted with probability min(1, p(x)/(ρ·q(x))), where ρ solves
    1 − (1 − β)^k = ρβ; the residual is p − min(q, p/ρ)·(1 − (1 − β)^k)/β. Exact: emits the target's distribution.
    Siblings that happen to be equal are siblings all the same: each is tried, and has children of its own.

    References:
        Sun et al., "SpecTr", arXiv:2310.15141.
    """

    needs = TARGET
    shapes = TREES
    laws: frozenset[LawKind] = frozenset({"iid"})
    exact = True

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        """Walk down from the contexts."""
        return _walk(proposals, verifications, rngs, self.laws, _independent)


class Rows:
    """The rows of each block of a batch: on the host fetched as they are needed, on a device from one array.

    Args:
        rows: one array [rows, V] per block.
        places: where each of them stands in the pass's array, where that is known.
        like: on whose device; that of the rows when None.
    """

    def __init__(self, rows: Sequence[Array], places: Sequence[Place | None], like: Array = None) -> None:
        self.each = [at_hand(row, like) for row in rows]
        self.first = self.each[0]
        self.all: Array = None if on_host(self.first) else together(rows, places, like=like)
        """[batch, rows, V] on a device; None on the host."""

    def pick(self, blocks: Sequence[int], rows: Sequence[int]) -> Array:
        """[m, V], known on the host: of the m blocks a row each."""
        if self.all is not None:
            xp = array_namespace(self.all)
            return self.all[host_to(xp, self.all, blocks), host_to(xp, self.all, rows)]
        return stacked([self.each[b][row] for b, row in zip(blocks, rows, strict=True)])


def stacked(rows: Sequence[Array]) -> Array:
    """[m, V]; a view where m = 1."""
    return rows[0][None, :] if len(rows) == 1 else array_namespace(rows[0]).stack(list(rows))


Below: TypeAlias = "tuple[tuple[int, ...], ...]"
"""Each node's children, the context's first."""


@lru_cache(1024)
def children_of(parents: tuple[int, ...]) -> tuple[Below, int]:
    """Each node's children, and how deep the tree is."""
    found: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    depths = [0]
    for index, parent in enumerate(parents):
        found[parent + 1].append(index)
        depths.append(depths[parent + 1] + 1)
    return tuple(map(tuple, found)), max(depths)


TOGETHER = 1 << 16
"""How many numbers the rows of trees that are walked together on the host may have: so many stay in a core's cache."""


def _walk(
    proposals: Sequence[Proposal],
    verifications: Sequence[Verification],
    rngs: Sequence[Draws],
    laws: frozenset[LawKind],
    siblings: Siblings,
) -> list[Decision]:
    """Walk down all trees of a batch."""
    targets = [target_of(verification) for verification in verifications]
    of_p = Rows(targets, [place_of(verification.evidence) for verification in verifications])
    like, sources = of_p.first, [proposal.law for proposal in proposals]
    xp, lengths = array_namespace(like), [len(proposal.items) for proposal in proposals]
    items = checked_ids(xp, proposals, lengths, max(lengths), like, laws)
    of_q = of_p
    if any(law.q is not None for law in sources):  # a block without items may have none, nor is it looked at
        rows = [t if law.q is None else law.q for t, law in zip(targets, sources, strict=True)]
        of_q = Rows(rows, [law.place for law in sources], like)
    trees = [children_of(proposal.parents) for proposal in proposals]
    if on_host(like):
        most = max(1, TOGETHER // like.shape[-1])
        ends = [
            end
            for first in range(0, len(trees), most)
            for end in _walk_on_host(
                trees, items, of_p, of_q, rngs, siblings, range(first, min(first + most, len(trees)))
            )
        ]
    else:
        ends = _walk_on_device(trees, items, of_p, of_q, rngs, siblings)
    made = []
    for (below, _), (kept, value, mass) in zip(trees, ends, strict=True):
        if not 0 < mass < float("inf"):
            raise no_distribution(kept[-1] + 1 if kept else 0)
        made.append(Decision(kept=kept, spliced=(value,), refused=_refused(below, kept)))
    return made


End: TypeAlias = "tuple[tuple[int, ...], int, float]"
"""How a walk ended: the items that were kept, the splice, and the mass that it was drawn from."""


def _walk_on_host(
    trees: Sequence[tuple[Below, int]],
    items: Array,
    of_p: Rows,
    of_q: Rows,
    rngs: Sequence[Draws],
    siblings: Siblings,
    blocks: Sequence[int],
) -> list[End]:
    """Walk down some of the trees."""
    xp = array_namespace(of_p.first)
    kept: dict[int, list[int]] = {b: [] for b in blocks}
    node = dict.fromkeys(blocks, 0)  # the row that each tree has come to
    residuals: dict[int, Array] = {}
    going = [b for b in blocks if trees[b][0][0]]
    # One tree's draws are made as it needs them, which a batch's are not worth.
    u, v = numbers([rngs[b] for b in blocks], items.shape[1] if len(blocks) > 1 else 0)
    while going:
        now = [node[b] for b in going]
        below = [trees[b][0][row] for b, row in zip(going, now, strict=True)]
        k = max(map(len, below))
        # What is not there is stood in for by the first child, so that it does no harm where it is looked up.
        child = np.asarray([(*some, *some[:1] * (k - len(some))) for some in below])
        tried = np.asarray([len(some) for some in below])[:, None] > np.arange(k)
        at = np.asarray(going)[:, None]
        if len(blocks) == 1:
            uniforms = np.asarray([[rngs[blocks[0]].uniform(index) for index in below[0]]])
        else:
            uniforms = u[at - blocks[0], child]
        accepted, rest, residual = siblings(
            of_p.pick(going, now), of_q.pick(going, now), items[at, child], tried, uniforms
        )
        for i, row in zip(rest.tolist(), residual, strict=True):
            residuals[going[i]] = row
        chosen = zip(going, accepted.tolist(), below, strict=True)
        going = []
        for b, place, some in chosen:
            if place < k:
                kept[b].append(some[place])
                node[b] = some[place] + 1
                if trees[b][0][node[b]]:
                    going.append(b)
    weights = stacked([residuals[b] if b in residuals else of_p.each[b][node[b]] for b in blocks])
    mass = xp.sum(weights, axis=-1)
    if not xp.all(mass != 0):  # p = q but for rounding leaves nothing to draw from; p itself is right there
        last = of_p.pick(blocks, [node[b] for b in blocks])
        weights = xp.where((mass == 0)[:, None], last, weights)
        mass = xp.sum(weights, axis=-1)
    drawn = inverse_cdf(weights, host_to(xp, weights, v)).tolist()
    return [
        (tuple(path), value, total)
        for path, value, total in zip(kept.values(), drawn, mass.tolist(), strict=True)
    ]


def _walk_on_device(
    trees: Sequence[tuple[Below, int]],
    items: Array,
    of_p: Rows,
    of_q: Rows,
    rngs: Sequence[Draws],
    siblings: Siblings,
) -> list[End]:
    """Walk down all trees, with one transfer at the end."""
    like = of_p.first
    xp, on, size = array_namespace(like), device(like), len(trees)
    host_table = _table([below for below, _ in trees])
    table, k, depth = host_to(xp, like, host_table), host_table.shape[-1], max(deep for _, deep in trees)
    u_host, v = numbers(rngs, items.shape[1])
    u = host_to(xp, like, u_host)
    each = xp.arange(size, device=on)
    node = xp.zeros(size, dtype=xp.int64, device=on)  # the row that each tree has come to
    path = xp.full((size, depth), -1, dtype=xp.int64, device=on)
    stopped = xp.zeros(size, dtype=xp.bool, device=on)  # refused all children of its node
    residuals = xp.zeros((size, like.shape[-1]), dtype=like.dtype, device=on)
    for level in range(depth):
        below = table[each, node]
        going = (below[:, 0] >= 0) & ~stopped
        tried = (below >= 0) & going[:, None]
        first = xp.where(below[:, :1] >= 0, below[:, :1], 0 * below[:, :1])
        child = xp.where(below >= 0, below, first)
        accepted, _, residual = siblings(
            of_p.all[each, node],
            of_q.all[each, xp.where(going, node, 0 * node)],
            items[each[:, None], child],
            tried,
            u[each[:, None], child],
        )
        took = accepted < k
        step = child[each, xp.where(took, accepted, 0 * accepted)]
        path[:, level] = xp.where(took, step, path[:, level])
        node = xp.where(took, step + 1, node)
        residuals = xp.where((going & ~took)[:, None], residual, residuals)
        stopped = stopped | (going & ~took)
    item, mass = sample(xp, residuals, of_p.all[each, node], ~stopped, v)
    ends = xp.concat(
        [xp.astype(xp.concat([item[None, :], path.T]), xp.float64), xp.astype(mass, xp.float64)[None, :]]
    )
    return [
        (tuple(int(step) for step in steps if step >= 0), int(value), total)
        for value, *steps, total in ends.T.tolist()
    ]


def _table(trees: Sequence[Below]) -> Any:
    """[batch, nodes, k]: of each tree and node the children, the context's first; -1 where there are less."""
    rows, k = max(map(len, trees)), max((len(below) for tree in trees for below in tree), default=0)
    made = np.full((len(trees), rows, k), -1, dtype=np.int64)
    known: dict[Below, int] = {}
    for b, tree in enumerate(trees):
        if (same := known.setdefault(tree, b)) != b:
            made[b] = made[same]
            continue
        for node, below in enumerate(tree):
            made[b, node, : len(below)] = below
    return made


def _refused(tree: Below, kept: tuple[int, ...]) -> tuple[Refusal, ...]:
    """The siblings before each kept item, and the children of the last one."""
    found: list[Refusal] = []
    node = -1
    for step in (*kept, None):
        for index in tree[node + 1]:
            if index == step:
                break
            found.append(Refusal(index, "improbable"))
        node = -1 if step is None else step
    return tuple(found)


def _given(p: Array, q: Array, x: Array, tried: Array, u: Array) -> tuple[Array, Array, Array]:
    xp = array_namespace(p)
    m, k = x.shape
    nodes, order = xp.arange(m, device=device(p)), xp.arange(k, device=device(p))
    p_x = xp.astype(p[nodes[:, None], x], xp.float64)
    struck = (x[:, :, None] == x[:, None, :]) & (order[:, None] > order[None, :]) & tried[:, None, :]
    p_x = xp.where(tried & ~xp.any(struck, axis=-1), p_x, xp.zeros_like(p_x))
    left = positive(_mass(p)[:, None] - (xp.cumulative_sum(p_x, axis=-1) - p_x))
    accepted = _first(xp, u * left < p_x)
    rest = _without_one(accepted, k)
    p = p[rest]  # a copy
    p[nodes[: rest.shape[0], None], x[rest]] = 0
    return accepted, rest, p


def _without_replacement(p: Array, q: Array, x: Array, tried: Array, u: Array) -> tuple[Array, Array, Array]:
    xp, host = array_namespace(p), on_host(p)
    m, k = x.shape
    rest = nodes = xp.arange(m, device=device(p))
    accepted = xp.full(m, k, dtype=xp.int64, device=device(p))
    for j in range(k):
        of_p, of_q = _mass(p), _mass(q)
        drafted = nodes[: rest.shape[0]], x[rest, j]
        p_x, q_x = p[drafted], q[drafted]
        # Without mass there is nothing left to draw a sibling from, but for rounding.
        trying = tried[rest, j] & (of_p * of_q > 0)
        if not host:
            trying = trying & (accepted == k)
        hit = trying & (u[rest, j] * (q_x * of_p) < p_x * of_q)
        miss = trying & ~hit
        if host:
            others = xp.nonzero(~hit)[0]
            if others.shape[0] < rest.shape[0]:
                accepted[rest[hit]] = j
                rest, p, q, miss, of_p, of_q = (a[others] for a in (rest, p, q, miss, of_p, of_q))
            if not xp.any(miss):
                break
            drafted = nodes[: rest.shape[0]], x[rest, j]
        else:
            accepted = xp.where(hit, xp.full_like(accepted, j), accepted)
        scale = xp.where(miss, of_p / xp.where(of_q > 0, of_q, xp.ones_like(of_q)), xp.zeros_like(of_p))
        p = positive(p - xp.astype(scale, p.dtype)[:, None] * q)
        q = xp.asarray(q, copy=True)
        q[drafted] = xp.where(miss, xp.zeros_like(q[drafted]), q[drafted])
    return accepted, rest, p


def _independent(p: Array, q: Array, x: Array, tried: Array, u: Array) -> tuple[Array, Array, Array]:
    xp = array_namespace(p)
    nodes = xp.arange(x.shape[0], device=device(p))[:, None]
    number = xp.sum(xp.astype(tried, xp.float64), axis=-1)
    rho = _rho(p, q, number, x.shape[1])
    accepted = _first(xp, tried & (u * (rho[:, None] * q[nodes, x]) < p[nodes, x]))
    rest = _without_one(accepted, x.shape[1])
    p, q, rho = p[rest], q[rest], rho[rest]
    kept = xp.minimum(q, p / xp.astype(rho, p.dtype)[:, None])
    tries = _tries(_mass(kept), number[rest])
    return accepted, rest, positive(p - kept * xp.astype(tries, p.dtype)[:, None])


def _first(xp: Any, true: Array) -> Array:
    """[m], the first true place of each row [m, k]; k where there is none."""
    before = xp.cumulative_sum(xp.astype(true, xp.int64), axis=-1) == 0
    return xp.sum(xp.astype(before, xp.int64), axis=-1)


def _without_one(accepted: Array, k: int) -> Array:
    """The places of the nodes that accepted none of k children; on a device of all."""
    xp = array_namespace(accepted)
    return (
        xp.nonzero(accepted == k)[0]
        if on_host(accepted)
        else xp.arange(accepted.shape[0], device=device(accepted))
    )


def _mass(weights: Array) -> Array:
    """The sums of rows, as float64, and of half precision not rounded to it."""
    xp = array_namespace(weights)
    dtype = weights.dtype if weights.dtype == xp.float64 else xp.float32
    return xp.astype(xp.sum(weights, axis=-1, dtype=dtype), xp.float64)


def _tries(beta: Array, number: Array) -> Array:
    """(1 − (1 − β)^k)/β, how many of k siblings are tried on average; k at β = 0. Both are [m]."""
    xp = array_namespace(beta)
    some = beta > 1e-9  # below that the difference is lost in rounding
    tries = (1 - positive(1 - beta) ** number) / xp.where(some, beta, xp.ones_like(beta))
    return xp.where(some, tries, number)


STEPS = 20
"""Halvings of [1, k] in the search for ρ."""


def _rho(p: Array, q: Array, number: Array, most: int) -> Array:
    """The ρ of k-SEQ in [1, k], from above: any ρ with ρβ ≥ 1 − (1 − β)^k is exact, the smallest accepts most.

    Args:
        p, q: [m, V].
        number: [m], k, as float64.
        most: the largest k.
    """
    xp = array_namespace(p)
    low, high = xp.ones_like(number), number
    if most == 1:
        return low
    if on_host(p) and p.shape[0] == 1:
        return xp.asarray([_rho_of_row(p[0, :], q[0, :], float(number[0]))], dtype=xp.float64)
    for _ in range(STEPS):
        rho = (low + high) / 2
        beta = _mass(xp.minimum(q, p / xp.astype(rho, p.dtype)[:, None]))
        enough = rho >= _tries(beta, number)
        low, high = xp.where(enough, low, rho), xp.where(enough, rho, high)
    return high


def _rho_of_row(p: Array, q: Array, k: float) -> float:
    """`_rho` of one row [V] on the host, whose numbers are floats there."""
    xp = array_namespace(p)
    low, high = 1.0, k
    for _ in range(STEPS):
        rho = (low + high) / 2
        beta = float(xp.sum(xp.minimum(p, rho * q))) / rho
        if rho >= sum((1 - beta) ** j for j in range(int(k))):
            high = rho
        else:
            low = rho
    return high
