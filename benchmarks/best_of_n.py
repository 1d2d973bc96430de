"""How right the best-scored of n samples is, from pools of recorded ones: exactly, and up to the n that was seen.

A pool is what one problem was answered with, each sample with a score and whether it is right. Choosing the best of n
is judged over all ways to draw n of the pool, so no draw is simulated. The problems are what is sampled: intervals come
from drawing whole problems anew.

More samples give the score more chances to be fooled, so accuracy need not rise with n, and what it does beyond the n
that was seen cannot be told from below it: nothing here extrapolates.

References:
    Cobbe et al., "Training verifiers to solve math word problems", arXiv:2110.14168 (accuracy falls beyond some n).
    arXiv:2507.12399 (accuracy at high n does not follow from that at low n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from draftverify.errors import ConfigError
from draftverify.stats.intervals import Estimate, rate

__all__ = ["BestOfN", "best_of_n"]

REDRAWS = 2000
CONFIDENCE = 0.95


class BestOfN(msgspec.Struct, frozen=True):
    """Accuracy of the best-scored of n samples, for n = 1 … N, the size of the smallest pool.

    The bounds of all gains hold together with a confidence of 95 %, so an n may be chosen by looking at them.

    Args:
        accuracy: [N], the expected accuracy with n samples (the first entry is n = 1), each with a 95 % interval of its
            own.
        gain: [N − 1], the most that going from n to any seen number above it brings: the largest estimate, and
            `low` and `high`, the largest lower and upper bound.
        loss: [N − 1], the most that it costs, in the same way.
        enough: the smallest n from which more samples, up to N, bring less than `margin`; None where that cannot be
            said.
        hurts: the smallest n to which some seen number above it is worse; None where that cannot be said.
        margin: the gain that is not worth having.
    """

    accuracy: tuple[Estimate, ...]
    gain: tuple[Estimate, ...]
    loss: tuple[Estimate, ...]
    enough: int | None
    hurts: int | None
    margin: float

    def at(self, n: int) -> Estimate:
        """The accuracy with n samples.

        Raises:
            ConfigError: so many were not seen of every problem.
        """
        if not 1 <= n <= len(self.accuracy):
            raise ConfigError(
                f"accuracy with {n} samples cannot be told from pools of {len(self.accuracy)}: what more samples do is "
                "measured or unknown; record larger pools"
            )
        return self.accuracy[n - 1]


def best_of_n(
    scores: Sequence[Sequence[float]],
    right: Sequence[Sequence[float]],
    *,
    margin: float = 0.01,
) -> BestOfN:
    """Accuracy of the best-scored of n samples, and from which n more of them stop helping.

    Of a pool of N samples the one with rank r (0 the best) is the best of n drawn without replacement with probability
    C(N − 1 − r, n − 1) / C(N, n); samples with equal scores stand in random order.

    Args:
        scores: one sequence per problem, higher is better; −inf of samples that cannot be chosen; where all that
            are drawn are such, nothing is, which is not right.
        right: as long, whether each sample is right, or how far, from 0 to 1.
        margin: a gain below it is none.

    Raises:
        ConfigError: there is no problem, a pool is empty or has other lengths, a score is NaN, `right` is not from 0
            to 1, or `margin` is not between 0 and 1.
    """
    if not 0.0 < margin < 1.0:
        raise ConfigError(f"margin is {margin}; it is between 0 and 1", path="margin")
    curves = _curves(scores, right)
    problems, largest = curves.shape
    accuracy = tuple([rate(curves[:, i].tolist(), [1.0] * problems) for i in range(largest)])
    gains, lows, highs = _differences(curves)
    gain, loss = [], []
    for n in range(largest - 1):
        value, low, high = (each[n, n + 1 :] for each in (gains, lows, highs))
        gain.append(Estimate(float(value.max()), float(low.max()), float(high.max()), problems, problems))
        loss.append(Estimate(float(-value.min()), float(-high.min()), float(-low.min()), problems, problems))
    # The bounds hold for all pairs at once, so the first n that satisfies them may be taken.
    enough = next((i + 1 for i, each in enumerate(gain) if each.high < margin), None)
    hurts = next((i + 1 for i, each in enumerate(loss) if each.low > 0.0), None)
    return BestOfN(accuracy, tuple(gain), tuple(loss), enough, hurts, margin)


def _differences(curves: Any) -> tuple[Any, Any, Any]:
    """[N, N] each: what going from n (row) to m (column) brings, and its bounds, which hold for all pairs together.

    They are the wider of two: the estimate give or take the largest standardised deviation of any pair over redraws of
    the problems, which knows of the pairs; and the interval of Korn and Graubard of the share that is gained, less
    what is lost, which knows of gains that few problems show or none. No problem can gain or lose more than 1 − n/m:
    that is how often the best of m is not among the first n of them.
    """
    problems, size = curves.shape
    gains = curves.mean(0)[None, :] - curves.mean(0)[:, None]
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(problems, np.full(problems, 1.0 / problems), REDRAWS) @ curves / problems
    furthest, spread = np.zeros(REDRAWS), np.zeros_like(gains)
    for n in range(size - 1):
        off = drawn[:, n + 1 :] - drawn[:, n : n + 1] - gains[n, n + 1 :]
        spread[n, n + 1 :] = deviation = off.std(0)
        standardised = np.abs(off) / np.maximum(deviation, 1e-12)
        furthest = np.maximum(furthest, standardised.max(1))
    reach = float(np.quantile(furthest, CONFIDENCE)) * math.sqrt(problems / max(problems - 1, 1)) * spread
    low, high = gains - reach, gains + reach
    ones = [1.0] * problems
    for n in range(size):
        for m in range(n + 1, size):
            most = 1.0 - (n + 1) / (m + 1)
            change = (curves[:, m] - curves[:, n]) / most
            gained, lost = (rate(np.clip(part, 0.0, 1.0).tolist(), ones) for part in (change, -change))
            high[n, m] = max(high[n, m], most * (gained.high - lost.value))
            low[n, m] = min(low[n, m], most * (gained.value - lost.high))
    return gains, low, high


def _curves(scores: Sequence[Sequence[float]], right: Sequence[Sequence[float]]) -> Any:
    """[problems, N]: of each problem the probability that the best of n is right."""
    if not len(scores) or len(scores) != len(right):
        raise ConfigError(f"there are {len(scores)} pools of scores and {len(right)} of what is right")
    pools = [_pool(scores[i], right[i], i) for i in range(len(scores))]
    largest = min(map(len, pools))
    return np.array([[_weights(len(pool), n) @ pool for n in range(1, largest + 1)] for pool in pools])


def _pool(scores: Sequence[float], right: Sequence[float], index: int) -> Any:
    """What is right of a pool, the best-scored first; equal scores share theirs."""
    values, rights = np.asarray(scores, dtype=float), np.asarray(right, dtype=float)
    if values.ndim != 1 or values.shape != rights.shape or not len(values):
        raise ConfigError(
            f"pool {index} should have a score and a right or wrong of each sample, and at least one"
        )
    if np.isnan(values).any():
        raise ConfigError(f"pool {index} has a score that is NaN; samples that cannot be chosen have −inf")
    if not ((rights >= 0.0) & (rights <= 1.0)).all():
        raise ConfigError(f"pool {index}: whether a sample is right is said from 0 to 1")
    _, place = np.unique(-values, return_inverse=True)
    rights = np.where(values == -np.inf, 0.0, rights)  # where all drawn are such, nothing is chosen
    shared = np.bincount(place, rights) / np.bincount(place)
    return shared[np.sort(place)]


def _weights(size: int, n: int) -> Any:
    """[size]: with what probability each rank is the best of n."""
    return np.array([math.comb(size - 1 - rank, n - 1) / math.comb(size, n) for rank in range(size)])
