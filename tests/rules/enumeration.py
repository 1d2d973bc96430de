"""Exact enumeration: everything a drafter and a rule can do, with its probability, by running the real code.

The random numbers are unknowns whose comparisons fork (`draftverify.kit.unknowns`), so a rule's `decide` is
integrated over all of its draws, with no sampling and no tolerance but the rounding of doubles. What is drafted and
verified comes from a pair of the kit's tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

from draftverify import Proposal, Verification
from draftverify.kit import DraftFrom, TablePair, TargetFrom, make_context
from draftverify.kit.unknowns import Path, Stream, explore
from draftverify.values import GIVEN


class Model:
    """p and q over a vocabulary of `size`, anew for every prefix, at a temperature; `zeros` puts holes into both."""

    def __init__(self, size: int, seed: int, *, zeros: bool = False, temperature: float = 0.7) -> None:
        self.size, self.temperature = size, temperature
        self.tables = TablePair(size, seed, mixed=zeros)
        self.rows = lru_cache(None)(self._rows)

    def _rows(self, prefix: tuple[int, ...]) -> tuple[Any, Any, float, float]:
        p, q = self.tables.rows(prefix)
        return self.p(prefix), self.q(prefix), float(p.max()), float(q.max())

    def p(self, prefix: tuple[int, ...]) -> Any:
        return self.tables.p(prefix, self.temperature)

    def q(self, prefix: tuple[int, ...]) -> Any:
        return self.tables.q(prefix, self.temperature)

    def draft(self, prefix: tuple[int, ...], n: int, rng: Any, **how: Any) -> Proposal:
        """n items of the drafter's table."""
        context = msgspec.structs.replace(make_context({}, accepted=prefix), draws=rng)
        return DraftFrom(self.tables.q, temperature=self.temperature, **how).propose(context, n)


Drafter = Callable[[Model, tuple[int, ...], int, Stream], Proposal]


def draft_iid(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
    """A chain drawn from q."""
    return model.draft(prefix, n, rng)


def draft_given(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
    """A deterministic chain."""
    items: list[int] = []
    for _ in range(n):
        items.append(given_item(model, (*prefix, *items)))
    return Proposal.chain(items)


def given_item(model: Model, prefix: tuple[int, ...]) -> int:
    """The likeliest item by q, and now and then the least likely."""
    row = model.q(prefix)
    return int(row.argmin() if sum(prefix) % 3 == 2 else row.argmax())


def draft_unknown(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
    """A chain drawn from q by a generator that does not say so."""
    return msgspec.structs.replace(model.draft(prefix, n, rng), law=GIVEN)


def draft_tree(widths: tuple[int, ...], kind: Any) -> Drafter:
    """A full tree with `widths[d]` children at depth d; siblings drawn as `kind` says."""

    def draft(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
        parents: list[int] = []
        level = [-1]
        for width in widths[:n]:
            above = [parent for parent in level for _ in range(width)]
            level = list(range(len(parents), len(parents) + len(above)))
            parents += above
        return model.draft(prefix, len(parents), rng, shape="tree", law=kind, parents=tuple(parents))

    return draft


def draft_reranked(widths: tuple[int, ...]) -> Drafter:
    """Siblings drawn without replacement and sorted by index before they are handed on as if they had not been."""
    draw = draft_tree(widths, "without_replacement")

    def draft(model: Model, prefix: tuple[int, ...], n: int, rng: Stream) -> Proposal:
        made = draw(model, prefix, n, rng)
        return Proposal.tree(sorted(made.items), made.parents, made.law)

    return draft


def verify(model: Model, prefix: tuple[int, ...], proposal: Proposal) -> Verification:
    """The target's rows for a proposal of any shape."""
    target = TargetFrom(model.tables.p, temperature=model.temperature)
    return target.verify(make_context({}, accepted=prefix), proposal)


def emitted(proposal: Proposal, decision: Any) -> tuple[int, ...]:
    return (*(int(proposal.items[i]) for i in decision.kept), *decision.spliced)


def one_round(
    model: Model,
    prefix: tuple[int, ...],
    n: int,
    rule: Any,
    drafter: Drafter,
    *,
    streams: tuple[str, str] = ("draft", "rule"),
    new: Callable[[Proposal, Any], tuple[int, ...]] = emitted,
) -> dict[tuple[int, ...], float]:
    """The distribution of what one round emits."""

    def run(path: Path) -> tuple[int, ...]:
        proposal = drafter(model, prefix, n, Stream(path, streams[0]))
        context = SimpleNamespace(accepted=prefix)
        decision = rule.decide(context, proposal, verify(model, prefix, proposal), Stream(path, streams[1]))
        return new(proposal, decision)

    found: dict[tuple[int, ...], float] = {}
    for result, probability in explore(run):
        found[result] = found.get(result, 0.0) + probability
    # A rule that leaves the splice to a retry may emit nothing; the retries end in something, in proportion.
    nothing = found.pop((), 0.0)
    return {result: probability / (1 - nothing) for result, probability in found.items()}


Joint = dict[tuple[int, ...], float]


def block_at(length: int, n: int) -> int:
    """Blocks of n at first, shorter later: down to the empty block, one plain step."""
    return max(n - length, 0)


def joint(model: Model, total: int, n: int, rule: Any, drafter: Drafter, **how: Any) -> Joint:
    """The distribution of the first `total` items over as many rounds as they take; the first block has n."""
    done: Joint = {}
    states: list[Joint] = [{} for _ in range(total)]
    states[0][()] = 1.0
    for length in range(total):
        for prefix, weight in states[length].items():
            for new, probability in one_round(
                model, prefix, block_at(length, n), rule, drafter, **how
            ).items():
                after = (*prefix, *new)[:total]
                place = done if len(after) == total else states[len(after)]
                place[after] = place.get(after, 0.0) + weight * probability
    return done


def target_joint(model: Model, total: int) -> Joint:
    """What the target itself emits."""
    found: Joint = {(): 1.0}
    for _ in range(total):
        found = {
            (*s, v): w * float(pv) for s, w in found.items() for v, pv in enumerate(model.p(s)) if pv > 0
        }
    return found


def declared_joint(model: Model, total: int, n: int, pi: Callable[..., Any], *, given: bool = False) -> Joint:
    """What rounds of a law with this π emit: π at drafted positions, p at a round's last one."""
    found: Joint = {}

    def start(prefix: tuple[int, ...], weight: float) -> None:
        go(prefix, weight, block_at(len(prefix), n))

    def go(prefix: tuple[int, ...], weight: float, left: int) -> None:
        if len(prefix) == total:
            found[prefix] = found.get(prefix, 0.0) + weight
            return
        p, q, p_max, q_max = model.rows(prefix)
        if given:
            q = np.eye(model.size)[given_item(model, prefix)]
        row = pi(p, q, p_max, q_max) if left else p
        for v in range(model.size):
            kept = min(float(q[v]), float(row[v])) if left else 0.0
            if kept > 0:
                go((*prefix, v), weight * kept, left - 1)
            if row[v] - kept > 0:
                start((*prefix, v), weight * (float(row[v]) - kept))

    start((), 1.0)
    return found


def error(got: Joint, wanted: Joint) -> float:
    """The largest difference of two joint distributions."""
    return max(abs(got.get(key, 0.0) - wanted.get(key, 0.0)) for key in got.keys() | wanted.keys())
