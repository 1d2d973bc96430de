"""Rules that keep drafted items while they are the ones that the target would have emitted: its argmax, or a draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from array_api_compat import device

from draftverify.arrays import host_to, on_host, positive, row_of
from draftverify.randomness import Draws, array_namespace, inverse_cdf
from draftverify.rules.batch import NO_P, numbers, sound
from draftverify.rules.chains import ON_CHAINS, Blocks, ChainRule
from draftverify.token_summary import TokenSummary
from draftverify.values import Array, Decision


class _Match(ChainRule):
    """A rule that asks p alone."""

    reads_q: ClassVar[bool] = False
    at_once: ClassVar[int] = 1 << 22  # nothing large is made of the rows
    traits = replace(ON_CHAINS, laws={"given", "iid", "without_replacement"})


class GreedyMatch(_Match):
    """Keeps drafted items while they are the target's argmax (the lowest index of equals), then splices the argmax.

    Emits what the target emits at temperature 0, whatever temperature its distributions were made at, so it is exact at
    temperature 0 alone. Draws nothing. Bound: TV(π, p) = 1 − max p at each value, whatever was drafted.

    Args:
        measure_drift: whether decisions report the drift, see docs/rules.md.
    """

    def __init__(self, *, measure_drift: bool = False) -> None:
        self.measure_drift = measure_drift

    def chance(self, token: int, summary: TokenSummary) -> float:
        """How likely a recorded token is kept, once those before it are: 1 of p's likeliest, else 0."""
        return float(summary.top[0][0] == token)

    def draws(self, p: Array, rngs: Sequence[Draws], n: int) -> tuple[Array, ...]:
        return ()

    def judge_chains(self, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
        xp, block = array_namespace(batch.p), batch.places[0][:, 0]
        target_items = xp.argmax(batch.p, axis=-1)
        lengths = batch.leading(target_items[:, : batch.items.shape[1]] == batch.items)
        item = target_items[block, lengths]
        # A NaN, or inf, is what argmax finds, and of a row without mass it finds a zero. What else the row sums to
        # makes no other argmax, and would be a second look at it.
        highest, drift = batch.p[block, lengths, item], None
        item = xp.where((highest > 0) & (highest < float("inf")), item, NO_P)
        if self.measure_drift:
            likely = xp.take_along_axis(batch.p, target_items[..., None], axis=-1)[..., 0]
            drift = positive(1 - xp.astype(likely, xp.float64))
        return batch.decided(lengths, item, "not the argmax", drift)


class TokenMatch(_Match):
    """Draws y from p at every position, keeps drafted items while x = y, then splices y.

    Exact: emits the target's distribution for any generator; keeps less than speculative sampling, Σ p·q, and the same
    for a given item. The fallback of transformers for drafts without probabilities.
    """

    traits = replace(_Match.traits, exact=True)

    def chance(self, token: int, summary: TokenSummary) -> float:
        """How likely a recorded token is kept, once those before it are: p(x)."""
        return summary.p

    def draws(self, p: Array, rngs: Sequence[Draws], n: int) -> tuple[Array, ...]:
        # The few draws of a single block on the host are made when they are needed.
        return () if len(rngs) == 1 and on_host(p) else (numbers(rngs, n + 1)[0],)

    def judge_chains(self, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
        xp, block = array_namespace(batch.p), batch.places[0][:, 0]
        n, rows = batch.items.shape[1], batch.p.shape[1]
        u = batch.draws[0] if batch.draws else None
        target_items = xp.zeros((len(rngs), rows), dtype=xp.int64, device=device(batch.p))
        for step in batch.steps(rows):
            now = u[:, step] if u is not None else host_to(batch.p, [rngs[0].uniforms(range(rows)[step])])
            target_items[:, step] = inverse_cdf(batch.p[:, step], now)
            matches = target_items[:, : min(step.stop, n)] == batch.items[:, : step.stop]
            if on_host(target_items) and not xp.any(xp.all(matches, axis=-1)):
                break
        lengths = batch.leading(target_items[:, :n] == batch.items)
        item = sound(target_items[block, lengths], row_of(batch.p, block, lengths))
        return batch.decided(lengths, item, "another item was drawn")
