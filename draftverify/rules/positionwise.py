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

import numpy as np

from draftverify.arrays import on_host, positive
from draftverify.errors import ConfigError
from draftverify.randomness import Draws, array_namespace
from draftverify.rules.chains import Blocks, ChainRule
from draftverify.rules.drift import drift_of
from draftverify.token_summary import TokenSummary
from draftverify.values import Array, Decision


class Positionwise(ChainRule):
    """A law and the template that plays it. Subclass it with an `accept` of your own to play that.

    A law whose traits need "raw_maxima" is given p_max and q_max. One that does not do what it is for when q puts all
    mass on the drafted item leaves "given" out of its traits' laws; one with π = p, the target's own distribution, is
    exact.

    Attributes:
        measure_drift: whether decisions say how far from p each emitted value's distribution lies.
    """

    measure_drift: bool = False

    @property
    def goes_on_plainly(self) -> bool:  # type: ignore[override]
        """Whether drift is not measured, which is said of each emitted value."""
        return not self.measure_drift or self.traits.exact

    def known(self, p: Array, q: Array, p_max: Array = None, q_max: Array = None) -> tuple[Array, ...]:
        """What the law must know of a position's whole rows, [..., 1] each. Most need nothing."""
        return ()

    def accept(self, p: Array, q: Array, *statistics: Array) -> Array:
        """a: an item x drawn from q is accepted with probability min(1, a(x)/q(x)). π itself, for most laws.

        a(v) depends on p(v), q(v) and what is `known` alone, so that it is computed at the drafted x only.
        """
        raise NotImplementedError

    def residual(self, p: Array, q: Array, *statistics: Array) -> Array:
        """r [..., V]: what a rejection is replaced from, up to a factor."""
        return positive(self.accept(p, q, *statistics) - q)

    def emitted(self, p: Array, q: Array, *maxima: Array) -> Array:
        """π [..., V], what the template emits at a drafted position: min(q, a) + (1 − Σ min(q, a)) · norm(r)."""
        xp, statistics = array_namespace(p, q), self.known(p, q, *maxima)
        accepted = xp.minimum(q, self.accept(p, q, *statistics))
        r = self.residual(p, q, *statistics)
        mass = xp.sum(r, axis=-1, keepdims=True)
        r = xp.where(mass > 0, r / xp.where(mass > 0, mass, xp.ones_like(mass)), p)
        return accepted + (1 - xp.sum(accepted, axis=-1, keepdims=True)) * r

    def chance(self, token: int, summary: TokenSummary) -> float:
        """How likely a recorded token is kept, once those before it are: min(1, a(x)/q(x)).

        Raises:
            ConfigError: the law knows of whole rows, and a record keeps p and q of the token alone.
        """
        if type(self).known is not Positionwise.known:
            raise ConfigError(
                f"{type(self).__name__} compares whole distributions, and a record keeps p and q of the drafted token "
                "alone; its acceptance takes a run",
                path="rule",
            )
        ratio = float(self.accept(np.asarray([summary.p]), np.asarray([summary.q]))[0])
        return 1.0 if ratio >= summary.q else ratio / summary.q

    def judge_chains(self, batch: Blocks, rngs: Sequence[Draws]) -> list[Decision]:
        """Keep items while u·q(x) < a(x), then splice from the residual, or from p when all were kept."""
        u, v = batch.draws
        lengths = batch.leading(self._accepted(batch, u))
        drift = None if self.goes_on_plainly else drift_of(batch, lengths, self.emitted)
        return batch.spliced(
            lengths, lambda p, q, *maxima: self.residual(p, q, *self.known(p, q, *maxima)), v, drift
        )

    def _accepted(self, batch: Blocks, u: Array) -> Array:
        """[batch, n], which items are accepted; False after the first that all blocks refuse."""
        p_x, q_x = batch.of_items()
        if type(self).known is Positionwise.known:
            return u * q_x < self.accept(p_x, q_x)
        xp = array_namespace(p_x)
        accepted = xp.zeros_like(p_x, dtype=xp.bool)
        for step in batch.steps(p_x.shape[1]):
            statistics = self.known(*batch.at(step))
            a_x = self.accept(p_x[:, step, None], q_x[:, step, None], *statistics)[..., 0]
            accepted[:, step] = u[:, step] * q_x[:, step] < a_x
            if on_host(p_x) and not xp.any(xp.all(accepted[:, : step.stop], axis=-1)):
                break
        return accepted
