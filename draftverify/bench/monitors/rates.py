"""Whether a rate is still what it was: one test that may be looked at after every observation.

The evidence is a wealth: what gamblers who bet against "the rate has not changed" would have. It is fair under that
hypothesis, so it ever reaches 1/level with probability level at most, however often it is looked at (Ville).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from draftverify.errors import ConfigError

FINE = 120
"""Shares are counted in 120ths: exactly those of 1 to 6, 8, 10 or 12 items, others as the two 120ths beside them."""
BETS, LOCAL, SPREAD = 50, 16, 1.5
"""Alternatives of the rate now; those of the rate before, around each null; how far these lie, in standard errors."""
GAP = 8
"""A gambler begins after 0, 8, 32, 72, … observations (8·j²)."""
GRIDS, EDGE = (65, 17, 17), 1e-3
"""The least is searched on grids of angles, each within the best place of the one before; EDGE is off both ends."""


class RateMonitor:
    """Watches a rate that was known, or estimated from earlier observations, and alarms when it has changed.

    An observation is a number in [0, 1]: one item's hit or miss, or the share of hits in a batch. A batch is one
    observation, so its items may depend on each other in any way. What is assumed: the batches of the reference and
    those observed come from the same tasks in an order that says nothing about them, so that, unchanged, each has the
    same mean whatever was seen before.

    Half of the level, α, goes to an interval of the rate before (Clopper and Pearson's), half to a bet against every
    rate p in it, whose stake is the larger the less the reference speaks for p. Against "the rate is p" the alternative
    q wins l(y) = y·q/p + (1 − y)·(1 − q)/(1 − p), whose mean is 1 under p. What is observed up to now is y_1 … y_t.
    Gambler j = 1, 2, … begins at s = 8·(j − 1)²:

        E_j(p) = ∫ ∏_{i ≤ s} l(y_i; q) dπ(q) · ∫ ∏_{s < i ≤ t} l(y_i; r) dρ(r)
        E(p)   = Σ_j E_j(p) / (j·(j + 1)) / (P(p)·log(1/α))
        log E  = min of log E(p) over p in the interval, where the reference's p-value P(p) is above α

    So a gambler bets that the rate was q until s and is r since. ρ is uniform on either side of p, each with half of
    the weight. π lies around p, as far as s observations can tell two rates apart: its angle (the rate is its sine
    squared) is p's plus 1.5·C / (2·√s), where C is Cauchy's. That far and no further costs the gambler the same few
    tenths whatever s is; a uniform π would cost ½·log s, and make the monitor blind in a long run. Each integral is a
    sum over a few points.

    It is valid: for each p the prior is there before the data, so both integrals are martingales of mean 1 under p, and
    so is their product; the stakes sum to 1, and 1 / (P·log(1/α)) has the mean 1 over P from α to 1. The true p is
    outside the interval with probability α at most, and else among those of which the least counts. An alarm is E ≥
    1/α. To drop a gambler only lessens E: of old ones a few are kept, ever fewer the older they are.

    A reference of other shares than hits and misses has no such P: the interval is that of all rates, the whole level
    goes to the bet, and the reference is part of what is bet on before s. For a known rate it is one point, and nothing
    is bet before s.

    An estimated rate is no known one: a long enough run is bound to differ from an estimate. What the
    run itself tells of the rate before s makes up for a wide interval, as far as it goes.

    Args:
        reference: the known rate, strictly between 0 and 1, or the earlier observations.
        level: the probability of ever alarming when nothing has changed, at most.

    References:
        Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024).
        Shin, Ramdas and Rinaldo, E-detectors, New England Journal of Statistics in Data Science 2 (2024): gamblers who
        begin one after the other.
    """

    def __init__(self, reference: float | Sequence[float], *, level: float = 0.05) -> None:
        if not 0.0 < level < 1.0:
            raise ConfigError(f"a level lies between 0 and 1, not at {level}")
        self.count = 0
        """Observations so far."""
        self.total = 0.0
        """Their sum."""
        self.alarmed = False
        known_rate: float | None = None
        reference_counts = np.zeros(FINE + 1)
        if isinstance(reference, (int, float)):
            if not 0.0 < reference < 1.0:
                raise ConfigError(f"a known rate lies strictly between 0 and 1, not at {reference}")
            known_rate = float(reference)
        else:
            shares = np.array([_checked(share) for share in reference])
            if not len(shares):
                raise ConfigError("a reference without observations says nothing of a rate")
            reference_counts = _counted(shares, FINE).sum(axis=0)
        self._wealth = Wealth(reference_counts[None], known_rate=known_rate, level=level)
        self.threshold = self._wealth.threshold
        """The evidence from which it alarms."""

    def observe(self, share: float) -> bool:
        """Take one observation; says whether the rate has changed. Once it did, it did.

        Raises:
            ConfigError: the observation is not in [0, 1].
        """
        self.alarmed = bool(self._wealth.observe(np.array([_checked(share)]))[0])
        self.count += 1
        self.total += share
        return self.alarmed

    @property
    def evidence(self) -> float:
        """The logarithm of the least wealth over the rates that "unchanged" may mean."""
        return self._wealth.least(0)


class Earlier(NamedTuple):
    """Earlier hits and misses in many runs at once, and what they say of the rate by the binomial.

    Args:
        hits: [runs] how many.
        of: [runs] of how many observations.
    """

    hits: Any
    of: Any

    def p_values(self, rates: Any, runs: Any) -> Any:
        """[n] two-sided p-values of some runs, [n], each of a rate of its own."""
        from scipy.special import betainc

        hits, misses = self.hits[runs], self.of[runs] - self.hits[runs]
        at_most = np.where(misses > 0, betainc(np.maximum(misses, 1.0), hits + 1.0, 1.0 - rates), 1.0)
        at_least = np.where(hits > 0, betainc(np.maximum(hits, 1.0), misses + 1.0, rates), 1.0)
        return np.minimum(1.0, 2.0 * np.minimum(at_most, at_least))

    def ends(self, level: float) -> Any:
        """[2, runs] the intervals of Clopper and Pearson that miss the rate with probability `level` at most."""
        from scipy.special import betaincinv

        misses = self.of - self.hits
        low = betaincinv(np.maximum(self.hits, 1.0), misses + 1.0, level / 2.0)
        high = betaincinv(self.hits + 1.0, np.maximum(misses, 1.0), 1.0 - level / 2.0)
        return np.stack([np.where(self.hits > 0, low, 0.0), np.where(misses > 0, high, 1.0)])


class Wealth:
    """The wealth of the gamblers of `RateMonitor`, in many runs at once.

    Args:
        reference_counts: [runs, values] how often each run's reference had each of the values 0, 1/n, 2/n, … 1. An
            observation between two of them is counted as a part of each. That lessens its winnings, if anything, since
            l is linear and the logarithm concave.
        known_rate: that of all runs, where it is known; then the references are empty.
        level: as of `RateMonitor`.
    """

    def __init__(
        self, reference_counts: Any, *, known_rate: float | None = None, level: float = 0.05
    ) -> None:
        runs, values = reference_counts.shape
        self._known = known_rate is not None
        self._earlier: Earlier | None = None
        self._all = np.array(reference_counts, dtype=float)
        ends = np.full((2, runs), known_rate) if self._known else np.repeat([[0.0], [1.0]], runs, axis=1)
        if not self._known and not self._all[:, 1:-1].any():
            level /= 2.0
            self._earlier = Earlier(self._all[:, -1], self._all.sum(axis=1))
            ends = self._earlier.ends(level)
            self._all = np.zeros_like(self._all)
        self._ends = _inside(np.arcsin(np.sqrt(ends)))
        self.threshold = -math.log(level)
        """The logarithm of the wealth from which a run alarms."""
        self.alarmed = np.zeros(runs, dtype=bool)
        """[runs] which have alarmed."""
        self._values = np.linspace(0.0, 1.0, values)
        self._steps = self._begun = 0
        # Of the gamblers that are kept: their numbers, from 0, and what there was until they began.
        self._numbers = np.zeros(0, dtype=int)
        self._until = np.zeros((0, *self._all.shape))
        self._local = SPREAD * np.tan(math.pi * ((np.arange(LOCAL) + 0.5) / LOCAL - 0.5))
        self._begin()

    def observe(self, shares: Any) -> Any:
        """Take one observation of each run, [runs]; gives which have alarmed by now, [runs]."""
        self._all += _counted(shares, len(self._values) - 1)
        self._steps += 1
        live = np.flatnonzero(~self.alarmed)
        if len(live):
            # One rate is enough to see that the least is too small; that of all observations is near the least's own.
            hits, of = self._all[live] @ self._values, self._all[live].sum(axis=1)
            if self._earlier is not None:
                hits, of = hits + self._earlier.hits[live], of + self._earlier.of[live]
            near = np.clip(np.arcsin(np.sqrt(hits / of)), *self._ends[:, live])
            over = live[self.against(near, live) >= self.threshold]
            self.alarmed[over] = [self.least(run) >= self.threshold for run in over]
        if self._steps >= GAP * self._begun**2:
            self._begin()
        return self.alarmed

    def least(self, run: int) -> float:
        """The logarithm of a run's least wealth over the rates that "unchanged" may mean."""
        low, high = self._ends[:, run]
        least = math.inf
        for size in GRIDS if low < high else (1,):
            angles = np.linspace(low, high, size)
            wealth = self.against(angles, np.full(size, run))
            at = int(wealth.argmin())
            least = min(least, float(wealth[at]))
            low, high = angles[max(at - 1, 0)], angles[min(at + 1, size - 1)]
        return least

    def against(self, angles: Any, runs: Any) -> Any:
        """The logarithm of the wealth of some runs, [n], each against a rate of its own.

        Args:
            angles: [n], whose sines squared are the rates.
            runs: [n], which.
        """
        reached = self._all[runs].any(axis=0)
        values, until = self._values[reached], self._until[:, runs][..., reached]
        p = np.sin(angles) ** 2
        since = (self._all[runs][:, reached] - until).transpose(1, 2, 0)
        bets, weights = _bets(angles)
        now = (_won(values, bets, p[:, None]) @ since).transpose(2, 0, 1)
        shares = np.log((self._numbers + 1.0) * (self._numbers + 2.0))
        playing = _log_sum(now + weights) - shares[:, None]
        if not self._known:
            errors = 0.5 / np.sqrt(np.maximum(until.sum(axis=-1), 1.0))
            q = np.sin(_inside(angles[:, None] + errors[..., None] * self._local)) ** 2
            playing += _log_sum((_won(values, q, p[:, None]) @ until[..., None])[..., 0]) - math.log(LOCAL)
        if self._earlier is not None:
            playing -= np.log(np.maximum(self._earlier.p_values(p, runs), 1e-300) * self.threshold)
        return _log_sum(playing.T)

    def _begin(self) -> None:
        """One more gambler begins; of those 4 to 7 places before it each second is kept, 8 to 15 each fourth."""
        numbers = np.append(self._numbers, self._begun)
        apart = [1 << max(0, int(age).bit_length() - 2) for age in self._begun - numbers]
        keep = numbers % apart == 0
        self._numbers = numbers[keep]
        self._until = np.concatenate([self._until, self._all[None]])[keep]
        self._begun += 1


