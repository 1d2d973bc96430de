"""Whether a rate is still what it was: one test that may be looked at after every observation.

The evidence is a wealth: what a gambler who bets against "the rate has not changed" would have. It is fair under that
hypothesis, so it ever reaches 1/level with probability level at most, however often it is looked at (Ville).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from draftverify.errors import ConfigError

__all__ = ["RateMonitor"]

BETS, NULLS, SEARCH = 50, 65, 1001
"""Alternatives that are bet on; rates that "unchanged" may mean; rates tried to find where those lie."""
FIRST = 8
"""Observations after which new alternatives are taken first; then after twice as many, and so on."""
OUTSIDE = 0.05
"""The share of the level that is spent on the true rate not being among the rates considered."""


class RateMonitor:
    """Watches a rate that was known, or estimated from a calibration, and alarms when it has changed.

    An observation is a number in [0, 1]: one item's hit or miss, or the share of hits in a batch. A batch is one
    observation, so its items may depend on each other in any way. What is assumed: the batches of the calibration and
    those observed come from the same tasks in an order that says nothing about them, so that, unchanged, each has the
    same mean whatever was seen before.

    For a known rate p and an alternative q the wealth is multiplied by y·q/p + (1 − y)·(1 − q)/(1 − p), and the
    alternatives are mixed uniformly. For single items this is the Beta mixture,
    log M = betaln(k + 1, t − k + 1) − k·log p − (t − k)·log(1 − p).

    An estimated rate is no known one: a long enough run is bound to differ from an estimate. So every rate p that
    "unchanged" may mean has a wealth of its own, made on the calibration too, and the alarm comes when the least of
    them is large. Rates that the calibration alone refutes (at a twentieth of the level) are left out. The wealth is
    shared out to gamblers who take new alternatives at the first observation, after 8, after 16, after 32, …: one of
    them then has the old rate from all that came before, however short the calibration was. A change that comes sooner
    is seen as far as the calibration can tell the two rates apart, and no further.

    Args:
        reference: the known rate, strictly between 0 and 1, or the calibration's observations.
        level: the probability of ever alarming when nothing has changed, at most.

    References:
        Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024).
    """

    def __init__(self, reference: float | Sequence[float], *, level: float = 0.05) -> None:
        if not 0.0 < level < 1.0:
            raise ConfigError(f"a level lies between 0 and 1, not at {level}")
        self.level = level
        self.count = 0
        """Observations so far."""
        self.total = 0.0
        """Their sum."""
        self.alarmed = False
        self.threshold = -math.log(level)
        """The evidence from which it alarms."""
        angles = (np.arange(BETS) + 0.5) * (math.pi / 2 / BETS)
        # Evenly spaced angles are as far from each other as data can tell; the weights make q uniform.
        self._bets = np.sin(angles) ** 2
        self._weights = np.log(np.sin(2.0 * angles) / np.sin(2.0 * angles).sum())
        self._known = isinstance(reference, (int, float))
        if isinstance(reference, (int, float)):
            if not 0.0 < reference < 1.0:
                raise ConfigError(f"a known rate lies strictly between 0 and 1, not at {reference}")
            self._nulls, seen = np.array([float(reference)]), []
        else:
            seen = [_checked(share) for share in reference]
            if not seen:
                raise ConfigError("a calibration without observations says nothing of a rate")
            every = (np.arange(SEARCH) + 0.5) * (math.pi / 2 / SEARCH)
            refuted = self._mixed(self._played(np.sin(every) ** 2, seen)) >= -math.log(OUTSIDE * level)
            inside = every[~refuted]
            self._nulls = np.sin(np.linspace(inside[0], inside[-1], NULLS)) ** 2
            self.threshold = -math.log((1.0 - OUTSIDE) * level)
        self._all = self._played(self._nulls, seen)
        # Of each gambler who took new alternatives: the wealth that it had then, and what each has made of it.
        self._before = np.zeros((0, len(self._nulls)))
        self._since = np.zeros((0, *self._all.shape))
        self._again()

    def observe(self, share: float) -> bool:
        """Take one observation; says whether the rate has changed. Once it did, it did.

        Raises:
            ConfigError: the observation is not in [0, 1].
        """
        won = self._won(self._nulls, _checked(share))
        self._all += won
        self._since += won
        self.count += 1
        self.total += share
        self.alarmed = self.alarmed or self.evidence >= self.threshold
        if not self._known and self.count >= FIRST << (len(self._before) - 1):
            self._again()
        return self.alarmed

    @property
    def evidence(self) -> float:
        """The logarithm of the least wealth over the rates that "unchanged" may mean."""
        if self._known:
            return float(self._mixed(self._all)[0])
        places = np.arange(1.0, len(self._before) + 1.0)
        shares = -np.log(places * (places + 1.0))  # which sum to 1 with those who are yet to take new ones
        waiting = self._mixed(self._all) - math.log(places[-1] + 1.0)
        playing = self._before + self._mixed(self._since) + shares[:, None]
        against = np.logaddexp.reduce(np.vstack([playing, waiting]), axis=0)
        at = int(against.argmin())
        least = float(against[at])
        if 0 < at < len(against) - 1:
            # The rates are a grid; between two of them the least value is that of the parabola through three.
            left, right = float(against[at - 1]), float(against[at + 1])
            bend = left - 2.0 * least + right
            least -= (right - left) ** 2 / (8.0 * bend) if bend > 0.0 else 0.0
        return least

    def _again(self) -> None:
        """One more gambler takes new alternatives from here on."""
        self._before = np.vstack([self._before, self._mixed(self._all)])
        self._since = np.concatenate([self._since, np.zeros((1, *self._all.shape))])

    def _won(self, nulls: Any, share: float) -> Any:
        """What an observation adds to the logarithm of the wealth: [nulls, alternatives]."""
        p = nulls[:, None]
        return np.log(share * (self._bets / p) + (1.0 - share) * ((1.0 - self._bets) / (1.0 - p)))

    def _played(self, nulls: Any, shares: Sequence[float]) -> Any:
        wealth = np.zeros((len(nulls), BETS))
        for share in shares:
            wealth += self._won(nulls, share)
        return wealth

    def _mixed(self, wealth: Any) -> Any:
        """The logarithm of the wealth over all alternatives: [..., nulls]."""
        weighted = wealth + self._weights
        most = weighted.max(axis=-1)
        return most + np.log(np.exp(weighted - most[..., None]).sum(axis=-1))


def _checked(share: float) -> float:
    if not 0.0 <= share <= 1.0:
        raise ConfigError(f"an observation is a hit, a miss or a share of hits, in [0, 1], not {share}")
    return float(share)
