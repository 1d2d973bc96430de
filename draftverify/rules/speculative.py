"""Speculative sampling: emits the target's own distribution.

Sources: Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318.
"""

from __future__ import annotations

from dataclasses import replace

from draftverify.rules.chains import ON_CHAINS
from draftverify.rules.positionwise import Positionwise
from draftverify.values import Array


class Speculative(Positionwise):
    """Speculative sampling: emits the target's distribution, keeping a drafted x with probability min(1, p(x)/q(x)).

    A refused x is replaced by a sample of norm((p − q)₊); a block that is kept whole is followed by one of p. A given
    item is kept with probability p(x), and replaced from p with x struck out. Exact: π = p; accepts with probability
    Σ min(p, q) = 1 − TV(p, q).

    References:
        Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318.
    """

    traits = replace(ON_CHAINS, exact=True)

    def accept(self, p: Array, q: Array, *statistics: Array) -> Array:
        return p
