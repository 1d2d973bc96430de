"""Typical acceptance: keeps what the target finds likely enough, whatever the draft thought of it.

Source: Cai et al., "Medusa", arXiv:2401.10774.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import device

from draftverify.arrays import all_to, host_to, on_host, positive, top
from draftverify.randomness import Draws, array_namespace
from draftverify.rules.batch import (
    NO_P,
    checked_ids,
    distributions,
    drafted_from,
    no_distribution,
    target_rows,
)
from draftverify.rules.bounds import between
from draftverify.rules.walk import ON_TREES, TreeRule
from draftverify.token_summary import TokenSummary
from draftverify.values import Array, Decision, Proposal, Refusal, Verification


class Typical(TreeRule):
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
        measure_drift: whether decisions report the drift, see docs/rules.md.

    References:
        Cai et al., arXiv:2401.10774; that the splice is greedy is in Medusa's `generate_candidates`.
    """

    traits = replace(ON_TREES, laws={"given", "iid", "without_replacement"})

    def __init__(
        self, epsilon: float = 0.09, delta: float | None = None, *, measure_drift: bool = False
    ) -> None:
        self.epsilon = between("epsilon", epsilon, 0, math.inf, open_below=True)
        self.delta = None if delta is None else between("delta", delta, 0, math.inf, open_below=True)
        self.measure_drift = measure_drift

    def judge(
        self, proposals: Sequence[Proposal], verifications: Sequence[Verification], rngs: Sequence[Draws]
    ) -> list[Decision]:
        """Keep each block's best path; draws nothing."""
        p = target_rows(verifications)
        items = host_to(p, checked_ids(proposals, p, self.traits.laws))
        if on_host(p) and not self.measure_drift:
            return [
                self._row_by_row(proposal, p[b, ...], items[b, :]) for b, proposal in enumerate(proposals)
            ]
        likelihoods, thresholds, drifts, tops, highest = self._measured(proposals, p, items)
        decisions, start = [], 0  # of the block's items among the items of all
        for b, proposal in enumerate(proposals):
            stop = start + len(proposal.items)
            path, refused = _best(proposal, likelihoods[start:stop], thresholds[start:stop].__getitem__)
            end = path[-1] + 1 if path else 0
            drift: list[float] = []
            if self.measure_drift:
                drift = [1 - likelihoods[start + index] for index in path] + [1 - highest[b][end]]
                if _drawn(proposal):  # a chain's drifts are those of the kept items and of the refused one
                    judged = drifts[start:stop][: len(path) + 1]
                    drift[: len(judged)] = judged
            decisions.append(_decision(path, refused, int(tops[b][end]), highest[b][end], drift))
            start = stop
        return decisions

    def _row_by_row(self, proposal: Proposal, p: Array, items: Array) -> Decision:
        """Decide on one block on the host, looking at the rows that its path comes to and at no other."""
        parents = proposal.parents
        likelihoods = [p[parent + 1, item].item() for parent, item in zip(parents, items, strict=False)]
        least = cache(lambda row: self.threshold(p[row, :][None, :])[0].item())
        path, refused = _best(proposal, likelihoods, lambda i: least(parents[i] + 1))
        end = path[-1] + 1 if path else 0
        item, likely = _tops(p[end : end + 1, :])
        return _decision(path, refused, item.item(), likely.item())

    def chance(self, token: int, summary: TokenSummary) -> float:
        """How likely a recorded token of a chain is kept, once those before it are: 1 above the threshold, else 0."""
        return float(summary.p > min(self.epsilon, self._delta * math.exp(-summary.entropy)))

    @property
    def _delta(self) -> float:
        return math.sqrt(self.epsilon) if self.delta is None else self.delta

    def threshold(self, p: Array) -> Array:
        """min(ε, δ·e^{−H(p)}) [m] of the rows p [m, V]."""
        xp = array_namespace(p)
        least = xp.full_like(p[:, :1], xp.finfo(p.dtype).smallest_normal)
        entropy = -xp.sum(p * xp.log(xp.maximum(p, least)), axis=-1)
        return xp.clip(self._delta * xp.exp(-entropy), max=self.epsilon)

    def _measured(self, proposals: Sequence[Proposal], p: Array, items: Array) -> list[list[Any]]:
        """What the decisions need of all blocks, in one transfer.

        Returns:
            For each item, block after block, its probability, the threshold at its parent, and, if it is measured, the
            drift there of a chain drawn from q; and for each block what `_tops` says of each of its rows.
        """
        xp = array_namespace(p)
        # The rows with children, and for each item its place and that of its parent's row among them.
        rows = sorted({(b, parent + 1) for b, o in enumerate(proposals) for parent in o.parents})
        place = {row: i for i, row in enumerate(rows)}
        drafted = [
            (b, i, place[b, parent + 1])
            for b, proposal in enumerate(proposals)
            for i, parent in enumerate(proposal.parents)
        ]
        per_item = xp.zeros((3, len(drafted)), dtype=xp.float64, device=device(p))
        if drafted:
            b, i, at, of_b, of_row = all_to(p, *zip(*drafted, strict=True), *zip(*rows, strict=True))
            p_rows = p[of_b, of_row]
            threshold = self.threshold(p_rows)
            per_item[0, :], per_item[1, :] = p_rows[at, items[b, i]], threshold[at]
            drawn = [i for i, (b, _) in enumerate(rows) if self.measure_drift and _drawn(proposals[b])]
            if drawn:
                some = host_to(p, drawn)
                q = drafted_from(proposals, lambda b: p[b, ...], p)[of_b[some], of_row[some]]
                tv = xp.zeros(len(rows), dtype=xp.float64, device=device(p))
                tv[some] = _drift(p_rows[some], q, threshold[some])
                per_item[2, :] = tv[at]
        tops = [xp.astype(top_column, xp.float64) for top_column in _tops(p)]
        flat = np.asarray(xp.concat([xp.reshape(column, (-1,)) for column in (per_item, *tops)]).tolist())
        of_items, of_rows = np.split(flat, [3 * len(drafted)])
        return [*of_items.reshape(3, -1).tolist(), *of_rows.reshape(2, len(proposals), -1).tolist()]


