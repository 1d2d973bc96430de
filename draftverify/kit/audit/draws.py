"""The rule and the generator at real prefixes: many rounds with fresh draws, counted against p and q.

A recorded round's rows become a process of their own: after a value at depth d the rows are those recorded at depth
d + 1, whatever the value. In it items are drawn anew from q by the declared law (a given block stays as it is), the
rule decides, what it leaves of the block's depth is filled up from p, and the sequence must be distributed as p says,
place by place, in pairs, and over all prefixes together. The generator's own fresh drafts are counted against the q
that they declare.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from draftverify.errors import ContractError
from draftverify.kit.audit.recorded import RecordedRound, next_round
from draftverify.kit.audit.report import DrawsReport
from draftverify.kit.contexts import values_of
from draftverify.kit.counts import BINS, DEPTHS, THIRDS, CellCounts, count, detectable, even, pooled, verdicts
from draftverify.kit.drafts import law_problems
from draftverify.protocols import AcceptanceRule, DecidesMany
from draftverify.randomness import Draws, inverse_cdf, stream_key, uniforms
from draftverify.traits import offers
from draftverify.values import Decision, Evidence, Law, Proposal, Verification

KEPT_ITEMS = 384
"""Of a larger vocabulary the likeliest items are kept and the others are one; playing 4096 copies over 50,000 items
would take minutes a prefix and count no more cells."""

CHUNK = 512


def draw_tests(
    rule: AcceptanceRule,
    recorded: Sequence[RecordedRound],
    *,
    copies: int,
    error: float,
    judge_rule: bool = True,
) -> DrawsReport:
    """Play recorded rounds with fresh draws, and count what comes against p and q.

    Args:
        rule: the pipeline's.
        recorded: rounds of real tasks.
        copies: how often each is played.
        error: the probability that a sound pipeline fails, at most.
        judge_rule: whether what the rule emits must be p's; else the generator alone is judged.
    """
    played, together, failures = _rule_counts(rule, recorded, copies) if judge_rule else ([], [], [])
    counts = played + together
    redrafts = [redraft for entry in recorded for redraft in entry.redrafts]
    # Half of the error is the rule's, half the generator's.
    failures += verdicts(counts, error / 2)
    problems, tests = law_problems([(entry.where, entry.redrafts) for entry in recorded], error / 2)
    failures += problems
    distances = {entry.where: entry.rows_apart for entry in recorded if entry.rows_apart is not None}
    bound = max((entry.rows_bound for entry in recorded), default=0.0)
    failures += [
        f"{where}: a row of the block is TV {far:.2g} from the same row of a plain step, and rounding {bound:g}; "
        "the verifier gives other rows for blocks (another temperature, a cache that is not rolled back, shifted rows)"
        for where, far in distances.items()
        if far > bound
    ]
    share = error / 2 / max(len(counts), 1)
    items = sum(len(redraft.ranks) for redraft in redrafts)
    return DrawsReport(
        prefixes=len(recorded),
        drafted=sum(len(entry.proposal) > 0 for entry in recorded),
        copies=copies if judge_rule else 0,
        redrawn=len(redrafts),
        tests=len(counts) + tests,
        error=error,
        detects=max((detectable(counted.n, counted.degrees, share) for counted in played), default=None),
        detects_together=max(
            (detectable(counted.n, counted.degrees, share) for counted in together[:1]), default=None
        ),
        detects_generator=detectable(items, BINS - 1, error / 2 / tests) if items else None,
        farthest=max((counted.distance for counted in played), default=None),
        rows_apart=max(distances.values(), default=None),
        rows_bound=bound if distances else None,
        failures=tuple(failures),
    )


# The rule


def _rule_counts(
    rule: AcceptanceRule, recorded: Sequence[RecordedRound], copies: int
) -> tuple[list[CellCounts], list[CellCounts], list[str]]:
    """What the rule emits, round by round and at all prefixes together; and the rounds in which it failed."""
    failures: list[str] = []
    played: list[CellCounts] = []
    ranks: dict[int, list[Any]] = {}
    for at, entry in enumerate(recorded):
        try:
            round_counts, ranked = _play(rule, entry, copies, at)
        except Exception as problem:
            failures.append(f"{entry.where}: {type(problem).__name__}: {problem}")
            continue
        played += round_counts
        for place, values in enumerate(ranked):
            ranks.setdefault(place, []).append(values)
    together = [
        even(f"value {place} at all prefixes, by p/q", np.concatenate(values))
        for place, values in ranks.items()
    ]
    if ranks:
        two = [np.stack([values[: len(values) // 2 * 2 : 2], values[1::2]], axis=1) for values in ranks[0]]
        together.append(
            even("the first values of two rounds of a task together", np.concatenate(two), THIRDS)
        )
    return played, together, failures


class _Process:
    """A recorded round over few items, with rows by depth.

    Args:
        recorded: the round.
    """

    def __init__(self, recorded: RecordedRound) -> None:
        self.recorded = recorded
        proposal = recorded.proposal
        self.parents = proposal.parents
        self.depth_of = [len(proposal.path(at)) for at in range(len(proposal))]
        first_at = {depth: at for at, depth in reversed(list(enumerate(self.depth_of)))}
        rows = [0, *(first_at[depth] + 1 for depth in sorted(first_at))]
        drawn = rows[:-1] if len(proposal) else None  # the last depth has leaves alone, and no row of q
        p, q = recorded.target[rows], _taken(proposal.law.q, drawn)
        self.given, self.p, self.q = _fewer(p, q, proposal.items)
        self.maxima = _taken(recorded.raw_maxima, rows)
        self.q_maxima = _taken(proposal.law.raw_maxima, drawn)

    def proposals(self, u: Any) -> list[Proposal]:
        """One proposal per row of u [copies, items], items drawn by the declared law; given ones stay as they are."""
        if self.q is None:
            return [Proposal(items=tuple(self.given), parents=self.parents)] * len(u)
        kind = self.recorded.proposal.law.kind
        size = len(u)
        items = np.zeros((size, len(self.parents)), dtype=np.int64)
        alive = np.ones((size, len(self.parents)), dtype=bool)
        copies = np.arange(size)
        for node, parent in enumerate(self.parents):
            row = np.asarray(self.q[self.depth_of[node] - 1], dtype=np.float64)
            weights = np.broadcast_to(row, (size, len(row)))
            if kind == "without_replacement":
                weights = np.array(weights)
                for elder in range(node):
                    if self.parents[elder] == parent:
                        weights[copies[alive[:, elder]], items[alive[:, elder], elder]] = 0.0
            possible = weights.sum(axis=1) > 0
            alive[:, node] = possible & (alive[:, parent] if parent >= 0 else True)
            safe = np.where(possible[:, None], weights, row)
            items[:, node] = inverse_cdf(safe, u[:, node])
        return [self._block(*nodes) for nodes in zip(items.tolist(), alive.tolist(), strict=True)]

    def _block(self, items: list[int], alive: list[bool]) -> Proposal:
        """The nodes of one copy that could be drawn, with their rows of q."""
        nodes = [node for node, is_alive in enumerate(alive) if is_alive]
        place = {node: at for at, node in enumerate(nodes)}
        parents = tuple(place[self.parents[node]] if self.parents[node] >= 0 else -1 for node in nodes)
        parent_depths = [0, *(self.depth_of[node] for node in nodes)][: max(parents, default=-1) + 2]
        rows = [min(depth, len(self.q) - 1) for depth in parent_depths]  # a row of no parent is not looked at
        law = Law(self.recorded.proposal.law.kind, self.q[rows], _taken(self.q_maxima, rows))
        return Proposal(items=tuple(items[node] for node in nodes), parents=parents, law=law)

    def q_row(self, depth: int) -> Any:
        """q at a depth, or all mass on the given item; None where nothing was drafted, or several items were given."""
        if self.q is not None:
            return np.asarray(self.q[depth], dtype=np.float64) if depth < len(self.q) else None
        items_here = [item for item, d in zip(self.given, self.depth_of, strict=True) if d == depth + 1]
        return np.eye(self.p.shape[-1])[items_here[0]] if len(items_here) == 1 else None

    def verification(self, parents: tuple[int, ...]) -> Verification:
        """The rows by depth, of a block of this layout."""
        rows = [0]
        for parent in parents:
            rows.append(rows[parent + 1] + 1)
        return Verification(evidence=Evidence(target=self.p[rows], raw_maxima=_taken(self.maxima, rows)))


def _taken(array: Any, rows: list[int] | None) -> Any:
    return None if array is None or rows is None else array[rows]


def _fewer(p: Any, q: Any, items: Sequence[int]) -> tuple[list[int], Any, Any]:
    """Items and rows over the likeliest items; all others are one, the last."""
    size = p.shape[-1]
    if size <= KEPT_ITEMS:
        return list(items), p, q
    rows = [*p, *(q if q is not None else ())]
    items_per_row = max(8, KEPT_ITEMS // len(rows))
    likely = [np.argpartition(-row, items_per_row)[:items_per_row] for row in rows]
    likely_items = np.unique(np.concatenate([*likely, np.asarray(items, dtype=np.int64)]))
    place = {int(item): at for at, item in enumerate(likely_items)}

    def narrow(row: Any) -> Any:
        chosen = row[:, likely_items]
        remainder = row.sum(axis=1, keepdims=True, dtype=np.float64) - chosen.sum(
            axis=1, keepdims=True, dtype=np.float64
        )
        return np.concatenate([chosen, np.maximum(remainder, 0).astype(row.dtype)], axis=1)

    return [place[item] for item in items], narrow(p), None if q is None else narrow(q)


def _play(
    rule: AcceptanceRule, recorded: RecordedRound, copies: int, at: int
) -> tuple[list[CellCounts], list[Any]]:
    process = _Process(recorded)
    n = len(process.parents)
    depths = min(len(process.p), DEPTHS)
    values = np.concatenate(
        [
            _sequences(rule, process, range(start, min(start + CHUNK, copies)), n, depths, at)
            for start in range(0, copies, CHUNK)
        ]
    )
    counts: list[CellCounts] = []
    cells: list[Any] = []
    ranks: list[Any] = []
    keys = np.asarray([stream_key(at, "ranks", 0, "audit")])
    for depth in range(depths):
        p = np.asarray(process.p[depth], dtype=np.float64)
        q = process.q_row(depth)
        cells.append(pooled(p, copies, None if q is None else p > q))
        counts.append(count(f"{recorded.where}, value {depth}", values[:, depth], p, cells[-1]))
        w = uniforms(keys, np.asarray([depth]), np.arange(copies))[0]
        order = np.argsort(-p if q is None else (q + 1e-300) / (p + 1e-300), kind="stable")
        ranks.append(_ranks(values[:, depth], p, order, w))
    for earlier, later in pairwise(range(depths)):
        counts.append(
            _pair(f"{recorded.where}, values {earlier} and {later}", values, counts, cells, earlier, later)
        )
    return counts, ranks


def _ranks(values: Any, p: Any, order: Any, w: Any) -> Any:
    """Each value's rank in `order` [V], spread over its probability: uniform on [0, 1) for values drawn from p.

    In the order of p/q a mistake that moves mass from where p > q to where p < q moves it to one end.
    """
    sums = np.cumsum(p[order]) / p.sum()
    mass_before = np.empty_like(p)
    mass_before[order] = sums - p[order] / p.sum()
    return mass_before[values] + w * p[values] / p.sum()


def _pair(
    name: str, values: Any, counts: list[CellCounts], cells: list[Any], earlier: int, later: int
) -> CellCounts:
    """The cells of two places together; in the process they are independent."""
    size = len(counts[later].expected)
    together = cells[earlier][values[:, earlier]] * size + cells[later][values[:, later]]
    expected = np.outer(counts[earlier].expected, counts[later].expected).reshape(-1)
    place = pooled(expected, len(values))
    return count(name, together, expected, place)


def _sequences(rule: Any, process: _Process, copies: range, n: int, depths: int, at: int) -> Any:
    """The values [copies, depths] that one round each emits, filled up from p."""
    keys = [[stream_key(copy, f"prefix {at}", 0, role) for copy in copies] for role in ("draft", "rest")]
    round_numbers = np.zeros(len(copies), dtype=np.int64)
    u = uniforms(np.asarray(keys[0]), round_numbers, np.arange(max(n, 1)))
    fill = uniforms(np.asarray(keys[1]), round_numbers, np.arange(depths))
    proposals = process.proposals(u)
    verification_of = cache(process.verification)
    verifications = [verification_of(proposal.parents) for proposal in proposals]
    # Two rounds of a task after each other: what is drawn in them must be as independent as in two tasks.
    rngs = [Draws(stream_key(copy // 2, f"prefix {at}", 0, "rule"), copy % 2) for copy in copies]
    both = process.recorded.context, next_round(process.recorded.context)
    contexts = [both[copy % 2] for copy in copies]
    decided: list[Decision]
    if offers(rule, DecidesMany):
        decided = list(rule.decide_many(contexts, proposals, verifications, rngs))
    else:
        decided = [
            rule.decide(*arguments)
            for arguments in zip(contexts, proposals, verifications, rngs, strict=True)
        ]
    p = process.p[:depths]
    values = inverse_cdf(np.broadcast_to(p, (len(copies), *p.shape)), fill)
    for copy, (proposal, decision) in enumerate(zip(proposals, decided, strict=True)):
        emitted = list(map(int, values_of(proposal, decision)))[:depths]
        if not emitted and not decision.done:
            raise ContractError(
                "a round emitted nothing; an exact rule keeps or splices a value in every round"
            )
        values[copy, : len(emitted)] = emitted
    return values
