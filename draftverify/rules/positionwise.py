"""The template of all position-wise laws: maps from the target's p and the draft's q to π, what a position emits.

Accept the drafted x with probability min(1, π(x)/q(x)); at the first rejection emit a sample of norm((π − q)₊), and
after a block that was kept whole a bonus, a sample of p. A law states π, or the pair (a, r) that the template plays:
accept with probability min(1, a(x)/q(x)), else a sample of norm(r). Its lines are array API and serve NumPy and torch
alike; p and q are [..., V], the raw maxima [...]: the largest probabilities at temperature 1, for laws that compare
confidences.

Sources: Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318; Narasimhan et al., arXiv:2405.19261.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from array_api_compat import array_namespace

from draftverify.randomness import Draws
from draftverify.rules.arrays import host_to, positive
from draftverify.rules.batch import numbers
from draftverify.rules.chains import Blocks, ChainRule
from draftverify.rules.drift import drift_of
from draftverify.values import Array, Decision

__all__ = ["Positionwise"]


class Positionwise(ChainRule):
    """A law and the template that plays it. Subclass it with an `accept` of your own to play that.

    `p_max` and `q_max` are there for a law whose `needs` say "raw_maxima". One that does not do what it is for when q
    puts all mass on the drafted item leaves "given" out of its `laws`.

    Attributes:
        elementwise: whether a(v) depends on p(v) and q(v) alone, so that it may be computed at the drafted x only.
    """

    elementwise: ClassVar[bool] = False

    @property
    def exact(self) -> bool:
        """Whether π = p, the target's own distribution."""
        return False

    def accept(self, p: Array, q: Array, p_max: Array = None, q_max: Array = None) -> Array:
        """a: an item x drawn from q is accepted with probability min(1, a(x)/q(x)). π itself, for most laws."""
        raise NotImplementedError

    def residual(self, p: Array, q: Array, p_max: Array = None, q_max: Array = None) -> Array:
        """r [..., V]: what a rejection is replaced from, up to a factor."""
        return positive(self.accept(p, q, p_max, q_max) - q)

    def emitted(self, p: Array, q: Array, p_max: Array = None, q_max: Array = None) -> Array:
        """π [..., V], what the template emits at a drafted position: min(q, a) + (1 − Σ min(q, a)) · norm(r)."""
        xp = array_namespace(p, q)
        kept = xp.minimum(q, self.accept(p, q, p_max, q_max))
        r = self.residual(p, q, p_max, q_max)
        mass = xp.sum(r, axis=-1, keepdims=True)
        r = xp.where(mass > 0, r / xp.where(mass > 0, mass, xp.ones_like(mass)), p)
        return kept + (1 - xp.sum(kept, axis=-1, keepdims=True)) * r

    def judge_chains(self, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
        """Keep items while u·q(x) < a(x), then splice from the residual, or from p when all were kept."""
        blocks, places = batch.places
        u, v = numbers(rngs, batch.items.shape[1])
        if self.elementwise:
            p_x, q_x = batch.of_items()
            a_x = self.accept(p_x, q_x)
        else:
            p, q, *maxima = batch.rows(blocks, places)
            drafted = blocks, places, batch.items
            a_x, q_x = self.accept(p, q, *maxima)[drafted], q[drafted]
        accepted = host_to(a_x, u) * q_x < a_x
        kept = batch.leading(accepted)
        p, q, *maxima = batch.rows(blocks[:, 0], kept)  # where each block stopped
        drift = None if self.exact else drift_of(batch, kept, self.emitted)
        return batch.spliced(kept, self.residual(p, q, *maxima), p, v, drift)