def _tops(p: Array) -> tuple[Array, Array]:
    """The argmax of each row of p [..., V], and its probability; NaN where a row is no distribution."""
    xp, (items, highest) = array_namespace(p), top(p)
    return items, xp.where(distributions(p), highest, xp.full_like(highest, xp.nan))


def _drawn(proposal: Proposal) -> bool:
    """Whether each item is a draw from q that nothing but itself decides on."""
    return proposal.law.q is not None and proposal.shape == "chain"


def _drift(p: Array, q: Array, threshold: Array) -> Array:
    """TV(π, p) [m] of π = q·a + (1 − Σ q·a)·[argmax p], with a(v) = [p(v) > threshold]; p and q are [m, V]."""
    xp = array_namespace(p)
    emitted = xp.where(p > threshold[:, None], q, xp.zeros_like(q[:, :1]))
    missing = 1 - xp.sum(emitted, axis=-1)
    top = xp.arange(p.shape[0], device=device(p)), xp.argmax(p, axis=-1)
    emitted[top] = emitted[top] + missing
    return xp.sum(positive(p - emitted), axis=-1, dtype=xp.float64)


def _decision(
    path: tuple[int, ...], refused: tuple[Refusal, ...], item: int, likely: float, drift: Sequence[float] = ()
) -> Decision:
    """A block's decision, which ends with the likeliest item of its last row."""
    if math.isnan(likely):
        raise no_distribution(NO_P, path[-1] + 1 if path else 0, 0)
    clipped = tuple(min(max(tv, 0.0), 1.0) for tv in drift)
    return Decision(kept=path, spliced=(item,), refused=refused, drift=clipped)


def _best(
    proposal: Proposal, likelihoods: Sequence[float], least: Callable[[int], float]
) -> tuple[tuple[int, ...], tuple[Refusal, ...]]:
    """The longest path of items above their thresholds, the likelier of equals, and the items that are not."""
    best_path: tuple[int, ...] = ()
    refused: list[Refusal] = []
    best = (0, 0.0)
    reached = {-1: best}  # the length and the likelihood of each accepted path
    for i, parent in enumerate(proposal.parents):
        if parent not in reached:
            continue
        if likelihoods[i] > least(i):
            length, likelihood = reached[parent]
            reached[i] = (length + 1, likelihood + math.log(likelihoods[i]))
            if reached[i] > best:
                best, best_path = reached[i], proposal.path(i)
        else:
            refused.append(Refusal(i, "untypical"))
    return best_path, tuple(refused)
