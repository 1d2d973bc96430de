"""Typical acceptance: keeps what the target finds likely enough, whatever the draft thought of it.

Source: Cai et al., "Medusa", arXiv:2401.10774.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace, device

from draftverify.engine.randomness import Draws
from draftverify.errors import ConfigError
from draftverify.rules.laws import positive
from draftverify.rules.sampling import (
    TARGET,
    BatchRule,
    checked_ids,
    host_to,
    no_distribution,
    on_host,
    place_of,
    target_of,
)
from draftverify.rules.trees import TOGETHER, TREES, Rows
from draftverify.values import Array, Context, Decision, LawKind, Proposal, Refusal, Verification

__all__ = ["Typical"]


class Typical(BatchRule):
    """Keeps x where p(x) > min(ε, δ·e^{−H(p)}); the longest path of such items wins, the likelier of equals. Then
    splices the target's argmax.

    Bound: none; what is emitted is not p at any temperature above 0, where it is the argmax. Its drift is
    TV(q·a + (1 − Σ q·a)·[argmax p], p) at a position of a chain drawn from q, with a(v) = [p(v) above the threshold].
    In a tree the siblings' offspring decide too, and given items have no q: there, and for the bonus, it is 1 − p(v) of
    the emitted v, the distance once the draft is known, which is no less on average.

    Args:
        epsilon: ε, the threshold where the target is sure. The paper's 0.09.
        delta: δ, the threshold's factor where it is not; √ε when None, as in the paper (0.3). Medusa's code has the
            two defaults swapped in `evaluate_posterior`.

    References:
        Cai et al., arXiv:2401.10774; that the splice is greedy is in Medusa's `generate_candidates`.
    """

    needs = TARGET
    shapes = TREES
    laws: frozenset[LawKind] = frozenset({"given", "iid", "without_replacement"})
    exact = False

    def __init__(self, epsilon: float = 0.09, delta: float | None = None) -> None:
        if epsilon <= 0 or (delta is not None and delta <= 0):
            raise ConfigError(f"epsilon {epsilon} and delta {delta} must be above 0", path="epsilon")
        self.epsilon = epsilon
        self.delta = delta

    def decide_many(
        self,
        contexts: Sequence[Context],
        proposals: Sequence[Proposal],
        verifications: Sequence[Verification],
        rngs: Sequence[Draws],
    ) -> list[Decision]:
        """Keep each block's best path; draws nothing."""
        targets = [target_of(verification) for verification in verifications]
        most = max(1, TOGETHER // targets[0].shape[-1])
        if on_host(targets[0]) and len(targets) > most:
            parts = [slice(first, first + most) for first in range(0, len(targets), most)]
            return [
                decision
                for at in parts
                for decision in self.decide_many(contexts[at], proposals[at], verifications[at], rngs[at])
            ]
        rows = Rows(targets, [place_of(verification.evidence) for verification in verifications])
        (likelihoods, thresholds, drifts), tops = self._judge(proposals, targets, rows)
        paths: list[tuple[tuple[int, ...], list[Refusal]]] = []
        starts = [0]  # of each block among the items of all
        for proposal in proposals:
            start = starts[-1]
            paths.append(_best(proposal, likelihoods[start:], thresholds[start:]))
            starts.append(start + len(proposal.items))
        ends = [kept[-1] + 1 if kept else 0 for kept, _ in paths]
        if tops is None:
            tops = _tops(rows.pick(range(len(ends)), ends)).tolist()
        else:
            tops = [[top[b][row] for b, row in enumerate(ends)] for top in tops]
        made = []
        for proposal, start, end, (kept, refused), top, likely in zip(
            proposals, starts[:-1], ends, paths, *tops, strict=True
        ):
            if not 0 < likely < math.inf:
                raise no_distribution(end)
            if not _drawn(proposal):
                drift = [1 - likelihoods[start + index] for index in kept]
            else:
                drift = drifts[start : start + len(kept)]
            judged = _drawn(proposal) and len(kept) < len(proposal.items)
            drift.append(drifts[start + len(kept)] if judged else 1 - likely)
            made.append(
                Decision(
                    kept=kept,
                    spliced=(int(top),),
                    refused=tuple(refused),
                    drift=tuple(min(max(tv, 0.0), 1.0) for tv in drift),
                )
            )
        return made

    def _judge(
        self, proposals: Sequence[Proposal], targets: Sequence[Array], rows: Rows
    ) -> tuple[list[list[float]], Any]:
        """What the decisions need of all blocks, in one transfer.

        Returns:
            For each item, block after block, its probability, the threshold at its parent, and the drift there of a
            chain drawn from q; and the argmax of each row of each block with its probability, [2, batch, rows],
            which on the host is None: there the few rows that matter are looked at when they are known.
        """
        like = rows.first
        xp, lengths = array_namespace(like), [len(proposal.items) for proposal in proposals]
        items = checked_ids(xp, proposals, lengths, max(lengths), like, self.laws)
        places: list[
            int
        ] = []  # for each item the place of its parent among the nodes with children, of all blocks
        nodes: list[tuple[int, int]] = []  # (block, row) of each of these
        drawn: list[int] = []  # those where the chain's next item was drawn from q
        for b, proposal in enumerate(proposals):
            parents = sorted(set(proposal.parents))
            place = {parent: len(nodes) + i for i, parent in enumerate(parents)}
            places += [place[parent] for parent in proposal.parents]
            if _drawn(proposal):
                drawn += place.values()
            nodes += [(b, parent + 1) for parent in parents]
        found = xp.zeros((3, len(places)), dtype=xp.float64, device=device(like))
        if places:
            p = rows.pick(*zip(*nodes, strict=True))
            least = xp.full_like(p[:, :1], xp.finfo(p.dtype).smallest_normal)
            entropy = -xp.sum(p * xp.log(xp.maximum(p, least)), axis=-1)
            delta = math.sqrt(self.epsilon) if self.delta is None else self.delta
            threshold = xp.clip(delta * xp.exp(-entropy), max=self.epsilon)
            at = host_to(xp, like, places)
            x = items[_pairs(xp, like, [(b, i) for b, m in enumerate(lengths) for i in range(m)])]
            found[0, :], found[1, :] = p[at, x], threshold[at]
            if drawn:
                q = Rows(
                    [t if o.law.q is None else o.law.q for t, o in zip(targets, proposals, strict=True)],
                    [proposal.law.place for proposal in proposals],
                    like,
                ).pick(*zip(*(nodes[i] for i in drawn), strict=True))
                some = host_to(xp, like, drawn)
                tv = xp.zeros(len(nodes), dtype=xp.float64, device=device(like))
                tv[some] = _drift(p[some], q, threshold[some])
                found[2, :] = tv[at]
        if on_host(like):
            return found.tolist(), None
        tops = _tops(rows.all)
        flat = xp.concat([xp.reshape(found, (-1,)), xp.reshape(tops, (-1,))]).tolist()
        m, (_, size, most) = len(places), tops.shape
        table = [flat[i * m : (i + 1) * m] for i in range(3)]
        rest = flat[3 * m :]
        return table, [
            [rest[(i * size + b) * most : (i * size + b + 1) * most] for b in range(size)] for i in range(2)
        ]


def _drawn(proposal: Proposal) -> bool:
    """Whether each item is a draw from q that nothing but itself decides on."""
    return proposal.law.q is not None and proposal.shape == "chain"


def _pairs(xp: Any, like: Array, pairs: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
    """Their first and their second entries, as arrays on the device of `like`."""
    first, second = zip(*pairs, strict=True)
    return host_to(xp, like, first), host_to(xp, like, second)


def _tops(p: Array) -> Array:
    """[2, ...], the argmax of each row of p [..., V] (the lowest index of equals), and its probability."""
    xp = array_namespace(p)
    return xp.stack([xp.astype(found, xp.float64) for found in (xp.argmax(p, axis=-1), xp.max(p, axis=-1))])


def _drift(p: Array, q: Array, threshold: Array) -> Array:
    """TV(π, p) [m] of π = q·a + (1 − Σ q·a)·[argmax p], with a(v) = [p(v) > threshold]; p and q are [m, V]."""
    xp = array_namespace(p)
    emitted = xp.where(p > threshold[:, None], q, xp.zeros_like(q[:, :1]))
    rest = 1 - xp.sum(emitted, axis=-1)
    top = xp.arange(p.shape[0], device=device(p)), xp.argmax(p, axis=-1)
    emitted[top] = emitted[top] + rest
    return xp.sum(positive(p - emitted), axis=-1, dtype=xp.float64)


def _best(
    proposal: Proposal, likelihoods: Sequence[float], thresholds: Sequence[float]
) -> tuple[tuple[int, ...], list[Refusal]]:
    """The longest path of items above their thresholds, the likelier of equals, and the items that are not."""
    kept: tuple[int, ...] = ()
    refused: list[Refusal] = []
    best = (0, 0.0)
    reached = {-1: best}  # the length and the likelihood of each accepted path
    for i, parent in enumerate(proposal.parents):
        if parent not in reached:
            continue
        if likelihoods[i] > thresholds[i]:
            length, likelihood = reached[parent]
            reached[i] = (length + 1, likelihood + math.log(likelihoods[i]))
            if reached[i] > best:
                best, kept = reached[i], proposal.path(i)
        else:
            refused.append(Refusal(i, "untypical"))
    return kept, refused
