"""Speculative cascades: the draft's own distribution where it is confident enough, the target's elsewhere.

Chow, Diff and OPT choose for a whole position: they compare maxima at temperature 1, and move between q and p as they
are sampled from. The token-wise ones choose item by item. TV(p, q) = Σ (q − p)₊.

Source: Narasimhan et al., "Faster Cascades via Speculative Decoding", arXiv:2405.19261.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from draftverify.arrays import positive
from draftverify.errors import ConfigError
from draftverify.randomness import array_namespace
from draftverify.rules.bounds import between
from draftverify.rules.chains import ON_CHAINS
from draftverify.rules.positionwise import Positionwise
from draftverify.traits import RuleTraits
from draftverify.values import Array, LawKind

CascadeKind: TypeAlias = Literal["chow", "diff", "opt", "token_v1", "token_v2", "token_v3"]


class Cascade(Positionwise):
    """A speculative cascade: the draft's own distribution where it is confident enough, the target's elsewhere.

    chow, diff and opt choose for a whole position, and need the raw maxima of both models; token_v1, token_v2 and
    token_v3 choose item by item. chow, diff, opt and token_v1 do not take the law "given": they ask how sure the
    draft is, and a given item counts as wholly sure, so each would be kept.

    Bound: for chow, diff and opt TV(π, p) is TV(p, q) where π is q, else 0; for the others it is at most Σ q·a, with a
    the items that are kept.

        chow      π = q if max q ≥ 1 − α else p
        diff      π = q if max q ≥ max p − α else p
        opt       π = q if max q ≥ max p − α·TV(p, q) else p; TV is of the distributions that are sampled from
        token_v1  π = q·a + (1 − Σ q·a)·p, a(v) = [q(v) ≥ max p − α]
        token_v2  the same, a(v) = [p(v) ≥ max p − α]
        token_v3  the same, a(v) = [p(v) ≥ (1 − α)·max p]; at α = 0 it still keeps the drafts that are p's argmax, so
                  above temperature 0 it is not speculative sampling

    Args:
        kind: which law.
        alpha: the price of deferring to the target; larger keeps more. At −1 token_v1 and token_v2 emit p.
        measure_drift: whether decisions report the drift, see docs/rules.md.

    References:
        Narasimhan et al., "Faster Cascades via Speculative Decoding", arXiv:2405.19261.
    """

    def __init__(self, kind: CascadeKind, alpha: float, *, measure_drift: bool = False) -> None:
        self.measure_drift = measure_drift
        if kind not in get_args(CascadeKind):
            raise ConfigError(
                f"{kind!r} is no cascade; one of {', '.join(get_args(CascadeKind))} is", path="kind"
            )
        self.kind = kind
        self.alpha = between("alpha", alpha, -1, 1)

    @cached_property
    def traits(self) -> RuleTraits:
        """What the kind of cascade needs and takes."""
        # The others would keep every item on which q puts all its mass, since max q = 1: not a decision.
        laws: set[LawKind] = {"given", "iid"} if self.kind in ("token_v2", "token_v3") else {"iid"}
        whole = self.kind in ("chow", "diff", "opt")
        return replace(ON_CHAINS, laws=laws, needs={"target", "raw_maxima"} if whole else {"target"})

    def known(self, p: Array, q: Array, p_max: Array = None, q_max: Array = None) -> tuple[Array, ...]:
        """Whether the draft's own item stands; or the least probability that is kept, and 1 − Σ q·a."""
        xp = array_namespace(p, q)
        if self.kind in ("chow", "diff", "opt"):
            return ((q_max >= self._sure(p, q, p_max))[..., None],)
        top = xp.max(p, axis=-1, keepdims=True)
        least = (1 - self.alpha) * top if self.kind == "token_v3" else top - self.alpha
        return least, 1 - xp.sum(q * self._keeps(p, q, least), axis=-1, keepdims=True)

    def accept(self, p: Array, q: Array, *statistics: Array) -> Array:
        if self.kind in ("chow", "diff", "opt"):
            return array_namespace(p, q).where(statistics[0], q, p)
        least, deferred = statistics
        return q * self._keeps(p, q, least) + deferred * p

    def _sure(self, p: Array, q: Array, p_max: Array) -> Array:
        """[...], the max q from which on the draft's own item stands."""
        if self.kind == "chow":
            return 1 - self.alpha
        if self.kind == "diff":
            return p_max - self.alpha
        return p_max - self.alpha * array_namespace(p, q).sum(positive(q - p), axis=-1)

    def _keeps(self, p: Array, q: Array, least: Array) -> Array:
        """a [..., V], of the least [..., 1] probability that is kept."""
        return (q if self.kind == "token_v1" else p) >= least