def _bets(angles: Any) -> tuple[Any, Any]:
    """What the rate may be now where it was that of an angle, and the logarithms of their weights, both [n, BETS].

    Evenly spaced angles are as far from each other as data can tell; the weights make r uniform on either side."""
    steps = (np.arange(BETS // 2) + 0.5) / (BETS // 2)
    sides = np.stack([angles[:, None] * steps, math.pi / 2 - (math.pi / 2 - angles)[:, None] * steps], axis=1)
    weights = np.sin(2.0 * sides)
    weights /= 2.0 * weights.sum(axis=-1, keepdims=True)
    shape = len(angles), BETS // 2 * 2
    return np.sin(sides).reshape(shape) ** 2, np.log(weights).reshape(shape)


def _won(values: Any, q: Any, p: Any) -> Any:
    """The logarithm of what a bet wins on each value, [..., alternatives, values]."""
    return np.log((q / p)[..., None] * values + ((1.0 - q) / (1.0 - p))[..., None] * (1.0 - values))


def _log_sum(terms: Any) -> Any:
    """The logarithm of the sum over the last axis."""
    most = terms.max(axis=-1)
    return most + np.log(np.exp(terms - most[..., None]).sum(axis=-1))


def _inside(angles: Any) -> Any:
    return np.clip(angles, EDGE, math.pi / 2 - EDGE)


def _counted(shares: Any, fine: int) -> Any:
    """Shares as counts of 0, 1/fine, 2/fine, … 1: [..., fine + 1], which sum to 1 and have the share as their mean."""
    return np.maximum(0.0, 1.0 - np.abs(shares[..., None] * fine - np.arange(fine + 1.0)))


def _checked(share: float) -> float:
    if not 0.0 <= share <= 1.0:
        raise ConfigError(f"an observation is a hit, a miss or a share of hits, in [0, 1], not {share}")
    return float(share)
